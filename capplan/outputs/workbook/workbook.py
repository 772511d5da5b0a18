"""The finance workbook: the plan with live formulas on its prices, discount rate and exchange rates."""

import datetime as dt
from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from capplan.answers.finished_plan import Plan
from capplan.answers.placement import asked_book
from capplan.answers.plan import ledger_tables
from capplan.book.book import Book
from capplan.book.scenario import LedgerAssumptions
from capplan.outputs.export.plain_workbook import INERT
from capplan.outputs.views.bridges import NO_PLAN, LastPlan
from capplan.outputs.workbook.assumptions import SHEETS, Draft, write_assumptions, write_sources
from capplan.outputs.workbook.decisions import place_agreements, write_decisions, write_purchases
from capplan.outputs.workbook.demand import write_demand
from capplan.outputs.workbook.figures import figure_table, price_table
from capplan.outputs.workbook.memo import write_bridges, write_memo
from capplan.outputs.workbook.money import CENT, HEAD_ROW, LINES, Lines, write_lines, write_views
from capplan.outputs.workbook.sheet import Sheet, Styles
from capplan.outputs.workbook.summary import write_checks, write_summary
from capplan.outputs.workbook.unit_costs import write_units
from capplan.questions.ledger import revalue

#: Components that may be negative: money that comes back.
MAY_BE_NEGATIVE = ("agreement_discount", "left_early", "exit_cost", "late_delivery", "residual")


def priced_plan(plan: Plan, book: Book) -> revalue.Priced:
    """Return a plan's ledger as quantities and prices."""
    book = asked_book(book, plan.scenario)
    a = plan.scenario.section(LedgerAssumptions)
    return revalue.priced_ledger(plan.ledger, ledger_tables(book, plan.scenario, vars(plan.purchases)), a)


def revalue_plan(
    plan: Plan,
    book: Book,
    *,
    price_factor: float | None = None,
    discount_rate_per_year: float | None = None,
    upkeep_share_per_year: float | None = None,
    prices: Mapping[str, float] | None = None,
    exchange_rates: Mapping[pd.Timestamp, float] | None = None,
) -> revalue.Revalued:
    """Value a plan's decisions at changed assumptions, as its workbook does; nothing is decided anew (see `ledger.revalue.revalue`)."""
    return revalue.revalue(
        priced_plan(plan, book),
        price_factor=price_factor,
        discount_rate_per_year=discount_rate_per_year,
        upkeep_share_per_year=upkeep_share_per_year,
        prices=prices,
        exchange_rates=exchange_rates,
    )


def write_workbook(plan: Plan, book: Book, path: Path, behind: dict[str, pd.DataFrame] | None = None, last: LastPlan = NO_PLAN) -> Path:
    """Write the plan as a workbook whose amounts are formulas on its assumptions.

    Args:
        book: The book it was made from.
        path: File to write; its folder must exist.
        behind: Filled with what stands behind the figures: figures, lines, line_prices (see `figures`).
        last: The plan before this one, where there is one.

    Returns:
        Path: The file. Every formula holds its value, so that programs that do not calculate show the plan as it was made.
    """
    import xlsxwriter

    booked = priced_plan(plan, book)
    book = asked_book(book, plan.scenario)
    with xlsxwriter.Workbook(str(path), {**INERT, "default_date_format": "yyyy-mm-dd"}) as workbook:
        # A file's date is the plan's, so that equal plans are equal files.
        workbook.set_properties(
            {"title": f"Capacity plan {plan.scenario.first_quarter}", "created": dt.datetime.combine(plan.scenario.as_of, dt.time())}
        )
        styles = Styles(workbook, plan.scenario.currency)
        sheets = {name: Sheet(workbook, styles, name) for name in SHEETS}
        draft = Draft(plan, book, booked, revalue.revalue(booked), workbook, styles, sheets, last=last)
        lines = Lines(draft)
        write_assumptions(draft)
        place_agreements(draft)
        write_lines(draft, lines)
        blocks = write_views(draft, lines)
        write_purchases(draft, lines)
        write_decisions(draft)
        write_memo(draft)
        write_bridges(draft)
        write_demand(draft)
        write_units(draft, lines)
        _check_signs(draft, lines)
        write_summary(draft, lines, blocks)
        write_checks(draft)
        write_sources(draft)
        if behind is not None:
            behind |= {
                "figures": figure_table(draft, lines, blocks),
                "lines": draft.now.lines,
                "line_prices": price_table(draft).sort_values("price_id", ignore_index=True),
            }
        sheets["Summary"].sheet.activate()
    return path


def _check_signs(draft: Draft, lines: Lines) -> None:
    """Check that only discounts, late deliveries and residual values are negative, and that shortfall of service is no money."""
    frame = lines.frame
    keys = [str(lines.keys["component_key"][name]) for name in MAY_BE_NEGATIVE if name in lines.keys["component_key"]]
    for view in ("cash", "billed", "p_and_l"):
        amounts, components = lines.span("usd", view), lines.span("component_key", view)
        excluded = "".join(f',{components},"<>{key}"' for key in keys)
        part = frame[(frame["view"] == view) & ~frame["component"].isin(MAY_BE_NEGATIVE)]
        text = (
            f"{draft.sheets['Lines'].name}: no negative cost but discounts, late deliveries and residual values"
            f" ({view.replace('p_and_l', 'P&L')})"
        )
        draft.check(text, f'=COUNTIFS({amounts},"<-{CENT}"{excluded})=0', bool((part["usd"] >= -CENT).all()))
    components = draft.sheets["Lines"].span(HEAD_ROW + 1, HEAD_ROW + 1 + len(frame), LINES.at("component"))
    draft.check(
        "Lines: missing work, which nobody pays, is no line",
        f'=COUNTIF({components},"Shortfall")=0',
        "shortfall" not in set(frame["component"]),
    )
