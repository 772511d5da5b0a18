"""Rows that nothing can reach never change an answer, question by question."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from capplan.book.scenario import ClusterAssumptions, LedgerAssumptions, PricingAssumptions, ScalingAssumptions
from capplan.questions.cluster import simulate_cluster
from capplan.questions.ledger import build_ledger
from capplan.questions.portfolio import mix_portfolio
from capplan.questions.pricing import price_hours
from capplan.questions.scaling import fit_scaling
from tests.cases.procurement_cases import DAY, assumptions, commitment, demand, offer, sku, solve
from tests.questions.test_cluster import cluster, trace
from tests.questions.test_crossover import find, million, terms, traffic, ways
from tests.questions.test_portfolio import ONE, TERMS, steady
from tests.questions.test_portfolio import assumptions as of_portfolio
from tests.questions.test_scaling import RAYTRACER

#: A machine with an accelerator on which nothing runs, offered for next to nothing where nothing is served.
ODD, FAR = sku("odd", "MI300X", provider="rival"), offer("far", "on_demand", 0.01, sku="odd", region="eu-1", geography="eu")
MACHINES = [sku("gpu"), ODD]


def pricing(more: bool) -> list[pd.DataFrame]:
    prices = price_hours(pd.DataFrame(MACHINES), pd.DataFrame([*TERMS, *[FAR] * more]), PricingAssumptions(as_of="2027-01-01"))
    return [prices[prices["offer_id"] != "far"].reset_index(drop=True)]


def portfolio(more: bool) -> list[pd.DataFrame]:
    a = of_portfolio(horizon_quarters=8)
    prices = price_hours(pd.DataFrame(MACHINES), pd.DataFrame([*TERMS, *[FAR] * more]), a)
    speeds = pd.DataFrame([("work", "H100", 1.0)], columns=["class", "accelerator", "work_per_accelerator_hour"])
    found = mix_portfolio(steady(), speeds, prices, a, classes=pd.DataFrame(list(ONE)))
    return [found.mix, found.terms, found.sources, found.pools]


def procurement(more: bool) -> list[pd.DataFrame]:
    offers = [offer("od", "on_demand", 4.0), offer("year", "reserved_1y", 2.0), *[FAR] * more]
    limits = [{"limit_id": "q", "kind": "quota_accelerators", "amount": 7.0}]
    limits += [{"limit_id": "odd", "kind": "quota_accelerators", "amount": 0.0, "provider": "rival"}] * more
    found = solve(demand([[10.0, 12.0], [6.0, 9.0]]), offers, assumptions(), limits=limits, skus=MACHINES)
    return [found.purchases, found.costs, found.dispatch, found.capacity, found.service]


def crossover(more: bool) -> list[pd.DataFrame]:
    gone = {"way": "gone", "usd_per_request": 1e-9, "withdrawn_on": pd.Timestamp("2020-01-01")}
    found = find(traffic(million(1, 2, 3, 4)), api=ways({}, *[gone] * more), prices=terms(reserved_1y=2.5))
    return [found.ways[found.ways["way"] != "gone"].reset_index(drop=True)]


def clusters(more: bool) -> list[pd.DataFrame]:
    rng = np.random.default_rng(1)
    jobs = trace(np.cumsum(rng.exponential(600, 60)), rng.exponential(3600, 60), rng.integers(1, 9, 60), accelerator=["H100"] * 60)
    nodes = pd.concat([cluster(2), *[cluster(5, accelerator="MI300X").assign(node="odd")] * more], ignore_index=True)
    return [simulate_cluster(jobs, nodes, "easy_backfill", ClusterAssumptions()).jobs]


def scaling(more: bool) -> list[pd.DataFrame]:
    other = RAYTRACER.assign(curve="another", throughput=RAYTRACER["throughput"] ** 0.5)
    found = fit_scaling(pd.concat([RAYTRACER.assign(curve="own"), *[other] * more], ignore_index=True), ScalingAssumptions())
    return [table[table["curve"] == "own"].reset_index(drop=True) for table in (found.parameters, found.quality, found.limits)]


def ledgers(more: bool) -> list[pd.DataFrame]:
    signed = pd.DataFrame([commitment("old", 4.0, "2026-07-01", "2027-06-30", 6.0)])
    rates = pd.DataFrame([("JPY", DAY, 0.01)] * more, columns=["currency", "date", "usd"]).astype({"date": "datetime64[ns]"})
    found = build_ledger(LedgerAssumptions(as_of="2027-01-01"), commitments=signed, skus=pd.DataFrame(MACHINES), fx=rates)
    return [found.entries]


ANSWERS: list[Callable[[bool], list[Any]]] = [pricing, portfolio, procurement, crossover, clusters, scaling, ledgers]


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: answer.__name__)
def test_rows_nothing_can_reach_never_change_an_answer(answer: Callable[[bool], list[Any]]) -> None:
    for before, after in zip(answer(False), answer(True), strict=True):
        assert len(before)
        pd.testing.assert_frame_equal(before, after)
