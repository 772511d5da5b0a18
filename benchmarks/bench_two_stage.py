"""How the L-shaped method compares with the extensive form, and how it grows with scenarios.

Run: pytest benchmarks/bench_two_stage.py --benchmark-only -s. Ratios of one run are printed and kept in `extra_info`; nothing is asserted
on time.
The full comparison (1,000 scenarios against the extensive form at 50) takes minutes and is asked for by CAPPLAN_BENCH_FULL=1.
"""

from __future__ import annotations

import os
import resource
import time

import numpy as np
import pytest
from scipy import sparse

from capplan.errors import SolveError
from capplan.optimize.extensive import extensive_arrays
from capplan.optimize.solver import solve_arrays
from capplan.optimize.two_stage import TwoStage, solve_two_stage

FULL = os.environ.get("CAPPLAN_BENCH_FULL") == "1"
QUARTERS, CLASSES, POOLS, OFFERS, BLOCKS = (12, 6, 5, 40, 12) if FULL else (6, 4, 3, 12, 6)


def market(scenarios: int, seed: int = 1) -> TwoStage:
    """Offers of 2, 4 and 12 quarters in lots of 8, on demand and spot with caps, demand as a random walk in load blocks."""
    rng = np.random.default_rng(seed)
    speed = rng.uniform(0.3, 1.0, (CLASSES, POOLS))
    rent = np.linspace(2.0, 4.2, POOLS)
    pool, term = np.arange(OFFERS) % POOLS, rng.choice([2, 4, 12], OFFERS)
    price_share = np.select([term == 12, term == 4], [0.45, 0.62], 0.78) * rng.uniform(0.95, 1.05, OFFERS)
    lead, hours, lot = np.where(term == 12, 2, 1), 2190 / BLOCKS, 8
    level = 60 * np.exp(np.cumsum(rng.normal(0.04, 0.12, (scenarios, QUARTERS, CLASSES)), axis=1))
    shape = 1 + (np.linspace(1.7, 0.4, BLOCKS)[:, None] - 1) * rng.uniform(0.2, 1, CLASSES)
    demand = np.moveaxis(level[:, :, None, :] * shape, 0, 1).reshape(-1, CLASSES)
    offer, start = np.divmod(np.arange(OFFERS * QUARTERS), QUARTERS)
    quarter = np.arange(QUARTERS)[:, None]
    active = (quarter >= start) & (quarter < start + term[offer])
    rows = CLASSES + 3 * POOLS
    columns, cost = [], []
    for c in range(CLASSES):
        for g in range(POOLS):
            ways = [(CLASSES + g, 0.0, 1.0), (CLASSES + POOLS + g, rent[g], 1.0)]
            ways += [(CLASSES + 2 * POOLS + g, 0.45 * rent[g], 0.85)] if c % 2 == 0 else []
            for row, price, useful in ways:
                column = np.zeros(rows)
                column[[c, row]] = useful * speed[c, g], 1.0
                columns.append(column)
                cost.append(price)
        column = np.zeros(rows)
        column[c] = 1.0
        columns.append(column)
        cost.append(25.0)
    T = []
    for t in range(QUARTERS):
        matrix = np.zeros((rows, len(offer)))
        matrix[CLASSES + pool[offer], np.arange(len(offer))] = -lot * active[t]
        T.append(sparse.csr_matrix(matrix))
    h = np.zeros((len(demand), rows))
    h[:, :CLASSES], h[:, CLASSES + POOLS : CLASSES + 2 * POOLS], h[:, CLASSES + 2 * POOLS :] = demand, 40.0, 60.0
    n = len(offer)
    return TwoStage(
        c=lot * 2190 * (rent[pool] * price_share)[offer] * active.sum(axis=0),
        A=sparse.csr_matrix((0, n)),
        b=np.zeros(0),
        sense=np.zeros(0, dtype="<U1"),
        lower=np.zeros(n),
        upper=np.where(start >= lead[offer], 50.0, 0.0),
        integer=np.ones(n, dtype=bool),
        q=np.array(cost),
        W=sparse.csr_matrix(np.array(columns).T),
        recourse_sense=np.array([">"] * CLASSES + ["<"] * (3 * POOLS)),
        T=T,
        technology=np.repeat(np.arange(QUARTERS), scenarios * BLOCKS),
        h=h,
        weight=np.full(len(demand), hours),
        scenario=np.tile(np.repeat(np.arange(scenarios), BLOCKS), QUARTERS),
        probability=np.full(scenarios, 1 / scenarios),
    )


