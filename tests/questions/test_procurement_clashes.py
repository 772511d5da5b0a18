"""Limits that clash, and inputs that cannot be meant: one clear error says where, what came, and what to do; nothing is left."""

from __future__ import annotations

import datetime as dt
import re
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from capplan.errors import CapplanError
from capplan.questions.procurement import plan_purchases
from tests.cases.golden_programs import LEASE, MACHINES, ON_DEMAND, OWN, limit
from tests.cases.procurement_cases import assumptions, commitment, demand, offer, problem, solve, work_class
from tests.conftest import SKUS, SOURCES

ONE = demand([[10.0]])
QUARTER = {"horizon_quarters": 1}
OLD = commitment("old", 3.0, "2026-07-01", "2027-12-31")
BUDGET = limit("budget_usd", 30_000.0, measure="p_and_l", hard=True)


def level(share: float) -> Any:
    return assumptions(service_level_share=share, **QUARTER)


def pins(*pins: tuple[str, str, int]) -> Any:
    return assumptions(pinned_purchases=pins, **QUARTER)


#: Problems without a plan: what is asked for, and the limits that must be named with how far they must give.
CLASHES: dict[str, tuple[Any, dict[str, Any], list[str]]] = {
    # 9.9 of 10 must be served, 1 by the hour: the quota lacks 1.9
    "quota and service level": (
        level(0.99),
        {"limits": [limit("quota_accelerators", 7.0), limit("on_demand_accelerators", 1.0, limit_id="od")]},
        ["work to 80.00 %", "cap in 2027Q1: 7 must be raised by 1.9"],
    ),
    "on demand and service level": (
        level(1.0),
        {"offers": [ON_DEMAND], "limits": [limit("on_demand_accelerators", 5.0)]},
        ["cap in 2027Q1: 5 must be raised by 5"],
    ),
    "spot and service level": (
        level(0.9),
        {"offers": [offer("spot", "spot", 1.0)], "limits": [limit("spot_accelerators", 5.0)], "classes": [work_class(interruptible=True)]},
        ["cap in 2027Q1: 5 must be raised by 4"],
    ),
    # 9.9 machines at $2 for 2,190 hours cost $43,362
    "hard budget and service level": (level(0.99), {"limits": [BUDGET]}, ["cap in 2027Q1: 30,000 must be raised by 13,362"]),
    "cash budget and service level": (
        level(0.99),
        {"limits": [BUDGET | {"measure": "cash"}]},
        ["cap in 2027Q1: 30,000 must be raised by 13,362"],
    ),
    "power and a pinned purchase": (
        pins(("own", "2027Q1", 5)),
        {"limits": [limit("power_kw", 7.0, region="site")]},
        ["cap 2027Q1: 7 must be raised by 3"],
    ),
    "several at once": (
        pins(("own", "2027Q1", 5), ("lease", "2027Q1", 9)),
        {
            "limits": [
                limit("power_kw", 7.0, region="site", limit_id="kw"),
                limit("quota_accelerators", 8.0, limit_id="q"),
                BUDGET | {"limit_id": "b", "amount": 10_000.0},
            ]
        },
        ["kw 2027Q1: 7 must be raised by 3", "q 2027Q1: 8 must be raised by 6", "b 2027Q1: 10,000 must be raised by 40,"],
    ),
    # contracts signed cost $12,960 in the quarter's 90 days; the limit itself is named, not what they leave of it
    "budget and contracts signed": (
        assumptions(**QUARTER),
        {"limits": [BUDGET | {"amount": 1000.0}], "commitments": [OLD]},
        ["cap 2027Q1: 1,000 must be raised by 11,960"],
    ),
}


@pytest.mark.parametrize("name", CLASHES)
def test_limits_that_clash_are_named_with_how_far_they_must_give(name: str) -> None:
    a, asked, said = CLASHES[name]
    asked = {"offers": [ON_DEMAND, LEASE, *([OWN] if a.pinned_purchases else [])], "skus": MACHINES} | asked
    with pytest.raises(CapplanError) as caught:
        solve(ONE, asked.pop("offers"), a, **asked)
    for words in said:
        assert words in str(caught.value)


