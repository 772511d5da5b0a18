"""What can be had by the hour: spot that is scarcer when demand is high, and on demand of which only a share is had."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

from capplan.book.assumptions.hindsight import HindsightAssumptions
from capplan.errors import CapplanError
from capplan.questions.procurement.decide import state_problem
from capplan.questions.procurement.hindsight.fresh_paths import judge_on_fresh_paths, together
from capplan.questions.procurement.hindsight.rehearsal import Rehearsal
from tests.cases.procurement_cases import assumptions, blocks, demand, offer, problem, sku, solve, work_class

HOURS = 2190.0
ON_DEMAND = offer("od", "on_demand", 4.0)
SPOT = offer("spot", "spot", 1.0)
SOFT = [work_class(interruptible=True)]


def cap(kind: str, amount: float, **more: object) -> dict[str, object]:
    return {"limit_id": kind, "kind": kind, "amount": amount} | more


def test_spot_is_scarcer_where_demand_stands_above_what_is_expected() -> None:
    """Twelve where ten are expected is 20 % above: half of that is gone of the five; what lies below expectation takes nothing away."""
    plan = solve(demand([[8.0], [12.0]]), [ON_DEMAND, SPOT], classes=SOFT, limits=[cap("spot_accelerators", 5.0)])
    low, high = 5 * 1.0 + 3 * 4.0, 4.5 * 1.0 + 7.5 * 4.0
    assert plan.proof.upper_usd == pytest.approx(HOURS * (low + high) / 2, rel=1e-12)
    assert "leaves 5 % less of it (spot_scarcity). In 50 % of the hours all that is left is used." in " ".join(plan.notes)
    row = plan.binding.set_index("limit_id").loc["spot_accelerators"]
    assert row[["limit", "used", "slack"]].tolist() == pytest.approx([5.0, 5.0, 0.0])
    assert row["usd_per_unit"] == pytest.approx(HOURS * 3.0)


@pytest.mark.parametrize(("scarcity", "left"), [(0.0, 5.0), (1.0, 4.0), (5.0, 0.0), (10.0, 0.0)])
def test_how_much_is_gone_is_an_assumption(scarcity: float, left: float) -> None:
    a = assumptions(horizon_quarters=1, spot_scarcity=scarcity)
    plan = solve(demand([[8.0], [12.0]]), [ON_DEMAND, SPOT], a, classes=SOFT, limits=[cap("spot_accelerators", 5.0)])
    used = plan.dispatch.set_index("source")["expected_accelerator_hours"]
    assert used["spot"] == pytest.approx(HOURS * (5.0 + left) / 2)


def test_what_is_expected_differs_by_block_and_a_sure_peak_takes_nothing_away() -> None:
    plan = solve(blocks([[(0.1, 40.0), (0.9, 10.0)]]), [ON_DEMAND, SPOT], classes=SOFT, limits=[cap("spot_accelerators", 6.0)])
    assert plan.dispatch.set_index("source").at["spot", "expected_accelerator_hours"] == pytest.approx(HOURS * 6.0)
    assert not any("spot_scarcity" in note for note in plan.notes)


def test_work_that_competes_for_a_pool_makes_its_spot_scarce_and_other_work_does_not() -> None:
    """Serving that may not be interrupted runs on the same machines; work in Europe does not."""
    near = pd.concat([demand([[4.0], [4.0]], name="batch"), demand([[4.0], [8.0]])])
    far = pd.concat([demand([[4.0], [4.0]], name="batch"), demand([[4.0], [8.0]], region="eu")])
    rows = [ON_DEMAND, SPOT, offer("eu", "on_demand", 4.0, region="eu-1", geography="eu")]
    for work, left in ((near, 3 * (1 - 0.5 * 0.2)), (far, 3.0)):
        plan = solve(
            work,
            rows,
            classes=[work_class(), work_class("batch", interruptible=True)],
            limits=[cap("spot_accelerators", 3.0)],
            speeds=[("work", "H100", 1.0), ("batch", "H100", 1.0)],
        )
        assert plan.dispatch.query("source == 'spot'")["expected_accelerator_hours"].sum() == pytest.approx(HOURS * (3.0 + left) / 2)


def test_spot_stays_scarce_after_the_horizon_where_demand_is_held() -> None:
    """Above the spot that is left a year's contract saves something dearer, in each of its four quarters."""
    a = assumptions(horizon_quarters=1, horizon_end="hold_demand")
    year = offer("year", "reserved_1y", 3.5, maximum_lots=1.0)
    plan = solve(demand([[8.0], [12.0]]), [ON_DEMAND, SPOT, year], a, classes=SOFT, limits=[cap("spot_accelerators", 11.5)])
    # Spot serves 8 and 10.35 of 8 and 12; a contract replaces an hour of it on the low path and on demand on the high one, later a
    # contract made anew.
    saved = (0.5 * 1.0 + 0.5 * 4.0) + 3 * (0.5 * 1.0 + 0.5 * 3.5) - 4 * 3.5
    entry = plan.rejected.set_index("offer_id").loc["year"]
    assert entry["reduced_cost_usd"] == pytest.approx(-HOURS * saved)


