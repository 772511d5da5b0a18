"""The ledger as quantity times price, so that another price revalues it without deciding anew."""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import pandas as pd

from capplan.book.currencies import rates_by_month
from capplan.book.scenario import LedgerAssumptions
from capplan.questions.ledger.build_ledger import Ledger, LedgerTables
from capplan.questions.ledger.costs import BY_USE, purchase_name
from capplan.questions.ledger.schedules import paid_on, service_months
from capplan.records import records
from capplan.units import HOURS_PER_YEAR, quarter_of

VIEWS = ("cash", "billed", "p_and_l")
#: Columns that say what a line is for.
ABOUT = ["component", "contract_id", "provider", "status", "team", "cost_center", "account"]
PRICE_COLUMNS = ["price_id", "kind", "name", "provider", "unit", "price", "by_factor", "upkeep_on"]
#: Components of owned machines that follow their purchase price.
BY_CAPEX = ("capex", "depreciation", "residual")


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
    lines, other_costs = _flat(ledger), tables.full("other_costs")
    composition, by_use = _use(tables.planned("dispatch"), a)
    prices: Prices = {
        **_contract_prices(tables.full("commitments")),
        **_site_prices(tables.full("sites")),
        **_token_prices(ledger.api),
        **by_use,
    }
    bought, of_purchase = _offer_prices(tables.planned("purchases"), a)
    prices |= bought
    lines = _by_accelerator(lines, composition, a)
    lines["price_id"] = [_price_of(row, of_purchase, prices) for row in records(lines)]
    table = pd.DataFrame([(key, *value) for key, value in prices.items()], columns=PRICE_COLUMNS)
    rate = lines["price_id"].map(unit_rates(table, a.price_factor, a.upkeep_share_per_year)).fillna(1.0)
    lines["quantity"] = lines["usd"] / rate
    agreements = tables.full("spend_agreements").sort_values(["agreement_id", "start"]).reset_index(drop=True)
    lines = pd.concat([lines.assign(agreement=-1), _shortfall_lines(agreements, a)], ignore_index=True)
    lines["order"] = lines["view"].map({view: step for step, view in enumerate(VIEWS)})
    lines["late"] = lines["agreement"] >= 0
    lines = lines.sort_values(["order", "late", *ABOUT, "date", "price_id"], ignore_index=True)
    lines["month"] = lines["date"].to_numpy().astype("datetime64[M]").astype("datetime64[ns]")
    months = pd.Series(sorted(lines["month"].unique()), dtype="datetime64[ns]")
    rates = pd.Series(rates_by_month(months, a.currency, tables.full("fx")).to_numpy(), index=pd.DatetimeIndex(months))
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


def _flat(ledger: Ledger) -> pd.DataFrame:
    """Put payments by day and the months of the other views into one frame, without shortfalls of agreements, which follow."""
    entries = ledger.entries[ledger.entries["view"].isin(["billed", "p_and_l"])].rename(columns={"month": "date"})
    frame = pd.concat([ledger.payments.assign(view="cash"), entries[["date", "view", *ABOUT, "usd"]]], ignore_index=True)
    return frame[frame["component"] != "agreement_shortfall"].reset_index(drop=True)


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


def _offer_prices(purchases: pd.DataFrame, a: LedgerAssumptions) -> tuple[Prices, dict[tuple[str, str], str]]:
    """Return prices of what is bought, by quarter where they change, and the price of each purchase by name and kind of cost."""
    found: Prices = {}
    of_purchase: dict[tuple[str, str], str] = {}

    def keep(row: Row, kind: str, unit: str, price: float, by_factor: bool, upkeep_on: str = "") -> str:
        key = f"{kind} {row['offer_id']}"
        if key in found and (abs(found[key][4] - price) > 1e-9 * abs(price) or found[key][6] != upkeep_on):
            key = f"{key} {row['quarter']}"
        if price or upkeep_on:
            name = key.removeprefix(f"{kind} ")
            found.setdefault(key, (kind, name, row["provider"], unit, price, by_factor, upkeep_on))
            of_purchase[purchase_name(row), kind] = key
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
    return found, of_purchase


