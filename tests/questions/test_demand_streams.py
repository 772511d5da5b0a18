"""Random numbers of each series: its own, and those it shares with others by the past that they share."""

import numpy as np
import pandas as pd
import pytest

from capplan.book.scenario import DemandAssumptions
from capplan.questions.demand import forecast_demand
from capplan.questions.demand.fitting import fit_usage
from capplan.questions.demand.streams import PastPeriods, joint_normals

A = DemandAssumptions(paths=40, horizon_quarters=3)
AS_OF = pd.Timestamp(A.as_of)


def daily(name: str, days: int, seed: int, end: str = "2026-11-30", common: np.ndarray | None = None) -> pd.DataFrame:
    level = np.cumsum(np.random.default_rng(seed).normal(0, 0.01, days)) + (0 if common is None else common[-days:])
    return pd.DataFrame({"time": pd.date_range(end=end, periods=days), "workload": name, "quantity": 1000 * np.exp(level)})


def monthly(name: str) -> pd.DataFrame:
    time = pd.date_range(end="2026-10-01", periods=40, freq="MS")
    return pd.DataFrame({"time": time, "workload": name, "quantity": 1000.0 + np.arange(40) ** 1.5})


def runs(name: str) -> pd.DataFrame:
    work = np.where(np.random.default_rng(8).random(300) < 0.02, 50.0, 0.0)
    return daily(name, 300, 1).assign(quantity=np.where(np.arange(300) > 290, 5.0, work))


@pytest.mark.parametrize(
    "other",
    [
        daily("other", 900, 2),
        daily("other", 500, 2),
        daily("other", 40, 2),
        daily("other", 400, 2, "2026-05-31"),
        monthly("other"),
        runs("other"),
    ],
    ids=["longer", "as long", "young", "ended", "monthly", "intermittent"],
)
@pytest.mark.parametrize("days", [500, 45])
def test_another_workload_changes_nothing(days, other):
    """Totals, months and peaks of a workload are the same to the last digit whatever stands beside it."""
    usage = daily("mine", days, 1)
    alone, beside = (forecast_demand(table, None, None, A) for table in (usage, pd.concat([usage, other])))
    for name in ("quantiles", "months", "peaks"):
        mine = getattr(beside, name)
        mine = mine[mine["workload"] == "mine"].reset_index(drop=True)
        pd.testing.assert_frame_equal(mine, getattr(alone, name), rtol=1e-12)


def test_series_are_correlated_like_their_errors():
    common = np.cumsum(np.random.default_rng(9).normal(0, 0.02, 700))
    usage = pd.concat([daily("a", 700, 1, common=common), daily("b", 700, 2, common=common), daily("c", 400, 3, common=-common)])
    fits = list(fit_usage(usage, A).levels)
    found = np.corrcoef(joint_normals(fits, (40_000, 1), [1, 2], AS_OF)[:, :, 0])
    errors = [fit.innovations[::-1] for fit in fits]
    for j, k in ((0, 1), (0, 2), (1, 2)):
        left, right = (errors[n] - errors[n].mean() for n in (j, k))
        both = min(len(left), len(right))
        sizes = np.sqrt(left @ left * (right @ right))
        shrunk = np.prod([np.sqrt(len(part) / (len(part) + 10)) for part in (left, right)])
        assert found[j, k] == pytest.approx(left[:both] @ right[:both] / sizes * shrunk, abs=0.02)
    assert found[0, 1] > 0.6
    assert found[0, 2] < -0.3


def test_past_periods_are_drawn_evenly_and_together():
    past = PastPeriods(50, 4000, [3])
    long, short = past.counted_back(100), past.counted_back(25)
    assert np.bincount(long.ravel(), minlength=100) / long.size == pytest.approx(np.full(100, 0.01), abs=0.001)
    assert np.bincount(short.ravel(), minlength=25) / short.size == pytest.approx(np.full(25, 0.04), abs=0.003)
    # A run begins at the same period wherever the long history's lies inside the short one.
    assert (long[:, 0] == short[:, 0])[long[:, 0] < 25].all()
    neighbours = (long[:, :-1] - long[:, 1:]) % 100 == 1
    assert neighbours.mean() == pytest.approx(0.75, abs=0.02)
