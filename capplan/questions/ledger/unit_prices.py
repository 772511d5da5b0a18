"""The prices a plan pays, each once: every entry of the ledger is a quantity of one of them from the start."""

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, fields, replace
from typing import Any

import pandas as pd

from capplan.book.scenario import LedgerAssumptions
from capplan.records import records
from capplan.units import HOURS_PER_YEAR

#: Sources of dispatch that are invoiced by use; shortfall is imputed and is no entry in any view.
BY_USE = ("on_demand", "spot", "api")
Row = dict[Hashable, Any]


@dataclass(frozen=True)
class Price:
    """What one unit costs in the plan.

    Args:
        price_id: Name; empty where an amount is stated, in dollars or in the book's currency.
        kind: contract, offer, machine, running, support, on_demand, spot, api, tokens, power or space; own for amounts that are agreed in
            the book's currency; empty for dollars.
        name, provider, unit: What it is the price of, who asks it, and for what.
        price: USD of a unit before the price factor.
        by_factor: Does the price factor move it, since it is not signed?
        upkeep_on: price_id of the purchase price whose upkeep is added, or empty.
        factor: What the plan multiplies it by: the price factor, or 1.
        upkeep_usd: What the upkeep adds to a unit.
    """

    price_id: str = ""
    kind: str = ""
    name: str = ""
    provider: str = ""
    unit: str = "USD"
    price: float = 1.0
    by_factor: bool = False
    upkeep_on: str = ""
    factor: float = 1.0
    upkeep_usd: float = 0.0

    @property
    def rate_usd(self) -> float:
        """Dollars that a unit costs in the plan."""
        return self.price * self.factor + self.upkeep_usd

    def units(self, usd: float) -> float:
        r"""Return the quantity that costs an amount.

        .. math:: q = \frac{x}{p f + u}

        with x the amount, p the price, f its factor and u the upkeep. Where one price stands for several (the average paid for use in a
        pool), the quantity weighs them.
        """
        return usd / self.rate_usd if usd else 0.0


#: Amounts that are stated: a unit is a dollar, or one of the book's currency.
STATED, OWN = Price(), Price(kind="own", unit="one of the book's currency")
PRICE_COLUMNS = [column.name for column in fields(Price)][:8]


class Prices:
    """The prices of a plan, by what is priced."""

    def __init__(self, a: LedgerAssumptions) -> None:
        self._a = a
        self._found: dict[str, Price] = {}
        self._shared: dict[str, str] = {}

    def __iter__(self) -> Iterator[Price]:
        return iter(self._found.values())

    def of(self, key: str) -> Price:
        """Return the price of a contract, purchase, pool, site or workload; `STATED` where it has none."""
        return self._found.get(self._shared.get(key, key), STATED)

    def known(self, price: Price) -> bool:
        """Say whether the same price is kept under its name, whichever came first."""
        found = self._found.get(price.price_id, price)
        return abs(found.price - price.price) <= 1e-9 * abs(price.price) and found.upkeep_on == price.upkeep_on

    def keep(self, price: Price, shared_by: str = "") -> None:
        """Keep a price, with what the plan multiplies it by and the upkeep on what the plan pays for the machine.

        Args:
            shared_by: What else it is the price of.
        """
        machine = self._found.get(price.upkeep_on)
        upkeep = machine.rate_usd * self._a.upkeep_share_per_year / HOURS_PER_YEAR if machine else 0.0
        factor = self._a.price_factor if price.by_factor else 1.0
        self._found.setdefault(price.price_id, replace(price, factor=factor, upkeep_usd=upkeep))
        if shared_by:
            self._shared[shared_by] = price.price_id

    def table(self) -> pd.DataFrame:
        """Return them as a table (see `revalue.Priced.prices`)."""
        return pd.DataFrame([[getattr(price, name) for name in PRICE_COLUMNS] for price in self], columns=PRICE_COLUMNS)


