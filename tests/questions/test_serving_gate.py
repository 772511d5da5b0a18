"""Every answer about a served model obeys the chip and the order of loads, number formats and replica sizes: a sweep over all there are."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest

from capplan.book.assumptions.performance import PerformanceAssumptions
from capplan.book.assumptions.serving import ServingAssumptions
from capplan.book.book import reference_tables
from capplan.book.empty import empty_table
from capplan.questions.serving.chip_limits import CORRECTED, floors
from capplan.questions.serving.measured import interpolate, usable_runs
from capplan.questions.serving.performance import replica_performance
from capplan.questions.serving.replica_memory import cache_bytes_per_token, model_of, replica_memory
from capplan.questions.serving.roofline import complete, roofline

FACTS = reference_tables()
MODELS, MACHINES, RUNS = FACTS["models"], FACTS["accelerators"], FACTS["serving_runs"]
A = PerformanceAssumptions()
FORMATS = ("bf16", "fp8", "fp4")
WIDTHS = (1, 2, 4, 8)
LOADS = (1.0, 3.0, 8.0, 24.0, 64.0, 200.0, 512.0, 1024.0, 3000.0)
BYTES = {"bf16": 2.0, "fp8": 1.0, "fp4": 0.5}
ENDS = ("", "_lower", "_upper")


def sweep(models, machines, lengths, engines=("vllm",)):
    """Every setup whose weights fit."""
    keys = ["model", "accelerator", "precision", "accelerators", "engine", "length", "concurrency"]
    table = pd.DataFrame(list(itertools.product(models, machines, FORMATS, WIDTHS, engines, lengths, LOADS)), columns=keys)
    table["input_tokens"], table["output_tokens"] = (table["length"].str[place].astype(float) for place in (0, 1))
    table = table.drop(columns="length")
    return table[roofline(table, MODELS, MACHINES)["fits"].to_numpy()].reset_index(drop=True)


def hold_the_law(answer):
    """Check an answer with closed forms of its own: peaks, bandwidth, and the three orders; of the value and of both ends of its band."""
    chip = MACHINES.set_index("accelerator").loc[answer["accelerator"]].reset_index()
    model = MODELS.set_index("model").loc[answer["model"]].reset_index()
    peak = chip["bf16_tflops"].where(answer["precision"] == "bf16", chip["fp8_tflops"].fillna(chip["bf16_tflops"]))
    peak = peak.where(answer["precision"] != "fp4", chip["fp4_tflops"].fillna(peak)) * 1e12 * answer["accelerators"]
    each = 2 * model["parameters_active"] * (answer["input_tokens"] + answer["output_tokens"] - 1) / answer["output_tokens"]
    read = model["parameters_active"] * answer["precision"].map(BYTES) / (answer["accelerators"] * chip["memory_bandwidth_gbps"] * 1e9)
    kin = ["model", "accelerator", "engine", "input_tokens", "output_tokens"]
    for end in ENDS:
        rate = answer[f"output_tokens_per_second{end}"]
        assert (rate * each <= peak * (1 + 1e-9)).all()
        assert (answer[f"token_seconds{end}"] >= read * (1 - 1e-9)).all()
        by_load = answer.sort_values([*kin, "precision", "accelerators", "concurrency"], kind="stable")
        group = by_load.groupby([*kin, "precision", "accelerators"], sort=False)
        assert (group[f"token_seconds{end}"].pct_change().fillna(0.0) >= -1e-9).all()
        assert (group[f"request_seconds{end}"].pct_change().fillna(0.0) >= -1e-9).all()
        formats = answer.pivot_table(
            index=[*kin, "accelerators", "concurrency"], columns="precision", values=f"output_tokens_per_second{end}"
        )
        for narrow, wide in (("fp8", "bf16"), ("fp4", "fp8"), ("fp4", "bf16")):
            assert not (formats[narrow] < formats[wide] * (1 - 1e-9)).any(), (end, narrow, wide)
        sizes = answer.pivot_table(
            index=[*kin, "precision", "concurrency"], columns="accelerators", values=f"output_tokens_per_second{end}"
        )
        for small, large in itertools.pairwise(WIDTHS):
            assert not (sizes[large] < sizes[small] * (1 - 1e-9)).any(), (end, small, large)
    for name in ("first_token_seconds", "token_seconds", "request_seconds"):
        assert (answer[f"{name}_lower"] <= answer[name]).all()
        assert (answer[name] <= answer[f"{name}_upper"]).all()
    parts = answer["first_token_seconds"] + answer["token_seconds"] * (answer["output_tokens"] - 1)
    np.testing.assert_allclose(parts, answer["request_seconds"], rtol=1e-9)
    assert (answer["first_token_seconds"] > 0).all()


@pytest.mark.parametrize("known", ["none", "reference"])
def test_no_answer_over_all_models_machines_formats_and_loads_breaks_the_gate(known):
    runs = RUNS if known == "reference" else empty_table("serving_runs")
    asked = sweep(MODELS["model"], MACHINES["accelerator"], [(294, 294)])
    answer = replica_performance(asked, runs, MODELS, MACHINES, A)
    assert len(answer) > 5000
    hold_the_law(answer)


@pytest.mark.parametrize("length", [(1024, 1024), (8192, 1024), (128, 2048), (20000, 500)])
def test_no_length_of_requests_breaks_the_gate(length):
    asked = sweep(
        ["Llama-3.1-8B", "Llama-2-70B", "DeepSeek-V3", "gpt-oss-120b"],
        ["A100-80GB", "H100", "B200", "GB300", "MI300X"],
        [length],
        ("trtllm",),
    )
    hold_the_law(replica_performance(asked, RUNS, MODELS, MACHINES, A))


def test_seventy_billion_on_one_b200_stays_below_its_peak():
    asked = sweep(["Llama-2-70B"], ["B200"], [(294, 294)], ("trtllm",))
    answer = replica_performance(asked[asked["accelerators"] == 1].reset_index(drop=True), RUNS, MODELS, MACHINES, A)
    best = answer.groupby("precision")["output_tokens_per_second"].max()
    assert best["fp4"] >= best["fp8"] >= best["bf16"]
    eight = answer[answer["precision"] == "fp8"]
    assert (2 * 68976648192 * eight["output_tokens_per_second"] * (294 + 293) / 294).max() <= 4.5e15


def test_a_measurement_beyond_the_chip_is_held_to_it_and_says_so():
    fast = pd.DataFrame(
        [
            {
                "run": name,
                "model": "Llama-3.1-8B",
                "accelerator": "H100",
                "accelerators": 1,
                "engine": "vllm",
                "precision": "fp8",
                "input_tokens": 1000.0,
                "output_tokens": 1000.0,
                "concurrency": load,
                "first_token_seconds": 0.01,
                "token_seconds": 1e-4,
            }
            for name, load in (("a", 64.0), ("b", 128.0))
        ]
    )
    answer = replica_performance(fast.drop(columns=["run", "first_token_seconds", "token_seconds"]), fast, MODELS, MACHINES, A)
    assert (answer["basis"] == "measured").all()
    assert answer["note"].str.contains(CORRECTED, regex=False).all()
    assert (2 * 8030261248 * answer["output_tokens_per_second_upper"] * 1999 / 1000 <= 1978.9e12 * (1 + 1e-9)).all()


def test_measurements_that_contradict_the_order_are_moved_and_say_so():
    one = {
        "model": "Llama-3.1-8B",
        "accelerator": "H100",
        "accelerators": 1,
        "engine": "vllm",
        "input_tokens": 1000.0,
        "output_tokens": 1000.0,
        "concurrency": 16.0,
    }
    runs = pd.DataFrame(
        [
            {**one, "precision": form, "run": form, "first_token_seconds": 0.05, "token_seconds": pace}
            for form, pace in (("bf16", 0.010), ("fp8", 0.012))
        ]
    )
    answer = replica_performance(runs.drop(columns=["run", "first_token_seconds", "token_seconds"]), runs, MODELS, MACHINES, A)
    assert answer["token_seconds"].tolist() == pytest.approx([0.010, 0.010])
    assert answer["note"].str.contains("no narrower number format").tolist() == [False, True]
    noisy = (
        runs[runs["precision"] == "bf16"]
        .loc[[0, 0, 0]]
        .assign(concurrency=[8.0, 16.0, 32.0], token_seconds=[0.010, 0.009, 0.02], run=["a", "b", "c"])
    )
    found = interpolate(complete(noisy.drop(columns=["run"])), usable_runs(noisy, False))
    assert found["token_seconds"].tolist() == pytest.approx([0.010, 0.010, 0.02])


@pytest.mark.parametrize("asked", ["as_weights", "bf16", "fp8"])
@pytest.mark.parametrize("precision", ["bf16", "fp8", "fp4"])
def test_memory_and_roofline_of_one_answer_use_the_same_cache(asked, precision):
    """What the roofline says fits into the cache is what the memory of the same replica says, in every format."""
    model, a = model_of(MODELS, "Llama-3.1-70B"), ServingAssumptions(cache_precision=asked)
    setup = {
        "model": "Llama-3.1-70B",
        "accelerator": "B200",
        "accelerators": 4,
        "engine": "vllm",
        "precision": precision,
        "cache_precision": asked,
    }
    roof = roofline(pd.DataFrame([{**setup, "input_tokens": 1000.0, "output_tokens": 1000.0, "concurrency": 1e6}]), MODELS, MACHINES).iloc[
        0
    ]
    room = replica_memory(model, 180, 4, 1500.0, precision=precision, cache_precision=a.cache_precision, reserve_share=0.1)
    assert roof["held"] == pytest.approx(room.tokens / 1500.0, rel=1e-3)


@pytest.mark.parametrize("precision", ["bf16", "fp8"])
def test_nobody_writes_a_token_faster_than_its_weights_are_read_where_prompts_are_read_elsewhere(precision):
    """How many accelerators write is not said, so that all 12 may read the weights of one token together, or compute it."""
    setup = {
        "model": "Llama-3.1-70B",
        "accelerator": "H100",
        "accelerators": 12,
        "engine": "vllm",
        "precision": precision,
        "prefill_workers": 2.0,
    }
    done = complete(pd.DataFrame([{**setup, "input_tokens": 1000.0, "output_tokens": 101.0, "concurrency": 4.0}]))
    least = floors(done, roofline(done, MODELS, MACHINES), MODELS, MACHINES).iloc[0]
    model, machine = model_of(MODELS, "Llama-3.1-70B"), MACHINES.set_index("accelerator").loc["H100"]
    size, peak = {"bf16": (2, machine["bf16_tflops"]), "fp8": (1, machine["fp8_tflops"])}[precision]
    read = model["parameters_active"] * size / (12 * machine["memory_bandwidth_gbps"] * 1e9)
    first = 2 * model["parameters_active"] * 1000 / (12 * peak * 1e12)
    assert least["token_seconds"] == pytest.approx(read)
    assert least["first_token_seconds"] == pytest.approx(first)
    assert least["request_seconds"] == pytest.approx(max(4 * first * 1.1, first + 100 * read))


@pytest.mark.parametrize(("name", "long_tokens"), [("gpt-oss-120b", 131072), ("gpt-oss-20b", 131072)])
def test_layers_with_a_window_keep_no_more_than_it(name, long_tokens):
    """Half of gpt-oss's layers look at 128 tokens: the model card and configuration of the model."""
    model = model_of(MODELS, name)
    full = model["layers"] / 2 * 2 * model["kv_heads"] * model["head_size"] * 2
    assert cache_bytes_per_token(model, tokens=100) == 2 * full
    assert cache_bytes_per_token(model, tokens=long_tokens) * long_tokens == pytest.approx(full * (long_tokens + 128))
