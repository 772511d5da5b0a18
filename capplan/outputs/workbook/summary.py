"""The sheets Summary and Checks: the plan on a page, as planned and as revalued, and whether everything adds up."""

from typing import Any

import pandas as pd

from capplan.answers.sums import company_budgets, spend
from capplan.outputs.export.budget import budget_table
from capplan.outputs.views.scenario_columns import scenario_columns
from capplan.outputs.workbook.assumptions import REVALUES, Draft
from capplan.outputs.workbook.columns import Columns, by_quarter, write_table
from capplan.outputs.workbook.money import CENT, VIEW_SHEETS, Lines, ViewBlock, month_columns, month_name
from capplan.outputs.workbook.sheet import Formula, Sheet, dressed, series_of, stacked_chart
from capplan.questions.ledger.revalue import VIEWS
from capplan.units import months_of

Blocks = dict[str, dict[str, ViewBlock]]
#: Accounts that have a colour of their own in the chart; the rest is one series.
LARGEST = 6
#: Rows that a chart covers.
CHART_ROWS = 17
#: Columns that sentences run across.
NOTE_COLUMNS = 8
CHECKS = Columns((("check", "Check", "text"), ("holds", "Holds", "flag")))
LABEL = (("label", ""),)
TOTALS = Columns((("sum", "", "text"), ("planned", "As planned", "money"), ("now", "Now", "money"), ("change", "Difference", "money")))


def write_checks(draft: Draft) -> None:
    """Write every check as a formula, and whether all hold."""
    sheet = draft.sheets["Checks"]
    sheet.title(
        "Checks", "Every line is a formula. One that is FALSE means that this file does not add up: do not use it, and report it.", across=2
    )
    first, last, at = sheet.row + 2, sheet.row + 1 + len(draft.checks), CHECKS.at("holds")
    every = all(bool(formula.value) for _, formula in draft.checks)
    sheet.named("all_checks", sheet.row, at)
    CHECKS.write_total(sheet, check="All checks", holds=Formula(f"=AND({CHECKS.block('holds', first, last)})", every))
    head = sheet.row
    CHECKS.head(sheet)
    for text, formula in draft.checks:
        CHECKS.write(sheet, check=text, holds=formula)
    wrong = draft.workbook.add_format({"bg_color": "#f4cccc", "font_color": "#990000", "bold": True})
    sheet.sheet.conditional_format(first - 2, at, last, at, {"type": "cell", "criteria": "==", "value": "FALSE", "format": wrong})
    sheet.finish(head, widths={0: 84, 1: 10})


def write_summary(draft: Draft, lines: Lines, blocks: Blocks) -> None:
    """Write the plan on a page: totals as planned and now, money by quarter against the budget, and charts."""
    sheet, plan, scenario = draft.sheets["Summary"], draft.plan, draft.plan.scenario
    sheet.put(0, 0, f"Capacity plan {scenario.first_quarter} to {draft.quarters[-1]}", "title")
    sheet.sheet.set_row(0, 24)
    sheet.put(1, 0, draft.book.name, "section")
    sheet.row = 2
    sheet.note(f"As made on {scenario.as_of}: {plan.headline}", NOTE_COLUMNS, "headline", 100)
    sheet.note(REVALUES, NOTE_COLUMNS)
    sheet.row += 1
    sheet.put(sheet.row, 0, "Checks", "text+total")
    text = '=IF(all_checks,"all checks pass","a check fails: see the sheet Checks")'
    every = all(bool(formula.value) for _, formula in draft.checks)
    sheet.put(sheet.row, 1, Formula(text, "all checks pass" if every else "a check fails: see the sheet Checks"), "text+total")
    sheet.row += 2
    _write_totals(draft, lines, sheet, blocks)
    money = _write_quarters(draft, sheet, blocks)
    accounts = _write_accounts(draft, sheet, blocks)
    _write_service_line(draft, sheet)
    _write_scenarios(draft, sheet)
    last = 1 + len(draft.quarters) - 1
    head, rows = accounts
    chart = stacked_chart(draft.workbook, sheet, f"P&L by account ({draft.currency})", head, rows, (1, last), draft.currency)
    beside = max(len(draft.quarters) + 2, NOTE_COLUMNS + 1)
    cash = draft.workbook.add_chart({"type": "column"})
    for name, colour in (("cash", "#1b3a5c"), ("billed", "#9ccb86")):
        cash.add_series(series_of(sheet, money["head"], money[name], (1, last)) | {"fill": {"color": colour}, "gap": 80})
    pictures = (_against_budget(draft, sheet, money, last), chart, dressed(cash, f"Cash and invoices ({draft.currency})", draft.currency))
    for place, picture in enumerate(pictures):
        sheet.sheet.insert_chart(3 + CHART_ROWS * place, beside, picture)
    sheet.finish(None, widths={0: 34})
    sheet.sheet.fit_to_pages(1, 1)


