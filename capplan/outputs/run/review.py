"""The review of a plan as a folder: one page, its tables, and the bridge for the next plan."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pandas as pd

from capplan.book.book import Book, load_book
from capplan.errors import CapplanError
from capplan.ingest import ingest
from capplan.outputs.export.files import write_table
from capplan.outputs.export.plain_workbook import plain_workbook
from capplan.outputs.page.html import PageSection, TableBlock, render_page
from capplan.outputs.run.folders import check_room, replaced_whole
from capplan.outputs.run.report import folder_name
from capplan.outputs.views.all_questions import View, show_review

#: Tables of a review that its workbook has beside the bridge.
IN_WORKBOOK = (
    "chargeback",
    "rate_card",
    "hour_rates",
    "unit_economics",
    "feature_economics",
    "training_runs",
    "by_workload",
    "by_provider",
    "portfolio",
)


@dataclass(frozen=True)
class Reviewed:
    """A finished review: its folder, the view, the assumptions as plain data."""

    path: Path
    view: View
    scenario: Mapping[str, Any]


def write_review(
    book_path: Path, values: Mapping[str, Any], bills: Sequence[str], out: Path, say: Callable[[str], None] = lambda _: None
) -> Reviewed:
    """Review the accepted plan of a book, and leave the page and its tables, all at once or not at all.

    Args:
        values: Assumptions to override; reviewed_plan names another plan than the accepted one.
        bills: FOCUS exports to review by, beside the bills of the book: a month that one of them has replaces the book's.
        out: Folder of all reports; the review goes to out/<book>/review.

    Raises:
        CapplanError: With one clear message; a previous review stays as it was.
    """
    book = with_bills(load_book(book_path), bills)
    scenario = book.scenario_with(**values)
    target = out / folder_name(book_path) / "review"
    check_room(target)
    say(f"capplan: reviewing {book.name}")
    view = show_review(book, scenario)
    with replaced_whole(target) as draft:
        for name, frame in {"bridge": view.table, **view.details}.items():
            write_table(frame, draft / f"{name}.csv")
        (draft / "review.xlsx").write_bytes(plain_workbook({"bridge": view.table, **{name: view.details[name] for name in IN_WORKBOOK}}))
        (draft / "review.html").write_text(review_page(book.name, view), encoding="utf-8")
    return Reviewed(target, view, scenario.model_dump(mode="json"))


def with_bills(book: Book, bills: Sequence[str]) -> Book:
    """Return the book with further bills, which stand for their months alone."""
    if not bills:
        return book
    found = ingest("focus", list(bills), None, usage=False)
    new = found.tables.get("billing")
    if new is None or new.empty:
        raise CapplanError(f"{', '.join(bills)}: no row of a bill was found")
    old = book.get("billing")
    billing = pd.concat([old[~old["month"].isin(new["month"])], new.reindex(columns=old.columns)], ignore_index=True)
    return replace(book, tables=MappingProxyType({**book.tables, "billing": billing}), notes=(*book.notes, *found.notes))


def review_page(name: str, view: View) -> str:
    """Render a review as one page that opens from disk."""
    pictures = [chart.svg for chart in view.charts.values()]
    tables = view.details

    def block(key: str, caption: str = "", folded: bool = False) -> TableBlock:
        return TableBlock(tables[key], caption, f"{key}.csv", currency=view.unit, folded=folded)

    sections = [
        PageSection("From plan to bill", "It adds up to the cent.", pictures, [TableBlock(view.table, currency=view.unit)]),
        PageSection("Who and what moved it", tables=[block("by_workload"), block("by_provider"), block("by_contract")]),
        PageSection(
            "What a unit cost, and whether it earns that",
            "A workload's part of the bill is what was planned for it and what moved it; with what no work bears, the parts are the bill.",
            tables=[
                block("unit_economics"),
                block("feature_economics", "What a thousand units of each feature cost"),
                block("training_runs", "What a training run cost, with all its jobs"),
            ],
        ),
        PageSection(
            "What should shrink, move or stay",
            "Savings are of a year, each alone: they do not add up.",
            tables=[block("portfolio"), block("flags", "What runs worse than it should", folded=True)],
        ),
        PageSection(
            "Who bears it",
            "What no work bears is shared out as the cost of the teams' own work is. Charged at these rates by the unit, the work"
            " pays for the bill; by the hour, the hours that were used pay for all machines. They stand until the next review.",
            tables=[
                block("chargeback"),
                block("rate_card", "What a thousand units are charged at"),
                block("hour_rates", "What an accelerator-hour is charged at"),
            ],
        ),
        PageSection("Whom we depend on", "Planned spend that lies ahead.", tables=[block("vendor_risks")]),
        PageSection("Requests for capacity", "Savings are of accelerators that wait.", tables=[block("capacity_requests")]),
        PageSection("Spend by month and provider", tables=[block("spend")]),
        PageSection(
            "How the forecast held",
            "Inside: the work that came lies in the plan's own 90 % band. Bias: all that came over all that was expected, less one.",
            tables=[block("forecast"), block("accuracy", "Month by month", folded=True)],
        ),
        PageSection("What knowing would have been worth", "One thing at a time, then all of it.", tables=[block("knowing")]),
        PageSection("Notes", notes=view.notes),
    ]
    return render_page(f"{name}: the plan and what came of it", "P&L spend as planned and as billed", view.headline, [], sections)
