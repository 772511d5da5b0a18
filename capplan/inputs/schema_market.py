"""Tables about what can be had and what is already signed: machines, offers, contracts, sites and limits."""

from __future__ import annotations

import pandas as pd

from capplan.inputs.columns import Table, column, order_rule
from capplan.units import QUARTER_PATTERN

TERMS = ["on_demand", "spot", "reserved_1y", "reserved_3y", "savings_plan_1y", "savings_plan_3y", "capacity_block", "owned", "lease"]
DISCOUNTS = ["units", "usd_per_hour", "none"]
LIMIT_KINDS = [
    "on_demand_accelerators",
    "spot_accelerators",
    "spot_share",
    "quota_accelerators",
    "new_accelerators",
    "power_kw",
    "budget_usd",
    "provider_share",
]
MEASURES = ["p_and_l", "cash", "capex"]
REGION = "Where: a geography (us, eu, apac, ...), a provider's own region, or any."


class Sources(Table):
    """Where a fact comes from."""

    source_id: str = column("Short name of the source.", key=True)
    title: str = column("Title of the paper, page, file or price list.")
    where_found: str = column("Publisher, repository and commit, or document number; enough to find it again.")
    retrieved_on: pd.Timestamp = column("Day on which the figure was read.")
    licence: str = column("Licence the source states.", optional=True, default="not stated")


class Accelerators(Table):
    """A kind of accelerator."""

    accelerator: str = column("Name of the accelerator, as skus and speeds use it.", key=True)
    vendor: str = column("Who makes it.")
    memory_gib: float = column("Memory of one accelerator.", unit="GiB", gt=0)
    memory_bandwidth_gbps: float = column("Memory bandwidth.", unit="GB/s", gt=0)
    bf16_tflops: float = column("Peak dense bf16 rate, without sparsity.", unit="TFLOP/s", gt=0)
    fp8_tflops: float = column("Peak dense 8-bit floating point rate, where the accelerator has one.", unit="TFLOP/s", optional=True, gt=0)
    fp4_tflops: float = column("Peak dense 4-bit floating point rate, where the accelerator has one.", unit="TFLOP/s", optional=True, gt=0)
    power_w: float = column("Board power at full load.", unit="W", gt=0)
    link_gbps: float = column(
        "Bandwidth of the fast links to its neighbours, both directions together; empty where there are none.",
        unit="GB/s",
        optional=True,
        gt=0,
    )
    as_of: pd.Timestamp = column("Day the figures held.")
    source_id: str = column("Source of the row.", refers="sources.source_id")


class Skus(Table):
    """A machine one can have."""

    sku: str = column("Name of the machine type.", key=True)
    provider: str = column("Who sells or makes it (aws, gcp, azure, lambda, ...; own for machines one buys).")
    accelerator: str = column("Accelerator in it.", refers="accelerators.accelerator")
    accelerator_count: int = column("Accelerators in one machine.", ge=1)
    vcpus: float = column("Virtual CPUs.", optional=True, gt=0)
    memory_gib: float = column("Main memory.", unit="GiB", optional=True, gt=0)
    local_ssd_gib: float = column("Local flash storage.", unit="GiB", optional=True, ge=0)
    network_gbps: float = column("Network bandwidth.", unit="Gbit/s", optional=True, gt=0)
    network_source_id: str = column("Source of the network bandwidth, where it is not that of the row.", optional=True, refers="sources.source_id")
    power_kw: float = column("Power of the whole machine at full load; needed for owned machines.", unit="kW", optional=True, gt=0)
    source_id: str = column("Source of the row.", refers="sources.source_id")


