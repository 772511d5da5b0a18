"""Growth that people state: a weight beside the history, a cap on a share of the paths, and plain refusals."""

import numpy as np
import pandas as pd
import pytest

from capplan.book.scenario import DemandAssumptions
from capplan.errors import CapplanError
from capplan.questions.demand import Stated, forecast_demand

A = DemandAssumptions(paths=100, load_blocks=1)
TIME = pd.date_range(end="2026-11-30", periods=900)
USAGE = pd.DataFrame({"time": TIME, "workload": "w", "quantity": 1000 * np.exp(np.random.default_rng(1).normal(0, 0.05, 900))})


def stated(kind: str = "growth", value: float = 1.0, unit: str = "share_per_year", weight: float = 1.0) -> pd.DataFrame:
    return pd.DataFrame([{"statement_id": "plan", "workload": "w", "kind": kind, "value": value, "unit": unit, "weight": weight}])


def median(statements: pd.DataFrame | None) -> pd.Series:
    table = forecast_demand(USAGE, None, None, A, stated=Stated(statements)).quantiles
    return table[table["quantile"] == 0.5].set_index("quarter")["quantity"]


def test_stated_growth_moves_the_median_by_its_weight():
    """Flat work and a doubling a year: with weight 1 the median doubles each year, with 0.5 it grows by its root, with 0 not."""
    plain = median(None)
    for weight, times in ((1.0, 2.0), (0.5, 2**0.5), (0.0, 1.0)):
        moved = median(stated(weight=weight)) / plain
        assert moved["2028Q4"] / moved["2027Q4"] == pytest.approx(times, rel=0.03)
    assert median(stated(value=2.0, unit="times_per_year")).to_numpy() == pytest.approx(median(stated()).to_numpy())
    other = stated().assign(workload="another")
    assert median(other).to_numpy() == pytest.approx(plain.to_numpy())


def test_a_cap_holds_on_its_share_of_the_paths():
    totals = forecast_demand(USAGE, None, None, A, stated=Stated(stated("cap", 900.0, "units_per_day", 1.0))).paths
    assert (totals[totals["quarter"] == "2027Q1"]["quantity"] <= 900 * 90 + 1e-6).all()
    half = forecast_demand(USAGE, None, None, A, stated=Stated(stated("cap", 900.0, "units_per_day", 0.5))).paths
    capped = (half[half["quarter"] == "2027Q1"]["quantity"] <= 900 * 90 + 1e-6).mean()
    assert 0.3 < capped < 0.7


def test_units_must_fit():
    with pytest.raises(CapplanError, match="plan is a growth in no unit; allowed: share_per_year or times_per_year"):
        median(stated(unit=None))
    with pytest.raises(CapplanError, match="plan is a cap in times_per_year; allowed: units_per_day"):
        median(stated("cap", 5.0, "times_per_year"))
    with pytest.raises(CapplanError, match="leaves no demand"):
        median(stated(value=-1.0))
