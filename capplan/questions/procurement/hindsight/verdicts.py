"""A verdict for each purchase that is due now: sign it, wait, or too close to call."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
from scipy.special import ndtri

from capplan.optimize.evaluation import Evaluator, recourse_of
from capplan.optimize.solver import InfeasibleError
from capplan.questions.procurement.decide import Decided
from capplan.questions.procurement.explain.alternatives import BESIDE, some_paths
from capplan.questions.procurement.hindsight.fresh_paths import CONFIDENCE, risk_terms, split_paths, state_on_both
from capplan.questions.procurement.program.agreement_proof import paid
from capplan.questions.procurement.program.budget_proof import solve_within_budgets
from capplan.questions.procurement.supply.departures import DEPARTURE
from capplan.text import counted, money

SIGN, WAIT, CLOSE = "sign", "wait", "too close to call"
#: Purchases that are judged one by one, the largest first.
MOST = 10
#: Name of the row that judges all of them together.
TOGETHER = "all due now"
SAVES = ["saves_usd", "saves_low_usd", "saves_high_usd"]
COLUMNS = ["offer_id", "quarter", "lots", "usd", "verdict", *SAVES, "paths", "later_price_usd", "later_demand_usd"]


def judge_purchases(found: Decided, fresh: pd.DataFrame) -> pd.DataFrame:
    r"""Hold each purchase due before the next review against waiting for it, path by path on demand that the plan has not seen.

    .. math:: d_s = t_s(\text{without it now}) - t_s(\text{plan}),\qquad \bar d \pm z\,\sqrt{\textstyle\sum_s p_s^2 (d_s - \bar d)^2}

    Without it: that offer is not bought now, no more of the others is, and later purchases are chosen anew. t_s is the term of a path
    whose mean is the blend of
    expectation and CVaR. Both sides meet the same paths, so that what moves both cancels. What depends on the mean of all paths (payments
    for
    unspent agreements, penalties of soft budgets, use steered by them) is judged on the plan's own paths and added to both ends.

    Args:
        fresh (path, probability, class, region, quarter, block, hours, work_per_hour): Paths the plan was not made for; their numbers
            differ from the plan's.

    Returns:
        DataFrame: offer_id, quarter, lots, usd (contract value), verdict, saves_usd (what signing now saves against waiting,
            risk-weighted), saves_low_usd, saves_high_usd (95 % interval), paths; and what waiting costs in two parts, which sum to
            saves_usd: later_price_usd (the same purchase at the expected price of the next review; below zero where prices fall) and
            later_demand_usd (all else: what serves the work until then, less what is not bought in vain); empty where it cannot be signed
            then. One row for each of the largest purchases, and one for all together where there are several. No rows where nothing is due.

    Source: Law and Kelton, Simulation Modeling and Analysis (2000), section 10.2 (paired differences under common random numbers).
    """
    firm = (found.choices.table["firm"] & (found.choices.table["kind"] != DEPARTURE)).to_numpy(bool)
    due = np.flatnonzero(firm & (found.lots > 0.5))
    if not len(due):
        return pd.DataFrame(columns=COLUMNS)
    bought = found.purchases.set_index(["offer_id", "quarter"])
    usd = {
        j: float(bought.loc[(row.offer_id, row.quarter), "usd"].sum())
        for j, row in zip(due.tolist(), found.choices.table.iloc[due].itertuples(), strict=True)
    }
    each = sorted(due.tolist(), key=lambda j: (-usd[j], j))[:MOST]
    asked = [np.array([j]) for j in each] + ([due] if len(due) > 1 else [])
    others = [_without(found, firm, gone) for gone in asked]
    differences, corrections, paths = _differences(found, fresh, others)
    near, rows = float(ndtri(0.5 + CONFIDENCE / 2)), []
    for gone, other, difference, correction in zip(asked, others, differences, corrections, strict=True):
        row = found.choices.table.iloc[int(gone[0])]
        name = TOGETHER if len(gone) > 1 else row["offer_id"]
        about = (name, found.choices.table["quarter"].iloc[gone].min(), float(found.lots[gone].sum()), sum(usd[j] for j in gone.tolist()))
        if other is None:
            rows.append((*about, SIGN, np.inf, np.inf, np.inf, paths, np.nan, np.nan))
            continue
        mean = float(difference.mean()) + correction
        reach = near * float(difference.std(ddof=1)) / np.sqrt(len(difference))
        rounding = 1e-9 * abs(found.solution.upper)
        verdict = SIGN if mean - reach > rounding else WAIT if mean + reach < -rounding else CLOSE
        moved = sum(_price_later(found, j, usd[j]) for j in gone.tolist())
        rows.append((*about, verdict, mean, mean - reach, mean + reach, paths, moved, mean - moved))
    return pd.DataFrame(rows, columns=COLUMNS)


def _price_later(found: Decided, j: int, usd: float) -> float:
    """Return what a purchase costs more if it is signed at the next review, at the expected price of that day; NaN where it cannot be."""
    table, a = found.choices.table, found.problem.assumptions
    row, quarters = table.iloc[j], list(found.choices.timeline.quarters)
    then = quarters[min(quarters.index(row["quarter"]) + a.review_interval_quarters, len(quarters) - 1)]
    same = table[(table["offer_id"] == row["offer_id"]) & (table["quarter"] == then) & (table["minimum_lots"] == row["minimum_lots"])]
    if same.empty or row["kind"] != "offer":
        return float("nan")
    price = "capex_usd" if row["term"] == "owned" else "usd_per_hour"
    return float(usd * (same[price].iloc[0] / row[price] - 1))


def _without(found: Decided, firm: np.ndarray, gone: np.ndarray) -> tuple[np.ndarray, float] | None:
    """Return lots and cost of the best plan that skips some of what is due now, and buys no more of the rest; None if none."""
    model, a = found.model, found.problem.assumptions
    upper = model.program.upper.copy()
    upper[model.position[firm]] = np.minimum(upper[model.position[firm]], found.lots[firm])
    upper[model.position[gone]] = 0.0
    if (upper < model.program.lower).any():
        return None
    held = replace(model.program, upper=upper)
    try:
        solved = solve_within_budgets(held, model.soft, a.risk_weight, a.tail_share, BESIDE * a.gap_share, found.solution.warm, exact=False)
    except InfeasibleError:
        return None
    x = paid(model, solved.x, solved.recourse) if model.years else solved.x
    return model.lots(solved.x).round(), solved.upper + float(model.program.c @ (x - solved.x))


def _differences(
    found: Decided, fresh: pd.DataFrame, others: Sequence[tuple[np.ndarray, float] | None]
) -> tuple[list[np.ndarray], list[float], int]:
    """Return what each other plan costs more on each fresh path, what only the mean of all paths adds, and the number of paths."""
    a = found.problem.assumptions
    stated, _ = state_on_both(found.problem, fresh, a)
    program = stated.model.program
    own, new = (some_paths(program, paths) for paths in split_paths(stated, fresh))
    library = recourse_of(program)
    if found.solution.warm:
        library.adopt(found.solution.warm.library)
    evaluators = [Evaluator(part, a.tail_share, library) for part in (own, new)]

    def terms(lots: np.ndarray, evaluator: Evaluator) -> np.ndarray:
        x, part = stated.model.first_stage(lots), evaluator.problem
        cost = evaluator.costs(x)
        # paths of unequal probability count as often as they are likely
        return (float(part.c @ x) + risk_terms(cost, part.probability, a)) * part.probability * len(cost)

    plan = [terms(found.lots, evaluator) for evaluator in evaluators]
    differences, corrections = [], []
    tied = bool(found.model.years) or bool(found.model.program.expected)
    for other in others:
        if other is None:
            differences.append(np.zeros(0))
            corrections.append(0.0)
            continue
        apart = [terms(other[0], evaluator) - mine for evaluator, mine in zip(evaluators, plan, strict=True)]
        differences.append(apart[1])
        corrections.append(other[1] - found.solution.upper - float(apart[0].mean()) if tied else 0.0)
    return differences, corrections, len(new.probability)


def follow_verdicts(headline: str, verdicts: pd.DataFrame) -> str:
    """Return a headline that recommends no more than the verdicts do: it says what of what is due is worth signing now, and what is not.

    Examples:
        >>> sure, close = (SIGN, 1e6, 5e5, 2e6, 100, 0.0, 1e6), (CLOSE, 1e4, -5e4, 6e4, 100, 0.0, 1e4)
        >>> table = pd.DataFrame([("a", "2027Q1", 1.0, 5e6, *sure), ("b", "2027Q1", 1.0, 2e6, *close)], columns=COLUMNS)
        >>> follow_verdicts("Sign 2 contracts: the plan costs $9.0M.", table)
        'Sign 2 contracts: the plan costs $9.0M. Of these, sign a; b is too close to call.'
        >>> follow_verdicts("X.", table[1:])
        'Too close to call, so wait: signing b now saves -$50.0k to $60.0k on paths the plan has not seen. If it is signed nevertheless: x.'
    """
    single = verdicts[verdicts["offer_id"] != TOGETHER]
    together = verdicts[verdicts["offer_id"] == TOGETHER]
    sure = single[single["verdict"] == SIGN]
    if len(sure) == len(single):
        return headline
    if sure.empty and not (together["verdict"] == SIGN).any():
        judged = together.iloc[0] if len(together) else single.iloc[0]
        word = "Waiting is better" if judged["verdict"] == WAIT else "Too close to call, so wait"
        what = (
            f"signing {'what is due' if len(together) else judged['offer_id']} now saves {money(judged['saves_low_usd'])} to"
            f" {money(judged['saves_high_usd'])}"
        )
        return f"{word}: {what} on paths the plan has not seen. If it is signed nevertheless: {headline[0].lower()}{headline[1:]}"
    words = (
        [f"sign {', '.join(dict.fromkeys(sure['offer_id']))}"]
        if len(sure)
        else ["signing all of them is worth it, though none of them alone decides"]
    )
    for verdict, say in ((CLOSE, "too close to call"), (WAIT, "better waited for")):
        names = list(dict.fromkeys(single.loc[single["verdict"] == verdict, "offer_id"]))
        if names and (len(sure) or verdict == WAIT):
            words.append(
                f"{', '.join(names) if len(names) <= 3 else counted(len(names), 'purchase')} {'is' if len(names) == 1 else 'are'} {say}"
            )
    return f"{headline} Of these, {'; '.join(words)}."


def verdict_words(verdicts: pd.DataFrame) -> pd.DataFrame:
    """Return a line of the explanation for each verdict, amounts in the currency in force: about, words."""
    rows = []
    for row in verdicts.itertuples():
        if np.isinf(row.saves_usd):
            words = "Sign: without it there is no plan that keeps all limits."
        else:
            between = f"{money(row.saves_low_usd)} to {money(row.saves_high_usd)}"
            words = (
                f"{row.verdict[0].upper()}{row.verdict[1:]}: signing now saves {money(row.saves_usd)} against waiting"
                f" ({between} with 95 % confidence), on {row.paths} paths the plan has not seen."
            )
            if np.isfinite(row.later_price_usd):
                words += (
                    f" Of that, {money(row.later_price_usd)} is what its price is expected to have moved by at the next review, and"
                    f" {money(row.later_demand_usd)} what serves the work until then, less what is not bought in vain."
                )
        rows.append((f"verdict: {row.offer_id}", words))
    return pd.DataFrame(rows, columns=["about", "words"])
