"""Scaling: published fits, closed forms, measured curves with the largest run held out, and what cannot be fitted."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from capplan.book.assumptions.scaling import ScalingAssumptions
from capplan.errors import CapplanError
from capplan.questions.scaling import fit_law, fit_scaling
from tests.cases.closed_forms import usl_throughput
from tests.conftest import reference_file

A = ScalingAssumptions()
SPEC = pd.DataFrame({"accelerators": [1, 18, 36, 72, 108, 144, 216], "throughput": [64.9, 995.9, 1652.4, 1853.2, 1828.9, 1775.0, 1702.2]})
RAYTRACER = pd.DataFrame(
    {"accelerators": [1, 4, 8, 12, 16, 20, 24, 28, 32, 48, 64], "throughput": [20, 78, 130, 170, 190, 200, 210, 230, 260, 280, 310]}
)
#: NVIDIA Eos, MLPerf Training v3.1, GPT-3 175B, minutes to train (mlcommons/training_results_v3.1, run_stop - run_start).
MLPERF = pd.DataFrame(
    {
        "accelerators": [512, 768, 4096, 6144, 8192, 10240, 10752],
        "throughput": [58.3019, 40.6264, 8.5745, 6.0274, 4.8658, 4.0703, 3.9172],
        "unit": "minutes",
    }
)


def values(fit, law="usl"):
    return fit.parameters[fit.parameters["law"] == law].set_index("parameter")["value"]


def test_specsdm91_as_published():
    fit = fit_scaling(SPEC, A)
    found = values(fit)
    assert found["alpha"] == pytest.approx(0.0277285, rel=1e-4)
    assert found["beta"] == pytest.approx(1.04365507e-4, rel=1e-4)
    assert found["gamma"] == pytest.approx(89.995233, rel=1e-4)
    errors = fit.parameters[fit.parameters["law"] == "usl"].set_index("parameter")["standard_error"]
    assert errors["alpha"] == pytest.approx(0.0091217, rel=1e-3)
    assert errors["gamma"] == pytest.approx(14.2134894, rel=1e-3)
    row = fit.limits.iloc[0]
    assert row["peak_accelerators"] == pytest.approx(96.51956, rel=1e-4)
    assert row["peak_throughput"] == pytest.approx(1883.9, rel=1e-4)
    assert row["knee_accelerators"] == pytest.approx(36.06401, rel=1e-4)
    assert row["limit_throughput"] == pytest.approx(3245.589, rel=1e-4)
    usl = fit.quality.set_index("law").loc["usl"]
    assert usl["residual_standard_error"] == pytest.approx(82.85, abs=0.01)
    assert fit.runs["efficiency_share"].round(4).tolist() == [0.7211, 0.6148, 0.51, 0.286, 0.1882, 0.137, 0.0876]


def test_raytracer_first_six_rows_as_published():
    fit = fit_scaling(RAYTRACER.head(6), A)
    found = values(fit)
    assert found["alpha"] == pytest.approx(0.02444, abs=1e-5)
    assert found["beta"] == pytest.approx(0.00163, abs=1e-5)
    assert found["gamma"] == pytest.approx(20.85605, rel=1e-4)


def test_the_fit_is_bounded_where_least_squares_would_go_negative():
    from scipy.optimize import curve_fit

    free, _ = curve_fit(
        lambda n, a, b, g: g * n / (1 + a * (n - 1) + b * n * (n - 1)), RAYTRACER["accelerators"], RAYTRACER["throughput"], p0=(0.05, 0, 20)
    )
    assert free[1] < 0
    found = values(fit_scaling(RAYTRACER, A))
    amdahl = values(fit_scaling(RAYTRACER, A), "amdahl")
    assert found["beta"] == 0
    assert found["alpha"] == pytest.approx(amdahl["alpha"], rel=1e-6)
    assert found["gamma"] == pytest.approx(amdahl["gamma"], rel=1e-6)


def test_mlperf_up_to_6144_predicts_the_larger_runs():
    fit = fit_scaling(MLPERF[MLPERF["accelerators"] <= 6144], A)
    larger = MLPERF[MLPERF["accelerators"] > 6144]
    error = fit.predict(larger["accelerators"].to_numpy()) * larger["throughput"].to_numpy() - 1
    assert np.abs(error).max() < 0.03
    # Against the published speed-ups of a bounded fit of the same points: 12.185, 14.452, 14.983 times the 512.
    speedup = fit.predict(np.array([8192.0, 10240, 10752])) * 58.3019
    assert speedup == pytest.approx([12.185, 14.452, 14.983], rel=1e-3)


def test_mlperf_per_unit_of_512():
    found = values(fit_scaling(MLPERF.assign(accelerators=MLPERF["accelerators"] / 512, throughput=MLPERF["throughput"] / 58.3019), A))
    assert found["alpha"] == pytest.approx(0.01764772, rel=1e-4)
    assert found["beta"] == 0
    assert found["gamma"] == pytest.approx(0.95602497, rel=1e-4)


def test_two_and_four_accelerators():
    fit = fit_scaling(pd.DataFrame({"accelerators": [1, 2, 4], "throughput": [1, 1.8, 2.4]}), A)
    found = values(fit)
    assert found["alpha"] == pytest.approx(0, abs=1e-6)
    assert found["beta"] == pytest.approx(1 / 18, rel=1e-5)
    assert fit.limits.iloc[0]["peak_accelerators"] == pytest.approx(np.sqrt(18), rel=1e-5)
    assert fit.predict(8.0)[0] == pytest.approx(1.946, abs=1e-3)


@pytest.mark.parametrize(("alpha", "beta", "gamma"), [(0.02, 0.02, 1.0), (0.001, 1e-5, 90.0), (0.0, 1e-8, 5e4), (0.3, 0.0, 1e-3)])
def test_an_exact_curve_is_found_again(alpha, beta, gamma):
    n = np.array([1, 8, 64, 512, 4096])
    law = fit_law("usl", n, usl_throughput(n, alpha, beta, gamma))
    assert law.parameters["gamma"] == pytest.approx(gamma, rel=1e-4)
    assert law.parameters["alpha"] == pytest.approx(alpha, rel=1e-3, abs=1e-6)
    assert law.parameters["beta"] == pytest.approx(beta, rel=1e-3, abs=1e-12)


def test_gustafson_and_power_find_their_own():
    n = np.array([1.0, 2, 8, 64])
    assert fit_law("gustafson", n, 3 * (n - 0.05 * (n - 1))).parameters == pytest.approx({"serial": 0.05, "gamma": 3.0}, rel=1e-6)
    assert fit_law("power", n, 3 * n**0.8).parameters == pytest.approx({"exponent": 0.8, "gamma": 3.0}, rel=1e-6)


def test_the_slope_is_the_derivative_and_the_threshold_lies_where_it_says():
    fit = fit_scaling(SPEC, A)
    law, row = fit.law(), fit.limits.iloc[0]
    n = np.array([1.0, 10, 50, 200])
    assert law.marginal(n) == pytest.approx((law.throughput(n + 1e-4) - law.throughput(n - 1e-4)) / 2e-4, rel=1e-5)
    each = law.throughput(1.0)[0]
    assert law.marginal(row["worthwhile_accelerators"])[0] == pytest.approx(0.5 * each, rel=1e-6)
    assert "beyond" in fit.headline


def test_the_band_covers_as_often_as_it_says():
    rng = np.random.default_rng(3)
    n = np.array([1.0, 4, 8, 16, 32, 64, 96, 128, 192, 256])
    true = usl_throughput(n, 0.02, 1e-5, 10)
    inside = 0
    for _ in range(200):
        low, high = fit_law("usl", n, true + rng.normal(0, 5, len(n))).band(np.array([48.0]), 0.9)
        inside += low[0] <= usl_throughput(48.0, 0.02, 1e-5, 10) <= high[0]
    assert 0.84 <= inside / 200 <= 0.97


def test_measured_training_curves_with_the_largest_run_held_out():
    table = pd.read_csv(reference_file("data", "training_scaling", "mosaicml_mpt_training_throughput.csv"))
    table["curve"] = table[["section", "model", "seq_len_tokens", "gpu", "precision"]].astype(str).agg("|".join, axis=1)
    runs = table.rename(columns={"gpus": "accelerators", "tokens_per_second": "throughput", "global_batch_size": "global_batch"})
    runs = runs[["curve", "accelerators", "throughput", "global_batch"]].assign(unit="tokens/s")
    counts = runs.groupby("curve")["accelerators"].nunique()
    runs = runs[runs["curve"].isin(counts[counts >= 4].index)]
    fit = fit_scaling(runs, A)
    held = fit.quality[fit.quality["chosen"]]["held_out_error_share"].abs()
    assert len(held) >= 5
    assert held.median() <= 0.05


def families():
    """MLPerf Training: curves of one submitter, accelerator and benchmark in a round with four counts or more; and MosaicML's."""
    table = pd.read_csv(reference_file("data", "training_scaling", "mlperf_training_time_to_train.csv"))
    table = table[(table["division"] == "closed") & (table["accelerators_total"] > 0)].dropna(
        subset=["mean_minutes_without_fastest_and_slowest"]
    )
    found = []
    for _, part in table.groupby(["round", "submitter", "accelerator", "benchmark"]):
        mean = part.groupby("accelerators_total")["mean_minutes_without_fastest_and_slowest"].mean()
        if len(mean) >= 4:
            found.append(pd.DataFrame({"curve": "c", "accelerators": mean.index, "throughput": mean.to_numpy(), "unit": "minutes"}))
    return found


