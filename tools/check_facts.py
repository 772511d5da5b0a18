"""Check the reference facts, offline: `make facts`."""

from __future__ import annotations

import datetime as dt
import sys

import pandas as pd

from capplan.book.book import reference_tables
from capplan.book.facts import check_facts


def main() -> int:
    """Print what is wrong and what is old; 1 where something is wrong."""
    tables = reference_tables()
    faults, old = check_facts(tables, pd.Timestamp(dt.datetime.now(dt.UTC).date()))
    counts = ", ".join(
        f"{len(tables[name])} {name.replace('_', ' ')}" for name in ("accelerators", "skus", "offers", "models", "serving_runs")
    )
    lines = [f"{counts}; {tables['skus']['provider'].nunique()} providers."]
    lines += [f"wrong: {line}" for line in faults] + [f"old: {line}" for line in old]
    sys.stdout.write("\n".join(lines) + "\n")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
