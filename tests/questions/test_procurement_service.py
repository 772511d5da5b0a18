"""Service levels are held by the least cost of shortfall that does it; what cannot be held is named."""

from __future__ import annotations

import pandas as pd
import pytest

from capplan.errors import CapplanError
from tests.cases.procurement_cases import assumptions, demand, offer, solve, work_class

HOURS = 2190.0
CHEAP = work_class(shortfall_usd_per_unit=2.0)


def test_a_level_makes_the_plan_serve_what_would_rather_be_left_undone() -> None:
    """Ten equal paths from 1 to 10: leaving work undone costs half of the contract, so nothing is bought; 95 % served takes 8 contracts."""
    loads = [[float(load)] for load in range(1, 11)]
    row = offer("c", "lease", 4.0, term_months=3)
    free = solve(demand(loads), [row], classes=[CHEAP])
    assert free.purchases.empty
    held = solve(demand(loads), [row], assumptions(horizon_quarters=1, service_level_share=0.9), classes=[CHEAP])
    served = (held.service["served"].mean()) / held.service["demanded"].mean()
    # the fewest contracts that serve 90 % of 5.5 on average
    fewest = next(lots for lots in range(11) if sum(min(load, lots) for load in range(1, 11)) / 55 >= 0.9)
    assert held.purchases["lots"].sum() == fewest
    assert served >= 0.9
    assert any("work: a shortfall is priced at" in note for note in held.notes)


def test_a_level_that_holds_anyway_changes_nothing() -> None:
    rows = [offer("od", "on_demand", 1.0)]
    plain, held = (solve(demand([[5.0]]), rows, assumptions(horizon_quarters=1, service_level_share=level)) for level in (0.0, 0.99))
    pd.testing.assert_frame_equal(plain.costs, held.costs)
    assert plain.notes == held.notes


def test_each_class_has_its_own_price() -> None:
    work = pd.concat([demand([[5.0]]), demand([[5.0]], name="other")])
    found = solve(
        work,
        [offer("od", "on_demand", 4.0)],
        assumptions(horizon_quarters=1, service_level_share=0.5),
        classes=[CHEAP, work_class("other")],
        speeds=[("work", "H100", 1.0), ("other", "H100", 1.0)],
    )
    assert found.service["served_share"].tolist() == [1.0, 1.0]
    assert [note.split(":")[0] for note in found.notes if "is priced at" in note] == ["work"]


def test_a_level_out_of_reach_is_named_with_what_can_be_reached() -> None:
    limits = [{"limit_id": "od", "kind": "on_demand_accelerators", "amount": 4.0}]
    with pytest.raises(CapplanError, match=r"service_level_share is 0\.9, but work to 40\.00 % is the most"):
        solve(demand([[10.0]]), [offer("od", "on_demand", 4.0)], assumptions(horizon_quarters=1, service_level_share=0.9), limits=limits)
