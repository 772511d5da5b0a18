"""A plan judged on demand paths it was not made for: what it costs there, and how far it may be from the best."""

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from scipy.special import ndtri, stdtrit

from capplan.book.assumptions.hindsight import HindsightAssumptions
from capplan.book.scenario import ProcurementAssumptions
from capplan.errors import CapplanError, SolveError
from capplan.optimize.evaluation import Evaluator, recourse_of
from capplan.optimize.program import TwoStage, blended_cost
from capplan.optimize.two_stage import solve_two_stage
from capplan.quantiles import weighted_quantiles
from capplan.questions.pricing import completed
from capplan.questions.procurement.decide import Stated, state_problem
from capplan.questions.procurement.explain.alternatives import some_paths
from capplan.questions.procurement.problem import Problem
from capplan.questions.procurement.supply.choices import lots_of
from capplan.questions.procurement.work.states import known_states, with_states
from capplan.text import money

CONFIDENCE = 0.95
#: Gap of the batches' bounds, which are solved with parts of lots.
BATCH_GAP = 1e-3
#: A cost below a bound by less than this share is rounding.
ROUNDING_SHARE = 1e-6


@dataclass(frozen=True)
class OutOfSample:
    """How a plan does on fresh paths.

    Args:
        table: name, usd, low_usd, high_usd, meaning: the risk-weighted cost on the plan's own paths and on fresh ones with its confidence
            band, the statistical gap with its upper confidence bound, and the certified gap.
        headline: One sentence.
        notes: What the numbers rest on.
    """

    table: pd.DataFrame
    headline: str
    notes: tuple[str, ...]


def judge_on_fresh_paths(
    problem: Problem, fresh: pd.DataFrame, purchases: pd.DataFrame, certified_gap_usd: float, a: HindsightAssumptions
) -> OutOfSample:
    r"""Estimate what a plan really costs and how far it is from the best, with paths it has not seen.

    .. math:: G_k = f_k(\hat x) - \min_x f_k(x),\qquad E[G_k] \ge f(\hat x) - \min_x f(x),\qquad
              \bar G + t_{0.95,K-1}\,s_G/\sqrt K

    bounds the gap from above with 95 % confidence; f_k is the objective over batch k, and its minimum is taken over parts of lots, which
    only widens the gap. Budgets on expected use tie all paths together and are left out on both sides: the plan's use by the hour is not
    rationed here, so where such a budget binds, the plan costs more than is stated and the gap does not count what keeping it costs.

    Args:
        fresh (path, probability, class, region, quarter, block, hours, work_per_hour): Other paths; path numbers differ.
        purchases: offer_id, quarter, lots of the plan, as in `answer.Purchases.purchases`.
        certified_gap_usd: Proven gap of the plan on its own paths.

    Raises:
        CapplanError: If there are fewer than two fresh paths a batch.

    Source: Mak, Morton and Wood, "Monte Carlo bounding techniques for determining solution quality in stochastic programs", Operations
        Research Letters 24 (1999); Rockafellar and Uryasev (2000) for the terms whose mean is the blend of expectation and CVaR.
    """
    paths = fresh["path"].drop_duplicates().tolist()
    if len(paths) < 2 * a.fresh_batches:
        raise CapplanError(
            f"{len(paths)} fresh paths are too few for {a.fresh_batches} batches of two or more; forecast more paths, plan on fewer, or"
            " lower fresh_batches"
        )
    stated, left_out = state_on_both(problem, fresh, a)
    x = first_stage_of(stated, purchases)
    own, new = split_paths(stated, fresh)
    evaluator = Evaluator(some_paths(stated.model.program, new), a.tail_share, recourse_of(stated.model.program))
    seen = _objective(some_paths(stated.model.program, own), x, a)
    cost, probability = evaluator.costs(x), evaluator.problem.probability
    first = float(stated.model.program.c @ x)
    mean = first + blended_cost(cost, probability, a.risk_weight, a.tail_share)
    terms = risk_terms(cost, probability, a)
    error = float(np.sqrt(probability**2 @ (terms - probability @ terms) ** 2))
    near = float(ndtri(0.5 + CONFIDENCE / 2))
    gaps = _batch_gaps(stated, new, x, a)
    gap = float(gaps.mean())
    reach = float(stdtrit(len(gaps) - 1, CONFIDENCE) * gaps.std(ddof=1) / np.sqrt(len(gaps)))
    rows = [
        ("on_its_own_paths", seen, seen, seen, "risk-weighted cost of the plan on the paths it was made for"),
        (
            "on_fresh_paths",
            mean,
            mean - near * error,
            mean + near * error,
            f"the same on {len(paths)} paths it has not seen, with a 95 % band",
        ),
        (
            "statistical_gap",
            gap,
            0.0,
            gap + reach,
            f"what the plan may lose against the best one, from {len(gaps)} batches of fresh paths; 95 % sure to be below high_usd",
        ),
        (
            "certified_gap",
            certified_gap_usd,
            0.0,
            certified_gap_usd,
            "what the plan may lose against the best one on its own paths; proven",
        ),
    ]
    table = pd.DataFrame(rows, columns=["name", "usd", "low_usd", "high_usd", "meaning"])
    headline = (
        f"On {len(new)} paths it has not seen the plan costs {money(mean)} ({money(mean - near * error)} to {money(mean + near * error)}), "
        f"on its own {money(seen)}; with 95 % confidence it is within {money(gap + reach)} of the best plan."
    )
    notes = (
        (
            f"The statistical gap rests on batches of {len(paths) // len(gaps)} paths; small batches and parts of lots make it look larger"
            " than it is."
        ),
        *left_out,
    )
    return OutOfSample(table, headline, notes)