def test_a_cap_that_holds_in_one_quarter_is_scarce_there_and_the_assumed_one_elsewhere() -> None:
    a = assumptions(spot_accelerators=2.0)
    plan = solve(
        demand([[8.0, 8.0], [12.0, 12.0]]), [ON_DEMAND, SPOT], a, classes=SOFT, limits=[cap("spot_accelerators", 4.0, quarter="2027Q2")]
    )
    used = plan.dispatch.query("source == 'spot'").set_index("quarter")["expected_accelerator_hours"] / HOURS
    assert used.to_dict() == pytest.approx({"2027Q1": 2 * 0.95, "2027Q2": 4 * 0.95})


def test_more_demand_everywhere_takes_no_more_spot_away() -> None:
    """Expectations rise with it."""
    one, two = (
        solve(demand([[8.0 * factor], [12.0 * factor]]), [SPOT, ON_DEMAND], classes=SOFT, limits=[cap("spot_accelerators", 5.0)])
        for factor in (1.0, 2.0)
    )
    for plan in (one, two):
        assert plan.dispatch.set_index("source").at["spot", "expected_accelerator_hours"] == pytest.approx(HOURS * 4.75)
    assert one.proof.upper_usd < two.proof.upper_usd


# --- on demand --------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [1.0, 0.75])
def test_newsvendor_where_on_demand_is_capped_and_partly_had(share: float) -> None:
    r"""Beyond what is committed and had on demand work is left undone: underage there is the shortfall price.

    With c committed at 2 an hour, m = share x 16 had at 4 and the rest missed at 25, the least cost is where
    :math:`4 P(D > c) + 21 P(D > c + m) = 2`.
    """
    load = np.round(norm.ppf((np.arange(200) + 0.5) / 200, 100, 25), 2)
    rows = [ON_DEMAND | {"available_share": share}, offer("lease", "lease", 2.0, term_months=3)]
    plan = solve(demand([[value] for value in load]), rows, limits=[cap("on_demand_accelerators", 16.0)])
    committed = np.arange(250.0)[:, None]
    over = np.maximum(load - committed, 0.0)
    cost = 2 * committed[:, 0] + (4 * np.minimum(over, 16 * share) + 25 * np.maximum(over - 16 * share, 0.0)).mean(axis=1)
    assert plan.purchases["machines"].sum() == cost.argmin()
    assert plan.proof.upper_usd == pytest.approx(HOURS * cost.min(), rel=1e-9)
    c = cost.argmin()
    marginal = [4 * (load > level).mean() + 21 * (load > level + 16 * share).mean() for level in (c - 1, c)]
    assert marginal[0] >= 2.0 >= marginal[1]


