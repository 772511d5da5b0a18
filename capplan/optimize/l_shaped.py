"""The L-shaped method with exact recourse: cuts from all points at once, a certified gap, and warm re-solves."""

import contextlib

import numpy as np

from capplan.errors import SolveError
from capplan.optimize.best_use import best_use
from capplan.optimize.clock import TOO_SOON, OutOfTimeError, time_is_up
from capplan.optimize.coupled import CoupledEvaluator, Price, priced_rows
from capplan.optimize.evaluation import Cut, Evaluated, Evaluator, Warm, aggregate, recourse_of
from capplan.optimize.fingerprint import digest
from capplan.optimize.lattice import find_lattice, nearby, whole_steps
from capplan.optimize.master import Master
from capplan.optimize.program import Marginals, Solution, TwoStage, blended_cost, cost_states, keeps_rows, least_use, risk_weights, shifts
from capplan.optimize.rounding import dive
from capplan.optimize.solver import InfeasibleError, UnboundedError

Array = np.ndarray
RELAXED_ITERATIONS = 400
#: Where expected rows are kept, so many whole proposals that leave more than this share of what the bounds are apart end the search.
IDLE_VISITS = 5
IDLE_SHARE = 0.95
#: Rounds of a search with integers and cuts at what it proposes.
WHOLE_ITERATIONS = 60
#: Nodes of the first such search, and of the last.
FIRST_NODES, MOST_NODES = 4_000, 20_000
#: Times that the relaxation is rounded step by step.
DIVES = 3
#: At most this many whole neighbours of a first stage are cut at, and fewer where they would have more points than this in all.
NEIGHBOURS, NEIGHBOUR_POINTS = 40, 400_000
CLOSE_SHARE = 0.25
FAR_SHARE = 0.05
PRICED_VISITS = (3, 8, 16, 24, 32)
PRECISION_SHARE = 0.7
IN_OUT_SHARE = 0.5
CLUSTERS = 8
SKETCH_GAP = 2e-3
POOL = 240
FINEST_GAP = 1e-9
FRUGAL_GAP = 1e-4


class UnsettledError(SolveError):
    """The cuts did not lead to a feasible first stage; the extensive form has to decide."""


