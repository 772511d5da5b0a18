"""Recourse under expected rows: budgets couple all points, so dispatches at several budget prices are mixed."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy import sparse

from capplan.errors import SolveError
from capplan.optimize.evaluation import Cut, Evaluator
from capplan.optimize.mixing import NO_SPARE, Levels, Mixed, Rows, mix_levels, spare_use
from capplan.optimize.program import ExpectedRow, TwoStage, check_weights, cost_states, right_hand_sides, risk_weights
from capplan.optimize.separable import SeparableRecourse

Array = np.ndarray
#: Rounds of pricing at one first stage.
MOST_ROUNDS = 40
#: Levels that are added to a cell in one round.
MOST_NEW = 3
#: Levels of a cell that differ by less than this multiple of the wanted gap are one.
SAME_SHARE = 3.0
#: Share of the wanted gap within which the dispatch of one first stage is proven.
INNER_SHARE = 0.25
#: And within this share of how far the search still is from its end.
OPEN_SHARE = 0.1
#: A dollar over a row costs this many times the dearest way to save one.
HIGHEST_PRICE = 1e3
#: Every scenario keeps this share of its probability in the weights of prices, so that none is priced without end; only the mean's weight
#: below it matters.
LEAST_SHARE = 1e-5
DIGITS = 12
#: Prices whose bases are kept beside those that are in use.
MOST_PRICES = 60


class Price(NamedTuple):
    """Prices under which a dispatch is cheapest: of each expected row (K,), and of each scenario's cost (S,)."""

    row: Array
    scenario: Array


class Level(NamedTuple):
    """Dispatch of a cell's points where one unit of each kind of use has a price."""

    number: int  #: Which price.
    shift: Array  #: (m,): By how much the first stage shifts the points' right-hand sides.
    basis: Array  #: (points, parts): Bases that the points rest on.
    cost: Array  #: (S,): Recourse cost by scenario.
    used: Array  #: (kinds, S): Use by kind and scenario, with the weights of costs.
    value: Array  #: (S,): Cost plus priced use, which no dispatch undercuts at this price.


class Coupled(NamedTuple):
    """The best dispatch of a first stage that keeps the expected rows."""

    x: Array  #: (n,): The first stage, with columns that only expected rows see chosen anew.
    cost_by_scenario: Array  #: (S,): Recourse cost of the mixture; infinite where the rows cannot be kept.
    price: Price  #: Prices at which the cut holds.
    cut: Cut  #: Cut of the blended cost plus the priced rows, one for each technology.
    mixture: list[tuple[list[Level], Array]]  #: Levels and their shares by scenario, (levels, S), of each coupled cell.
    others: list[Cut]  #: Cuts at the prices that were asked for besides.


class _Mix(NamedTuple):
    """A mixture: shares of each cell's levels, scenario costs, what the rows are over, columns only they see, and prices."""

    shares: list[Array]
    cost: Array
    over: float
    free: Array
    price: Price


