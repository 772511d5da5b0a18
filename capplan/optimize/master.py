"""The master program of the L-shaped method: the first stage with cuts in place of the recourse."""

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from capplan.errors import SolveError
from capplan.optimize.clock import cut_short, seconds_left
from capplan.optimize.evaluation import Cut
from capplan.optimize.program import TwoStage, cost_states
from capplan.optimize.solver import Arrays, judge, load, run

Array = np.ndarray
#: Options that are tried one after another where a search with integers ends in an error.
RESCUES = (("simplex_strategy", 1), ("presolve", "off"), ("primal_feasibility_tolerance", 1e-7))


class Relaxed(NamedTuple):
    """The master's first stage in parts, and what it costs, which no first stage undercuts."""

    x: Array
    bound: float


class Proposal(NamedTuple):
    """A first stage that the master proposes, the proven bound it comes with, and what the master thinks it costs (inf: none found)."""

    x: Array | None
    bound: float
    value: float


class _Rows:
    """Rows under construction, handed over in one call."""

    def __init__(self) -> None:
        self.low: list[float] = []
        self.starts = [0]
        self.index: list[Array] = []
        self.value: list[Array] = []

    def append(self, low: float, columns: Array, entries: Array) -> None:
        """Add sum(entries x) >= low without its zeros."""
        kept = np.flatnonzero(entries)
        self.low.append(low)
        self.index.append(columns[kept])
        self.value.append(entries[kept])
        self.starts.append(self.starts[-1] + len(kept))

    def extend(self, low: Array, counts: Array, columns: Array, entries: Array) -> None:
        """Add rows at once: what each is at least, how many entries it has, and the entries of all, without zeros, one after another."""
        self.low += low.tolist()
        self.starts += (self.starts[-1] + np.cumsum(counts)).tolist()
        self.index.append(columns)
        self.value.append(entries)

    def hand_over(self, highs: Any) -> None:
        """Add the rows to the solver."""
        if self.low:
            columns = np.concatenate(self.index).astype(np.int32)
            starts = np.array(self.starts[:-1], dtype=np.int32)
            highs.addRows(
                len(self.low), np.array(self.low), np.full(len(self.low), np.inf), len(columns), starts, columns, np.concatenate(self.value)
            )


