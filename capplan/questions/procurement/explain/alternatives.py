"""What else could be done, and what knowing more would be worth."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy import sparse

from capplan.book.scenario import ProcurementAssumptions
from capplan.optimize.mean_program import alike, mean_program
from capplan.optimize.priced import priced_program
from capplan.optimize.program import Solution, TwoStage, blended_cost, expected_excess, slack_columns
from capplan.optimize.solver import InfeasibleError
from capplan.quantiles import weighted_quantiles
from capplan.questions.procurement.answer_tables import expected_use
from capplan.questions.procurement.decide import Decided
from capplan.questions.procurement.explain.dispatch import Court
from capplan.questions.procurement.program.agreement_proof import best_plan, row_prices
from capplan.questions.procurement.program.budget_proof import solve_within_budgets
from capplan.questions.procurement.program.first_stage import need_accelerators
from capplan.questions.procurement.program.limit_scope import named_in
from capplan.questions.procurement.program.purchase_model import Model
from capplan.questions.procurement.program.second_stage import Recourse
from capplan.questions.procurement.supply.choices import Choices
from capplan.questions.procurement.supply.departures import DEPARTURE
from capplan.questions.procurement.supply.generations import NOT_THERE
from capplan.questions.procurement.work.load import Work
from capplan.records import records

#: With more paths than this, the value of a perfect forecast is bounded by plans that may buy parts of lots; unless the program of a path
#: is small.
EXACT_PATHS = 10
#: Recourse columns of a path up to which it is small, paths of that size that are planned one by one, and how closely each of them is
#: proven at least.
SMALL_COLUMNS, SMALL_PATHS, KNOWN_GAP = 1_000, 100, 1e-4
#: Gap of what the plan is compared with, as a multiple of the plan's own.
BESIDE = 2.0
NOT_YET = "nothing is signed before the next review; the best plan from then on"
WITHIN = "a plan that keeps every budget, also those that may be broken at a price"
#: Alternatives that a reader is shown, in this order; the table has more, which other numbers come from.
SHOWN = ("plan", "sign_nothing_yet", "renew_all", "do_nothing", "look_back_30_days", "within_budget")
#: A budget is kept up to this sum.
KEPT_USD = 1.0
#: Groups of paths in that bound.
GROUPS = 6


class Excess(NamedTuple):
    """A limit that a first stage exceeds in a quarter, in the unit of its kind, with what is signed; a soft one is paid for instead."""

    limit_id: str
    kind: str
    quarter: str
    limit: float
    over: float
    hard: bool

    @property
    def name(self) -> str:
        """The limit and its quarter, as a sentence names them."""
        return named_in(self.limit_id, self.quarter)


#: What a first stage, its recourse cost by path and its recourse are together.
Served = tuple[np.ndarray, np.ndarray, sparse.csr_matrix]


def compare_alternatives(found: Decided, further: Sequence[tuple[str, np.ndarray, str]] = ()) -> pd.DataFrame:
    """Cost the plan beside what else could be done, all by the dispatch that the plan gets (`dispatch.Court`).

    Args:
        further: Other first stages to hold against the plan: name, first stage, meaning.

    Returns:
        DataFrame: Columns as in `answer.Purchases.alternatives`; the plan is the first row.
    """
    work, choices, recourse, model, solution, a = found.work, found.choices, found.recourse, found.model, found.solution, found.assumptions
    program = model.program
    court, free = Court(model, program, solution, a), Court(model, uncapped(program, recourse, work), solution, a)
    mean_plan = mean_value_plan(model, solution, a)
    nothing = model.first_stage(np.maximum(program.lower[model.position], 0.0))
    renewals = (choices.table["kind"] == "renewal").to_numpy()
    cases = [
        ("mean_value_plan", mean_plan.x, court, "what would be bought if the average of all paths were certain"),
        *((name, x, court, meaning) for name, x, meaning in further),
        ("do_nothing", nothing, court, "no purchase and no renewal; by the hour within today's caps, the rest left undone"),
        ("all_on_demand", nothing, free, "no purchase and no renewal, if on demand had no cap"),
    ]
    if (found.market.holdings["kind"] == "contract").any():
        words = "every contract that ends is renewed" if renewals.any() else "no contract ends in time to be renewed"
        all_of_them = np.where(renewals, choices.table["maximum_lots"].to_numpy(float), 0.0)
        renewed = model.first_stage(np.maximum(program.lower[model.position], all_of_them))
        cases.insert(1, ("renew_all", renewed, court, f"{words}, nothing else is bought"))
    parts = (choices, recourse, model, work, a)
    rows = [costed(("plan", "this plan"), served(solution), *parts)]
    later = _waiting(choices, model, solution, a)
    for name, other, meaning in (("sign_nothing_yet", later, NOT_YET), ("within_budget", _within_budgets(model, solution, a), WITHIN)):
        if other is not None:
            ways = [served(other), *_steered(other, court, model, every_budget=name == "within_budget")]
            rows.append(min((costed((name, meaning), way, *parts) for way in ways), key=_objective))
    for name, chosen, judged_by, meaning in cases:
        x, value, decisions = judged_by.dispatch(chosen)
        x, excesses = stretched(x, decisions, model)
        about, broken, ways = meaning, broken_limits(excesses), [(x, value, decisions)]
        if broken and name == "mean_value_plan":
            ways = _within_limits(judged_by, x, solution, a)
            about = f"{meaning}; use by the hour is kept within {', '.join(broken)}"
        elif broken:
            about = f"{meaning}; breaks {', '.join(broken)}"
        rows.append(min((costed((name, about), way, *parts) for way in ways), key=_objective))
        # to do nothing is one way to sign nothing yet, and the search for the best need not have met it
        if name == "do_nothing" and later is not None and not broken:
            rows[1] = min(rows[1], {**rows[-1], "name": "sign_nothing_yet", "meaning": NOT_YET}, key=_objective)
    table = pd.DataFrame(rows)
    table["regret_usd"] = table["objective_usd"] - table["objective_usd"].iloc[0]
    return table[[name for name in table.columns if name != "meaning"] + ["meaning"]]


def shown_alternatives(table: pd.DataFrame) -> pd.DataFrame:
    """Return the alternatives that a reader is shown, as far as a plan has them: what one would really do instead."""
    return table.set_index("name", drop=False).reindex([name for name in SHOWN if name in set(table["name"])]).reset_index(drop=True)


def mean_value_plan(model: Model, solution: Solution, a: ProcurementAssumptions) -> Solution:
    """Return the best plan for the average of all paths, what counts towards spend agreements included."""
    program, budgets = model.program, len(model.program.expected)
    certain = mean_program(replace(program, expected=(*program.expected, *model.agreed)))
    certain_model = replace(model, program=replace(certain, expected=certain.expected[:budgets]), agreed=tuple(certain.expected[budgets:]))
    neutral = a.model_copy(update={"risk_weight": 0.0, "gap_share": BESIDE * a.gap_share})
    return best_plan(certain_model, neutral, solution.warm, False, exact=False)[1]


def _steered(plan: Solution, court: Court, model: Model, *, every_budget: bool) -> list[Served]:
    """Return a plan with its use steered towards spend agreements; nothing where there are none, or where that breaks a limit.

    Args:
        every_budget: Whether it may pay for no budget either.
    """
    if not model.years:
        return []
    x, cost, decisions = court.dispatch(plan.x)
    x, excesses = stretched(x, decisions, model)
    return [] if any(each.hard or every_budget for each in excesses) else [(x, cost, decisions)]


def _objective(row: Mapping[str, object]) -> float:
    """Return what a row of the alternatives costs, risk-weighted."""
    return float(str(row["objective_usd"]))


def uncapped(program: TwoStage, recourse: Recourse, work: Work) -> TwoStage:
    """Return the program if on demand had no cap, also none by a quota of running machines; what has not come cannot be had."""
    lifted, rows = program.h.copy(), recourse.rows
    caps = rows["kind"].isin(["on_demand_accelerators", "quota_accelerators"]).to_numpy()
    lifted[:, caps] = (1 + need_accelerators(work).sum()) * recourse.W[np.flatnonzero(caps)].toarray().max(initial=1.0)
    waiting = rows["limit_id"].str.contains(NOT_THERE, regex=False).to_numpy() & (program.h == 0)
    return replace(program, h=np.where(waiting, 0.0, lifted))


def stretched(x: np.ndarray, decisions: sparse.csr_matrix, model: Model) -> tuple[np.ndarray, list[Excess]]:
    """Return a first stage that pays for the soft budgets it exceeds, and all limits that it exceeds."""
    program, x = model.program, x.copy()
    found: list[Excess] = []
    limits = [(about, program.A[[int(about["row"])]].toarray().ravel()) for about in records(model.rows)]
    for _, entries in limits:
        x[slack_columns(program, entries)] = 0.0
    for limit, entries in limits:
        found += _pay(x, entries, max(float(entries @ x - program.b[int(limit["row"])]), 0.0), limit, program)
    over_expected = expected_excess(program, x, decisions) if program.expected else np.zeros(0)
    for i in np.flatnonzero(over_expected).tolist():
        found += _pay(x, program.expected[i].a, float(over_expected[i]), model.budgets.iloc[i].to_dict(), program)
    return x, found


def broken_limits(excesses: Sequence[Excess]) -> list[str]:
    """Name the limits that are exceeded and cannot be paid for."""
    return list(dict.fromkeys(excess.name for excess in excesses if excess.hard))


def _pay(x: np.ndarray, entries: np.ndarray, over: float, limit: Mapping[str, object], program: TwoStage) -> list[Excess]:
    """Raise the excess that a soft limit prices, in place; return what is noticeably exceeded."""
    slack, amount = slack_columns(program, entries), float(str(limit["limit"]))
    if len(slack):
        x[slack[0]] += over / -entries[slack[0]]
    noticed, more = over > 1e-6 * max(abs(amount), 1.0), over + float(str(limit.get("already", 0.0)))
    return [Excess(str(limit["limit_id"]), str(limit["kind"]), str(limit["quarter"]), amount, more, not len(slack))] if noticed else []


def _within_limits(court: Court, x: np.ndarray, solution: Solution, a: ProcurementAssumptions) -> list[Served]:
    """Return the purchases of a first stage with the best use by the hour that keeps budgets or pays for them; empty if none does."""
    model, program = court.model, court.program
    lower, upper = program.lower.copy(), program.upper.copy()
    lower[model.position] = upper[model.position] = model.lots(x).round()
    held = replace(model, program=replace(program, lower=lower, upper=upper))
    try:
        return [served(best_plan(held, a.model_copy(update={"gap_share": BESIDE * a.gap_share}), solution.warm, False, exact=False)[1])]
    except InfeasibleError:
        return []


def _waiting(choices: Choices, model: Model, solution: Solution, a: ProcurementAssumptions) -> Solution | None:
    """Return the best plan that signs nothing before the next review, or None where this plan does so already or must sign."""
    program = model.program
    firm = model.position[(choices.table["firm"] & (choices.table["kind"] != DEPARTURE)).to_numpy(bool)]
    if not (solution.x[firm] > 0.5).any() or (program.lower[firm] > 0).any():
        return None
    upper = program.upper.copy()
    upper[firm] = 0.0
    held = replace(model, program=replace(program, upper=upper))
    beside = a.model_copy(update={"gap_share": BESIDE * a.gap_share})
    try:
        # Not from the plan's own use by the hour: where agreements steer it, less of it is left without the purchases.
        return best_plan(held, beside, solution.warm, False, exact=solution.status != "limit")[1]
    except InfeasibleError:
        return None


def _within_budgets(model: Model, solution: Solution, a: ProcurementAssumptions) -> Solution | None:
    """Return a plan that keeps every soft budget, or None where this plan does so already or none can."""
    program = model.program
    entries = [program.A[[int(row)]].toarray().ravel() for row in model.rows.loc[model.rows["kind"] == "budget_usd", "row"]]
    over = np.array([column for each in entries for column in slack_columns(program, each)], dtype=int)
    if not (solution.x[over] > KEPT_USD).any():
        return None
    upper = program.upper.copy()
    upper[over] = 0.0
    held = replace(model, program=replace(program, upper=upper), budgets=model.budgets.assign(soft=False))
    try:
        return best_plan(held, a.model_copy(update={"gap_share": BESIDE * a.gap_share}), solution.warm, False, exact=False)[1]
    except InfeasibleError:
        return None


def served(solution: Solution) -> Served:
    """Return the first stage of a solution with the cost of its recourse by path, and its recourse."""
    return solution.x, solution.cost_by_scenario, solution.recourse


def costed(
    about: tuple[str, str], served: Served, choices: Choices, recourse: Recourse, model: Model, work: Work, a: ProcurementAssumptions
) -> dict[str, object]:
    """Cost one first stage, named and described, in all measures of `answer.Purchases.alternatives`."""
    (name, meaning), (x, cost, decisions) = about, served
    program, planned = model.program, choices.timeline.planned
    first = float(program.c @ x)
    lots = model.lots(x)
    usd = expected_use(work, recourse, decisions, planned)[1].sum(axis=0)
    short = (recourse.columns["source"] == "shortfall").to_numpy()
    low, high = weighted_quantiles(cost, program.probability, (0.1, 0.9)).tolist()
    return {
        "name": name,
        "expected_usd": first + float(program.probability @ cost),
        "cvar_usd": first + blended_cost(cost, program.probability, 1.0, a.tail_share),
        "p10_usd": first + low,
        "p90_usd": first + high,
        "worst_usd": first + float(cost[program.probability > 0].max()),
        "objective_usd": first + blended_cost(cost, program.probability, a.risk_weight, a.tail_share),
        "spend_usd": float(
            usd[~short].sum()
            + (choices.expense_usd[:, :planned].sum(axis=1) * lots).sum()
            - choices.paid_power.saved_usd(lots, planned).sum()
        ),
        "shortfall_usd": float(usd[short].sum()),
        "beyond_horizon_usd": float((choices.running_usd[:, planned:].sum(axis=1) * lots).sum()),
        "meaning": meaning,
    }


def value_information(model: Model, solution: Solution, alternatives: pd.DataFrame, a: ProcurementAssumptions) -> pd.DataFrame:
    r"""Value a perfect forecast (EVPI) and planning with scenarios instead of their mean (VSS).

    Few paths, or small ones, are planned for one by one. With many, the mean of the best plans is bounded from below: the best cost with
    parts of lots is convex in demand, so the paths
    of a group
    cost at least what their mean costs (Jensen), :math:`\sum_{s \in G} p_s v(h_s) \ge p_G v(\bar h_G)`; EVPI is then at most what is
    stated.

    Args:
        model, solution, alternatives: The problem, its solution, and what `compare_alternatives` returns.

    Returns:
        DataFrame: Columns as in `answer.Purchases.information`.

    Source: Birge and Louveaux, Introduction to Stochastic Programming (2011), section 4.1 and 8.2.
    """
    known, exact = _known_beforehand(model, solution, a)
    costs = alternatives.set_index("name")
    expected = float(costs.at["plan", "expected_usd"])
    saved = float(costs.at["mean_value_plan", "objective_usd"] - costs.at["plan", "objective_usd"])
    if np.count_nonzero(model.program.probability) == 1:
        known, exact = expected, True  # nothing is uncertain
    most = "" if exact else "at most "
    perfect = f"{most}what a perfect forecast would be worth: expected cost of this plan less the mean of the best plans for each path"
    rows = [
        ("evpi", expected - known, perfect),
        *(
            []
            if "breaks" in str(costs.at["mean_value_plan", "meaning"])
            else [("vss", saved, "what planning with scenarios saves against planning for their average")]
        ),
    ]
    if "sign_nothing_yet" in costs.index:
        waited = float(costs.at["sign_nothing_yet", "regret_usd"])
        rows.append(("waiting", waited, "what it costs to sign nothing before the next review"))
    return pd.DataFrame(rows, columns=["name", "usd", "meaning"])


def _known_beforehand(model: Model, solution: Solution, a: ProcurementAssumptions) -> tuple[float, bool]:
    """Return what the best plans for each path cost at least, by the mean of all, and whether that is all but their cost."""
    program, constant = model.program, 0.0
    likely = np.flatnonzero(program.probability > 0)
    shared = len(likely) > 1 and (bool(model.years) or len(program.expected) > 0)
    if shared:
        # expected use is not a path's own: agreements and budgets are paid for at a price instead, which no plan for a path undercuts
        whole = model.whole() if model.years else program
        program, constant = priced_program(whole, row_prices(model, whole, solution), whole.probability)
    small = len(program.h) * len(program.q) <= SMALL_COLUMNS * len(program.probability) and len(likely) <= SMALL_PATHS
    exact = small or (len(likely) <= EXACT_PATHS and not model.years)
    gap_share = min(a.gap_share, KNOWN_GAP) if exact else a.gap_share
    order = likely[np.argsort(solution.cost_by_scenario[likely], kind="stable")]
    known, warm = -constant, solution.warm
    kind = alike(program)[order]
    parts = [order[kind == k] for k in np.unique(kind)]
    for group in [group for part in parts for group in np.array_split(part, len(part) if exact else min(len(part), GROUPS))]:
        single = mean_program(some_paths(program, group))
        if not exact:
            single = replace(single, integer=np.zeros_like(single.integer))
        best = solve_within_budgets(single, model.soft, 0.0, a.tail_share, gap_share, warm, exact=False)
        known, warm = known + program.probability[group].sum() * best.lower, best.warm and replace(best.warm, near=True)
    return known, exact and not shared


def some_paths(program: TwoStage, paths: np.ndarray) -> TwoStage:
    """Return the program of a future that is known to be one of these paths."""
    keep = np.isin(program.scenario, paths)
    place = np.zeros(len(program.probability), dtype=int)
    place[paths] = np.arange(len(paths))
    expected = tuple(replace(row, points=row.points[keep], weight=row.weight[keep]) for row in program.expected)
    return replace(
        program,
        h=program.h[keep],
        technology=program.technology[keep],
        weight=program.weight[keep],
        scenario=place[program.scenario[keep]],
        probability=program.probability[paths] / program.probability[paths].sum(),
        expected=expected,
    )
