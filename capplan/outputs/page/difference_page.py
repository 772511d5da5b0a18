"""What a run says otherwise than the run before: one page, made of two reports' own tables."""

import json
from pathlib import Path
from typing import Any

import pandas as pd

from capplan.inert import read_table
from capplan.outputs.page.html import PageSection, TableBlock, render_page
from capplan.text import counted

#: What tells one signature from another.
SIGNATURE = ["offer_id", "quarter"]


def difference_page(before: Path, after: Path) -> str:
    """Set two reports beside each other: what is signed, what is spent, which inputs and assumptions changed.

    Returns:
        str: The page.
    """
    old, new = (json.loads((folder / "run.json").read_text(encoding="utf-8")) for folder in (before, after))
    signed = signed_apart(*(read_table(folder / "tables" / "decisions.csv") for folder in (before, after)))
    spent = spend_apart(*(read_table(folder / "tables" / "spend.csv") for folder in (before, after)))
    moved = values_apart(old["parameters"], new["parameters"])
    tables = values_apart(old["digests"], new["digests"])["name"]
    sections = [
        PageSection(
            "What is signed before the next review", "" if len(signed) else "The same.", (), [TableBlock(signed)] if len(signed) else ()
        ),
        PageSection("What is spent", "" if len(spent) else "The same.", (), [TableBlock(spent)] if len(spent) else ()),
        PageSection(
            "What the runs were given",
            f"Tables that changed: {', '.join(tables)}." if len(tables) else "No table changed.",
            (),
            [TableBlock(moved, "Assumptions that changed")] if len(moved) else (),
        ),
    ]
    subtitle = f"{counted(len(signed), 'signature')} differ; before: {old['headline']}" if len(signed) else f"Before: {old['headline']}"
    return render_page(f"{new['book']}: what changed since the run before", subtitle, new["headline"], [], sections)


def signed_apart(before: pd.DataFrame, after: pd.DataFrame) -> pd.DataFrame:
    """Return offer_id, quarter, machines_before, machines_after of what is signed now in one of two plans and not alike in the other."""
    both = [table[table["firm"].astype(bool)].groupby(SIGNATURE)["machines"].sum() for table in (before, after)]
    table = pd.concat(both, axis=1, keys=["machines_before", "machines_after"]).fillna(0.0).reset_index()
    return table[table["machines_before"] != table["machines_after"]].reset_index(drop=True)


def spend_apart(before: pd.DataFrame, after: pd.DataFrame) -> pd.DataFrame:
    """Return quarter, figure, before, after of the amounts that differ by more than half a unit of money."""
    long = [
        table.melt("quarter", var_name="figure", value_name="amount").set_index(["quarter", "figure"])["amount"]
        for table in (before, after)
    ]
    table = (
        pd.concat([pd.to_numeric(each, errors="coerce") for each in long], axis=1, keys=["before", "after"]).dropna(how="all").fillna(0.0)
    )
    return table[(table["after"] - table["before"]).abs() > 0.5].reset_index()


def values_apart(before: dict[str, Any], after: dict[str, Any]) -> pd.DataFrame:
    """Return name, before, after of the values that differ, as text."""
    names = [name for name in dict.fromkeys((*before, *after)) if before.get(name) != after.get(name)]
    rows = [(name, _text(before.get(name)), _text(after.get(name))) for name in names]
    return pd.DataFrame(rows, columns=["name", "before", "after"])


def _text(value: Any) -> str:
    return "" if value is None else value if isinstance(value, str) else json.dumps(value)
