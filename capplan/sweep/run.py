"""Decide at every point of a sweep: in chunks that start alike anywhere, kept as they are done, so that it can be stopped and resumed."""

import hashlib
import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pandas as pd

from capplan.answers.placement import asked_book
from capplan.answers.plan import problem_of
from capplan.book.book import Book
from capplan.book.scenario import Scenario
from capplan.errors import CapplanError, ScenarioError
from capplan.optimize.two_stage import Warm
from capplan.outputs.run.stopping import leaving
from capplan.questions.procurement import decide, first_answer, regret_of, signed_now
from capplan.sweep.points import Axis, assumed_at, label_of
from capplan.text import counted, duration_words
from capplan.workers import spread_as_done, workers

#: Points of a chunk: each starts from what the one before left, and the first from nothing, so that the numbers do not depend on who does
#: which chunk.
CHUNK = 8
#: More points are refused unless asked for: a slip of a range is likelier than the wish.
MOST_POINTS = 2000
#: Candidate decisions that are held at every point.
MOST_DECISIONS = 6
Say = Callable[[str], None]


@dataclass(frozen=True)
class Sweep:
    """What a sweep found.

    Args:
        points: A row a point: point, the varied assumptions, status ("proven", "gap", "failed"), message, expected_usd, bad_usd (worst
            cases), shortfall_usd (imputed), lower_usd, upper_usd, gap_share, firm_contracts, firm_usd, decision.
        decisions: decision (A, B, ...), points at which it is best, what it signs.
        regrets: A row a point and a candidate decision: point, decision, regret_share of keeping it there; infinite where it cannot be
            signed.
        headline: One sentence.
    """

    points: pd.DataFrame
    decisions: pd.DataFrame
    regrets: pd.DataFrame
    headline: str


@dataclass(frozen=True)
class Task:
    """A chunk of points, and what is asked there."""

    book: Book
    scenarios: tuple[Scenario, ...]
    candidates: tuple[tuple[tuple[str, str, float], ...], ...] = ()


def sweep_book(
    book: Book,
    scenario: Scenario,
    points: Sequence[Mapping[str, Any]],
    folder: Path,
    *,
    axes: Sequence[Axis] = (),
    most: int = MOST_POINTS,
    say: Say = print,
) -> Sweep:
    """Decide at every point, hold the best decisions against every other point, and keep the parts that are done in a folder.

    Args:
        book, scenario: What is planned; each point replaces some assumptions of the scenario.
        points: Assumptions by name for each point.
        folder: Where parts are kept until all are done; the same sweep goes on from there.
        axes: What the points vary, where that is more than assumptions (see `points.assumed_at`).
        most: Points that are taken at most.

    Raises:
        ScenarioError: If a value is not allowed, before anything runs.
        CapplanError: If there are too many points, no point can be decided, or the work is stopped.
    """
    if not points:
        raise ScenarioError("a sweep needs at least one point; name what is varied with --vary")
    refuse_many(book, scenario, points[0], axes, len(points), most)
    scenarios = [_at(scenario, point, axes) for point in points]
    with workers(scenario.workers):
        rows = _parts(book, scenarios, (), folder / "parts", say, "points")
        ranked = _ranked(rows)
        candidates = tuple(signed for signed, _ in ranked[:MOST_DECISIONS])
        regrets = (
            _parts(book, scenarios, candidates, folder / "parts", say, "points held against other decisions") if len(candidates) > 1 else []
        )
    return _tables(points, rows, ranked, regrets)


def refuse_many(book: Book, scenario: Scenario, point: Mapping[str, Any], axes: Sequence[Axis], count: int, most: int) -> None:
    """Refuse more points than are taken, saying how long they would take; nothing where there are few enough.

    Args:
        book, scenario, axes: As for `sweep_book`.
        point: One of them, at which is tried how long it takes.
        count, most: Points that are asked for, and that are taken at most.

    Raises:
        CapplanError: Where there are more.
    """
    if count <= most:
        return
    began = time.perf_counter()
    _decided(book, _at(scenario, point, axes), None)
    each = time.perf_counter() - began
    raise CapplanError(
        f"{count:,} points are more than {most:,}; at about {duration_words(each)} a point and core they take"
        f" {duration_words(each * count)}. Narrow the ranges, sample them (--sample sobol:256), or allow them with --most {count}."
    )


