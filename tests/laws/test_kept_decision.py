"""What is told of a kept decision by bounds against what it costs, solved to the end, on random books."""

from __future__ import annotations

import numpy as np
import pytest

from capplan.questions.procurement import decide, keep_decision, signed_now, state_problem, tell_kept
from tests.laws.test_procurement_checker import rich

GAPS = (0.0005, 0.0001)


@pytest.mark.parametrize("seed", range(6))
def test_bounds_tell_what_solving_to_the_end_tells(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = rich(seed)
    asked = asked.replaced(assumptions=asked.assumptions.model_copy(update={"gap_share": 1e-7, "service_level_share": 0.0}))
    warm = decide(asked).solution.warm
    shares = []
    for factor in (0.5, 2.0):
        less = asked.replaced(demand=asked.demand.assign(work_per_hour=asked.demand["work_per_hour"] * factor))
        signed = signed_now(decide(less).purchases)
        shares.append((signed, keep_decision(asked, signed).regret_share))
    monkeypatch.setattr("capplan.questions.procurement.program.budget_proof.EXACT_COLUMNS", 0)
    monkeypatch.setattr("capplan.optimize.two_stage.EXTENSIVE_COLUMNS", 0)
    coarse = state_problem(asked.replaced(assumptions=asked.assumptions.model_copy(update={"gap_share": 0.0025})))
    for signed, share in shares:
        for allowed in (0.01, *(share + np.array([-0.001, 0.001, 0.02]) if np.isfinite(share) else ())):
            if allowed <= 0 or abs(share - allowed) < 0.0005:
                continue
            told = tell_kept(coarse, signed, allowed, warm, GAPS)
            assert (told.regret_share > allowed) == (share > allowed)
            warm = told.warm
