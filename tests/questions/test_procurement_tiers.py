"""Volume tiers: a larger purchase has a lower price for all its lots, and one tier is taken at most."""

from __future__ import annotations

import pandas as pd
import pytest

from capplan.book.assumptions.hindsight import HindsightAssumptions
from capplan.errors import CapplanError
from capplan.questions.procurement import Purchases, judge_on_fresh_paths, keep_decision, plan_purchases, rehearse_plan, signed_now
from tests.cases.procurement_cases import BASE, assumptions, demand, offer, problem, sku, solve

HOURS = 2190.0
ON_DEMAND = offer("od", "on_demand", 4.0)
LEASE = offer("c", "lease", 3.0, term_months=3)
STEPS = [(5, 2.5), (9, 2.0)]


def tiered(load: float, steps: list[tuple[int, float]] = STEPS, row: dict[str, object] = LEASE, **values: object) -> Purchases:
    table = pd.DataFrame([{"offer_id": "c", "from_lots": lots, "usd_per_hour": usd} for lots, usd in steps])
    return solve(demand([[load]]), [ON_DEMAND, row], assumptions(horizon_quarters=1, **values), offer_tiers=table)


def price(lots: int) -> float:
    return next((usd for first, usd in reversed(STEPS) if lots >= first), 3.0)


@pytest.mark.parametrize("load", [1.0, 3.0, 4.0, 4.5, 6.0, 7.0, 8.0, 12.0])
def test_the_cheapest_number_of_lots_is_found(load: float) -> None:
    """Every number of lots tried out; from 7 on it pays to buy 9 for their lower price."""
    cost, best = min((price(lots) * lots + 4.0 * max(load - lots, 0.0), lots) for lots in range(14))
    found = tiered(load)
    assert found.proof.upper_usd == pytest.approx(HOURS * cost)
    assert found.purchases["lots"].sum() == best
    assert len(found.purchases) <= 1
    assert found.purchases["usd_per_hour"].tolist() == ([price(best)] if best else [])


def test_tiers_respect_minimum_maximum_and_pins() -> None:
    assert tiered(7.5, row=LEASE | {"maximum_lots": 8.0}).purchases["usd_per_hour"].tolist() == [2.5]
    assert tiered(5.0, row=LEASE | {"minimum_lots": 6}).purchases[["lots", "usd_per_hour"]].to_numpy().tolist() == [[6, 2.5]]
    pinned = tiered(1.0, pinned_purchases=(("c", "2027Q1", 6),)).purchases
    assert pinned[["lots", "usd_per_hour"]].to_numpy().tolist() == [[6, 2.5]]


def test_the_price_factor_scales_tiers() -> None:
    assert tiered(9.0, price_factor=0.5).purchases["usd_per_hour"].tolist() == [1.0]


def test_messages() -> None:
    with pytest.raises(CapplanError, match=r"c costs 3\.5 from 5 lots on, not less than 3"):
        tiered(1.0, [(5, 3.5)])
    with pytest.raises(CapplanError, match="did you mean c"):
        solve(demand([[1.0]]), [ON_DEMAND, LEASE], offer_tiers=pd.DataFrame({"offer_id": ["cc"], "from_lots": 2, "usd_per_hour": 1.0}))
    own = offer("own", "owned", 0.0, capex_usd=100.0, term_months=60)
    with pytest.raises(CapplanError, match="no contract for machines at a price an hour"):
        solve(
            demand([[1.0]]),
            [ON_DEMAND, own],
            skus=[sku("gpu", power_kw=1.0)],
            offer_tiers=pd.DataFrame({"offer_id": ["own"], "from_lots": 2, "usd_per_hour": 1.0}),
        )


def test_a_plan_with_tiers_is_read_back_from_its_purchases() -> None:
    """Keeping the plan's own decision costs nothing, and on its own paths it costs what it said: lots are those of one tier."""
    steps = pd.DataFrame([{"offer_id": "c", "from_lots": lots, "usd_per_hour": usd} for lots, usd in STEPS])
    work, fresh = demand([[8.0], [9.0]]), demand([[7.0], [8.5], [9.0], [10.0]]).assign(path=lambda frame: frame["path"] + 10)
    a = HindsightAssumptions(**(BASE | {"horizon_quarters": 1, "fresh_batches": 2, "approval_days": 0}))
    asked = problem(work, [ON_DEMAND, LEASE], a, offer_tiers=steps)
    plan = plan_purchases(asked)
    assert plan.purchases["lots"].tolist() == [9]
    assert keep_decision(asked, signed_now(plan.purchases.assign(firm=True))).regret_share == pytest.approx(0.0, abs=1e-9)
    judged = judge_on_fresh_paths(asked, fresh, plan.purchases, 0.0, a).table.set_index("name")
    assert judged.at["on_its_own_paths", "usd"] == pytest.approx(plan.proof.upper_usd, rel=1e-9)
    costs = rehearse_plan(asked, fresh, plan.purchases, a).paths.pivot_table(index="path", columns="policy", values="realised_usd")
    assert (costs["clairvoyant"] <= costs["plan_kept"] * (1 + 1e-9)).all()
