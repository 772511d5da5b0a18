"""What a step of a replica reads and who waits for a prompt, by hand, and the smallest replica at its very limit."""

from __future__ import annotations

import pandas as pd
import pytest

from capplan.book.book import reference_tables
from capplan.questions.serving import replica_memory
from capplan.questions.serving.roofline import AHEAD_SHARE, HANDLING_SECONDS, roofline

FACTS = reference_tables()
MODELS, MACHINES = FACTS["models"], FACTS["accelerators"]
EXPERTS = MODELS[MODELS["experts"] > MODELS["experts_per_token"]].iloc[0]
SETUP = {"model": EXPERTS["model"], "accelerator": "B200", "accelerators": 64, "engine": "vllm", "precision": "fp8", "input_tokens": 100.0}


def of(**change) -> pd.Series:
    return roofline(pd.DataFrame([{**SETUP, "output_tokens": 100.0, "concurrency": 1.0, **change}]), MODELS, MACHINES).iloc[0]


@pytest.mark.parametrize("load", [1, 2, 7, 100])
def test_a_step_reads_the_experts_that_any_of_its_requests_touches(load):
    """Each request touches k of E experts at random, so that n together touch E (1 - (1 - k/E)^n) of them."""
    machine = MACHINES.set_index("accelerator").loc["B200"]
    share = EXPERTS["experts_per_token"] / EXPERTS["experts"]
    experts = (EXPERTS["parameters_total"] - EXPERTS["parameters_active"]) / (1 - share)
    read = EXPERTS["parameters_total"] - experts * (1 - share) ** load
    assert EXPERTS["parameters_active"] <= read * (1 + 1e-12)
    assert of(concurrency=float(load))["weights_seconds"] == pytest.approx(read / (64 * machine["memory_bandwidth_gbps"] * 1e9))


@pytest.mark.parametrize("workers", [1, 2, 8])
def test_who_reads_prompts_shares_those_that_wait(workers):
    """A request waits for a share of those in progress, spread over the workers that read prompts, each of which takes one prompt."""
    first, later = (of(concurrency=load, prefill_workers=float(workers))["first_token_seconds"] - HANDLING_SECONDS for load in (2.0, 12.0))
    prompt = (later - first) / (10 * AHEAD_SHARE / workers)
    assert first == pytest.approx(prompt * (1 + 2 * AHEAD_SHARE / workers))
    assert prompt == pytest.approx(
        (of(concurrency=2.0, prefill_workers=1.0)["first_token_seconds"] - HANDLING_SECONDS) / (1 + 2 * AHEAD_SHARE)
    )


def test_the_smallest_replica_holds_just_one_request():
    model, machine = replica_memory.model_of(MODELS, "Llama-3.1-70B"), MACHINES.set_index("accelerator", drop=False).loc["H100"]
    assert model["model"] == "Llama-3.1-70B"
    room = replica_memory.replica_memory(model, float(machine["memory_gib"]), 2, 1.0, precision="fp8").tokens
    assert replica_memory.smallest_replica(model, machine, float(room)).accelerators == 2
    assert replica_memory.smallest_replica(model, machine, room + 1.0).accelerators == 4