class Master:
    r"""First stage, one value for the expected recourse of each technology and independent part and one for CVaR, held up by cuts.

    .. math:: \min c^T x + (1-\lambda)\sum_t \theta_t + \lambda\varphi,\quad z_t = T_t x,\quad
              \theta_t \ge a - g^T z_t,\quad \varphi \ge a - \sum_t g_t^T z_t,\quad
              \varphi \ge \sum_t \psi_t,\ \psi_t \ge a - g^T z_t

    t runs over technologies and independent parts of the recourse; psi_t is its cost under fixed reference weights of the scenarios, which
    CVaR never falls below.
    Costs are divided by the largest first-stage cost, so that tolerances are relative. z only has the rows of T_t that are not zero.

    Args:
        problem: The program.
        risk_weight: lambda.
        row_part (m,): Independent part of each recourse row.
    """

    def __init__(self, problem: TwoStage, risk_weight: float, row_part: Array) -> None:
        self.problem, self.risk_weight = problem, risk_weight
        n, m, parts = len(problem.c), problem.W.shape[0], int(row_part.max(initial=0)) + 1
        groups = len(problem.T) * parts
        self.unit = float(
            np.exp2(np.ceil(np.log2(max(np.abs(problem.c).max(initial=0.0), np.abs(cost_states(problem)[0]).max(initial=0.0), 1e-9))))
        )
        linking = sparse.vstack(list(problem.T), format="csr")
        self.linked = np.flatnonzero(np.diff(linking.indptr))
        self.linked_technology, self.linked_row = self.linked // m, self.linked % m
        self.own = [np.flatnonzero(self.linked_technology == t) for t in range(len(problem.T))]
        linked_group = self.linked_technology * parts + row_part[self.linked_row]
        self.groups = groups
        # links group by group, and the group of each entry of the groups' rows: their links, then their values
        self.by_group = np.argsort(linked_group, kind="stable")
        self.group_of = np.sort(np.concatenate([linked_group, np.arange(groups)]))
        self.is_value = np.append(self.group_of[1:] != self.group_of[:-1], True)
        self.seen: set[bytes] = set()
        self.priced: list[int] = []
        self.mixed = False
        links = len(self.linked)
        self.first_value = n + links
        self.tail_value = n + links + groups
        self.first_part = self.tail_value + 1
        rest = 2 * groups + 1
        columns = n + links + rest
        top = sparse.hstack([problem.A, sparse.csr_matrix((problem.A.shape[0], links + rest))])
        link = sparse.hstack([linking[self.linked], -sparse.eye(links), sparse.csr_matrix((links, rest))])
        split = sparse.csr_matrix(np.concatenate([np.zeros(self.tail_value), [1.0], -np.ones(groups)])[None])
        cost = np.concatenate([problem.c / self.unit, np.zeros(links), np.full(groups, 1 - risk_weight), [risk_weight], np.zeros(groups)])
        free = np.full(links + rest, np.inf)
        unused = np.zeros(columns, dtype=bool)
        unused[self.tail_value :] = risk_weight == 0
        unused[self.first_value : self.tail_value] = risk_weight == 1
        lower = np.where(unused, 0.0, np.concatenate([problem.lower, -free]))
        upper = np.where(unused, 0.0, np.concatenate([problem.upper, free]))
        # Cuts are dense in the values they hold up, so that presolve only undoes the structure; and a good first stage is known
        # before integers are asked for, so that the dearest searches for one are not worth their time. Nodes are many and each of them
        # has all cuts already, so that the solver's own are looked for at the root alone.
        self.highs: Any = load(
            Arrays(
                cost,
                sparse.csr_matrix(sparse.vstack([top, link, split])),
                np.concatenate([problem.b, np.zeros(links + 1)]),
                np.concatenate([problem.sense, np.full(links, "="), [">"]]),
                lower,
                upper,
                np.zeros(columns, dtype=bool),
            )
        )
        for name, value in (
            ("presolve", "off"),
            ("mip_heuristic_run_rens", False),
            ("mip_heuristic_run_rins", False),
            ("mip_allow_cut_separation_at_nodes", False),
        ):
            self.highs.setOptionValue(name, value)
        self.enough, self.reached = np.inf, -np.inf
        self.highs.cbMipInterrupt.subscribe(self._end_with_enough)

    def add(self, mean: Cut, tail: Cut | None, reference: Cut | None) -> None:
        """Add one cut for each group's expected cost, one for CVaR, and one for each group's part of CVaR, each once."""
        rows = _Rows()
        if self.risk_weight < 1:
            self._by_group(rows, mean, self.first_value)
        if self.risk_weight > 0 and tail is not None:
            slope = tail.slope[self.linked_technology, self.linked_row] / self.unit
            links = len(self.problem.c) + np.arange(len(self.linked))
            rows.append(tail.constant.sum() / self.unit, np.append(links, self.tail_value), np.append(slope, 1.0))
        if self.risk_weight > 0 and reference is not None:
            self._by_group(rows, reference, self.first_part)
        rows.hand_over(self.highs)

    def add_joint(self, cut: Cut, a: Array, limit: float) -> None:
        """Add a cut of the blended recourse cost with priced expected rows: value >= cut + a x - limit."""
        rows = _Rows()
        n, values = len(self.problem.c), self.tail_value - self.first_value
        slope = cut.slope[self.linked_technology, self.linked_row] / self.unit
        columns = np.concatenate([np.arange(n + len(self.linked)), self.first_value + np.arange(values), [self.tail_value]])
        entries = np.concatenate([-a / self.unit, slope, np.full(values, 1 - self.risk_weight), [self.risk_weight]])
        size = max(1.0, float(np.abs(entries).max()))
        rows.append((cut.constant.sum() - limit) / self.unit / size, columns, entries / size)
        rows.hand_over(self.highs)

    def add_price(self, a: Array, limit: float) -> None:
        """Make room for cuts at one set of prices of the expected rows: value >= sum of its parts by group + a x - limit."""
        groups, values = self.groups, self.tail_value - self.first_value
        self.priced.append(self.highs.getNumCol())
        self.highs.addVars(groups, np.full(groups, -np.inf), np.full(groups, np.inf))
        rows = _Rows()
        n, own = len(self.problem.c), self.priced[-1] + np.arange(groups)
        columns = np.concatenate([np.arange(n), self.first_value + np.arange(values), [self.tail_value], own])
        entries = np.concatenate([-a / self.unit, np.full(values, 1 - self.risk_weight), [self.risk_weight], np.full(groups, -1.0)])
        size = max(1.0, float(np.abs(entries).max()))
        rows.append(-limit / self.unit / size, columns, entries / size)
        rows.hand_over(self.highs)

    def add_priced(self, number: int, cut: Cut) -> None:
        """Add the cuts of each group at one set of prices."""
        rows = _Rows()
        self._by_group(rows, cut, self.priced[number])
        rows.hand_over(self.highs)

    def _by_group(self, rows: _Rows, cut: Cut, first: int) -> None:
        """Append value >= constant - slope z for each technology and part; `first` is the column of the first value."""
        constant, own = cut.constant.ravel() / self.unit, self.by_group
        columns, entries = first + self.group_of, np.ones(len(self.group_of))
        columns[~self.is_value] = len(self.problem.c) + own
        entries[~self.is_value] = cut.slope[self.linked_technology[own], self.linked_row[own]] / self.unit
        ends = np.flatnonzero(self.is_value) + 1
        text, size = entries.tobytes(), entries.itemsize
        keys = [
            head + text[begin * size : end * size]
            for head, begin, end in zip(_heads(first, constant), [0, *ends[:-1].tolist()], ends.tolist(), strict=True)
        ]
        new = np.array([key not in self.seen for key in keys])
        self.seen.update(keys)
        kept = new[self.group_of] & (entries != 0)
        counts = np.bincount(self.group_of[kept], minlength=self.groups)[new]
        rows.extend(constant[new], counts, columns[kept], entries[kept])

    def add_rays(self, rays: Array) -> None:
        """Add feasibility cuts: ray (h - T x) <= 0."""
        rows = _Rows()
        for ray in rays:
            own = self.own[int(ray[-1])]
            size = max(1.0, float(np.abs(ray[:-2]).max()))
            rows.append(ray[-2] / size, len(self.problem.c) + own, ray[self.linked_row[own]] / size)
        rows.hand_over(self.highs)

    def relax(self) -> Relaxed:
        """Solve without integers, from the last basis."""
        import highspy

        if self.mixed:
            whole = np.flatnonzero(self.problem.integer).astype(np.int32)
            self.highs.changeColsIntegrality(len(whole), whole, [highspy.HighsVarType.kContinuous] * len(whole))
            self.highs.setOptionValue("time_limit", np.inf)
            self.mixed = False
        run(self.highs)
        judge(self.highs)
        x = np.clip(np.array(self.highs.getSolution().col_value)[: len(self.problem.c)], self.problem.lower, self.problem.upper)
        return Relaxed(x, self.highs.getInfo().objective_function_value * self.unit)

    def duals(self) -> tuple[Array, Array]:
        """Return the duals of A and the reduced costs of x of the last relaxation."""
        solution = self.highs.getSolution()
        k, n = self.problem.A.shape
        return np.array(solution.row_dual)[:k] * self.unit, np.array(solution.col_dual)[:n] * self.unit

    def bound_by(self, lower: Array, upper: Array) -> None:
        """Hold x within bounds of its own for the solves that follow."""
        n = len(lower)
        self.highs.changeColsBounds(n, np.arange(n, dtype=np.int32), lower, upper)

    def whole(self, gap_share: float, start: Array | None, best: float = np.inf, enough: float = np.inf, nodes: int = 2**30) -> Proposal:
        """Solve with integers, from a known first stage.

        Args:
            gap_share: Relative gap of the master's own bounds at which the search ends.
            start ((n,) or None): A first stage that is known.
            best: Only first stages are looked for that cost less in the master; by reduced costs it fixes what none of these can have.
            enough: Bound at which the search ends, because no more is wanted.
            nodes: Nodes after which it ends with what it has.
        """
        import highspy

        highs, ends = self.highs, highspy.HighsModelStatus
        whole = np.flatnonzero(self.problem.integer).astype(np.int32)
        highs.changeColsIntegrality(len(whole), whole, [highspy.HighsVarType.kInteger] * len(whole))
        self.mixed, self.enough, self.reached = True, enough / self.unit, -np.inf
        limits = {
            "mip_rel_gap": float(gap_share),
            "mip_max_nodes": nodes,
            "time_limit": seconds_left(),
            "objective_bound": best / self.unit,
        }
        for option, limit in limits.items():
            highs.setOptionValue(option, limit)
        if start is not None:
            highs.setSolution(len(start), np.arange(len(start), dtype=np.int32), start)
        run(highs)
        for name, value in RESCUES:
            if highs.getModelStatus() not in (ends.kSolveError, ends.kUnknown):
                break
            # What is left from another search can lead astray: the solver begins anew, then with coarser ways too.
            highs.setOptionValue(name, value)
            highs.clearSolver()
            run(highs)
        highs.setOptionValue("objective_bound", np.inf)
        status, info = highs.getModelStatus(), highs.getInfo()
        if status == ends.kTimeLimit:
            cut_short()
        bound = min(best, max(info.mip_dual_bound, self.reached) * self.unit)
        if status == ends.kInfeasible and np.isfinite(best):
            return Proposal(None, best, np.inf)
        if (
            status in (ends.kSolutionLimit, ends.kInterrupt)
            and info.primal_solution_status != highspy.SolutionStatus.kSolutionStatusFeasible
        ):
            return Proposal(None, bound, np.inf)
        judge(highs)
        if not np.isfinite(bound):
            raise SolveError("the master program ended without a bound; look for coefficients of very different size")
        x = np.array(highs.getSolution().col_value)[: len(self.problem.c)]
        x = np.clip(np.where(self.problem.integer, np.round(x), x), self.problem.lower, self.problem.upper)
        return Proposal(x, bound, info.objective_function_value * self.unit)

    def _end_with_enough(self, event: Any) -> None:
        """End a search whose bound is enough; the solver remembers from one search to the next that it was told to end."""
        enough = event.data_out.mip_dual_bound >= self.enough
        if enough:
            self.reached = event.data_out.mip_dual_bound
        event.interrupt(enough)


def _heads(first: int, constant: Array) -> list[bytes]:
    """Return what tells the rows of groups apart beside their entries: the column of the value, and the constant."""
    text = np.column_stack([first + np.arange(len(constant)), constant]).tobytes()
    return [text[at : at + 16] for at in range(0, len(text), 16)]
