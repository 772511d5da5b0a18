"""One kind of accelerator a region: against a model specialised by hand with PuLP and CBC, and against PyPSA with HiGHS.

Run: pytest benchmarks/bench_regions.py --benchmark-only -s. Six regions, 12 quarters, 40 scenarios, contracts of 2, 4 and 12 quarters in
lots of 8, a quota over all regions. Ours is proven to 1e-6; CBC is asked for the same and stopped at CBC_SECONDS; PyPSA is asked for
1e-3. Ratios of one run are printed and kept in `extra_info`. PyPSA is no dependency: `uv sync --group bench` brings it.
"""

from __future__ import annotations

import time
from typing import NamedTuple

import numpy as np
import pytest
from scipy import sparse

from capplan.optimize.two_stage import TwoStage, solve_two_stage

REGIONS, QUARTERS, SCENARIOS, LOT, MOST_LOTS, CAP, SHORTFALL = 6, 12, 40, 8, 60, 16.0, 25.0
HOURS = 2190.0
CBC_SECONDS, PYPSA_SECONDS = 60, 150
SHARE_OF_RENT = {2: 0.78, 4: 0.62, 12: 0.45}
NO_QUOTA = 1e6


class Instance(NamedTuple):
    """Demand (scenario, quarter, region), rent by region, and contracts: region, active (quarter, contract), cost of a lot."""

    demand: np.ndarray
    rent: np.ndarray
    region: np.ndarray
    active: np.ndarray
    cost: np.ndarray
    quota: float


def draw(seed: int, quota: float) -> Instance:
    rng = np.random.default_rng(seed)
    growth = np.exp(np.cumsum(rng.normal(0.04, 0.15, (SCENARIOS, QUARTERS, REGIONS)), axis=1))
    demand = 40 * growth * rng.uniform(0.5, 1.5, REGIONS)
    rent = rng.uniform(2.5, 4.0, REGIONS)
    rows = [(r, term, start) for r in range(REGIONS) for term in SHARE_OF_RENT for start in range(QUARTERS)]
    region, term, start = (np.array(column) for column in zip(*rows, strict=True))
    quarter = np.arange(QUARTERS)[:, None]
    active = (quarter >= start) & (quarter < start + term)
    price = rent[region] * np.vectorize(SHARE_OF_RENT.get)(term) * rng.uniform(0.97, 1.03, len(rows))
    return Instance(demand, rent, region, active, HOURS * LOT * price * active.sum(axis=0), quota)


def two_stage(instance: Instance) -> TwoStage:
    n, rows = len(instance.cost), 3 * REGIONS
    columns, q = [], []
    for r in range(REGIONS):
        for places, price in (([r, REGIONS + r], 0.0), ([r, 2 * REGIONS + r], instance.rent[r]), ([r], SHORTFALL)):
            column = np.zeros(rows)
            column[places] = 1.0
            columns.append(column)
            q.append(price)
    T = []
    for active in instance.active:
        matrix = np.zeros((rows, n))
        matrix[REGIONS + instance.region, np.arange(n)] = -LOT * active
        T.append(sparse.csr_matrix(matrix))
    points = QUARTERS * SCENARIOS
    h = np.zeros((points, rows))
    h[:, :REGIONS], h[:, 2 * REGIONS :] = np.moveaxis(instance.demand, 0, 1).reshape(points, REGIONS), CAP
    return TwoStage(
        c=instance.cost,
        A=sparse.csr_matrix(LOT * instance.active),
        b=np.full(QUARTERS, instance.quota),
        sense=np.full(QUARTERS, "<"),
        lower=np.zeros(n),
        upper=np.full(n, float(MOST_LOTS)),
        integer=np.ones(n, dtype=bool),
        q=np.array(q),
        W=sparse.csr_matrix(np.array(columns).T),
        recourse_sense=np.array([">"] * REGIONS + ["<"] * (2 * REGIONS)),
        T=T,
        technology=np.repeat(np.arange(QUARTERS), SCENARIOS),
        h=h,
        weight=np.full(points, HOURS),
        scenario=np.tile(np.arange(SCENARIOS), QUARTERS),
        probability=np.full(SCENARIOS, 1 / SCENARIOS),
    )


