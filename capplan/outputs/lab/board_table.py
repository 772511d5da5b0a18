"""The board as a table, a chart, a workbook and a scenario file; text of a book is inert in all of them."""

import html
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd
import yaml

from capplan.answers.board import Column, compared
from capplan.book.book import Book
from capplan.book.currencies import Currency
from capplan.book.scenario import Scenario
from capplan.dollars import rate_in_force
from capplan.outputs import charts
from capplan.outputs.export.plain_workbook import plain_workbook
from capplan.text import counted, heading, money, number_text, value_text, words

#: More specific than an explorer's tables, which stand on the same page.
_STYLE = """<style>
.capplan-meeting .capplan-picture svg{max-width:100%;height:auto}
.capplan-meeting .capplan-headline h3{margin:4px 0;font-size:16px;line-height:1.35}
.capplan-meeting .capplan-board table{border-collapse:collapse;font-size:12.5px;line-height:1.35}
.capplan-meeting .capplan-board caption{text-align:left;font-weight:600;padding:4px 0}
.capplan-meeting .capplan-board :is(th,td){padding:2px 10px 2px 0;border-bottom:1px solid #ccd2d9;text-align:right;vertical-align:top;
white-space:normal;color:#1b1f24;background:#fff}
.capplan-meeting .capplan-board th[scope=row]{font-weight:500;text-align:left;width:215px;min-width:215px;position:sticky;left:0}
.capplan-meeting .capplan-board small{font-weight:400;color:#4a525c}
.capplan-meeting .capplan-board td.words{font-size:12px;text-align:left;min-width:120px;max-width:190px;overflow-wrap:anywhere}
.capplan-meeting .capplan-board thead th{position:sticky;top:0;z-index:1}
.capplan-meeting .capplan-board .wide{overflow:auto;max-height:330px;background:#fff}
</style>"""
#: Measures whose names need more words than their own.
_NAMES = {
    "expected_usd": "Cost in expectation, beside what is signed (USD)",
    "signed_contracts_amount": "Contracts signed already, in the planned quarters",
    "todays_signatures_cost_more_usd": "Signing today's plan under it costs more (USD)",
    "bad_cases_usd": "In the bad cases (USD)",
    "contracts_advised": "Contracts that the verdict says to sign",
    "contracts_to_sign": "Contracts in the plan before the next review",
    "signed_now_usd": "Worth of those in the plan (USD)",
    "unserved_usd": "Work left undone, at its price (USD)",
    "unserved_share": "Work left undone, of the kind that lacks most (%)",
}


def measured_in(column: Column, currency: Currency) -> Column:
    """Return a column with its measures in dollars in a currency: their names end in _amount then."""
    said = {
        f"{name.removesuffix('_usd')}_amount" if name.endswith("_usd") else name: currency.amount(value) if name.endswith("_usd") else value
        for name, value in column.measures.items()
    }
    return replace(column, measures=said)


def measure_name(name: str, currency: str) -> str:
    """Say what a measure is."""
    view = next((view for view in ("p_and_l", "cash") if name.startswith(f"{view}_")), "")
    if view:
        return f"{words(view)}, {name.removeprefix(f'{view}_').removesuffix('_amount')} ({currency})"
    own = _NAMES.get(f"{name.removesuffix('_amount')}_usd", "") if name.endswith("_amount") else ""
    said = own.replace("(USD)", f"({currency})") or _NAMES.get(name, heading(name, currency))
    return f"{said} ({currency})" if name in _NAMES and name.endswith("_amount") else said


def measure_text(name: str, value: float | None, currency: str, *, signed: bool = False) -> str:
    """Write a measure as people read it."""
    if value is None or pd.isna(value):
        return "…"
    if value == float("inf"):
        return "cannot be done"
    if name.endswith("_share"):
        return number_text(value, "share", signed=signed)
    if name.endswith(("_usd", "_amount")):
        return money(value, currency, signed=signed)
    return number_text(value, signed=signed)


def what_changed(column: Column, before: Scenario) -> list[str]:
    """Say what a column assumes otherwise."""
    moved = [
        f"{heading(name)}: {value_text(getattr(before, name))} → {value_text(getattr(column.scenario, name))}."
        for name in Scenario.model_fields
        if name != "changes" and getattr(column.scenario, name) != getattr(before, name)
    ]
    new, old = column.scenario.changes, before.changes
    if new[: len(old)] == old:
        return moved + [change.sentence for change in new[len(old) :]]
    return (
        moved
        + [f"Not: {change.sentence}" for change in old if change not in new]
        + [change.sentence for change in new if change not in old]
    )


def signatures(column: Column, base: Column | None) -> list[str]:
    """Say what is signed now: all of it, or beside another column what comes and what goes."""
    if base is None or base is column:
        found = column.decisions.groupby(["offer_id", "quarter"], as_index=False)["accelerators"].sum()
        return [f"{counted(round(row.accelerators), 'accelerator')}: {row.offer_id}, {row.quarter}" for row in found.itertuples()] or [
            "nothing"
        ]
    moved = compared(base, column)
    moved = moved[~moved["measure"].isin([*base.measures, *column.measures])]
    return [f"{row.difference:+,.0f} {row.measure}" for row in moved.itertuples()] or ["as today"]


