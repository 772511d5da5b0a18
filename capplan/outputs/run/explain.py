"""The reasons of a finished report, or of a book's plan."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from capplan.answers.explained import KEYS, Explained, Question, explain_plan, tables_to_explain
from capplan.answers.flips import find_flips
from capplan.answers.placement import asked_book
from capplan.answers.plan import quarterly_plan
from capplan.answers.sums import plan_currency
from capplan.book.book import load_book
from capplan.book.currencies import DOLLARS, Currency
from capplan.errors import CapplanError
from capplan.inert import read_table
from capplan.outputs.run.report import Say

#: Views of traced figures that are tables of the report in dollars, and no lines of the ledger.
CONVERTED = ("alternatives", "verdicts")
#: Columns of these tables that hold days; all that is no number besides is text.
DAYS = ("sign_by", "submit_by", "day", "starts", "ends", "signed_on")


def is_report(place: Path) -> bool:
    """Tell a finished report from a book."""
    return (place / "run.json").is_file()


def explain_place(place: Path, question: Question, name: str, values: Mapping[str, Any], say: Say) -> Explained:
    """Answer a question about the plan of a report, from its tables; or of a book, which is planned for it.

    Args:
        place: Folder of a report or of a book.
        question, name: As for `explain_plan`.
        values: Assumptions to override; a report has its own.

    Raises:
        CapplanError: Where assumptions are given for a report, or the plan knows nothing of the name.
    """
    if is_report(place):
        if values:
            raise CapplanError(f"{place} is a finished report, whose assumptions stand; ask its book to change them ({min(values)})")
        return explain_plan(report_tables(place), question, name, report_currency(place))
    book = load_book(place)
    scenario = book.scenario_with(**values)
    say(f"capplan: planning {book.name} to explain it")
    plan = quarterly_plan(book, scenario, lambda step: say(f"  {step} ..."))
    wanted = question == "wait" and scenario.flip_search
    flips = find_flips(asked_book(book, scenario), scenario, lambda step: say(f"  {step} ...")) if wanted else None
    return explain_plan(tables_to_explain(plan, flips), question, name, plan_currency(plan))


def report_currency(report: Path) -> Currency:
    """Return the currency of a report at the rate of its day, as it converted amounts of its tables; dollars where it converted none."""
    run = json.loads((report / "run.json").read_text(encoding="utf-8"))
    name = str(run.get("parameters", {}).get("currency", "USD"))
    path = report / "tables" / "figures.csv"
    if name == "USD" or not path.is_file():
        return DOLLARS
    figures = read_table(path, dtype={"view": str})
    rates = figures.loc[figures["view"].isin(CONVERTED), "usd_per_unit"]
    return Currency(name, float(rates.iloc[0])) if len(rates) else DOLLARS


def report_tables(report: Path) -> dict[str, pd.DataFrame]:
    """Read the tables of a report that explain it; those it does not have are left out.

    Raises:
        CapplanError: Where it has none of them, or one cannot be read.
    """
    found = {name: report_table(path) for name in KEYS if (path := report / "tables" / f"{name}.csv").is_file()}
    if not found:
        raise CapplanError(f"{report} is no report that can be explained: it has no tables/purchases.csv; make the plan again")
    return found


def report_table(path: Path) -> pd.DataFrame:
    """Read a table of a report: names as the book has them, numbers and days in their types."""
    try:
        frame = read_table(path, dtype=str, keep_default_na=False)
    except (OSError, ValueError) as error:
        raise CapplanError(f"{path} cannot be read: {error}") from error
    for column in frame:
        own, keys = frame[column], KEYS.get(path.stem, ())
        filled = own[own != ""]
        if column in DAYS:
            frame[column] = pd.to_datetime(own, errors="coerce")
        elif column not in keys and len(filled) and pd.to_numeric(filled, errors="coerce").notna().all():
            frame[column] = pd.to_numeric(own.where(own != "", None), errors="coerce")
    return frame
