"""Rows that nothing can reach never change an answer, question by question."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from capplan.book.book import reference_tables
from capplan.book.empty import empty_table
from capplan.book.scenario import ClusterAssumptions, LedgerAssumptions, PricingAssumptions, ScalingAssumptions, ServingAssumptions
from capplan.questions.cluster import simulate_cluster
from capplan.questions.demand import forecast_demand
from capplan.questions.goodput import measure_goodput, spot_break_even
from capplan.questions.ledger import LedgerTables, build_ledger
from capplan.questions.placement import place_tasks
from capplan.questions.portfolio import PoolTables, mix_portfolio
from capplan.questions.pricing import price_hours
from capplan.questions.scaling import fit_scaling
from capplan.questions.serving import plan_serving
from capplan.questions.serving.choice import cheapest_hours
from capplan.questions.serving.hosted import ServingTables
from capplan.questions.split import split_fleet
from capplan.questions.training import plan_run
from capplan.questions.training.offered import TrainingTables
from tests.cases.procurement_cases import DAY, assumptions, commitment, demand, offer, sku, solve
from tests.questions.test_cluster import cluster, trace
from tests.questions.test_crossover import find, million, terms, traffic, ways
from tests.questions.test_demand import A as OF_DEMAND
from tests.questions.test_demand import hourly
from tests.questions.test_goodput import FLEET
from tests.questions.test_goodput import A as OF_GOODPUT
from tests.questions.test_goodput import prices as of_goodput
from tests.questions.test_placement import A as OF_PLACEMENT
from tests.questions.test_placement import frame
from tests.questions.test_portfolio import ONE, TERMS, steady
from tests.questions.test_portfolio import assumptions as of_portfolio
from tests.questions.test_scaling import RAYTRACER
from tests.questions.test_serving_fleet import RUNS, SERVICE
from tests.questions.test_split import PLAIN, random_case
from tests.questions.test_training import ACCELERATORS, PRICES, RUN
from tests.questions.test_training import SKUS as OF_TRAINING
from tests.questions.test_training import A as OF_RUNS

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
    found = mix_portfolio(steady(), PoolTables(speeds, prices, pd.DataFrame(list(ONE))), a)
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
    found = build_ledger(LedgerAssumptions(as_of="2027-01-01"), LedgerTables(commitments=signed, skus=pd.DataFrame(MACHINES), fx=rates))
    return [found.entries]


def demands(more: bool) -> list[pd.DataFrame]:
    """Beyond the horizon, over before the plan, and a kind of work that never comes."""
    of = OF_DEMAND
    late, gone = pd.Timestamp("2035-01-01"), pd.Timestamp("2020-01-01")
    events = [("launch", "chat", pd.Timestamp("2027-02-01"), 1.4, pd.NaT)]
    events += [("late", "chat", late, 9.0, pd.NaT), ("gone", "search", gone, 5.0, gone + pd.Timedelta(days=9))] * more
    runs = [("next", "pretraining", pd.Timestamp("2027-03-01"), pd.Timestamp("2027-04-01"), 50.0)]
    runs += [("late", "pretraining", late, late + pd.Timedelta(days=30), 1e6)] * more
    workloads = pd.DataFrame([("chat", "requests"), ("search", "requests"), ("pretraining", "exaflop"), *[("idle", "requests")] * more])
    speeds = [("chat", "H100", 10.0), ("search", "H100", 30.0), ("pretraining", "H100", 1.0), *[("idle", "odd", 1e-6)] * more]
    found = forecast_demand(
        hourly(120),
        pd.DataFrame(events, columns=["event_id", "workload", "date", "factor", "end"]),
        pd.DataFrame(runs, columns=["run_id", "workload", "start", "deadline", "quantity"]),
        of.model_copy(update={"paths": 20}),
        workloads.set_axis(["workload", "unit"], axis=1),
        pd.DataFrame(speeds, columns=["workload", "accelerator", "work_per_accelerator_hour"]),
    )
    return [found.paths, found.quantiles, found.blocks, found.scores, found.peaks, found.duration, found.pooling]


def serving(more: bool) -> list[pd.DataFrame]:
    """A measured model that nobody serves, a machine that is not to be had, and the latency of another service's surface."""
    runs = pd.concat(
        [
            RUNS,
            *[RUNS.assign(model="Qwen3-32B", token_seconds=1e-4)] * more,
            *[RUNS.assign(accelerator="MI300X", token_seconds=1e-4)] * more,
        ]
    )
    chat = SERVICE.to_frame().T.infer_objects().assign(hosted_model="", cached_share=0.0, batch_share=0.0, precision="fp8")
    hours = pd.date_range("2026-11-01", periods=28 * 24, freq="h")
    usage = pd.DataFrame(
        {"time": hours, "workload": "chat", "region": "us", "quantity": 4000.0 + 3000.0 * np.sin(np.arange(len(hours)) / 24 * 2 * np.pi)}
    )
    usage = pd.concat([usage, *[usage.assign(workload="batch", quantity=1e9)] * more])
    offers = [offer("od", "on_demand", 4.0), *[FAR] * more]
    prices = price_hours(pd.DataFrame(MACHINES), pd.DataFrame(offers), PricingAssumptions(as_of="2027-01-01"))
    tables = reference_tables()
    found = plan_serving(
        chat,
        frame("""
            workload host unit stage team feature cost_center
            chat self requests serving assistant Assistant CC-410
        """),
        ServingTables(
            usage,
            runs,
            tables["models"],
            tables["accelerators"],
            **{name: empty_table(name) for name in ("speeds", "surfaces", "latency_parts")},
            prices=cheapest_hours(prices, ("us",), ()),
        ),
        ServingAssumptions(),
        other_costs=empty_table("other_costs"),
    )
    return [
        found.hosted["chat"].hours,
        found.hosted["chat"].choices,
        found.policies,
        found.bursts,
        found.levers.table,
        found.costs,
        found.features,
    ]


