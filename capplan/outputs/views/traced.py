"""What stands behind the figures of page one: lines of the ledger, or rows of a table of the report."""

import pandas as pd

from capplan.answers.finished_plan import Plan, told_once
from capplan.answers.sums import LATER, plan_currency, quarters_of
from capplan.book.book import Book
from capplan.outputs.views.decision_tables import agreements, decisions
from capplan.outputs.views.memo import MemoBlock, memo_blocks
from capplan.outputs.views.plan_tables import TOTAL
from capplan.records import records
from capplan.text import day, words
from capplan.units import fiscal_year, quarter_end, quarter_start

#: A figure is the sum of the lines of a view in which a column has a value, without a component, from a day to before another. Where the
#: view is `alternatives` or `verdicts`, it is that column of the row of that name (less the plan's), by dollars for a unit.
COLUMNS = ["figure", "view", "column", "value", "but", "first", "after", "usd_per_unit"]
#: Days that no line lies outside of.
EVER = ("1900-01-01", "2200-01-01")
#: Alternatives in the order of the memo's rows.
WAITING = ("sign_nothing_yet", "do_nothing")
Row = tuple[str, str, str, str, str, str, str, float]


@told_once
def figures_of_page_one(plan: Plan, book: Book) -> pd.DataFrame:
    """Return what stands behind the money of page one that can be followed to its lines: one row, or more that add up, a figure."""
    blocks = {block.key: block for block in memo_blocks(plan, book, None)}
    rows = _years(plan, blocks["years"]) + _asked(plan, blocks["ask"]) + _waiting(plan, blocks["waiting"])
    rows += _agreements(plan, blocks.get("agreements")) + _renewals(plan, blocks.get("renewals"))
    return pd.DataFrame(rows, columns=COLUMNS)


def words_of(figures: pd.DataFrame) -> pd.DataFrame:
    """Say of each figure what stands behind it: figure, comes_from; one row a figure."""
    rows = []
    for name, part in figures.groupby("figure", sort=False):
        row = part.iloc[0]
        if row["view"] in ("alternatives", "verdicts"):
            said = f"tables/{row['view']}.csv, {words(row['column'])} of {words(row['value'])}" + (
                " less that of the plan" if row["view"] == "alternatives" else ""
            )
        else:
            which = " and ".join(f"{words(each['column'])} {words(each['value'])}" for each in records(part) if each["column"])
            but = f" without {words(row['but']).lower()}" if row["but"] else ""
            span = "" if row["first"] == EVER[0] else f", {row['first']} to before {row['after']}"
            said = f"lines of {words(row['view'])}{', ' + which if which else ''}{but}{span}"
        rows.append((str(name), said))
    return pd.DataFrame(rows, columns=["figure", "comes_from"])


def _place(block: MemoBlock, row: int, column: str) -> str:
    """Return the id of a figure of page one."""
    return f"memo_{block.key}_{row}_{list(block.table.columns).index(column)}"


def _years(plan: Plan, block: MemoBlock) -> list[Row]:
    """Return P&L, cash and capex of fiscal years; capex is less what machines are sold for."""
    first, quarters, as_of = plan.scenario.fiscal_year_first_month, quarters_of(plan), pd.Timestamp(plan.scenario.as_of)
    begin, end = quarter_start(quarters[0]), quarter_end(quarters[-1])
    spans = {("p_and_l", TOTAL): (day(begin), day(end)), ("cash", TOTAL): (day(as_of), EVER[1]), ("cash", LATER): (day(end), EVER[1])}
    for view, since in (("p_and_l", begin), ("cash", as_of)):
        months = pd.Series(pd.date_range(since.replace(day=1), end, freq="MS", inclusive="left"))
        for year, own in months.groupby([fiscal_year(month, first) for month in months]):
            spans[view, str(year)] = (day(max(own.min(), since)), day(own.max() + pd.DateOffset(months=1)))
    columns = (("p_and_l_amount", "p_and_l", ("",)), ("cash_amount", "cash", ("",)), ("capex_amount", "cash", ("capex", "residual")))
    return [
        (_place(block, row, column), view, "component" if part else "", part, "", *spans[view, year], 1.0)
        for row, year in enumerate(block.table["fiscal_year"])
        for column, view, parts in columns
        if (view, year) in spans
        for part in parts
    ]


def _asked(plan: Plan, block: MemoBlock) -> list[Row]:
    """Return whole values of contracts, and what waiting for each costs; what a sale brings later is no part of a purchase's value."""
    table = decisions(plan)
    firm, known = records(table[table["firm"]]), plan.purchases.verdicts
    judged = set(zip(known["offer_id"], known["quarter"], strict=True)) if len(known) else set()
    rate, rows = plan_currency(plan).usd, []
    for row, item in enumerate(firm[: len(block.table)]):
        if "offer_id" not in item or not str(block.table["starts"].iloc[row])[:4].isdigit():
            continue
        name = f"{item['offer_id']} {item['quarter']}"
        rows.append((_place(block, row, "value_amount"), "billed", "contract_id", name, "residual", *EVER, 1.0))
        if (item["offer_id"], item["quarter"]) in judged:
            rows.append((_place(block, row, "waiting_costs_amount"), "verdicts", "saves_usd", name, "", *EVER, rate))
    return rows


def _waiting(plan: Plan, block: MemoBlock) -> list[Row]:
    """Return what signing nothing adds to spend, and to work left undone."""
    there = [name for name in WAITING if name in set(plan.purchases.alternatives["name"])]
    parts = (("more_spend_amount", "spend_usd"), ("more_unserved_amount", "shortfall_usd"))
    return [
        (_place(block, row, column), "alternatives", source, name, "", *EVER, plan_currency(plan).usd)
        for row, name in enumerate(there)
        for column, source in parts
    ]


def _agreements(plan: Plan, block: MemoBlock | None) -> list[Row]:
    """Return what an agreement's provider still bills toward it, and what is paid for nothing."""
    if block is None:
        return []
    whole, open_from = agreements(plan), pd.Timestamp(plan.scenario.as_of).replace(day=1)
    whole = whole[whole["end"] >= pd.Timestamp(plan.scenario.as_of)]
    rows: list[Row] = []
    for row, year in enumerate(records(whole.head(len(block.table)))):
        span = (day(max(year["start"].replace(day=1), open_from)), day(year["end"] + pd.Timedelta(days=1)))
        rows.append((_place(block, row, "planned_amount"), "billed", "provider", year["provider"], "agreement_shortfall", *span, 1.0))
        name = str(year["agreement_id"])
        rows.append((_place(block, row, "unspent_amount"), "billed", "contract_id", name, "agreement_discount", *span, 1.0))
    return rows


def _renewals(plan: Plan, block: MemoBlock | None) -> list[Row]:
    """Return what is still owed under contracts that end."""
    if block is None:
        return []
    return [
        (_place(block, row, "owed_amount"), "cash", "contract_id", str(name), "", day(pd.Timestamp(plan.scenario.as_of)), EVER[1], 1.0)
        for row, name in enumerate(block.table["contract_id"])
    ]
