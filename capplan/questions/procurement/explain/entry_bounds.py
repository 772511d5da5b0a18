"""Between which prices the best plan of whole lots begins to take an offer, where a program is too large to be written out."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
from scipy import sparse

from capplan.optimize.coupled import priced_rows
from capplan.optimize.master import Master
from capplan.optimize.program import TwoStage
from capplan.optimize.solver import InfeasibleError
from capplan.questions.procurement.decide import Decided, Stated, state_problem
from capplan.questions.procurement.explain.entry_prices import NOTHING, OTHER_SHARE, Entry, forced, held_back, hourly_usd, repriced, starts

#: Nodes of a search for a bound.
NODES = 100
#: Share of what whole lots add to the relaxation's bound that is counted on where a price is sought at which bounds may tell.
COUNTED_ON = 0.8
#: Where a lot adds less to the relaxation than this share of the proven gap, no bound is looked for.
HOPELESS = 0.5
#: Costs that differ by no more than this share are one.
SAME_COST = 1e-9


class EntryBounds:
    r"""The prices of offers from which on no plan with them costs less than the plan.

    .. math:: V(p) = \min_{x:\,\sum_j x_j \ge 1} c(p)^T x + \rho\big[Q(x)\big]

    is nondecreasing in the offer's price p. That moves the first stage alone, so that all cuts the plan has left hold at every price: where
    what they prove of V(p) reaches the plan's cost, no plan with the offer costs less, at that price or above. Of an offer that also sets
    what replaces contracts after the horizon this is told at its own price alone.

    Args:
        found: A plan, and what its search has left.
        offer_ids: Offers that it does not take; they are stated a second time all at once, to see what moves with their prices.
    """

    def __init__(self, found: Decided, offer_ids: Sequence[str]) -> None:
        self.found, self.offer_ids, self.upper, warm = found, offer_ids, found.solution.upper, found.solution.warm
        assert warm is not None
        self.warm, self.program = warm, found.model.whole()
        relaxed = self._master(self.program)
        self.least, self.adds = relaxed.relax().bound, relaxed.duals()[1]

    def above(self, entry: Entry, offer_id: str) -> Entry:
        """Add to what is known of an offer the price from which on no plan with it costs less than the plan."""
        try:
            share = self.none_from(offer_id, entry.share)
        except InfeasibleError:
            return held_back(starts(self.found, offer_id))
        return replace(entry, none_from_usd=share * float(hourly_usd(self.found)[entry.choice]))

    def none_from(self, offer_id: str, low: float) -> float:
        """Return the share of an offer's price from which on no plan with it costs less than the plan; NaN where cuts do not tell.

        Args:
            low: A share at which one does, or NaN.

        Raises:
            InfeasibleError: No plan can have the offer.
        """
        columns = self.found.model.position[starts(self.found, offer_id)]
        columns = columns[self.program.upper[columns] > 0]
        gap = self.upper - self.found.solution.lower
        if self.adds[columns].min(initial=np.inf) < HOPELESS * gap or not len(columns):
            return np.nan
        at_own = self._master(forced(self.program, columns)).relax().bound
        closed = COUNTED_ON * (self.found.solution.lower - self.least)
        if at_own + closed < self.upper:
            return np.nan
        tried = [1.0]
        if self.other is not None and self._alone(offer_id, columns):
            low = NOTHING if np.isnan(low) else low
            at_low = self._master(self._with(columns, low)).relax().bound
            if at_low < at_own:
                tried.insert(0, float(np.interp(self.upper - closed, [at_low, at_own], [low, 1.0])))
        for share in dict.fromkeys(tried):
            found = self._master(self._with(columns, share)).whole(SAME_COST, None, self.upper, self.upper, NODES)
            if found.bound >= self.upper * (1 - SAME_COST):
                return share
        return np.nan

    @cached_property
    def other(self) -> Stated | None:
        """The problem with these offers at another share of their prices; None where that offers something else."""
        problem, moved = self.found.problem, np.zeros(len(self.program.c), dtype=bool)
        for offer_id in self.offer_ids:
            at = repriced(problem, self.found.market, offer_id)
            if at is not None:
                problem = at(OTHER_SHARE)
                moved[self.found.model.position[starts(self.found, offer_id)]] = True
        other = state_problem(problem)
        one, two = self.program, other.model.whole()
        if not self.found.choices.table["name"].equals(other.choices.table["name"]) or _shapes(one) != _shapes(two):
            return None
        still = [(one.h, two.h), (one.b, two.b), (one.c[~moved], two.c[~moved])]
        still += [(now.a[~moved], then.a[~moved]) for now, then in zip(one.expected, two.expected, strict=True)]
        return other if all(np.array_equal(*each) for each in still) and (one.A - two.A)[:, ~moved].nnz == 0 else None

    def _alone(self, offer_id: str, columns: np.ndarray) -> bool:
        """Tell whether an offer's price moves nothing of the recourse but rows of its own, each as a whole."""
        assert self.other is not None
        one, two = self.program, self.other.model.whole()
        now, then = (np.atleast_2d(each.q if each.costs is None else each.costs) for each in (one, two))
        market, table = self.found.market.pools, self.found.choices.table
        own = table.loc[table["offer_id"] == offer_id, ["provider", "accelerator"]].iloc[0]
        priced = market.iloc[self.found.recourse.columns["pool"].to_numpy()[(now != then).any(axis=0)].astype(int)]
        if (priced[["provider", "accelerator"]] == own).all(axis=1).any():  # what it costs to have more of it after the horizon
            return False
        before, after = (sparse.hstack([each.W, *each.T], format="csr") for each in (one, two))
        reach = sum((abs(T) for T in one.T), sparse.csr_matrix(one.T[0].shape)).tocsr()
        for i in np.flatnonzero(np.asarray(abs(before - after).sum(axis=1)).ravel()).tolist():
            users = reach[[i]].indices
            if len(users) and not np.isin(users, columns).any():
                continue
            rows = before[[i]].toarray().ravel(), after[[i]].toarray().ravel()
            largest = int(np.argmax(np.abs(rows[0])))
            scaled = np.allclose(rows[1] * rows[0][largest], rows[0] * rows[1][largest], rtol=1e-9)
            if not (scaled and len(users) and np.isin(users, columns).all() and not one.h[:, i].any()):
                return False
        return True

    def _with(self, columns: np.ndarray, share: float) -> TwoStage:
        """Return the program with at least one lot of an offer, at a share of its price."""
        one, here = self.program, np.isin(np.arange(len(self.program.c)), columns)
        if share == 1:
            return forced(one, columns)
        assert self.other is not None
        two, part = self.other.model.whole(), here * (1 - share) / (1 - OTHER_SHARE)
        A = sparse.csr_matrix(one.A - (one.A - two.A) @ sparse.diags(part))
        rows = tuple(replace(now, a=now.a - part * (now.a - then.a)) for now, then in zip(one.expected, two.expected, strict=True))
        return forced(replace(one, c=one.c - part * (one.c - two.c), A=A, expected=rows), columns)

    def _master(self, program: TwoStage) -> Master:
        """Return the first stage of a program with all cuts there are."""
        master = Master(program, self.found.assumptions.risk_weight, self.warm.library.row_part)
        for rays in self.warm.rays:
            master.add_rays(rays)
        for cuts in self.warm.cuts:
            master.add(*cuts)
        for row, cut in self.warm.joints:
            master.add_joint(cut, *priced_rows(program, row))
        for number, (row, by_group) in enumerate(self.warm.priced):
            master.add_price(*priced_rows(program, row))
            for cut in by_group:
                master.add_priced(number, cut)
        return master


def _shapes(program: TwoStage) -> list[tuple[int, ...]]:
    """Return the shapes of a program's parts."""
    return [program.c.shape, program.A.shape, program.h.shape, program.W.shape, (len(program.T), len(program.expected))]
