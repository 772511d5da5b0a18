"""Failures, checkpoints and lost work: the closed forms that prices, goodput and training runs share."""

from typing import Any

import numpy as np

from capplan.errors import CapplanError

#: Below this exponent exp(-x) is still a number; beyond it a segment is never finished.
LARGEST_EXPONENT = 700.0


def spot_left_share(demand: Any, expected: Any, scarcity: float) -> Any:
    r"""Say which share of the usual spot capacity is left when demand stands above what was expected.

    .. math:: \max(0,\ 1 - \kappa \max(0, D / E[D] - 1))

    Args:
        demand, expected (D, E[D]): Accelerators needed, and expected to be needed in the same hours.
        scarcity (kappa): Share that is gone for each share above expectation.

    Examples:
        >>> spot_left_share([8.0, 10.0, 12.0, 40.0], 10.0, 0.5).round(9).tolist()
        [1.0, 1.0, 0.9, 0.0]
    """
    demand, expected = np.broadcast_arrays(np.asarray(demand, dtype=float), np.asarray(expected, dtype=float))
    above = np.divide(demand, expected, out=np.ones(demand.shape), where=expected > 0) - 1
    return np.clip(1 - scarcity * np.maximum(above, 0.0), 0.0, 1.0)


def young_interval(write: Any, mean: Any) -> Any:
    r"""Say how much work lies between two checkpoints by Young's rule.

    .. math:: \tau = \sqrt{2 \delta M}

    Args:
        write (delta): Time one checkpoint stops the run.
        mean (M): Mean time between failures, in the same unit.

    Source: J. W. Young, A first order approximation to the optimum checkpoint interval, CACM 17(9), 1974.

    Examples:
        >>> round(young_interval(28.0, 4.1379 * 3600), 3)
        913.346
    """
    _check_times(write, mean)
    return _plain(np.sqrt(2 * np.asarray(write, dtype=float) * np.asarray(mean, dtype=float)))


def optimum_interval(write: Any, mean: Any) -> Any:
    r"""Say how much work between two checkpoints makes a run cheapest, exactly, when failures come without memory.

    .. math:: \tau^* = M\left(1 + W_0\!\left(-e^{-\delta/M - 1}\right)\right)

    the zero of the derivative of the expected time per unit of work of `time_shares`; it does not depend on the restart.

    Args:
        write (delta): Time one checkpoint stops the run.
        mean (M): Mean time between failures, in the same unit; infinite = no failures, then so is the interval.

    Source: J. T. Daly, FGCS 22(3), 2006, equation of the complete model; solved with Lambert's W.

    Examples:
        >>> round(optimum_interval(28.0, 4.1379 * 3600), 3), round(optimum_interval(600.0, 7200.0), 3)
        (894.775, 2553.753)
    """
    from scipy.special import lambertw

    _check_times(write, mean)
    delta, m = np.broadcast_arrays(np.asarray(write, dtype=float), np.asarray(mean, dtype=float))
    endless = np.isinf(m)
    finite = np.where(endless, 1.0, m)
    # Near its branch point W is known to half the digits only; there the series in sqrt(delta / M), to which Daly's rule belongs, is exact.
    share = delta / (2 * finite)
    closed = finite * (1 + lambertw(-np.exp(-delta / finite - 1)).real)
    series = np.sqrt(2 * delta * finite) * (1 + np.sqrt(share) / 3 + share / 9) - delta
    return _plain(np.where(endless, np.inf, np.where(share < 1e-6, series, closed)))


def useful_share(interruptions_per_hour: Any, lost_hours: Any, write_hours: Any = 0.0, interval_hours: Any = np.inf) -> Any:
    r"""Say which share of paid time is progress, if each interruption loses a known time.

    .. math:: g = \frac{1 - \lambda L}{1 + \delta/\tau}

    With L = R + tau/2 (the restart and half an interval) it is the expected effective training time ratio of the source. The same formula
    prices spot machines: there L is stated and nothing else is written.

    Args:
        interruptions_per_hour (lambda): Of the whole run, in an hour of paid time.
        lost_hours (L): Paid time lost at each.
        write_hours, interval_hours (delta, tau): Time one checkpoint stops the run, and work between two.

    Returns:
        float or array: Share of paid time; 0 or less where interruptions leave nothing.

    Source: A. Kokolis et al., HPCA 2025: E[ETTR] = (1 - N r (u0 + dt/2)) / (1 + w/dt).

    Examples:
        >>> round(useful_share(0.1, 2.0), 3), round(useful_share(1 / 1.8, 5 / 60 + 0.1, 1 / 60, 0.2), 3)
        (0.8, 0.829)
    """
    rate, lost = np.asarray(interruptions_per_hour, dtype=float), np.asarray(lost_hours, dtype=float)
    return _plain((1 - rate * lost) / (1 + np.asarray(write_hours, dtype=float) / np.asarray(interval_hours, dtype=float)))


