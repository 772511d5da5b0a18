"""An accepted plan, or a report, as a later review reads it back."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from capplan.errors import CapplanError
from capplan.inert import read_table

#: Columns of planned spend and of planned work, as reports write them.
SPEND_COLUMNS = ("month", "provider", "accelerator", "contract_id", "workload", "kind", "hours", "amount", "amount_at_plan_rates")
WORK_COLUMNS = ("workload", "class", "region", "month", "expected", "low", "high")
SIGNED_COLUMNS = ("offer_id", "quarter", "machines", "starts")
TEXTS = ("provider", "accelerator", "contract_id", "workload", "kind", "class", "region")


@dataclass(frozen=True)
class AcceptedPlan:
    """What a plan said: spend by month, machine and what it is for, work by workload and month with its band; see SPEND_COLUMNS."""

    #: book, headline: Name of the book it was made of, and its sentence.
    book: str
    headline: str
    as_of: pd.Timestamp  #: Day it was made.
    currency: str  #: Its currency.
    #: spend, work: See SPEND_COLUMNS and WORK_COLUMNS.
    spend: pd.DataFrame
    work: pd.DataFrame
    folder: Path  #: Where it lies.
    #: parameters, digests: Assumptions it was made under, and digests of the tables it was made of.
    parameters: Mapping[str, Any] = field(default_factory=dict)
    digests: Mapping[str, str] = field(default_factory=dict)
    #: What it signs before its next review: offer_id, quarter, machines, starts.
    signed: pd.DataFrame = field(default_factory=lambda: pd.DataFrame(columns=list(SIGNED_COLUMNS)))


def find_accepted(book: str, folders: Sequence[Path]) -> AcceptedPlan:
    """Return the first plan of a book among some folders, accepted plans or reports.

    Raises:
        CapplanError: If none of them is a plan of the book, or what is there cannot be read.
    """
    others = []
    for folder in folders:
        if (folder / "run.json").is_file():
            found = read_accepted(folder)
            if found.book == book:
                return found
            others.append(f"{folder} is a plan of {found.book}")
    seen = "; ".join(others) or f"none in {', '.join(map(str, folders))}"
    raise CapplanError(
        f"there is no accepted plan of {book} ({seen}). Accept one (capplan accept REPORT --reason '...'), or name a report with --plan"
    )


def read_accepted(folder: Path) -> AcceptedPlan:
    """Read an accepted plan or a report.

    Raises:
        CapplanError: If it is none, or one of a version that kept too little to be reviewed.
    """
    try:
        record: dict[str, Any] = json.loads((folder / "run.json").read_text(encoding="utf-8"))
        book, headline = str(record["book"]), str(record["headline"])
        as_of, currency = pd.Timestamp(str(record["parameters"]["as_of"])), str(record["parameters"]["currency"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CapplanError(f"{folder} is no report and no accepted plan: its run.json cannot be read ({error})") from error
    return AcceptedPlan(
        book,
        headline,
        as_of,
        currency,
        _table(folder, "planned_spend", SPEND_COLUMNS),
        _table(folder, "planned_work", WORK_COLUMNS),
        folder,
        dict(record["parameters"]),
        {str(name): str(each) for name, each in dict(record.get("digests") or {}).items()},
        _signed(folder),
    )


def _signed(folder: Path) -> pd.DataFrame:
    """Read what a plan signs; nothing where its decisions were not kept."""
    path = next((place for place in (folder / "decisions.csv", folder / "tables" / "decisions.csv") if place.is_file()), None)
    table = pd.DataFrame(columns=["firm", *SIGNED_COLUMNS])
    if path is not None:
        try:
            table = read_table(path, parse_dates=["starts"]).reindex(columns=table.columns)
        except (OSError, ValueError, UnicodeDecodeError) as error:
            raise CapplanError(f"{path} cannot be read: {error}") from error
    return table[table["firm"].astype(str) == "True"].reset_index(drop=True)[list(SIGNED_COLUMNS)]


def _table(folder: Path, name: str, columns: tuple[str, ...]) -> pd.DataFrame:
    """Read a table that lies in the folder, or in its folder tables."""
    path = next((place for place in (folder / f"{name}.csv", folder / "tables" / f"{name}.csv") if place.is_file()), None)
    if path is None:
        raise CapplanError(f"{folder} has no {name}.csv, which a review needs: make the plan again with this version, and accept it")
    try:
        table = read_table(
            path, keep_default_na=False, na_values={name: [""] for name in columns if name not in TEXTS}, parse_dates=["month"]
        )
    except (OSError, ValueError, UnicodeDecodeError) as error:
        raise CapplanError(f"{path} cannot be read: {error}") from error
    missing = [column for column in columns if column not in table]
    if missing:
        raise CapplanError(f"{path} lacks {', '.join(missing)}: it was not written by a plan, or was changed since")
    return table[list(columns)].astype({column: "object" if column in TEXTS else "float64" for column in columns if column != "month"})
