"""Small semantic changes, one at a time, and the tests that should notice each: what no test notices is not tested.

`make mutants` runs them all in a copy of the project, which takes hours; `python -m tests.mutants.run --every 5` takes every fifth,
`--area ledger` those of one area, `--list` only says what there is.
"""

from __future__ import annotations

import argparse
import csv
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TABLE = Path(__file__).with_name("mutants.csv")
#: What a copy needs.
COPIED = ("capplan", "tests", "data", "notebooks", "schedule", "reports", "tools", "pyproject.toml", "README.md", "Makefile")
#: A change that lets a test run for so long is noticed.
MOST_SECONDS = 900
#: Share of the changes that must be noticed; the others need a reason in the table.
NOTICED_SHARE = 0.95
#: Exit codes of pytest: all passed, some failed, interrupted by an error of collection.
PASSED, NOTICING = 0, (1, 2)


@dataclass(frozen=True)
class Mutant:
    """One change.

    Parameters
    ----------
    area
        Part of the product.
    file, old, new
        Where, what stands there once, and what is put in its place.
    tests
        Files, separated by spaces, that should notice.
    reason
        Why nothing needs to notice it; empty for all others.
    """

    area: str
    file: str
    old: str
    new: str
    tests: str
    reason: str = ""

    def made_in(self, root: Path) -> str | None:
        """Make the change in a copy; return the text before, or None where it no longer stands there once."""
        text = (root / self.file).read_text(encoding="utf-8")
        if text.count(self.old) != 1 or self.old == self.new:
            return None
        (root / self.file).write_text(text.replace(self.old, self.new), encoding="utf-8")
        return text


def read_mutants(table: Path = TABLE) -> list[Mutant]:
    """Read the table."""
    with table.open(encoding="utf-8", newline="") as file:
        return [Mutant(**row) for row in csv.DictReader(file)]


def copied(root: Path, place: Path) -> Path:
    """Copy what the tests need."""
    for name in COPIED:
        source, target = root / name, place / name
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        elif source.is_file():
            shutil.copy(source, target)
    return place


def tried(tests: Sequence[str], root: Path) -> int:
    """Run tests of a copy, the slow ones left out, and return pytest's exit code; 1 where they take too long."""
    words = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-m", "not slow and not browser and not office", *tests]
    shared = os.environ.get("CAPPLAN_SHARED", str(ROOT.parent / "shared"))
    environment = {**os.environ, "PYTHONPATH": str(root), "PYTHONDONTWRITEBYTECODE": "1", "CAPPLAN_SHARED": shared}
    try:
        done = subprocess.run(words, cwd=root, env=environment, capture_output=True, check=False, timeout=MOST_SECONDS)
    except subprocess.TimeoutExpired:
        return 1
    return done.returncode


def judged(mutant: Mutant, root: Path, run: Callable[[Sequence[str], Path], int] = tried) -> str:
    """Return noticed, survived, accepted (survived, with a reason), stale (the line is no more), or broken (no test ran)."""
    before = mutant.made_in(root)
    if before is None:
        return "stale"
    try:
        code = run(mutant.tests.split(), root)
    finally:
        (root / mutant.file).write_text(before, encoding="utf-8")
    if code in NOTICING:
        return "noticed"
    return "broken" if code != PASSED else "accepted" if mutant.reason else "survived"


def say(text: str) -> None:
    """Show a line at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main(words: Sequence[str] | None = None) -> int:
    """Try changes, say which nobody notices, and return 1 where more of them survive than may."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0] if __doc__ else "")
    parser.add_argument("--area", default="", help="Only those of this area.")
    parser.add_argument("--every", type=int, default=1, help="Only every n-th.")
    parser.add_argument("--skip", type=int, default=0, help="Leave out so many at first.")
    parser.add_argument("--list", action="store_true", help="Only say what there is.")
    given = parser.parse_args(words)
    chosen = [each for each in read_mutants() if given.area in ("", each.area)][given.skip :: given.every]
    found: dict[str, list[Mutant]] = {}
    with tempfile.TemporaryDirectory(prefix="capplan-mutants-") as folder:
        root = ROOT if given.list else copied(ROOT, Path(folder))
        passing: dict[str, bool] = {}
        for number, mutant in enumerate(chosen, start=1):
            began = time.perf_counter()
            if not given.list and mutant.tests not in passing:
                # a test that fails without any change notices nothing
                passing[mutant.tests] = tried(mutant.tests.split(), root) == PASSED
            verdict = "" if given.list else judged(mutant, root) if passing[mutant.tests] else "broken"
            found.setdefault(verdict, []).append(mutant)
            took = time.perf_counter() - began
            say(f"{number}/{len(chosen)} {verdict} {took:.0f} s {mutant.file}: {mutant.old} -> {mutant.new}")
    if given.list:
        return 0
    live = len(chosen) - len(found.get("accepted", []))
    share = len(found.get("noticed", [])) / live if live else 1.0
    say(f"{len(found.get('noticed', []))} of {live} changes are noticed ({share:.0%}); at least {NOTICED_SHARE:.0%} must be.")
    for verdict in ("survived", "stale", "broken", "accepted"):
        for mutant in found.get(verdict, []):
            why = f" ({mutant.reason})" if mutant.reason else ""
            say(f"{verdict}: {mutant.file}: {mutant.old} -> {mutant.new}; {mutant.tests}{why}")
    return int(share < NOTICED_SHARE or bool(found.get("stale") or found.get("broken")))


if __name__ == "__main__":
    sys.exit(main())
