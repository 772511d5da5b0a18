"""Bills of one account that are read together and whose charge periods meet: equal charges count once, what is unclear is refused."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from capplan.errors import CapplanError
from capplan.ingest.cells import Wanted
from capplan.ingest.ingest_ledger import stem_without_part
from capplan.ingest.opening import Sheet

#: Two bills of which a smaller share of the charges in their common time is equal are of different things.
CHANCE_SHARE = 0.1
#: Two bills of which at least this share of the charges in their common time differs in costs alone are of the same things.
SAME_SHARE = 0.9
COSTS = ("BilledCost", "EffectiveCost", "ListCost")
_DAILY = "ChargePeriodEnd - ChargePeriodStart <= interval 1 day"
_TOTALS = "sum(copies)::bigint, coalesce(sum(billed), 0)::double"


def charged_times(sheet: Sheet) -> pd.DataFrame:
    """Return what each file's charges are of: provider, billing account and month, and the first and last start of a charge.

    Charges of longer than a day say nothing about the days that an export is of, where it has others.
    """
    return sheet.connection.execute(f"""
        select file, ProviderName as provider, coalesce(BillingAccountId, 'none') as billing_account,
            date_trunc('month', BillingPeriodStart)::timestamp as month,
            coalesce(min(ChargePeriodStart) filter ({_DAILY}), min(ChargePeriodStart))::timestamp as earliest,
            coalesce(max(ChargePeriodStart) filter ({_DAILY}), max(ChargePeriodStart))::timestamp as latest
        from typed where ChargePeriodStart is not null group by all order by all
        """).df()


def unlike(files: Sequence[Path]) -> set[tuple[int, int]]:
    """Return the places of files of which each is no part of the same export as an earlier one: by their names, or one file twice."""
    stems = [stem_without_part(file.name) for file in files]
    return {
        (place, before)
        for place, file in enumerate(files)
        for before in range(place)
        if stems[place] != stems[before] or file.name == files[before].name
    }


def meeting(sheet: Sheet, times: pd.DataFrame | None) -> list[Any]:
    """Return the pairs of files, not parts of one export, whose charges (see `charged_times`) are of one account and meet in time."""
    if times is None:
        return []
    apart, scope = unlike(sheet.files), ["provider", "billing_account", "month"]
    pairs = times.merge(times, on=scope, suffixes=("", "_before")).query("file > file_before")
    pairs["begin"] = pairs[["earliest", "earliest_before"]].max(axis=1)
    pairs["end"] = pairs[["latest", "latest_before"]].min(axis=1)
    return [
        row
        for row in pairs[pairs["begin"] <= pairs["end"]].sort_values(["file", "file_before", *scope]).itertuples()
        if (row.file, row.file_before) in apart
    ]


def count_once(sheet: Sheet, twins: Sequence[Any], columns: tuple[Wanted, ...]) -> dict[int, tuple[int, ...]]:
    """Leave charges out of the view `typed` that an earlier file of the same command has too.

    Numbered parts of one export share their time and no row; bills that share no charge are of different things.

    Args:
        sheet: With the view `typed`, row by row.
        twins: Files whose charges meet, see `meeting`.

    Returns:
        dict of tuple of int: By the place of a file, the places of the files whose charges were left out of it.

    Raises:
        CapplanError: Where bills of the same account and days have some charges in common and others not: one restates the other.
    """
    what = ", ".join(f"coalesce({wanted.name}::varchar, '')" for wanted in columns if wanted.name not in COSTS)
    costs = ", ".join(f"coalesce({name}::varchar, '')" for name in COSTS)
    sheet.connection.execute(f"""
        create temp view told_apart as select *, md5_number_lower(concat_ws(chr(31), {what})) as charge,
            md5_number_lower(concat_ws(chr(31), {what}, {costs})) as identity from typed;
        create temp table known_charges (file bigint, identity ubigint, copies bigint)
        """)
    left: dict[int, tuple[int, ...]] = {}
    for twin in twins:
        if _compared(sheet, twin):
            left[twin.file] = (*left.get(twin.file, ()), twin.file_before)
    if left:
        sheet.connection.execute("""
            create temp table fresh_charges as select * exclude (identity, charge, turn, known) from (
                select told_apart.*, row_number() over (partition by told_apart.file, told_apart.identity) as turn,
                    coalesce(k.copies, 0) as known
                from told_apart left join (select file, identity, max(copies) as copies from known_charges group by all) k
                    on k.file = told_apart.file and k.identity = told_apart.identity)
            where turn > known;
            create or replace temp view typed as from fresh_charges
            """)
    return left


def _compared(sheet: Sheet, twin: Any) -> bool:
    """Say whether two bills have their common charges twice, and keep these; refuse bills of which neither holds the other's."""
    mine, theirs = twin.file, twin.file_before
    sheet.connection.execute(
        f"""
        create or replace temp table met as select file, identity, charge, count(*) as copies, sum(BilledCost) as billed from told_apart
        where file in (?, ?) and ProviderName = ? and coalesce(BillingAccountId, 'none') = ? and date_trunc('month', BillingPeriodStart) = ?
            and (ChargePeriodStart between ? and ? or not coalesce({_DAILY}, false)) group by all
        """,
        [mine, theirs, twin.provider, twin.billing_account, twin.month, twin.begin, twin.end],
    )
    sheet.connection.execute(
        "create or replace temp table both_have as select m.file, m.identity, least(m.copies, t.copies) as copies,"
        " m.billed * least(m.copies, t.copies) / m.copies as billed"
        " from met m join met t on m.identity = t.identity and m.file = ? and t.file = ?",
        [mine, theirs],
    )
    (equal, billed), rows = sheet.rows(f"select {_TOTALS} from both_have")[0], {}
    for file, count, usd in sheet.rows(f"select file, {_TOTALS} from met group by file"):
        rows[file] = (count, usd)
    names = {file: sheet.files[file].name for file in rows}
    whose = f"{twin.month:%Y-%m} of {twin.provider}" + (f", account {twin.billing_account}" if twin.billing_account != "none" else "")
    if not equal or equal < CHANCE_SHARE * min(count for count, _ in rows.values()):
        _refuse_other_costs(sheet, min((count for count, _ in rows.values()), default=0), names, whose)
        return False
    if all(count > equal for count, _ in rows.values()):
        raise CapplanError(
            f"{whose}: {names[theirs]} and {names[mine]} both bill {twin.begin:%Y-%m-%d} to {twin.end:%Y-%m-%d}; {equal:,} charges are"
            f" equal ({billed:,.2f} billed), {rows[theirs][0] - equal:,} only in the first ({rows[theirs][1] - billed:,.2f})"
            f" and {rows[mine][0] - equal:,} only in the second ({rows[mine][1] - billed:,.2f}). Export periods that do not meet, read them"
            " in two commands, so that the later bill replaces the earlier one's month, or say restated=add where all charges count"
        )
    sheet.connection.execute("insert into known_charges select file, identity, copies from both_have")
    sheet.notes.append(
        f"{whose}: {equal:,} charges of {names[mine]} ({billed:,.2f} billed) are in {names[theirs]} already; they count once."
    )
    return True


def _refuse_other_costs(sheet: Sheet, least: int, names: dict[int, str], whose: str) -> None:
    """Refuse two bills that have the same charges at other costs: one is of invoices, say, and one is amortised."""
    same = sheet.rows("""
        select coalesce(sum(least), 0)::bigint from (select min(copies) as least from
            (select file, charge, sum(copies) as copies from met group by all) group by charge having count(*) > 1)
        """)[0][0]
    if least and same >= SAME_SHARE * least:
        raise CapplanError(
            f"{whose}: {' and '.join(names[file] for file in sorted(names))} have the same {same:,} charges at different costs, as an"
            " export of amortised costs has beside one of billed costs. A FOCUS export has both in one row: give that one (or one of the"
            " two), or say restated=add where all charges count"
        )
