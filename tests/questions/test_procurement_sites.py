"""Power of a site that is paid for in any case: machines one buys draw on it first, in the plan as in the ledger."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from capplan.book.assumptions.hindsight import HindsightAssumptions
from capplan.book.scenario import LedgerAssumptions
from capplan.errors import CapplanError
from capplan.questions.contracts import owned
from capplan.questions.ledger.costs import site_entries
from capplan.questions.ledger.unit_prices import Prices
from capplan.questions.procurement import Purchases
from capplan.questions.procurement.hindsight.fresh_paths import judge_on_fresh_paths
from tests.cases.procurement_cases import assumptions, demand, offer, problem, settle, sku, solve

HOURS, MONTH = 2190.0, 730.0
ON_DEMAND = offer("od", "on_demand", 4.0)
MACHINES = (sku("gpu"), sku("own", provider="own", power_kw=2.0))
OLD = pd.DataFrame(
    {
        "asset_id": ["old"],
        "sku": ["own"],
        "site": ["room"],
        "machines": [1],
        "in_service": [pd.Timestamp("2022-04-01")],
        "capex_usd": [9_000.0],
    }
)
#: Prices rise at its anniversary, a month before the end of the second quarter.
A_YEAR_BEFORE_JUNE = pd.Timestamp("2026-06-01").date()
#: Energy and upkeep of a machine in a quarter, without its space.
RUN = HOURS * (2.0 * 1.2 * 0.1 + 20_000 * 0.05 / 8760)


def own(capex: float = 20_000.0, **more: Any) -> dict[str, Any]:
    return offer("own", "owned", 0.0, sku="own", region="room", capex_usd=capex, term_months=60) | more


def room(committed_kw: float, **more: Any) -> pd.DataFrame:
    row = {
        "site": "room",
        "geography": "us",
        "available_kw": 100.0,
        "committed_kw": committed_kw,
        "pue": 1.2,
        "usd_per_kwh": 0.1,
        "usd_per_kw_month": 200.0,
    }
    return pd.DataFrame([row | more])


def bought(lots: int, committed_kw: float, **more: Any) -> Purchases:
    """A plan that must buy so many machines at once."""
    assumed = {
        "horizon_quarters": 2,
        "pinned_purchases": (("own", "2027Q1", lots), ("own", "2027Q2", 0)),
        "useful_life_years": 5.0,
    } | more.pop("a", {})
    quarters = assumed["horizon_quarters"]
    return solve(
        demand([[0.0] * quarters]), [ON_DEMAND, own()], assumptions(**assumed), skus=MACHINES, sites=room(committed_kw, **more), assets=OLD
    )


@pytest.mark.parametrize(
    ("committed_kw", "free", "lots"),
    [(0.0, (0.0, 0.0), 1), (2.0, (0.0, 2.0), 2), (5.0, (3.0, 5.0), 1), (5.0, (3.0, 5.0), 3), (50.0, (48.0, 50.0), 2)],
)
def test_only_power_beyond_what_is_committed_is_paid_for(committed_kw: float, free: tuple[float, float], lots: int) -> None:
    """The old machine draws two kilowatts until the end of the first quarter, when its life ends."""
    plan = bought(lots, committed_kw)
    space = [200.0 * 3 * max(2.0 * lots - kilowatts, 0.0) for kilowatts in free]
    assert plan.proof.upper_usd == pytest.approx(20_000 * lots + 2 * RUN * lots + sum(space), rel=1e-12)
    parts = plan.costs.groupby(["component", "quarter"])["usd"].sum()
    saved = [600.0 * 2 * lots - usd for usd in space]
    assert parts.get("power_paid_for", pd.Series([0.0, 0.0])).tolist() == pytest.approx([-usd for usd in saved])
    row = plan.alternatives.set_index("name").loc["plan"]
    shown = plan.costs[~plan.costs["component"].isin(["existing", "shortfall"])]["usd"].sum()
    assert shown == pytest.approx(row["spend_usd"], rel=1e-12)


def idle_space_usd(purchases: pd.DataFrame, first: str, last: str) -> float:
    """Space in the P&L of some months, with five kilowatts committed."""
    a = LedgerAssumptions(as_of=pd.Timestamp("2027-01-01").date(), first_quarter="2027Q1", horizon_quarters=2, hours_convention="average")
    assets = owned(OLD.assign(useful_life_years=5.0, team="shared", cost_center="shared"), 5.0)
    sites = room(5.0).assign(end=pd.NaT, escalator_share_per_year=0.0)
    entries = site_entries(sites, assets, pd.DataFrame(MACHINES), purchases, pd.date_range(first, last, freq="MS"), Prices(a), a)
    return sum(entry.usd for entry in entries if (entry.view, entry.component) == ("p_and_l", "space"))


@pytest.mark.parametrize("lots", [1, 3])
def test_the_ledger_saves_the_same_idle_power(lots: int) -> None:
    plan = bought(lots, 5.0)
    saved = idle_space_usd(plan.purchases.iloc[:0], "2027-01-01", "2027-06-01") - idle_space_usd(plan.purchases, "2027-01-01", "2027-06-01")
    assert saved == pytest.approx(-plan.costs.query("component == 'power_paid_for'")["usd"].sum())


def test_machines_bought_take_over_no_power_after_their_end() -> None:
    """Bought from 2027 to the end of 2031: of the three months from December on, one is saved."""
    purchases = bought(1, 5.0).purchases
    saved = idle_space_usd(purchases.iloc[:0], "2031-12-01", "2032-02-01") - idle_space_usd(purchases, "2031-12-01", "2032-02-01")
    assert saved == pytest.approx(2.0 * 200.0)


@pytest.mark.parametrize(("ending", "quarters"), [("truncate", 2), ("count_in_full", 4)])
def test_power_is_paid_for_until_the_contract_of_the_site_ends(ending: str, quarters: int) -> None:
    """With contracts counted in full it serves until the site's contract ends, a year from now; then it costs what it costs."""
    a = {"horizon_end": ending}
    free, none = bought(1, 8.0, end=pd.Timestamp("2027-12-31"), a=a), bought(1, 0.0, end=pd.Timestamp("2027-12-31"), a=a)
    assert none.proof.upper_usd - free.proof.upper_usd == pytest.approx(600.0 * 2 * quarters)
    assert any("own would stand in room until 2031-12-31, and the contract of the site ends on 2027-12-31" in note for note in free.notes)
    assert not any("would stand in" in note for note in bought(1, 8.0, end=pd.Timestamp("2031-12-31")).notes)


