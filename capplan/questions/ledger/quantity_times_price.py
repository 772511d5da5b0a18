"""The ledger as quantity times price, so that another price revalues it without deciding anew."""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import pandas as pd

from capplan.book.currencies import rates_by_month
from capplan.book.scenario import LedgerAssumptions
from capplan.questions.ledger.accounts import account_labels
from capplan.questions.ledger.build_ledger import Ledger, LedgerTables
from capplan.questions.ledger.costs import price_of_use, purchase_name
from capplan.questions.ledger.schedules import KEYS as ABOUT
from capplan.questions.ledger.schedules import paid_on
from capplan.records import records
from capplan.units import HOURS_PER_YEAR

VIEWS = ("cash", "billed", "p_and_l")
PRICE_COLUMNS = ["price_id", "kind", "name", "provider", "unit", "price", "by_factor", "upkeep_on"]


@dataclass(frozen=True)
class Priced:
    """A ledger taken apart."""

    #: date (day of payment in the view cash, first of the month otherwise), month, view (cash, billed, p_and_l), component, contract_id,
    #: provider, status, team, cost_center, account, price_id (empty = stated), quantity (in the price's unit; without a price, in dollars,
    #: or in the book's currency where own), own (is the amount agreed in the book's currency, which is not the dollar?), agreement (row of
    #: `agreements` whose shortfall the line is, -1 otherwise).
    lines: pd.DataFrame
    #: price_id, kind (contract, offer, machine, running, support, usage, tokens, power, space), name, provider, unit, price (USD, before
    #: the price factor), by_factor (does the price factor move it?), upkeep_on (price_id of the purchase price whose upkeep is added, or
    #: empty).
    prices: pd.DataFrame
    agreements: pd.DataFrame  #: Table spend_agreements, sorted.
    rates: pd.Series  #: USD for one unit of the book's currency, by month.
    assumptions: LedgerAssumptions  #: Those the plan was booked with.


Row = dict[Hashable, Any]
Prices = dict[str, tuple[Any, ...]]


def priced_ledger(ledger: Ledger, tables: LedgerTables, a: LedgerAssumptions) -> Priced:
    r"""Take every amount of a ledger apart into a quantity and a price.

    .. math:: x = q \cdot p \cdot f, \qquad q = \frac{x_0}{p_0 f_0}

    with x an amount, p its price and f the price factor, which is 1 for what is signed; the index 0 is the plan. Where one price stands
    for several (the average
    paid for use in a pool), the quantity weighs them.
    """
    bought, shared = _offer_prices(tables.planned("purchases"), a)
    prices: Prices = {**_contract_prices(tables.full("commitments")), **_site_prices(tables.full("sites")), **_token_prices(ledger.api)}
    prices |= _use_prices(tables.planned("dispatch"), a) | bought
    # The shortfall of an agreement follows from the bills of its year.
    lines = ledger.lines[ledger.lines["component"] != "agreement_shortfall"].reset_index(drop=True)
    lines["price_id"] = [key if key in prices else "" for key in lines["price_id"].replace(shared)]
    table = pd.DataFrame([(key, *value) for key, value in prices.items()], columns=PRICE_COLUMNS)
    rate = lines["price_id"].map(unit_rates(table, a.price_factor, a.upkeep_share_per_year)).fillna(1.0)
    lines["quantity"] = lines["usd"] / rate
    agreements = tables.full("spend_agreements").sort_values(["agreement_id", "start"]).reset_index(drop=True)
    shortfalls = _shortfall_lines(agreements, a)
    shortfalls["account"] = account_labels(shortfalls, tables.full("account_map"))
    lines = pd.concat([lines.assign(agreement=-1), shortfalls], ignore_index=True)
    lines["order"] = lines["view"].map({view: step for step, view in enumerate(VIEWS)})
    lines["late"] = lines["agreement"] >= 0
    lines = lines.sort_values(["order", "late", *ABOUT, "date", "price_id"], ignore_index=True)
    lines["month"] = lines["date"].to_numpy().astype("datetime64[M]").astype("datetime64[ns]")
    months = pd.Series(sorted(lines["month"].unique()), dtype="datetime64[ns]")
    rates = pd.Series(rates_by_month(months, a.currency, tables.full("fx")).to_numpy(), index=pd.DatetimeIndex(months))
    other_costs = tables.full("other_costs")
    mine = other_costs.loc[other_costs["currency"] == a.currency, "cost_id"] if a.currency != "USD" else other_costs["cost_id"].head(0)
    lines["own"] = (lines["status"] == "stated") & lines["contract_id"].isin(set(mine))
    lines["quantity"] = lines["quantity"].where(~lines["own"], lines["quantity"] / lines["month"].map(rates))
    used = table[table["price_id"].isin(lines["price_id"]) | table["price_id"].isin(table["upkeep_on"])].reset_index(drop=True)
    return Priced(lines[["date", "month", "view", *ABOUT, "price_id", "quantity", "agreement", "own"]], used, agreements, rates, a)


