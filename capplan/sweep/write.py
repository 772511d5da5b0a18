"""A sweep from a book to a folder: one tidy Parquet file, and a page."""

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from capplan.book.book import load_book
from capplan.errors import ScenarioError
from capplan.outputs.run.folders import check_room, made, refused
from capplan.scratch import scratch
from capplan.sweep.page import regret_table, sweep_page
from capplan.sweep.points import count_of, parse_axis, points_of
from capplan.sweep.run import Sweep, refuse_many, sweep_book
from capplan.sweep.variance import paired_points, shares_or_reason
from capplan.text import counted

#: Points spread evenly, and pairs of points that shares of the variance are found from.
SAMPLES = ("sobol", "saltelli")
#: What a sweep leaves; shares.parquet of a sample made for them alone.
FILES = ("sweep.html", "sweep.json", "points.parquet", "decisions.parquet", "shares.parquet")


def write_sweep(
    book_path: Path, vary: Sequence[str], sample: str, values: Mapping[str, Any], out: Path, most: int, say: Callable[[str], None]
) -> Sweep:
    """Sweep a book, and leave points.parquet, decisions.parquet, sweep.json, sweep.html and, of a sample made for them, shares.parquet.

    An unfinished sweep stays in `parts`.

    Args:
        vary: Assumptions and their values, as in `points.parse_axis`.
        sample: "sobol:256" for a sample of the ranges, "saltelli:64" for one that gives shares of the variance; empty for every
            combination.
        values: Assumptions to override at every point.
        most: Points that are taken at most.

    Raises:
        CapplanError: If the book, a value, or the folder is wrong, before anything is decided.
    """
    axes = [parse_axis(text) for text in vary]
    book = load_book(book_path)
    scenario = book.scenario_with(**values)
    kind, count = _sampled(sample)
    paired = kind == "saltelli"
    asked = count * (len(axes) + 2) if paired else count_of(axes, count)
    refuse_many(book, scenario, {axis.field: axis.values[0] for axis in axes}, axes, asked, most)
    points = paired_points(axes, count, scenario.seed) if paired else points_of(axes, count, scenario.seed)
    check_room(out)
    say(f"capplan: {book.name}, a sweep of {counted(len(points), 'point')}")
    with refused(out), made(out / "parts"), scratch(".sweep.draft-", out) as draft:
        found = sweep_book(book, scenario, points, out, axes=axes, most=most, say=say)
        found.points.to_parquet(draft / "points.parquet", index=False)
        regret_table(found).to_parquet(draft / "decisions.parquet", index=False)
        record = {
            "book": book.name,
            "headline": found.headline,
            "vary": list(vary),
            "sample": sample,
            "parameters": scenario.model_dump(mode="json"),
            "digests": dict(book.digests),
        }
        (draft / "sweep.json").write_text(json.dumps(record, indent=1, default=str) + "\n", encoding="utf-8")
        shares = shares_or_reason(found.points, axes, scenario.seed) if paired else None
        if shares:
            shares[0].to_parquet(draft / "shares.parquet", index=False)
        (draft / "sweep.html").write_text(sweep_page(book.name, found, axes, scenario.currency, shares), encoding="utf-8")
        # what another sweep left goes before the first new file comes: no moment shows files of both
        for name in FILES:
            (out / name).unlink(missing_ok=True)
        for file in sorted(draft.iterdir()):
            file.replace(out / file.name)
        shutil.rmtree(out / "parts", ignore_errors=True)
    return found


def _sampled(text: str) -> tuple[str, int]:
    """Read which sample is taken, and of how many points or pairs; none and 0 for every combination."""
    if not text:
        return "", 0
    kind, _, count = text.partition(":")
    if kind not in SAMPLES or not (count.isascii() and count.isdigit()) or int(count) < 2:
        raise ScenarioError(f"--sample {text}: write sobol:N or saltelli:N with N of at least 2, such as sobol:256")
    return kind, int(count)
