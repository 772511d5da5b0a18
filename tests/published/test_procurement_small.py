"""A small procurement problem whose optimum two independent formulations agree on, to the dollar, through the public face."""

from __future__ import annotations

import functools

import pandas as pd
import pytest

from capplan.book.scenario import DemandAssumptions, ProcurementAssumptions, build_scenario
from capplan.questions.demand import class_demand, class_speeds, class_table, stated_demand
from capplan.questions.procurement import Problem, Purchases, plan_purchases
from capplan.units import quarter_range

QUARTERS = quarter_range("2027Q1", 8)
DEMAND = {"us": [310, 345, 388, 430, 474, 522, 575, 633], "eu": [120, 131, 150, 163, 180, 197, 221, 240]}
PATHS = {"low": (0.80, 0.3), "mid": (1.00, 0.5), "high": (1.45, 0.2)}
PRICES = {"on_demand": (3.90, 4.20), "spot": (1.70, 1.95), "reserved_1y": (2.60, 2.80), "reserved_3y": (1.95, 2.10)}
LEAD = {"reserved_1y": 90.0, "reserved_3y": 180.0}
DAY = pd.Timestamp("2027-01-01")


def book() -> dict[str, pd.DataFrame]:
    """The problem as tables of a book."""
    skus = pd.DataFrame({"sku": ["node"], "provider": "cloud", "accelerator": "H100", "accelerator_count": 8, "source_id": "example"})
    offers = pd.DataFrame(
        [
            {
                "offer_id": f"{region}-{term}",
                "sku": "node",
                "region": f"{region}-1",
                "geography": region,
                "term": term,
                "usd_per_hour": 8 * prices[place],
                "lot_machines": 1,
                "maximum_lots": 250.0 if term in LEAD else None,
                "lead_time_days_p50": LEAD.get(term, 0.0),
                "discounts": "units" if term in LEAD else "none",
                "guarantees_capacity": term in LEAD,
                "interruptions_per_hour": 0.0 if term == "spot" else None,
                "as_of": DAY,
                "source_id": "example",
            }
            for term, prices in PRICES.items()
            for place, region in enumerate(("us", "eu"))
        ]
    )
    commitments = pd.DataFrame(
        {
            "commitment_id": ["old-us", "old-eu"],
            "sku": "node",
            "region": ["us-1", "eu-1"],
            "term": "reserved_1y",
            "machines": [32.0, 12.0],
            "usd_per_hour": 20.0,
            "start": pd.Timestamp("2026-07-01"),
            "end": [pd.Timestamp("2027-09-30"), pd.Timestamp("2028-03-31")],
        }
    )
    limits = pd.DataFrame(
        [
            {"limit_id": f"{kind} {region}", "kind": kind, "amount": amount, "region": region}
            for region, cap in (("us", 128.0), ("eu", 64.0))
            for kind, amount in (("on_demand_accelerators", cap), ("spot_accelerators", 1e6), ("spot_share", 0.2))
        ]
    )
    workloads = pd.DataFrame(
        {
            "workload": ["work"],
            "stage": "serving",
            "unit": "accelerator_hours",
            "interruptible": True,
            "host": "self",
            "deferrable": False,
            "shortfall_usd_per_unit": 25.0,
            "residency": None,
            "work_class": None,
        }
    )
    speeds = pd.DataFrame({"workload": ["work"], "accelerator": "H100", "work_per_accelerator_hour": 1.0, "basis": "stated"})
    return {"skus": skus, "offers": offers, "commitments": commitments, "limits": limits, "workloads": workloads, "speeds": speeds}


def scenarios(paths: dict[str, tuple[float, float]]) -> pd.DataFrame:
    return pd.DataFrame(
        [
            {
                "scenario": name,
                "probability": probability,
                "workload": "work",
                "region": region,
                "quarter": quarter,
                "quantity": factor * amount * 2190,
            }
            for name, (factor, probability) in paths.items()
            for region, amounts in DEMAND.items()
            for quarter, amount in zip(QUARTERS, amounts, strict=True)
        ]
    )


@functools.cache
def solve(which: str = "all", **values: object) -> Purchases:
    """Plan the small problem under given assumptions."""
    base = {
        "as_of": "2027-01-01",
        "first_quarter": "2027Q1",
        "horizon_quarters": 8,
        "hours_convention": "average",
        "discount_rate_per_year": 0.0,
        "risk_weight": 0.0,
        "gap_share": 1e-8,
        "horizon_end": "truncate",
    }
    scenario = build_scenario(base | values)
    a = scenario.section(ProcurementAssumptions)
    tables = book()
    paths = PATHS if which == "all" else {"mid": (1.0, 1.0)}
    forecast = stated_demand(scenarios(paths), scenario.section(DemandAssumptions))
    work, speeds = tables["workloads"], tables["speeds"]
    named = {name: tables[name] for name in ("offers", "skus", "commitments", "limits")}
    asked = Problem(
        class_demand(forecast.paths, forecast.blocks, work), class_speeds(speeds, work), class_table(work, speeds, a), a, **named
    )
    return plan_purchases(asked)


def test_deterministic() -> None:
    assert solve("mid").proof.upper_usd == pytest.approx(16_315_938, abs=1)


def test_two_stage() -> None:
    plan = solve()
    assert plan.proof.upper_usd == pytest.approx(18_951_661, abs=1)
    assert plan.proof.upper_usd - plan.proof.lower_usd < 1
    value = plan.information.set_index("name")["usd"]
    assert value["evpi"] == pytest.approx(1_714_434, abs=1)
    assert value["vss"] == pytest.approx(2_206_465, abs=1)
    assert plan.alternatives.set_index("name").at["plan", "worst_usd"] == pytest.approx(32.27e6, abs=0.005e6)


def test_mixed() -> None:
    plan = solve(risk_weight=0.5, tail_share=0.2)
    costs = plan.alternatives.set_index("name").loc["plan"]
    assert costs["objective_usd"] == pytest.approx(24_258_116, abs=1)
    assert costs["expected_usd"] == pytest.approx(20_946_454, abs=1)
    assert costs["worst_usd"] == pytest.approx(27.57e6, abs=0.005e6)


def test_truncation_hides_liabilities_and_says_so() -> None:
    plan = solve()
    assert plan.purchases["beyond_horizon_usd"].sum() == pytest.approx(29.4e6, abs=0.05e6)
    three_years = plan.purchases[plan.purchases["term"] == "reserved_3y"].groupby("quarter")["lots"].sum()
    assert three_years.sum() == 103
    assert three_years.reindex(QUARTERS[-4:]).sum() == 53
    assert any(
        "Payments of $29.4M fall after the last planned quarter" in note and "the plan's cost of $19.0M leaves them out" in note
        for note in plan.notes
    )
    assert any("counted in full" in note and "would take 0 accelerators on terms above a year" in note for note in plan.notes)
    assert "truncating hides them" in plan.explanation.set_index("about").at["after the horizon", "words"]


def test_counting_in_full_buys_one_year_contracts_only() -> None:
    lots = solve(horizon_end="count_in_full").purchases.groupby("term")["lots"].sum()
    assert lots.to_dict() == {"reserved_1y": 113}
