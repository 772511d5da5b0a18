"""Which share of the cost's variance each assumption causes, alone and together with others: Sobol indices from a sample made for them."""

from collections.abc import Sequence
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd

from capplan.errors import CapplanError, ScenarioError
from capplan.sweep.points import Axis, fitting
from capplan.text import counted

COLUMNS = ("assumption", "alone_share", "alone_error", "total_share", "total_error")
#: The gaps that plans were proven to may cause at most this share of the variance; else nothing is shown.
NOISE_SHARE = 0.01


def paired_points(axes: Sequence[Axis], base: int, seed: int) -> list[dict[str, Any]]:
    """Return base x (assumptions + 2) points: pairs of sampled points, and the first of each pair with one assumption of the second.

    Args:
        axes: What is varied, each over a range, evenly likely.
        base: Pairs; a power of two spreads evenly.

    Raises:
        ScenarioError: If an assumption is no range, or the pairs are no power of two.
        CapplanError: If SALib is not installed.

    Source: A. Saltelli et al., Variance based sensitivity analysis of model output, Computer Physics Communications 181 (2010).
    """
    for axis in axes:
        if axis.low is None:
            raise ScenarioError(f"--sample saltelli needs ranges alone; write {axis.field}=low:high, or leave it out")
    if not axes:
        raise ScenarioError("--sample saltelli needs at least one range, such as --vary price_factor=0.7:1.3")
    if base & (base - 1):
        raise ScenarioError(f"--sample saltelli:{base}: take a power of two, such as saltelli:{1 << base.bit_length()}")
    rows = _salib("sample").sample(_problem(axes), base, calc_second_order=False, seed=seed)
    return [{axis.field: fitting(axis.field, value) for axis, value in zip(axes, row, strict=True)} for row in rows]


def variance_shares(costs: Sequence[float], axes: Sequence[Axis], seed: int) -> pd.DataFrame:
    """Return the share of the variance that each assumption causes.

    Args:
        costs: Cost at each of the `paired_points`, in their order, USD.
        seed: Seed of the errors, which are found by drawing pairs again.

    Returns:
        DataFrame: assumption, alone_share (of the variance, by this assumption alone), total_share (with all it does together with others),
            and alone_error and total_error (half widths of 95 % intervals); largest total first.

    Source: Saltelli et al. (2010); M. J. W. Jansen, Analysis of variance designs for model output (1999), as SALib computes them.
    """
    found = _salib("analyze").analyze(_problem(axes), np.asarray(costs, float), calc_second_order=False, seed=seed)
    shares = [found[name] for name in ("S1", "S1_conf", "ST", "ST_conf")]
    frame = pd.DataFrame(dict(zip(COLUMNS, ([axis.field for axis in axes], *shares), strict=True)))
    return frame.sort_values("total_share", ascending=False, kind="stable", ignore_index=True)


def shares_or_reason(points: pd.DataFrame, axes: Sequence[Axis], seed: int) -> tuple[pd.DataFrame, str]:
    """Return the shares of a sweep's `paired_points` and what they say, or no rows and why there are none.

    Args:
        points: Points of the sweep, in order, with status, upper_usd and lower_usd.
        axes, seed: As for `variance_shares`.
    """
    none = pd.DataFrame(columns=list(COLUMNS))
    failed = int((points["status"] == "failed").sum())
    if failed:
        return none, f"Not shown: {counted(failed, 'point')} could not be decided, and shares need every point. Narrow the ranges."
    variance = float(points["upper_usd"].var())
    # a value anywhere within a gap of this width has at most a quarter of its square as variance (Popoviciu)
    noise = float((points["upper_usd"] - points["lower_usd"]).max()) ** 2 / 4
    if noise > NOISE_SHARE * variance:
        return none, "Not shown: the cost moves too little to be told from the gaps that the plans were proven to. Lower gap_share."
    shares = variance_shares(points["upper_usd"].tolist(), axes, seed)
    first = shares.iloc[0]
    return shares, (
        f"{str(first['assumption']).replace('_', ' ').capitalize()} causes {100 * first['total_share']:.0f} % (±"
        f" {100 * first['total_error']:.0f}) of the variance of the cost, {100 * first['alone_share']:.0f} % (±"
        f" {100 * first['alone_error']:.0f}) by itself; every value of a range is taken as equally likely."
    )


def _problem(axes: Sequence[Axis]) -> dict[str, Any]:
    """Describe the ranges as SALib reads them."""
    return {"num_vars": len(axes), "names": [axis.field for axis in axes], "bounds": [[axis.low, axis.high] for axis in axes]}


def _salib(part: str) -> ModuleType:
    """Return SALib's module of Sobol samples or indices; it is loaded where it is used, since few sweeps need it."""
    try:
        if part == "sample":
            from SALib.sample import sobol
        else:
            from SALib.analyze import sobol
    except ImportError as error:
        raise CapplanError("--sample saltelli needs SALib, which is not installed; install capplan[sensitivity]") from error
    return sobol
