"""The sheets Memo and Bridges: page one figure by figure under the names its ids have, and the bridges with their totals as sums."""

from typing import Any

import pandas as pd

from capplan.outputs.views.bridges import TOTAL, budget_bridge, cost_bridge, driver_bridge, plan_bridge
from capplan.outputs.views.memo import memo_blocks
from capplan.outputs.workbook.assumptions import Draft
from capplan.outputs.workbook.columns import Columns, write_table
from capplan.outputs.workbook.sheet import Formula
from capplan.records import records

AS_MADE = (
    "Values of the plan as it was made: they do not follow changes on the sheet Assumptions. Each figure has the name of its id on the"
    " page."
)

STEPS = Columns((("step", "Step", "text"), ("amount", "Amount", "money")))


def write_memo(draft: Draft) -> None:
    """Write page one as values, each cell of a table named as on the page."""
    sheet = draft.sheets["Memo"]
    sheet.title("Memo", f"As made on {draft.plan.scenario.as_of}: {draft.plan.headline}", AS_MADE, across=11)
    for block in memo_blocks(draft.plan, draft.book, None, draft.last):
        sheet.section(block.title)
        if len(block.table):
            top = sheet.row + 1
            columns = write_table(sheet, block.table, draft.currency)
            for row in range(len(block.table)):
                for col in range(len(columns.declared)):
                    sheet.named(f"memo_{block.key}_{row}_{col}", top + row, col)
        for text in block.sentences:
            sheet.note(text, 11, "text+wrap")
        sheet.row += 1
    sheet.finish(None, widths={0: 44, 9: 34})
    sheet.sheet.fit_to_pages(1, 1)


def write_bridges(draft: Draft) -> None:
    """Write the bridges; a total is the sum of all steps above it."""
    sheet = draft.sheets["Bridges"]
    sheet.title(f"Bridges in {draft.currency}", "Steps are values of the plan as it was made; totals are their sums.", across=4)
    for title, bridge in (
        ("From the P&L budget to this plan", budget_bridge(draft.plan)),
        ("From the last plan to this one", plan_bridge(draft.plan, draft.last.spend)),
        ("From the last plan to this one, by what moved it", driver_bridge(draft.last.moved_by)),
        ("From cost to spend, P&L and cash", cost_bridge(draft.plan)),
    ):
        if bridge.empty:
            continue
        sheet.section(title)
        STEPS.head(sheet)
        _steps(sheet, bridge)
        sheet.row += 1
    sheet.finish(None, widths={0: 74})


def _steps(sheet: Any, bridge: pd.DataFrame) -> None:
    above: list[str] = []
    for row in records(bridge):
        total = row["kind"] == TOTAL
        amount: Any = Formula(f"={'+'.join(above)}", float(row["amount"])) if total and above else float(row["amount"])
        if not total:
            above.append(STEPS.here(sheet.row)["amount"])
        (STEPS.write_total if total else STEPS.write)(sheet, step=row["step"], amount=amount)
