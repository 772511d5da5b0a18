"""Scenarios side by side: money, what is owed, work left undone and signatures of each, and why each differs from the first."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from capplan.answers.board import Column, column_of
from capplan.answers.cards import CARDS
from capplan.answers.finished_plan import Plan
from capplan.answers.placement import asked_book
from capplan.answers.plan import quarterly_plan
from capplan.book.accepted import AcceptedPlan
from capplan.book.book import Book, load_book
from capplan.book.book_currency import book_currency
from capplan.book.changes import Change
from capplan.book.currencies import Currency
from capplan.book.scenario import Scenario
from capplan.dollars import in_force
from capplan.errors import CapplanError, ScenarioError
from capplan.outputs.export.files import write_table
from capplan.outputs.export.focus import planned_focus
from capplan.outputs.lab.board_table import (
    board_chart,
    measure_name,
    measure_text,
    measured_in,
    scenario_text,
    what_changed,
    workbook_bytes,
)
from capplan.outputs.page.html import PageSection, TableBlock, render_page
from capplan.outputs.run.folders import check_room, replaced_whole
from capplan.outputs.run.report import folder_name
from capplan.outputs.views.plan_tables import planned_work
from capplan.outputs.views.scenario_columns import breaks_budget
from capplan.questions.review import plans_apart, spend_of_focus, told
from capplan.text import counted, money

OWN = "the book as it is"
WAITING, WITHIN = "wait a quarter", "within budget"
KEPT_BUDGETS = Change(table="limits", where={"kind": "budget_usd", "hard": False}, column="hard", set=True)


@dataclass(frozen=True)
class Comparison:
    """Scenarios side by side."""

    headline: str  #: What each costs beside the first.
    #: measure, and a column a scenario; the ending of the measure tells the unit (_usd, _amount: the book's currency, _share), counts have
    #: none.
    measures: pd.DataFrame
    signed: pd.DataFrame  #: offer_id, quarter, and the accelerators signed before the next review, a column a scenario.
    #: scenario, driver, meaning, amount (book's currency): from the planned spend of the first to that of each other one, to the cent.
    why: pd.DataFrame
    assumed: pd.DataFrame  #: scenario, assumed_otherwise: what each assumes otherwise than the first.
    notes: tuple[str, ...]  #: Scenarios that need no column, or cannot be.
    folder: Path  #: Where the page and the tables are.


def write_comparison(
    book_path: Path,
    given: Mapping[str, Mapping[str, Any]],
    shared: Mapping[str, Any],
    out: Path,
    *,
    others: bool = True,
    say: Callable[[str], None] = lambda _: None,
) -> Comparison:
    """Plan a book under some scenarios, and leave one page, its tables, a workbook and the scenarios, all at once or not at all.

    Args:
        given: Assumptions to override, by the scenario's name; the first is what the others are held against. With fewer than two, the
            book's own stand first.
        shared: Assumptions to override in all of them.
        out: Folder of all reports; the comparison goes to out/<book>/comparison.
        others: Also show waiting a quarter and keeping every budget, under the first scenario, where that is not what it does itself?

    Raises:
        CapplanError: If the book or a scenario is wrong, before anything is planned, or if the first one has no plan; a previous comparison
            stays.
    """
    book = load_book(book_path)
    asked = scenarios_of(book, given, shared)
    target = out / folder_name(book_path) / "comparison"
    check_room(target)
    say(f"capplan: {book.name}, {counted(len(asked), 'scenario')} side by side")
    first, *rest = asked
    say(f"  planning {first} ...")
    base = quarterly_plan(book, asked[first])
    columns, plans, notes = {first: column_of(first, book, base)}, {first: base}, list[str]()
    if others:
        more, notes = _others(book, base, asked)
        asked |= more
        rest += more
    for name in rest:
        say(f"  planning {name} ...")
        try:
            plans[name] = quarterly_plan(book, asked[name])
        except CapplanError as error:
            notes.append(f"{name}: {error}")
            continue
        columns[name] = column_of(name, book, plans[name], columns[first].signed if name in given else None)
    own = book_currency(book, base.scenario)
    with in_force(own), replaced_whole(target) as draft:
        found = _comparison(book, columns, plans, tuple(notes), target)
        for name in ("measures", "signed", "why", "assumed"):
            write_table(getattr(found, name), draft / f"{name}.csv")
        (draft / "comparison.xlsx").write_bytes(workbook_bytes(columns, base.scenario, own))
        (draft / "scenarios").mkdir()
        for place, column in enumerate(columns.values()):
            stem = f"{place + 1}-{folder_name(Path(column.name.replace(' ', '-')))}"
            (draft / "scenarios" / f"{stem}.yaml").write_text(scenario_text(column, book), encoding="utf-8")
        record = {"book": book.name, "headline": found.headline, "digests": dict(book.digests), "notes": notes}
        record["scenarios"] = {name: column.scenario.model_dump(mode="json") for name, column in columns.items()}
        (draft / "run.json").write_text(json.dumps(record, indent=1, default=str) + "\n", encoding="utf-8")
        (draft / "comparison.html").write_text(_page(found, columns, own), encoding="utf-8")
    return found


def scenarios_of(book: Book, given: Mapping[str, Mapping[str, Any]], shared: Mapping[str, Any]) -> dict[str, Scenario]:
    """Check scenarios all at once.

    Raises:
        ScenarioError: One message with the faults of all of them: which scenario, what is wrong, what is allowed.
    """
    named = dict(given) if len(given) > 1 else {OWN: {}, **given}
    asked, faults = {}, []
    for name, values in named.items():
        try:
            scenario = book.scenario_with({**values, **shared})
            asked_book(book, scenario)
            asked[name] = scenario
        except CapplanError as error:
            faults.append(f"{name}: {error}")
    currencies = {name: scenario.currency for name, scenario in asked.items()}
    if len(set(currencies.values())) > 1:
        stated = ", ".join(f"{name} ({currency})" for name, currency in currencies.items())
        faults.append(f"amounts of {stated} cannot stand side by side: give all of them one currency")
    if faults:
        raise ScenarioError("; ".join(faults))
    return asked


def _others(book: Book, base: Plan, asked: Mapping[str, Scenario]) -> tuple[dict[str, Scenario], list[str]]:
    """Return waiting a quarter and keeping every budget as scenarios, and a note for what the first scenario does already."""
    more, notes = {}, []
    if not base.purchases.purchases["firm"].any():
        notes.append(f"{WAITING}: {next(iter(asked))} signs nothing before the next review, so it waits already")
    elif WAITING not in asked:
        card = next(card for card in CARDS if card.name == "Nothing new is signed for")
        more[WAITING] = card.ask(asked_book(book, base.scenario), base.scenario, 1)
    if not breaks_budget(base):
        notes.append(f"{WITHIN}: {next(iter(asked))} keeps every budget already")
    elif WITHIN not in asked:
        more[WITHIN] = base.scenario.replaced(changes=(*base.scenario.changes, KEPT_BUDGETS))
    return more, notes


def _comparison(book: Book, columns: Mapping[str, Column], plans: Mapping[str, Plan], notes: tuple[str, ...], target: Path) -> Comparison:
    """Set finished plans side by side."""
    (first, base), *rest = columns.items()
    names = list(dict.fromkeys(name for column in columns.values() for name in column.measures))
    measures = pd.DataFrame({"measure": names} | {title: [each.measures.get(name) for name in names] for title, each in columns.items()})
    sums = [column.decisions.groupby(["offer_id", "quarter"])["accelerators"].sum() for column in columns.values()]
    signed = pd.concat(sums, axis=1, keys=list(columns)).fillna(0.0).reset_index()
    kept = {name: _as_kept(name, plan, book) for name, plan in plans.items()}
    why = [plans_apart(kept[first], kept[name]).assign(scenario=name) for name, _ in rest]
    assumed = [(name, line) for name, column in rest for line in what_changed(column, base.scenario)]
    return Comparison(
        _headline(base, [column for _, column in rest]),
        measures,
        signed,
        pd.concat(why, ignore_index=True)[["scenario", "driver", "meaning", "amount"]] if why else pd.DataFrame(columns=["scenario"]),
        pd.DataFrame(assumed, columns=["scenario", "assumed_otherwise"]),
        notes,
        target,
    )


def _as_kept(name: str, plan: Plan, book: Book) -> AcceptedPlan:
    """Return a plan's spend and work as two plans are told apart by."""
    a = plan.scenario
    work = planned_work(plan, asked_book(book, a).get("workloads"))
    return AcceptedPlan(plan.book, plan.headline, pd.Timestamp(a.as_of), a.currency, spend_of_focus(planned_focus(plan)), work, Path(name))


