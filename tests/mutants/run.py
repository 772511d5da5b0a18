"""Small semantic changes, one at a time, and the tests that should notice each: what no test notices is not tested.

`make mutants` runs them all in a copy of the project; `python -m tests.mutants.run --every 5` takes every fifth,
`--area ledger` those of one area, `--list` only says what there is. What is found is kept, a line a change, outside the project (`--kept`):
a run that was stopped goes on where it was, and what is found holds for as long as the changed file and its tests stay as they are.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
TABLE = Path(__file__).with_name("mutants.csv")
#: What a copy needs.
COPIED = ("capplan", "tests", "data", "notebooks", "schedule", "reports", "tools", "pyproject.toml", "README.md", "Makefile")
#: Where what is found is kept.
KEPT = Path(os.environ.get("CAPPLAN_CACHE") or Path.home() / ".cache" / "capplan") / "mutants.jsonl"
#: A change that lets tests run for so long, in processor seconds, is noticed.
MOST_SECONDS = 300
#: Share of the changes that must be noticed; the others need a reason in the table.
NOTICED_SHARE = 0.95
#: Exit codes of pytest: all passed, some failed, interrupted by an error of collection.
PASSED, NOTICING = 0, (1, 2)
#: What is found once and for all.
DECIDED = ("noticed", "survived", "accepted")


@dataclass(frozen=True)
class Mutant:
    """One change.

    Args:
        area: Part of the product.
        file, old, new: Where, what stands there once, and what is put in its place.
        tests: Files, or quick tests in them, separated by spaces, that should notice.
        reason: Why nothing needs to notice it; empty for all others.
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

    def lines(self, text: str) -> list[int]:
        """Return the numbers of the lines that are changed."""
        first = text[: text.find(self.old)].count("\n") + 1
        return list(range(first, first + self.old.count("\n") + 1))

    def digest(self, root: Path) -> str:
        """Return what tells this change, the file it is made in and the tests that should notice from all others."""
        read = {self.file, *(name.partition("::")[0] for name in self.tests.split())}
        texts = [repr(self), *((root / name).read_text(encoding="utf-8") for name in sorted(read))]
        return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]


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


class Runner:
    """Runs tests of a copy in forks of one process, the slow ones left out, those first that are known to reach a changed line.

    Args:
        root: Where the copy lies.
        lines: Numbers of the lines that are changed, by file of the copy.
    """

    def __init__(self, root: Path, lines: Mapping[str, Sequence[int]] | None = None) -> None:
        (root / "temporary").mkdir(exist_ok=True)
        own = {"PYTHONPATH": str(root), "PYTHONDONTWRITEBYTECODE": "1", "TMPDIR": str(root / "temporary"), "CAPPLAN_UNSHRUNK": "1"}
        if (ROOT.parent / "shared").is_dir():
            own |= {"CAPPLAN_SHARED": os.environ.get("CAPPLAN_SHARED", str(ROOT.parent / "shared"))}
        words = [sys.executable, str(Path(__file__).with_name("forks.py"))]
        self._process = subprocess.Popen(
            words, cwd=root, env={**os.environ, **own}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
        )
        self._lines = {str(root / name): list(numbers) for name, numbers in (lines or {}).items()}
        self._known: dict[str, tuple[float, list[list[Any]]]] = {}
        self._passing: dict[str, bool] = {}

    def __enter__(self) -> Runner:
        return self

    def __exit__(self, *_about: object) -> None:
        self._process.kill()
        self._process.communicate()

    def __call__(self, tests: Sequence[str], reached: tuple[str, Sequence[int]] = ("", ())) -> tuple[int | None, str]:
        """Run tests until one fails; return pytest's exit code, None where they never end, and the name of the one that failed.

        Args:
            tests: Files or names of tests.
            reached: Changed file of the copy and its changed lines.
        """
        file, numbers = reached
        near = {name for name, (_, lines) in self._known.items() if any(path == file and line in numbers for path, line in lines)}
        first = sorted(near, key=lambda name: self._known[name][0])
        last = [name for name in self._known if name not in near]
        asked = {"tests": list(tests), "lines": self._lines, "first": first, "last": last, "most_seconds": MOST_SECONDS}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        self._known |= answer["found"]
        return answer["code"], answer["failed"]

    def passes(self, test: str) -> bool:
        """Whether a test passes where nothing is changed: one that fails all the same notices nothing."""
        if test not in self._passing:
            self._passing[test] = not test or self([test])[0] == PASSED
        return self._passing[test]


