"""Speed of training: fitted on public runs and tested on models held out, published runs, the gate over chips and formats, memory."""

from __future__ import annotations

import contextlib
import itertools

import numpy as np
import pandas as pd
import pytest

from capplan.book.assumptions.training import TrainingAssumptions
from capplan.book.book import reference_tables
from capplan.book.roadmap import with_active_parameters
from capplan.errors import CapplanError
from capplan.questions.training import plan_run, study_run
from capplan.questions.training.architecture import Degrees, Shape, activation_bytes, shape_of
from capplan.questions.training.fit_speed import CHIP, LAYOUT, WORK, fit_speed
from capplan.questions.training.layout import bubble_share
from capplan.questions.training.offered import TrainingTables
from capplan.questions.training.speed import BANDS, FACTORS, seconds_per_token
from tests.cases.training_cases import BRIDGE_MODELS, bridge_rows, mosaic_rows, row_of
from tests.conftest import reference_file

FACTS = reference_tables()
CHIPS, MODELS = FACTS["accelerators"], FACTS["models"]
PRICES = pd.DataFrame(
    {
        "offer_id": ["o"],
        "sku": ["s"],
        "term": ["on_demand"],
        "term_months": [np.nan],
        "effective_usd_per_accelerator_hour": [2.0],
        "useful_share": [1.0],
    }
)


def expected(rows, factors=FACTORS):
    """Tokens a second and accelerator."""
    parts = [{name: rows[name].to_numpy(dtype=float) for name in names} for names in (WORK, CHIP, LAYOUT)]
    return 1 / seconds_per_token(*parts, factors)


def planned(chip, run, count, node=8, speeds=None, **assumptions):
    skus = pd.DataFrame({"sku": ["s"], "provider": ["x"], "accelerator": [chip], "accelerator_count": [node]})
    a = TrainingAssumptions(**{"run_maximum_accelerators": 32768, **assumptions})
    return plan_run(run, TrainingTables(skus, PRICES, accelerators=CHIPS, models=MODELS, speeds=speeds), a, count)


@pytest.fixture(scope="module")
def public():
    return pd.concat([bridge_rows(), mosaic_rows()], ignore_index=True)


@pytest.fixture(scope="module")
def truth():
    return pd.read_csv(reference_file("truth", "01_training.csv")).set_index("id")


def test_the_factors_are_those_that_the_public_rows_give(public):
    found = fit_speed(public)
    assert found.values == pytest.approx(FACTORS.values, rel=0.01)
    assert found.power_exponent == pytest.approx(FACTORS.power_exponent, abs=0.005)