def _at(scenario: Scenario, point: Mapping[str, Any], axes: Sequence[Axis]) -> Scenario:
    """Return the scenario of a point, held against the assumptions' own rules."""
    try:
        return scenario.replaced(**assumed_at(point, axes, scenario.changes))
    except ScenarioError as error:
        raise ScenarioError(f"point {label_of(point)}: {error}") from error


def _parts(
    book: Book, scenarios: Sequence[Scenario], candidates: tuple[tuple[tuple[str, str, float], ...], ...], folder: Path, say: Say, what: str
) -> list[dict[str, Any]]:
    """Do all chunks that are not yet done, and return every row in order."""
    folder.mkdir(parents=True, exist_ok=True)
    tasks = [Task(book, tuple(scenarios[start : start + CHUNK]), candidates) for start in range(0, len(scenarios), CHUNK)]
    files = [folder / f"{_digest(task)}.json" for task in tasks]
    missing = [place for place, file in enumerate(files) if not file.is_file()]
    if len(missing) < len(tasks):
        say(f"  {counted(sum(len(tasks[place].scenarios) for place in set(range(len(tasks))) - set(missing)), 'point')} were done before")
    began, done = time.perf_counter(), 0
    total = sum(len(tasks[place].scenarios) for place in missing)
    kept = f"what is done is kept in {folder}, and the same command goes on from there"
    try:
        with leaving(kept):
            for place, rows in spread_as_done(partial(_chunk, tasks), missing):
                draft = files[place].with_suffix(".draft")
                draft.write_text(json.dumps(rows), encoding="utf-8")
                draft.replace(files[place])
                done += len(rows)
                left = (time.perf_counter() - began) / done * (total - done)
                say(f"  {done:,} of {total:,} {what}" + (f", about {duration_words(left)} left" if left >= 1 else ""))
    except KeyboardInterrupt:
        raise CapplanError(f"stopped after {done:,} of {total:,} points; {kept}") from None
    except CapplanError as error:
        raise CapplanError(f"{error}; {kept}") from error
    return [row for file in files for row in json.loads(file.read_text(encoding="utf-8"))]


def _chunk(tasks: Sequence[Task], place: int) -> tuple[int, list[dict[str, Any]]]:
    """Decide at the points of one chunk, one after the other; a point that fails says why and stops nobody."""
    task, warm, rows = tasks[place], None, []
    for scenario in task.scenarios:
        try:
            row, warm = _decided(task.book, scenario, warm, task.candidates)
        except CapplanError as error:
            row = {"status": "failed", "message": str(error)}
        rows.append(row)
    return place, rows


def _decided(
    book: Book, scenario: Scenario, warm: Warm | None, candidates: Sequence[Sequence[tuple[str, str, float]]] = ()
) -> tuple[dict[str, Any], Warm | None]:
    """Decide at one point, or hold candidate decisions there."""
    changed = asked_book(book, scenario)
    found = decide(problem_of(changed, scenario), warm=warm)
    left = found.solution.warm or warm
    if candidates:
        held = [regret_of(found, {(offer, quarter): lots for offer, quarter, lots in signed}) for signed in candidates]
        return {"status": "held", "regrets": [share if math.isfinite(share) else None for share in held]}, left
    answer, firm = first_answer(found), found.purchases[found.purchases["firm"]]
    short = answer.costs[answer.costs["component"] == "shortfall"]
    a = found.problem.assumptions
    return {
        "status": "proven" if found.solution.gap_share <= a.gap_share * (1 + 1e-9) else "gap",
        "message": "",
        "expected_usd": answer.expected_usd,
        "bad_usd": answer.bad_usd,
        "shortfall_usd": float((short["usd"] * short["probability"]).sum()),
        "lower_usd": found.solution.lower,
        "upper_usd": found.solution.upper,
        "gap_share": found.solution.gap_share,
        "firm_contracts": len(firm),
        "firm_usd": float(firm["usd"].sum()),
        "signed": [[offer, quarter, lots] for (offer, quarter), lots in sorted(signed_now(found.purchases).items())],
    }, left


