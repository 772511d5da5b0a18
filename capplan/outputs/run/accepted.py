"""An accepted plan: kept with its reason, and compared with the plan that the same inputs give today."""

import json
import shutil
from pathlib import Path

import pandas as pd

from capplan.answers.finished_plan import Plan
from capplan.book.accepted import AcceptedPlan, read_accepted
from capplan.book.book import Book
from capplan.errors import CapplanError
from capplan.inert import read_table
from capplan.outputs.export.files import write_table
from capplan.outputs.run.folders import replaced_whole
from capplan.outputs.views.plan_tables import planned_work
from capplan.questions.review import plans_apart, spend_of_focus
from capplan.units import quarter_of

#: What is kept of a report: enough to see a drift and to review it later, small enough for a repository.
KEPT = (
    "run.json",
    "tables/decisions.csv",
    "tables/spend.csv",
    "tables/alternatives.csv",
    "tables/planned_spend.csv",
    "tables/planned_work.csv",
    "charts/capacity.png",
    "charts/spend.png",
)


def accept(report: Path, reason: str, into: Path) -> str:
    """Keep a report's main tables as the accepted plan.

    Args:
        into: Folder of the accepted plan; what was accepted before stays listed in accepted.csv.

    Returns:
        str: One sentence.

    Raises:
        CapplanError: Where the folder is no finished report, or no reason is given.
    """
    missing = [name for name in KEPT if not (report / name).is_file()]
    if missing:
        raise CapplanError(f"{report} is no finished report: it has no {missing[0]}")
    if not reason.strip():
        raise CapplanError("an accepted plan needs a reason: --reason 'new B200 quotes'")
    run = json.loads((report / "run.json").read_text(encoding="utf-8"))
    line = pd.DataFrame([{"as_of": run["parameters"]["as_of"], "headline": run["headline"], "reason": reason.strip()}])
    log = into / "accepted.csv"
    history = pd.concat([read_table(log), line], ignore_index=True) if log.is_file() else line
    with replaced_whole(into) as draft:
        for name in KEPT:
            shutil.copy(report / name, draft / Path(name).name)
        write_table(history, draft / "accepted.csv")
    return f"Accepted {run['headline']}"


def last_plan(book: str, *folders: Path) -> tuple[pd.DataFrame | None, AcceptedPlan | None]:
    """Return the table spend of the last plan of a book, and what it planned: of the first folder, accepted or a report, that holds one.

    A plan that was kept without its planned spend has the table alone; where there is no plan both are None.
    """
    for folder in folders:
        record = folder / "run.json"
        if not record.is_file() or json.loads(record.read_text(encoding="utf-8")).get("book") != book:
            continue
        try:
            kept = read_accepted(folder)
        except CapplanError:
            kept = None
        table = next((path for path in (folder / "spend.csv", folder / "tables" / "spend.csv") if path.is_file()), None)
        if table is not None:
            return read_table(table), kept
        if kept is not None:
            quarters = kept.spend["month"].map(quarter_of)
            return kept.spend["amount"].groupby(quarters).sum().rename_axis("quarter").rename("expected").reset_index(), kept
    return None, None


def moved_since(kept: AcceptedPlan | None, plan: Plan, book: Book, focus: pd.DataFrame) -> pd.DataFrame | None:
    """Return what moved planned spend since an earlier plan (`plans_apart`); None where it cannot be told.

    Args:
        focus: Its planned spend as a bill.
    """
    currency = plan.scenario.currency
    if kept is None or kept.currency != currency:
        return None
    work = planned_work(plan, book.get("workloads"))
    now = AcceptedPlan(plan.book, plan.headline, pd.Timestamp(plan.scenario.as_of), currency, spend_of_focus(focus), work, Path())
    return plans_apart(kept, now)


def drift(old: pd.DataFrame, new: pd.DataFrame, key: str) -> pd.DataFrame:
    """Compare the numbers of two tables.

    Returns:
        DataFrame: [key, column, old, new, change_share], only cells that differ by more than rounding, largest first; a row that one side
            lacks counts as 0 there.
    """
    numbers = [name for name in old.columns if pd.api.types.is_numeric_dtype(old[name]) and old[name].dtype != bool]
    before = old.set_index(key)[numbers].stack().rename("old")
    after = new.set_index(key)[numbers].stack().rename("new")
    both = pd.concat([before, after], axis=1).fillna(0.0).rename_axis([key, "column"]).reset_index()
    size = both[["old", "new"]].abs().max(axis=1)
    both["change_share"] = ((both["new"] - both["old"]).abs() / size.where(size > 0)).fillna(0.0)
    return both[both["change_share"] > 1e-9].sort_values("change_share", ascending=False, ignore_index=True)
