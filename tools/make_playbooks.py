"""Make the usage of the small example books, data/api_first and data/on_prem: the shapes are those of `make_enterprise`.

Run it with `python tools/make_playbooks.py`; the same seed gives the same bytes. All other tables of these books are kept by hand.
"""

from __future__ import annotations

from pathlib import Path

from make_enterprise import Series, batch, make_usage, write_table

DATA = Path(__file__).resolve().parents[1] / "data"
LAST = "2026-11-30"
#: First day of the history, seed and series of each book.
BOOKS = {
    "api_first": (
        "2026-05-01",
        20261202,
        (
            Series("answers", "us", 4_000, 2.6, peak_hour=18, swing=0.40, second_swing=0.07),
            Series("triage", "us", 3_400, 2.4, peak_hour=18, swing=0.42, second_swing=0.07),
            Series("digests", "us", 700, 2.0, peak_hour=17, swing=0.30, second_swing=0.05, noise=0.2),
        ),
    ),
    "on_prem": (
        "2026-03-01",
        20261203,
        (
            Series("notes", "campus", 120_000, 1.45, peak_hour=10, swing=0.46, second_swing=0.08),
            batch("imaging", "campus", 26, 1.25, 1.7),
            batch("research", "any", 34, 1.5, 1.7),
        ),
    ),
}


def main(data: Path = DATA) -> None:
    """Write the usage of each book below `data`."""
    for name, (first, seed, series) in BOOKS.items():
        write_table("usage", make_usage(series, first, LAST, seed), data / name)


if __name__ == "__main__":
    main()
