"""What stands behind a figure: the lines of the ledger that add up to it, with their prices, contracts, and where each comes from."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from capplan.answers.explained import KEYS, PART, row_names
from capplan.errors import CapplanError, nearest, suggestion
from capplan.inert import read_table
from capplan.outputs.run.explain import CONVERTED, report_currency, report_table
from capplan.records import records, word_list
from capplan.text import counted, money, words

#: Columns of a line that its reader wants.
LINE_COLUMNS = "date component contract_id provider status team cost_center account quantity rate_usd usd amount price_id".split()
#: Assumptions that move a line's amount.
ASSUMPTIONS = word_list(
    "price_factor discount_rate_per_year upkeep_share_per_year payment_terms_days useful_life_years residual_share currency"
)


@dataclass(frozen=True)
class Traced:
    """A figure, the lines that add up to it, their prices with sources, the assumptions they follow, and one sentence."""

    figure: str
    amount: float
    lines: pd.DataFrame
    prices: pd.DataFrame
    assumptions: pd.DataFrame
    headline: str


def trace_figure(report: Path, figure: str) -> Traced:
    """Return what stands behind a figure of a report.

    Args:
        figure: A cell (plan.xlsx!P&L!D12, or P&L!D12), the id of a figure on the page (memo_years_0_1), or that of a cell of a table that
            explains the plan (rejected_offers:OFFER:entry_usd_per_hour).

    Raises:
        CapplanError: Where the folder is no report, or nothing is recorded for the figure; the nearest known ones are named.
    """
    missing = [
        name for name in ("run.json", "tables/figures.csv", "tables/lines.csv", "tables/line_prices.csv") if not (report / name).is_file()
    ]
    if missing:
        raise CapplanError(f"{report} is no report that can be traced: it has no {missing[0]}; make the plan again")
    texts = dict.fromkeys(
        word_list("figure view column value but first after contract_id team cost_center account price_id component provider status"), str
    )
    run = json.loads((report / "run.json").read_text(encoding="utf-8"))
    currency = str(run["parameters"].get("currency", "USD"))
    stated = pd.DataFrame([(item, run["parameters"].get(item)) for item in ASSUMPTIONS], columns=["assumption", "value"])
    if figure.partition(PART)[0] in KEYS and PART in figure:
        return _of_cell(report, figure, stated)
    known = read_table(report / "tables" / "figures.csv", dtype=texts, keep_default_na=False)
    name = figure.strip().removeprefix("plan.xlsx!").replace("'", "").replace("$", "")
    found = known[known["figure"].str.lower() == name.lower()]
    if found.empty:
        raise CapplanError(
            f"nothing is recorded behind {figure!r}; cells of Cash, Billed and P&L and figures of page one can be traced."
            f" {suggestion(name, list(known['figure']))}"
        )
    if found["view"].iloc[0] in CONVERTED:
        return _of_table(report, name, found.iloc[0], currency, stated)
    lines = read_table(
        report / "tables" / "lines.csv",
        dtype=texts,
        keep_default_na=False,
        na_values={"quantity": [""], "rate_usd": [""]},
        parse_dates=["date"],
    )
    chosen = pd.concat([_lines_of(lines, row) for row in records(found)]).sort_index()
    prices = read_table(report / "tables" / "line_prices.csv", dtype={"price_id": str}, keep_default_na=False)
    prices = prices[prices["price_id"].isin(set(chosen["price_id"]) - {""})].reset_index(drop=True)
    amount = float(chosen["amount"].sum())
    headline = (
        f"{name} is {money(amount, currency)} ({amount:,.2f}): the sum of {counted(len(chosen), 'line')} of the ledger at"
        f" {counted(len(prices), 'price')}."
    )
    return Traced(name, amount, chosen[LINE_COLUMNS].reset_index(drop=True), prices, stated, headline)


def _lines_of(lines: pd.DataFrame, row: dict[Any, Any]) -> pd.DataFrame:
    """Return the lines that one row of the table of figures selects."""
    chosen = lines[(lines["view"] == row["view"]) & (lines["component"] != row["but"])]
    if row["column"]:
        own = chosen["team"] + " / " + chosen["cost_center"] if row["column"] == "bearer" else chosen[row["column"]]
        chosen = chosen[own == row["value"]]
    return chosen[(chosen["date"] >= pd.Timestamp(row["first"])) & (chosen["date"] < pd.Timestamp(row["after"]))]


def _of_cell(report: Path, figure: str, stated: pd.DataFrame) -> Traced:
    """Return the row of a table that explains the plan, of which one cell is asked for, and the price of its offer."""
    name, _, rest = figure.partition(PART)
    row, _, column = rest.rpartition(PART)
    path = report / "tables" / f"{name}.csv"
    if not path.is_file():
        raise CapplanError(f"{report} has no tables/{path.name}: the plan was made without it, or by an earlier version")
    table = report_table(path)
    names = row_names(table, name)
    if row not in set(names):
        raise CapplanError(f"tables/{path.name} has no row {row[:80]!r}; {nearest(row, names)}")
    numbers = [each for each in table if pd.api.types.is_numeric_dtype(table[each])]
    if column not in numbers:
        raise CapplanError(f"tables/{path.name} has no number in a column {column[:80]!r}; {nearest(column, numbers)}")
    own = table[names == row].reset_index(drop=True)
    prices = report_table(report / "tables" / "prices.csv")
    prices = prices[prices["offer_id"].isin(own.get("offer_id", []))].reset_index(drop=True)
    amount = float(own[column].iloc[0])
    own_money, currency = "usd" in column.split("_"), report_currency(report)
    shown = f" ({currency.amount(amount):,.10g} {currency.name})" if own_money and currency.name != "USD" else ""
    headline = f"{figure} is {amount:,.10g}{shown}: {words(column)} of {row}, in tables/{path.name}; money in it is in US dollars."
    return Traced(figure, amount, own, prices, stated, headline)


def _of_table(report: Path, name: str, row: pd.Series, currency: str, stated: pd.DataFrame) -> Traced:
    """Return the rows of a table of the report that a figure is the difference of, or stands in."""
    path = report / "tables" / f"{row['view']}.csv"
    if not path.is_file():
        raise CapplanError(f"{report} is no report that can be traced: it has no tables/{path.name}; make the plan again")
    table, column = read_table(path), str(row["column"])
    names = table["name"] if "name" in table else table["offer_id"] + " " + table["quarter"]
    value = table.loc[names == row["value"], column].iloc[0]
    kept = names.isin([row["value"], "plan"])
    less = float(table.loc[names == "plan", column].iloc[0]) if row["view"] == "alternatives" else 0.0
    amount = (float(value) - less) / float(row["usd_per_unit"])
    how = f"{words(column)} of {words(str(row['value']))}" + (" less that of the plan" if row["view"] == "alternatives" else "")
    headline = f"{name} is {money(amount, currency)} ({amount:,.2f}): {how}, in tables/{path.name}."
    return Traced(name, amount, table[kept].reset_index(drop=True), pd.DataFrame(), stated, headline)
