"""The whole purchase model, built from tables, at the size at which it can no longer be written out.

Run: pytest benchmarks/bench_procurement.py --benchmark-only -s. Six classes of work, five accelerators, forty contracts (leases,
reservations, savings plans)
beside spot and on demand, lead times, quotas, a limit on new machines and work after the horizon; twelve quarters of twelve load blocks.
Ratios of one run are
printed and kept in `extra_info`. The smaller size is the default; CAPPLAN_BENCH_FULL=1 asks for the full one.
"""

from __future__ import annotations

import os
import resource
import time

import numpy as np
import pandas as pd
import pytest

from capplan.book.scenario import ProcurementAssumptions
from capplan.errors import SolveError
from capplan.optimize.extensive import extensive_arrays
from capplan.optimize.program import Solution
from capplan.optimize.solver import solve_arrays
from capplan.optimize.two_stage import TwoStage, solve_two_stage
from capplan.questions.procurement import Problem
from capplan.questions.procurement.decide import Stated, state_problem
from capplan.units import quarter_hours, quarter_range

FULL = os.environ.get("CAPPLAN_BENCH_FULL") == "1"
QUARTERS, CLASSES, KINDS, CONTRACTS, BLOCKS = (12, 6, 5, 40, 12) if FULL else (6, 4, 3, 12, 6)
RISK, TAIL, GAP = 0.3, 0.2, 1e-3
DAY = "2027-01-01"
#: Term, months, price as a share of on demand, days until delivery at the median.
TERMS = [("lease", 6, 0.78, 45.0), ("reserved_1y", 12, 0.62, 60.0), ("reserved_3y", 36, 0.45, 120.0), ("savings_plan_1y", 12, 0.7, 0.0)]
ENDINGS = ("truncate", "hold_demand")


