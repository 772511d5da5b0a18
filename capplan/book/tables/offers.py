"""Tables of what can be had: offers, their tiers and payments, prices of moved data, and states of prices and deliveries."""

import pandas as pd

from capplan.book.tables.columns import Table, column, order_rule
from capplan.book.terms import CROSSINGS, DISCOUNTS, PROVIDER_KINDS, TERMS
from capplan.units import QUARTER_PATTERN


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
    upfront_share: float = column("Share of the contract's price that is paid at signing.", default=0.0, ge=0, le=1)
    capex_usd: float = column("Purchase price of one machine, for owned machines.", unit="USD", optional=True, gt=0)
    lot_machines: int = column("Machines in one lot; purchases are whole lots.", default=1, ge=1)
    minimum_lots: int = column("Fewest lots in one purchase.", default=0, ge=0)
    maximum_lots: float = column("Most lots in one quarter; empty for no cap.", optional=True, ge=0)
    lead_time_days_p50: float = column("Days from signing to delivery, median.", unit="days", default=0.0, ge=0)
    lead_time_days_p90: float = column("Days from signing to delivery, 90th percentile.", unit="days", optional=True, ge=0)
    lead_time_source_id: str = column(
        "Source of the lead times, where it is not that of the price.", optional=True, refers="sources.source_id"
    )
    available_from: pd.Timestamp = column("First day of a booking window or capacity block.", optional=True)
    available_to: pd.Timestamp = column("Last day of a booking window or capacity block.", optional=True)
    discounts: str = column(
        "What the contract pays for: machines (units), dollars an hour at plan rates (usd_per_hour), or nothing (none).",
        default="none",
        isin=DISCOUNTS,
    )
    plan_id: str = column(
        "Offers with one plan_id are the plan rates of one savings plan and draw on the same dollars an hour.", optional=True
    )
    guarantees_capacity: bool = column("Is the machine surely there, or does the contract only make it cheaper?", default=False)
    interruptions_per_hour: float = column("Expected interruptions of one machine in an hour (spot).", unit="1/h", optional=True, ge=0)
    available_share: float = column(
        "Share of the machines asked for on demand that are had; empty = the scenario's. What is asked for is capped, what is had is paid.",
        optional=True,
        gt=0,
        le=1,
    )
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


class OfferPayments(Table):
    """One payment of an offer that is paid by a schedule; with `upfront_share` the shares of an offer sum to 1."""

    offer_id: str = column("Offer it belongs to.", refers="offers.offer_id", key=True)
    months_after_start: float = column(
        "When it is due, counted from the first day of service; not later than the contract's end.", unit="months", key=True, ge=0
    )
    share: float = column("Share of the contract's whole price.", gt=0, le=1)


class EgressPrices(Table):
    """What a provider charges for data that leaves one of its regions."""

    provider: str = column("Provider that the data leaves; own for machines one owns.", key=True)
    crossing: str = column(
        "How far it goes: to another region of the same geography, to another geography, or to another provider.", key=True, isin=CROSSINGS
    )
    usd_per_gib: float = column("Price of a GiB.", unit="USD/GiB", ge=0)
    source_id: str = column("Source of the price.", optional=True, refers="sources.source_id")


class PricePaths(Table):
    """How prices of the market move from the plan's day on: a change a year, a step, or both.

    Paths that fit the same offer multiply; where none fits, the assumption for its kind of provider holds.
    """

    path: str = column("Name of the path.", key=True)
    provider: str = column(f"Provider it is about, or a kind of provider ({', '.join(PROVIDER_KINDS)}); empty = all.", optional=True)
    accelerator: str = column("Accelerator it is about; * stands for any letters (H*); empty = all.", optional=True)
    term: str = column("Kind of offer it is about; empty = all.", optional=True, isin=TERMS)
    change_share_per_year: float = column("Change of the price a year: -0.3 = it falls by 30 % each year.", default=0.0, ge=-0.95, le=1)
    step_date: pd.Timestamp = column("Day of a step, such as a cut that has been announced.", optional=True)
    step_share: float = column("Change of the price on that day: -0.44 = a cut by 44 %.", default=0.0, ge=-0.95, le=1)
    probability: float = column("How likely it is; the plan takes the expected price.", default=1.0, gt=0, le=1)


class Generations(Table):
    """A machine that is not on offer yet and succeeds one that is: it can be had as that one can, from its day on, at its own price."""

    accelerator: str = column("Accelerator that is expected.", key=True)
    workload: str = column("Class of work whose speed-up the row states; any = all that no other row names.", default="any", key=True)
    succeeds: str = column("Accelerator it succeeds: one that is offered, or an earlier one of this table.")
    available_p50: pd.Timestamp = column("Day from which it can be had, median.")
    available_p90: pd.Timestamp = column(
        "The same, 90th percentile; empty = half a year after the median (Blackwell was promised for 2024 and came in 2025).", optional=True
    )
    price_ratio: float = column(
        "Price of its hour against the hour of the one it succeeds, on the same terms; empty = 1.7 (B200 against H100, median of seven"
        " clouds in data/reference/prices; H100 against A100: 2.2).",
        default=1.7,
        gt=0,
        le=20,
    )
    speedup_ratio: float = column(
        "Work of its hour against the work of an hour of the one it succeeds; empty = 2.2 (MLPerf Training 4.1, November 2024: B200 against"
        " H100, fine-tuning Llama 2 70B; pre-training GPT-3: 2.0).",
        default=2.2,
        gt=0,
        le=100,
    )
    power_ratio: float = column(
        "Power it draws against the one it succeeds; empty = 1.43 (B200: 1,000 W, H100: 700 W).", default=1.43, gt=0, le=20
    )
    probability: float = column("How likely it comes at all.", default=1.0, gt=0, le=1)
    source_id: str = column("Source of the row.", optional=True, refers="sources.source_id")

    days = order_rule("available_p50", "available_p90")


class PriceStates(Table):
    """One state that prices by the hour may be in; the plan is made for all of them at once."""

    state: str = column("Name of the state.", key=True)
    probability: float = column("Its probability; the states' sum is 1.", gt=0, le=1)
    on_demand_factor: float = column("Multiplies prices on demand.", default=1.0, gt=0)
    spot_factor: float = column("Multiplies prices of spot.", default=1.0, gt=0)
    from_quarter: str = column(
        "First quarter in which it shows; empty = from the first planned one.", optional=True, str_matches=QUARTER_PATTERN
    )


class DeliveryStates(Table):
    """One state of supply: how late machines come that are ordered."""

    state: str = column("Name of the state.", key=True)
    probability: float = column("Its probability, equal in all rows of a state; the states' sum is 1.", gt=0, le=1)
    provider: str = column("Provider whose deliveries are late; any = all.", default="any", key=True)
    accelerator: str = column("Accelerator whose deliveries are late; any = all.", default="any", key=True)
    late_days: float = column(
        "Days by which deliveries come late; empty = the offer's 90th percentile of the lead time less its median.",
        unit="days",
        optional=True,
        ge=0,
    )