def state_on_both(problem: Problem, fresh: pd.DataFrame, a: ProcurementAssumptions) -> tuple[Stated, tuple[str, ...]]:
    """State a problem over its own paths and fresh ones, without what depends on the mean of all; return it and what was left out."""
    states = known_states(problem.price_states, problem.delivery_states)
    both = together(with_states(problem.demand, states, a.seed), with_states(fresh, states, a.seed))
    limits, agreements, left_out = without_penalties(problem.limits, problem.spend_agreements)
    return state_problem(problem.replaced(demand=both, assumptions=a, limits=limits, spend_agreements=agreements)), left_out


def without_penalties(
    limits: pd.DataFrame | None, agreements: pd.DataFrame | None
) -> tuple[pd.DataFrame | None, pd.DataFrame | None, tuple[str, ...]]:
    """Return limits without soft budgets and agreements with nothing left to spend (their discounts stay), and what must be said of it.

    What a plan pays for them depends on the mean of all paths, so that no single path or batch of paths can say it.
    """
    notes = []
    if agreements is not None and len(agreements):
        agreements = completed(agreements, "spend_agreements").assign(committed_usd=lambda table: table["drawn_usd"])
        notes.append("payments for what stays unspent of agreements")
    if limits is not None and len(limits):
        table = completed(limits, "limits")
        soft = (table["kind"] == "budget_usd") & ~table["hard"].astype(bool)
        if soft.any():
            limits = table[~soft].reset_index(drop=True)
            notes.append("penalties of soft budgets")
    return limits, agreements, (f"Left out on both sides: {' and '.join(notes)}.",) if notes else ()


def together(demand: pd.DataFrame, fresh: pd.DataFrame) -> pd.DataFrame:
    """Join the plan's paths and others, each with half of the probability.

    Raises:
        CapplanError: If a path is in both.
    """
    name = "demand_path" if "demand_path" in demand else "path"
    both = sorted(set(demand[name]) & set(fresh[name]))
    if both:
        raise CapplanError(f"path {both[0]} is both one of the plan's and a fresh one; a plan is judged on paths it has not seen")
    halves = []
    for frame in (demand, fresh):
        total = frame[["path", "probability"]].drop_duplicates("path")["probability"].sum()
        halves.append(frame.assign(probability=frame["probability"] / total / 2))
    return pd.concat(halves, ignore_index=True)


def split_paths(stated: Stated, fresh: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Return the places of the plan's own paths and of the fresh ones among a problem's scenarios."""
    new = stated.work.paths["demand_path"].isin(fresh["path"]).to_numpy()
    return np.flatnonzero(~new), np.flatnonzero(new)


def first_stage_of(stated: Stated, purchases: pd.DataFrame) -> np.ndarray:
    """Return the first stage that makes some purchases: offer_id, quarter, lots."""
    table = stated.choices.table
    bought = purchases.groupby(["offer_id", "quarter"])["lots"].sum()
    lost = bought.index.difference(pd.MultiIndex.from_frame(table[["offer_id", "quarter"]]))
    if len(lost):
        raise CapplanError(f"the plan buys {lost[0][0]} from {lost[0][1]}, which the offers and dates given here do not allow")
    return stated.model.first_stage(lots_of(table, bought))


def _objective(program: TwoStage, x: np.ndarray, a: HindsightAssumptions) -> float:
    """Return the risk-weighted cost of a first stage."""
    cost = Evaluator(program, a.tail_share, recourse_of(program)).costs(x)
    return float(program.c @ x) + blended_cost(cost, program.probability, a.risk_weight, a.tail_share)


def risk_terms(cost: np.ndarray, probability: np.ndarray, a: ProcurementAssumptions) -> np.ndarray:
    """Return one term a scenario whose mean is the blend of expectation and CVaR."""
    at_risk = -float(weighted_quantiles(-cost, probability, (a.tail_share,))[0])
    return np.asarray((1 - a.risk_weight) * cost + a.risk_weight * (at_risk + np.maximum(cost - at_risk, 0.0) / a.tail_share))


def _batch_gaps(stated: Stated, new: np.ndarray, x: np.ndarray, a: HindsightAssumptions) -> np.ndarray:
    """Return in each batch of fresh paths how much more the plan costs than a bound on the best one."""
    demand_path = stated.work.paths["demand_path"].to_numpy()
    shuffled = np.random.default_rng(a.seed).permutation(np.unique(demand_path[new]))
    gaps, warm = [], None
    for batch in np.array_split(shuffled, a.fresh_batches):
        program = some_paths(stated.model.program, new[np.isin(demand_path[new], batch)])
        # Without budgets on expected use, which couple the paths of a batch: the bound is lower, and the gap no smaller.
        relaxed = replace(program, integer=np.zeros_like(program.integer), expected=())
        best = solve_two_stage(relaxed, a.risk_weight, a.tail_share, BATCH_GAP, warm=warm)
        warm = best.warm or warm
        gap = _objective(program, x, a) - best.lower
        if gap < -ROUNDING_SHARE * abs(best.lower):
            raise SolveError("a plan costs less than the bound on the best one; the two were judged by different limits")
        gaps.append(max(gap, 0.0))
    return np.array(gaps)
