"""Tables of what one has and may do: contracts, payments, spend agreements, sites, machines owned, and limits."""

import pandas as pd

from capplan.book.tables.columns import Table, column, order_rule
from capplan.book.terms import COUNTS, DISCOUNTS, LIMIT_KINDS, MEASURES, REGION, TERMS
from capplan.units import CURRENCY_PATTERN, QUARTER_PATTERN


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
    renews: bool = column("Does it renew by itself unless notice is given?", default=False)
    renewal_usd_per_hour: float = column(
        "Price of one machine for one hour if it is renewed for the same term.", unit="USD/h", optional=True, ge=0
    )
    exit_cost_share: float = column("Share of the remaining payments due if it is ended early; 1 = no exit right.", default=1.0, ge=0, le=1)
    resale_share: float = column(
        "Share of the price of what is left of its term that another company pays for it; empty = it may not be sold. Later it moves with"
        " the machine's prices.",
        optional=True,
        ge=0,
        le=1,
    )
    exchangeable: bool = column(
        "May what is left of it be exchanged for another contract of the same provider that is worth at least as much?", default=False
    )
    upfront_paid_usd: float = column("Already paid at signing.", unit="USD", default=0.0, ge=0)
    discounts: str = column("What the contract pays for: units, usd_per_hour or none.", default="units", isin=DISCOUNTS)
    guarantees_capacity: bool = column("Is the machine surely there?", default=True)
    team: str = column("Team that bears the cost; empty for shared.", default="shared")
    cost_center: str = column("Cost centre it is booked to.", default="shared")

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
    discount_share: float = column("Discount on eligible charges.", default=0.0, ge=0, lt=1)
    drawn_usd: float = column("Already spent in the year.", unit="USD", default=0.0, ge=0)
    rolls_over: bool = column("Does an unspent rest move to the next year, or is it paid as shortfall?", default=False)

    dates = order_rule("start", "end")


class Sites(Table):
    """A room and the power in it."""

    site: str = column("Name of the site, as assets and owned offers name their region.", key=True)
    geography: str = column("Part of the world it lies in.")
    available_kw: float = column("Power that can be drawn for machines, before cooling.", unit="kW", ge=0)
    committed_kw: float = column("Power that is paid for in any case.", unit="kW", default=0.0, ge=0)
    usd_per_kw_month: float = column("Price of a committed kilowatt with its space.", unit="USD/kW/month", default=0.0, ge=0)
    pue: float = column("Power usage effectiveness: power drawn by the room over power drawn by the machines.", ge=1, le=3)
    usd_per_kwh: float = column("Price of electricity.", unit="USD/kWh", ge=0)
    escalator_share_per_year: float = column("Rise of both prices at each anniversary of `as_of`.", default=0.0, ge=-0.5, le=0.5)
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
    residual_share: float = column("Share of the price that is left at the end of the useful life.", default=0.0, ge=0, lt=1)
    support_usd_per_year: float = column("Support and maintenance of the whole lot.", unit="USD/year", default=0.0, ge=0)
    last_day: pd.Timestamp = column(
        "Last day on which it can run: after its useful life it is kept as long as its power, space and upkeep pay. Empty = it stops with"
        " its useful life.",
        optional=True,
    )
    kept_usd_per_year: float = column(
        "Upkeep of the whole lot a year after its useful life; empty = what its support costs.", unit="USD/year", optional=True, ge=0
    )
    resale_share: float = column(
        "Share of its price that it brings if it is sold on the plan's day; later it falls evenly to residual_share at the end of its"
        " useful life, and moves with the machine's prices. Empty = it is not sold.",
        optional=True,
        ge=0,
        le=1,
    )
    team: str = column("Team that bears the cost.", default="shared")
    cost_center: str = column("Cost centre it is booked to.", default="shared")


class Limits(Table):
    """A cap on what may be bought, used or spent."""

    limit_id: str = column("Name of the limit.", key=True)
    kind: str = column("What is capped.", isin=LIMIT_KINDS)
    amount: float = column("The cap, in the unit of its kind (accelerators, kW, USD a quarter, share).", ge=0)
    quarter: str = column("Quarter it holds in; empty = every quarter.", optional=True, str_matches=QUARTER_PATTERN)
    provider: str = column("Provider it holds for; empty = all together.", optional=True)
    region: str = column("Region or geography it holds for; empty = all together.", optional=True)
    accelerator: str = column("Accelerator it holds for; empty = all together.", optional=True, refers="accelerators.accelerator")
    counts: str = column(
        "What a limit on accelerators counts: purchases (contracts and machines that give capacity), on_demand or spot (what runs by the"
        " hour), running (purchases and on demand, as quotas of running machines do) or all. Empty = purchases for quota_accelerators,"
        " on_demand for on_demand_accelerators, spot for spot_accelerators.",
        optional=True,
        isin=list(COUNTS),
    )
    measure: str = column(
        "For budgets: what is counted: p_and_l or cash (of the whole company: what no purchase changes takes its share first), compute (the"
        " P&L of machines, contracts and use by the hour alone), or capex (in the quarter of payment).",
        optional=True,
        isin=MEASURES,
    )
    currency: str = column(
        "For budgets: currency of the amount, as three letters; empty = USD.", optional=True, str_matches=CURRENCY_PATTERN
    )
    hard: bool = column("Hard limits are never broken; soft ones at a price.", default=True)
    team: str = column("For budgets: team it holds for; empty = the company.", optional=True)