def _write_totals(draft: Draft, lines: Lines, sheet: Sheet, blocks: Blocks) -> None:
    """Write totals over the planned quarters and in all, as planned and at the assumptions of this file."""
    TOTALS.head(sheet)
    quarters = draft.quarters
    first, last = draft.quarter_columns(quarters[0])[0], draft.quarter_columns(quarters[-1])[1]
    rows: list[tuple[str, Any, float]] = []
    for view in ("p_and_l", "billed", "cash"):
        block, source = blocks[view]["component_key"], draft.sheets[VIEW_SHEETS[view]]
        span = _months(draft, view, block.total, first, last)
        value = float(block.values[list(range(first + 1, last + 2))].to_numpy().sum())
        rows.append((f"{VIEW_SHEETS[view]}, {quarters[0]} to {quarters[-1]}", f"=SUM({span})", value))
    present = lines.span("present", "cash")
    rows.append((f"Cash from {draft.plan.scenario.as_of} on, present value", f"=SUM({present})", draft.now.total("economic")))
    for view in VIEWS:
        block, source = blocks[view]["component_key"], draft.sheets[VIEW_SHEETS[view]]
        cell = source.cell(block.total, block.columns.at("total"))
        rows.append((f"{VIEW_SHEETS[view]}, contracts' whole lives", f"={cell}", float(block.values.to_numpy().sum())))
    planned, value = sheet.cell(sheet.row, TOTALS.at("planned")), rows[0][2]
    for label, formula, amount in rows:
        here = TOTALS.here(sheet.row)
        change = Formula(f"={here['now']}-{here['planned']}", 0.0)
        TOTALS.write(sheet, sum=label, planned=amount, now=Formula(formula, amount), change=change)
    budget = float(budget_table(draft.plan, draft.book.get("account_map"))["amount"].sum())
    draft.check(
        "Budget file: its total is the P&L of the planned quarters, as planned",
        f"=ABS({budget!r}-{planned})<{CENT}",
        abs(budget - value) < CENT,
    )
    sheet.row += 1


def _quarter_sum(draft: Draft, view: str, row: int, quarter: str) -> str:
    """Return a row of a view's sheet summed over a quarter's months."""
    first, last = draft.quarter_columns(quarter)
    return f"SUM({_months(draft, view, row, first, last)})"


def _months(draft: Draft, view: str, row: int, first: int, last: int) -> str:
    """Return the reference of a row of a view's sheet from one of the plan's months to another."""
    names = [month_name(draft.months[place]) for place in (first, last)]
    return month_columns("", draft.months).line(draft.sheets[VIEW_SHEETS[view]], row, names)


def _quarter_value(draft: Draft, block: ViewBlock, quarter: str, place: int | None = None) -> float:
    first, last = draft.quarter_columns(quarter)
    part = block.values[list(range(first + 1, last + 2))]
    return float((part if place is None else part.iloc[place]).to_numpy().sum())


def _budgets(draft: Draft) -> dict[str, tuple[float, bool]]:
    """Return the company's P&L budget of each quarter, and whether it is stated in the book's currency (then in that) or in dollars."""
    limits = draft.book.get("limits").set_index("limit_id")["currency"].fillna("USD")
    found = {}
    for quarter, row in company_budgets(draft.plan).iterrows():
        own = limits[row["limit_id"]] == draft.currency
        found[str(quarter)] = (float(row["budget_amount"] if own else row["budget_usd"]), own)
    return found


def _write_quarters(draft: Draft, sheet: Sheet, blocks: Blocks) -> dict[str, int]:
    """Write money by quarter, with the band of P&L over the paths of demand and the budget."""
    quarters, columns = draft.quarters, by_quarter(LABEL, draft.quarters, "money")
    sheet.section(f"By quarter ({draft.currency})")
    places = {"head": sheet.row}
    columns.head(sheet)
    for view in ("p_and_l", "billed", "cash"):
        block = blocks[view]["component_key"]
        places[view] = sheet.row
        cells = {
            quarter: Formula(f"={_quarter_sum(draft, view, block.total, quarter)}", _quarter_value(draft, block, quarter))
            for quarter in quarters
        }
        columns.write(sheet, label=VIEW_SHEETS[view], **cells)
    band = spend(draft.plan).set_index("quarter")
    for level, label in (("p10", "P&L as planned, P10"), ("p90", "P&L as planned, P90")):
        columns.write(sheet, label=label, **band[level].reindex(quarters))
    budgets = _budgets(draft)
    if budgets:
        places["budget"] = sheet.row
        limits: dict[str, Formula | float] = {}
        over: dict[str, Formula] = {}
        for quarter in quarters:
            months = [pd.Timestamp(month) for month in months_of(quarter)]
            rate = float(sum(draft.priced.rates.get(month, 1.0) for month in months)) / len(months)
            rates = ",".join(draft.exchange[month] for month in months if month in draft.exchange)
            if quarter not in budgets:
                continue
            stated, own = budgets[quarter]
            budget = stated if own else stated / rate
            limits[quarter] = Formula(f"={stated!r}/AVERAGE({rates})", budget) if rates and not own else budget
            spent, limit = (columns.here(places[row])[quarter] for row in ("p_and_l", "budget"))
            over[quarter] = Formula(f"={spent}-{limit}", _quarter_value(draft, blocks["p_and_l"]["component_key"], quarter) - budget)
        columns.write(sheet, label="P&L budget", **limits)
        columns.write(sheet, label="P&L over (+) or under (-) budget", **over)
    sheet.row += 1
    return places


