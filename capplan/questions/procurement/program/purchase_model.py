"""A purchase problem as it is solved: the program, where its decisions stand, and what its rows are."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from capplan.optimize.two_stage import ExpectedRow, TwoStage
from capplan.questions.procurement.program.other_decisions import Extra
from capplan.questions.procurement.program.spend_agreements import Year
from capplan.questions.procurement.supply.site_power import PaidPower

#: A rule between decisions is kept up to this share of its bound.
KEPT_SHARE = 1e-6


@dataclass(frozen=True)
class Model:
    """A purchase problem, ready to solve."""

    problem: Any  #: The first stage in PuLP, with readable names; an infeasible one is explained by it.
    program: TwoStage  #: The two-stage program.
    position: np.ndarray  #: (n,): Column of each choice in the program.
    rows: pd.DataFrame  #: One row a limit of the first stage: row (in the program), limit_id, kind, quarter, limit.
    budgets: pd.DataFrame  #: One row an expected row of the program: limit_id, kind, quarter, limit, soft.
    years: tuple[Year, ...]  #: Contract years of spend agreements.
    #: spend_rows, unspent (years,): Row and column of the program that hold what is spent, and what is left, in each of them.
    spend_rows: np.ndarray
    unspent: np.ndarray
    pledged: np.ndarray  #: (years, n): What each column of the program counts as planned spend by the hour in each of them.
    agreed: tuple[ExpectedRow, ...]  #: The same years as rows on expected use: what is signed, bought, rented by the hour and left adds up.
    drawn: np.ndarray  #: ((r,) bool): Recourse columns that draw on planned spend by the hour.
    #: deferred, deferred_columns: Work that can be put off, and the program's column of each.
    deferred: tuple[Extra, ...]
    deferred_columns: np.ndarray
    #: power, power_columns: Power that is paid for and free, and the program's column of what machines bought take of it.
    power: PaidPower
    power_columns: np.ndarray
    notes: tuple[str, ...]  #: What was left out or assumed.

    def lots(self, x: np.ndarray) -> np.ndarray:
        """Return the lots of each choice in a first stage."""
        return np.asarray(x)[self.position]

    def counting(self, usd: np.ndarray) -> Model:
        """Return the model in which so much spend by the hour, (years,), counts in each contract year, not what is planned by the hour."""
        b, upper = self.program.b.copy(), self.program.upper.copy()
        b[self.spend_rows] = np.array([year.open_usd for year in self.years]) - usd
        upper[np.flatnonzero(self.pledged.any(axis=0))] = 0.0
        return replace(self, program=replace(self.program, b=b, upper=upper))

    def whole(self) -> TwoStage:
        """Return the program in which whatever a plan is expected to rent by the hour counts, and none of it is planned."""
        program, upper = self.program, self.program.upper.copy()
        upper[np.flatnonzero(self.pledged.any(axis=0))] = 0.0
        kept = np.setdiff1d(np.arange(len(program.b)), self.spend_rows)
        counted = [replace(row, g=np.where(self.drawn, 0.0, row.g)) for row in self.agreed]
        return replace(
            program, A=program.A[kept], b=program.b[kept], sense=program.sense[kept], upper=upper, expected=(*program.expected, *counted)
        )

    def settled(self, x: np.ndarray, left_usd: np.ndarray) -> np.ndarray:
        """Return a first stage without planned spend by the hour, which pays what is left of each contract year, (years,)."""
        x = np.asarray(x, dtype=float).copy()
        x[np.flatnonzero(self.pledged.any(axis=0))] = 0.0
        x[self.unspent] = left_usd
        return x

    @property
    def soft(self) -> np.ndarray:
        """Which budgets may be broken at a price."""
        return self.budgets["soft"].to_numpy(bool)

    def first_stage(self, lots: np.ndarray) -> np.ndarray:
        """Return a first stage that buys given lots: on-off variables and paid power follow; it pays for no budget or agreement."""
        x = np.zeros(len(self.program.c))
        x[self.position], x[self.power_columns] = lots, self.power.taken(lots)
        for j, (low, own) in self._followers().items():
            x[j] = float(x[own] > 0) if low else 0.0
        return x

    def broken_rules(self, x: np.ndarray) -> dict[int, float]:
        """Return the rows of rules between decisions, neither limits nor agreements, that a first stage breaks, and by how much."""
        program, used = self.program, self.program.A @ x
        over = np.where(program.sense == "<", used - program.b, np.where(program.sense == ">", program.b - used, abs(used - program.b)))
        over[[*self.rows["row"].astype(int), *self.spend_rows]] = 0.0
        return {i: float(over[i]) for i in np.flatnonzero(over > KEPT_SHARE * np.maximum(abs(program.b), 1.0)).tolist()}

    def _followers(self) -> dict[int, tuple[bool, int]]:
        """Map each on-off variable to the choice it follows."""
        index = {str(variable): j for j, variable in enumerate(self.problem.variables())}
        return {index[f"any_{name}"]: (True, j) for name, j in index.items() if f"any_{name}" in index}