def test_power_is_saved_only_as_long_as_it_is_paid() -> None:
    """Five years of machines, of which two planned quarters and a year count: six quarters of space are saved, not twenty."""
    a = {"horizon_end": "hold_demand", "years_after_horizon": 1}
    free, none = bought(1, 50.0, a=a), bought(1, 0.0, a=a)
    assert none.proof.upper_usd - free.proof.upper_usd == pytest.approx(600.0 * 2 * 6)


def test_prices_of_power_rise_and_are_discounted_as_all_others() -> None:
    """They rise a year after the day of planning, in the last month of the second quarter, and stay so."""
    a = {"discount_rate_per_year": 0.08, "as_of": A_YEAR_BEFORE_JUNE, "horizon_end": "count_in_full", "horizon_quarters": 2}
    gone = pd.Timestamp("2027-09-30")
    free, none = (bought(1, kilowatts, escalator_share_per_year=0.05, end=gone, a=a) for kilowatts in (50.0, 0.0))
    saved = sum(200.0 * 2 * months / 1.08 ** ((q + 0.5) / 4) for q, months in enumerate((3.0, 2 + 1.05, 3 * 1.05)))
    assert none.proof.upper_usd - free.proof.upper_usd == pytest.approx(saved)


def test_no_machine_is_planned_for_a_site_that_is_given_up_by_then() -> None:
    plan = solve(demand([[9.0, 9.0]]), [ON_DEMAND, own(500.0)], skus=MACHINES, sites=room(8.0, end=pd.Timestamp("2027-03-31")))
    assert plan.purchases["quarter"].tolist() == ["2027Q1"]
    with pytest.raises(CapplanError, match="own from 2027Q2, but it can start only in 2027Q1"):
        solve(
            demand([[9.0, 9.0]]),
            [ON_DEMAND, own()],
            assumptions(pinned_purchases=(("own", "2027Q2", 1),)),
            skus=MACHINES,
            sites=room(8.0, end=pd.Timestamp("2027-03-31")),
        )


def test_paid_power_lowers_the_price_at_which_a_machine_pays() -> None:
    """At the entry price of either plan, another lot costs what it saves."""
    one, two = (solve(demand([[1.0, 1.0]]), [ON_DEMAND, own(60_000.0)], skus=MACHINES, sites=room(kilowatts)) for kilowatts in (0.0, 50.0))
    loaded, freed = (plan.rejected.set_index("offer_id").loc["own"] for plan in (one, two))
    assert freed["usd_per_hour"] == loaded["usd_per_hour"]
    assert loaded["reduced_cost_usd"] - freed["reduced_cost_usd"] == pytest.approx(2 * 600.0 * 2)
    capex = 60_000.0 - freed["reduced_cost_usd"] / (1 + 2 * HOURS * 0.05 / 8760)
    for usd, lots in ((capex + 1, 0), (capex - 1, 1)):
        assert settle(demand([[1.0, 1.0]]), [ON_DEMAND, own(usd)], skus=MACHINES, sites=room(50.0)).purchases["lots"].sum() == lots


