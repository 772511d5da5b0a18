"""Values of limits and entry prices by whole lots: what is said comes true when the plan is made again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from capplan.questions.procurement import Purchases
from capplan.questions.procurement.explain.sentences import entry_words
from tests.cases.procurement_cases import assumptions, demand, offer, settle, sku, solve

HOURS = 2190.0
ON_DEMAND = offer("od", "on_demand", 4.0)
YEAR = offer("year", "reserved_1y", 2.0, lot_machines=8)


def quota(amount: float, **more: object) -> dict[str, object]:
    return {"limit_id": "quota", "kind": "quota_accelerators", "amount": amount} | more


def test_a_quota_is_worth_what_the_next_whole_lot_saves() -> None:
    """Lots of eight under a quota of nine: one more accelerator saves nothing, seven more let a lot in."""

    def planned(amount: float) -> Purchases:
        return solve(demand([[20.0] * 4]), [ON_DEMAND, YEAR], limits=[quota(amount)])

    plan = planned(9.0)
    (row,) = plan.limit_lots.to_dict("records")
    assert (row["limit_id"], row["more"], row["offer_id"], row["machines"], row["instead_of"]) == ("quota", 7.0, "year", 8.0, "")
    assert (row["from_quarter"], row["to_quarter"]) == ("2027Q1", "2027Q4"), "in all quarters that the lot is there"
    assert row["saves_usd"] == pytest.approx(4 * HOURS * 8 * (4.0 - 2.0))
    assert plan.proof.upper_usd - planned(10.0).proof.upper_usd == pytest.approx(0.0, abs=1e-6)
    assert plan.proof.upper_usd - planned(16.0).proof.upper_usd == pytest.approx(row["saves_usd"])
    assert plan.binding.set_index("limit_id").loc["quota", "usd_per_unit"].isna().all(), "no value by the unit is said"
    words = plan.explanation.set_index("about").at["limit: quota", "words"]
    assert words == "7 more in 2027Q1 to 2027Q4 for 8 more machines of year from 2027Q1 would save $140.2k."


def test_a_quota_that_counts_what_is_rented_too_is_valued_alike() -> None:
    """Eight are bought and one is rented; seven more let a second lot in, which leaves nothing to rent."""

    def planned(amount: float) -> Purchases:
        return solve(demand([[20.0] * 4]), [ON_DEMAND, YEAR], limits=[quota(amount, counts="all")])

    plan = planned(9.0)
    (row,) = plan.limit_lots.to_dict("records")
    assert (row["limit_id"], row["more"], row["offer_id"]) == ("quota", 7.0, "year")
    assert row["saves_usd"] == pytest.approx(plan.proof.upper_usd - planned(16.0).proof.upper_usd)


def test_an_offer_that_a_limit_holds_back_has_no_price_at_which_it_would_pay() -> None:
    rows = [ON_DEMAND, offer("other", "reserved_1y", 2.5, lot_machines=12)]
    plan = solve(demand([[20.0] * 4]), rows, limits=[quota(9.0)])
    row = plan.rejected.set_index("offer_id").loc["other"]
    assert row["why"].startswith("held back by a limit")
    assert row[["reduced_cost_usd", "entry_usd_per_hour"]].isna().all()
    assert plan.limit_lots.set_index("offer_id").at["other", "more"] == 3.0
    assert "Its price is not what stands against it." in plan.explanation.set_index("about").at["not taken: other", "words"]


def test_a_machine_needs_the_limit_until_it_ends() -> None:
    rows = [ON_DEMAND, offer("long", "reserved_3y", 2.0, lot_machines=8)]
    (row,) = solve(demand([[20.0] * 4]), rows, limits=[quota(9.0)]).limit_lots.to_dict("records")
    assert (row["from_quarter"], row["to_quarter"]) == ("2027Q1", "2029Q4")


def test_limits_that_stand_in_the_way_together_are_named_together() -> None:
    limits = [quota(9.0), {"limit_id": "new", "kind": "new_accelerators", "amount": 10.0, "quarter": "2027Q1"}]
    rows = [ON_DEMAND, YEAR | {"maximum_lots": 2.0}]
    plan = solve(demand([[20.0]]), rows, limits=limits)
    (row,) = plan.limit_lots.to_dict("records")
    assert {row["limit_id"], row["besides"].split(":")[0]} == {"quota", "new"}
    both = solve(demand([[20.0]]), rows, limits=[quota(9.0 + 7.0), {**limits[1], "amount": 16.0}])
    assert plan.proof.upper_usd - both.proof.upper_usd == pytest.approx(row["saves_usd"])


def test_a_limit_may_be_worth_an_exchange() -> None:
    """The quota holds one maker's machines; a lot of it would replace one of the dearer maker's."""
    rows = [ON_DEMAND, YEAR, offer("dear", "reserved_1y", 3.0, lot_machines=8, sku="rival")]
    plan = solve(demand([[16.0] * 4]), rows, limits=[quota(9.0, provider="cloud")], skus=[sku("gpu"), sku("rival", provider="other")])
    row = plan.limit_lots.set_index("offer_id").loc["year"]
    assert row["instead_of"] == "dear 2027Q1"
    assert row["saves_usd"] == pytest.approx(4 * HOURS * 8 * (3.0 - 2.0))


@pytest.mark.parametrize("needed", [[12.0] * 4, [5.0, 9.0, 13.0, 17.0], [3.0, 3.0, 3.0, 3.0]])
@pytest.mark.parametrize("size", [1, 4, 8])
def test_an_offer_is_taken_just_below_the_price_that_is_named(needed: list[float], size: int) -> None:
    def planned(price: float) -> Purchases:
        poor = offer("poor", "reserved_1y", price, lot_machines=size)
        return solve(demand([needed, [2 + 1.5 * amount for amount in needed]]), [ON_DEMAND, YEAR, poor], assumptions(gap_share=0.0))

    plan = planned(4.5)
    row = plan.rejected.set_index("offer_id").loc["poor"]
    assert row["judged_by"] == "all plans"
    assert row["reduced_cost_usd"] > 0
    below = row["entry_usd_per_hour"] - 1e-3
    assert below < 0 or "poor" in set(planned(below).purchases["offer_id"])


def test_a_reservation_is_priced_as_what_it_is_at_that_price() -> None:
    """Above the price by the hour it reserves capacity, below it pays for it; nothing is said of prices where nothing is wanted."""
    rows = [ON_DEMAND, offer("good", "lease", 2.0, term_months=3), offer("held", "reserved_1y", 4.4, discounts="none")]
    row = solve(demand([[10.0] * 4]), rows).rejected.set_index("offer_id").loc["held"]
    assert (row["judged_by"], row["entry_usd_per_hour"]) == ("all plans", pytest.approx(2.0))
    idle = solve(demand([[0.0]]), rows).rejected
    assert idle["judged_by"].eq("parts of lots").all()
    assert idle["entry_usd_per_hour"].isna().all()


@pytest.mark.parametrize(
    ("pays", "none", "judged", "words"),
    [
        (1.5, 1.5, "all plans", " It would begin to pay at $1.50."),
        (1.5, 1.8, "whole lots", " It pays at $1.50 an hour or less, not at $1.80 or more."),
        (1.5, np.nan, "whole lots", " It pays at $1.50 an hour or less, and perhaps at more: the proven gap does not tell."),
        (np.nan, 1.8, "whole lots", " It pays not at $1.80 or more."),
        (np.nan, 0.0, "all plans", " It would pay at no price."),
        (np.nan, np.nan, "whole lots", ""),
        (2.1, np.nan, "whole lots", ""),
    ],
)
def test_prices_are_said_with_what_is_proven_of_them(pays: float, none: float, judged: str, words: str) -> None:
    row = {"usd_per_hour": 2.0, "entry_usd_per_hour": pays, "none_from_usd_per_hour": none, "judged_by": judged, "why": "costs more"}
    assert entry_words(row, lambda name: f"${row[name]:.2f}") == words


def random_book(seed: int, price: float, room: float = 0.0) -> tuple[list[Any], dict[str, Any]]:
    """State a random small book with an offer at a price, under a quota that has some more room."""
    rng = np.random.default_rng(seed)
    loads = rng.integers(2, 25, (int(rng.integers(1, 4)), 4)).astype(float).tolist()
    year = offer("year", "reserved_1y", round(float(rng.uniform(1.8, 3.2)), 2), lot_machines=int(rng.integers(1, 6)))
    half = offer("half", "lease", round(float(rng.uniform(2.2, 3.6)), 2), term_months=6, lot_machines=int(rng.integers(1, 5)))
    limits = [quota(float(rng.integers(5, 20)) + room)]
    poor = offer("poor", "reserved_1y", price, lot_machines=int(rng.integers(1, 6)))
    a = assumptions(gap_share=0.0, risk_weight=0.3 * (seed % 2))
    return [demand(loads), [ON_DEMAND, year, half, poor], a], {"limits": limits}


@pytest.mark.parametrize("seed", range(8))
def test_what_is_said_of_limits_and_prices_comes_true_when_all_is_solved_again(seed: int) -> None:
    asked, limits = random_book(seed, 4.5)
    plan = solve(*asked, **limits)
    for row in plan.limit_lots.to_dict("records"):
        asked, limits = random_book(seed, 4.5, row["more"])
        assert settle(*asked, **limits).solution.upper <= plan.proof.upper_usd - row["saves_usd"] + 1e-3
    for row in plan.rejected[plan.rejected["offer_id"] == "poor"].dropna(subset="entry_usd_per_hour").to_dict("records"):
        asked, limits = random_book(seed, row["entry_usd_per_hour"] - 1e-3)
        assert "poor" in set(settle(*asked, **limits).purchases["offer_id"])


@pytest.mark.parametrize("kw", [7.0, 3.5])
def test_power_is_worth_what_the_next_machine_saves(kw: float) -> None:
    """Machines of 3 kW in a room that has less left than one draws: so much more lets in one, and a little less of it lets in none."""
    own = offer("own", "owned", 0.0, sku="own", region="room", capex_usd=20_000.0, term_months=60)

    def planned(power: float) -> Purchases:
        room = {"site": "room", "geography": "us", "available_kw": power, "committed_kw": power, "pue": 1.2, "usd_per_kwh": 0.1}
        sites = pd.DataFrame([room | {"usd_per_kw_month": 0.0}])
        machines = [sku("gpu"), sku("own", provider="own", power_kw=3.0)]
        return solve(demand([[9.0] * 4]), [ON_DEMAND, own], skus=machines, sites=sites)

    plan, more = planned(kw), 3.0 - kw % 3.0
    (row,) = plan.limit_lots.to_dict("records")
    assert (row["kind"], row["offer_id"], row["machines"], row["more"]) == ("power_kw", "own", 1.0, pytest.approx(more))
    assert (row["from_quarter"], row["to_quarter"]) == ("2027Q1", "2031Q4")
    assert row["saves_usd"] == pytest.approx(plan.proof.upper_usd - planned(kw + more).proof.upper_usd)
    assert planned(kw + 0.9 * more).proof.upper_usd == pytest.approx(plan.proof.upper_usd)
    (words,) = plan.explanation.loc[plan.explanation["about"] == f"limit: {row['limit_id']}", "words"]
    assert words.startswith(f"{more:g} kW more in 2027Q1 to 2031Q4 for 1 more machine of own from 2027Q1 would save $")


def test_a_plan_rationed_by_a_hard_budget_names_no_lots() -> None:
    """Its neighbours would use what pays, which the budget forbids: they are no measure."""
    held = {"limit_id": "cap", "kind": "budget_usd", "amount": 2 * HOURS, "measure": "p_and_l", "hard": True}
    plan = solve(demand([[20.0]]), [offer("od", "on_demand", 2.0)], limits=[held])
    assert plan.limit_lots.empty
    assert isinstance(plan.limit_lots, pd.DataFrame)