class LShaped:
    r"""One solve: master, evaluator, incumbent and bounds.

    First an aggregated program of a few points for each technology is solved, whose cuts are valid by Jensen's inequality;
    then the relaxation with all points, evaluated between the master's proposal and the best point so far (in-out);
    then the program with integers. Each proposal is evaluated exactly, so that the upper bound is the cost of a feasible first stage and
    the lower bound is the master's.

    Args:
        problem, risk_weight, tail_share, gap_share: See `two_stage.solve_two_stage`.
        start ((n,), optional): A first stage to start from.
        warm: What an earlier solve left.

    Source: Van Slyke and Wets, "L-shaped linear programs with applications to optimal control and stochastic programming" (1969); Ben-Ameur
        and Neto, "Acceleration of cutting-plane and column generation algorithms: in-out" (2007).
    """

    def __init__(
        self,
        problem: TwoStage,
        risk_weight: float,
        tail_share: float,
        gap_share: float,
        start: Array | None = None,
        warm: Warm | None = None,
    ) -> None:
        self.problem, self.risk_weight, self.tail_share, self.gap_share, self.warm = problem, risk_weight, tail_share, gap_share, warm
        self.recourse_digest = digest(*cost_states(problem), problem.W, problem.recourse_sense)
        same_recourse = warm is not None and warm.recourse == self.recourse_digest
        self.library = warm.library if warm and same_recourse else recourse_of(problem)
        if warm and not same_recourse:
            self.library.adopt(warm.library)
        self.steps = whole_steps(problem)
        lattice = find_lattice(problem, self.library.row_part, self.steps)
        # Cuts through whole steps hold for whole first stages only, so the steps belong to what the cuts depend on.
        self.program_digest = digest(
            self.recourse_digest,
            *problem.T,
            problem.technology,
            problem.h,
            problem.weight,
            problem.scenario,
            problem.probability,
            lattice.row,
            lattice.step,
        )
        self.same_program = warm is not None and warm.program == self.program_digest and warm.tail_share == tail_share
        self.evaluator = Evaluator(problem, tail_share, self.library, lattice if lattice.any else None)
        self.master = Master(problem, risk_weight, self.library.row_part)
        self.coupled: CoupledEvaluator | None = None
        self.cuts: list[tuple[Cut, Cut | None, Cut | None]] = []
        self.rays: list[Array] = []
        self.joints: list[tuple[Array, Cut]] = []
        self.lower, self.upper = -np.inf, np.inf
        self.open_share = FAR_SHARE
        self.prices: list[Price] = []
        self.priced: list[list[Cut]] = []
        self.visits = 0
        self.cost = np.zeros(len(problem.probability))
        origin = np.zeros(len(problem.c)) if start is None else np.asarray(start, dtype=float)
        if warm is not None and start is None and len(warm.x) == len(problem.c):
            origin = warm.x
        self.x = np.clip(origin, problem.lower, problem.upper)
        if warm and self.same_program:
            self.evaluator.basis, self.evaluator.reference = warm.basis, warm.reference
            self.rays, self.cuts = list(warm.rays), list(warm.cuts)
        elif warm and (warm.near or not same_recourse):
            self.cuts = self.evaluator.begin_like(warm, self.x)
        for rays in self.rays:
            self.master.add_rays(rays)
        for cuts in self.cuts:
            self.master.add(*cuts)

    def solve(self) -> Solution:
        """Run the phases and return the best first stage with its bounds."""
        if not self.cuts:
            self._sketch()
        if self.evaluator.reference is None and self.risk_weight > 0:
            cost = self.evaluator.evaluate(self.x).cost_by_scenario
            if np.isfinite(cost).all():
                self.evaluator.reference = risk_weights(cost, self.problem.probability, 1.0, self.tail_share)
        if np.isfinite(self.problem.enough):
            self._offer_simple(np.round(self.x))
        relaxed = self.x
        while True:
            relaxed = relaxed if self._proven() else self._relaxed(relaxed)
            found = best_use(self.evaluator, self.coupled, relaxed)
            # Where parts of lots break expected rows, whole lots would too: no time is spent on whole lots without these rows.
            if not found.broken.any():
                marginals = self._finished(relaxed)
                found = best_use(self.evaluator, self.coupled, self.x) if np.isfinite(self.upper) else found
            if not found.broken.any():
                break
            self._check_limits(found.broken)
            kept = found.broken if self.coupled is None else found.broken | self.coupled.rows
            self.coupled = CoupledEvaluator(self.evaluator, self.risk_weight, self.tail_share, self.gap_share, kept)
            self.upper = np.inf
        use = self.evaluator.use(self.x)
        if found.joint is not None and np.isfinite(self.upper):
            # dispatches of equal cost may differ by scenario: cost and recourse are those of one and the same
            self.x, self.cost = found.joint.x, found.joint.cost_by_scenario
            self.upper = float(self.problem.c @ self.x) + blended_cost(
                self.cost, self.problem.probability, self.risk_weight, self.tail_share
            )
            use = lambda: found.recourse  # noqa: E731
        if np.isinf(self.upper) and time_is_up():
            raise OutOfTimeError(TOO_SOON)
        if np.isinf(self.upper):
            raise UnsettledError("no first stage was found that leaves every point feasible and keeps the expected rows")
        gap = (self.upper - self.lower) / max(abs(self.upper), 1e-12)
        status = "optimal" if gap <= FINEST_GAP else "gap" if gap <= self.gap_share else "limit"
        left = Warm(
            self.program_digest,
            self.recourse_digest,
            self.library,
            self.evaluator.basis,
            tuple(self.cuts[-POOL:]),
            tuple(self.rays),
            self.tail_share,
            self.evaluator.reference,
            self.x,
            self.problem.technology,
            tuple(self.evaluator.visited),
            tuple(self.joints),
            tuple((price.row, tuple(cuts)) for price, cuts in zip(self.prices, self.priced, strict=True)),
            self.warm is not None and self.warm.near,
        )
        told = status == "limit" and self._proven()
        return Solution(self.x, min(self.lower, self.upper), self.upper, self.cost, status, use, marginals, "l_shaped", left, told)

    def _check_limits(self, broken: Array) -> None:
        """Raise where the least that a broken expected row can use is above its limit, whatever it costs."""
        problem = self.problem
        for k in np.flatnonzero(broken).tolist():
            row, frugal = problem.expected[k], least_use(problem, problem.expected[k])
            try:
                least = LShaped(frugal, 0.0, 1.0, FRUGAL_GAP).solve().lower
            except UnboundedError:
                continue
            if least > row.limit + 1e-7 * max(1.0, abs(row.limit)):
                raise InfeasibleError(f"expected row {k} needs at least {least:,.6g} and is limited to {row.limit:,.6g}; raise the limit")

    def _relaxed(self, x: Array) -> Array:
        """Solve the relaxation; return its best point."""
        return self._relax(self.evaluator, x, self.gap_share / 2 if self.problem.integer.any() else self.gap_share)

    def _finished(self, relaxed: Array) -> Marginals:
        """Solve the program with integers, where there are any; return what one more unit is worth in the relaxation."""
        prices = np.zeros(len(self.problem.expected))
        rows, reduced = self.master.duals()
        if self.coupled is not None:
            self.evaluator.rest(relaxed)
            prices = -self.coupled.evaluate(relaxed).price.row
        if self.problem.integer.any():
            self._search(relaxed)
        else:
            self._offer_point(relaxed)
        return Marginals(rows, prices, reduced)

    def _value(self, problem: TwoStage, x: Array, found: Evaluated) -> float:
        """Return the objective of an evaluated first stage; infinite where a point is infeasible."""
        if not np.isfinite(found.cost_by_scenario).all():
            return np.inf
        risk_weight = self.risk_weight if problem is self.problem else 0.0
        return float(problem.c @ x) + blended_cost(found.cost_by_scenario, problem.probability, risk_weight, self.tail_share)

    def _raised_value(self, problem: TwoStage, x: Array, found: Evaluated) -> float:
        """Return the objective with the chords in place of the recourse cost, which the relaxation can reach at most."""
        return self._value(problem, x, found) + float(np.array([1 - self.risk_weight, self.risk_weight]) @ found.raised)

    def _visit(self, evaluator: Evaluator, x: Array, worth: float = np.inf) -> tuple[Array, Evaluated]:
        """Evaluate a first stage and add its cuts; under expected rows, with the best dispatch that keeps them.

        From a cost of `worth` on, how much more it costs need not be known.
        """
        found = evaluator.evaluate(x)
        if len(found.rays):
            self.rays.append(found.rays)
            self.master.add_rays(found.rays)
        if self.coupled is None or not np.isfinite(found.cost_by_scenario).all():
            for cuts in ((found.mean, found.tail, found.reference), *((mean, None, reference) for mean, reference in found.chords)):
                self.cuts.append(cuts)
                self.master.add(*cuts)
            return x, found
        joint = self.coupled.evaluate(x, self.open_share, self.prices, worth)
        price = priced_rows(self.problem, joint.price.row)
        self.joints.append((joint.price.row, joint.cut))
        self.master.add_joint(joint.cut, *price)
        for number, cut in enumerate(joint.others):
            self.priced[number].append(cut)
            self.master.add_priced(number, cut)
        # Prices at which the rows cannot be kept say little about other first stages.
        kept = bool(np.isfinite(joint.cost_by_scenario).all())
        self.visits += kept
        if kept and self.visits in PRICED_VISITS:
            self.prices.append(joint.price)
            self.priced.append([joint.cut])
            self.master.add_price(*price)
            self.master.add_priced(len(self.prices) - 1, joint.cut)
        return joint.x, found._replace(cost_by_scenario=joint.cost_by_scenario)

    def _sketch(self) -> None:
        """Solve the aggregated relaxation, whose cuts hold for the full program too, to start near the optimum."""
        if len(self.problem.technology) <= CLUSTERS * len(self.problem.T):
            return
        small = aggregate(self.problem, CLUSTERS)
        self.x = self._relax(Evaluator(small, 1.0, self.library), self.x, max(SKETCH_GAP, self.gap_share))

    def _relax(self, evaluator: Evaluator, x: Array, gap_share: float) -> Array:
        """Cut until the relaxation is solved to a gap; return its best point."""
        problem = evaluator.problem
        # A start that breaks first-stage rows is no point to stay near, and its cost bounds nothing.
        x, seen = self._visit(evaluator, x)
        best, value = x, self._raised_value(problem, x, seen) if keeps_rows(self.problem, x) else np.inf
        last = np.full(len(x), np.nan)
        for _ in range(RELAXED_ITERATIONS):
            proposal = self.master.relax()
            if problem is self.problem:
                self.lower = max(self.lower, proposal.bound)
            self.open_share = _open_share(value, proposal.bound)
            if np.isfinite(value) and value - proposal.bound <= gap_share * max(abs(value), 1e-12):
                break
            if time_is_up():
                return proposal.x if np.isinf(value) else best
            inside = proposal.x if np.isinf(value) else IN_OUT_SHARE * proposal.x + (1 - IN_OUT_SHARE) * best
            if np.array_equal(inside, last):
                break  # its cut is there already: under expected rows one may lie below what its point costs
            last = inside
            inside, seen = self._visit(evaluator, inside, value)
            found = self._raised_value(problem, inside, seen)
            if found < value:
                best, value = inside, found
        return best

    def _search(self, relaxed: Array) -> None:
        """Solve with integers: near the relaxed point first, then everywhere, until the bounds meet."""
        problem = self.problem
        guess = np.clip(np.where(problem.integer, np.round(relaxed), relaxed), problem.lower, problem.upper)
        if self._proven():
            return
        self._offer_point(guess)
        if not self._proven() and time_is_up():
            self._offer_simple(np.round(relaxed), np.floor(relaxed + 1e-6), np.zeros(len(relaxed)))
            return
        for _ in range(DIVES):
            if self._proven() or time_is_up():
                return
            best = self.upper
            found = dive(self.master, relaxed, anew=np.isfinite(problem.enough))
            if found is None or (self._offer_point(found) >= best and np.isfinite(best)):
                break
            relaxed = self._bounded()
        if not self._proven():
            # where many cuts are there already, a few more will do
            self._surround(relaxed, max(NEIGHBOURS - len(self.cuts), NEIGHBOURS // 4))
            self._propose(guess)

    def _bounded(self) -> Array:
        """Solve the relaxation with the cuts there are; return its point."""
        proposal = self.master.relax()
        self.lower = max(self.lower, proposal.bound)
        return proposal.x

    def _surround(self, x: Array, count: int) -> None:
        """Cut at whole neighbours of a first stage, technology by technology, where the master, or while cuts are few the next, may go."""
        if self.coupled is not None or np.isfinite(self.problem.enough) or (self._proven() and 2 * len(self.cuts) >= 3 * NEIGHBOURS):
            return
        count = min(count, NEIGHBOUR_POINTS // max(len(self.problem.technology), 1))
        for shift in nearby(self.problem, self.steps, shifts(self.problem, x), count, len(self.cuts)):
            planes = self.evaluator.planes(shift)
            if planes is not None:
                self.cuts.append((planes[0], None, planes[1]))
                self.master.add(*self.cuts[-1])

    def _offer_simple(self, *points: Array) -> None:
        """Offer points with these whole numbers, each with the rest as the cuts so far like it best."""
        problem = self.problem
        for point in points:
            held = np.clip(point, problem.lower, problem.upper)
            self.master.bound_by(np.where(problem.integer, held, problem.lower), np.where(problem.integer, held, problem.upper))
            with contextlib.suppress(InfeasibleError):
                self._offer_point(self.master.relax().x)
        self.master.bound_by(problem.lower, problem.upper)

    def _propose(self, guess: Array) -> None:
        """Let the master propose, evaluate, cut, until the bounds meet.

        The master looks only for first stages that would beat the best one, and stops where it knows that none does by more than the gap,
        or after some nodes for closer cuts. Its precision, or its nodes, rise only where they, and not the cuts, hold back the bounds.
        """
        precision, nodes, seen = PRECISION_SHARE * self.gap_share, FIRST_NODES, set()
        apart: list[float] = []  # cuts under expected rows may lie below what their point costs, and then bring the bounds no nearer
        for _ in range(WHOLE_ITERATIONS):
            apart.append(self.upper - self.lower)
            idle = self.coupled is not None and len(apart) > IDLE_VISITS and apart[-1] >= IDLE_SHARE * apart[-1 - IDLE_VISITS]
            if self._proven() or time_is_up() or idle:
                return
            self.open_share = _open_share(self.upper, self.lower)
            known = np.isfinite(self.upper)
            size = abs(self.upper) if known else 0.0
            enough = min(self.upper - max(self.gap_share, FINEST_GAP) * size, self.problem.too_dear + FINEST_GAP * size)
            try:
                proposal = self.master.whole(max(precision, FINEST_GAP), self.x if known else guess, self.upper, enough, nodes)
            except InfeasibleError:
                raise
            except SolveError:
                if time_is_up():
                    return
                if self.coupled is None or not known:
                    raise
                # The cuts at budget prices leave the master short of digits: what is found and proven so far stands.
                return
            self.lower = max(self.lower, proposal.bound)
            limited = proposal.value - proposal.bound > max(precision, FINEST_GAP) * abs(proposal.value) + 1e-9
            if proposal.x is None:
                value, stalled = np.inf, True
            else:
                value = self._offer_point(proposal.x)
                close = value - proposal.value < CLOSE_SHARE * self.gap_share * max(abs(value), 1e-12)
                stalled = close or proposal.x.tobytes() in seen
                seen.add(proposal.x.tobytes())
                self._surround(proposal.x, NEIGHBOURS // 4)
            if limited:
                if nodes >= MOST_NODES and stalled:
                    return
                nodes = min(2 * nodes, MOST_NODES)
            elif stalled:
                if precision <= FINEST_GAP:
                    return
                precision /= 4

    def _offer_point(self, x: Array) -> float:
        """Evaluate a first stage that keeps the integers, cut, and keep it if it is the best; return its value (inf: infeasible)."""
        x, found = self._visit(self.evaluator, x, self.upper)
        value = self._value(self.problem, x, found)
        if keeps_rows(self.problem, x):
            self._offer(x, value, found.cost_by_scenario)
        return value

    def _proven(self) -> bool:
        """Tell whether the bounds are as near as wanted, or on which side of what is enough the cost is."""
        near = self.upper - self.lower <= self.gap_share * max(abs(self.upper), 1e-12)
        return bool(np.isfinite(self.upper) and (near or self.upper <= self.problem.enough or self.lower > self.problem.too_dear))

    def _offer(self, x: Array, value: float, cost: Array) -> None:
        """Keep a first stage if it is the best so far."""
        if value < self.upper or np.isinf(self.upper):
            self.x, self.upper, self.cost = x, value, cost


def _open_share(upper: float, lower: float) -> float:
    """Return how far two bounds are apart, as a share; no more than is far."""
    return min((upper - lower) / max(abs(upper), 1e-12), FAR_SHARE) if np.isfinite(upper) else FAR_SHARE
