"""From which price on the best plan of whole lots would take an offer, exactly, where a program is small enough to be written out."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from scipy import sparse

from capplan.optimize.extensive import solve_extensive
from capplan.optimize.program import Solution, TwoStage
from capplan.optimize.solver import InfeasibleError
from capplan.questions.procurement.decide import Decided, Stated, state_problem
from capplan.questions.procurement.problem import Problem
from capplan.questions.procurement.program.budget_proof import written_out
from capplan.questions.procurement.supply.departures import DEPARTURE
from capplan.questions.procurement.supply.market import Market

#: A price is sought to this share of the offer's own, or until a step moves it by less.
FINE_SHARE = 1e-4
#: Gap at which the programs are solved, and steps of the search at most.
GAP, STEPS = 1e-10, 12
#: Share of a price that is as good as none: a table allows no price of zero.
NOTHING = 1e-9
#: Prices that pay in a row after which their slope is no longer followed, since what else moves with the price bends it.
PATIENCE = 3
#: Share of its price at which an offer is stated a second time, to see what of the program moves with it.
OTHER_SHARE = 0.5
#: Prices that differ by no more than this share are one.
ONE_PRICE = 0.01
#: Columns of the tables that hold an offer's own price.
PRICES = ("usd_per_hour", "negotiated_usd_per_hour", "capex_usd")


@dataclass(frozen=True)
class Entry:
    """What an offer that is not taken would have to cost."""

    adds_usd: float  #: What the best plan with it costs more at its own price, by lot that it takes; NaN where no plan can have it.
    share: float  #: The largest share of its price at which the best plan takes it; NaN where it does at none.
    choice: int  #: The start of which that plan takes most.
    usd_per_hour: float  #: The price of that start then; NaN where it is at none.
    none_from_usd: float  #: The price from which on no plan with it costs less; NaN where that is not known.

    @property
    def exact(self) -> bool:
        """Whether it is taken at no noticeably higher price."""
        return bool(self.none_from_usd - np.nan_to_num(self.usd_per_hour) <= ONE_PRICE * self.none_from_usd)


def entry_price(found: Decided, offer_id: str) -> Entry | None:
    r"""Find the largest price at which the best plan with at least one lot of an offer costs no more than the best without it.

    .. math:: p^* = \max\{p: V(p) \le V_0\},\qquad p \leftarrow p + \frac{V_0 - V(p)}{k\,h}

    V is concave where a price moves costs alone, so that these steps come down once and then rise to the price (Dinkelbach), each with the
    k lots of h hours that the best plan takes at the price before. Where a price moves limits or what is had later, the program is stated
    anew at every price, and the price is kept between one that pays and one that does not.

    Args:
        found: A plan whose program is small enough to be written out, see `is_exact`.
        offer_id: An offer that the plan does not take.

    Returns:
        None where the offer's price is not one of the book's, no work could ever want it, or another price would offer something else.

    Source: Dinkelbach, "On nonlinear fractional programming", Management Science 13 (1967).
    """
    at = repriced(found.problem, found.market, offer_id)
    own = starts(found, offer_id)
    if at is None or not (found.model.program.upper[found.model.position[own]] > 0).any():
        return None
    other = state_problem(at(OTHER_SHARE))
    if not found.choices.table["name"].equals(other.choices.table["name"]):
        return None
    moves = _moves(found, other, own)
    stated: Callable[[float], Stated] = lambda share: state_problem(at(share))  # noqa: E731
    search = _Search(found, offer_id, moves, None if _same_but(found, other, own) else stated)
    try:
        adds, share, choice, exact = search.steps()
    except InfeasibleError:
        return held_back(own)
    price, cheaper = (hourly_usd(each)[choice] for each in (found, other))
    usd = price + (share - 1) * (price - cheaper) / (1 - OTHER_SHARE)
    return Entry(adds, share, choice, usd, float(np.nan_to_num(usd)) if exact else np.nan)


def held_back(own: np.ndarray) -> Entry:
    """Return what is known of an offer that no plan can have, given its choices."""
    return Entry(np.nan, np.nan, int(np.flatnonzero(own)[0]), np.nan, 0.0)


def hourly_usd(stated: Stated) -> np.ndarray:
    """Return the price of a machine's hour of each choice, (n,): of machines one buys all that is paid for them."""
    choices, table = stated.choices, stated.choices.table
    hours = (choices.covered * choices.timeline.hours).sum(axis=1) * table["lot_machines"].to_numpy(float)
    paid = (choices.running_usd + choices.upfront_usd - choices.residual_usd).sum(axis=1)
    return np.where(table["term"] == "owned", paid / np.maximum(hours, 1e-12), table["usd_per_hour"].to_numpy(float))


