"""The plan rehearsed: decided quarter by quarter on what is known then, over demand paths it has not seen."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from capplan.book.assumptions.hindsight import HindsightAssumptions
from capplan.optimize.evaluation import Evaluator, recourse_of
from capplan.optimize.mean_program import mean_program
from capplan.optimize.program import Solution, TwoStage
from capplan.optimize.two_stage import Warm
from capplan.questions.procurement.decide import Stated
from capplan.questions.procurement.explain.alternatives import some_paths, uncapped
from capplan.questions.procurement.hindsight.fresh_paths import first_stage_of, split_paths, state_on_both
from capplan.questions.procurement.hindsight.look_back import RULES, look_back_cases, look_back_levels
from capplan.questions.procurement.problem import Problem
from capplan.questions.procurement.program.budget_proof import solve_within_budgets
from capplan.questions.procurement.work.states import GOLDEN
from capplan.text import money

#: Gap of the decisions of a rehearsal.
ROLLING_GAP = 5e-3
MEANING = {
    "plan_revised": "this plan, decided anew at every review on what is known then",
    "average_revised": "the same, but planning at every review for the average path only",
    "plan_kept": "this plan, never revised",
    "do_nothing": "no purchase and no renewal",
    "all_on_demand": "no purchase and no renewal, if on demand had no cap",
    **dict(RULES.values()),
    "clairvoyant": "somebody who knows the path from the start",
}


@dataclass(frozen=True)
class Rolling:
    """What plans would have cost on unseen paths.

    Args:
        paths: path, policy, realised_usd: discounted, with what serving the last quarter's demand after the horizon costs where demand is
            held.
        summary: policy, mean_usd, worst_usd, regret_usd (mean, against the clairvoyant), meaning; cheapest first.
        decisions: path, policy, review, offer_id, quarter, lots: what was signed at each review.
        headline: One sentence.
        notes: What the rehearsal rests on.
    """

    paths: pd.DataFrame
    summary: pd.DataFrame
    decisions: pd.DataFrame
    headline: str
    notes: tuple[str, ...]


def rehearse_plan(problem: Problem, unseen: pd.DataFrame, purchases: pd.DataFrame, a: HindsightAssumptions) -> Rolling:
    """Decide quarter by quarter on unseen paths, and count what that and its alternatives really cost.

    At each review the demand of the quarters before it is known. The future is then what the forecast's paths nearest to that demand did,
    each scaled, class by class, to the last known quarter. What must be signed before the next review is signed; all else waits.

    Args:
        problem: What the plan was made from, with the forecast's paths; with usage, rules that only look back are played too, signed once
            at the start.
        unseen (path, probability, class, region, quarter, block, hours, work_per_hour): Paths on which it is tested; path numbers differ.
        purchases: offer_id, quarter, lots of the plan made at the start.

    Source: Birge and Louveaux, Introduction to Stochastic Programming, 2nd ed. (2011), section 1.2 (rolling horizon); the clairvoyant is
        its wait-and-see solution of each path.
    """
    stated, left_out = state_on_both(problem, unseen, a)
    said = look_back_levels(problem.replaced(assumptions=a), stated.market, stated.work)
    rules = {name: x for name, x, _ in look_back_cases(said, stated.choices, stated.market, stated.model)}
    found = Rehearsal(stated, unseen, first_stage_of(stated, purchases), a, rules).run()
    return replace(found, notes=(*found.notes, *left_out))


class Rehearsal:
    """One rolling test: a problem over all paths, of which each decision sees those that are near.

    Args:
        stated: The problem over the forecast's and the unseen paths.
        unseen: Demand on the unseen paths.
        kept: First stage of the plan made at the start.
        a: Assumptions.
        rules: First stages of rules that only look back.
    """

    def __init__(
        self, stated: Stated, unseen: pd.DataFrame, kept: np.ndarray, a: HindsightAssumptions, rules: Mapping[str, np.ndarray]
    ) -> None:
        self.stated, self.kept, self.a, self.rules = stated, kept, a, rules
        self.program = stated.model.program
        self.own, self.new = split_paths(stated, unseen)
        self.new = self._one_state_each(self.new)
        self.step = a.review_interval_quarters
        self.planned = stated.choices.timeline.planned
        submit_by = pd.DatetimeIndex(stated.choices.table["submit_by"])
        dates = [pd.Timestamp(a.as_of) + pd.DateOffset(months=3 * quarter) for quarter in range(self.step, self.planned, self.step)]
        # review of each choice: the last one before it must be submitted
        self.review = np.searchsorted(pd.DatetimeIndex(dates).to_numpy(), submit_by.to_numpy(), side="right")
        self.reviews = int(self.review.max(initial=0)) + 1
        rows = stated.recourse.rows
        self.scaled = np.flatnonzero(rows["kind"].isin(["work", "spot_share"]))
        self.scaled_row = rows["row"].to_numpy(int)[self.scaled]
        hours = stated.work.load * stated.work.points["hours"].to_numpy()[:, None]
        cell = stated.work.points["path"].to_numpy() * self.planned + stated.work.points["quarter"].to_numpy()
        size = len(stated.work.paths) * self.planned
        self.use = np.stack([np.bincount(cell, weights=own, minlength=size) for own in hours.T], axis=1).reshape(
            -1, self.planned, hours.shape[1]
        )
        self.warm: Warm | None = None
        self.signed: list[tuple[int, str, int, int, float]] = []

    def _one_state_each(self, new: np.ndarray) -> np.ndarray:
        """Keep one of the states of prices and deliveries of each unseen path, spread by their probabilities."""
        paths = self.stated.work.paths.iloc[new].assign(place=new)
        places = (np.random.default_rng(self.a.seed).random() + GOLDEN * np.arange(len(new))) % 1
        kept = []
        for place, (_, part) in zip(places, paths.groupby("demand_path", sort=True), strict=False):
            share = np.cumsum(part["probability"]) / part["probability"].sum()
            kept.append(int(part["place"].iloc[min(int(np.searchsorted(share, place, side="right")), len(part) - 1)]))
        return np.array(kept, dtype=int)

    def run(self) -> Rolling:
        """Rehearse every policy on every unseen path."""
        nothing = self.stated.model.first_stage(np.maximum(self.program.lower[self.stated.model.position], 0.0))
        judge = Evaluator(self.program, self.a.tail_share, recourse_of(self.program))
        free = uncapped(self.program, self.stated.recourse, self.stated.work)
        rented = Evaluator(free, self.a.tail_share, recourse_of(free)).costs(nothing)
        rows = []
        for path in self.new.tolist():
            known = self._solve(some_paths(self.program, np.array([path])))
            found = {
                "plan_revised": self._roll(path, "plan_revised"),
                "average_revised": self._roll(path, "average_revised"),
                "plan_kept": self.kept,
                **self.rules,
                "do_nothing": nothing,
                "clairvoyant": known.x,
            }
            for policy, x in found.items():
                cost = float(self.program.c @ x) + float(judge.costs(x)[path])
                rows.append((self.stated.work.paths["demand_path"].iloc[path], policy, cost))
            rows.append((self.stated.work.paths["demand_path"].iloc[path], "all_on_demand", float(self.program.c @ nothing + rented[path])))
        return self._answer(pd.DataFrame(rows, columns=["path", "policy", "realised_usd"]))

    def _roll(self, path: int, policy: str) -> np.ndarray:
        """Decide at every review on one unseen path; return the first stage that was signed in the end."""
        position = self.stated.model.position
        lower, upper = self.program.lower.copy(), self.program.upper.copy()
        x = self.kept
        for review in range(self.reviews):
            due = position[self.review == review]
            if review > 0 or policy != "plan_revised":
                program = self._seen_at(path, min(review * self.step, self.planned - 1))
                program = mean_program(program) if policy == "average_revised" else program
                x = self._solve(replace(program, lower=lower, upper=upper)).x
            lower[due] = upper[due] = np.round(x[due])
            for j in np.flatnonzero((self.review == review) & (np.round(x[position]) > 0)).tolist():
                self.signed.append((path, policy, review, j, float(np.round(x[position[j]]))))
        return self.stated.model.first_stage(lower[position])

    def _seen_at(self, path: int, known: int) -> TwoStage:
        """Return the problem at a review: near paths of the forecast, scaled to the last known quarter, in the quarters still to come."""
        program, count = self.program, min(self.a.rolling_neighbours, len(self.own))
        mean = np.maximum(self.use[self.own].mean(axis=0), 1e-300)
        if known == 0:
            near, factor = self.own, np.ones((len(self.own), self.use.shape[2]))
        else:
            away = (((self.use[self.own, :known] - self.use[path, :known]) / mean[:known]) ** 2).sum(axis=(1, 2))
            near = np.sort(self.own[np.argsort(away, kind="stable")[:count]])
            last = self.use[near, known - 1]
            factor = np.where(last > 0, self.use[path, known - 1] / np.where(last > 0, last, 1.0), 1.0)
        future = (self.stated.recourse.stage >= known) & np.isin(program.scenario, near)
        place = np.zeros(len(program.probability), dtype=int)
        place[near] = np.arange(len(near))
        scenario = place[program.scenario[future]]
        h = program.h[future].copy()
        h[:, self.scaled] *= factor[scenario][:, self.scaled_row]
        scarcity = self.stated.recourse.scarcity
        h[:, scarcity.rows] = scarcity.left(h[:, : scarcity.serves.shape[1]], future)
        rows = [replace(row, points=row.points[future], weight=row.weight[future]) for row in program.expected]
        return replace(
            program,
            h=h,
            technology=program.technology[future],
            weight=program.weight[future],
            scenario=scenario,
            probability=np.full(len(near), 1 / len(near)),
            expected=tuple(rows),
        )

    def _solve(self, program: TwoStage) -> Solution:
        """Solve one decision from the bases of the last one."""
        gap_share = max(self.a.gap_share, ROLLING_GAP)
        found = solve_within_budgets(program, self.stated.model.soft, self.a.risk_weight, self.a.tail_share, gap_share, self.warm)
        self.warm = found.warm or self.warm
        return found

    def _answer(self, paths: pd.DataFrame) -> Rolling:
        """Summarise."""
        best = paths[paths["policy"] == "clairvoyant"].set_index("path")["realised_usd"]
        regret = paths["realised_usd"] - paths["path"].map(best)
        groups = paths.assign(regret=regret).groupby("policy")
        summary = groups.agg(
            mean_usd=("realised_usd", "mean"), worst_usd=("realised_usd", "max"), regret_usd=("regret", "mean")
        ).reset_index()
        summary = summary.assign(meaning=summary["policy"].map(MEANING)).sort_values(["mean_usd", "policy"]).reset_index(drop=True)
        table, names = self.stated.choices.table, self.stated.work.paths["demand_path"]
        decisions = pd.DataFrame(
            [
                (names.iloc[path], policy, review, table["offer_id"].iloc[j], table["quarter"].iloc[j], int(lots))
                for path, policy, review, j, lots in self.signed
            ],
            columns=["path", "policy", "review", "offer_id", "quarter", "lots"],
        )
        costs = summary.set_index("policy")["mean_usd"]
        headline = (
            f"Rehearsed on {paths['path'].nunique()} unseen paths, the plan revised at each review costs {money(costs['plan_revised'])} on"
            f" average, never revised {money(costs['plan_kept'])}, doing nothing {money(costs['do_nothing'])}; knowing the path would have"
            f" cost {money(costs['clairvoyant'])}."
        )
        notes = (
            "Costs are discounted; after the horizon demand is served as the forecast has it in the last quarter.",
            (
                f"At each review the {self.a.rolling_neighbours} forecast paths nearest to what was seen stand for the future; a real"
                " forecast would be made anew."
            ),
        )
        return Rolling(paths, summary, decisions, headline, notes)
