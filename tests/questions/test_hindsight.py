"""A plan judged on demand it has not seen: fresh paths with a statistical gap, and a rehearsal quarter by quarter."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from capplan.book.assumptions.hindsight import HindsightAssumptions
from capplan.errors import CapplanError
from capplan.questions.procurement.hindsight.fresh_paths import judge_on_fresh_paths
from capplan.questions.procurement.hindsight.rehearsal import rehearse_plan
from tests.cases.procurement_cases import BASE, demand, offer, problem, solve

ROWS = [offer("hour", "on_demand", 4.0), offer("lease", "lease", 1.0, term_months=3), offer("year", "reserved_1y", 0.9)]


def settings(**values):
    return HindsightAssumptions(**(BASE | {"horizon_quarters": 3, "approval_days": 0, "gap_share": 1e-6, "demand_branches": 1} | values))


def paths(count: int, seed: int, first: int = 0) -> pd.DataFrame:
    """Levels that are low or high for good, and wander a little."""
    rng = np.random.default_rng(seed)
    loads = rng.choice([10.0, 30.0], count)[:, None] + rng.uniform(0, 2, (count, 3))
    return demand(loads.tolist()).assign(path=lambda frame: frame["path"] + first)


def bought(work: pd.DataFrame, a: HindsightAssumptions):
    return solve(work, ROWS, a)


def test_the_statistical_gap_covers_the_true_one_and_shrinks_to_none_for_the_best_plan():
    a = settings(risk_weight=0.2, fresh_batches=5)
    work, fresh = paths(40, 1), paths(200, 2, 1000)
    plan = bought(work, a)
    found = judge_on_fresh_paths(problem(work, ROWS, a), fresh, plan.purchases, 0.0, a)
    table = found.table.set_index("name")
    assert table.at["on_its_own_paths", "usd"] == pytest.approx(plan.proof.upper_usd, rel=1e-9)
    assert table.at["on_fresh_paths", "low_usd"] < table.at["on_fresh_paths", "usd"] < table.at["on_fresh_paths", "high_usd"]
    # the same plan costed by a plan of its own over the fresh paths, with the purchases pinned
    pins = tuple((row.offer_id, row.quarter, int(row.lots)) for row in plan.purchases.itertuples())
    exact = solve(fresh, ROWS, settings(risk_weight=0.2, pinned_purchases=pins, excluded_offers=()))
    best = solve(fresh, ROWS, settings(risk_weight=0.2))
    true_gap = table.at["on_fresh_paths", "usd"] - best.proof.upper_usd
    assert exact.proof.upper_usd <= table.at["on_fresh_paths", "usd"] + 1e-6
    assert 0 <= true_gap <= table.at["statistical_gap", "high_usd"]
    # a plan that buys nothing is far from the best, and is seen to be
    none = judge_on_fresh_paths(problem(work, ROWS, a), fresh, plan.purchases.head(0), 0.0, a)
    assert none.table.set_index("name").at["statistical_gap", "usd"] > 10 * table.at["statistical_gap", "usd"]
    assert "95 % confidence" in found.headline


def test_fresh_paths_are_others_and_enough():
    a = settings()
    work = paths(10, 1)
    plan = bought(work, a)
    with pytest.raises(CapplanError, match="it has not seen"):
        judge_on_fresh_paths(problem(work, ROWS, a), work, plan.purchases, 0.0, a)
    with pytest.raises(CapplanError, match="too few for 5 batches"):
        judge_on_fresh_paths(problem(work, ROWS, a), paths(4, 2, 100), plan.purchases, 0.0, a)


def test_a_rehearsal_learns_the_level_from_the_first_quarter():
    a = settings(rolling_neighbours=6)
    work, unseen = paths(30, 3), paths(3, 4, 500)
    leases = [row for row in ROWS if row["offer_id"] != "year"]
    plan = solve(work, leases, a)
    found = rehearse_plan(problem(work, leases, a), unseen, plan.purchases, a)
    cost = found.paths.pivot_table(index="path", columns="policy", values="realised_usd")
    assert (cost["clairvoyant"] <= cost.drop(columns="clairvoyant").min(axis=1) * (1 + 1e-9)).all()
    mean = found.summary.set_index("policy")["mean_usd"]
    assert mean["clairvoyant"] < mean["plan_revised"] < mean["plan_kept"] < mean["do_nothing"]
    assert mean["all_on_demand"] == pytest.approx(mean["do_nothing"]), "on demand has no cap here"
    # from the second quarter on the level is known to within what it wanders
    level = unseen.set_index(["path", "quarter"])["work_per_hour"]
    later = found.decisions[(found.decisions["policy"] == "plan_revised") & (found.decisions["review"] > 0)]
    assert set(later["quarter"]) == {"2027Q2", "2027Q3"}
    for row in later.itertuples():
        assert abs(row.lots - level[row.path, row.quarter]) <= 3
    again = rehearse_plan(problem(work, leases, a), unseen, plan.purchases, a)
    pd.testing.assert_frame_equal(found.paths, again.paths, check_exact=True)


@pytest.mark.slow
def test_the_switch_shows_the_rehearsal_and_the_fresh_paths():
    from capplan import open_book, show_procurement
    from capplan.book.places import shipped

    book = open_book(str(shipped("data") / "enterprise"))
    quick = {"paths": 12, "plan_paths": 6, "load_blocks": 2, "gap_share": 0.05, "horizon_quarters": 2}
    quick |= {"rolling_paths": 1, "fresh_batches": 2, "demand_branches": 1, "flip_search": False}
    plain = show_procurement(book, book.scenario_with(**quick))
    view = show_procurement(book, book.scenario_with(**quick, rolling_test=True))
    assert "rehearsal" not in plain.details
    assert set(view.details["rehearsal"]["policy"]) == {
        "plan_revised",
        "average_revised",
        "plan_kept",
        "look_back_30_days",
        "look_back_coverage",
        "do_nothing",
        "all_on_demand",
        "clairvoyant",
    }
    assert view.headline == plain.headline
    assert set(view.details["out_of_sample"]["name"]) == {"on_its_own_paths", "on_fresh_paths", "statistical_gap", "certified_gap"}