def split(more: bool) -> list[pd.DataFrame]:
    """The speed of a machine that the fleet lacks."""
    load, jobs, nodes = random_case(1)
    speeds = pd.DataFrame(
        [("train", "H100", 1.0), *[("train", "MI300X", 9.0)] * more], columns=["workload", "accelerator", "work_per_accelerator_hour"]
    )
    found = split_fleet(load, jobs, nodes, PLAIN, speeds=speeds, search=False)
    return [found.arrangements, found.gains, found.fleet, found.hours]


def placement(more: bool) -> list[pd.DataFrame]:
    """A machine too small for any task, and a quick link to where it stands."""
    tasks = frame("""
        task_id cpus accelerators duration_hours
        a 8 1 3
        b 8 0 2
        c 8 0 4
    """)
    edges = pd.DataFrame({"from_task": ["a", "a"], "to_task": ["b", "c"], "data_gb": [30.0, 60.0]})
    nodes = frame("""
        node accelerator accelerator_count cpus site
        gpu H100 1 16 east
        cpu CPU 0 16 west
    """)
    small = pd.DataFrame([("small", "CPU", 0, 2.0, "north")], columns=nodes.columns)
    link = ["from_place", "to_place", "gbit_per_second", "latency_seconds", "usd_per_gb", "used_share"]
    links = pd.DataFrame([("east", "west", 10.0, 0.0, 0.02, 0.0), *[("north", "east", 1e6, 0.0, 0.0, 0.0)] * more], columns=link)
    found = place_tasks(tasks, edges, pd.concat([nodes, *[small] * more], ignore_index=True), links, OF_PLACEMENT)
    return [found.schedule, found.transfers]


def training(more: bool) -> list[pd.DataFrame]:
    """A machine without a price, and the price of a machine that is not to be had."""
    skus = pd.concat(
        [OF_TRAINING, *[pd.DataFrame({"sku": ["odd"], "provider": ["z"], "accelerator": ["L4"], "accelerator_count": [1]})] * more]
    )
    prices = pd.concat([PRICES, *[PRICES.head(1).assign(offer_id="none", sku="none", effective_usd_per_accelerator_hour=0.01)] * more])
    return [plan_run(RUN, TrainingTables(skus, prices, accelerators=ACCELERATORS), OF_RUNS)]


def goodput(more: bool) -> list[pd.DataFrame]:
    """Failures of a fleet of machines that nobody offers, and a spot record of an offer that nobody makes."""
    failures = pd.concat([FLEET, *[FLEET.assign(fleet="odd", accelerator="TPU v5e", failures_per_node_day=5.0)] * more])
    record = pd.DataFrame({"trace": "t", "start_hours": [0.0, 1.0], "hours": 1.0, "machines": [8, 0], "offer_id": "nobody"}).head(2 * more)
    return [measure_goodput(failures, OF_GOODPUT, of_goodput(), record), spot_break_even(failures, OF_GOODPUT, of_goodput())]


ANSWERS: list[Callable[[bool], list[Any]]] = [
    pricing,
    portfolio,
    procurement,
    crossover,
    clusters,
    scaling,
    ledgers,
    demands,
    serving,
    split,
    placement,
    training,
    goodput,
]


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: answer.__name__)
def test_rows_nothing_can_reach_never_change_an_answer(answer: Callable[[bool], list[Any]]) -> None:
    for before, after in zip(answer(False), answer(True), strict=True):
        assert len(before)
        pd.testing.assert_frame_equal(before, after)
