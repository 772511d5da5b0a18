"""Levers before hardware: published formulas, laws of caches, and savings that do not add up."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capplan.book.assumptions.serving import ServingAssumptions
from capplan.book.book import reference_tables
from capplan.errors import CapplanError
from capplan.questions.serving import levers
from capplan.questions.serving import request_time as work

OFF = ServingAssumptions(
    exact_cache_share=0,
    semantic_cache_share=0,
    semantic_lookup_usd_per_thousand=0,
    route_share=0,
    cascade_escalation_share=1,
    output_cut_share=0,
    prompt_cache_share=0,
    quantised_precision="none",
    draft_tokens=0,
    spare_replicas=0,
)
TABLES = reference_tables()
MODEL = TABLES["models"].set_index("model", drop=False).loc["Llama-3.1-70B"]
H100 = TABLES["accelerators"].set_index("accelerator", drop=False).loc["H100"]
POINTS = pd.DataFrame(
    {
        "accelerator": "H100",
        "accelerators": 4,
        "concurrency": [4, 16, 64],
        "first_token_seconds": [0.2, 0.3, 0.6],
        "token_seconds": [0.012, 0.018, 0.03],
        "basis": "measured",
    }
)
REQUEST = work.RequestWork(3500.0, 1200.0)
TRAFFIC = pd.DataFrame({"hour": range(24), "requests": np.linspace(2e5, 8e5, 24)})


def bench(**change):
    stated = {
        "points": POINTS,
        "limit": np.inf,
        "work": REQUEST,
        "model": MODEL,
        "accelerator": H100,
        "small_cost_share": 0.12,
        "first_token_seconds": 2.0,
        "token_seconds": 0.06,
        "usd_per_accelerator_hour": 3.0,
    }
    return levers.Bench(**{**stated, **change})


def saving(name, a=OFF, **change):
    found = levers.lever_savings(TRAFFIC, bench(**change), a)
    return found.table.set_index("lever").loc[name, "saving_share"]


def with_(**change):
    return OFF.model_copy(update=change)


@pytest.mark.parametrize(
    ("acceptance", "tokens", "arithmetic", "speed"),
    [(0.6, 2, 1.53, 1.96), (0.7, 3, 1.58, 2.53), (0.8, 2, 1.23, 2.44), (0.8, 5, 1.63, 3.69), (0.9, 2, 1.11, 2.71), (0.9, 10, 1.60, 6.86)],
)
def test_speculation_published(acceptance, tokens, arithmetic, speed):
    # Leviathan, Kalman and Matias (2023), table 1
    assert work.tokens_per_step(acceptance, tokens) == pytest.approx(speed, abs=0.005)
    assert (tokens + 1) / work.tokens_per_step(acceptance, tokens) == pytest.approx(arithmetic, abs=0.006)


def test_without_levers_nothing_is_saved():
    found = levers.lever_savings(TRAFFIC, bench(), OFF)
    assert (found.table["saving_usd"] == 0).all()
    assert found.base_usd == found.together_usd > 0
    assert found.interaction_usd == 0


def test_answers_from_a_cache_save_their_share():
    assert saving("Exact cache", with_(exact_cache_share=0.3)) == pytest.approx(0.3, abs=0.02)
    assert saving("Exact cache", with_(exact_cache_share=1.0)) == 1.0
    assert saving("Similar answers", with_(semantic_cache_share=0.3)) == pytest.approx(0.3, abs=0.02)


def test_routing_and_cascade_by_hand():
    # a fifth goes to a model of 12 % of the work, sized with the same headroom: 1 - (0.8 + 0.2 x 0.12 / 0.85 x busy share)
    assert saving("Routing", with_(route_share=0.2)) == pytest.approx(0.2 * (1 - 0.12), abs=0.02)
    # everybody asks the small one first, 60 % go on
    assert saving("Cascade", with_(cascade_escalation_share=0.6)) == pytest.approx(0.4 - 0.12, abs=0.03)
    # a cascade that passes nearly all on costs more than it saves, and is left off
    costly = levers.lever_savings(TRAFFIC, bench(), with_(cascade_escalation_share=0.95))
    row = costly.table.set_index("lever").loc["Cascade"]
    assert row["saving_usd"] < 0
    assert not row["used"]
    assert costly.together_usd == costly.base_usd
    assert "left off" in costly.notes[0]


def test_shorter_answers_save_their_decode():
    prefill, decode = work.phase_seconds(REQUEST, MODEL, H100, 4, 64)
    expected = 0.5 * decode / (prefill + decode)
    assert saving("Shorter answers", with_(output_cut_share=0.5)) == pytest.approx(expected, abs=0.06)


def test_prompt_cache_saves_the_prefill_and_no_more():
    prefill, decode = work.phase_seconds(REQUEST, MODEL, H100, 4, 64)
    assert saving("Prompt cache", with_(prompt_cache_share=1.0)) == pytest.approx(prefill / (prefill + decode), abs=0.02)
    already = work.RequestWork(3500.0, 1200.0, cached_share=0.5)
    assert saving("Prompt cache", with_(prompt_cache_share=0.4), work=already) == 0


def test_phases_by_hand():
    prefill, decode = work.phase_seconds(REQUEST, MODEL, H100, 4, 64)
    assert prefill == pytest.approx(2 * 70553706496 * 3500 / (0.6 * 1978.9e12), rel=1e-9)
    # The cache that goes with 8-bit weights has 8 bit: 2 x 80 x 8 x 128 bytes a token.
    step = (70553706496 + 64 * 163840 * 4100) / (4 * 0.8 * 3350e9)
    assert step > 2 * 70553706496 * 64 / (4 * 0.6 * 1978.9e12)
    assert decode == pytest.approx(1200 * step * 4 / 64, rel=1e-9)


def test_batching_raises_the_limit_of_today():
    limited = saving("Batching", limit=16)
    held = {16: 0.3 + 0.018 * 1199, 64: 0.6 + 0.03 * 1199}
    assert limited == pytest.approx(1 - held[64] / 64 / (held[16] / 16), abs=0.03)
    with pytest.raises(CapplanError, match="concurrency_limit"):
        saving("Batching", limit=2)


def test_quantisation_helps_where_memory_binds_and_only_to_a_smaller_format():
    wide = work.RequestWork(3500.0, 1200.0, precision="bf16")
    assert saving("Smaller weights", with_(quantised_precision="fp8"), work=wide) > 0.2
    assert saving("Smaller weights", with_(quantised_precision="fp8")) == 0
    assert 0 < saving("Smaller weights", with_(quantised_precision="fp4")) < 0.5


def test_speculation_saves_when_memory_binds_and_costs_when_arithmetic_binds():
    few, many = (sum(work.phase_seconds(REQUEST.changed(draft_tokens=4), MODEL, H100, 4, count)) for count in (1, 512))
    plain_few, plain_many = (sum(work.phase_seconds(REQUEST, MODEL, H100, 4, count)) for count in (1, 512))
    assert few < 0.5 * plain_few
    short = REQUEST.changed(input_tokens=10.0, output_tokens=100.0)  # little cache to read: arithmetic binds in large batches
    assert sum(work.phase_seconds(short.changed(draft_tokens=4), MODEL, H100, 4, 1024)) > sum(
        work.phase_seconds(short, MODEL, H100, 4, 1024)
    )
    assert many / plain_many > few / plain_few


SHARE = st.floats(0, 1)


@settings(max_examples=10, deadline=None)
@given(SHARE, SHARE, SHARE, st.floats(0, 0.9), st.floats(0, 1))
def test_caching_never_raises_the_bill(exact, similar, prompt, cut, lookup):
    def bill(**change):
        return levers.lever_savings(TRAFFIC.head(3), bench(), with_(**change)).together_usd

    base = bill()
    less = bill(exact_cache_share=exact, semantic_cache_share=similar, prompt_cache_share=prompt, output_cut_share=cut)
    assert less <= base
    # not even where each look-up costs more than it finds
    assert bill(semantic_cache_share=similar, semantic_lookup_usd_per_thousand=10 * lookup) <= base
    more = bill(exact_cache_share=min(1.0, exact + 0.2), semantic_cache_share=similar, prompt_cache_share=prompt, output_cut_share=cut)
    assert more <= less * (1 + 1e-12)


@settings(max_examples=15, deadline=None)
@given(SHARE, SHARE, st.floats(0, 0.9), st.integers(0, 6), st.floats(0.1, 0.9))
def test_alone_and_together(exact, routed, cut, drafts, passed):
    a = with_(exact_cache_share=exact, route_share=routed, output_cut_share=cut, draft_tokens=drafts, cascade_escalation_share=passed)
    found = levers.lever_savings(TRAFFIC.head(3), bench(), a)
    assert found.base_usd + found.table["step_usd"].sum() == pytest.approx(found.together_usd, abs=1e-6 * found.base_usd)
    assert found.together_usd <= found.base_usd
    assert found.table["saving_usd"].tolist() == pytest.approx((found.base_usd - found.table["usd"]).tolist())
    used = found.table[found.table["used"]]
    assert found.interaction_usd == pytest.approx(used["saving_usd"].sum() - (found.base_usd - found.together_usd))


def test_together_is_less_than_the_sum():
    a = with_(exact_cache_share=0.3, route_share=0.3, output_cut_share=0.3)
    found = levers.lever_savings(TRAFFIC, bench(), a)
    assert found.interaction_usd > 0
    assert "not the" in found.headline
    assert "nothing to save" in levers.lever_savings(TRAFFIC.assign(requests=0.0), bench(), a).headline


@pytest.mark.parametrize(
    ("change", "message"),
    [({"precision": "fp9"}, "did you mean fp8"), ({"cached_share": 90.0}, r"0\.9"), ({"acceptance_share": 70.0}, r"0\.7")],
)
def test_bad_requests_are_refused(change, message):
    with pytest.raises(CapplanError, match=message):
        work.phase_seconds(REQUEST.changed(**change), MODEL, H100, 4, 8)


def test_experts_are_read_once_for_all():
    model = pd.Series({"parameters_total": 100.0, "parameters_active": 10.0})
    assert work.touched_parameters(model, 1) == pytest.approx(10.0)
    assert 60 < work.touched_parameters(model, 10) < work.touched_parameters(model, 100) < 100


def test_what_is_in_use_already_says_what_it_saves():
    found = levers.lever_savings(TRAFFIC, bench(), OFF).table.set_index("lever")
    held = {4: 0.2 + 0.012 * 1199, 64: 0.6 + 0.03 * 1199}
    assert found.loc["Batching", "in_use_saving_share"] == pytest.approx(1 - held[64] / 64 / (held[4] / 4), abs=0.03)
    assert found.loc["Batching", "setting"].startswith("64 at once already")
    bf16, fp8 = (sum(work.phase_seconds(REQUEST.changed(precision=name), MODEL, H100, 4, 64)) for name in ("bf16", "fp8"))
    assert found.loc["Smaller weights", "in_use_saving_share"] == pytest.approx(1 - fp8 / bf16, abs=0.03)
    assert (found["in_use_saving_share"].drop(["Batching", "Smaller weights"]) == 0).all()
    cached = levers.lever_savings(TRAFFIC, bench(work=work.RequestWork(3500.0, 1200.0, cached_share=0.5)), OFF).table.set_index("lever")
    assert cached.loc["Prompt cache", "in_use_saving_share"] > 0
    assert "from 16 at once" in levers.lever_savings(TRAFFIC, bench(limit=16), OFF).table.set_index("lever").loc["Batching", "setting"]