def plan_prices(
    commitments: pd.DataFrame, sites: pd.DataFrame, api: pd.DataFrame, dispatch: pd.DataFrame, purchases: pd.DataFrame, a: LedgerAssumptions
) -> Prices:
    """Name every price that a plan pays.

    Args:
        api: Spend of API-only workloads (see `request_prices.api_spend`).
        dispatch, purchases: What runs where, and what is bought (see `build_ledger.PLANNED`).
    """
    found = Prices(a)
    for row in records(commitments):
        if row["usd_per_hour"]:
            name = row["commitment_id"]
            found.keep(Price(f"contract {name}", "contract", name, "", "USD per machine-hour", row["usd_per_hour"]))
    for row in records(sites):
        for kind, unit, column in (("power", "USD per kWh", "usd_per_kwh"), ("space", "USD per kW and month", "usd_per_kw_month")):
            if row[column]:
                found.keep(Price(f"{kind} {row['site']}", kind, row["site"], "own", unit, row[column]))
    for (workload, provider), rows in api.groupby(["workload", "provider"], sort=True):
        if rows["quantity"].sum() > 0 and rows["usd"].sum() > 0:
            each = float(rows["usd"].sum() / rows["quantity"].sum())
            found.keep(Price(f"tokens {workload} {provider}", "tokens", str(workload), str(provider), "USD per request", each))
    _keep_use(found, dispatch, a)
    for row in records(purchases):
        _keep_purchase(found, row, a)
    return found


def _keep_purchase(found: Prices, row: Row, a: LedgerAssumptions) -> None:
    """Keep the prices of what is bought, by quarter where they change."""

    def keep(kind: str, unit: str, price: float, by_factor: bool, upkeep_on: str = "") -> str:
        key, name = f"{kind} {row['offer_id']}", str(row["offer_id"])
        if not found.known(Price(key, price=price, upkeep_on=upkeep_on)):
            key, name = f"{key} {row['quarter']}", f"{name} {row['quarter']}"
        if price or upkeep_on:
            found.keep(Price(key, kind, name, row["provider"], unit, price, by_factor, upkeep_on), f"{kind} {purchase_name(row)}")
        return key

    hourly = row.get("usd_per_hour", 0.0)
    if row["term"] != "owned":
        keep("offer", "USD per machine-hour", hourly / a.price_factor, True)
        return
    paid = row["upfront_usd"] / row["machines"]
    machine = keep("machine", "USD per machine", paid / a.price_factor, True)
    upkeep = paid * a.upkeep_share_per_year / HOURS_PER_YEAR
    keep("running", "USD per machine-hour, power and space", hourly - upkeep, False)
    keep("support", "USD per machine-hour, upkeep", 0.0, False, machine)


def _keep_use(found: Prices, dispatch: pd.DataFrame, a: LedgerAssumptions) -> None:
    """Keep what use by the hour and by the request costs on average in each pool."""
    used = dispatch.assign(price_id=[price_of_use(row) for row in records(dispatch)])
    for (key, source, provider), rows in used[used["price_id"] != ""].groupby(["price_id", "source", "provider"], sort=True):
        by_work = source == "api"
        units = rows["expected_work" if by_work else "expected_accelerator_hours"].sum()
        if units > 0:
            pool = str(rows["class" if by_work else "accelerator"].iloc[0])
            unit = "USD per unit of work" if by_work else "USD per accelerator-hour, average paid"
            price = float(rows["expected_usd"].sum() / units / (1.0 if by_work else a.price_factor))
            found.keep(Price(str(key), str(source), pool, str(provider), unit, price, not by_work))


def purchase_name(row: Row) -> str:
    """Name a purchase: the offer and the quarter in which it starts."""
    return f"{row['offer_id']} {row['quarter']}"


def price_of_use(row: Row) -> str:
    """Name the price of a row of dispatch: that of its pool, or of an API for its class; empty where nothing is paid by use."""
    if row["source"] not in BY_USE or row["expected_usd"] == 0:
        return ""
    return f"{row['source']} {row['provider']} {row['class'] if row['source'] == 'api' else row['accelerator']}"


def unit_rates(prices: pd.DataFrame, price_factor: float, upkeep_share_per_year: float) -> pd.Series:
    """Return what one unit costs, with the price factor and the upkeep of owned machines: USD by price_id."""
    base = prices.set_index("price_id")
    rate = base["price"] * base["by_factor"].map({True: price_factor, False: 1.0})
    upkeep = base["upkeep_on"].map(rate).fillna(0.0) * upkeep_share_per_year / HOURS_PER_YEAR
    return (rate + upkeep).astype(float)