@pytest.mark.parametrize("name", ["quota and service level", "hard budget and service level", "on demand and service level"])
def test_as_much_as_is_named_is_enough(name: str) -> None:
    a, asked, said = CLASHES[name]
    asked = {"offers": [ON_DEMAND, LEASE]} | asked
    found = re.fullmatch(r"cap in 2027Q1: ([\d,]+) must be raised by ([\d.,]+)", said[-1])
    assert found is not None
    limit_now, more = (float(text.replace(",", "")) for text in found.groups())
    # whole lots need up to one lot more than parts of lots do
    lot = 4380.0 if limit_now > 100 else 1.0
    raised = [row | {"amount": np.ceil((limit_now + more) / lot) * lot} if row["amount"] == limit_now else row for row in asked["limits"]]
    plan = solve(ONE, asked.pop("offers"), a, **(asked | {"limits": raised}))
    assert plan.service["served_share"].min() >= a.service_level_share - 1e-9


def test_a_problem_too_large_to_be_written_out_is_judged_by_its_mean(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("capplan.questions.procurement.explain.clashes.WRITTEN_OUT_COLUMNS", 0)
    with pytest.raises(CapplanError, match=r"cap in 2027Q1: 7 must be raised by 1.9"):
        solve(
            ONE,
            [ON_DEMAND, LEASE],
            level(0.99),
            limits=[limit("quota_accelerators", 7.0), limit("on_demand_accelerators", 1.0, limit_id="od")],
        )


BLOCK = {"term_months": 3.0, "available_from": pd.Timestamp("2026-01-01"), "available_to": pd.Timestamp("2026-03-31")}
#: Offers, limits and other inputs that cannot be meant, and what the error says.
BAD: dict[str, tuple[dict[str, Any], str]] = {
    "no length": ({"offers": [ON_DEMAND, offer("x", "lease", 1.0)]}, r"offer x does not say how long it runs; state term_months"),
    "no kind of contract": ({"offers": [ON_DEMAND, offer("x", "", 1.0)]}, r"offers, row 2, column term; must be one of on_demand"),
    "an unknown kind of contract": (
        {"offers": [ON_DEMAND, offer("x", "reserved_2y", 1.0)]},
        r"offers, row 2, column term: found 'reserved_2y'.*[Dd]id you mean reserved",
    ),
    "a length of zero": (
        {"offers": [ON_DEMAND, offer("x", "lease", 1.0, term_months=0.0)]},
        r"row 2, column term_months: found '0.0'; must be a number above 0",
    ),
    "longer than anybody can know": (
        {"offers": [ON_DEMAND, offer("x", "lease", 1.0, term_months=5e4)]},
        r"column term_months: found '50000.0'; must be .*at most 1200",
    ),
    "a block in the past": (
        {"offers": [ON_DEMAND, offer("x", "capacity_block", 1.0, **BLOCK)]},
        r"capacity block x starts on 2026-01-01.*delete it, exclude it, or correct",
    ),
    "a window that ends before it begins": (
        {"offers": [ON_DEMAND, offer("x", "capacity_block", 1.0, **(BLOCK | {"available_to": pd.Timestamp("2025-03-31")}))]},
        r"available_from must not lie after available_to",
    ),
    "a price below zero": (
        {"offers": [ON_DEMAND, LEASE | {"usd_per_hour": -1.0}]},
        r"offers, row 2, column usd_per_hour: found '-1.0'; must be a number at least 0",
    ),
    "no price": (
        {"offers": [ON_DEMAND, LEASE | {"usd_per_hour": np.nan}]},
        r"offers, row 2, column usd_per_hour; must be a number at least 0",
    ),
    "a lot of nothing": (
        {"offers": [ON_DEMAND, LEASE | {"lot_machines": 0}]},
        r"column lot_machines: found '0.*'; must be a whole number at least 1",
    ),
    "more at least than at most": (
        {"offers": [ON_DEMAND, LEASE | {"minimum_lots": 5, "maximum_lots": 3}]},
        r"minimum_lots 5 exceeds maximum_lots 3",
    ),
    "an offer twice": ({"offers": [ON_DEMAND, LEASE, LEASE]}, r"column offer_id: found 'lease'; the key occurs already in row 2"),
    "no offers": ({"offers": []}, r"the table offers lacks the column offer_id"),
    "a limit below zero": (
        {"limits": [limit("quota_accelerators", -1.0)]},
        r"limits, row 1, column amount: found '-1.0'; must be a number at least 0",
    ),
    "a limit of nothing": ({"limits": [limit("quota_accelerators", np.nan)]}, r"limits, row 1, column amount; must be a number"),
    "an unknown limit": ({"limits": [limit("quta", 1.0)]}, r"limits, row 1, column kind: found 'quta'"),
    "a share in percent": (
        {"limits": [limit("spot_share", 20.0)]},
        r"limits, row 1, column amount: found '20.0'; a share lies between 0 and 1",
    ),
    "probabilities that do not sum to 1": (
        {"work": demand([[1.0], [2.0]], [0.5, 0.4])},
        r"probabilities of the 2 demand paths sum to 0.9; they must sum to 1",
    ),
    "a probability below zero": (
        {"work": demand([[1.0], [2.0]], [1.5, -0.5])},
        r"path 1 has the probability -0.5; probabilities are 0 or more",
    ),
    "demand that is no number": ({"work": demand([[np.nan]])}, r"demand of class 'work' in 2027Q1, path 0, is nan"),
    "endless demand": ({"work": demand([[np.inf]])}, r"demand of class 'work' in 2027Q1, path 0, is inf"),
    "a class that nothing serves": ({"speeds": [("work", "B200", 1.0)]}, r"no offer can serve class 'work': its speeds name B200"),
    "a region where nothing is offered": ({"work": demand([[1.0]], region="eu")}, r"no offer can serve class 'work' in eu"),
    "no speeds": ({"speeds": []}, r"no offer can serve class 'work': its speeds name no accelerator"),
    "a speed of zero": (
        {"speeds": [("work", "H100", 0.0)]},
        r"class 'work' does 0.0 an hour on H100; work_per_accelerator_hour is above 0",
    ),
    "a speed that is no number": ({"speeds": [("work", "H100", np.nan)]}, r"class 'work' does nan an hour on H100"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_meant_is_one_clear_error(name: str) -> None:
    given, said = BAD[name]
    more = {"work": ONE, "offers": [ON_DEMAND, LEASE]} | given
    with pytest.raises(CapplanError, match=said):
        solve(more.pop("work"), more.pop("offers"), assumptions(**QUARTER), **more)


@pytest.mark.parametrize("size", [1.0, 1e3, 1e9])
def test_billions_beside_one_are_both_served(size: float) -> None:
    """Work in tokens beside work in hours, at prices of a billionth and of a million: the plan is that of the same work in equal units."""
    work = pd.concat([demand([[5 * size]], name="tokens"), demand([[1.0]], name="hours")])
    plan = solve(
        work,
        [ON_DEMAND, LEASE, offer("mad", "lease", 1e6, term_months=3)],
        assumptions(**QUARTER),
        limits=[limit("budget_usd", 1e12, measure="p_and_l", hard=True)],
        speeds=[("tokens", "H100", size), ("hours", "H100", 1.0)],
        classes=[work_class("tokens", shortfall_usd_per_unit=25 / size), work_class("hours")],
    )
    assert plan.proof.upper_usd == pytest.approx(6 * 2.0 * 2190, rel=1e-9)
    assert plan.service["served_share"].min() == pytest.approx(1.0)


def test_tables_of_other_types_give_the_same_plan() -> None:
    """Days as texts or dates, whole numbers as reals, categories and nullable types, empty cells and any index are read alike."""
    texts = [
        row | {"as_of": "2027-01-01", "usd_per_hour": int(row["usd_per_hour"]), "available_from": day}
        for row, day in ((ON_DEMAND, None), (LEASE, dt.date(2027, 1, 1)))
    ]
    empty = {"quarter": np.nan, "provider": None, "region": np.nan, "accelerator": None, "measure": None, "hard": None}
    quota = [limit("quota_accelerators", 20) | empty]
    asked = problem(ONE, [ON_DEMAND, LEASE], assumptions(**QUARTER), limits=quota)
    plain = asked.offers
    frames = [
        pd.DataFrame(texts),
        plain.set_axis([7, 7]),
        plain.astype({"offer_id": "category", "term": "category"}),
        plain.convert_dtypes(),
    ]
    for offers in frames:
        plan = plan_purchases(replace(asked, demand=asked.demand.convert_dtypes(), speeds=asked.speeds.convert_dtypes(), offers=offers))
        assert plan.proof.upper_usd == pytest.approx(43_800.0)


TABLES = {
    "skus": SKUS,
    "sources": SOURCES,
    "offers": (
        "offer_id,sku,region,geography,term,usd_per_hour,discounts,guarantees_capacity,as_of,source_id\nod,test.8x,us-1,us,on_demand,32,none,false,2026-12-01,s1\n"
        "one,test.8x,us-1,us,reserved_1y,20,units,true,2026-12-01,s1\n"
    ),
    "workloads": "workload,stage,unit\nchat,serving,accelerator_hours\n",
    "speeds": "workload,accelerator,work_per_accelerator_hour,basis\nchat,H100,1,measured\n",
    "demand_scenarios": "scenario,probability,workload,quarter,quantity\nlow,0.5,chat,2027Q1,50000\nhigh,0.5,chat,2027Q1,90000\n",
    "limits": "limit_id,kind,amount,measure\nod,on_demand_accelerators,8,\nquota,quota_accelerators,16,\n",
    "book": "name: tiny\nas_of: 2026-12-01\nfirst_quarter: 2027Q1\nhorizon_quarters: 1\n",
}
BOOKS: dict[str, tuple[dict[str, str], list[str], list[str]]] = {
    "limits that clash": ({}, ["-p", "service_level_share=0.99"], ["service_level_share is 0.99", "quota in 2027Q1: 16 must be raised by"]),
    "a hard budget too": (
        {"limits": TABLES["limits"] + "b,budget_usd,100000,p_and_l\n"},
        ["-p", "service_level_share=0.99"],
        ["b in 2027Q1: 100,000 must be raised by"],
    ),
    "probabilities": (
        {"demand_scenarios": TABLES["demand_scenarios"].replace("0.5,chat,2027Q1,9", "0.4,chat,2027Q1,9")},
        [],
        ["probabilities of the scenarios must sum to 1"],
    ),
    "no length": ({"offers": TABLES["offers"].replace("reserved_1y", "lease")}, [], ["leases and capacity blocks must state their length"]),
    "nothing serves": (
        {"workloads": "workload,stage,unit,residency\nchat,serving,accelerator_hours,mars\n"},
        [],
        ["no offer can serve class"],
    ),
}


@pytest.mark.parametrize("name", BOOKS)
def test_a_book_without_a_plan_says_why_and_leaves_nothing(
    name: str, make_book: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    from capplan.cli import main

    changed, options, said = BOOKS[name]
    book = make_book(**(TABLES | changed))
    monkeypatch.setattr(sys, "argv", ["capplan", "plan", str(book), "--out", str(tmp_path / "reports"), *options])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code not in (0, None)
    text = capsys.readouterr().err
    for words in said:
        assert words in text
    assert "Traceback" not in text
    assert not (tmp_path / "reports").exists()