def _write_accounts(draft: Draft, sheet: Sheet, blocks: Blocks) -> tuple[int, list[int]]:
    """Write P&L by account and quarter, the largest accounts first; return where they stand."""
    block, quarters = blocks["p_and_l"]["account_key"], draft.quarters
    sheet.section(f"P&L by account ({draft.currency})")
    head, columns = sheet.row, by_quarter(LABEL, quarters, "money")
    columns.head(sheet)
    first, last = draft.quarter_columns(quarters[0])[0], draft.quarter_columns(quarters[-1])[1]
    sums = block.values[list(range(first + 1, last + 2))].sum(axis=1).to_numpy()
    order = [int(place) for place in (-sums).argsort(kind="stable")]
    top, rest = order[:LARGEST], order[LARGEST:]
    for place in top:
        cells = {
            quarter: Formula(
                f"={_quarter_sum(draft, 'p_and_l', block.first + place, quarter)}", _quarter_value(draft, block, quarter, place)
            )
            for quarter in quarters
        }
        columns.write(sheet, label=block.labels[place], **cells)
    shown = list(range(head + 1, sheet.row))
    if rest:
        cells = {}
        for quarter in quarters:
            above = f"SUM({columns.block(quarter, head + 1, head + len(top), '')})"
            total = _quarter_sum(draft, "p_and_l", block.total, quarter)
            value = _quarter_value(draft, block, quarter) - sum(_quarter_value(draft, block, quarter, place) for place in top)
            cells[quarter] = Formula(f"={total}-{above}", value)
        shown.append(sheet.row)
        columns.write(sheet, label="Other accounts", **cells)
    sheet.row += 1
    return head, shown


def _write_service_line(draft: Draft, sheet: Sheet) -> None:
    """Say how much work goes undone, apart from all money."""
    service, costs = draft.plan.purchases.service, draft.plan.purchases.costs
    weight = costs.drop_duplicates("path").set_index("path")["probability"]
    expected = service[["demanded", "served"]].mul(service["path"].map(weight), axis=0).sum()
    missing = costs[costs["component"] == "shortfall"]
    imputed = float((missing["usd"] * missing["probability"]).sum())
    sheet.section("Service (no money)")
    share = float(expected["served"] / expected["demanded"]) if expected["demanded"] > 0 else 1.0
    sheet.rows([["Work served, expected", share]], ["text", "share"])
    sheet.rows([["Imputed cost of missing work (USD)", imputed]], ["text", "usd"])
    sheet.note("Missing work has an imputed cost in the decision only; it is in no cash, invoice, P&L or saving.", NOTE_COLUMNS)
    sheet.row += 1


def _write_scenarios(draft: Draft, sheet: Sheet) -> None:
    """Write the plan beside waiting a quarter and beside keeping the budget."""
    sheet.section(f"Scenarios as made on {draft.plan.scenario.as_of} ({draft.currency})")
    write_table(sheet, scenario_columns(draft.plan), draft.currency)
    sheet.note("Values: other decisions, which no formula of this file can make; they do not follow changed assumptions.", NOTE_COLUMNS)
    sheet.row += 1


def _against_budget(draft: Draft, sheet: Sheet, money: dict[str, int], last: int) -> Any:
    """Draw P&L as columns and the budget as a line."""
    chart = draft.workbook.add_chart({"type": "column"})
    chart.add_series(series_of(sheet, money["head"], money["p_and_l"], (1, last)) | {"fill": {"color": "#2f6f8f"}, "gap": 60})
    if "budget" in money:
        line = draft.workbook.add_chart({"type": "line"})
        dash = {"line": {"color": "#b22222", "width": 2.25, "dash_type": "dash"}}
        line.add_series(series_of(sheet, money["head"], money["budget"], (1, last)) | dash)
        chart.combine(line)
    title = f"P&L against budget ({draft.currency})" if "budget" in money else f"P&L ({draft.currency}); the book has no budget"
    return dressed(chart, title, draft.currency)
