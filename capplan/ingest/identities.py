"""Rows of a log that another file has too: each counts once."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from capplan.ingest.ingest_ledger import written_by_duckdb
from capplan.ingest.opening import Sheet, text_literal

#: Two logs are one export twice, not two sources with rows that happen to be equal, where at least this share
#: of the rows that the shorter one has of their common time are equal.
SAME_LOG_SHARE = 0.9
#: A row's identity: its own where it has one, else all that is known of it.
_IDENTITY = (
    "md5_number_lower(coalesce(request_id, "
    """concat_ws('|', epoch_us("timestamp"), workload, region, input_tokens, output_tokens, status)))"""
)


@dataclass(frozen=True)
class Identities:
    """Which rows are known, and where to keep new ones.

    Args:
        keep: File to write the identities of all rows to: number of their file, identity, moment.
        first: Number of the first of the files that are read; the others follow.
        known: Number of each earlier file, where its identities are, its first and its last instant.
    """

    keep: Path
    first: int
    known: tuple[tuple[int, Path, pd.Timestamp, pd.Timestamp], ...]


def leave_out_known(sheet: Sheet, identities: Identities) -> dict[int, tuple[int, ...]]:
    """Keep the identities of all rows of the view `requests`, and leave those out of it that earlier files have.

    Args:
        sheet: With the view `requests` (file, timestamp, workload, region, input_tokens, output_tokens, status, request_id).
        identities: What is known, and where to keep what is new.

    Returns:
        dict of tuple of int: By the number of a file, the numbers of the files whose rows were left out of it.
    """
    connection, first = sheet.connection, identities.first
    with written_by_duckdb(identities.keep):
        connection.execute(
            f"copy (select file + {first} as file, {_IDENTITY} as identity, requests.timestamp as moment, request_id is not null as named"
            f" from requests) to {text_literal(str(identities.keep))} (format parquet)"
        )
    found = sheet.rows(
        f"select file, min(moment), max(moment), bool_and(named) from read_parquet({text_literal(str(identities.keep))})"
        " group by file order by file"
    )
    new = [(file, identities.keep, pd.Timestamp(begin), pd.Timestamp(end)) for file, begin, end, _ in found]
    named = {file for file, _, _, all_named in found if all_named}
    pairs = _that_overlap([*identities.known, *new], first)
    if not pairs:
        return {}
    periods = {number: (begin, end) for number, _, begin, end in [*identities.known, *new]}
    paths = sorted({str(path) for _, path, *_ in identities.known} | {str(identities.keep)})
    numbers = ", ".join(map(str, sorted({number for pair in pairs for number in pair})))
    connection.execute(
        f"create temp view identities_of_all as select file, identity, moment from read_parquet([{', '.join(map(text_literal, paths))}])"
        f" where file in ({numbers})"
    )
    left = _same_logs(sheet, pairs, named, periods)
    if left:
        _leave_out(sheet, left, first)
    by_file: dict[int, tuple[int, ...]] = {}
    for mine, theirs in left:
        by_file[mine] = (*by_file.get(mine, ()), theirs)
    return by_file


def _that_overlap(files: Sequence[tuple[int, Path, pd.Timestamp, pd.Timestamp]], first: int) -> set[tuple[int, int]]:
    """Return the pairs of a new file and an earlier one whose times meet."""
    numbers = np.array([number for number, *_ in files])
    begins, ends = (np.array([file[place] for file in files], dtype="datetime64[ns]") for place in (2, 3))
    pairs: set[tuple[int, int]] = set()
    for place in np.flatnonzero(numbers >= first):
        meet = (numbers < numbers[place]) & (ends >= begins[place]) & (begins <= ends[place])
        pairs |= {(int(numbers[place]), int(number)) for number in numbers[meet]}
    return pairs


def _same_logs(
    sheet: Sheet, pairs: set[tuple[int, int]], named: set[int], periods: dict[int, tuple[pd.Timestamp, pd.Timestamp]]
) -> list[tuple[int, int]]:
    """Return the pairs of files that are one log for the time they share, and say of the others how many of their rows are equal."""
    rows = sheet.rows("""
        with shared as (select identity from identities_of_all group by identity having min(file) < max(file)),
        copies as (select file, identity, count(*) as copies from identities_of_all semi join shared using (identity) group by all)
        select mine.file, theirs.file, sum(least(mine.copies, theirs.copies))::bigint
        from copies mine join copies theirs on mine.identity = theirs.identity and theirs.file < mine.file group by all order by all
        """)
    equal = {(int(mine), int(theirs)): int(count) for mine, theirs, count in rows if (mine, theirs) in pairs}
    moments: dict[int, np.ndarray] = {}
    for number in sorted({number for pair in equal for number in pair}):
        column = sheet.connection.execute(f"select epoch_us(moment) as moment from identities_of_all where file = {number} order by 1")
        moments[number] = column.fetchnumpy()["moment"]
    left, chance, shared = [], [], 0
    for (mine, theirs), count in equal.items():
        begin, end = (
            int(pd.Timestamp(moment).value // 1000)
            for moment in (max(periods[mine][0], periods[theirs][0]), min(periods[mine][1], periods[theirs][1]))
        )
        common = min(
            int(np.searchsorted(moments[number], end, "right") - np.searchsorted(moments[number], begin, "left"))
            for number in (mine, theirs)
        )
        if mine not in named and count < SAME_LOG_SHARE * common:
            chance.append((theirs, count))
            shared += common
            continue
        left.append((mine, theirs))
        sheet.notes.append(f"{count} rows are in file {theirs} already; they count once.")
    if chance:
        whose = f"file {chance[0][0]}" if len(chance) == 1 else f"{len(chance)} pairs of files"
        sheet.notes.append(
            f"{sum(count for _, count in chance)} rows are equal to rows of {whose}, of {shared} in the time that both cover: they are"
            " taken as other requests, and count."
        )
    return left


def _leave_out(sheet: Sheet, left: list[tuple[int, int]], first: int) -> None:
    """Leave rows out of the view `requests` that earlier files have."""
    sheet.connection.register("left_pairs", pd.DataFrame(left, columns=["mine", "theirs"]))
    touched = ", ".join(str(mine - first) for mine in sorted({mine for mine, _ in left}))
    sheet.connection.execute(f"""
        create temp table known_rows as select mine - {first} as file, identity, max(copies) as copies from (
            select file, identity, count(*) as copies from identities_of_all where file in (select theirs from left_pairs) group by all)
            join left_pairs on theirs = file group by all;
        create temp table fresh_rows as select * exclude (identity, turn, copies) from (
            select r.*, row_number() over (partition by file, identity order by "timestamp") as turn, known_rows.copies
            from (select *, {_IDENTITY} as identity from requests where file in ({touched})) r left join known_rows using (file, identity))
            where turn > coalesce(copies, 0)
            union all by name select * from requests where file not in ({touched});
        create or replace view requests as select * from fresh_rows
        """)
