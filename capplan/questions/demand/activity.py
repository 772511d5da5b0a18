"""When a workload was at work: its start, its end, its pauses, stray hours that belong to neither, and runs that return regularly."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

Array = np.ndarray
#: Days without work that part two spells of work; a shorter silence (weekends, holidays) is part of one.
SPELL_DAYS = 7
#: Silent this long, or this many times as long as the workload's usual silences, it has paused or ended.
ENDED_DAYS, USUAL_SILENCES = 28, 3
#: A workload that works on more than this share of the days has pauses; one that works on fewer is intermittent.
BUSY_SHARE = 0.5
#: A spell with less than this share of the mean spell's work is a stray: a test, a forgotten job.
STRAY_SHARE = 0.05
#: Runs are regular from this many on, where nearly all gaps lie within this share of the period (or a day) of a whole number of periods,
#: mostly one.
LEAST_RUNS, PERIOD_SLACK, ON_TIME_SHARE, NEXT_SHARE = 4, 0.1, 0.9, 0.75
#: Shorter periods are a pattern within the week.
SHORTEST_PERIOD_DAYS = 7.5


@dataclass(frozen=True)
class Activity:
    """When a series was at work, in days of its own grid."""

    #: first, last: First and last day of its spells of work; what lies outside is neither demand nor a lack of it.
    first: int
    last: int
    pauses: tuple[tuple[int, int], ...]  #: First and last silent day of each pause.
    strays: int  #: Days with work that belongs to no spell.
    longest_silence_days: float  #: A longer silence than this after `last` means that the workload has ended.


def find_activity(days: Array) -> Activity | None:
    """Find start, end and pauses of a series; None where it never was at work.

    Zeros and unknown days mean the same, so padding either end of a series changes nothing. A spell that is silent from the others for
    long and
    has hardly any work is a stray at either end; it neither begins nor keeps alive a workload.

    Args:
        days: Work by day; NaN where unknown.

    Examples:
        >>> find_activity(np.array([0.0] * 9 + [5.0] * 60 + [0.0] * 40 + [0.001])).last
        68
    """
    active = np.flatnonzero(np.nan_to_num(days) > 0)
    if not active.size:
        return None
    cuts = np.flatnonzero(np.diff(active) > SPELL_DAYS) + 1
    spells = [(int(part[0]), int(part[-1]), float(days[part].sum())) for part in np.split(active, cuts)]
    least = STRAY_SHARE * sum(work for *_, work in spells) / len(spells)
    solid = [spell for spell in spells if spell[2] > least]
    silences = np.array([later[0] - earlier[1] - 1 for earlier, later in pairwise(solid)], dtype=float)
    # Long silences of work that comes now and then are part of it; a workload that works most days has paused.
    span = solid[-1][1] - solid[0][0] + 1 - silences
    pauses = tuple(
        (earlier[1] + 1, later[0] - 1)
        for k, (earlier, later) in enumerate(pairwise(solid))
        if active.size > BUSY_SHARE * span[k] and silences[k] > max(ENDED_DAYS, _usual(np.delete(silences, k)))
    )
    usual = _usual(silences)
    first = _joined([spell for spell in spells if spell[0] < solid[0][0]][::-1], solid[0][0], -1, usual)
    last = _joined([spell for spell in spells if spell[1] > solid[-1][1]], solid[-1][1], 1, usual)
    strays = int(
        (
            (active < first)
            | (active > last)
            | np.any([(active >= low) & (active <= high) for low, high in pauses] or [active < 0], axis=0)
        ).sum()
    )
    return Activity(first, last, pauses, strays, max(ENDED_DAYS, usual))


def _usual(silences: Array) -> float:
    """Return the longest silence that is usual, from those of a series."""
    return USUAL_SILENCES * float(np.quantile(silences, 0.9)) if silences.size else 0.0


def _joined(spells: list[tuple[int, int, float]], edge: int, direction: int, limit: float) -> int:
    """Move an edge out over small spells that are no farther from it than is usual: they are no strays."""
    for low, high, _ in spells:
        near, far = (high, low) if direction < 0 else (low, high)
        if abs(near - edge) - 1 > limit:
            break
        edge = far
    return edge


@dataclass(frozen=True)
class Rhythm:
    """A batch run that returns regularly."""

    period_days: float  #: Days from start to start.
    due_days: float  #: Days from the end of the history to the next start that is due.
    slack_days: float  #: Standard deviation of a start around its time.
    held_share: float  #: Share of due runs that took place.
    runs: Array  #: Work by day of each past run (runs x days), oldest first.


def find_rhythm(days: Array) -> Rhythm | None:
    """Find the period of runs that return regularly, or None where they do not.

    Args:
        days: Work by day from the first to the last day of the activity.

    Examples:
        >>> find_rhythm(np.tile([24.0] + [0.0] * 27, 6)[:-27]).period_days
        28.0
    """
    work = np.nan_to_num(days)
    active = np.flatnonzero(work > 0)
    gaps = np.diff(active)
    if active.size < LEAST_RUNS or gaps.max() < SHORTEST_PERIOD_DAYS / 2:
        return None
    # A run of several days, with idle days in it, is one run.
    parts = np.split(active, np.flatnonzero(gaps > max(1, gaps.max() // 3)) + 1)
    starts = np.array([part[0] for part in parts])
    if len(parts) < LEAST_RUNS:
        return None
    between = np.diff(starts)
    period = float(np.median(between))
    turns = np.maximum(np.round(between / period), 1)
    period = float(between.sum() / turns.sum())
    late = between - turns * period
    on_time = np.abs(late) <= max(1.0, PERIOD_SLACK * period)
    longest = max(part[-1] - part[0] + 1 for part in parts)
    if period < SHORTEST_PERIOD_DAYS or longest > period / 2 or on_time.mean() < ON_TIME_SHARE or (turns == 1).mean() < NEXT_SHARE:
        return None
    runs = np.array([np.pad(work[part[0] : part[-1] + 1], (0, longest - (part[-1] - part[0] + 1))) for part in parts])
    return Rhythm(period, float(starts[-1] + period - len(days)), float(late[on_time].std()), float(len(between) / turns.sum()), runs)


def rhythm_levels(rhythm: Rhythm, periods: int, paths: int, generator: np.random.Generator, behind_days: int = 0) -> Array:
    """Draw demand by day (paths x periods): each due run takes place on its day, give or take its slack, with the work of a past run.

    Args:
        rhythm: What is known of the runs.
        behind_days: Days between the end of the history and the first simulated day.
    """
    longest = rhythm.runs.shape[1]
    due = (
        rhythm.due_days
        + rhythm.period_days * np.arange(int(np.ceil((periods + behind_days + longest) / rhythm.period_days)) + 1)
        - behind_days
    )
    chance = generator.random((paths, len(due), 2))
    start = np.rint(due + rhythm.slack_days * generator.standard_normal((paths, len(due)))).astype(int)
    which = (chance[:, :, 0] * len(rhythm.runs)).astype(int)
    held = chance[:, :, 1] < rhythm.held_share
    levels = np.zeros((paths, periods))
    row = np.broadcast_to(np.arange(paths)[:, None], start.shape)
    for day in range(longest):
        at = start + day
        inside = held & (at >= 0) & (at < periods)
        np.add.at(levels, (row[inside], at[inside]), rhythm.runs[which[inside], day])
    return levels