def time_shares(interval_hours: Any, write_hours: Any, restart_hours: Any, interruptions_per_hour: Any) -> dict[str, Any]:
    r"""Say where a paid hour goes when failures come without memory: progress, checkpoints, work done twice, restarts.

    .. math:: E = \frac{1}{\lambda} e^{\lambda R}\left(e^{\lambda(\tau+\delta)} - 1\right),\qquad g = \tau / E

    E is the expected paid time per tau hours of saved work. Failures may strike while a checkpoint is written or a run restarts.

    Args:
        interval_hours (tau): Work between two checkpoints.
        write_hours (delta): Time one checkpoint stops the run.
        restart_hours (R): Paid time from a failure until work goes on.
        interruptions_per_hour (lambda):

    Returns:
        dict: progress, checkpoints, rework, restarts: shares of paid time that add up to 1; and lost_hours, the paid time that each
            interruption costs in rework and restart: `useful_share` of the rate and this time, less the checkpoints, is the progress.

    Source: J. T. Daly, FGCS 22(3), 2006, complete model of the expected wall clock time.

    Examples:
        >>> shares = time_shares(0.25, 0.01, 0.1, 1 / 3)
        >>> round(shares["progress"], 4), round(sum(shares[name] for name in ("progress", "checkpoints", "rework", "restarts")), 12)
        (0.8903, 1.0)
    """
    tau, delta, restart, rate = np.broadcast_arrays(
        *(np.asarray(value, dtype=float) for value in (interval_hours, write_hours, restart_hours, interruptions_per_hour))
    )
    for name, value in (("interval_hours", tau), ("write_hours", delta), ("restart_hours", restart), ("interruptions_per_hour", rate)):
        _refuse_below(value, 0.0, name)
    endless = np.isinf(tau)
    quiet = rate <= 0
    if (endless & ~quiet).any():
        raise CapplanError("interval_hours is infinite while failures occur: a run without checkpoints never ends; state an interval")
    span = np.where(endless, 1.0, tau + delta)
    busy, again = rate * span, rate * restart
    never = busy + again > LARGEST_EXPONENT
    tries = np.expm1(np.where(never, 0.0, busy))
    some = np.where(quiet, 1.0, rate)
    # Expected time in the segment (failed tries included), and in the restarts that the failed tries cause.
    within = np.where(quiet, span, tries / some)
    restarting = np.where(quiet, 0.0, tries * np.expm1(np.where(never, 0.0, again)) / some)
    whole = within + restarting
    whole = np.where(whole > 0, whole, 1.0)
    progress = np.where(endless, 1.0, tau / whole)
    shares = {
        "progress": np.where(never, 0.0, progress),
        "checkpoints": np.where(never | endless, 0.0, delta / whole),
        "rework": np.where(never, 1.0, np.where(endless, 0.0, np.maximum(within - tau - delta, 0.0) / whole)),
        "restarts": np.where(never, 0.0, restarting / whole),
    }
    # A try that fails costs what a whole one does less what it saves; with no failures, half an interval and the restart as the limit.
    lost = np.where(quiet, span / 2 + restart, (shares["rework"] + shares["restarts"]) / some)
    return {name: _plain(value) for name, value in {**shares, "lost_hours": lost}.items()}


def _check_times(write: Any, mean: Any) -> None:
    """Refuse checkpoints that take no time and failures that come at once."""
    for name, value in (("checkpoint write time", write), ("mean time between failures", mean)):
        numbers = np.asarray(value, dtype=float)
        if not (numbers > 0).all():
            raise CapplanError(f"the {name} must be above 0; got {float(np.nanmin(numbers)) if numbers.size else float('nan'):g}")


def _refuse_below(value: Any, least: float, name: str) -> None:
    """Refuse what is below a bound or no number."""
    numbers = np.asarray(value, dtype=float)
    bad = ~(numbers >= least)
    if bad.any():
        raise CapplanError(f"{name} = {float(numbers[bad].ravel()[0]):g}: must be at least {least:g}")


def _plain(value: Any) -> Any:
    """Return a single number as a float, an array as it is."""
    return float(value) if np.ndim(value) == 0 else np.asarray(value)