def test_a_late_machine_does_not_get_its_space_back() -> None:
    """The room waits for it: a fifth of the first quarter late saves energy and upkeep only."""
    late = pd.DataFrame([{"state": "late", "probability": 1.0, "late_days": 18.0, "provider": "own"}])
    a = assumptions(pinned_purchases=(("own", "2027Q1", 1), ("own", "2027Q2", 0)))
    plan = solve(demand([[0.0, 0.0]]), [ON_DEMAND, own()], a, skus=MACHINES, sites=room(50.0), delivery_states=late)
    assert plan.costs.query("component == 'late_delivery'")["usd"].sum() == pytest.approx(-0.2 * RUN)
    assert plan.proof.upper_usd == pytest.approx(20_000 + 1.8 * RUN)


def test_plans_are_judged_on_fresh_paths_with_the_same_power() -> None:
    pins = {"pinned_purchases": (("own", "2027Q1", 3), ("own", "2027Q2", 0))}
    asked = problem(demand([[1.0, 2.0]]), [ON_DEMAND, own()], assumptions(**pins), skus=MACHINES, sites=room(5.0), assets=OLD)
    plan = solve(demand([[1.0, 2.0]]), [ON_DEMAND, own()], assumptions(**pins), skus=MACHINES, sites=room(5.0), assets=OLD)
    fresh = demand([[1.0, 2.0]] * 4).assign(path=lambda frame: frame["path"] + 1)
    a = HindsightAssumptions(**assumptions(**pins).model_dump(), fresh_batches=2)
    found = judge_on_fresh_paths(asked, fresh, plan.purchases, 0.0, a).table.set_index("name")["usd"]
    assert found[["on_its_own_paths", "on_fresh_paths"]].tolist() == pytest.approx([plan.proof.upper_usd] * 2)


# --- brute force ------------------------------------------------------------------------------------------------------------------


@st.composite
def tiny(draw: Any) -> dict[str, Any]:
    """Two quarters, two paths, two machines to buy for one room."""
    loads = st.lists(st.integers(0, 6), min_size=2, max_size=2)
    return {
        "loads": [draw(loads), draw(loads)],
        "committed": draw(st.sampled_from([0.0, 2.0, 5.0, 7.0])),
        "old": draw(st.booleans()),
        "capex": draw(st.sampled_from([5_000.0, 9_000.0, 12_000.0])),
        "big": draw(st.sampled_from([4_000.0, 8_000.0])),
        "rent": draw(st.sampled_from([3.0, 6.0])),
        "rate": draw(st.sampled_from([0.0, 0.1])),
        "rise": draw(st.sampled_from([0.0, 0.1])),
    }


@settings(max_examples=10, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(tiny())
def test_brute_force_finds_nothing_better(case: dict[str, Any]) -> None:
    """Space costs max(0, drawn + new - committed), over what is paid in any case."""
    rows = [offer("od", "on_demand", case["rent"]), own(case["capex"]), own(case["big"], offer_id="big", sku="big")]
    work, a = demand(case["loads"], [0.4, 0.6]), assumptions(discount_rate_per_year=case["rate"], as_of=A_YEAR_BEFORE_JUNE)
    found = settle(
        work,
        rows,
        a,
        skus=(*MACHINES, sku("big", provider="own", power_kw=3.5)),
        sites=room(case["committed"], escalator_share_per_year=case["rise"]),
        assets=OLD if case["old"] else None,
    ).solution
    best = np.inf
    for lots in itertools.product(range(7), repeat=4):
        new, big = np.array([lots[0], lots[0] + lots[1]]), np.array([lots[2], lots[2] + lots[3]])
        total = 0.0
        for q in range(2):
            middle, start = (1 + case["rate"]) ** (-(q + 0.5) / 4), (1 + case["rate"]) ** (-q / 4)
            rise = (3.0, 3.0 + case["rise"])[q] / 3
            drawn = 2.0 if case["old"] and q == 0 else 0.0
            kilowatts = 2.0 * new[q] + 3.5 * big[q]
            space = max(drawn + kilowatts - case["committed"], 0.0) - max(drawn - case["committed"], 0.0)
            upkeep = HOURS * 0.05 / 8760 * (case["capex"] * new[q] + case["big"] * big[q])
            there = new[q] + big[q] + (1 if drawn else 0)
            rented = sum(p * max(path[q] - there, 0) for p, path in zip((0.4, 0.6), case["loads"], strict=True))
            total += middle * (rise * (HOURS * kilowatts * 1.2 * 0.1 + 600.0 * space) + upkeep + HOURS * case["rent"] * rented)
            total += start * (case["capex"] * lots[q] + case["big"] * lots[2 + q])
        best = min(best, total)
    assert found.upper == pytest.approx(best, rel=1e-9, abs=1e-4)