def test_largest_runs_of_mlperf_held_out():
    """The efficiency of the largest run, from the measured base, and how often it lies in the band of a new run."""
    errors, inside = [], []
    for runs in families():
        largest, smallest = runs.iloc[-1], runs.iloc[0]
        fit = fit_scaling(runs.iloc[:-1], A)
        found = (smallest["throughput"] * smallest["accelerators"]) / (largest["throughput"] * largest["accelerators"])
        errors.append(fit.efficiency(largest["accelerators"])[0] / found - 1)
        row = fit.at(largest["accelerators"], 0.95).iloc[0]
        inside.append(row["lower"] <= 1 / largest["throughput"] <= row["upper"])
    assert len(errors) >= 25
    assert abs(np.median(errors)) < 0.05
    assert np.median(np.abs(errors)) < 0.12
    assert 0.90 <= np.mean(inside) <= 0.98


def test_efficiency_starts_at_the_measured_run_and_small_runs_count_as_much():
    # The smallest run lies a third above the law of the others: absolute least squares hardly sees it.
    runs = pd.DataFrame({"accelerators": [8, 64, 128, 256, 512], "throughput": [8.0, 48.0, 92.0, 170.0, 300.0], "unit": "tokens/s"})
    fit = fit_scaling(runs, A)
    assert fit.efficiency(np.array([1.0, 8.0])).tolist() == [1.0, 1.0]
    assert fit.efficiency(512.0)[0] == pytest.approx(300 / 512, rel=0.10)
    assert fit.at(512.0).iloc[0]["efficiency_share"] == pytest.approx(fit.efficiency(512.0)[0])
    assert (np.diff(fit.efficiency(np.geomspace(8, 4096, 30))) <= 1e-12).all()