def _use(dispatch: pd.DataFrame, a: LedgerAssumptions) -> tuple[pd.DataFrame, Prices]:
    """Return how the spend of a class by source and provider is made up of accelerators by quarter, and their average prices."""
    used = dispatch[dispatch["source"].isin(BY_USE) & (dispatch["expected_usd"] != 0)]
    used = used.assign(
        provider=used["provider"].astype(str),
        pool=used["accelerator"].astype(str).where(used["source"] != "api", used["class"].astype(str)),
    )
    used["price_id"] = used["source"] + " " + used["provider"] + " " + used["pool"]
    used["contract_id"] = used["source"] + " " + used["class"].astype(str)
    keys = ["quarter", "contract_id", "provider"]
    parts = used.groupby([*keys, "price_id"], as_index=False)["expected_usd"].sum()
    parts["share"] = parts["expected_usd"] / parts.groupby(keys)["expected_usd"].transform("sum")
    prices: Prices = {}
    for (key, source, provider, pool), rows in used.groupby(["price_id", "source", "provider", "pool"], sort=True):
        by_work = source == "api"
        units = rows["expected_work" if by_work else "expected_accelerator_hours"].sum()
        if units > 0:
            unit = "USD per unit of work" if by_work else "USD per accelerator-hour, average paid"
            price = float(rows["expected_usd"].sum() / units / (1.0 if by_work else a.price_factor))
            prices[str(key)] = (str(source), str(pool), str(provider), unit, price, not by_work, "")
    return parts[[*keys, "price_id", "share"]], prices


def _by_accelerator(lines: pd.DataFrame, composition: pd.DataFrame, a: LedgerAssumptions) -> pd.DataFrame:
    """Split what is paid by use into accelerators, and the discounts of agreements like the use they are given on."""
    cash = lines["view"] == "cash"
    service = lines["date"].where(~cash, service_months(lines["date"], a.payment_terms_days))
    lines = lines.assign(service=service.to_numpy().astype("datetime64[M]").astype("datetime64[ns]"))
    of_use, off = lines["component"].isin(BY_USE), lines["component"] == "agreement_discount"
    use = lines[of_use].assign(quarter=lines.loc[of_use, "service"].map(quarter_of).astype(object))
    use = use.merge(composition, how="left", on=["quarter", "contract_id", "provider"]).fillna({"share": 1.0, "price_id": ""})
    use["usd"] *= use["share"]
    base = use[use["component"].isin(["on_demand", "spot"])]
    keys = ["view", "service", "provider", "team", "cost_center"]
    made = base.groupby([*keys, "price_id"], as_index=False)["usd"].sum()
    made["share"] = made["usd"] / made.groupby(keys)["usd"].transform("sum")
    discounts = lines[off].merge(made.drop(columns="usd"), how="left", on=keys).fillna({"share": 1.0, "price_id": ""})
    discounts["usd"] *= discounts["share"]
    keep = ["date", "view", *ABOUT, "price_id"]
    parts = pd.concat([lines[~of_use & ~off].assign(price_id=""), use, discounts], ignore_index=True)
    return parts.groupby(keep, as_index=False, sort=True)["usd"].sum()


def _price_of(row: Row, of_purchase: dict[tuple[str, str], str], prices: Prices) -> str:
    """Return the price a line is paid at; empty where its amount is stated."""
    component, name = row["component"], str(row["contract_id"])
    if component in BY_CAPEX:
        return of_purchase.get((name, "machine"), "")
    if component in ("purchase", "running", "support"):
        return of_purchase.get((name, "offer" if component == "purchase" else str(component)), "")
    wanted = {
        "commitment": f"contract {name}",
        "power": f"power {name}",
        "space": f"space {name}",
        "tokens": f"{name} {row['provider']}",
    }.get(component, row["price_id"])
    return wanted if wanted in prices else ""


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
