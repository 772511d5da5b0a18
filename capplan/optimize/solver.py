"""The one door to PuLP and HiGHS: hand a model over as arrays, solve it, judge its status in one place."""

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
from scipy import sparse

from capplan.errors import SolveError
from capplan.optimize.equilibration import equilibrate

Array = np.ndarray
FEASIBILITY_TOLERANCE = 1e-9
OBJECTIVE_TOLERANCE = 1e-9


class InfeasibleError(SolveError):
    """No point satisfies all rows and bounds."""


class UnboundedError(SolveError):
    """The objective can be improved without end."""


@dataclass(frozen=True)
class Arrays:
    r"""A linear or mixed-integer program as matrices.

    .. math:: \min\ \text{sign}\,(c^T x + \text{offset})\quad\text{s.t.}\quad A x \lessgtr b,\ \text{lower} \le x \le \text{upper}
    """

    c: Array  #: (n,): Cost, already negated where the model maximises.
    #: A, b, sense ((k, n), (k,), (k,)): Rows; sense is "<", ">" or "=".
    A: sparse.csr_matrix
    b: Array
    sense: Array
    #: lower, upper (n,): Bounds; infinite where there is none.
    lower: Array
    upper: Array
    integer: Array  #: ((n,) bool): Which variables are whole numbers.
    #: names, row_names (tuple of str): Names of variables and rows, in order.
    names: tuple[str, ...] = ()
    row_names: tuple[str, ...] = ()
    sign: float = 1.0  #: 1 where the model minimises, -1 where it maximises; `sign * objective` is the model's own value.
    offset: float = 0.0  #: Constant of the objective, in the same sign as `c`.


@dataclass(frozen=True)
class Solved:
    """What the solver found; there is no such object for an infeasible or unbounded model."""

    x: Array  #: (n,): Variables.
    #: objective, bound: Value of x and the proven bound, in the model's own sign (bound <= objective where it minimises).
    objective: float
    bound: float
    gap_share: float  #: (objective - bound) / |objective|, 0 or more.
    #: "optimal", "gap" (stopped within the wanted gap) or "limit" (a limit stopped the search; the gap says how far it is proven).
    status: str
    #: duals, reduced_costs ((k,), (n,) or None): Change of the objective per unit of b and per unit of x; None for a model with integers,
    #: where they mean nothing.
    duals: Array | None = None
    reduced_costs: Array | None = None


def arrays(problem: Any) -> Arrays:
    """Turn a PuLP model into matrices, keeping its names.

    Args:
        problem (pulp.LpProblem): A model written with readable names.

    Returns:
        Arrays: The same model; maximisation is turned round by `sign`.

    Examples:
        >>> import pulp
        >>> model = pulp.LpProblem("lots", pulp.LpMaximize)
        >>> lots = model.add_variable("lots", 0, 7, "Integer")
        >>> model += 3 * lots + 1
        >>> model += 2 * lots <= 9, "power"
        >>> matrices = arrays(model)
        >>> matrices.row_names, matrices.b.tolist(), matrices.c.tolist()
        (('power',), [9.0], [-3.0])
    """
    import pulp

    variables = problem.variables()
    column = {id(variable): j for j, variable in enumerate(variables)}
    sign = -1.0 if problem.sense == pulp.LpMaximize else 1.0
    c = np.zeros(len(variables))
    offset = 0.0
    if problem.objective is not None:
        offset = sign * float(problem.objective.constant)
        for variable, value in problem.objective.items():
            c[column[id(variable)]] += sign * value
    symbol = {pulp.LpConstraintLE: "<", pulp.LpConstraintGE: ">", pulp.LpConstraintEQ: "="}
    row: list[int] = []
    col: list[int] = []
    entry: list[float] = []
    b: list[float] = []
    sense: list[str] = []
    constraints = problem.constraints()
    for i, constraint in enumerate(constraints):
        b.append(-float(constraint.constant))
        sense.append(symbol[constraint.sense])
        for variable, value in constraint.items():
            row.append(i)
            col.append(column[id(variable)])
            entry.append(value)
    A = sparse.csr_matrix((np.asarray(entry, dtype=float), (row, col)), shape=(len(b), len(variables)))
    lower = np.array([-np.inf if v.lowBound is None else float(v.lowBound) for v in variables])
    upper = np.array([np.inf if v.upBound is None else float(v.upBound) for v in variables])
    integer = np.array([v.cat == pulp.LpInteger for v in variables], dtype=bool)
    return Arrays(
        c,
        A,
        np.array(b),
        np.array(sense, dtype="<U1"),
        lower,
        upper,
        integer,
        tuple(v.name for v in variables),
        tuple(constraint.name for constraint in constraints),
        sign,
        offset,
    )