def test_few_points_never_claim_more_than_their_scatter_allows():
    """A band holds new runs as often as it says, for three points as for ten, where runs scatter as public ones do; more widens it."""
    rng = np.random.default_rng(5)
    for counts in ([8, 16, 32], [8, 16, 32, 64, 128], [8, 12, 16, 24, 32, 48, 64, 96, 128, 192]):
        n, inside = np.array(counts, dtype=float), 0
        for _ in range(60):
            exact = usl_throughput(n, 0.004, 1e-6, 10)
            fit = fit_scaling(
                pd.DataFrame({"accelerators": n, "throughput": exact * np.exp(rng.normal(0, 0.06, len(n))), "unit": "tokens/s"}), A
            )
            at = n.max() * 1.5
            new = usl_throughput(at, 0.004, 1e-6, 10) * np.exp(rng.normal(0, 0.06))
            row = fit.at(at, 0.95).iloc[0]
            inside += row["lower"] <= new <= row["upper"]
        assert inside / 60 >= 0.9, counts
    widths = []
    for scatter in (0.0, 0.1, 0.3):
        x = 10 * np.array([8.0, 16, 32]) ** 0.9 * np.exp(scatter * np.array([1, -1, 1]))
        row = fit_scaling(pd.DataFrame({"accelerators": [8, 16, 32], "throughput": x, "unit": "tokens/s"}), A).at(32.0).iloc[0]
        widths.append(row["upper"] / row["lower"])
    assert widths[0] < widths[1] < widths[2]
    # Three points on a line prove no law: the band is no narrower than that of runs that scatter as public ones do.
    assert widths[0] > np.exp(2 * 1.96 * 0.04)


