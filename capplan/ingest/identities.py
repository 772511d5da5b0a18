"""Rows of a log that an earlier file has too: each counts once."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pandas as pd

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

    Parameters
    ----------
    keep
        File to write the identities of all rows to.
    known
        Number of each earlier file, where its identities are, its first and its last instant.
    """

    keep: Path
    known: tuple[tuple[int, Path, pd.Timestamp, pd.Timestamp], ...]


def leave_out_known(sheet: Sheet, identities: Identities) -> tuple[int, ...]:
    """Keep the identities of all rows of the view `requests`, and leave those out of it that earlier files have.

    Parameters
    ----------
    sheet
        With the view `requests` (timestamp, workload, region, input_tokens, output_tokens, status, request_id).
    identities
        What is known, and where to keep what is new.

    Returns
    -------
    tuple of int
        Numbers of the files whose rows were left out.
    """
    connection = sheet.connection
    first, last, named = sheet.rows('select min("timestamp"), max("timestamp"), count(request_id) = count(*) from requests')[0]
    connection.execute(
        f"copy (select {_IDENTITY} as identity, requests.timestamp as moment from requests) to {text_literal(str(identities.keep))} (format"
        " parquet)"
    )
    left: list[int] = []
    for number, path, begin, end in identities.known:
        if end < first or begin > last:
            continue
        theirs = f"(select identity, count(*) as copies from read_parquet({text_literal(str(path))}) group by identity)"
        mine = f"(select identity, count(*) as copies from read_parquet({text_literal(str(identities.keep))}) group by identity)"
        equal = int(
            sheet.rows(
                f"select coalesce(sum(least(mine.copies, theirs.copies)), 0) from {mine} mine join {theirs} theirs using (identity)"
            )[0][0]
        )
        if not equal:
            continue
        common = f"between timestamp '{max(begin, pd.Timestamp(first))}' and timestamp '{min(end, pd.Timestamp(last))}'"
        here, there = (
            int(sheet.rows(f"select count(*) from read_parquet({text_literal(str(place))}) where moment {common}")[0][0])
            for place in (identities.keep, path)
        )
        if not named and equal < SAME_LOG_SHARE * min(here, there):
            sheet.notes.append(
                f"{equal} rows are equal to rows of file {number}, of {min(here, there)} in the time that both cover: they are taken as"
                " other requests, and count."
            )
            continue
        left.append(number)
        sheet.notes.append(f"{equal} rows are in file {number} already; they count once.")
    if left:
        paths = ", ".join(text_literal(str(path)) for number, path, *_ in identities.known if number in left)
        connection.execute(f"""
            create temp table known_rows as select identity, max(copies) as copies from (
                select filename, identity, count(*) as copies from read_parquet([{paths}], filename = true) group by all) group by identity;
            create temp table fresh_rows as select * exclude (identity, turn, copies) from (
                select r.*, row_number() over (partition by identity order by "timestamp") as turn, known_rows.copies
                from (select *, {_IDENTITY} as identity from requests) r
                left join known_rows using (identity)) where turn > coalesce(copies, 0);
            create or replace view requests as select * from fresh_rows
            """)
    return tuple(left)
