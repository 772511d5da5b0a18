"""What stands behind each figure: which lines of the ledger add up to a cell, and where their prices come from."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from capplan.answers.sums import quarters_of
from capplan.outputs.views.memo import asked, memo_blocks
from capplan.outputs.workbook.assumptions import Draft
from capplan.outputs.workbook.money import BLOCKS, FIRST_MONTH, VIEW_SHEETS, Lines, ViewBlock
from capplan.outputs.workbook.sheet import address
from capplan.text import day
from capplan.units import fiscal_year, quarter_end, quarter_start

COLUMNS = ["figure", "view", "column", "value", "first", "after"]
#: Days that no line lies outside of.
EVER = ("1900-01-01", "2200-01-01")


def figure_table(draft: Draft, lines: Lines, blocks: Mapping[str, Mapping[str, ViewBlock]]) -> pd.DataFrame:
    """Return which lines stand behind the cells of Cash, Billed and P&L, and behind the money of page one.

    Returns
    -------
    DataFrame
        figure (Sheet!Cell, or the id on the page), view, column (of the lines; bearer = team and cost centre; empty = all), value, first
        and after (days).
    """
    rows: list[tuple[str, ...]] = []
    months = draft.months
    edges = [EVER[0], *(day(month) for month in months), day(months[-1] + pd.DateOffset(months=1)), EVER[1]]
    total_column = FIRST_MONTH + len(months) + 1
    for view, found in blocks.items():
        for _, key in BLOCKS:
            block = found[key]
            names = {number: value for value, number in lines.keys[key].items()}
            column = {"component_key": "component", "account_key": "account", "team_key": "bearer"}[key]
            places = [(block.first + step, names[int(str(number))]) for step, number in enumerate(block.values.index)] + [
                (block.total, None)
            ]
            for row, value in places:
                said = "" if value is None else " / ".join(value) if isinstance(value, tuple) else str(value)
                for step in range(len(months) + 2):
                    span = (edges[step], edges[step + 1])
                    rows.append((f"{VIEW_SHEETS[view]}!{address(row, 2 + step, '')}", view, "" if value is None else column, said, *span))
                rows.append((f"{VIEW_SHEETS[view]}!{address(row, total_column, '')}", view, "" if value is None else column, said, *EVER))
    return pd.DataFrame([*rows, *_page_one(draft)], columns=COLUMNS)


def _page_one(draft: Draft) -> list[tuple[str, ...]]:
    """Return what stands behind the money of page one: fiscal years, and the value of each contract asked for."""
    plan = draft.plan
    rows: list[tuple[str, ...]] = []
    years = next(block.table for block in memo_blocks(plan, draft.book, None) if block.key == "years")
    first_month, quarters = plan.scenario.fiscal_year_first_month, quarters_of(plan)
    planned = pd.date_range(quarter_start(quarters[0]), quarter_end(quarters[-1]), freq="MS", inclusive="left")
    as_of = pd.Timestamp(plan.scenario.as_of)
    paid = pd.date_range(as_of.replace(day=1), quarter_end(quarters[-1]), freq="MS", inclusive="left")
    for row, year in enumerate(years["fiscal_year"]):
        for column, view, months in (("p_and_l_amount", "p_and_l", planned), ("cash_amount", "cash", paid)):
            inside = [month for month in months if year in ("total", fiscal_year(month, first_month))]
            if inside:
                first = max(inside[0], as_of) if view == "cash" else inside[0]
                rows.append(
                    (
                        f"memo_years_{row}_{list(years.columns).index(column)}",
                        view,
                        "",
                        "",
                        day(first),
                        day(inside[-1] + pd.DateOffset(months=1)),
                    )
                )
    firm = plan.purchases.purchases.sort_values(["firm", "sign_by", "offer_id"], ascending=[False, True, True])
    firm = firm[firm["firm"]]
    place = list(asked(plan).columns).index("value_amount") if len(firm) else 0
    rows += [
        (f"memo_ask_{row}_{place}", "billed", "contract_id", f"{item['offer_id']} {item['quarter']}", *EVER)
        for row, item in enumerate(firm.to_dict("records"))
    ]
    return rows


def price_table(draft: Draft) -> pd.DataFrame:
    """Return the prices behind the lines, each with the table and the source it comes from.

    Returns
    -------
    DataFrame
        price_id, kind, name, provider, unit, price, by_factor, table, source_id, as_of.
    """
    offers = draft.book.get("offers").drop_duplicates("offer_id").set_index("offer_id")
    tables = {
        "contract": "commitments",
        "power": "sites",
        "space": "sites",
        "tokens": "services and public price list",
        "api": "api_contracts",
    }
    rows = []
    for row in draft.now.prices.to_dict("records"):
        offer = next((name for name in (str(row["name"]), str(row["name"]).rsplit(" ", 1)[0]) if name in offers.index), None)
        source, since = ("", "") if offer is None else (str(offers.loc[offer, "source_id"]), day(offers.loc[offer, "as_of"]))
        rows.append((tables.get(str(row["kind"]), "offers"), source, since))
    about = pd.DataFrame(rows, columns=["table", "source_id", "as_of"], index=draft.now.prices.index)
    return pd.concat([draft.now.prices[["price_id", "kind", "name", "provider", "unit", "price", "by_factor"]], about], axis=1)