def _digest(task: Task) -> str:
    """Name a chunk by everything its numbers depend on."""
    parts = [
        version("capplan"),
        repr(sorted(task.book.digests.items())),
        repr(task.candidates),
        *(one.model_dump_json(exclude={"workers"}) for one in task.scenarios),
    ]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:24]


def _ranked(rows: Sequence[Mapping[str, Any]]) -> list[tuple[tuple[tuple[str, str, float], ...], int]]:
    """Return the decisions that are best somewhere, those of most points first."""
    count: dict[tuple[tuple[str, str, float], ...], int] = {}
    for row in rows:
        if row["status"] != "failed":
            signed = tuple((str(offer), str(quarter), float(lots)) for offer, quarter, lots in row["signed"])
            count[signed] = count.get(signed, 0) + 1
    if not count:
        raise CapplanError(f"no point could be decided; the first says: {rows[0]['message']}")
    return sorted(count.items(), key=lambda item: (-item[1], item[0]))


def _tables(
    points: Sequence[Mapping[str, Any]],
    rows: Sequence[Mapping[str, Any]],
    ranked: Sequence[tuple[tuple[tuple[str, str, float], ...], int]],
    regrets: Sequence[Mapping[str, Any]],
) -> Sweep:
    """Tabulate a sweep, and say what stands."""
    names = {signed: _letters(place) for place, (signed, _) in enumerate(ranked)}
    listed = []
    for place, (point, row) in enumerate(zip(points, rows, strict=True)):
        signed = tuple((str(offer), str(quarter), float(lots)) for offer, quarter, lots in row.get("signed", ()))
        figures = {name: value for name, value in row.items() if name != "signed"}
        listed.append({"point": place, **point, **figures, "decision": names[signed] if row["status"] != "failed" else ""})
    frame = pd.DataFrame(listed)
    decisions = pd.DataFrame(
        [(names[signed], count, _in_words(signed)) for signed, count in ranked], columns=["decision", "points", "signs"]
    )
    held = [
        (place, names[ranked[number][0]], math.inf if share is None else share)
        for place, row in enumerate(regrets)
        for number, share in enumerate(row.get("regrets", ()))
    ]
    table = pd.DataFrame(held, columns=["point", "decision", "regret_share"])
    return Sweep(frame, decisions, table, _headline(frame, decisions, table))


def _headline(frame: pd.DataFrame, decisions: pd.DataFrame, regrets: pd.DataFrame) -> str:
    """Say which decision is best how often, and which is never far from the best."""
    answered = frame[frame["status"] != "failed"]
    first = decisions.iloc[0]
    failed = f" {counted(len(frame) - len(answered), 'point')} could not be decided." if len(answered) < len(frame) else ""
    if len(decisions) == 1:
        return (
            f"One decision is best at {'its point' if len(answered) == 1 else f'all {len(answered):,} points'}: {first['signs']}.{failed}"
        )
    worst = regrets.groupby("decision", sort=False)["regret_share"].max()
    robust = str(worst.idxmin())
    signs = decisions.set_index("decision").at[robust, "signs"]
    far = (
        f"never more than {100 * worst[robust]:.1f} % above the best"
        if math.isfinite(worst[robust])
        else "though none can be signed at every point"
    )
    return f"{len(decisions):,} decisions are best somewhere in {len(answered):,} points; the safest is {robust} ({signs}), {far}.{failed}"


def _in_words(signed: Sequence[tuple[str, str, float]]) -> str:
    """Write a decision in words."""
    return "; ".join(f"{lots:g} x {offer} in {quarter}" for offer, quarter, lots in signed) or "sign nothing"


def _letters(place: int) -> str:
    """Name decisions A to Z, then AA, AB, ..."""
    name = ""
    place += 1
    while place:
        place, rest = divmod(place - 1, 26)
        name = chr(65 + rest) + name
    return name
