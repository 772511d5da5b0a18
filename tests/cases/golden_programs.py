"""Tiny purchase problems, one for each kind of constraint, written out whole as LP files that a person can read.

`python -m tests.cases.golden_programs` writes the files in tests/golden anew; read the difference before it is committed.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pulp

from capplan.optimize.late_decisions import branch_program
from capplan.optimize.program import TwoStage, cost_states
from capplan.optimize.solver import arrays
from capplan.questions.procurement.decide import Stated, state_problem
from capplan.questions.procurement.explain.demand_branches import demand_branches, later_columns
from tests.cases.procurement_cases import assumptions, commitment, demand, offer, problem, sku, work_class

FOLDER = Path(__file__).resolve().parents[1] / "golden"
ON_DEMAND = offer("od", "on_demand", 4.0)
LEASE = offer("lease", "lease", 2.0, term_months=3)
YEAR = offer("year", "reserved_1y", 2.0)
OWN = offer("own", "owned", 0.0, sku="own", region="site", capex_usd=10_000.0, term_months=60)
MACHINES = (sku("gpu"), sku("own", provider="own", power_kw=2.0))
RIVAL = (sku("gpu"), sku("other", provider="rival"))
LATER = work_class(stage_kind="batch", deferrable=True)
OWNED = pd.DataFrame(
    {
        "asset_id": ["old"],
        "sku": ["own"],
        "site": ["site"],
        "machines": [1],
        "in_service": [pd.Timestamp("2022-04-01")],
        "capex_usd": [9_000.0],
    }
)
SITE = pd.DataFrame(
    {"site": ["site"], "geography": ["us"], "available_kw": [9.0], "pue": [1.2], "usd_per_kwh": [0.1], "usd_per_kw_month": [73.0]}
)


def limit(kind: str, amount: float, **more: Any) -> dict[str, Any]:
    return {"limit_id": "cap", "kind": kind, "amount": amount} | more


def agreement(start: str, end: str, usd: float, **more: Any) -> dict[str, Any]:
    return {"agreement_id": "edp", "provider": "cloud", "start": pd.Timestamp(start), "end": pd.Timestamp(end), "committed_usd": usd} | more


def state(*rows: Any, **more: Any) -> Stated:
    """Build a problem that is not solved yet."""
    return state_problem(problem(*rows, **more))


#: What each file shows, as its first line says: the rule, and the rows and columns in which it is written.
SHOWS = {
    "whole_lots_with_a_minimum": (
        "An offer in lots of four, none or at least two and at most nine: the on-off column any_, and the rows that tie lots to it"
    ),
    "volume_tiers": "A price for fewer than 5, for 5 to 8 and for 9 lots or more: one column a tier, at most one of them on",
    "pinned_purchase": "A purchase that is decided already: the lower bound of its column",
    "renewal": (
        "A contract that ends may be renewed for its own term, any number of its machines: the column buy_renew_, capacity from the day"
        " after its end"
    ),
    "renewal_that_can_no_longer_be_stopped": (
        "A contract whose day of notice is past renews by itself: its column is held at all of its machines"
    ),
    "quota": "At most 7 accelerators of a kind, 3 of them signed: the row cap leaves 4 for what is bought",
    "quota_over_all_use": "A quota of 7 that counts use by the hour beside what is bought: a row over use, which purchases narrow",
    "contract_left_or_exchanged": (
        "A contract that may be given up at half of what is left, or exchanged for one of the same provider, or renewed: columns buy_leave_"
        " and buy_exchange_, the row machines_of_ over all three, and the row exchange_ that buys at least what is given back"
    ),
    "new_accelerators": "At most 3 accelerators that begin in a quarter: a row cap for each quarter, over the purchases that start there",
    "power": "At most 7 kW at a site for machines one owns, of 2 kW each: the row cap",
    "power_of_a_site": "A site's own power of 9 kW at a PUE of 1.2: a row although no limit names it",
    "power_that_is_paid_for": "Power that a site's contract pays anyway: columns for what is drawn within it, and rows that hold it there",
    "share_of_a_provider": "At most half of what is held may stand with one provider: its machines less half of all",
    "hard_budget": (
        "Spend by contract within the budget for sure, and with the expected use by the hour of both paths: the rows cap, and cap with"
        " expected use"
    ),
    "soft_budget": "A budget that may be broken at a price: the column over_ in both rows and in the cost",
    "cash_budget": "A budget on cash: half of a year paid at signing counts in the first quarter with that quarter's running half",
    "capital_budget": "A budget on purchases of machines: their price in the quarter of purchase, and no use by the hour",
    "spend_agreement": (
        "So much to be spent with a provider in each contract year, what is left of the first rolling over: rows spend_, columns unspent_"
        " that are paid"
    ),
    "deferral": (
        "Work put off by a quarter, decided before demand is known: a column that takes it from one quarter's work and adds it to the next"
    ),
    "discount_without_capacity": (
        "A discount on machines had on demand: use beside it stays within the cap on demand, discounts within what is bought"
    ),
    "savings_plan": (
        "Dollars an hour, drawn at each machine's plan rate and lost when unused: a row of dollars over two machines' discounts"
    ),
    "reservation_without_discount": "Capacity at the price on demand: paid used or not, beside the cap on demand",
    "spot": "Spot for work that may be interrupted, a fifth of a paid hour lost: at most 3 in the pool, at most a fifth of the work",
    "spot_that_is_scarce_when_demand_is_high": "Demand a fifth above its mean takes part of the spot: the cap is lower on the high path",
    "on_demand_of_which_a_share_is_had": "Of what is asked for on demand four fifths are had: use counts by its inverse towards the cap",
    "cap_over_two_places": "One cap over two places at different prices: a row over the use of both pools",
    "api_with_a_rate_limit": "Work that an API may serve at its rate limit, shared by two regions: the row api_rate over both",
    "speeds_and_residency": (
        "Two classes, two accelerators, different speeds, one bound to the US: work per accelerator, and no column where data may not go"
    ),
    "after_the_horizon": (
        "Contracts that outlast the horizon: the last quarter's demand served in the years after it, at gross cost, by what still runs,"
        " what replaces it and by the hour; unused hours let at a share of their own price"
    ),
    "branches": "Later purchases that follow the demand seen by the next review: their columns once for low and once for high demand",
    "late_delivery_bridged": (
        "A delivery that slips by an expected number of days: the price of the bridge in the cost of a lot that is to begin then"
    ),
    "late_delivery_in_states": (
        "A delivery that is 45 days late in one of two states: its capacity is missing in the first part of that quarter, which has a point"
        " of its own, and so is its bill"
    ),
    "price_states": "The price on demand in two states: each path once at today's price and once at twice as much",
    "egress": "Data that leaves its home at a price for each GiB: a higher cost of use away from home",
    "payment_schedule": (
        "A contract paid a quarter at signing and the rest after three months, within cash budgets: the payments in the rows of their"
        " quarters"
    ),
    "booking_window": "An offer that can be booked from April on: a column for the second quarter only",
    "capacity_block": (
        "Six weeks of capacity that serve work which can be moved into them, and no other: the share of the quarter that they cover"
    ),
}
ONE, TWO = demand([[10.0]]), demand([[10.0, 12.0]])
#: What each file shows, and the problem in it.
CASES: dict[str, Callable[[], Stated]] = {
    "whole_lots_with_a_minimum": lambda: state(ONE, [ON_DEMAND, LEASE | {"lot_machines": 4, "minimum_lots": 2, "maximum_lots": 9.0}]),
    "volume_tiers": lambda: state(
        ONE, [ON_DEMAND, LEASE], offer_tiers=pd.DataFrame({"offer_id": "lease", "from_lots": [5, 9], "usd_per_hour": [1.8, 1.5]})
    ),
    "pinned_purchase": lambda: state(ONE, [ON_DEMAND, LEASE], assumptions(horizon_quarters=1, pinned_purchases=(("lease", "2027Q1", 12),))),
    "renewal": lambda: state(TWO, [ON_DEMAND], commitments=[commitment("old", 4.0, "2026-04-01", "2027-03-31", renewal_usd_per_hour=3.0)]),
    "renewal_that_can_no_longer_be_stopped": lambda: state(
        TWO,
        [ON_DEMAND],
        commitments=[
            commitment(
                "old", 4.0, "2026-04-01", "2027-03-31", renewal_usd_per_hour=9.0, renews=True, notice_date=pd.Timestamp("2026-12-01")
            )
        ],
    ),
    "quota": lambda: state(
        ONE, [ON_DEMAND, LEASE], limits=[limit("quota_accelerators", 7.0)], commitments=[commitment("old", 3.0, "2026-07-01", "2027-12-31")]
    ),
    "quota_over_all_use": lambda: state(
        ONE,
        [ON_DEMAND, offer("spot", "spot", 1.0), LEASE],
        classes=[work_class(interruptible=True)],
        limits=[limit("quota_accelerators", 7.0, counts="all")],
    ),
    "contract_left_or_exchanged": lambda: state(
        TWO,
        [ON_DEMAND, YEAR],
        assumptions(approval_days=0),
        commitments=[
            commitment("old", 4.0, "2026-07-01", "2027-03-31", 6.0, exit_cost_share=0.5, exchangeable=True, renewal_usd_per_hour=3.0)
        ],
    ),
    "new_accelerators": lambda: state(TWO, [ON_DEMAND, YEAR], limits=[limit("new_accelerators", 3.0)]),
    "power": lambda: state(ONE, [ON_DEMAND, OWN], limits=[limit("power_kw", 7.0, region="site")], skus=MACHINES),
    "power_of_a_site": lambda: state(ONE, [ON_DEMAND, OWN], skus=MACHINES, sites=SITE),
    "power_that_is_paid_for": lambda: state(
        TWO, [ON_DEMAND, OWN], skus=MACHINES, sites=SITE.assign(committed_kw=5.0, end=pd.Timestamp("2027-12-31")), assets=OWNED
    ),
    "share_of_a_provider": lambda: state(
        ONE,
        [LEASE, LEASE | {"offer_id": "rival", "sku": "other", "usd_per_hour": 2.5}],
        limits=[limit("provider_share", 0.5, provider="cloud")],
        skus=RIVAL,
    ),
    "hard_budget": lambda: state(
        demand([[10.0], [4.0]]), [ON_DEMAND, LEASE], limits=[limit("budget_usd", 43_800.0, measure="p_and_l", hard=True)]
    ),
    "soft_budget": lambda: state(ONE, [ON_DEMAND, LEASE], limits=[limit("budget_usd", 43_800.0, measure="p_and_l", hard=False)]),
    "cash_budget": lambda: state(
        ONE, [ON_DEMAND, YEAR | {"upfront_share": 0.5}], limits=[limit("budget_usd", 43_800.0, measure="cash", hard=True)]
    ),
    "capital_budget": lambda: state(
        ONE, [ON_DEMAND, OWN], limits=[limit("budget_usd", 25_000.0, measure="capex", hard=True)], skus=MACHINES
    ),
    "spend_agreement": lambda: state(
        TWO,
        [ON_DEMAND, LEASE],
        spend_agreements=pd.DataFrame(
            [agreement("2027-01-01", "2027-03-31", 60_000.0, rolls_over=True), agreement("2027-04-01", "2027-06-30", 90_000.0)]
        ),
    ),
    "deferral": lambda: state(
        demand([[10.0, 2.0]]), [ON_DEMAND], assumptions(deferral_quarters=1), limits=[limit("on_demand_accelerators", 6.0)], classes=[LATER]
    ),
    "discount_without_capacity": lambda: state(
        ONE, [ON_DEMAND, YEAR | {"guarantees_capacity": False}], limits=[limit("on_demand_accelerators", 6.0)]
    ),
    "savings_plan": lambda: state(
        ONE,
        [
            ON_DEMAND,
            offer("od-a", "on_demand", 2.0, sku="old"),
            offer("sp", "savings_plan_1y", 2.5, discounts="usd_per_hour", plan_id="p"),
            offer("sp-a", "savings_plan_1y", 1.5, sku="old", discounts="usd_per_hour", plan_id="p"),
        ],
        skus=[sku("gpu"), sku("old", "A100")],
        speeds=[("work", "H100", 1.0), ("work", "A100", 0.5)],
    ),
    "reservation_without_discount": lambda: state(
        ONE,
        [ON_DEMAND, YEAR | {"usd_per_hour": 4.5, "discounts": "none", "guarantees_capacity": True}],
        limits=[limit("on_demand_accelerators", 6.0)],
    ),
    "spot": lambda: state(
        ONE,
        [ON_DEMAND, offer("spot", "spot", 1.0, interruptions_per_hour=0.4)],
        classes=[work_class(interruptible=True)],
        limits=[limit("spot_share", 0.2), limit("spot_accelerators", 3.0, limit_id="most")],
    ),
    "spot_that_is_scarce_when_demand_is_high": lambda: state(
        demand([[8.0], [12.0]]),
        [ON_DEMAND, offer("spot", "spot", 1.0)],
        classes=[work_class(interruptible=True)],
        limits=[limit("spot_accelerators", 5.0)],
    ),
    "on_demand_of_which_a_share_is_had": lambda: state(
        ONE, [ON_DEMAND | {"available_share": 0.8}], limits=[limit("on_demand_accelerators", 10.0)]
    ),
    "cap_over_two_places": lambda: state(
        demand([[10.0]], region="any"),
        [ON_DEMAND, offer("eu", "on_demand", 3.0, region="eu-1", geography="eu")],
        limits=[limit("on_demand_accelerators", 7.0)],
    ),
    "api_with_a_rate_limit": lambda: state(
        pd.concat([ONE, demand([[5.0]], region="eu")]),
        [ON_DEMAND, offer("eu", "on_demand", 3.0, region="eu-1", geography="eu")],
        limits=[limit("on_demand_accelerators", 4.0)],
        classes=[work_class(api="either", api_usd_per_unit=9.0, api_units_per_hour=3.0)],
    ),
    "speeds_and_residency": lambda: state(
        pd.concat([ONE, demand([[6.0]], name="batch", region="any")]),
        [ON_DEMAND, offer("eu", "lease", 1.0, term_months=3, sku="old", region="eu-1", geography="eu")],
        skus=[sku("gpu"), sku("old", "A100")],
        classes=[work_class(residency="us"), work_class("batch")],
        speeds=[("work", "H100", 1.0), ("batch", "H100", 3.0), ("batch", "A100", 1.0)],
    ),
    "after_the_horizon": lambda: state(
        ONE,
        [ON_DEMAND, YEAR, offer("half", "lease", 1.8, term_months=6)],
        assumptions(horizon_quarters=1, horizon_end="hold_demand", reuse_share=0.3),
    ),
    "late_delivery_bridged": lambda: state(
        demand([[0.0, 10.0]]), [ON_DEMAND, LEASE | {"lead_time_days_p50": 90.0, "lead_time_days_p90": 120.0}]
    ),
    "late_delivery_in_states": lambda: state(
        ONE,
        [ON_DEMAND, LEASE | {"lead_time_days_p50": 0.0, "lead_time_days_p90": 60.0}],
        delivery_states=pd.DataFrame({"state": ["on time", "late"], "probability": [0.75, 0.25], "late_days": [0.0, 45.0]}),
    ),
    "price_states": lambda: state(
        ONE,
        [ON_DEMAND, LEASE | {"usd_per_hour": 5.0}],
        price_states=pd.DataFrame({"state": ["today", "dear"], "probability": [0.6, 0.4], "on_demand_factor": [1.0, 2.0]}),
    ),
    "egress": lambda: state(
        demand([[10.0]], region="any"),
        [ON_DEMAND, offer("rival", "on_demand", 2.5, sku="other")],
        skus=RIVAL,
        classes=[work_class(home_provider="cloud", home_region="us", egress_gib_per_unit=5.0)],
        egress_prices=pd.DataFrame({"provider": ["cloud"], "crossing": ["other_provider"], "usd_per_gib": [0.09]}),
    ),
    "payment_schedule": lambda: state(
        TWO,
        [ON_DEMAND, YEAR | {"upfront_share": 0.25}],
        assumptions(horizon_end="count_in_full"),
        limits=[limit("budget_usd", 87_600.0, measure="cash", hard=True)],
        offer_payments=pd.DataFrame({"offer_id": ["year"], "months_after_start": [3.0], "share": [0.75]}),
    ),
    "booking_window": lambda: state(
        TWO, [ON_DEMAND, LEASE | {"available_from": pd.Timestamp("2027-04-01"), "available_to": pd.Timestamp("2027-06-30")}]
    ),
    "capacity_block": lambda: state(
        pd.concat([ONE, demand([[6.0]], name="batch")]),
        [ON_DEMAND, offer("block", "capacity_block", 1.0, term_months=1.5, available_from=pd.Timestamp("2027-01-01"), maximum_lots=4.0)],
        classes=[work_class(), work_class("batch", stage_kind="batch", deferrable=True)],
        speeds=[("work", "H100", 1.0), ("batch", "H100", 1.0)],
    ),
    "branches": lambda: state(demand([[4.0, 0.0], [8.0, 8.0]]), [ON_DEMAND, LEASE], assumptions(approval_days=0)),
}


def written(stated: Stated, branched: bool = False) -> tuple[pulp.LpProblem, TwoStage]:
    """Write a problem out: its decisions, and what is done in every quarter and path once demand is known."""
    program, columns = stated.model.program, [variable.name for variable in stated.model.problem.variables()]
    rows = list(arrays(stated.model.problem).row_names)
    recourse = stated.recourse
    pools = stated.market.pools
    pool = [f"{row.provider} {row.accelerator} {row.place}" if len(pools) > 1 else "" for row in pools.itertuples()]
    work = [f"{row['class']} {row['region']}" if len(stated.work.rows) > 1 else "" for row in stated.work.rows.to_dict("records")]
    used = _unlike([_name(row["source"], row, work, pool) for row in recourse.columns.to_dict("records")])
    kept = _unlike([_name(row["kind"], row, work, pool, row["limit_id"]) for row in recourse.rows.to_dict("records")])
    if branched:
        branch, _ = demand_branches(stated.work, 1, 2)
        later = later_columns(stated.model, stated.choices)
        found = branch_program(program, later, branch)
        both = [f"{name} if {word}" for word in ("low", "high") for name, late in zip(columns, later, strict=True) if late]
        columns = [*[name for name, late in zip(columns, later, strict=True) if not late], *both]
        columns += [f"lift {place}" for place in range(len(found.program.c) - len(columns))]
        program, rows = found.program, [f"rule {place}" for place in range(len(found.program.b))]
        used += [f"cost of later purchases {place}" for place in range(program.W.shape[1] - len(used))]
        kept += [f"later purchases {place}" for place in range(program.W.shape[0] - len(kept))]
    labels = stated.choices.timeline.quarters
    many = program.scenario.max() > 0
    points = [f" {labels[stage]}" + (f" path {path}" if many else "") for stage, path in zip(recourse.stage, program.scenario, strict=True)]
    points = _unlike(points) if len(points) > 1 else [""]
    lines = pulp.LpProblem("purchases", pulp.LpMinimize)
    x = [
        lines.add_variable(name, low, None if np.isinf(high) else high, "Integer" if whole else "Continuous")
        for name, low, high, whole in zip(columns, program.lower, program.upper, program.integer, strict=True)
    ]
    weight = program.weight * program.probability[program.scenario]
    y = [[lines.add_variable(f"{name}{point}", 0) for name in used] for point in points]
    costs, state_of = cost_states(program)
    states = state_of[program.technology]
    cost = [_sum(program.c, x)] + [_sum(weight[p] * costs[states[p]], y[p]) for p in range(len(points))]
    lines += pulp.lpSum(cost), "cost"
    for name, entries, sense, side in zip(rows, program.A.toarray(), program.sense, program.b, strict=True):
        lines += _rule(_sum(entries, x), sense, side), name
    for row, about in zip(program.expected, stated.model.budgets.to_dict("records"), strict=True):
        mass = program.probability[program.scenario] * row.weight * row.points
        spent = [_sum(mass[p] * (row.g if np.ndim(row.g) == 1 else row.g[states[p]]), y[p]) for p in range(len(points))]
        lines += pulp.lpSum([_sum(row.a, x), *spent]) <= row.limit, f"{about['limit_id']} {about['quarter']} with expected use"
    W = program.W.toarray()
    for p, point in enumerate(points):
        given = program.T[program.technology[p]].toarray()
        for i, name in enumerate(kept):
            lines += _rule(_sum(W[i], y[p]) + _sum(given[i], x), program.recourse_sense[i], program.h[p, i]), f"{name}{point}"
    return lines, program


def _name(kind: str, row: dict[str, Any], work: list[str], pool: list[str], limit_id: str = "") -> str:
    """Name a row or column of the recourse by what it is about."""
    if limit_id.startswith(kind):
        return limit_id
    about = [limit_id, work[row["row"]] if row["row"] >= 0 else "", pool[row["pool"]] if row["pool"] >= 0 else ""]
    return " ".join([kind, *[text for text in about if text]])


def _unlike(names: list[str]) -> list[str]:
    """Number names that occur more than once."""
    return [name if names.count(name) == 1 else f"{name} {names[: place + 1].count(name)}" for place, name in enumerate(names)]


def _sum(entries: np.ndarray, variables: list[Any]) -> Any:
    return pulp.LpAffineExpression({variables[j]: float(f"{entries[j]:.10g}") for j in np.flatnonzero(entries)})


def _rule(used: Any, sense: str, side: float) -> Any:
    return used <= side if sense == "<" else used >= side if sense == ">" else used == side


def lp_text(name: str, folder: Path) -> tuple[str, TwoStage]:
    """Return the LP file of a case, and its program."""
    stated = CASES[name]()
    problem, program = written(stated, branched=name == "branches")
    path = folder / f"{name}.lp"
    problem.writeLP(str(path), max_length=200)
    path.write_text(f"\\* {SHOWS[name]} *\\\n" + path.read_text(encoding="utf-8").split("\n", 1)[1], encoding="utf-8")
    return path.read_text(encoding="utf-8"), program


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for each in CASES:
        lp_text(each, FOLDER)