class Offers(Table):
    """A way to get a machine: one price on one set of terms."""

    offer_id: str = column("Name of the offer.", key=True)
    sku: str = column("Machine it gives or discounts.", refers="skus.sku")
    region: str = column("Provider's own name of the region (or site).")
    geography: str = column("Part of the world the region lies in (us, eu, apac, ...), as demand names it.")
    term: str = column("Kind of contract.", isin=TERMS)
    term_months: float = column(
        "Length of the contract; follows from the term for 1 and 3 years, stated for leases, capacity blocks and owned machines.",
        unit="months",
        optional=True,
        gt=0,
        le=1200,
    )
    usd_per_hour: float = column(
        "List price of one machine for one hour, without any upfront part taken off; for owned machines 0.", unit="USD/h", ge=0
    )
    negotiated_usd_per_hour: float = column("Price that was quoted to this company, where there is one.", unit="USD/h", optional=True, ge=0)
    quote_expires: pd.Timestamp = column("Last day on which the quote can be accepted.", optional=True)
    upfront_share: float = column("Share of the contract's price that is paid at signing.", optional=True, default=0.0, ge=0, le=1)
    capex_usd: float = column("Purchase price of one machine, for owned machines.", unit="USD", optional=True, gt=0)
    lot_machines: int = column("Machines in one lot; purchases are whole lots.", optional=True, default=1, ge=1)
    minimum_lots: int = column("Fewest lots in one purchase.", optional=True, default=0, ge=0)
    maximum_lots: float = column("Most lots in one quarter; empty for no cap.", optional=True, ge=0)
    lead_time_days_p50: float = column("Days from signing to delivery, median.", unit="days", optional=True, default=0.0, ge=0)
    lead_time_days_p90: float = column("Days from signing to delivery, 90th percentile.", unit="days", optional=True, ge=0)
    lead_time_source_id: str = column(
        "Source of the lead times, where it is not that of the price.", optional=True, refers="sources.source_id"
    )
    available_from: pd.Timestamp = column("First day of a booking window or capacity block.", optional=True)
    available_to: pd.Timestamp = column("Last day of a booking window or capacity block.", optional=True)
    discounts: str = column(
        "What the contract pays for: machines (units), dollars an hour at plan rates (usd_per_hour), or nothing (none).",
        optional=True,
        default="none",
        isin=DISCOUNTS,
    )
    plan_id: str = column(
        "Offers with one plan_id are the plan rates of one savings plan and draw on the same dollars an hour.", optional=True
    )
    guarantees_capacity: bool = column(
        "Is the machine surely there, or does the contract only make it cheaper?", optional=True, default=False
    )
    interruptions_per_hour: float = column("Expected interruptions of one machine in an hour (spot).", unit="1/h", optional=True, ge=0)
    available_share: float = column(
        "Share of the machines asked for on demand that are had; empty = the scenario's. What is asked for is capped, what is had is paid.",
        optional=True, gt=0, le=1,
    )  # fmt: skip
    as_of: pd.Timestamp = column("Day the price held.")
    source_id: str = column("Source of the price.", refers="sources.source_id")

    lead_times = order_rule("lead_time_days_p50", "lead_time_days_p90")
    window = order_rule("available_from", "available_to")


class OfferTiers(Table):
    """A lower price of an offer for a larger purchase; it holds for all lots of the purchase."""

    offer_id: str = column("Offer it belongs to.", refers="offers.offer_id", key=True)
    from_lots: int = column("Fewest lots bought for one start that have this price.", key=True, ge=2)
    usd_per_hour: float = column("Price of one machine for one hour, without any upfront part taken off.", unit="USD/h", gt=0)
    source_id: str = column("Source of the price.", optional=True, refers="sources.source_id")


class Commitments(Table):
    """A contract already signed."""

    commitment_id: str = column("Name of the contract.", key=True)
    sku: str = column("Machine it gives or discounts.", refers="skus.sku")
    region: str = column(REGION)
    term: str = column("Kind of contract.", isin=TERMS)
    machines: float = column("Machines under contract; for dollar plans the machines that the plan's dollars buy at plan rates.", gt=0)
    usd_per_hour: float = column("Price of one machine for one hour over the whole term, upfront part included.", unit="USD/h", ge=0)
    start: pd.Timestamp = column("First day of service.")
    end: pd.Timestamp = column("Last day of service.")
    notice_date: pd.Timestamp = column("Last day to give notice; after it the contract renews or the exit right is gone.", optional=True)
    renews: bool = column("Does it renew by itself unless notice is given?", optional=True, default=False)
    renewal_usd_per_hour: float = column(
        "Price of one machine for one hour if it is renewed for the same term.", unit="USD/h", optional=True, ge=0
    )
    exit_cost_share: float = column(
        "Share of the remaining payments due if it is ended early; 1 = no exit right.", optional=True, default=1.0, ge=0, le=1
    )
    upfront_paid_usd: float = column("Already paid at signing.", unit="USD", optional=True, default=0.0, ge=0)
    discounts: str = column("What the contract pays for: units, usd_per_hour or none.", optional=True, default="units", isin=DISCOUNTS)
    guarantees_capacity: bool = column("Is the machine surely there?", optional=True, default=True)
    team: str = column("Team that bears the cost; empty for shared.", optional=True, default="shared")
    cost_center: str = column("Cost centre it is booked to.", optional=True, default="shared")

    dates = order_rule("start", "end")
    notice = order_rule("notice_date", "end")


class Payments(Table):
    """One payment of a contract's schedule, where it is not monthly in arrears."""

    commitment_id: str = column("Contract it belongs to.", refers="commitments.commitment_id", key=True)
    date: pd.Timestamp = column("Day it is due.", key=True)
    usd: float = column("Amount.", unit="USD")


class SpendAgreements(Table):
    """A commitment to spend a sum with a provider; one row a contract year."""

    agreement_id: str = column("Name of the agreement.", key=True)
    provider: str = column("Provider it is with.")
    start: pd.Timestamp = column("First day of the contract year.", key=True)
    end: pd.Timestamp = column("Last day of the contract year.")
    committed_usd: float = column("Sum to be spent in the year.", unit="USD", ge=0)
    discount_share: float = column("Discount on eligible charges.", optional=True, default=0.0, ge=0, lt=1)
    drawn_usd: float = column("Already spent in the year.", unit="USD", optional=True, default=0.0, ge=0)
    rolls_over: bool = column("Does an unspent rest move to the next year, or is it paid as shortfall?", optional=True, default=False)

    dates = order_rule("start", "end")