def test_times_to_train_say_that_the_batch_differs():
    table = pd.read_csv(reference_file("data", "training_scaling", "mlperf_training_time_to_train.csv"))
    table = table.rename(
        columns={
            "accelerators_total": "accelerators",
            "mean_minutes_without_fastest_and_slowest": "throughput",
            "global_batch_size": "global_batch",
        }
    ).dropna(subset=["accelerators", "throughput", "global_batch"])
    table = table[table["accelerators"] > 0]
    table["curve"] = table[["round", "submitter", "accelerator", "benchmark"]].astype(str).agg("|".join, axis=1)
    counts = table.groupby("curve")["accelerators"].nunique()
    runs = table[table["curve"].isin(counts[counts >= 4].index)][["curve", "accelerators", "throughput", "global_batch"]].assign(
        unit="minutes"
    )
    fit = fit_scaling(runs, A)
    held = fit.quality[fit.quality["chosen"]]["held_out_error_share"].abs()
    assert len(held) >= 20
    assert any("batch differs" in note for note in fit.notes)
    varied = fit.limits["scaling"] == "mixed"
    assert varied.any()


def test_strong_and_weak_are_told_apart_by_the_batch():
    n = [8, 16, 32, 64]
    strong = pd.DataFrame({"curve": "s", "accelerators": n, "throughput": [8, 15.5, 29, 52], "global_batch": 512, "unit": "samples/s"})
    weak = strong.assign(curve="w", global_batch=[64 * count for count in n], throughput=[8, 15.9, 31.7, 63.3])
    fit = fit_scaling(pd.concat([weak, strong]), A)
    assert dict(zip(fit.limits["curve"], fit.limits["scaling"], strict=True)) == {"s": "strong", "w": "weak"}
    with pytest.raises(CapplanError, match="both strong and weak"):
        fit_scaling(pd.concat([strong.assign(scaling="strong"), weak.assign(curve="s", scaling="weak")]), A)


@pytest.mark.parametrize(
    ("frame", "words"),
    [
        ({"accelerators": [8], "throughput": [5]}, "at least 3"),
        ({"accelerators": [8, 16], "throughput": [5, 9]}, "at least 3"),
        ({"accelerators": [8, 8, 8], "throughput": [5, 5, 6]}, "all 3 runs are on 8"),
        ({"accelerators": [0, 8, 16], "throughput": [1, 5, 6]}, "at least 1"),
        ({"accelerators": [8, 16, 32], "throughput": [50, 26, 14]}, "is it a time"),
        ({"accelerators": [8, 16, 32], "throughput": [50, 26, 1e5], "unit": ["minutes", "minutes", "tokens/s"]}, "mixes units"),
        ({"accelerators": [8, 16, 32], "throughput": [5, -1, 6], "unit": "tokens/s"}, "above 0"),
        ({"count": [8], "throughput": [5]}, "lack the column accelerators"),
    ],
)
def test_what_cannot_be_fitted(frame, words):
    with pytest.raises(CapplanError, match=words):
        fit_scaling(pd.DataFrame(frame), A)
