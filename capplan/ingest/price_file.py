"""A provider's public price sheet into the reference facts: one file a provider, so that an update is one file."""

import io
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from capplan.book.facts import SHEETS, check_facts, read_facts
from capplan.book.rules import check_tables
from capplan.book.tables.registry import REFERENCE_TABLES, columns_of, key_of
from capplan.errors import BookError, CapplanError
from capplan.inert import active, inert
from capplan.ingest import ingest
from capplan.ingest.ingested import Ingested
from capplan.ingest.writing import csv_text

#: What makes two offers the same.
SAME = ["sku", "region", "term"]
EVERY_MACHINE = "all"


def import_prices(files: Sequence[str | Path], into: Path, options: Mapping[str, Any], add: Sequence[str] = ()) -> Ingested:
    """Renew the prices of a folder of reference facts from public sheets.

    An offer of the same machine, region and term takes the sheet's price, day and source, and keeps all else that is known of it; a sheet
    that is older than the price at hand changes nothing. What the sheet does not have stays as it is, with its own day.

    Args:
        files: Price sheets, in any layout that `ingest prices` reads.
        into: Folder of reference facts: offers.csv, skus.csv, sources.csv, and prices/PROVIDER.csv.
        add: Machines whose offers are added where the folder has none yet; "all" for every machine of the sheets.

    Raises:
        CapplanError: If the folder holds no reference facts, or the facts would no longer hold together; nothing is written then.
    """
    if not (into / "sources.csv").is_file():
        raise CapplanError(
            f"{into} holds no reference facts (sources.csv); give the folder that has prices/PROVIDER.csv: --into data/reference"
        )
    found = ingest("prices", list(files), None, **options)
    offers = found.tables["offers"].merge(found.tables["skus"][["sku", "provider"]], on="sku")
    missing = sorted(set(add) - set(offers["sku"]) - {EVERY_MACHINE})
    if missing:
        raise CapplanError(f"--add {missing[0]}: the sheets have no such machine; they have {', '.join(sorted(set(offers['sku']))[:20])}")
    notes, sources, machines = list(found.notes), set[str](), set[str]()
    with tempfile.TemporaryDirectory(prefix=".prices-", dir=into.parent) as scratch:
        draft = Path(scratch) / "facts"
        shutil.copytree(into, draft)
        changed = []
        for provider, part in offers.groupby("provider", sort=True):
            file = draft / SHEETS["offers"] / f"{provider}.csv"
            renewed, more = _renewed(file, part.drop(columns="provider"), add, notes)
            if len(renewed) or len(more):
                changed.append(file)
                sources |= {*renewed["source_id"], *more["source_id"]}
                machines |= set(more["sku"])
        if not changed:
            return Ingested({}, tuple(notes), f"No price of {into} is renewed.")
        skus = found.tables["skus"]
        changed += [_appended(draft, "skus", skus[skus["sku"].isin(machines)]), _appended(draft, "sources", found.tables["sources"])]
        _check(draft)
        for file in changed:
            target = into / file.relative_to(draft)
            target.parent.mkdir(exist_ok=True)
            file.replace(target)
    return Ingested(
        {"offers": offers}, tuple(notes), f"{found.headline} {into} has them from now on.", rows=found.rows, period=found.period
    )


def _renewed(file: Path, offers: pd.DataFrame, add: Sequence[str], notes: list[str]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Write a provider's file anew; return the offers that were renewed, and those that were added."""
    names = [column.name for column in columns_of("offers")]
    own = _cells(file) if file.is_file() else pd.DataFrame(columns=names, dtype=str)
    offers = offers.drop_duplicates(SAME)
    at = own.reset_index().merge(offers[[*SAME, "usd_per_hour", "as_of", "source_id"]], on=SAME, suffixes=("", "_new"))
    older = pd.to_datetime(at["as_of"]) > at["as_of_new"]
    if older.any():
        notes.append(f"{int(older.sum())} prices of {file.stem} are newer than the sheet's and stay as they are.")
    at = at[~older]
    for column, texts in (
        ("usd_per_hour", at["usd_per_hour_new"].map("{:.10g}".format)),
        ("as_of", at["as_of_new"].dt.strftime("%Y-%m-%d")),
        ("source_id", at["source_id_new"]),
    ):
        own.loc[at["index"], column] = texts.to_numpy()
    known = pd.MultiIndex.from_frame(own[SAME])
    fresh = offers[~pd.MultiIndex.from_frame(offers[SAME]).isin(known) & ~offers["offer_id"].isin(own["offer_id"])]
    more = fresh if EVERY_MACHINE in add else fresh[fresh["sku"].isin(add)]
    texts = _cells(io.StringIO(csv_text(more, "offers"))) if len(more) else pd.DataFrame()
    file.parent.mkdir(exist_ok=True)
    _write_cells(file, "offers", own, texts)
    left = len(own) - len(at)
    notes.append(
        f"{file.stem}: {len(at)} prices renewed, {len(more)} added, {left} stay as they were; {len(fresh) - len(more)} offers of the"
        " sheet are not in the facts (--add MACHINE takes them)."
    )
    return at.assign(source_id=at["source_id_new"]), more


def _appended(draft: Path, table: str, rows: pd.DataFrame) -> Path:
    """Add rows that a table does not have."""
    file = draft / f"{table}.csv"
    own = _cells(file)
    key = key_of(table)[0]
    fresh = rows[~rows[key].isin(own[key])]
    if len(fresh):
        _write_cells(file, table, own, _cells(io.StringIO(csv_text(fresh, table))))
    return file


def _cells(source: Path | io.StringIO) -> pd.DataFrame:
    """Read all cells as text, names as they are meant."""
    return pd.read_csv(source, dtype=str, keep_default_na=False).map(active)


def _write_cells(file: Path, table: str, own: pd.DataFrame, more: pd.DataFrame) -> None:
    """Write a table's cells and further ones, those that hold text made inert."""
    kept = [column for column in columns_of(table) if column.name in own or column.name in more]
    whole = pd.concat([own, more], ignore_index=True).reindex(columns=[column.name for column in kept]).fillna("")
    safe = whole.assign(**{column.name: whole[column.name].map(inert) for column in kept if column.kind == "str"})
    file.write_text(safe.to_csv(index=False, lineterminator="\n"), encoding="utf-8")


def _check(draft: Path) -> None:
    """Refuse facts that do not hold together."""
    tables, faults = {}, []
    for name in REFERENCE_TABLES:
        tables[name], found = read_facts(draft, name)
        faults += found
    faults = faults or check_tables(tables, tables)
    if faults:
        raise BookError(faults, where="the facts with these prices")
    wrong, _ = check_facts(tables, tables["offers"]["as_of"].max())
    if wrong:
        raise CapplanError("the facts with these prices would be wrong, and nothing is written: " + "; ".join(wrong[:10]))