class CoupledEvaluator:
    r"""Finds the cheapest recourse that keeps the expected rows, from dispatches at a few prices of what the rows limit.

    For prices mu of the rows and weights omega of the scenarios a point of scenario s costs :math:`q + \nu g` with
    :math:`\nu = \mu\,\tfrac{p_s w'}{\omega_s w}`, and its value :math:`V(\nu) = \min_y (q + \nu g)^T y` is concave in nu. Points are
    grouped in
    cells of one technology and one ratio w'/w. Each cell is dispatched at a few levels of nu: a program mixes these dispatches at least
    cost
    within the rows (recourse is convex, so a mixture is feasible), and its duals are the next mu and omega. Between two levels V is at
    least their line, and the same mixture of their duals is dual feasible, so that any mu and omega give a valid cut without new bases; a
    level is added where that line lies too low. A row may also want use (g below zero, as a spend agreement does): its levels reach up to
    the price at
    which use costs nothing, beyond which it would be bought without need. First-stage columns that only the rows see (what is paid for a
    soft budget, or
    for what stays unspent) are chosen with the mixture.

    Args:
        base: Evaluator without expected rows, brought to rest at the first stage before each call.
        risk_weight, tail_share, gap_share: See `two_stage.solve_two_stage`.
        rows ((K,) bool, optional): Which expected rows are kept; all by default.

    Source: Dantzig and Wolfe, "Decomposition principle for linear programs", Operations Research 8 (1960); concavity of the value in the
        costs: Bertsimas and Tsitsiklis, Introduction to Linear Optimization (1997), section 5.3.
    """

    def __init__(self, base: Evaluator, risk_weight: float, tail_share: float, gap_share: float, rows: Array | None = None) -> None:
        every = base.problem.expected
        self.rows = np.ones(len(every), dtype=bool) if rows is None else rows
        self.base = base
        self.problem = replace(base.problem, expected=tuple(_by_unit(every[k]) for k in np.flatnonzero(self.rows).tolist()))
        self.risk_weight, self.tail_share, self.gap_share = risk_weight, tail_share, gap_share
        problem = self.problem
        counted = np.array([row.weight * row.points for row in problem.expected])
        check_weights(problem)
        if any((np.asarray(row.g) < 0).any() and (np.asarray(row.g) > 0).any() for row in problem.expected):
            raise SolveError("an expected row counts some use and takes off other; prices prove nothing there, write the program out")
        ratio = np.round(counted / np.where(problem.weight > 0, problem.weight, 1.0), DIGITS)
        label, cell = np.unique(np.vstack([problem.technology, ratio]), axis=1, return_inverse=True)
        self.technology, self.ratio = label[0].astype(int), label[1:].T
        self.points = [np.flatnonzero(np.ravel(cell) == c) for c in range(label.shape[1])]
        self.coupled = np.flatnonzero(self.ratio.any(axis=1)).tolist()
        kinds: dict[bytes, int] = {}
        self.kind = np.array([kinds.setdefault(np.asarray(row.g, dtype=float).tobytes(), len(kinds)) for row in problem.expected])
        self.first = [int(np.flatnonzero(self.kind == number)[0]) for number in range(len(kinds))]
        self.libraries: list[SeparableRecourse] = [base.library]
        self.prices: list[Array] = [np.zeros(len(kinds))]
        self.last_asked: dict[int, int] = {}
        self.visits = 0
        costs = cost_states(problem)[0]
        use = [np.broadcast_to(np.atleast_2d(problem.expected[k].g), costs.shape) for k in self.first]
        #: What is counted of recourse by technology: its cost, then each kind of use, (1 + kinds, r).
        self.counts = np.stack([costs, *use], axis=1)[cost_states(problem)[1]]
        largest = max((np.abs(g).max(initial=0.0) for g in use), default=1.0)
        # Rows that count no use limit the first stage alone; their price must be finite all the same.
        self.highest = HIGHEST_PRICE * np.abs(costs).max(initial=1e-9) / (largest or 1.0)
        # Where use is wanted, it is worth no more than it costs: above that it would be bought without need, and without end.
        self.wants = np.array([bool((g < 0).any()) for g in use])
        self.most = np.array(
            [(costs[g < 0] / -g[g < 0]).min() if wants else self.highest for g, wants in zip(use, self.wants, strict=True)]
        )
        if (self.most <= 0).any():
            raise SolveError("an expected row counts use that costs nothing; prices prove nothing there, write the program out")
        dear = np.where(self.wants, self.most, np.inf)
        self.spare = spare_use(self.kind, self.ratio[self.coupled], dear, problem.probability)
        self.always = self._always()
        self.active: dict[int, dict[int, Level | None]] = {c: dict.fromkeys(numbers) for c, numbers in self.always.items()}
        self.free = self._free()

    def evaluate(self, x: Array, open_share: float = 0.0, others: Sequence[Price] = (), worth: float = np.inf) -> Coupled:
        """Return the best dispatch of x and the cut that supports it.

        Args:
            x (n,): First stage.
            open_share: How far the whole search still is from its end; while it is far, a dispatch need not be exact.
            others: Prices at which cuts are asked for too, as good as the levels at hand make them.
            worth: Cost of the whole program from which on it does not matter how much more x costs: the cut then says that it costs as
                much, and the dispatch is left as it is.
        """
        problem, self.visits = self.problem, self.visits + 1
        x = np.asarray(x, dtype=float).copy()
        x[self.free] = 0.0
        room = np.array([row.limit - float(row.a @ x) for row in problem.expected])
        fixed, first = self._fixed(x), float(problem.c @ x)
        levels = {c: [self._level(x, c, number, last) for number, last in self.active[c].items()] for c in self.coupled}
        bound, best = -np.inf, Price(np.zeros(len(room)), problem.probability)
        mix = self._mix(levels, fixed, room)
        for step in range(MOST_ROUNDS):
            if step:
                try:
                    mix = self._mix(levels, fixed, room)
                except SolveError:
                    # Short of digits: the last mixture and the best bound stand.
                    for c, shares in zip(self.coupled, mix.shares, strict=True):
                        del levels[c][len(shares) :]
                    break
            low = {c: self._between(c, levels[c], mix.price)[0] for c in self.coupled}
            blended = float(risk_weights(mix.cost, problem.probability, self.risk_weight, self.tail_share) @ mix.cost)
            value = blended + self.highest * mix.over + float(problem.c[self.free] @ mix.free)
            found = float(mix.price.scenario @ (fixed + sum(low.values(), np.zeros(len(fixed)))) - mix.price.row @ room)
            if found > bound:
                bound, best = found, mix.price
            tolerance = max(INNER_SHARE * self.gap_share, OPEN_SHARE * open_share) * max(abs(value), 1e-12)
            if value - bound <= tolerance or first + bound >= worth or not self._refine(x, levels, mix.price, low, tolerance):
                break
        kept = mix.over <= 1e-7 * max(1.0, float(np.abs(room).max(initial=0.0)))
        self._keep(levels, mix, best)
        cost = mix.cost if kept else np.full(len(mix.cost), np.inf)
        mixture = [(levels[c], share) for c, share in zip(self.coupled, mix.shares, strict=True)]
        x[self.free] = mix.free
        besides = [self._cut(levels, price._replace(row=price.row[self.rows])) for price in others]
        row = np.zeros(len(self.rows))
        row[self.rows] = best.row
        return Coupled(x, cost, best._replace(row=row), self._cut(levels, best), mixture, besides)

    def _always(self) -> dict[int, list[int]]:
        """Return the prices at which each cell is always dispatched, which surround all others: none, and the most."""
        if not self.wants.any():
            return {c: [0] for c in self.coupled}
        top = self._number(np.where(self.wants, self.most, 0.0), {0})
        wanted = [c for c in self.coupled if self.ratio[c][self.wants[self.kind]].any()]
        return {c: [0, top] if c in wanted else [0] for c in self.coupled}

    def _free(self) -> Array:
        """Return the first-stage columns that only expected rows see, and that can always fill them at a cost."""
        problem = self.problem
        seen = np.asarray(abs(problem.A).sum(axis=0)).ravel() + sum(np.asarray(abs(T).sum(axis=0)).ravel() for T in problem.T)
        return np.flatnonzero(~problem.integer & np.isinf(problem.upper) & (problem.lower == 0) & (problem.c >= 0) & (seen == 0))

    def decisions(self, x: Array, found: Coupled) -> sparse.csr_matrix:
        """Return the mixture's recourse of every point, (P, r) sparse."""
        problem = self.problem
        assert self.base.basis is not None
        free = np.setdiff1d(np.arange(len(problem.technology)), np.concatenate([self.points[c] for c in self.coupled]))
        parts = [(free, np.ones(len(free)), self.base.library, self.base.basis[free])]
        for c, (levels, shares) in zip(self.coupled, found.mixture, strict=True):
            own = self.points[c]
            for level, share in zip(levels, shares, strict=True):
                weight = share[problem.scenario[own]]
                taken = weight > 0
                parts.append((own[taken], weight[taken], self.libraries[level.number], level.basis[taken]))
        laid_out = [library.decisions(right_hand_sides(problem, x, points), basis).tocoo() for points, _, library, basis in parts]
        row, amount = (
            np.concatenate(each)
            for each in zip(
                *((points[one.row], one.data * weight[one.row]) for one, (points, weight, *_) in zip(laid_out, parts, strict=True)),
                strict=True,
            )
        )
        place = row, np.concatenate([one.col for one in laid_out])
        return sparse.csr_matrix((amount, place), shape=(len(problem.technology), len(problem.q)))

    def _by_scenario(self, points: Array, value: Array) -> Array:
        """Sum a value of points with their weights by scenario."""
        problem = self.problem
        return np.bincount(problem.scenario[points], weights=value * problem.weight[points], minlength=len(problem.probability))

    def _fixed(self, x: Array) -> Array:
        """Return the scenario costs of points in no expected row."""
        problem, total = self.problem, np.zeros(len(self.problem.probability))
        assert self.base.basis is not None
        for c, own in enumerate(self.points):
            if c not in self.active:
                total += self._by_scenario(own, self.base.library.costs(right_hand_sides(problem, x, own), self.base.basis[own]))
        return total

    def _level(self, x: Array, c: int, number: int, last: Level | None) -> Level:
        """Dispatch a cell's points at a price; where they are what they were at the last first stage, so is the dispatch."""
        problem, own, library, technology = self.problem, self.points[c], self.libraries[number], self.technology[c]
        self.last_asked[number] = self.visits
        shift = np.asarray(problem.T[technology] @ x).ravel()
        if last is not None and np.array_equal(shift, last.shift):
            return last
        rhs = problem.h[own] - shift
        if number == 0:
            assert self.base.basis is not None
            basis = self.base.basis[own]
        else:
            basis = library.evaluate(rhs, problem.technology[own], None if last is None else last.basis).basis
        total = library.totals(rhs, basis, self.counts[technology])
        cost, *used = (self._by_scenario(own, each) for each in total)
        return Level(number, shift, basis, cost, np.array(used), cost + self.prices[number] @ np.array(used))

    def _wanted(self, c: int, price: Price) -> Array:
        """Return the price of each kind of use in a cell by scenario, (kinds, S)."""
        p = self.problem.probability
        share = np.divide(p, price.scenario, out=np.zeros(len(p)), where=p > 0)
        each = np.bincount(self.kind, weights=price.row * self.ratio[c], minlength=len(self.first))
        return np.outer(each, share)

    def _between(self, c: int, levels: list[Level], price: Price) -> tuple[Array, Array]:
        """Return the least a cell can cost at some prices by scenario, proven by its levels, and how these are mixed, (levels, S)."""
        wanted, scenarios = self._wanted(c, price), len(price.scenario)
        at = np.array([self.prices[level.number] for level in levels])
        value = np.array([level.value for level in levels])
        mix = np.zeros((len(levels), scenarios))
        kind = np.flatnonzero(np.bincount(self.kind, weights=self.ratio[c] > 0, minlength=len(self.first)))
        if len(kind) == 1:
            line = at[:, kind[0]]
            order = np.argsort(line)
            upper = np.clip(np.searchsorted(line[order], wanted[kind[0]], side="left"), 0, len(order) - 1)
            lower = np.where(line[order][upper] <= wanted[kind[0]], upper, np.maximum(upper - 1, 0))
            span = line[order][upper] - line[order][lower]
            share = np.clip(np.divide(wanted[kind[0]] - line[order][lower], span, out=np.zeros(scenarios), where=span > 0), 0.0, 1.0)
            mix[order[lower], np.arange(scenarios)] = 1 - share
            mix[order[upper], np.arange(scenarios)] += share
        else:
            # A price that is nowhere higher, or nowhere lower where use is wanted, proves a cost that is nowhere higher.
            sign = np.where(self.wants, -1.0, 1.0)
            below = (at[:, :, None] * sign[:, None] <= wanted * sign[:, None] + 1e-12 * wanted).all(axis=1)
            mix[np.where(below, value, -np.inf).argmax(axis=0), np.arange(scenarios)] = 1.0
        return (mix * value).sum(axis=0), mix

    def _refine(self, x: Array, levels: dict[int, list[Level]], price: Price, low: dict[int, Array], tolerance: float) -> bool:
        """Add levels where the line between two lies too low; tell whether there are any."""
        added = False
        for c in self.coupled:
            wanted = self._wanted(c, price)
            ways = np.array([level.cost + np.einsum("ks,ks->s", wanted, level.used) for level in levels[c]])
            gap = price.scenario * (ways.min(axis=0) - low[c])
            if gap.sum() <= tolerance / (2 * len(self.coupled)):
                continue
            for _ in range(MOST_NEW):
                s = int(gap.argmax())
                if gap[s] <= 0:
                    break
                known = {level.number for level in levels[c]}
                number = self._number(wanted[:, s], known)
                if number not in known:
                    levels[c].append(self._level(x, c, number, None))
                    added = True
                gap[(np.abs(wanted - wanted[:, [s]]) <= 0.05 * wanted[:, [s]]).all(axis=0)] = 0.0
        return added

    def _number(self, wanted: Array, known: set[int]) -> int:
        """Return the number of a price: one that is nearly the same and new to the cell, else the price itself."""
        wanted = np.minimum(wanted, self.most)
        for number, price in enumerate(self.prices):
            close = np.abs(price - wanted) <= (0.0 if number in known else SAME_SHARE * self.gap_share) * wanted
            if close.all():
                return number
        costs, state = cost_states(self.problem)
        priced = sum(nu * np.atleast_2d(self.problem.expected[k].g) for nu, k in zip(wanted, self.first, strict=True))
        self.prices.append(wanted)
        self.libraries.append(SeparableRecourse(costs + priced, self.problem.W, self.problem.recourse_sense, state))
        return len(self.prices) - 1

    def _keep(self, levels: dict[int, list[Level]], mix: _Mix, best: Price) -> None:
        """Keep the levels that are mixed or prove the bound, with their bases, for the next first stage."""
        for c, shares in zip(self.coupled, mix.shares, strict=True):
            proof = self._between(c, levels[c], best)[1]
            keep = np.flatnonzero((shares > 1e-9).any(axis=1) | (proof > 0).any(axis=1)).tolist()
            self.active[c] = {levels[c][i].number: levels[c][i] for i in sorted({*range(len(self.always[c])), *keep})}
        active = {number for known in self.active.values() for number in known}
        idle = sorted((visit, number) for number, visit in self.last_asked.items() if visit < self.visits and number not in active)
        for _, number in idle[:-MOST_PRICES]:
            # nobody has asked for this price for long: its bases are forgotten, and it is never found again
            del self.last_asked[number]
            self.libraries[number], self.prices[number] = self.base.library, np.full_like(self.prices[number], np.inf)

    def _cut(self, levels: dict[int, list[Level]], price: Price) -> Cut:
        """Return the plane that the mixed duals of the levels span, by technology."""
        problem, m = self.problem, self.problem.W.shape[0]
        assert self.base.basis is not None
        weight = price.scenario[problem.scenario] * problem.weight
        constant, slope = np.zeros((len(problem.T), len(self.base.library.parts))), np.zeros((len(problem.T), m))
        for c, own in enumerate(self.points):
            if c in self.active:
                mix = self._between(c, levels[c], price)[1][:, problem.scenario[own]]
                duals = sum(
                    (
                        share[:, None] * self.libraries[level.number].duals(level.basis)
                        for share, level in zip(mix, levels[c], strict=True)
                        if share.any()
                    ),
                    np.zeros((len(own), m)),
                )
            else:
                duals = self.base.library.duals(self.base.basis[own])
            duals = duals * weight[own, None]
            constant[self.technology[c]] += self.base.library.by_part(duals * problem.h[own]).sum(axis=0)
            slope[self.technology[c]] += duals.sum(axis=0)
        return Cut(constant, slope)

    def _mix(self, levels: dict[int, list[Level]], fixed: Array, room: Array) -> _Mix:
        """Mix the levels of each cell, scenario by scenario, at least cost within the rows."""
        p = self.problem.probability
        cost = np.concatenate([np.array([level.cost for level in levels[c]]) for c in self.coupled])
        used = np.concatenate(
            [np.array([level.used[self.kind] for level in levels[c]]) * (self.ratio[c][:, None] * p) for c in self.coupled]
        )
        cell = np.repeat(np.arange(len(self.coupled)), [len(levels[c]) for c in self.coupled])
        free = np.array([row.a[self.free] for row in self.problem.expected])
        shared = Rows(room, free, self.problem.c[self.free], self.highest)
        plain, measure = Levels(cost, used, cell, fixed, NO_SPARE), (p, self.risk_weight, self.tail_share)
        mixed = mix_levels(plain, shared, *measure)
        price = self._price(mixed)
        if self._excess(price) > 1:  # use is worth more than it costs on some path: prices that know it could be had for its own sake
            price = self._price(mix_levels(plain._replace(spare=self.spare), shared, *measure))
        total = fixed + (mixed.shares * cost).sum(axis=0)
        shares = [mixed.shares[cell == i] for i in range(len(self.coupled))]
        # less of a price holds as well
        return _Mix(shares, total, float(mixed.over.sum()), mixed.free, price._replace(row=price.row / self._excess(price)))

    def _price(self, mixed: Mixed) -> Price:
        """Return the prices of a mixture, no scenario's quite zero."""
        least = LEAST_SHARE if 1 - self.risk_weight < LEAST_SHARE else 0.0
        return Price(mixed.row, (1 - least) * mixed.scenario / mixed.scenario.sum() + least * self.problem.probability)

    def _excess(self, price: Price) -> float:
        """Return how many times too high prices of wanted use are in some scenario, at least once."""
        wanted = [self._wanted(c, price)[self.wants].max(axis=1, initial=0.0) for c in self.coupled if self.wants.any()]
        return float(max([1.0, *(np.array(wanted) / self.most[self.wants]).ravel().tolist()]))


def _by_unit(row: ExpectedRow) -> ExpectedRow:
    """Return a row whose largest use is one, so that rows that count the same at other rates are of one kind."""
    largest = float(np.abs(row.g).max(initial=0.0))
    return replace(row, g=np.round(np.asarray(row.g, dtype=float) / largest, DIGITS), weight=row.weight * largest) if largest else row


def priced_rows(problem: TwoStage, price: Array) -> tuple[Array, float]:
    """Return sum_k mu_k a_k and sum_k mu_k limit_k, the first-stage part of a cut at prices of the expected rows, (K,)."""
    a = sum((mu * row.a for mu, row in zip(price, problem.expected, strict=True)), np.zeros(len(problem.c)))
    return np.asarray(a), float(sum(mu * row.limit for mu, row in zip(price, problem.expected, strict=True)))
