"""What stands behind each figure: which lines of the ledger add up to a cell, and where their prices come from."""

from collections.abc import Mapping
from itertools import pairwise

import pandas as pd

from capplan.outputs.views.traced import COLUMNS, EVER, figures_of_page_one
from capplan.outputs.workbook.assumptions import Draft
from capplan.outputs.workbook.money import BLOCKS, VIEW_SHEETS, Lines, ViewBlock
from capplan.outputs.workbook.sheet import address
from capplan.records import records
from capplan.text import day


def figure_table(draft: Draft, lines: Lines, blocks: Mapping[str, Mapping[str, ViewBlock]]) -> pd.DataFrame:
    """Return which lines stand behind the cells of Cash, Billed and P&L, and behind the money of page one.

    Returns:
        DataFrame: figure (Sheet!Cell, or the id on the page), and the rest of `traced.COLUMNS`; bearer is team and cost centre.
    """
    rows: list[tuple[object, ...]] = []
    months = draft.months
    edges = [EVER[0], *(day(month) for month in months), day(months[-1] + pd.DateOffset(months=1)), EVER[1]]
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
                about = view, "" if value is None else column, said, ""
                spans = [*pairwise(edges), EVER]
                for place, span in enumerate(spans, block.columns.at("before")):
                    rows.append((f"{VIEW_SHEETS[view]}!{address(row, place, '')}", *about, *span, 1.0))
    return pd.concat([pd.DataFrame(rows, columns=COLUMNS), figures_of_page_one(draft.plan, draft.book)], ignore_index=True)


def price_table(draft: Draft) -> pd.DataFrame:
    """Return the prices behind the lines, each with the table and the source it comes from.

    Returns:
        DataFrame: price_id, kind, name, provider, unit, price, by_factor, table, source_id, as_of.
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
    for row in records(draft.now.prices):
        offer = next((name for name in (str(row["name"]), str(row["name"]).rsplit(" ", 1)[0]) if name in offers.index), None)
        source, since = ("", "") if offer is None else (str(offers.loc[offer, "source_id"]), day(offers.loc[offer, "as_of"]))
        rows.append((tables.get(str(row["kind"]), "offers"), source, since))
    about = pd.DataFrame(rows, columns=["table", "source_id", "as_of"], index=draft.now.prices.index)
    return pd.concat([draft.now.prices[["price_id", "kind", "name", "provider", "unit", "price", "by_factor"]], about], axis=1)
