"""How work lies inside a quarter: hour-of-week shapes, load blocks, load-duration curves and pooling."""

import numpy as np
import pandas as pd

from capplan.questions.demand.history import History

Array = np.ndarray
#: Share of a quarter's hours in the peak block.
PEAK_SHARE = 0.05
#: Shapes are drawn from at most this many of the last weeks (days): older habits fade.
RECENT_SHAPES = {"week": 26, "day": 56}
CURVE_SHARES = np.concatenate([[0.0, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075], np.arange(0.1, 1.0001, 0.05)])


def block_shares(blocks: int) -> Array:
    r"""Return the share of a quarter's hours in each load block, narrow at the peak.

    .. math:: c_k = (k / n)^p,\quad c_1 = 0.05

    are the cumulative shares: the first block holds the 5 % of hours with most load (all hours if there is one block).

    Examples:
        >>> [round(float(share), 3) for share in block_shares(5)]
        [0.05, 0.132, 0.205, 0.274, 0.34]
    """
    if blocks == 1:
        return np.ones(1)
    power = np.log(PEAK_SHARE) / np.log(1 / blocks) if blocks < 1 / PEAK_SHARE else 1.0
    return np.diff((np.arange(blocks + 1) / blocks) ** power)


def block_sizes(hours: int, blocks: int) -> Array:
    """Return whole hours in each block: rounded edges, at least one hour each.

    Examples:
        >>> block_sizes(2160, 5).tolist()
        [108, 284, 443, 591, 734]
    """
    edges = np.round(np.concatenate([[0.0], np.cumsum(block_shares(blocks))]) * hours).astype(int)
    edges[-1] = hours
    return np.maximum(np.diff(edges), 1)


def shapes_of(history: History) -> Array:
    """Return the shapes inside a period that can be drawn (number x hours in the period), each of mean 1.

    A week (day) with more than a tenth of its hours missing, or without work, is replaced by the mean shape.
    """
    width = {"week": 168, "day": 24}.get(history.cadence, 1)
    if history.hourly is None or history.kind == "zero":
        return np.ones((1, width))
    recent = history.hourly[-RECENT_SHAPES[history.cadence] :]
    total = np.nansum(recent, axis=1)
    good = (np.isfinite(recent).mean(axis=1) >= 0.9) & (total > 0)
    if not good.any():
        return np.ones((1, width))
    mean = np.nanmean(recent[good] / np.nanmean(recent[good], axis=1)[:, None], axis=0)
    mean = np.where(np.isfinite(mean), mean, 1.0)
    filled = np.where(
        np.isfinite(recent), recent, mean * np.where(good, np.nanmean(np.where(good[:, None], recent, 1.0), axis=1), 1.0)[:, None]
    )
    shapes = np.where(good[:, None], filled, mean)
    return np.asarray(shapes / shapes.mean(axis=1)[:, None])


def hour_of_week_profile(histories: list[History]) -> pd.DataFrame:
    """Return the mean hour-of-week profile of each series.

    Returns:
        pandas.DataFrame: workload, region, hour_of_week (0 = Monday 00:00 UTC), factor (1 = mean of the week).
    """
    frames = []
    for history in histories:
        if history.hourly is None or history.kind == "zero":
            continue
        shapes = shapes_of(history)
        if history.cadence == "week":
            hour = (np.arange(168) + history.end.dayofweek * 24) % 168
            profile = pd.Series(shapes.mean(axis=0), index=hour).sort_index()
        else:
            profile = pd.Series(np.concatenate([shapes.mean(axis=0) * factor for factor in history.weekday_factor]))
        frames.append(
            pd.DataFrame(
                {"workload": history.workload, "region": history.region, "hour_of_week": np.arange(168), "factor": profile.to_numpy()}
            )
        )
    columns = ["workload", "region", "hour_of_week", "factor"]
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=columns)


def duration_curve(work: Array) -> Array:
    """Return the median load-duration curve of hourly work (paths x hours) at `CURVE_SHARES` of the hours.

    The curve at share s is the load that a share s of the hours exceeds.
    """
    ordered = np.sort(work, axis=1)[:, ::-1]
    position = np.minimum((CURVE_SHARES * (work.shape[1] - 1)).round().astype(int), work.shape[1] - 1)
    return np.asarray(np.median(ordered[:, position], axis=0))


def pooling(peaks: Array, peak_of_sum: Array) -> tuple[float, float, float]:
    """Compare the sum of own peaks with the peak of the sum, in one common unit.

    Args:
        peaks (series, paths): Highest hour of each series.
        peak_of_sum (paths,): Highest hour of all together.

    Returns:
        tuple: Median sum of peaks, median peak of the sum, and the share of capacity that pooling saves.

    Examples:
        >>> pooling(np.array([[3.0], [1.0]]), np.array([3.0]))
        (4.0, 3.0, 0.25)
    """
    alone, together = float(np.median(peaks.sum(axis=0))), float(np.median(peak_of_sum))
    return alone, together, (1 - together / alone if alone > 0 else 0.0)