def judged(
    mutant: Mutant, root: Path, run: Callable[[Sequence[str], tuple[str, Sequence[int]]], tuple[int | None, str]], once: str = ""
) -> tuple[str, str]:
    """Return noticed, survived, accepted (survived, with a reason), stale (the line is gone) or broken (no test ran), and what noticed.

    Args:
        mutant: The change.
        root: Copy in which it is made.
        run: Runs tests, as a `Runner` does.
        once: Test that noticed it before; it is run first, and where it notices again no other is.
    """
    before = mutant.made_in(root)
    if before is None:
        return "stale", ""
    reached = (str(root / mutant.file), mutant.lines(before))
    try:
        code, failed = run([once], reached) if once else (PASSED, "")
        if code is not None and code not in NOTICING:
            code, failed = run(mutant.tests.split(), reached)
    finally:
        (root / mutant.file).write_text(before, encoding="utf-8")
    if code is None or code in NOTICING:
        return "noticed", failed
    return "broken" if code != PASSED else "accepted" if mutant.reason else "survived", ""


def read_kept(file: Path) -> dict[str, dict[str, Any]]:
    """Read what earlier runs found, by the digest of the change; a last line that was cut off is left out."""
    found = {}
    for line in file.read_text(encoding="utf-8").splitlines() if file.is_file() else ():
        with contextlib.suppress(ValueError):
            one = json.loads(line)
            found[one["digest"]] = one
    return found


def keep(file: Path, found: Mapping[str, Any]) -> None:
    """Add a line to what was found."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a", encoding="utf-8") as lines:
        lines.write(json.dumps(found) + "\n")


def say(text: str) -> None:
    """Show a line at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def tried(chosen: Sequence[Mutant], digests: Mapping[Mutant, str], kept: Path) -> None:
    """Try changes one after another in a copy, say of each what came of it, and keep that.

    Args:
        chosen: Those that are tried.
        digests: Of each.
        kept: File that gets a line of each.
    """
    noticed = {(one.get("file"), one.get("new")): one.get("by", "") for one in read_kept(kept).values() if one["verdict"] == "noticed"}
    watched: dict[str, set[int]] = {}
    for mutant in chosen:
        watched.setdefault(mutant.file, set()).update(mutant.lines((ROOT / mutant.file).read_text(encoding="utf-8")))
    with tempfile.TemporaryDirectory(prefix="capplan-mutants-") as folder:
        root = copied(ROOT, Path(folder))
        with Runner(root, {name: sorted(numbers) for name, numbers in watched.items()}) as runner:
            for number, mutant in enumerate(chosen, start=1):
                began = time.perf_counter()
                once = noticed.get((mutant.file, mutant.new), "")
                ours = {name.partition("::")[0] for name in mutant.tests.split()}
                verdict, by = judged(mutant, root, runner, once if once.partition("::")[0] in ours else "")
                if verdict == "noticed" and not runner.passes(by):
                    verdict = "broken"
                took = round(time.perf_counter() - began)
                keep(
                    kept, {"digest": digests[mutant], "verdict": verdict, "by": by, "seconds": took, "file": mutant.file, "new": mutant.new}
                )
                say(f"{number}/{len(chosen)} {verdict} {took} s {mutant.file}: {mutant.old} -> {mutant.new} {by}")


def main(words: Sequence[str] | None = None) -> int:
    """Try changes, say which nobody notices, and return 1 where more of them survive than may."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0] if __doc__ else "")
    parser.add_argument("--area", default="", help="Only those of this area.")
    parser.add_argument("--every", type=int, default=1, help="Only every n-th.")
    parser.add_argument("--skip", type=int, default=0, help="Leave out so many at first.")
    parser.add_argument("--list", action="store_true", help="Only say what there is.")
    parser.add_argument("--kept", type=Path, default=KEPT, help="File that keeps what is found.")
    given = parser.parse_args(words)
    chosen = [each for each in read_mutants() if given.area in ("", each.area)][given.skip :: given.every]
    if given.list:
        for mutant in chosen:
            say(f"{mutant.file}: {mutant.old} -> {mutant.new}")
        return 0
    digests = {mutant: mutant.digest(ROOT) for mutant in chosen}
    decided = {digest for digest, one in read_kept(given.kept).items() if one["verdict"] in DECIDED}
    tried([mutant for mutant in chosen if digests[mutant] not in decided], digests, given.kept)
    verdicts = read_kept(given.kept)
    found: dict[str, list[Mutant]] = {}
    for mutant in chosen:
        found.setdefault(verdicts[digests[mutant]]["verdict"], []).append(mutant)
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