def by_cbc(instance: Instance) -> tuple[float, float]:
    """Capacity by region and quarter as its own variable, on demand capped by a bound, one row a scenario; return seconds and cost."""
    import pulp

    begin = time.perf_counter()
    model = pulp.LpProblem("regions", pulp.LpMinimize)
    lots = [pulp.LpVariable(f"x{j}", 0, MOST_LOTS, "Integer") for j in range(len(instance.cost))]
    cost = [usd * x for usd, x in zip(instance.cost, lots, strict=True)]
    rows = []
    for t, active in enumerate(instance.active):
        rows.append(pulp.lpSum(LOT * lots[j] for j in np.flatnonzero(active)) <= instance.quota)
        for r in range(REGIONS):
            held = pulp.LpVariable(f"k{t}_{r}", 0)
            rows.append(held == pulp.lpSum(LOT * lots[j] for j in np.flatnonzero(active & (instance.region == r))))
            for s in range(SCENARIOS):
                rented, short = pulp.LpVariable(f"o{t}_{r}_{s}", 0, CAP), pulp.LpVariable(f"u{t}_{r}_{s}", 0)
                rows.append(held + rented + short >= instance.demand[s, t, r])
                cost += [HOURS / SCENARIOS * instance.rent[r] * rented, HOURS / SCENARIOS * SHORTFALL * short]
    model += pulp.lpSum(cost)
    for row in rows:
        model += row
    model.solve(pulp.PULP_CBC_CMD(msg=0, gapRel=1e-6, threads=1, timeLimit=CBC_SECONDS))
    return time.perf_counter() - begin, float(pulp.value(model.objective))


def by_pypsa(instance: Instance) -> tuple[float, float]:
    """Each start of a contract is a generator of modular size, available in its quarters; without the quota; return seconds and cost."""
    import pandas as pd

    pypsa = pytest.importorskip("pypsa", reason="PyPSA is not installed; it comes with the dependency group bench")
    begin = time.perf_counter()
    network = pypsa.Network()
    network.set_snapshots(range(QUARTERS))
    network.snapshot_weightings.loc[:, :] = HOURS
    places, loads = [f"region {r}" for r in range(REGIONS)], [f"load {r}" for r in range(REGIONS)]
    contracts = [f"contract {j}" for j in range(len(instance.cost))]
    network.add("Bus", places)
    network.add("Load", loads, bus=places, p_set=instance.demand[0])
    network.add(
        "Generator",
        contracts,
        bus=[places[r] for r in instance.region],
        p_nom_extendable=True,
        p_nom_mod=LOT,
        p_nom_max=MOST_LOTS * LOT,
        capital_cost=instance.cost / LOT,
        p_max_pu=pd.DataFrame(instance.active.astype(float), index=network.snapshots, columns=contracts),
    )
    network.add("Generator", [f"rent {r}" for r in range(REGIONS)], bus=places, p_nom=CAP, marginal_cost=instance.rent)
    network.add("Generator", [f"short {r}" for r in range(REGIONS)], bus=places, p_nom=1e5, marginal_cost=SHORTFALL)
    network.set_scenarios({f"s{s}": 1 / SCENARIOS for s in range(SCENARIOS)})
    for s in range(SCENARIOS):
        for r in range(REGIONS):
            network.loads_t.p_set[f"s{s}", loads[r]] = instance.demand[s, :, r]
    network.optimize.create_model()
    network.model.solve(solver_name="highs", mip_rel_gap=1e-3, threads=1, time_limit=PYPSA_SECONDS, log_to_console=False, progress=False)
    return time.perf_counter() - begin, float(network.model.objective.value)


def ours(instance: Instance):
    problem = two_stage(instance)
    begin = time.perf_counter()
    solution = solve_two_stage(problem, 0.0, 0.2, 1e-6)
    assert solution.gap_share <= 1e-6
    return time.perf_counter() - begin, solution


@pytest.mark.parametrize("quota", [NO_QUOTA, 400.0])
def test_against_a_specialised_model_with_cbc(benchmark, quota):
    instance = draw(1, quota)
    spent, solution = benchmark.pedantic(ours, args=(instance,), rounds=1)
    theirs, cost = by_cbc(instance)
    assert solution.lower <= cost * (1 + 1e-6)
    benchmark.extra_info.update(ratio=theirs / spent)
    print(
        f"\nquota {quota:g}: ours {spent:.2f} s, {solution.upper:,.0f}, gap {solution.gap_share:.1e}; CBC {theirs:.1f} s, {cost:,.0f}"
        f"{' (stopped)' if theirs >= CBC_SECONDS else ''}; {theirs / spent:.0f} times as fast"
    )


def test_against_pypsa(benchmark):
    instance = draw(1, NO_QUOTA)
    spent, solution = benchmark.pedantic(ours, args=(instance,), rounds=1)
    theirs, cost = by_pypsa(instance)
    assert solution.lower <= cost * (1 + 1e-6)
    assert cost <= solution.upper * (1 + 1e-3)
    benchmark.extra_info.update(ratio=theirs / spent)
    print(
        f"\nours {spent:.2f} s, {solution.upper:,.0f}, gap {solution.gap_share:.1e}; PyPSA {theirs:.1f} s, {cost:,.0f};"
        f" {theirs / spent:.0f} times as fast"
    )