def unit_rates(prices: pd.DataFrame, price_factor: float, upkeep_share_per_year: float) -> pd.Series:
    """Return what one unit costs, with the price factor and the upkeep of owned machines: USD by price_id."""
    base = prices.set_index("price_id")
    rate = base["price"] * base["by_factor"].map({True: price_factor, False: 1.0})
    upkeep = base["upkeep_on"].map(rate).fillna(0.0) * upkeep_share_per_year / HOURS_PER_YEAR
    return (rate + upkeep).astype(float)


def _contract_prices(commitments: pd.DataFrame) -> Prices:
    return {
        f"contract {row['commitment_id']}": ("contract", row["commitment_id"], "", "USD per machine-hour", row["usd_per_hour"], False, "")
        for row in records(commitments)
        if row["usd_per_hour"]
    }


def _site_prices(sites: pd.DataFrame) -> Prices:
    found: Prices = {}
    for row in records(sites):
        if row["usd_per_kwh"]:
            found[f"power {row['site']}"] = ("power", row["site"], "own", "USD per kWh", row["usd_per_kwh"], False, "")
        if row["usd_per_kw_month"]:
            found[f"space {row['site']}"] = ("space", row["site"], "own", "USD per kW and month", row["usd_per_kw_month"], False, "")
    return found


def _token_prices(api: pd.DataFrame) -> Prices:
    found: Prices = {}
    for (workload, provider), rows in api.groupby(["workload", "provider"], sort=True):
        if rows["quantity"].sum() > 0 and rows["usd"].sum() > 0:
            price = float(rows["usd"].sum() / rows["quantity"].sum())
            found[f"tokens {workload} {provider}"] = ("tokens", workload, provider, "USD per request", price, False, "")
    return found


def _offer_prices(purchases: pd.DataFrame, a: LedgerAssumptions) -> tuple[Prices, dict[str, str]]:
    """Return prices of what is bought, by quarter where they change, and the price that each purchase shares."""
    found: Prices = {}
    shared: dict[str, str] = {}

    def keep(row: Row, kind: str, unit: str, price: float, by_factor: bool, upkeep_on: str = "") -> str:
        key = f"{kind} {row['offer_id']}"
        if key in found and (abs(found[key][4] - price) > 1e-9 * abs(price) or found[key][6] != upkeep_on):
            key = f"{key} {row['quarter']}"
        if price or upkeep_on:
            name = key.removeprefix(f"{kind} ")
            found.setdefault(key, (kind, name, row["provider"], unit, price, by_factor, upkeep_on))
            shared[f"{kind} {purchase_name(row)}"] = key
        return key

    for row in records(purchases):
        if row["term"] == "owned":
            paid = row["upfront_usd"] / row["machines"]
            machine = keep(row, "machine", "USD per machine", paid / a.price_factor, True)
            upkeep = paid * a.upkeep_share_per_year / HOURS_PER_YEAR
            keep(row, "running", "USD per machine-hour, power and space", row["usd_per_hour"] - upkeep, False)
            keep(row, "support", "USD per machine-hour, upkeep", 0.0, False, machine)
        else:
            keep(row, "offer", "USD per machine-hour", row["usd_per_hour"] / a.price_factor, True)
    return found, shared


def _use_prices(dispatch: pd.DataFrame, a: LedgerAssumptions) -> Prices:
    """Return what use by the hour and by the request costs on average in each pool."""
    used = dispatch.assign(price_id=[price_of_use(row) for row in records(dispatch)])
    prices: Prices = {}
    for (key, source, provider), rows in used[used["price_id"] != ""].groupby(["price_id", "source", "provider"], sort=True):
        by_work = source == "api"
        units = rows["expected_work" if by_work else "expected_accelerator_hours"].sum()
        if units > 0:
            pool = str(rows["class" if by_work else "accelerator"].iloc[0])
            unit = "USD per unit of work" if by_work else "USD per accelerator-hour, average paid"
            price = float(rows["expected_usd"].sum() / units / (1.0 if by_work else a.price_factor))
            prices[str(key)] = (str(source), pool, str(provider), unit, price, not by_work, "")
    return prices


def _shortfall_lines(agreements: pd.DataFrame, a: LedgerAssumptions) -> pd.DataFrame:
    """List where the shortfall of each contract year of an agreement is booked; its amount follows from the bills of that year."""
    rows = []
    for place, year in enumerate(records(agreements)):
        following = ((agreements["agreement_id"] == year["agreement_id"]) & (agreements["start"] > year["start"])).any()
        if year["end"] < pd.Timestamp(a.as_of) or (bool(year["rolls_over"]) and following):
            continue
        month = year["end"].replace(day=1).normalize()
        paid = paid_on(month + pd.offsets.MonthEnd(0), a.payment_terms_days)
        about = (
            "agreement_shortfall",
            str(year["agreement_id"]),
            str(year["provider"]),
            "expected",
            "shared",
            "shared",
            "cloud commitments",
        )
        rows += [(paid if view == "cash" else month, view, *about, "", float("nan"), place) for view in VIEWS]
    columns = ["date", "view", *ABOUT, "price_id", "quantity", "agreement"]
    return pd.DataFrame(rows, columns=columns).astype({"date": "datetime64[ns]", "quantity": "float64", "agreement": "int64"})