def solve(problem: Any, gap_share: float = 0.0, *, node_limit: int | None = None, time_limit_seconds: float | None = None) -> Solved:
    """Solve a PuLP model and write the values into its variables.

    Args:
        problem (pulp.LpProblem): The model. Its variables carry the solution afterwards, or no value where there is none.
        gap_share: Proven relative gap at which the search may stop.
        node_limit, time_limit_seconds: Further stops; a run cut short by them says so in `status`. A time limit makes the answer depend on
            the machine.

    Raises:
        InfeasibleError, UnboundedError, SolveError: Where there is no solution to give.

    Examples:
        >>> import pulp
        >>> model = pulp.LpProblem("lots", pulp.LpMaximize)
        >>> lots = model.add_variable("lots", 0, 7, "Integer")
        >>> model += 3 * lots + 1
        >>> model += 2 * lots <= 9, "power"
        >>> solve(model).objective, lots.value()
        (13.0, 4.0)
    """
    variables = problem.variables()
    for variable in variables:
        variable.varValue = None
    solved = solve_arrays(arrays(problem), gap_share, node_limit=node_limit, time_limit_seconds=time_limit_seconds)
    for variable, value in zip(variables, solved.x, strict=True):
        variable.varValue = float(value)
    return solved


def solve_arrays(
    model: Arrays,
    gap_share: float = 0.0,
    *,
    start: Array | None = None,
    node_limit: int | None = None,
    time_limit_seconds: float | None = None,
) -> Solved:
    """Solve a program given as matrices with HiGHS, one thread and a fixed seed, so that equal input gives equal output.

    Rows and continuous columns are scaled by powers of two first, so that a model with 1e9 beside 1 is judged by relative size.

    Args:
        gap_share: Proven relative gap at which the search may stop; 0 asks for the optimum.
        start ((n,), optional): A point to start from; ignored where it is not feasible.
        node_limit, time_limit_seconds: Further stops, see `solve`.

    Returns:
        Solved: Duals and reduced costs too where the model has no integers.

    Raises:
        InfeasibleError, UnboundedError, SolveError: Where there is no solution to give.
    """
    check_arrays(model)
    scaled, row_scale, column_scale, cost_scale = equilibrate(
        model.c, model.A, model.b, lower=model.lower, upper=model.upper, integer=model.integer
    )
    highs = load(replace(model, c=scaled.c, A=scaled.A, b=scaled.b, lower=scaled.lower, upper=scaled.upper))
    highs.setOptionValue("mip_rel_gap", float(gap_share))
    if node_limit is not None:
        highs.setOptionValue("mip_max_nodes", int(node_limit))
    if time_limit_seconds is not None:
        highs.setOptionValue("time_limit", float(time_limit_seconds))
    mixed = bool(model.integer.any())
    if start is not None:
        import highspy

        solution = highspy.HighsSolution()
        solution.col_value = (np.asarray(start, dtype=float) / column_scale).tolist()
        highs.setSolution(solution)
    run(highs)
    status = judge(highs)
    values = highs.getSolution()
    x = np.array(values.col_value) * column_scale
    x = np.clip(np.where(model.integer, np.round(x), x), model.lower, model.upper)
    info = highs.getInfo()
    objective = float(model.c @ x)
    bound = info.mip_dual_bound / cost_scale if mixed else info.objective_function_value / cost_scale
    bound = min(float(bound), objective)
    gap = (objective - bound) / max(abs(objective + model.offset), OBJECTIVE_TOLERANCE) if objective > bound else 0.0
    if status == "optimal" and gap > max(1e-9, gap_share * 1e-6) and mixed and gap_share > 0:
        status = "gap"
    duals = reduced = None
    if not mixed:
        duals = model.sign * np.array(values.row_dual) * row_scale / cost_scale
        reduced = model.sign * np.array(values.col_dual) / column_scale / cost_scale
    return Solved(x, model.sign * (objective + model.offset), model.sign * (bound + model.offset), gap, status, duals, reduced)


def load(model: Arrays) -> Any:
    """Return a silent, single-threaded `highspy.Highs` with the model passed as arrays."""
    try:
        import highspy
    except ImportError as error:
        raise SolveError(f"the solver HiGHS cannot be loaded ({error}); install it again with: pip install highspy") from error

    highs = _silent_highs()()
    for name, value in (
        ("threads", 1),
        ("random_seed", 0),
        ("mip_abs_gap", OBJECTIVE_TOLERANCE),
        ("primal_feasibility_tolerance", FEASIBILITY_TOLERANCE),
        ("dual_feasibility_tolerance", FEASIBILITY_TOLERANCE),
        ("mip_feasibility_tolerance", 1e-7),
        ("small_matrix_value", 1e-12),
    ):
        highs.setOptionValue(name, value)
    lp = highspy.HighsLp()
    k, n = model.A.shape
    lp.num_col_, lp.num_row_ = n, k
    lp.col_cost_, lp.col_lower_, lp.col_upper_ = model.c, model.lower, model.upper
    lp.row_lower_ = np.where(model.sense == "<", -np.inf, model.b)
    lp.row_upper_ = np.where(model.sense == ">", np.inf, model.b)
    columns = sparse.csc_matrix(model.A)
    columns.sum_duplicates()
    lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    lp.a_matrix_.start_, lp.a_matrix_.index_, lp.a_matrix_.value_ = columns.indptr, columns.indices, columns.data
    if model.integer.any():
        kinds = (highspy.HighsVarType.kContinuous, highspy.HighsVarType.kInteger)
        lp.integrality_ = [kinds[int(whole)] for whole in model.integer]
    if highs.passModel(lp) == highspy.HighsStatus.kError:
        raise SolveError("the solver refused the model: a coefficient is not finite or larger than 1e15; check prices and units")
    return highs