def _headline(base: Column, rest: list[Column]) -> str:
    """Say what each scenario costs beside the first."""
    cost = base.measures["expected_usd"]
    parts = []
    for column in rest:
        step = column.measures["expected_usd"] - cost
        signs = "signs the same" if dict(column.signed) == dict(base.signed) else "signs other contracts"
        parts.append(f"{column.name} {money(step, signed=True)} ({100 * step / cost:+.1f} %) and {signs}" if cost else column.name)
    return f"{base.name} costs {money(cost)} in expectation" + (f"; against it {'; '.join(parts)}." if parts else ".")


def _page(found: Comparison, columns: Mapping[str, Column], own: Currency) -> str:
    """Render the comparison as one page that opens from disk."""
    base = next(iter(columns.values()))
    measures = {title: measured_in(column, own).measures for title, column in columns.items()}
    names = list(dict.fromkeys(name for found in measures.values() for name in found))
    shown = pd.DataFrame(
        {"measure": [measure_name(name, own.name) for name in names]}
        | {title: [measure_text(name, values.get(name), own.name) for name in names] for title, values in measures.items()}
    )
    sections = [
        PageSection("Side by side", "", [board_chart(list(columns.values())).svg], [TableBlock(shown, shown=len(shown))], found.notes),
        PageSection(
            "Signed before the next review",
            "Accelerators by offer and quarter." if len(found.signed) else "No scenario signs anything.",
            tables=[TableBlock(found.signed, shown=100, file="signed.csv")] if len(found.signed) else (),
        ),
    ]
    for name in list(columns)[1:]:
        bridge = found.why.loc[found.why["scenario"] == name, ["driver", "meaning", "amount"]]
        lines = found.assumed.loc[found.assumed["scenario"] == name, "assumed_otherwise"].tolist()
        sections.append(
            PageSection(
                f"{name}: what differs from {base.name}, and why",
                told(bridge, own.name),
                tables=[TableBlock(bridge.drop(columns="driver"), currency=own.name)],
                notes=lines or ["It assumes the same."],
            )
        )
    subtitle = f"{counted(len(columns), 'scenario')} side by side, each planned as a run of its own"
    return render_page(f"{found.folder.parent.name}: scenarios compared", subtitle, found.headline, [], sections)
