"""A checked plan that keeps all limits costs what a second statement says it costs, and never less than what is proven for any plan."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from capplan.book.proposed import PURCHASE_COLUMNS
from capplan.questions.procurement import check_plan, decide
from capplan.questions.procurement.supply.departures import DEPARTURE
from tests.cases.procurement_checker import Checker
from tests.laws.test_procurement_checker import rich


@pytest.mark.parametrize("seed", range(6))
def test_no_checked_plan_is_cheaper_than_the_bound(seed: int) -> None:
    problem = rich(seed)
    found = decide(problem)
    table, rng = found.choices.table, np.random.default_rng(seed)
    kept = 0
    for _ in range(4):
        few = (rng.uniform(size=len(table)) < 0.35) & (table["kind"] != DEPARTURE).to_numpy()
        most = table["maximum_lots"].fillna(6.0).clip(upper=6.0).to_numpy(float)
        least = table["minimum_lots"].to_numpy(float)
        lots = np.where(few, np.clip(np.round(rng.uniform(0, 1, len(table)) * most), least, np.maximum(most, least)), 0.0)
        part = table.assign(lots=lots)[lots > 0][["offer_id", "quarter", "lots"]]
        rows = pd.DataFrame(part.to_dict("records"), columns=[column.name for column in PURCHASE_COLUMNS])
        checked = check_plan(found, rows.assign(file="plan.csv", row=range(len(rows))))
        cost = checked.costs.set_index("measure").at["objective_usd", "checked_usd"]
        if not checked.in_order:
            continue
        kept += 1
        assert cost >= found.solution.lower - 1e-6 * abs(found.solution.lower)
        taken = {(row.offer_id, row.start): n for row, n in zip(table.itertuples(), lots, strict=True) if n}
        second = Checker(problem).fix(taken).solve()
        # a hard budget leaves which work is dropped to a search that stops at a gap
        assert cost == pytest.approx(second, rel=2.5 * problem.assumptions.gap_share + 1e-6)
    assert kept