def test_models_held_out_of_the_fit(public):
    """Half of the models of each collection are fitted, the others predicted, in twelve random halves."""
    random = np.random.default_rng(11)
    medians, inside = {False: [], True: []}, {False: [], True: []}
    for _ in range(12):
        kept = set()
        for _, part in public.groupby("collection"):
            names = sorted(part["model"].unique())
            kept |= set(random.permutation(names)[: (len(names) + 1) // 2])
        asked = public[~public["model"].isin(kept)]
        off = np.log(expected(asked, fit_speed(public[public["model"].isin(kept)])) / asked["tokens_per_second"])
        for mixture in (False, True):
            part = off[(asked["experts"] > 0) == mixture]
            if len(part):
                medians[mixture].append(float(np.median(np.abs(np.expm1(part)))))
                inside[mixture].append(float((np.abs(part) <= np.log(BANDS["calibrated", mixture])).mean()))
    assert max(medians[False]) < 0.15
    assert np.median(medians[True]) < 0.20
    assert max(medians[True]) < 0.25
    assert 0.85 <= np.mean(inside[False]) <= 0.95
    assert 0.85 <= np.mean(inside[True]) <= 0.95


def test_megatron_layouts_of_2021_reach_what_is_taken_for_older_software(truth):
    shares = []
    for row in truth[truth.index.str.match(r"megatron_[\d.]+B")].itertuples():
        text = r"heads (\d+) hidden (\d+) layers (\d+) TP(\d+) PP(\d+) batch (\d+)"
        _, width, layers, tensor, pipeline, batch = (int(value) for value in pd.Series(row.notes).str.extract(text).iloc[0])
        shape = (row.params, row.params, layers, width, width, width, 51200, 0.0, 0.0)
        layout = (float(row.n_gpus), tensor, pipeline, 1, 1, 1, False)
        one = pd.DataFrame([row_of("m", "A100-80GB", "bf16", shape, layout, sequence=2048, batch=batch, micro=1, again=4 / 3)])
        shares.append(row.value * 1e12 / (8 * row.params * expected(one)[0]))
    assert len(shares) == 10
    assert np.median(shares) == pytest.approx(0.75, abs=0.05)


def test_llama_3_1_405b_takes_its_published_hours(truth):
    hours = truth.loc["llama3_1_405B_gpu_hours"]
    run = {"parameters": 405.85e9, "tokens": hours["tokens"], "model": "Llama-3.1-405B"}
    row = planned("H100", run, int(hours["n_gpus"]), global_batch_tokens=16e6).iloc[0]
    assert row["basis"] == "calibrated"
    assert row["accelerator_hours"] == pytest.approx(hours["value"], rel=0.15)
    assert row["tflops_per_accelerator"] == pytest.approx(truth.loc["llama3_405b_tab4_1", "value"], rel=0.05)
    smaller = planned("H100", run, 8192, global_batch_tokens=16e6).iloc[0]
    assert smaller["tflops_per_accelerator"] == pytest.approx(truth.loc["llama3_405b_tab4_0", "value"], rel=0.05)


def test_deepseek_v3_takes_its_published_hours_however_its_parameters_are_stated(truth):
    hours = truth.loc["deepseek_v3_pretrain"]
    more = {"tokens": hours["tokens"], "model": "DeepSeek-V3", "precision": "fp8"}
    rows = [
        planned("H100", {**more, **stated}, 2048, global_batch_tokens=15360 * 4096.0, sequence_length=4096).iloc[0]
        for stated in (
            {"parameters": 37e9},
            {"parameters": 671e9},
            {"parameters_total": 671e9},
            {},
            {"parameters": 37e9, "parameters_total": 671e9},
        )
    ]
    for row in rows:
        assert row["accelerator_hours"] == pytest.approx(hours["value"], rel=0.20)
        assert row["accelerator_hours"] == pytest.approx(rows[0]["accelerator_hours"])
        assert row["expert"] > 1


@pytest.mark.parametrize(
    ("parameters", "model", "hours"), [(6.74e9, "Llama-2-7B", 184_320), (13.0e9, None, 368_640), (69e9, "Llama-2-70B", 1_720_320)]
)
def test_llama_2_takes_its_published_hours(parameters, model, hours):
    """H. Touvron et al., Llama 2, 2023, table 2: accelerator-hours of A100 80 GB for 2 trillion tokens."""
    row = planned("A100-80GB", {"parameters": parameters, "tokens": 2e12, "model": model}, 2048, sequence_length=4096).iloc[0]
    assert row["accelerator_hours"] == pytest.approx(hours, rel=0.10)


def test_bloom_reaches_its_published_rate():
    """T. Le Scao et al., BLOOM, 2022, section 3.4: 150 TFLOP/s on 384 A100 80 GB, with all activations computed again."""
    run = {"parameters": 176.2e9, "tokens": 366e9, "model": "BLOOM-176B"}
    row = planned("A100-80GB", run, 384, sequence_length=2048, global_batch_tokens=2048.0 * 2048, recompute="full").iloc[0]
    assert row["tflops_per_accelerator"] == pytest.approx(150, rel=0.10)


def test_405b_fits_1024_h100_as_it_ran():
    """NVIDIA trains it there with tensor 8, pipeline 8, context 2 and 8 parts a stage, at 822 TFLOP/s in fp8."""
    run = {"parameters": 405.85e9, "tokens": 1e12, "model": "Llama-3.1-405B", "precision": "fp8"}
    row = planned("H100", run, 1024, global_batch_tokens=1536 * 8192.0).iloc[0]
    assert row["memory_gib"] < 72
    assert row["tflops_per_accelerator"] == pytest.approx(822, rel=0.15)


@pytest.mark.parametrize(
    ("model", "precision", "counts"),
    [("Llama-3.1-8B", "bf16", [1, 8, 64]), ("Llama-3.1-405B", "bf16", [192, 256, 512, 2048]), ("DeepSeek-V3", "fp8", [160, 256, 512])],
)
def test_the_search_takes_the_recomputation_that_is_fastest_and_fits(model, precision, counts):
    """Against each kind alone: the search is as fast as the fastest of them, and runs wherever one of them does."""
    known = MODELS.set_index("model").loc[model]
    run = {"parameters": known["parameters_active"], "tokens": 1e12, "model": model, "precision": precision}
    kinds, taken = ("none", "selective", "full"), {}
    rates = {}
    for kind in (*kinds, "fastest"):
        try:
            table = planned("H100", run, counts, operations_counted="model", recompute=kind, simple_rung_share=1.0).set_index(
                "accelerators"
            )
        except CapplanError:  # nothing fits
            continue
        rates[kind], taken[kind] = table["tflops_per_accelerator"], table["recompute"]
    together = pd.DataFrame({kind: rates[kind] for kind in kinds if kind in rates})
    assert rates["fastest"].to_numpy() == pytest.approx(together.max(axis=1).to_numpy())
    only_full = together.drop(columns="full").isna().all(axis=1)
    assert (taken["fastest"][only_full] == "full").all()
    assert only_full.any() == (model != "Llama-3.1-8B")


def test_every_way_to_lay_a_run_out_has_a_verdict():
    """A run that takes all its memory: what was not taken does not fit, is slower, or gains too little for a more involved layout."""
    run = {"parameters": 70.55e9, "tokens": 1e12, "model": "Llama-3.1-70B"}
    skus = pd.DataFrame({"sku": ["s"], "provider": ["x"], "accelerator": ["H100"], "accelerator_count": [8]})
    a = TrainingAssumptions(planned_accelerators=64)
    ways = study_run(run, TrainingTables(skus, PRICES, accelerators=CHIPS, models=MODELS), a).rungs
    assert not ways.duplicated(["rung", "recompute"]).any()
    assert set(ways["recompute"]) == {"none", "selective", "full"}
    assert (ways["verdict"] == "taken").tolist() == ways["chosen"].tolist()
    assert ways["chosen"].sum() == 1
    assert (ways["verdict"].str.startswith("does not fit") == ~ways["fits"]).all()
    tight = ways[~ways["fits"]].iloc[0]
    assert tight["verdict"] == f"does not fit: {tight['memory_gib']:,.0f} GiB of 72"
    assert ways[ways["fits"] & ~ways["chosen"]]["verdict"].str.contains("slower|faster").all()


SPEEDS = FACTS["training_speeds"]


def releases():
    """Tokens a second of NVIDIA's page by the name that a set-up and recipe have among the facts."""
    raw = pd.read_csv(reference_file("data", "training_scaling", "megatron_bridge_pretraining_part.csv"))
    chip, recipe = raw["system"].str.removeprefix("DGX-"), raw["precision"].str.lower()
    raw["run"] = raw["model"].map(BRIDGE_MODELS) + "-" + raw["gpus"].astype(str) + "x-" + chip + "-" + recipe
    return raw.groupby(raw["run"] + "-" + raw["global_batch_size"].astype(str))["tokens_per_second_per_gpu"].agg(list)


def test_published_runs_are_the_published_ones():
    """Each set-up and recipe of NVIDIA's page, as one of its releases has it."""
    listed = releases()
    assert set(SPEEDS["run"]) == set(listed.index)
    assert all(row.tokens_per_second in listed[row.run] for row in SPEEDS.itertuples())


def test_a_run_that_was_published_is_measured_and_one_that_differs_is_not():
    """Its rate is the published one in a band that holds the other releases; another count, batch or size is calibrated as before."""
    measured, held = 0, []
    everything = releases()
    for row in SPEEDS.sort_values("tokens_per_second").drop_duplicates(["model", "accelerator", "precision"], keep="last").itertuples():
        size = MODELS.set_index("model").loc[row.model, "parameters_active"]
        run = {"parameters": size, "tokens": 1e12, "model": row.model, "precision": row.precision}
        batch = {"sequence_length": int(row.sequence_length), "global_batch_tokens": row.batch_sequences * row.sequence_length}
        table = planned(row.accelerator, run, [row.accelerators], node=4, speeds=SPEEDS, **batch)
        one = table.iloc[0]
        if not one["corrected"]:
            assert one["basis"] == "measured", row.run
            assert one["tflops_per_accelerator"] == pytest.approx(6 * size * row.tokens_per_second / 1e12)
            measured += 1
        days = 1e12 / (np.array(everything[row.run]) * row.accelerators * 86400)
        held += list((one["days_lower"] <= days * (1 + 1e-9)) & (days <= one["days_upper"] * (1 + 1e-9)))
        for other in (
            {"count": 2 * row.accelerators},
            {"global_batch_tokens": 1.2 * batch["global_batch_tokens"]},
            {"parameters": 0.9 * size},
        ):
            changed = {**batch, **{name: value for name, value in other.items() if name == "global_batch_tokens"}}
            count, again = other.get("count", row.accelerators), {**run, "parameters": other.get("parameters", size)}
            calibrated = planned(row.accelerator, again, [count], node=4, speeds=SPEEDS, **changed).iloc[0]
            assert calibrated["basis"] == "calibrated"
    assert measured >= 15
    assert np.mean(held) >= 0.85


def hold_the_gate(tables, peaks):
    """Check one model on one chip in all its formats: peaks, and the order of counts and formats, of the value and of both ends."""
    rates = {}
    for precision, table in tables.items():
        at = table.set_index("accelerators")
        value = at["tflops_per_accelerator"]
        assert (at["days_lower"] <= at["days"] * (1 + 1e-9)).all()
        assert (at["days"] <= at["days_upper"] * (1 + 1e-9)).all()
        rates[precision] = pd.DataFrame({end: value * at["days"] / at[end] for end in ("days", "days_lower", "days_upper")})
        assert (rates[precision] <= peaks[precision] * (1 + 1e-9)).all(axis=None)
        assert (rates[precision].mul(at.index, axis=0).pct_change().iloc[1:] >= -1e-9).all(axis=None)
    for narrow, wide in (("fp8", "bf16"), ("fp4", "fp8"), ("fp4", "bf16")):
        if narrow in rates and wide in rates:
            both = rates[narrow].index.intersection(rates[wide].index)
            assert (rates[narrow].loc[both] >= rates[wide].loc[both] * (1 - 1e-9)).all(axis=None), (narrow, wide)


@pytest.mark.parametrize(
    ("chips", "models", "counts"),
    [(CHIPS["accelerator"], ["Llama-3.1-8B", "DeepSeek-V3"], [8, 256, 4096]), (["GB300"], MODELS["model"], [64, 256])],
)
def test_the_gate_over_all_chips_formats_models_and_counts(chips, models, counts):
    """Also with published runs among the answers: their sequences and batch are asked for where there are some."""
    looked = 0
    for chip, model in itertools.product(chips, models):
        facts, size = CHIPS.set_index("accelerator").loc[chip], MODELS.set_index("model").loc[model, "parameters_active"]
        published = SPEEDS[(SPEEDS["model"] == model) & (SPEEDS["accelerator"] == chip)]
        asked = published.iloc[0] if len(published) else {"sequence_length": 8192, "batch_sequences": 2048}
        batch = {
            "sequence_length": int(asked["sequence_length"]),
            "global_batch_tokens": asked["batch_sequences"] * asked["sequence_length"],
        }
        tables, peaks = {}, {}
        for precision in ("bf16", "fp8", "fp4"):
            peaks[precision] = facts[f"{precision}_tflops"]
            run = {"parameters": size, "tokens": 1e12, "model": model, "precision": precision}
            if peaks[precision] == peaks[precision]:
                with contextlib.suppress(CapplanError):  # too large for the chip
                    tables[precision] = planned(chip, run, counts, speeds=SPEEDS, **batch)
        hold_the_gate(tables, peaks)
        looked += len(tables)
    assert looked > 80


def test_more_bandwidth_more_power_and_faster_links_never_slow_a_run():
    run = {"parameters": 37e9, "tokens": 1e12, "model": "DeepSeek-V3"}
    slow = planned("H100", run, 512).iloc[0]["days"]
    for name in ("memory_bandwidth_gbps", "power_w", "link_gbps", "bf16_tflops"):
        better = CHIPS[CHIPS["accelerator"] == "H100"].assign(**{name: CHIPS.set_index("accelerator").loc["H100", name] * 1.5})
        skus = pd.DataFrame({"sku": ["s"], "provider": ["x"], "accelerator": ["H100"], "accelerator_count": [8]})
        fast = plan_run(run, TrainingTables(skus, PRICES, accelerators=better, models=MODELS), TrainingAssumptions(), 512).iloc[0]["days"]
        assert fast <= slow * (1 + 1e-9), name


def test_losses_count_once_beside_a_measured_curve():
    """A curve that falls no faster than the layout does changes nothing; one that falls faster replaces it."""

    class Curve:
        laws = (("c", "usl"),)

        def __init__(self, share):
            self.share = share

        def efficiency(self, n, curve):
            return np.full(len(n), self.share)

    skus = pd.DataFrame({"sku": ["s"], "provider": ["x"], "accelerator": ["H100"], "accelerator_count": [8]})
    run = {"parameters": 8e9, "tokens": 1e12, "model": "Llama-3.1-8B"}
    rates = {
        share: (
            plan_run(
                run, TrainingTables(skus, PRICES, accelerators=CHIPS, models=MODELS, scaling=curve), TrainingAssumptions(), [64, 2048]
            ).set_index("accelerators")["tflops_per_accelerator"]
        )
        for share, curve in ((1.0, None), (0.99, Curve(0.99)), (0.3, Curve(0.3)))
    }
    assert rates[0.99][2048] == pytest.approx(rates[1.0][2048])
    assert rates[0.3][2048] == pytest.approx(0.3 * rates[1.0][64], rel=1e-6)


def test_interleaving_shortens_the_bubble_and_holds_more():
    for stages, batches, parts in ((4, 8, 2), (8, 16, 4), (16, 16, 8)):
        # Narayanan et al., SC21, section 2.2.2: the bubble over the ideal time is (p - 1) / (m v).
        share = bubble_share(stages, batches, parts)
        assert share / (1 - share) == pytest.approx((stages - 1) / (batches * parts))
    shape = Shape(175e9, 175e9, 96, 12288, 96, 51200, 12288)
    plain, turned = (activation_bytes(shape, 2048, 1, "selective", Degrees(8, 8, micro_batches=64, interleaved=parts)) for parts in (1, 4))
    # Korthikanti et al., section 4.2.3: (1 + (p - 1) / (p v)) times as much.
    assert turned / plain == pytest.approx(1 + 7 / 32)
    whole, half = (activation_bytes(shape, 8192, 1, "selective", Degrees(8, 8, context, micro_batches=64)) for context in (1, 2))
    assert half == pytest.approx(whole / 2)


def test_activations_of_a_mixture_are_those_of_its_copies():
    dense, mixture = shape_of(70e9, "Llama-3.1-70B", MODELS), shape_of(37e9, "DeepSeek-V3", MODELS)
    assert dense.token_values == 34 * 8192
    # 256 experts of 3 x 7168 x 2048 in 58 of 61 layers: 653 billion.
    assert mixture.expert_parameters == pytest.approx(58 * 256 * 3 * 7168 * 2048, rel=0.01)
    inner = mixture.expert_parameters / (3 * 256 * 61 * 7168)
    assert mixture.token_values == pytest.approx(15 * 7168 + 8 * (4 * 7168 + 6 * inner))


def test_either_kind_of_parameters_may_be_stated():
    runs = pd.DataFrame(
        {
            "run_id": list("abcde"),
            "model": ["DeepSeek-V3", "DeepSeek-V3", "Llama-3.1-70B", None, "DeepSeek-V3"],
            "parameters": [671e9, np.nan, 70e9, np.nan, 20e9],
            "parameters_total": [np.nan, 671e9, np.nan, 8e9, np.nan],
            "tokens": 1e12,
        }
    )
    table, notes = with_active_parameters(runs, MODELS)
    assert table["parameters"].tolist() == pytest.approx([37e9, 37e9, 70e9, 8e9, 20e9])
    assert table["parameters_total"].iloc[[0, 1]].tolist() == pytest.approx([671e9, 671e9])
    assert len(notes) == 1
    assert "3.7e+10 of them work on a token" in notes[0]