def seconds(scenarios: int, method: str) -> float:
    """Time one solve to 0.1 % with CVaR."""
    problem = market(scenarios)
    begin = time.perf_counter()
    solution = solve_two_stage(problem, 0.3, 0.2, 1e-3, method=method)
    assert solution.gap_share <= 1e-3
    return time.perf_counter() - begin


def written_out(scenarios: int, limit_seconds: float) -> tuple[float, float]:
    """Time the extensive form to 0.1 % with CVaR, stopped at a limit; return seconds and the gap that is left."""
    model = extensive_arrays(market(scenarios), 0.3, 0.2)
    begin = time.perf_counter()
    try:
        gap = solve_arrays(model, 1e-3, time_limit_seconds=limit_seconds).gap_share
    except SolveError:
        gap = np.inf
    return time.perf_counter() - begin, gap


def test_many_scenarios_against_the_extensive_form(benchmark):
    """The extensive form is stopped at ten times our time, which is enough to tell whether it takes five times as long."""
    many, few = (1000, 50) if FULL else (200, 10)
    decomposed = benchmark.pedantic(seconds, args=(many, "l_shaped"), rounds=1)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    extensive, gap = written_out(few, 10 * decomposed)
    benchmark.extra_info.update(ratio=decomposed / extensive, peak_gib=memory, extensive_gap_share=gap)
    print(
        f"\nL-shaped, {many} scenarios: {decomposed:.1f} s, peak memory {memory:.2f} GiB; extensive form, {few} scenarios: {extensive:.1f}"
        f" s, gap {gap:.2g}{' when stopped' if gap > 1e-3 else ''}; ratio {decomposed / extensive:.3f}{' at most' if gap > 1e-3 else ''}"
    )


def test_growth_with_scenarios(benchmark):
    counts = (50, 200, 1000, 5000) if FULL else (50, 200, 800)
    times = benchmark.pedantic(lambda: [seconds(count, "l_shaped") for count in counts], rounds=1)
    per_scenario = [spent / count for spent, count in zip(times, counts, strict=True)]
    benchmark.extra_info.update(seconds=times, last_per_scenario_against_first=per_scenario[-1] / per_scenario[0])
    print(
        "\n"
        + ", ".join(f"{count}: {spent:.1f} s" for count, spent in zip(counts, times, strict=True))
        + f"; time per scenario, most against fewest: {per_scenario[-1] / per_scenario[0]:.2f}"
    )


@pytest.mark.parametrize("change", ["risk", "price"])
def test_warm_against_cold(benchmark, change):
    from dataclasses import replace

    problem = market(200)
    first = solve_two_stage(problem, 0.3, 0.2, 1e-3, method="l_shaped")
    risk, changed = (0.5, problem) if change == "risk" else (0.3, replace(problem, c=problem.c * 1.05))
    begin = time.perf_counter()
    solve_two_stage(changed, risk, 0.2, 1e-3, method="l_shaped")
    cold = time.perf_counter() - begin
    begin = time.perf_counter()
    benchmark.pedantic(solve_two_stage, args=(changed, risk, 0.2, 1e-3), kwargs={"method": "l_shaped", "warm": first.warm}, rounds=1)
    warm = time.perf_counter() - begin
    benchmark.extra_info.update(ratio=warm / cold)
    print(f"\n{change}: warm {warm:.2f} s, cold {cold:.2f} s, ratio {warm / cold:.2f}")