def problem(scenarios: int, ending: str, seed: int = 1) -> Problem:
    """State a purchase: demand as a random walk in load blocks, prices that differ by kind, term and offer."""
    rng = np.random.default_rng(seed)
    kinds, classes = [f"gpu{k}" for k in range(KINDS)], [f"work{c}" for c in range(CLASSES)]
    rent, quarters = np.linspace(2.0, 4.2, KINDS), list(quarter_range("2027Q1", QUARTERS))
    hours = quarter_hours("2027Q1", "average") / BLOCKS
    level = 480 * np.exp(np.cumsum(rng.normal(0.04, 0.12, (scenarios, QUARTERS, CLASSES)), axis=1))
    shape = 1 + (np.linspace(1.7, 0.4, BLOCKS)[:, None] - 1) * rng.uniform(0.2, 1, CLASSES)
    index = pd.MultiIndex.from_product([range(scenarios), quarters, range(BLOCKS), classes], names=["path", "quarter", "block", "class"])
    demand = pd.DataFrame({"work_per_hour": (level[:, :, None, :] * shape).ravel()}, index=index).reset_index()
    demand = demand.assign(probability=1 / scenarios, region="us", hours=hours)
    # names that come again in millions of rows are stored once
    demand = demand.astype(dict.fromkeys(("quarter", "region"), "category"))
    speeds = pd.DataFrame(
        [(c, k, rng.uniform(0.3, 1.0)) for c in classes for k in kinds], columns=["class", "accelerator", "work_per_accelerator_hour"]
    )
    base = {
        "region": "us-1",
        "geography": "us",
        "discounts": "none",
        "guarantees_capacity": False,
        "as_of": pd.Timestamp(DAY),
        "source_id": "s",
    }
    offers = [
        base | {"offer_id": f"{term}-{k}", "sku": k, "term": term, "usd_per_hour": 8 * price * usd, "interruptions_per_hour": 0.05}
        for k, usd in zip(kinds, rent, strict=True)
        for term, price in (("on_demand", 1.0), ("spot", 0.45))
    ]
    for j in range(CONTRACTS):
        k, (term, months, price, lead) = j % KINDS, TERMS[j // KINDS % len(TERMS)]
        plan = term.startswith("savings_plan")
        offers.append(
            base
            | {
                "offer_id": f"{term}-{j}",
                "sku": kinds[k],
                "term": term,
                "term_months": months,
                "discounts": "usd_per_hour" if plan else "units",
                "plan_id": f"plan-{j}" if plan else None,
                "guarantees_capacity": not plan,
                "lead_time_days_p50": lead,
                "lead_time_days_p90": lead + 60,
                "usd_per_hour": 8 * rent[k] * price * rng.uniform(0.95, 1.05),
            }
        )
    limits = [{"limit_id": f"on-demand-{k}", "kind": "on_demand_accelerators", "amount": 320.0, "accelerator": k} for k in kinds]
    limits += [{"limit_id": f"spot-{k}", "kind": "spot_accelerators", "amount": 480.0, "accelerator": k} for k in kinds]
    limits += [{"limit_id": f"quota-{k}", "kind": "quota_accelerators", "amount": 2400.0, "accelerator": k} for k in kinds[:2]]
    limits += [{"limit_id": "new", "kind": "new_accelerators", "amount": 3200.0}]
    a = ProcurementAssumptions(
        as_of=DAY,
        first_quarter="2027Q1",
        horizon_quarters=QUARTERS,
        hours_convention="average",
        risk_weight=RISK,
        tail_share=TAIL,
        gap_share=GAP,
        horizon_end=ending,
    )
    named = {
        "classes": pd.DataFrame(
            {
                "class": classes,
                "unit": "accelerator_hours",
                "interruptible": [c % 2 == 0 for c in range(CLASSES)],
                "deferrable": False,
                "residency": None,
                "stage_kind": "serving",
                "shortfall_usd_per_unit": 25.0,
                "api": "self",
            }
        ),
        "skus": pd.DataFrame(
            {"sku": kinds, "provider": "cloud", "accelerator": kinds, "accelerator_count": 8, "power_kw": None, "source_id": "s"}
        ),
    }
    return Problem(demand=demand, speeds=speeds, assumptions=a, offers=pd.DataFrame(offers), limits=pd.DataFrame(limits), **named)


def coarse_tables(quarters: int, paths: int = 20, level: float = 15.0, seed: int = 1) -> Problem:
    """Return a book in which whole lots bite: few machines of eight accelerators for four classes of work in each of two regions.

    Twelve contracts of half a year to three years beside spot and on demand within caps, three load blocks, work after the horizon.
    """
    rng, kinds, classes, places = np.random.default_rng(seed), [f"gpu{k}" for k in range(3)], [f"work{c}" for c in range(4)], ["us", "eu"]
    rent, blocks, hours = np.linspace(2.0, 3.6, len(kinds)), 3, quarter_hours("2027Q1", "average") / 3
    walk = level * np.exp(np.cumsum(rng.normal(0.04, 0.12, (paths, quarters, len(classes), len(places))), axis=1))
    shape = 1 + (np.linspace(1.7, 0.4, blocks)[:, None] - 1) * rng.uniform(0.2, 1, len(classes))
    index = pd.MultiIndex.from_product(
        [range(paths), quarter_range("2027Q1", quarters), range(blocks), classes, places],
        names=["path", "quarter", "block", "class", "region"],
    )
    demand = pd.DataFrame({"work_per_hour": (walk[:, :, None] * shape[:, :, None]).ravel()}, index=index).reset_index()
    speeds = pd.DataFrame(
        [(c, k, rng.uniform(0.3, 1.0)) for c in classes for k in kinds], columns=["class", "accelerator", "work_per_accelerator_hour"]
    )
    offers = []
    for place in places:
        base = {"region": f"{place}-1", "geography": place, "as_of": pd.Timestamp(DAY), "source_id": "s"}
        offers += [
            base
            | {
                "offer_id": f"{term}-{k}-{place}",
                "sku": k,
                "term": term,
                "usd_per_hour": 8 * price * usd,
                "interruptions_per_hour": 0.05,
                "discounts": "none",
                "guarantees_capacity": False,
            }
            for k, usd in zip(kinds, rent, strict=True)
            for term, price in (("on_demand", 1.0), ("spot", 0.45))
        ]
        for j in range(6):
            k, (term, months, price, lead) = j % len(kinds), TERMS[j // len(kinds) + (place == "eu")]
            offers.append(
                base
                | {
                    "offer_id": f"{term}-{j}-{place}",
                    "sku": kinds[k],
                    "term": term,
                    "term_months": months,
                    "discounts": "units",
                    "guarantees_capacity": True,
                    "lead_time_days_p50": lead,
                    "lead_time_days_p90": lead + 60,
                    "usd_per_hour": 8 * rent[k] * price * rng.uniform(0.95, 1.05),
                }
            )
    limits = [
        {"limit_id": f"{kind}-{k}-{place}", "kind": f"{kind}_accelerators", "amount": most, "accelerator": k, "region": place}
        for k in kinds
        for place in places
        for kind, most in (("on_demand", 40.0), ("spot", 60.0))
    ]
    return Problem(
        demand=demand.assign(probability=1 / paths, hours=hours),
        speeds=speeds,
        offers=pd.DataFrame(offers),
        limits=pd.DataFrame(limits),
        classes=pd.DataFrame(
            {
                "class": classes,
                "unit": "accelerator_hours",
                "interruptible": [True, False, True, False],
                "deferrable": False,
                "residency": None,
                "stage_kind": "serving",
                "shortfall_usd_per_unit": 25.0,
                "api": "self",
            }
        ),
        skus=pd.DataFrame(
            {"sku": kinds, "provider": "cloud", "accelerator": kinds, "accelerator_count": 8, "power_kw": None, "source_id": "s"}
        ),
        assumptions=ProcurementAssumptions(
            as_of=DAY,
            first_quarter="2027Q1",
            horizon_quarters=quarters,
            hours_convention="average",
            risk_weight=RISK,
            tail_share=TAIL,
            horizon_end="hold_demand",
        ),
    )


def stated(scenarios: int, ending: str) -> Stated:
    """Build the purchase program."""
    return state_problem(problem(scenarios, ending))


def solved(program: TwoStage) -> tuple[float, Solution]:
    """Time one solve with CVaR."""
    begin = time.perf_counter()
    solution = solve_two_stage(program, RISK, TAIL, GAP, method="l_shaped")
    spent = time.perf_counter() - begin
    assert solution.gap_share <= GAP
    return spent, solution


def written_out(program: TwoStage, limit_seconds: float) -> tuple[float, float]:
    """Time the extensive form, stopped at a limit; return seconds and the gap that is left."""
    model = extensive_arrays(program, RISK, TAIL)
    begin = time.perf_counter()
    try:
        gap = solve_arrays(model, GAP, time_limit_seconds=limit_seconds).gap_share
    except SolveError:
        gap = np.inf
    return time.perf_counter() - begin, gap


@pytest.mark.parametrize("ending", ENDINGS)
def test_many_scenarios_against_the_extensive_form(benchmark, ending):
    """The extensive form is stopped at ten times our time, which is enough to tell whether it takes five times as long."""
    many, few = (1000, 50) if FULL else (200, 10)
    begin = time.perf_counter()
    program = stated(many, ending).model.program
    building = time.perf_counter() - begin
    spent, solution = benchmark.pedantic(solved, args=(program,), rounds=1)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    theirs, gap = written_out(stated(few, ending).model.program, 10 * spent)
    benchmark.extra_info.update(ratio=spent / theirs, peak_gib=memory, extensive_gap_share=gap)
    print(
        f"\n{ending}: {len(program.h):,} points of {many} scenarios built in {building:.1f} s, solved in {spent:.1f} s, gap"
        f" {solution.gap_share:.1e}, peak memory {memory:.2f} GiB; extensive form, {few} scenarios: {theirs:.1f} s, gap"
        f" {gap:.2g}{' when stopped' if gap > GAP else ''}; ratio {spent / theirs:.3f}{' at most' if gap > GAP else ''}"
    )


@pytest.mark.parametrize("ending", ENDINGS)
def test_growth_with_scenarios(benchmark, ending):
    counts = (50, 200, 1000, 5000) if FULL else (50, 200, 800)
    times = benchmark.pedantic(lambda: [solved(stated(count, ending).model.program)[0] for count in counts], rounds=1)
    per_scenario = [spent / count for spent, count in zip(times, counts, strict=True)]
    benchmark.extra_info.update(seconds=times, last_per_scenario_against_first=per_scenario[-1] / per_scenario[0])
    print(
        f"\n{ending}: "
        + ", ".join(f"{count}: {spent:.1f} s" for count, spent in zip(counts, times, strict=True))
        + f"; time per scenario, most against fewest: {per_scenario[-1] / per_scenario[0]:.2f}"
    )


def test_growth_with_quarters(benchmark):
    """At the default gap, where whole lots bite."""
    counts = (4, 8, 10, 12, 16, 20)
    gap = ProcurementAssumptions.model_fields["gap_share"].default

    def seconds(quarters: int) -> float:
        program = state_problem(coarse_tables(quarters)).model.program
        begin = time.process_time()
        solution = solve_two_stage(program, RISK, TAIL, gap, method="l_shaped")
        assert solution.gap_share <= gap
        return time.process_time() - begin

    times = benchmark.pedantic(lambda: [seconds(count) for count in counts], rounds=1)
    benchmark.extra_info.update(cpu_seconds=times)
    print("\n" + ", ".join(f"{count} quarters: {spent:.1f} CPU s" for count, spent in zip(counts, times, strict=True)))
