"""Shares of variance: against closed forms, and through a whole sweep."""

from __future__ import annotations

import math
import re
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from capplan.errors import ScenarioError
from capplan.sweep import Axis, parse_axis, write_sweep
from capplan.sweep import run as sweeping
from capplan.sweep.variance import paired_points, shares_or_reason, variance_shares
from capplan.text import number_text
from capplan.workers import workers
from tests.outputs.test_sweep import folder, quiet  # noqa: F401  (the small book)

pytest.importorskip("SALib", reason="SALib is not installed (capplan[sensitivity])")
NAMES = ("price_factor", "risk_weight", "gap_share")


def ishigami_shares(a: float, b: float) -> tuple[np.ndarray, np.ndarray]:
    """First-order and total shares of sin x + a sin² y + b z⁴ sin x over [-π, π]³, by integration on paper."""
    alone_x = (1 + b * math.pi**4 / 5) ** 2 / 2
    alone_y = a**2 / 8
    both_xz = b**2 * math.pi**8 * (1 / 18 - 1 / 50)
    whole = alone_x + alone_y + both_xz
    return np.array([alone_x, alone_y, 0.0]) / whole, np.array([alone_x + both_xz, alone_y, both_xz]) / whole


def shares_of(model, axes, base=4096):
    points = pd.DataFrame(paired_points(axes, base, seed=5))
    found = variance_shares(model(*(points[axis.field] for axis in axes)).tolist(), axes, seed=5)
    return found.set_index("assumption").loc[[axis.field for axis in axes]]


def test_shares_are_those_of_ishigamis_function():
    axes = [Axis(name, (), -math.pi, math.pi) for name in NAMES]
    found = shares_of(lambda x, y, z: np.sin(x) + 7 * np.sin(y) ** 2 + 0.1 * z**4 * np.sin(x), axes)
    alone, total = ishigami_shares(7, 0.1)
    assert found["alone_share"].to_numpy() == pytest.approx(alone, abs=0.02)
    assert found["total_share"].to_numpy() == pytest.approx(total, abs=0.02)
    assert (abs(found["total_share"] - total) <= 2 * found["total_error"]).all()


def test_shares_of_a_sum_are_its_variances():
    axes = [Axis(name, (), 0.0, width) for name, width in zip(NAMES, (1.0, 2.0, 4.0), strict=True)]
    found = shares_of(lambda x, y, z: x + y + z, axes)
    # variance of an even range: its width squared over 12
    assert found["alone_share"].to_numpy() == pytest.approx(np.array([1, 4, 16]) / 21, abs=0.01)
    assert found["total_share"].to_numpy() == pytest.approx(np.array([1, 4, 16]) / 21, abs=0.01)


def test_points_are_pairs_with_one_assumption_exchanged():
    axes = [parse_axis("price_factor=0.8:1.2"), parse_axis("risk_weight=0:0.5")]
    points = paired_points(axes, 8, seed=1)
    assert points == paired_points(axes, 8, seed=1)
    assert points != paired_points(axes, 8, seed=2)
    assert len(points) == 8 * 4
    for first, with_price, with_risk, second in zip(*(points[place::4] for place in range(4)), strict=True):
        assert with_price == {"price_factor": second["price_factor"], "risk_weight": first["risk_weight"]}
        assert with_risk == {"price_factor": first["price_factor"], "risk_weight": second["risk_weight"]}


@pytest.mark.parametrize(
    ("axes", "base", "said"),
    [(["seed=1,2"], 8, r"write seed=low:high"), ([], 8, "needs at least one range"), (["price_factor=0.8:1.2"], 12, "such as saltelli:16")],
)
def test_what_shares_cannot_be_found_from_is_refused(axes, base, said):
    with pytest.raises(ScenarioError, match=said):
        paired_points([parse_axis(text) for text in axes], base, seed=1)


def test_shares_that_would_not_be_right_are_not_shown():
    axes = [parse_axis("price_factor=0.8:1.2")]
    points = pd.DataFrame({"status": "proven", "upper_usd": np.linspace(100, 110, 12), "lower_usd": np.linspace(100, 110, 12)})
    assert len(shares_or_reason(points, axes, 1)[0]) == 1
    for wrong, said in (
        (points.assign(lower_usd=points["lower_usd"] - 2), "too little"),
        (points.assign(upper_usd=100.0, lower_usd=99.0), "too little"),
        (points.assign(status=["failed"] + ["proven"] * 11), "1 point could not be decided"),
    ):
        shares, text = shares_or_reason(wrong, axes, 1)
        assert shares.empty
        assert said in text


def test_a_sweep_shows_them_on_its_page(folder, tmp_path, monkeypatch):  # noqa: F811
    monkeypatch.setattr(sweeping, "workers", lambda address: workers(address, 1))
    out = tmp_path / "out"
    write_sweep(folder, ["price_factor=0.8:1.2", "risk_weight=0:0.1"], "saltelli:4", {}, out, 100, quiet)
    assert len(pd.read_parquet(out / "points.parquet")) == 16
    page = (out / "sweep.html").read_text()
    assert "What the variance of the cost comes from" in page
    assert "Price factor causes" in page
    shares = pd.read_parquet(out / "shares.parquet").set_index("assumption")
    assert list(shares.columns) == ["alone_share", "alone_error", "total_share", "total_error"]
    drawn = re.findall(r"<svg.*?</svg>", page, re.S)
    said = next(picture for picture in drawn if "Share of the variance" in picture)
    for name, total in shares[["alone_share", "total_share"]].max(axis=1).items():
        assert name.capitalize().replace("_", " ") in said
        assert f">{number_text(total, 'share')}<" in said
    # another sweep into the same folder has none
    write_sweep(folder, ["price_factor=0.8,1.2"], "", {}, out, 100, quiet)
    assert not (out / "shares.parquet").exists()


def test_the_library_is_loaded_only_where_it_is_used():
    code = "import sys, capplan.sweep, capplan.cli; sys.exit('SALib' in sys.modules or 'matplotlib' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