def board_html(columns: Sequence[tuple[str, Column | None, str]], before: Scenario, currency: Currency) -> str:
    """Write the board.

    Args:
        columns: Title, answer (None while there is none), and state ("full answer", "first answer", "computing", or an error) of each
            column.
        currency: The book's.
    """
    columns = [(title, column and measured_in(column, currency), state) for title, column, state in columns]
    names = list(dict.fromkeys(name for _, column, _ in columns if column for name in column.measures))
    base = next((column for _, column, _ in columns if column), None)
    head = "".join(f'<th scope="col">{html.escape(title)}<br><small>{html.escape(state)}</small></th>' for title, _, state in columns)
    rows = []
    for name in names:
        cells = "".join(
            f"<td>{html.escape(measure_text(name, column.measures.get(name) if column else None, currency.name))}</td>"
            for _, column, _ in columns
        )
        rows.append(f'<tr><th scope="row">{html.escape(measure_name(name, currency.name))}</th>{cells}</tr>')
    for label, lines in (
        ("In the plan before the next review", lambda column: signatures(column, base)),
        ("What is assumed otherwise", lambda column: what_changed(column, before)),
    ):
        cells = "".join(
            f'<td class="words">{"<br>".join(html.escape(line) for line in lines(column)) if column else "…"}</td>'
            for _, column, _ in columns
        )
        rows.append(f'<tr><th scope="row">{label}</th>{cells}</tr>')
    caption = f"{counted(len(columns), 'answer')} side by side"
    return (
        f'{_STYLE}<div class="capplan-board"><div class="wide" tabindex="0" role="region" aria-label="The'
        f' board"><table><caption>{caption}</caption><thead><tr><th'
        f' scope="row">Measure</th>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table></div></div>'
    )


def comparison_html(before: Column, after: Column, currency: Currency) -> str:
    """Write two columns and their difference."""
    before, after = measured_in(before, currency), measured_in(after, currency)
    rows = []
    for row in compared(before, after).itertuples():
        name = str(row.measure)
        known = name in before.measures or name in after.measures
        cells = "".join(
            f"<td>{html.escape(measure_text(name, value, currency.name, signed=sign))}</td>"
            for value, sign in ((row.before, False), (row.after, False), (row.difference, True))
        )
        said = measure_name(name, currency.name) if known else f"Accelerators signed: {name}"
        rows.append(f'<tr><th scope="row">{html.escape(said)}</th>{cells}</tr>')
    head = "".join(f'<th scope="col">{html.escape(name)}</th>' for name in (before.name, after.name, "Difference"))
    return (
        f'{_STYLE}<div class="capplan-board"><div class="wide" tabindex="0" role="region" aria-label="The'
        f' comparison"><table><caption>Two answers compared</caption><thead><tr><th'
        f' scope="row">Measure</th>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table></div></div>'
    )


def board_chart(columns: Sequence[Column]) -> Any:
    """Draw what the answers cost, in the currency in force."""
    base, last = columns[0], columns[-1]
    step = last.measures["expected_usd"] - base.measures["expected_usd"]
    more = f"{money(abs(step))} {'more' if step >= 0 else 'less'} than {base.name}"
    title = f"{last.name}: {money(last.measures['expected_usd'])} in expectation" + (f", {more}" if last is not base else "")
    owed = [column.measures.get("signed_contracts_amount", float("nan")) for column in (base, last)]
    if abs(owed[1] - owed[0]) > 0:
        title += f", and {money(abs(owed[1] - owed[0]), rate_in_force().name)} {'more' if owed[1] > owed[0] else 'less'} for what is signed"
    rows = [
        {"label": column.name, "value": value, "part": part}
        for column in columns
        for part, value in (
            ("In expectation", column.measures["expected_usd"]),
            ("More in the bad cases", max(column.measures["bad_cases_usd"] - column.measures["expected_usd"], 0.0)),
        )
    ]
    return charts.bars(
        pd.DataFrame(rows),
        part="part",
        title=title,
        axis=charts.Axis("Cost over the horizon", "USD"),
        subtitle="Discounted; unserved work is counted at its price, what is signed already is not in it",
    )


def scenario_text(column: Column, book: Book) -> str:
    """Write a column's assumptions as the file that a run without a person takes."""
    changed = {
        name: value
        for name, value in column.scenario.model_dump(mode="json").items()
        if getattr(column.scenario, name) != getattr(book.scenario, name)
    }
    if "changes" in changed:
        changed["changes"] = [change.line for change in column.scenario.changes]
    text = yaml.safe_dump(changed, sort_keys=True, allow_unicode=True, width=10_000) if changed else "{}\n"
    return f"# Use: capplan plan BOOK --scenario FILE\n{text}"


def workbook_bytes(columns: Mapping[str, Column], before: Scenario, currency: Currency) -> bytes:
    """Write the board as an Excel workbook: measures, signatures and what is assumed; no text of it is a formula or a link."""
    measures = pd.DataFrame({title: pd.Series(dict(measured_in(column, currency).measures)) for title, column in columns.items()})
    measures.index = pd.Index([measure_name(str(name), currency.name) for name in measures.index], name="Measure")
    signed = pd.concat([column.decisions.assign(answer=title) for title, column in columns.items()], ignore_index=True)
    assumed = pd.DataFrame(
        [(title, line) for title, column in columns.items() for line in what_changed(column, before)],
        columns=["answer", "assumed otherwise"],
    )
    return plain_workbook({"Measures": measures.reset_index(), "Signed": signed.rename(columns=heading), "Assumed": assumed})
