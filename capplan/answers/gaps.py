"""Gaps: which table that the book does not have would change the plan most."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pandas as pd

from capplan.answers.plan import cost_of
from capplan.book.book import Book
from capplan.book.scenario import Change, Scenario
from capplan.errors import CapplanError
from capplan.text import money

COLUMNS = ["table", "supposed", "change_usd", "change_share"]
#: Paths that are enough to rank what-ifs.
RANKING_PATHS = 20


@dataclass(frozen=True)
class WhatIf:
    """What a missing table might say, as a change of the book or the scenario."""

    table: str  #: The missing table.
    supposed: str  #: What is supposed, in words.
    changes: tuple[Change, ...] = ()  #: Changes of tables that the book has or that were assumed for it.
    values: tuple[tuple[str, Any], ...] = ()  #: Assumptions to replace.


#: A plausible surprise for each table whose absence leaves something open; the sizes are judgements, stated in the answer.
WHAT_IFS = (
    WhatIf("offers", "your own quotes are 20 % below the list prices", values=(("price_factor", 0.8),)),
    WhatIf(
        "workloads",
        "all work could be interrupted and run on spot",
        (Change(table="workloads", key="*", column="interruptible", set=True),),
    ),
    WhatIf("events", "a known event raises all demand by a quarter", values=(("demand_factor", 1.25),)),
    WhatIf("limits", "nothing can be had on demand or as spot", values=(("on_demand_accelerators", 0.0), ("spot_accelerators", 0.0))),
    WhatIf(
        "speeds",
        "an accelerator does 20 % less than assumed",
        (Change(table="speeds", key="*", column="work_per_accelerator_hour", multiply=0.8),),
    ),
)


def rank_gaps(book: Book, scenario: Scenario, progress: Callable[[str], None] = lambda _: None) -> pd.DataFrame:
    """Plan again with a plausible content for each missing table, and rank the tables by what the plan's cost moves.

    Returns:
        DataFrame: [table, supposed, change_usd, change_share], largest absolute change first; without rows where nothing is missing. The
            change is in expected cost blended with risk, as the plan minimises it.
    """
    missing = [what for what in WHAT_IFS if what.table not in book.own and all(change.table in book.tables for change in what.changes)]
    if not missing:
        return no_gaps()
    quick = scenario.replaced(plan_paths=min(scenario.plan_paths, RANKING_PATHS))
    base, warm = cost_of(book, quick)
    rows = []
    for what in missing:
        progress(f"asking what {what.table} could change")
        try:
            changed, _ = cost_of(book.with_changes(what.changes), quick.replaced(**dict(what.values)), warm)
        except CapplanError as error:
            rows.append((what.table, f"{what.supposed} (no plan exists then: {error})", float("inf"), float("inf")))
            continue
        rows.append((what.table, what.supposed, changed - base, (changed - base) / base if base else 0.0))
    frame = pd.DataFrame(rows, columns=COLUMNS)
    return frame.sort_values("change_usd", key=lambda usd: -usd.abs(), kind="stable").reset_index(drop=True)


def no_gaps() -> pd.DataFrame:
    """Return the table of a book in which nothing is missing, or of a run in which nobody asked."""
    return pd.DataFrame(columns=COLUMNS).astype({"change_usd": float, "change_share": float})


def gap_note(gaps: pd.DataFrame) -> str:
    """Say which missing table matters most, in one sentence; empty where nothing is missing.

    Examples:
    >>> names = ["table", "supposed", "change_usd", "change_share"]
    >>> gap_note(pd.DataFrame([("limits", "nothing is on demand", 2e6, 0.2)], columns=names))
    'Of the tables this book does not have, limits would change the plan most: if nothing is on demand, its cost moves by +$2.0M (+20 %).'
    """
    if gaps.empty:
        return ""
    first = gaps.iloc[0]
    moved = (
        f"its cost moves by {money(float(first['change_usd']), signed=True)} ({100 * first['change_share']:+.0f} %)"
        if first["change_usd"] < float("inf")
        else "no plan exists"
    )
    return f"Of the tables this book does not have, {first['table']} would change the plan most: if {first['supposed']}, {moved}."