def is_exact(found: Decided) -> bool:
    """Tell whether a plan's program is written out, so that prices can be exact."""
    return written_out(found.model.whole()) and found.assumptions.service_level_share == 0 and not found.cut_short


class _Search:
    """The steps of one offer's price."""

    def __init__(self, found: Decided, offer_id: str, moves: np.ndarray, stated: Callable[[float], Stated] | None) -> None:
        self.found, self.offer_id, self.moves, self.stated = found, offer_id, moves, stated
        self.without: float | None = None

    def steps(self) -> tuple[float, float, int, bool]:
        """Return what it adds by lot at its own price, the share at which it is taken, the start taken most, and whether that is exact."""
        ends, height = {False: np.nan, True: np.nan}, {False: np.nan, True: np.nan}
        share, adds, place, last, alike, exact = 1.0, np.nan, 0, None, 0, False
        for _ in range(STEPS):
            more, lots, slope = self._at(share)
            adds = more / lots.sum() if np.isnan(adds) else adds
            pays = bool(more <= self._close)
            alike, last = alike + 1 if pays == last else 0, pays
            if alike:  # the end that stays counts half, so that both come nearer (Illinois)
                height[not pays] *= 0.5
            place = int(np.argmax(lots)) if pays or np.isnan(ends[True]) else place
            ends[pays], height[pays] = share, more
            low, high = ends[True], ends[False]
            exact = bool(abs(more) <= self._close or high - low <= FINE_SHARE or (share == NOTHING and not pays))
            if exact:
                break
            step = max(share - more / slope, NOTHING) if slope > 0 else share
            known = not (np.isnan(low) or np.isnan(high))
            if known and not (pays and low < step < high and (self.stated is None or alike < PATIENCE)):
                share = low + (high - low) * height[True] / (height[True] - height[False])
            elif known or (not alike and step != share and (step > share) == pays):
                share = step
            else:
                share = 2 * share if pays else NOTHING
        return adds, ends[True], place, exact

    @property
    def _close(self) -> float:
        """Difference of two plans' costs that is none."""
        return 1e-8 * max(abs(self.without or 0.0), 1.0)

    def _at(self, share: float) -> tuple[float, np.ndarray, float]:
        """Return at a share of the price what the best plan with the offer costs more than without, its lots of each, and its slope."""
        a, stated = self.found.assumptions, self.found if self.stated is None or share == 1 else self.stated(share)
        program, own = stated.model.whole() if stated.model.years else stated.model.program, starts(stated, self.offer_id)
        columns = stated.model.position[own]
        if self.stated is None:
            c = program.c.copy()
            c[columns] += (share - 1) * self.moves[own]
            program = replace(program, c=c)
        if self.without is None or self.stated is not None:
            self.without = _best(_held(program, columns), a.risk_weight, a.tail_share).upper
        with_it = _best(forced(program, columns), a.risk_weight, a.tail_share)
        lots = np.where(own, stated.model.lots(with_it.x).round(), 0.0)
        slope = float(self.moves @ lots)
        if slope <= 0:  # at the price it is paid capacity, at its own a reservation
            slope = float(program.c[columns] @ lots[own]) / share
        return with_it.upper - self.without, lots, slope


def _best(program: TwoStage, risk_weight: float, tail_share: float) -> Solution:
    return solve_extensive(program, risk_weight, tail_share, GAP)


