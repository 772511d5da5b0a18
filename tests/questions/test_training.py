"""Training: published runs, closed forms of memory and pipelines, laws of the frontier, agreement with the demand, and bad input."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from capplan.answers.training import training_of
from capplan.book.assumptions.scaling import ScalingAssumptions
from capplan.book.assumptions.training import TrainingAssumptions
from capplan.book.book import load_book
from capplan.book.scenario import Change, DemandAssumptions
from capplan.errors import BookError, CapplanError
from capplan.outputs.lab.controls import control_for
from capplan.outputs.views.all_questions import show_training
from capplan.questions.demand import forecast_demand
from capplan.questions.demand.events import read_runs
from capplan.questions.scaling import fit_scaling
from capplan.questions.training import plan_run
from capplan.questions.training.architecture import Degrees, Shape, activation_bytes, shape_of, state_bytes
from capplan.questions.training.flops import operations_per_token, run_accelerator_hours, run_days, run_exaflop, run_usd, utilisation_share
from capplan.questions.training.job import run_work
from capplan.questions.training.layout import Machine, bubble_share, chosen_layouts, layouts
from capplan.questions.training.offered import TrainingTables
from capplan.questions.training.storage import checkpoint_gib, run_storage, transfer_days
from capplan.questions.training.sweeps import halving_rungs, hyperband_brackets, plan_sweep
from capplan.questions.training.ways import compare_ways
from tests.cases.closed_forms import iteration_operations, run_energy_mwh, transformer_parameters
from tests.conftest import example_book, reference_file, some

#: With a stated utilisation all is worked out by hand; the calibrated speed has tests of its own.
A = TrainingAssumptions(mfu_share=0.4, recompute="selective")
H100_TFLOPS, A100_TFLOPS = 989.4, 312.0
H100 = Machine(80, 8, 900.0, 3200.0, 0.4 * H100_TFLOPS)
ACCELERATORS = pd.DataFrame(
    {
        "accelerator": ["H100", "L4"],
        "memory_gib": [80.0, 24.0],
        "bf16_tflops": [989.4, 121.0],
        "fp8_tflops": [1978.9, np.nan],
        "link_gbps": [900.0, np.nan],
        "power_w": [700.0, 72.0],
    }
)
SKUS = pd.DataFrame({"sku": ["h", "l"], "provider": ["x", "y"], "accelerator": ["H100", "L4"], "accelerator_count": [8, 8]})
PRICES = pd.DataFrame(
    {
        "offer_id": ["h-od", "h-spot", "h-1y", "l-od"],
        "sku": ["h", "h", "h", "l"],
        "term": ["on_demand", "spot", "reserved_1y", "on_demand"],
        "term_months": [np.nan, np.nan, 12.0, np.nan],
        "effective_usd_per_accelerator_hour": [3.0, 2.0, 1.5, 0.5],
        "useful_share": [1.0, 0.8, 1.0, 1.0],
    }
)
RUN = {"run_id": "r", "parameters": 8e9, "tokens": 2e12, "start": pd.Timestamp("2027-01-01"), "deadline": pd.Timestamp("2027-03-01")}


def planned(run=RUN, scaling=None, goodput=None, prices=PRICES, a=A, **more):
    return plan_run(run, TrainingTables(SKUS, prices, accelerators=ACCELERATORS, scaling=scaling, goodput=goodput), a, **more)


@pytest.fixture(scope="module")
def truth():
    return pd.read_csv(reference_file("truth", "01_training.csv")).set_index("id", drop=False)


# Published runs


def test_mosaicml_mfu(truth):
    shapes = {"1b": (24, 2048), "3b": (32, 2560), "7b": (32, 4096), "13b": (40, 5120), "30b": (48, 7168), "70b": (80, 8192)}
    rows = truth[truth["id"].str.startswith("mpt_")]
    assert len(rows) == 17
    published = rows["quantity"].str.extract(r"MFU ([\d.]+)%")[0].astype(float)
    for row, mfu in zip(rows.itertuples(), published, strict=True):
        layers, width = shapes[row.id.split("_")[1]]
        each = operations_per_token(row.params, layers=layers, width=width, sequence_length=2048)
        assert 100 * utilisation_share(row.value, each, row.n_gpus, H100_TFLOPS) == pytest.approx(mfu, abs=0.02), row.id


def test_megatron_parameters_within_one_percent_and_shares_of_the_peak(truth):
    rows = truth[truth["id"].str.match(r"megatron_[\d.]+B")]
    assert len(rows) == 10
    for row in rows.itertuples():
        width, layers = (int(value) for value in pd.Series(row.notes).str.extract(r"hidden (\d+) layers (\d+)").iloc[0])
        # 1 %, or the half tenth of a billion that the table rounds away.
        assert transformer_parameters(layers, width, 51200, 2048) == pytest.approx(row.params, abs=max(0.01 * row.params, 0.05e9)), row.id
        batch, seconds, total = (
            float(v) for v in pd.Series(row.notes).str.extract(r"batch (\d+) .*iter=([\d.e+]+); implied iter time ([\d.]+)").iloc[0]
        )
        work = iteration_operations(batch, 2048, layers, width, 51200)
        assert work == pytest.approx(seconds, rel=1e-3), row.id
        assert work / (row.n_gpus * row.value * 1e12) == pytest.approx(total, rel=2e-3), row.id


def test_megatron_days_within_four_percent(truth):
    rates = {"megatron_175b_34d": 140, "megatron_1t_84d": 163}
    rows = truth[(truth["unit"] == "d") & truth["id"].str.startswith("megatron")]
    assert len(rows) == 8
    for row in rows.itertuples():
        rate = rates.get(row.id) or float(pd.Series(row.notes).str.extract(r"(\d+) TFLOP")[0].iloc[0])
        work = run_exaflop(row.params, row.tokens, recompute="full", hardware=True)
        assert run_days(work, row.n_gpus, rate) == pytest.approx(row.value, rel=0.04), row.id


def test_opt_175b_takes_33_days_by_hardware_and_25_by_model_operations():
    hardware = run_exaflop(175e9, 300e9, recompute="full", hardware=True)
    assert run_days(hardware, 992, 147) == pytest.approx(33.3, abs=0.05)
    assert run_days(run_exaflop(175e9, 300e9), 992, 147) == pytest.approx(25.0, abs=0.05)


def test_plan_run_gives_opts_33_and_25_days():
    skus = pd.DataFrame({"sku": ["a"], "provider": ["x"], "accelerator": ["A100"], "accelerator_count": [8]})
    a100 = pd.DataFrame({"accelerator": ["A100"], "memory_gib": [80.0], "bf16_tflops": [312.0], "link_gbps": [600.0], "power_w": [400.0]})
    prices = PRICES.head(1).assign(sku="a")
    run = {"parameters": 175e9, "tokens": 300e9}
    a = TrainingAssumptions(mfu_share=147 / 312, recompute="full", sequence_length=2048)
    for counted, days in (("hardware", 33.3), ("model", 25.0)):
        table = plan_run(run, TrainingTables(skus, prices, accelerators=a100), a.model_copy(update={"operations_counted": counted}), 992)
        row = table.iloc[0]
        assert row["days"] * row["kept_share"] == pytest.approx(days, abs=0.05)


def test_llama_3_1_hours_and_mfu(truth):
    hours = truth.loc["llama3_1_405B_gpu_hours"]
    assert hours["value"] / hours["n_gpus"] / 24 == pytest.approx(78.43, abs=0.01)
    # 30.84M hours are 6ND at 341 TFLOP/s: 400 while it trains, less what interruptions, restarts and longer sequences took.
    rate = run_exaflop(hours["params"], hours["tokens"]) * 1e18 / (hours["value"] * 3600 * 1e12)
    assert run_accelerator_hours(run_exaflop(hours["params"], hours["tokens"]), rate) == pytest.approx(30.84e6)
    assert rate == pytest.approx(341.4, abs=0.1)
    assert run_exaflop(405e9, 15.6e12) * 1e18 == pytest.approx(3.8e25, rel=0.003)
    for name, mfu in (("llama3_405b_tab4_0", 0.43), ("llama3_405b_tab4_1", 0.41), ("llama3_405b_tab4_2", 0.38)):
        assert truth.loc[name, "value"] / H100_TFLOPS == pytest.approx(mfu, abs=0.0065), name
    for name, implied in (("llama3_1_8B_gpu_hours", 138), ("llama3_1_70B_gpu_hours", 252)):
        row = truth.loc[name]
        assert run_exaflop(row["params"], row["tokens"]) * 1e18 / (row["value"] * 3600 * 1e12) == pytest.approx(implied, abs=0.6), name


def test_deepseek_v3_costs_5576_thousand_dollars(truth):
    parts = truth.loc[["deepseek_v3_pretrain", "deepseek_v3_context_ext", "deepseek_v3_posttrain"], "value"]
    assert parts.sum() == truth.loc["deepseek_v3_total", "value"] == 2_788_000
    assert run_usd(parts, 2.0) == 5_576_000
    assert [run_usd(hours, 2.0) for hours in parts] == [5_328_000, 238_000, 10_000]
    row = truth.loc["deepseek_v3_pretrain"]
    rate = run_exaflop(row["params"], row["tokens"]) * 1e18 / (row["value"] * 3600 * 1e12)
    assert rate == pytest.approx(343, abs=0.5)


def test_llama_1_hours_rates_and_energy(truth):
    for row in some(truth[truth["id"].str.match(r"llama1_\d+B_gpu_hours")].itertuples()):
        implied, tonnes = (float(pd.Series(row.notes).str.extract(text)[0].iloc[0]) for text in (r"6ND = ([\d.]+)", r"power (\d+) MWh"))
        assert run_accelerator_hours(run_exaflop(row.params, row.tokens), implied) == pytest.approx(row.value, rel=1e-3)
        assert run_energy_mwh(row.value, 400, 1.1) == pytest.approx(tonnes, abs=0.9), row.id


def test_gpt3_needs_314_zettaflop(truth):
    row = truth.loc["gpt3_flops"]
    assert run_exaflop(row["params"], row["tokens"]) * 1e18 == pytest.approx(row["value"], rel=2e-3)


# Operations and memory


def test_recomputation_adds_a_third_and_attention_twelve_l_d_s():
    shape = {"layers": 96, "width": 12288, "sequence_length": 2048}
    base = operations_per_token(175e9)
    assert operations_per_token(175e9, recompute="full", hardware=True) == pytest.approx(base * 4 / 3)
    assert operations_per_token(175e9, recompute="full") == base
    assert operations_per_token(175e9, **shape) - base == 12 * 96 * 12288 * 2048
    assert operations_per_token(175e9, **shape, recompute="selective", hardware=True) - base == 16 * 96 * 12288 * 2048
    # Megatron's formula counts the same (without embeddings: the output layer stands apart there).
    blocks = 12 * 96 * 12288**2
    assert operations_per_token(blocks, **shape, recompute="full", hardware=True) * 2048 == pytest.approx(
        iteration_operations(1, 2048, 96, 12288, 0), rel=1e-12
    )


def test_zero_stages_as_in_its_first_figure():
    assert [round(sum(state_bytes(7.5e9, "bf16", 64, stage)) / 1e9, 1) for stage in range(4)] == [120.0, 31.4, 16.6, 1.9]


@pytest.mark.parametrize(("layers", "width", "heads", "saved"), [(96, 12288, 96, 0.70), (105, 20480, 128, 0.65)])
def test_selective_recomputation_saves_what_its_paper_says(layers, width, heads, saved):
    shape = Shape(1e11, 1e11, layers, width, heads, 51200, width)
    need = {again: activation_bytes(shape, 2048, 1, again, Degrees(pipeline=8)) for again in ("selective", "none")}
    share = 1 - need["selective"] / need["none"]
    assert share == pytest.approx(saved, abs=0.005)


def test_recomputation_takes_less_memory_for_more_time():
    need = {way: activation_bytes(shape_of(70e9), 4096, 1, way) for way in ("none", "selective", "full")}
    assert need["none"] > need["selective"] > need["full"]
    days = [
        planned(a=A.model_copy(update={"recompute": way}), counts=512).query("sku == 'h'")["days"].min() for way in ("selective", "full")
    ]
    assert days[1] > days[0]


def test_bubble_is_the_idle_share_of_a_pipeline_walked_through_step_by_step():
    for stages, batches in ((2, 1), (4, 12), (8, 8), (3, 7)):
        slots = stages * (batches + stages - 1)
        busy = sum(1 for stage in range(stages) for step in range(batches + stages - 1) if 0 <= step - stage < batches)
        assert bubble_share(stages, batches) == pytest.approx(1 - busy / slots)


def test_rungs_rise_with_the_model():
    def rung(parameters, count, a=A):
        return chosen_layouts(shape_of(parameters), "bf16", H100, [count], a)["rung"].tolist()

    assert rung(1e9, 1) == ["one_device"]
    assert rung(1e9, 8) == ["data_parallel"]
    assert rung(3.5e9, 8)[0].startswith("zero")
    assert rung(70e9, 512) == ["tensor"]
    assert rung(1e12, 4096, A.model_copy(update={"recompute": "full"})) == ["tensor_and_pipeline"]
    assert rung(1e12, 8) == []
    # Ninety stages fit as well, and stand idle for nine tenths of a step.
    assert rung(1e12, 4096, A.model_copy(update={"recompute": "full", "simple_rung_share": 0.0})) == ["pipeline"]


def test_layouts_that_ran_fit_into_memory(truth):
    a100 = Machine(80, 8, 600.0, 1600.0, 140.0)
    for row in some(truth[truth["id"].str.match(r"megatron_[\d.]+B")].itertuples()):
        text = r"heads (\d+) hidden (\d+) layers (\d+) TP(\d+) PP(\d+) batch (\d+)"
        heads, width, layers, tensor, pipeline, batch = (int(value) for value in pd.Series(row.notes).str.extract(text).iloc[0])
        shape = Shape(row.params, row.params, layers, width, heads, 51200, width)
        a = A.model_copy(update={"recompute": "full", "sequence_length": 2048, "global_batch_tokens": 2048.0 * batch})
        table = layouts(shape, "bf16", a100, [row.n_gpus], a)
        ran = table[(table["tensor"] == tensor) & (table["pipeline"] == pipeline)]
        assert ran["fits"].any(), row.id
        assert ran["bubble_share"].max() < 0.12, row.id
        # 16 bytes a parameter are more than 80 GB from 5B on, and 4 bytes from 20B on.
        whole = table[table["rung"].isin(["data_parallel"] * (row.params > 5e9) + ["zero_1"] * (row.params > 2e10))]
        assert not whole["fits"].any(), row.id


def test_an_8_bit_run_takes_accelerators_that_have_the_rate():
    table = planned({**RUN, "precision": "fp8"}, counts=64)
    assert table["accelerator"].unique().tolist() == ["H100"]
    bf16 = planned(counts=64).query("accelerator == 'H100'")
    assert table["days"].iloc[0] == pytest.approx(bf16["days"].iloc[0] * 989.4 / 1978.9)


def test_a_lower_rung_that_fits_is_never_passed_over():
    table = layouts(shape_of(13e9), "bf16", H100, [8, 64, 512], A)
    plain = pd.DataFrame(chosen_layouts(shape_of(13e9), "bf16", H100, [8, 64, 512], A.model_copy(update={"simple_rung_share": 0.0})))
    assert len(plain) == 3
    for count, chosen in plain.set_index("accelerators").iterrows():
        rows = table[table["accelerators"] == count].reset_index(drop=True)
        place = rows.index[
            (rows["rung"] == chosen["rung"]) & (rows["tensor"] == chosen["tensor"]) & (rows["pipeline"] == chosen["pipeline"])
        ][0]
        assert not rows.loc[: place - 1, "fits"].any() if place else True
    assert (table["tensor"] <= H100.accelerators).all()
    parts = table[["weights_gib", "gradients_gib", "optimiser_gib", "activations_gib"]].sum(axis=1)
    assert parts.to_numpy() == pytest.approx(table["memory_gib"].to_numpy())


def test_traffic_of_data_parallel_copies_by_hand():
    # 8 machines of 8: each sums up its own gradients and passes 2 x 2 bytes a parameter, less its own eighth, through 400 GB/s.
    table = layouts(shape_of(8e9), "bf16", H100, [64], A).set_index("rung")
    assert table.loc["data_parallel", "network_seconds"] == pytest.approx(4 * 8e9 * 7 / 8 / 400e9)
    # 4e6 tokens of 6 x 8e9 operations on 64 accelerators.
    assert table.loc["data_parallel", "compute_seconds"] == pytest.approx(4e6 * 48e9 / (64 * 0.4 * 989.4e12))
    batches = 4e6 / 8192 / 64
    assert table.loc["zero_2", "network_seconds"] == pytest.approx((2 * batches + 2) * 8e9 * 7 / 8 / 400e9)
    assert table.loc["zero_3", "network_seconds"] == pytest.approx(6 * batches * 8e9 * 7 / 8 / 400e9)


def test_without_fast_links_there_is_no_tensor_rung_and_a_slow_network_slows_sharding():
    slow = Machine(80, 8, 0.0, 25.0, H100.tflops)
    table = layouts(shape_of(8e9), "bf16", slow, [64], A)
    assert set(table["tensor"]) == {1}
    fast = layouts(shape_of(8e9), "bf16", H100, [64], A).set_index("rung")["kept_share"]
    assert table.set_index("rung").loc["zero_3", "kept_share"] < 0.5 < fast["zero_3"]
    # Every gather of ZeRO-3 moves all weights; with one micro-batch it is half as much again as summing up gradients.
    one = layouts(shape_of(8e9), "bf16", H100, [488], A.model_copy(update={"global_batch_tokens": 488 * 8192.0})).set_index("rung")
    ratio = one.loc["zero_3", "network_seconds"] / one.loc["zero_1", "network_seconds"]
    assert ratio == pytest.approx(1.5)


# The frontier


def test_the_frontier_by_hand():
    table = planned(counts=[64])
    row = table[table["sku"] == "h"].iloc[0]
    hours = 6 * 8e9 * 2e12 / (64 * 0.4 * 989.4e12 * 3600)
    # Spot costs 2 / 0.8 = 2.5 an effective hour by its price's own useful share: 1.6 a paid hour, 0.8 of which is progress.
    assert row["offer_id"] == "h-spot"
    assert row["days"] == pytest.approx(hours / 0.8 / 24)
    assert row["usd"] == pytest.approx(64 * hours / 0.8 * 1.6)
    assert row["usd_per_accelerator_hour"] == pytest.approx(1.6)
    assert row["meets_deadline"]
    assert row["energy_mwh"] == pytest.approx(64 * hours / 0.8 * 700 / 1e6 * A.pue)


def test_a_contract_is_paid_to_its_end_unless_other_work_uses_it():
    only = PRICES[PRICES["offer_id"] == "h-1y"]
    alone = planned(prices=only, counts=64).iloc[0]
    assert alone["usd"] == pytest.approx(64 * 1.5 * 8760)
    shared = planned(prices=only, counts=64, a=A.model_copy(update={"contract_reuse_share": 1.0})).iloc[0]
    assert shared["usd"] == pytest.approx(64 * 1.5 * shared["days"] * 24)


def test_goodput_stretches_days_and_is_read_between_counts():
    goodput = pd.DataFrame(
        {
            "offer_id": ["h-od"] * 2,
            "accelerators": [8, 512],
            "goodput_share": [0.9, 0.6],
            "idle_share": 0.0,
            "usd_per_paid_accelerator_hour": 3.0,
        }
    )
    only = PRICES[PRICES["offer_id"] == "h-od"]
    base = planned(prices=only, counts=64).iloc[0]
    row = planned(prices=only, goodput=goodput, counts=64).iloc[0]
    assert row["goodput_share"] == pytest.approx(0.75)
    assert row["days"] == pytest.approx(base["days"] / 0.75)
    idle = planned(prices=only, goodput=goodput.assign(idle_share=0.1, goodput_share=0.675), counts=64).iloc[0]
    assert idle["days"] == pytest.approx(base["days"] / 0.75)
    assert idle["usd"] == pytest.approx(row["usd"] / 0.9)


def test_machines_may_carry_the_facts_of_their_accelerators():
    facts = ACCELERATORS.rename(columns={"memory_gib": "accelerator_memory_gib"})
    merged = SKUS.assign(memory_gib=2048.0).merge(facts, on="accelerator")
    alone = plan_run(RUN, TrainingTables(merged, PRICES), A, 64)
    pd.testing.assert_frame_equal(alone, planned(counts=64))


def test_one_share_of_goodput_holds_for_all_offers():
    base, lost = planned(counts=64, prices=PRICES.head(1)), planned(counts=64, prices=PRICES.head(1), goodput=0.8)
    assert lost["days"].to_numpy() == pytest.approx(base["days"].to_numpy() / 0.8)
    with pytest.raises(CapplanError, match=r"write 90 % as 0\.9"):
        planned(goodput=90.0)


def test_scaling_divides_the_rate():
    runs = pd.DataFrame({"accelerators": [8, 16, 32, 64], "throughput": [8 / (1 + 0.01 * (n - 8)) * n / 8 for n in (8, 16, 32, 64)]})
    fit = fit_scaling(runs, ScalingAssumptions())
    linear, scaled = planned(counts=64), planned(counts=64, scaling=fit)
    assert scaled["days"].to_numpy() == pytest.approx(linear["days"].to_numpy() / fit.efficiency(64.0)[0], rel=1e-9)
    with pytest.raises(CapplanError, match="no such curve"):
        planned(scaling=fit, a=A.model_copy(update={"run_curve": "other"}))


def test_more_work_never_takes_less_and_the_efficient_rows_are_those_nobody_beats():
    table, more = planned(), planned({**RUN, "tokens": 3e12})
    assert (more["days"].to_numpy() > table["days"].to_numpy()).all()
    assert (more["usd"].to_numpy() > table["usd"].to_numpy()).all()
    days, usd = table["days"].to_numpy(), table["usd"].to_numpy()
    for place in np.flatnonzero(table["efficient"]):
        assert not ((days < days[place]) & (usd < usd[place] * (1 - 1e-9))).any()
    assert table["efficient"].any()
    assert (table["accelerators"] % 8 == 0).all()


def test_the_demand_forecast_and_the_plan_count_the_same_work():
    runs = pd.DataFrame([{**RUN, "workload": "pretraining", "probability": 1.0}])
    horizon = (pd.Timestamp("2027-01-01"), pd.Timestamp("2028-01-01"))
    demand = read_runs(runs, {"pretraining": "exaflop"}, horizon, [])[0].quantity
    assert run_work(RUN, shape_of(8e9), A) == pytest.approx(demand, rel=1e-12)
    only = PRICES[PRICES["offer_id"] == "h-od"]
    row = planned(prices=only, counts=64).iloc[0]
    # The same accelerator-hours as demand gives at a speed of peak x MFU an hour.
    assert row["accelerator_hours"] == pytest.approx(demand / (989.4e12 * 0.4 * 3600 / 1e18))
    stated = planned({**{k: v for k, v in RUN.items() if k != "tokens"}, "quantity": demand}, prices=only, counts=64).iloc[0]
    assert stated["days"] == pytest.approx(row["days"])


def test_the_forecast_carries_the_work_that_the_plan_of_a_run_counts():
    runs = pd.DataFrame([{**RUN, "workload": "pretraining", "probability": 1.0}])
    workloads = pd.DataFrame({"workload": ["pretraining"], "stage": ["pretraining"], "unit": ["exaflop"]})
    usage = pd.DataFrame(
        {"time": pd.date_range("2026-10-01", "2026-11-30 23:00", freq="h"), "workload": "pretraining", "region": "any", "quantity": 0.0}
    )
    a = DemandAssumptions(paths=10, horizon_quarters=2)
    paths = forecast_demand(usage, None, runs, a, workloads).paths
    assert paths.groupby("path")["quantity"].sum().to_numpy() == pytest.approx(run_work(RUN, shape_of(8e9), A), rel=1e-6)


# Sweeps, storage, ways


def test_successive_halving_243_epochs_against_2187():
    rungs = halving_rungs(81, 3, 1, 27)
    assert rungs["trials"].tolist() == [81, 27, 9, 3]
    assert rungs["work_epochs"].sum() == 243
    table = plan_sweep(2.0, A).set_index("method")
    assert table.loc["successive_halving", "epochs"] == 243
    assert table.loc["random", "epochs"] == table.loc["successive_halving", "epochs_without_stopping"] == 2187
    assert table.loc["successive_halving", "saved_share"] == pytest.approx(1 - 243 / 2187)


def test_hyperband_brackets():
    table = hyperband_brackets(81, 3)
    first = table.drop_duplicates("bracket")
    assert first["trials"].tolist() == [81, 34, 15, 8, 5]
    assert first["epochs"].tolist() == pytest.approx([1, 3, 9, 27, 81])
    assert table.groupby("bracket")["epochs"].max().tolist() == pytest.approx([81] * 5)


def test_waves_on_a_limited_pool():
    table = plan_sweep(2.0, A).set_index("method")
    # 81 trials on 8 slots are 11 waves; halving: 11 x 1 + 4 x 2 + 2 x 6 + 1 x 18 hours.
    assert table.loc["random", "waves"] == 11
    assert table.loc["random", "hours"] == 11 * 27
    assert table.loc["successive_halving", "hours"] == 11 + 8 + 12 + 18
    assert table.loc["random", "usd"] == 2187 * 8 * 2.0
    stopped = table.loc["random_with_early_stop"]
    assert stopped["epochs"] == pytest.approx(81 * 27 * 0.3 + 41 * 27 * 0.7)
    wide = plan_sweep(2.0, A.model_copy(update={"sweep_pool_accelerators": 8 * 81})).set_index("method")
    assert wide.loc["random", "hours"] == 27
    assert (wide["accelerator_hours"] == table["accelerator_hours"]).all()


def test_storage_by_hand():
    assert checkpoint_gib(1e9) * 2**30 == pytest.approx(14e9)
    assert transfer_days(20e9 / 2**30, 10) * 86400 == pytest.approx(16)
    table = run_storage(checkpoint_gib(shape_of(8e9).parameters), 2e12, 1e6, 8, 29.5, 10.0, A).set_index("quantity")["value"]
    assert table["Write rate while a checkpoint is written"] == pytest.approx(8e9 * 14 / 30 / 1e9)
    assert table["Write rate on average"] == pytest.approx(8e9 * 14 / 1800 / 1e9)
    assert table["Checkpoints written in the run"] == pytest.approx(480)
    assert table["Read rate of training data"] == pytest.approx(4e6 / 1e9)
    assert table["Bringing the data in over 10 Gbit/s"] == pytest.approx(8e12 * 8 / 10e9 / 86400)


def test_ways_to_a_model():
    shape = shape_of(8e9)
    table = compare_ways(shape, "bf16", 96_000.0, 400.0, 2.0, 72.0, A).set_index("way")
    assert table.loc["train_from_scratch", "accelerator_hours"] == pytest.approx(96_000e18 / (400e12 * 3600))
    assert table.loc["adapters", "accelerator_hours"] == pytest.approx(table.loc["fine_tune", "accelerator_hours"] * 2 / 3)
    assert table.loc["adapters", "accelerators_needed"] < table.loc["fine_tune", "accelerators_needed"]
    assert table.loc["call_an_api", "total_usd"] == 2.0 * 2000 * 12
    for way in ("train_from_scratch", "fine_tune", "adapters"):
        # At the break-even volume the way costs what calling costs.
        volume = table.loc[way, "break_even_million_tokens_per_month"]
        at = compare_ways(shape, "bf16", 96_000.0, 400.0, 2.0, 72.0, A.model_copy(update={"monthly_million_tokens": volume})).set_index(
            "way"
        )
        assert at.loc[way, "total_usd"] == pytest.approx(at.loc["call_an_api", "total_usd"])
    assert table["cheapest"].sum() == 1


# Bad input


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"parameters": 70}, "Was it typed in billions\\? Then write 7e\\+10"),
        ({"tokens": 15}, "Was it typed in trillions\\? Then write 1.5e\\+13"),
        ({"parameters": -1e9}, "must be above 0"),
        ({"tokens": 0}, "must be above 0"),
        ({"precision": "bf61"}, "did you mean bf16"),
        ({"precision": "fp32"}, "peak rates are known for bf16, fp16, fp8"),
        ({"model": "Lama"}, "names the model 'Lama'"),
        ({"deadline": pd.Timestamp("2026-12-01")}, "before its start"),
        ({"parameters": None}, "states no parameters"),
        ({"tokens": None}, "neither tokens nor its quantity"),
    ],
)
def test_a_run_that_cannot_be(change, message):
    with pytest.raises(CapplanError, match=message):
        planned({**RUN, **change})


@pytest.mark.parametrize("counts", [0, -8, 2.5, []])
def test_counts_that_cannot_be(counts):
    with pytest.raises(CapplanError, match="whole number of accelerators"):
        planned(counts=counts)


def test_a_model_that_fits_nowhere_says_what_is_missing():
    with pytest.raises(CapplanError, match=r"fits no machine that is offered.*H100.*72.0 GiB free.*let recompute be fastest"):
        planned({**RUN, "parameters": 5e13})


def test_two_runs_at_once_and_missing_peaks_are_refused():
    with pytest.raises(CapplanError, match="one run at a time"):
        planned(pd.DataFrame([RUN, RUN]))
    with pytest.raises(CapplanError, match="accelerators table"):
        plan_run(RUN, TrainingTables(SKUS, PRICES), A)
    with pytest.raises(CapplanError, match="does not have"):
        plan_run(RUN, TrainingTables(SKUS, PRICES, accelerators=ACCELERATORS.head(1)), A)


def test_a_book_refuses_billions_typed_as_units(make_book):
    folder = make_book(
        workloads="workload,stage,unit\npretraining,pretraining,exaflop\n",
        training_runs="run_id,workload,parameters,tokens,start,deadline\nr,pretraining,70,15,2027-01-01,2027-06-01\n",
    )
    with pytest.raises(BookError, match=r"row 2, column parameters: found '70.0'.*Then write 7e\+10") as error:
        load_book(folder)
    assert "Then write 1.5e+13" in str(error.value)


def test_a_pool_smaller_than_a_trial_is_refused():
    with pytest.raises(CapplanError, match="enlarge the pool"):
        plan_sweep(2.0, A.model_copy(update={"sweep_pool_accelerators": 4}))
    with pytest.raises(CapplanError, match="successive halving"):
        halving_rungs(9, 1, 1, 27)


# The whole question, on the example book


@pytest.fixture(scope="module")
def example():
    return example_book()


def test_the_view_answers_the_roadmap_and_its_sliders_read_as_they_stand(example):
    view = show_training(example, example.scenario)
    assert view.headline.startswith("base-8b: the cheapest way in time is")
    assert view.value == view.table["cost_usd"].min()
    for name in view.fields:
        control = control_for(name, getattr(example.scenario, name))
        assert control.read() == getattr(example.scenario, name)
    assert any("spot is left out" in note for note in view.notes)
    assert not (view.table["term"] == "spot").any()
    assert set(view.charts) == {"frontier", "days", "machines", "memory", "network", "sweeps", "ways"}


def test_a_missed_deadline_says_by_how_much_and_every_remedy_meets_it(example):
    tight = example.scenario_with(training_run="continued-70b", run_maximum_accelerators=16)
    study = training_of(example, tight)
    chosen, available = study.choice.iloc[0], float(study.run["days_available"].iloc[0])
    assert not study.frontier["meets_deadline"].any()
    assert f"missed by {chosen['days'] - available:.0f} days" in study.headline
    remedies = study.remedies.set_index("change")
    more = training_of(
        example, tight.replaced(run_maximum_accelerators=4096, planned_accelerators=int(remedies.loc["accelerators", "needed"]))
    )
    assert more.choice["meets_deadline"].iloc[0]
    better = training_of(example, tight.replaced(mfu_share=float(remedies.loc["utilisation", "needed"]) * 1.001))
    assert better.choice["meets_deadline"].iloc[0]
    later = pd.Timestamp("2027-12-20") + pd.Timedelta(days=float(remedies.loc["deadline", "needed"] - remedies.loc["deadline", "now"]))
    for column, value in (("tokens", float(remedies.loc["tokens", "needed"]) * 0.999), ("deadline", str(later.date()))):
        changed = example.with_changes((Change(table="training_runs", key="continued-70b", column=column, set=value),))
        assert training_of(changed, tight).choice["meets_deadline"].iloc[0], column


def test_the_speeds_of_the_plan_and_the_plan_of_a_run_agree_before_losses(example):
    speeds = example.speeds.query("workload == 'pretraining'").set_index("accelerator")["work_per_accelerator_hour"]
    study = training_of(example, example.scenario)
    assert study.choice["basis"].iloc[0] == "calibrated"
    # Of the roadmap's runs, each as likely as it says: exaflop over accelerator-hours, on 256 accelerators of the kind.
    for accelerator, stated in speeds.items():
        work = hours = 0.0
        skus = example.skus[example.skus["accelerator"] == accelerator].head(1)
        prices = PRICES.head(1).assign(sku=skus["sku"].iloc[0])
        for run in example.training_runs[example.training_runs["parameters"].notna()].to_dict("records"):
            found = plan_run(
                run, TrainingTables(skus, prices, accelerators=example.accelerators, models=example.models), TrainingAssumptions(), 256
            ).iloc[0]
            exaflop = 6 * run["parameters"] * run["tokens"] / 1e18
            work, hours = (
                work + run["probability"] * exaflop,
                hours + run["probability"] * exaflop / (found["tflops_per_accelerator"] * 3600e12 / 1e18),
            )
        assert stated == pytest.approx(work / hours, rel=0.02), accelerator


def test_more_failures_and_fewer_operations_a_second_never_cost_less(example):
    def usd(**values):
        return float(training_of(example, example.scenario_with(planned_accelerators=256, **values)).choice["usd"].iloc[0])

    base = usd()
    assert usd(failure_factor=5.0) > base
    assert usd(checkpoint_write_seconds=600.0) > base
    assert usd(compute_share=0.7) > base
    assert usd(mfu_share=0.2) > usd(mfu_share=0.3) > usd(mfu_share=0.4)
    assert usd(recompute="full") > base


def test_a_run_that_the_roadmap_does_not_have(example):
    with pytest.raises(CapplanError, match="did you mean base-8b"):
        training_of(example, example.scenario_with(training_run="base-8"))
    with pytest.raises(CapplanError, match="states no parameters"):
        training_of(example, example.scenario_with(training_run="preference-2027"))
    moved = example.with_changes((Change(table="training_runs", key="base-8b", column="region", set="apac"),))
    with pytest.raises(CapplanError, match="must be in apac"):
        training_of(moved, example.scenario)