def test_what_is_asked_for_is_capped_and_what_is_had_is_paid() -> None:
    plan = solve(demand([[10.0]]), [ON_DEMAND | {"available_share": 0.8}], limits=[cap("on_demand_accelerators", 10.0)])
    assert plan.proof.upper_usd == pytest.approx(HOURS * (8 * 4.0 + 2 * 25.0))
    row = plan.binding.set_index("limit_id").loc["on_demand_accelerators"]
    assert row[["limit", "used", "slack"]].tolist() == pytest.approx([10.0, 10.0, 0.0])
    assert row["usd_per_unit"] == pytest.approx(HOURS * 0.8 * 21.0)
    free = plan.alternatives.set_index("name").loc["all_on_demand"]
    assert free["expected_usd"] == pytest.approx(HOURS * 40.0)


def test_an_offer_that_states_no_share_has_the_assumed_one() -> None:
    a = assumptions(horizon_quarters=1, on_demand_available_share=0.5, on_demand_accelerators=10.0)
    rows = [ON_DEMAND, offer("slow", "on_demand", 3.0, sku="old", available_share=1.0)]
    plan = solve(demand([[20.0]]), rows, a, skus=[sku("gpu"), sku("old", "A100")], speeds=[("work", "H100", 1.0), ("work", "A100", 1.0)])
    assert plan.proof.upper_usd == pytest.approx(HOURS * (10 * 3.0 + 5 * 4.0 + 5 * 25.0))


@pytest.mark.parametrize("share", [0.0, 1.5, -0.1])
def test_a_share_that_cannot_be_is_refused(share: float) -> None:
    with pytest.raises(CapplanError, match=r"available_share(: found| that is not above 0)"):
        solve(demand([[20.0]]), [ON_DEMAND | {"available_share": share}])


def test_a_plan_on_fresh_paths_meets_the_same_scarcity() -> None:
    asked = problem(demand([[8.0], [12.0]]), [ON_DEMAND, SPOT], classes=SOFT, limits=[cap("spot_accelerators", 5.0)])
    own = solve(demand([[8.0], [12.0]]), [ON_DEMAND, SPOT], classes=SOFT, limits=[cap("spot_accelerators", 5.0)])
    fresh = demand([[8.0], [12.0]] * 10).assign(path=lambda frame: frame["path"] + 2)
    a = assumptions(horizon_quarters=1).model_dump()
    hindsight = HindsightAssumptions(**a, fresh_batches=2)
    found = judge_on_fresh_paths(asked, fresh, own.purchases, 0.0, hindsight).table.set_index("name")["usd"]
    assert found[["on_its_own_paths", "on_fresh_paths"]].tolist() == pytest.approx([own.proof.upper_usd] * 2)


def test_a_rehearsal_scales_what_is_left_with_the_demand_it_has_seen() -> None:
    """On the unseen path demand is twice the forecast's in the first quarter: from then on, the second's is, and spot is gone."""
    asked = problem(demand([[8.0, 10.0], [12.0, 10.0]]), [ON_DEMAND, SPOT], classes=SOFT, limits=[cap("spot_accelerators", 5.0)])
    unseen = demand([[20.0, 20.0]]).assign(path=2)
    stated = state_problem(replace(asked, demand=together(asked.demand, unseen)))
    a = HindsightAssumptions(**assumptions().model_dump(), rolling_neighbours=2)
    rehearsal = Rehearsal(stated, unseen, stated.model.first_stage(np.zeros(0)), a, {})
    seen = rehearsal._seen_at(2, 1)
    scarcity = stated.recourse.scarcity
    wanted = 10 * 20 / np.array([8.0, 12.0])
    assert seen.h[:, 0] == pytest.approx(wanted)
    assert seen.h[:, scarcity.rows[0]] == pytest.approx(5 * (1 - 0.5 * (wanted / 15 - 1)))