@cache
def _silent_highs() -> Any:
    """Return a Highs class that is silent from the first call: its own constructor would print a banner into piped output."""
    import highspy

    class SilentHighs(highspy.Highs):
        def enableCallbacks(self) -> None:  # noqa: N802 - overrides a method of highspy
            self.setOptionValue("output_flag", False)
            super().enableCallbacks()

    return SilentHighs


def run(highs: Any) -> None:
    """Run the solver; where the simplex method gives up on a linear program for lack of digits, try its other ways.

    Perturbed costs can leave the dual simplex method just short of a tight tolerance; without them, or from the primal
    side, or by an interior point with crossover, the same program solves. The order is fixed, so equal inputs still give equal answers.
    """
    import highspy

    for name, value in ((None, None), ("dual_simplex_cost_perturbation_multiplier", 0.0), ("simplex_strategy", 4), ("solver", "ipm")):
        if name is not None:
            highs.setOptionValue(name, value)
            highs.clearSolver()
        try:
            highs.run()
        except Exception as error:
            raise SolveError(f"the solver failed within its run ({type(error).__name__}: {error}); look for a lack of memory") from error
        if highs.getModelStatus() != highspy.HighsModelStatus.kUnknown:
            return


def judge(highs: Any) -> str:
    """Return "optimal" or "limit" for a run that left a usable point; raise for every other end.

    The only place that looks at the solver's status, because a solver leaves plausible values behind in an infeasible model.

    Raises:
        InfeasibleError, UnboundedError, SolveError: Says which, and what to do.
    """
    import highspy

    status = highs.getModelStatus()
    ends = highspy.HighsModelStatus
    if status == ends.kUnboundedOrInfeasible:
        highs.setOptionValue("presolve", "off")
        run(highs)
        status = highs.getModelStatus()
    if status == ends.kInfeasible:
        raise InfeasibleError("no solution satisfies all rows and bounds; explain_infeasibility names the rows that clash")
    if status in (ends.kUnbounded, ends.kUnboundedOrInfeasible):
        raise UnboundedError("the objective can be improved without end: a cost is missing or negative, or a limit is missing")
    if status in (ends.kOptimal, ends.kModelEmpty):
        return "optimal"
    limits = (ends.kTimeLimit, ends.kIterationLimit, ends.kSolutionLimit, ends.kObjectiveBound, ends.kObjectiveTarget, ends.kInterrupt)
    text = highs.modelStatusToString(status)
    if status in limits:
        if highs.getInfo().primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible:
            return "limit"
        raise SolveError(f"stopped by a limit ({text}) before any solution was found; allow more time or nodes")
    raise SolveError(f"the solver ended with '{text}' and no usable solution; look for coefficients of very different size")


def check_arrays(model: Arrays) -> None:
    """Refuse matrices whose shapes, senses or numbers cannot be meant."""
    k, n = model.A.shape
    for name, vector, size in (
        ("c", model.c, n),
        ("lower", model.lower, n),
        ("upper", model.upper, n),
        ("integer", model.integer, n),
        ("b", model.b, k),
        ("sense", model.sense, k),
    ):
        if np.shape(vector) != (size,):
            raise SolveError(f"{name} has shape {np.shape(vector)}; A is {k} x {n}, so it must have {size} entries")
    wrong = sorted(set(map(str, model.sense)) - {"<", ">", "="})
    if wrong:
        raise SolveError(f"row sense {wrong[0]!r} is not allowed; use '<', '>' or '='")
    for name, numbers in (("c", model.c), ("A", model.A.data), ("b", model.b)):
        if not np.isfinite(numbers).all():
            raise SolveError(f"{name} holds a number that is not finite; check prices, quantities and limits")
    if np.isnan(model.lower).any() or np.isnan(model.upper).any():
        raise SolveError("a bound is not a number; use -inf or inf where there is none")
    crossed = np.flatnonzero(model.lower > model.upper)
    if crossed.size:
        j = int(crossed[0])
        name = model.names[j] if model.names else f"variable {j}"
        raise InfeasibleError(f"{name} must be at least {model.lower[j]:g} and at most {model.upper[j]:g}; raise the upper bound")