class Sites(Table):
    """A room and the power in it."""

    site: str = column("Name of the site, as assets and owned offers name their region.", key=True)
    geography: str = column("Part of the world it lies in.")
    available_kw: float = column("Power that can be drawn for machines, before cooling.", unit="kW", ge=0)
    committed_kw: float = column("Power that is paid for in any case.", unit="kW", optional=True, default=0.0, ge=0)
    usd_per_kw_month: float = column("Price of a committed kilowatt with its space.", unit="USD/kW/month", optional=True, default=0.0, ge=0)
    pue: float = column("Power usage effectiveness: power drawn by the room over power drawn by the machines.", ge=1, le=3)
    usd_per_kwh: float = column("Price of electricity.", unit="USD/kWh", ge=0)
    escalator_share_per_year: float = column("Yearly rise of both prices.", optional=True, default=0.0, ge=-0.5, le=0.5)
    end: pd.Timestamp = column("Last day of the site's contract.", optional=True)
    source_id: str = column("Source of the row.", optional=True, refers="sources.source_id")


class Assets(Table):
    """Machines owned."""

    asset_id: str = column("Name of the lot.", key=True)
    sku: str = column("Machine type.", refers="skus.sku")
    site: str = column("Where it stands.", refers="sites.site")
    machines: int = column("Machines in the lot.", ge=1)
    in_service: pd.Timestamp = column("First day of service.")
    capex_usd: float = column("Price paid for the whole lot.", unit="USD", ge=0)
    useful_life_years: float = column(
        "Years of straight-line depreciation; empty = the scenario's.", unit="years", optional=True, gt=0, le=15
    )
    residual_share: float = column("Share of the price that is left at the end of the useful life.", optional=True, default=0.0, ge=0, lt=1)
    support_usd_per_year: float = column("Support and maintenance of the whole lot.", unit="USD/year", optional=True, default=0.0, ge=0)
    team: str = column("Team that bears the cost.", optional=True, default="shared")
    cost_center: str = column("Cost centre it is booked to.", optional=True, default="shared")


class Limits(Table):
    """A cap on what may be bought, used or spent."""

    limit_id: str = column("Name of the limit.", key=True)
    kind: str = column("What is capped.", isin=LIMIT_KINDS)
    amount: float = column("The cap, in the unit of its kind (accelerators, kW, USD a quarter, share).", ge=0)
    quarter: str = column("Quarter it holds in; empty = every quarter.", optional=True, str_matches=QUARTER_PATTERN)
    provider: str = column("Provider it holds for; empty = all together.", optional=True)
    region: str = column("Region or geography it holds for; empty = all together.", optional=True)
    accelerator: str = column("Accelerator it holds for; empty = all together.", optional=True, refers="accelerators.accelerator")
    measure: str = column("For budgets: what is counted (p_and_l, cash or capex).", optional=True, isin=MEASURES)
    hard: bool = column("Hard limits are never broken; soft ones at a price.", optional=True, default=True)
    team: str = column("For budgets: team it holds for; empty = the company.", optional=True)


class Fx(Table):
    """An exchange rate."""

    currency: str = column("Currency, as three letters.", key=True, str_matches=r"^[A-Z]{3}$")
    date: pd.Timestamp = column("Day from which the rate holds.", key=True)
    usd: float = column("US dollars for one unit of the currency.", unit="USD", gt=0)


class OtherCosts(Table):
    """What else is in the bill."""

    cost_id: str = column("Name of the cost line.", key=True)
    month: pd.Timestamp = column("First day of the month.", key=True)
    kind: str = column("Kind of cost.", isin=["storage", "egress", "network", "support", "people", "software", "evaluation", "other"])
    usd: float = column("Amount.", unit="USD")
    team: str = column("Team that bears it.", optional=True, default="shared")
    cost_center: str = column("Cost centre it is booked to.", optional=True, default="shared")
    account: str = column("Account in the ledger.", optional=True, default="other")
    provider: str = column("Provider that bills it, where it counts towards a spend agreement.", optional=True)


class Billing(Table):
    """One month of one charge, from a FOCUS billing export."""

    month: pd.Timestamp = column("First day of the billing month.", key=True)
    provider: str = column("Provider that bills.", key=True)
    service: str = column("Service billed.", key=True)
    account: str = column("Sub-account billed.", key=True)
    region: str = column("Provider's region; none where the charge has no region.", key=True)
    sku: str = column("Provider's SKU; none where the charge has none.", key=True)
    charge_category: str = column("Usage, Purchase, Tax, Credit or Adjustment.", key=True)
    pricing_category: str = column("Standard, Committed, Dynamic or Other; none where not stated.", key=True)
    commitment_status: str = column("Used, Unused or none.", key=True)
    currency: str = column("Billing currency.", key=True, str_matches=r"^[A-Z]{3}$")
    billed_cost: float = column("What the invoice says.", unit="billing currency")
    effective_cost: float = column("Cost with prepayments spread over use.", unit="billing currency")
    list_cost: float = column("Cost at list prices.", unit="billing currency", optional=True)
    quantity: float = column("Pricing quantity, where the rows share a unit.", optional=True)
    quantity_unit: str = column("Unit of the pricing quantity.", optional=True)