def _held(program: TwoStage, columns: np.ndarray) -> TwoStage:
    """Return the program without an offer."""
    upper = program.upper.copy()
    upper[columns] = 0.0
    return replace(program, upper=upper)


def forced(program: TwoStage, columns: np.ndarray) -> TwoStage:
    """Return the program with at least one lot of an offer."""
    row = sparse.csr_matrix((np.ones(len(columns)), (np.zeros(len(columns), dtype=int), columns)), shape=(1, len(program.c)))
    return replace(
        program, A=sparse.csr_matrix(sparse.vstack([program.A, row])), b=np.append(program.b, 1.0), sense=np.append(program.sense, ">")
    )


def starts(stated: Stated, offer_id: str) -> np.ndarray:
    """Tell which choices begin an offer."""
    table = stated.choices.table
    return ((table["offer_id"] == offer_id) & (table["kind"] != DEPARTURE)).to_numpy(bool)


def _moves(found: Stated, other: Stated, own: np.ndarray) -> np.ndarray:
    """Return by how much a lot of each start costs more where the offer costs twice its price, (n,)."""
    now, then = (pd.Series(each.model.program.c[each.model.position], index=each.choices.table["name"]) for each in (found, other))
    moved = (now - then.reindex(now.index)).to_numpy(float) / (1 - OTHER_SHARE)
    return np.where(own, np.nan_to_num(moved), 0.0)


def _same_but(found: Stated, other: Stated, own: np.ndarray) -> bool:
    """Tell whether two statements differ in what one offer's lots cost, and in nothing else."""
    one, two = found.model.whole(), other.model.whole()
    if one.c.shape != two.c.shape or one.h.shape != two.h.shape or one.A.shape != two.A.shape:
        return False
    apart = np.flatnonzero(one.c != two.c)
    pairs = [(one.b, two.b), (one.A.toarray(), two.A.toarray()), (one.h, two.h), (one.W.toarray(), two.W.toarray()), (one.q, two.q)]
    pairs += [(np.asarray(one.costs), np.asarray(two.costs))] if one.costs is not None and two.costs is not None else []
    pairs += [(np.append(a.a, a.limit), np.append(b.a, b.limit)) for a, b in zip(one.expected, two.expected, strict=True)]
    pairs += [(a.toarray(), b.toarray()) for a, b in zip(one.T, two.T, strict=True)]
    return bool(np.isin(apart, found.model.position[own]).all()) and all(np.array_equal(a, b) for a, b in pairs)


def repriced(problem: Problem, market: Market, offer_id: str) -> Callable[[float], Problem] | None:
    """Return what states the problem with an offer, or a right to renew, at a share of its price; None where no table states one."""
    names = market.holdings["name"] if len(market.holdings) else pd.Series(dtype=object)
    held = offer_id.removeprefix("renew ")
    if offer_id != held and problem.commitments is not None and held in set(names):
        contracts = problem.commitments
        (row,) = market.holdings.loc[names == held, "renewal_usd_per_hour"].tolist()
        mine = contracts["commitment_id"] == held
        return lambda share: problem.replaced(commitments=contracts.assign(renewal_usd_per_hour=_put(contracts, mine, share * row)))
    mine, steps = problem.offers["offer_id"] == offer_id, problem.offer_tiers
    if not mine.any():
        return None

    def at(share: float) -> Problem:
        tables = {"offers": _times(problem.offers, mine, share)}
        if steps is not None:
            tables["offer_tiers"] = _times(steps, steps["offer_id"] == offer_id, share)
        return problem.replaced(**tables)

    return at


def _times(table: pd.DataFrame, mine: pd.Series, share: float) -> pd.DataFrame:
    """Return a table with a share of the prices of some rows."""
    return table.assign(**{name: table[name].where(~mine, share * table[name]) for name in PRICES if name in table})


def _put(table: pd.DataFrame, mine: pd.Series, usd: float) -> pd.Series:
    """Return the renewal prices of contracts with another one for one of them."""
    prices = table["renewal_usd_per_hour"] if "renewal_usd_per_hour" in table else pd.Series(np.nan, index=table.index)
    return prices.astype(float).where(~mine, usd)
