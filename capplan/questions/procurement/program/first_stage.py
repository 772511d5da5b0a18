"""The first stage as a readable PuLP model, joined with the recourse to a two-stage program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

from capplan.book.scenario import ProcurementAssumptions
from capplan.errors import CapplanError
from capplan.optimize.solver import arrays
from capplan.optimize.two_stage import ExpectedRow, TwoStage
from capplan.questions.procurement.program.leaving import departure_rules
from capplan.questions.procurement.program.limit_rows import limit_rows
from capplan.questions.procurement.program.limit_scope import stated
from capplan.questions.procurement.program.other_decisions import Extra, technology_of
from capplan.questions.procurement.program.second_stage import Recourse
from capplan.questions.procurement.program.spend_agreements import Year, agreement_rows, agreement_rules, discounted, most_rented, pledges
from capplan.questions.procurement.supply.choices import Choices
from capplan.questions.procurement.supply.departures import DEPARTURE
from capplan.questions.procurement.supply.market import Market
from capplan.questions.procurement.supply.sites import PaidPower
from capplan.questions.procurement.work.deferral import deferrals
from capplan.questions.procurement.work.load import Work
from capplan.questions.procurement.work.spans import YEAR
from capplan.questions.procurement.work.timeline import years_after
from capplan.records import records

#: A rule between decisions is kept up to this share of its bound.
KEPT_SHARE = 1e-6


@dataclass(frozen=True)
class Model:
    """A purchase problem, ready to solve."""

    problem: Any  #: The first stage in PuLP, with readable names; an infeasible one is explained by it.
    program: TwoStage  #: The two-stage program.
    position: np.ndarray  #: (n,): Column of each choice in the program.
    rows: pd.DataFrame  #: One row a limit of the first stage: row (in the program), limit_id, kind, quarter, limit.
    budgets: pd.DataFrame  #: One row an expected row of the program: limit_id, kind, quarter, limit, soft.
    years: tuple[Year, ...]  #: Contract years of spend agreements.
    #: spend_rows, unspent (years,): Row and column of the program that hold what is spent, and what is left, in each of them.
    spend_rows: np.ndarray
    unspent: np.ndarray
    pledged: np.ndarray  #: (years, n): What each column of the program counts as planned spend by the hour in each of them.
    agreed: tuple[ExpectedRow, ...]  #: The same years as rows on expected use: what is signed, bought, rented by the hour and left adds up.
    drawn: np.ndarray  #: ((r,) bool): Recourse columns that draw on planned spend by the hour.
    #: deferred, deferred_columns: Work that can be put off, and the program's column of each.
    deferred: tuple[Extra, ...]
    deferred_columns: np.ndarray
    #: power, power_columns: Power that is paid for and free, and the program's column of what machines bought take of it.
    power: PaidPower
    power_columns: np.ndarray
    notes: tuple[str, ...]  #: What was left out or assumed.

    def lots(self, x: np.ndarray) -> np.ndarray:
        """Return the lots of each choice in a first stage."""
        return np.asarray(x)[self.position]

    def counting(self, usd: np.ndarray) -> Model:
        """Return the model in which so much spend by the hour, (years,), counts in each contract year, not what is planned by the hour."""
        b, upper = self.program.b.copy(), self.program.upper.copy()
        b[self.spend_rows] = np.array([year.open_usd for year in self.years]) - usd
        upper[np.flatnonzero(self.pledged.any(axis=0))] = 0.0
        return replace(self, program=replace(self.program, b=b, upper=upper))

    def whole(self) -> TwoStage:
        """Return the program in which whatever a plan is expected to rent by the hour counts, and none of it is planned."""
        program, upper = self.program, self.program.upper.copy()
        upper[np.flatnonzero(self.pledged.any(axis=0))] = 0.0
        kept = np.setdiff1d(np.arange(len(program.b)), self.spend_rows)
        counted = [replace(row, g=np.where(self.drawn, 0.0, row.g)) for row in self.agreed]
        return replace(
            program, A=program.A[kept], b=program.b[kept], sense=program.sense[kept], upper=upper, expected=(*program.expected, *counted)
        )

    def settled(self, x: np.ndarray, left_usd: np.ndarray) -> np.ndarray:
        """Return a first stage without planned spend by the hour, which pays what is left of each contract year, (years,)."""
        x = np.asarray(x, dtype=float).copy()
        x[np.flatnonzero(self.pledged.any(axis=0))] = 0.0
        x[self.unspent] = left_usd
        return x

    @property
    def soft(self) -> np.ndarray:
        """Which budgets may be broken at a price."""
        return self.budgets["soft"].to_numpy(bool)

    def first_stage(self, lots: np.ndarray) -> np.ndarray:
        """Return a first stage that buys given lots: on-off variables and paid power follow; it pays for no budget or agreement."""
        x = np.zeros(len(self.program.c))
        x[self.position], x[self.power_columns] = lots, self.power.taken(lots)
        for j, (low, own) in self._followers().items():
            x[j] = float(x[own] > 0) if low else 0.0
        return x

    def broken_rules(self, x: np.ndarray) -> dict[int, float]:
        """Return the rows of rules between decisions, neither limits nor agreements, that a first stage breaks, and by how much."""
        program, used = self.program, self.program.A @ x
        over = np.where(program.sense == "<", used - program.b, np.where(program.sense == ">", program.b - used, abs(used - program.b)))
        over[[*self.rows["row"].astype(int), *self.spend_rows]] = 0.0
        return {i: float(over[i]) for i in np.flatnonzero(over > KEPT_SHARE * np.maximum(abs(program.b), 1.0)).tolist()}

    def _followers(self) -> dict[int, tuple[bool, int]]:
        """Map each on-off variable to the choice it follows."""
        index = {str(variable): j for j, variable in enumerate(self.problem.variables())}
        return {index[f"any_{name}"]: (True, j) for name, j in index.items() if f"any_{name}" in index}


def need_accelerators(work: Work) -> np.ndarray:
    """Most accelerators of each pool that demand can ever use at once, (pools,): buying more is never better."""
    peak = work.load.max(axis=0, initial=0.0)
    with np.errstate(divide="ignore"):
        hours = np.where(work.speed > 0, peak[:, None] / np.where(work.speed > 0, work.speed, 1.0), 0.0)
    return np.asarray(hours.sum(axis=0))


def build_model(
    work: Work,
    market: Market,
    choices: Choices,
    recourse: Recourse,
    limits: pd.DataFrame,
    a: ProcurementAssumptions,
    years: Sequence[Year] = (),
) -> Model:
    r"""Write the decisions of the first stage and their limits.

    .. math:: \min_x \sum_{j} c_j x_j + \text{risk-weighted recourse},\quad x_j \in \{0\} \cup [l_j, u_j] \text{ whole lots}

    with c_j the value today of what one lot is charged (`Choices.present_cost_usd`).

    Args:
        limits: Quotas, new accelerators, power, provider shares and budgets.

    Raises:
        CapplanError: If the minimum of an offer exceeds its maximum.
    """
    from capplan.optimize import modelling

    table, timeline = choices.table, choices.timeline
    planned = timeline.planned
    counted = (
        planned
        if a.horizon_end == "truncate"
        else len(timeline.quarters)
        if a.horizon_end == "count_in_full"
        else planned + YEAR * years_after(a)
    )
    cost = choices.present_cost_usd(a.horizon_end)
    problem = modelling.LpProblem("purchases", modelling.LpMinimize)
    highest = _most_lots(need_accelerators(work) * (1 + a.deferral_quarters), market, choices)
    lots, rules = _lot_columns(problem, table, highest, a)
    planned_use = pledges(years, timeline, recourse.draws, most_rented(market, need_accelerators(work)))
    deferred, power = deferrals(work, timeline, a), choices.paid_power
    extras = [*planned_use, *deferred, *power.extras]
    amounts = [problem.add_variable(extra.name, 0, extra.most) for extra in extras]
    saving = amounts[len(amounts) - len(power.extras) :]
    limited = limit_rows(problem, choices, market, limits, lots, saving, a)
    paid = {amount: extra.usd if extra.quarter < counted else 0.0 for amount, extra in zip(amounts, extras, strict=True)}
    for amount, extra, kilowatts in zip(saving, power.extras, power.draws, strict=True):
        rules.append(drawn_within(amount, kilowatts, lots, extra.name))
    agreed, unspent = agreement_rules(problem, years, lots, planned_use, amounts[: len(planned_use)], timeline)
    rules += agreed
    problem += modelling.LpAffineExpression(dict(zip(lots, cost, strict=True)) | limited.soft | paid | unspent), "cost"
    rules += departure_rules(choices, lots)
    for rule, name in rules:
        problem += rule, name
    for rule, name, _ in limited.rows:
        problem += rule, name
    matrices = arrays(problem)
    place_of = {name: i for i, name in enumerate(matrices.row_names)}
    described = [{"row": place_of[rule.name], **about} for rule, _, about in limited.rows]
    index = {id(variable): j for j, variable in enumerate(problem.variables())}
    position = np.array([index[id(variable)] for variable in lots], dtype=int)
    moved = [index[id(amount)] for amount in amounts]
    later = np.split(np.array(moved, dtype=int), [len(planned_use), len(planned_use) + len(deferred)])
    spread = sparse.csr_matrix((np.ones(len(lots)), (np.arange(len(lots)), position)), shape=(len(lots), len(matrices.c)))
    both, found = np.unique(np.hstack([*discounted(recourse, market, years), recourse.spend]), axis=0, return_inverse=True)
    costs, spend, listed = np.split(both, 3, axis=1)
    T = [
        sparse.csr_matrix(matrix @ spread + technology_of(extras, moved, int(stage), (matrix.shape[0], spread.shape[1])))
        for stage, matrix in zip(recourse.stage_of, recourse.T, strict=True)
    ]
    expected = [with_expected_use(about, coefficients, spend, recourse, work, index, T) for about, coefficients in limited.budgets]
    several = len(both) > 1
    program = TwoStage(
        c=matrices.c,
        A=matrices.A,
        b=matrices.b,
        sense=matrices.sense,
        lower=matrices.lower,
        upper=matrices.upper,
        integer=matrices.integer,
        q=recourse.columns["usd"].to_numpy(float) if several else costs[0],
        W=recourse.W,
        recourse_sense=recourse.rows["sense"].to_numpy(str),
        T=T,
        technology=recourse.technology,
        h=recourse.h,
        weight=recourse.weight,
        scenario=recourse.scenario,
        probability=work.paths["probability"].to_numpy(float),
        expected=tuple(expected),
        costs=costs if several else None,
        cost_state=np.ravel(found) if several else None,
    )
    rows = pd.DataFrame(described, columns=["row", "limit_id", "kind", "quarter", "limit", "already"])
    keys = ["limit_id", "kind", "quarter", "limit", "soft"]
    frame = pd.DataFrame([tuple(about[key] for key in keys) for about, _ in limited.budgets], columns=keys)
    spend_rows = np.array([place_of[rule.name] for rule, _ in agreed], dtype=int)
    pledged = np.zeros((len(years), len(matrices.c)))
    for k, year in enumerate(years):
        for extra, column in zip(planned_use, moved, strict=False):
            if extra.group == year.provider:
                pledged[k, column] = extra.billed_usd * year.overlap[extra.quarter]
    left = np.array([index[id(rest)] for rest in unspent], dtype=int)
    counts = agreement_rows(years, position, left, len(matrices.c), work, recourse, market, listed)
    drawn = (recourse.columns["source"] == "agreement_draw").to_numpy()
    return Model(
        problem,
        program,
        position,
        rows,
        frame,
        tuple(years),
        spend_rows,
        left,
        pledged,
        counts,
        drawn,
        tuple(deferred),
        later[1],
        power,
        later[2],
        tuple(limited.notes),
    )


def _lot_columns(
    problem: Any, table: pd.DataFrame, highest: np.ndarray, a: ProcurementAssumptions
) -> tuple[list[Any], list[tuple[Any, str]]]:
    """Add a column of whole lots for each choice, and the rules between them."""
    pins = {(offer_id, quarter): lots for offer_id, quarter, lots in a.pinned_purchases}
    lots: list[Any] = []
    rules: list[tuple[Any, str]] = []
    tiers: dict[tuple[str, str], list[Any]] = {}
    below: dict[tuple[str, str], tuple[Any, float]] = {}
    place = {name: j for j, name in enumerate(table["name"])}
    for row, most in zip(records(table), highest.tolist(), strict=True):
        key = (row["offer_id"], row["quarter"])
        pin = pins.get(key)
        low, high = decided_already(row, most, pin)
        variable = problem.add_variable(f"buy {row['name']}", low, high, "Integer")
        lots.append(variable)
        if row["follows"]:
            rules.append(no_more_than_before(variable, lots[place[row["follows"]]], row["name"]))
        if row["minimum_lots"] > 1 and pin is None:
            chosen = problem.add_variable(f"any {variable.name}", 0, 1, "Integer")
            rules += none_or_minimum(variable, chosen, row["minimum_lots"], high, row["name"])
            if row["tiered"]:
                tiers.setdefault(key, []).append(chosen)
        elif row["tiered"] and pin is None:
            below[key] = (variable, high)
    return lots, [*rules, *(one_tier(chosen, *below.get(key, (None, 1.0)), " ".join(key)) for key, chosen in tiers.items())]


def none_or_minimum(lots: Any, chosen: Any, least: float, most: float, name: str) -> list[tuple[Any, str]]:
    r"""None, or at least the minimum: :math:`l_j z_j \le x_j \le u_j z_j,\ z_j \in \{0, 1\}`."""
    return [(lots >= least * chosen, f"minimum {name}"), (lots <= most * chosen, f"none or minimum {name}")]


def one_tier(chosen: list[Any], first: Any, top: float, name: str) -> tuple[Any, str]:
    r"""At most one price tier of a purchase, the first one counted by its lots: :math:`u \sum_k z_k + x_1 \le u`."""
    from capplan.optimize import modelling

    return modelling.lpSum(chosen) * top + (0 if first is None else first) <= top, f"one tier {name}"


def no_more_than_before(renewed: Any, before: Any, name: str) -> tuple[Any, str]:
    r"""Let a renewal be of what was renewed the last time: :math:`x_j \le x_{j'}`."""
    return renewed <= before, f"no more than before {name}"


def drawn_within(amount: Any, kilowatts: np.ndarray, lots: list[Any], name: str) -> tuple[Any, str]:
    r"""Power that is paid anyway is used by what is bought there: :math:`w \le \sum_j k_j x_j`."""
    from capplan.optimize import modelling

    taken = {lots[j]: -float(kilowatts[j]) for j in np.flatnonzero(kilowatts)}
    return modelling.LpAffineExpression({amount: 1.0} | taken) <= 0, f"drawn of {name}"


def decided_already(row: dict[Any, Any], high: float, pin: float | None) -> tuple[float, float]:
    r"""Hold a purchase that is pinned, or renewed since notice is past: :math:`x_j = \bar x_j`; else :math:`0 \le x_j \le u_j`.

    Of a pinned purchase with tiers only the tier that it falls into is taken.
    """
    if pin is not None:
        most = high if np.isnan(row["maximum_lots"]) else row["maximum_lots"]
        elsewhere = row["tiered"] and not row["minimum_lots"] <= pin <= most
        return (0.0, 0.0) if elsewhere else (float(pin), float(pin))
    return (float(row["maximum_lots"]), float(row["maximum_lots"])) if row["forced"] else (0.0, float(high))


def _most_lots(need: np.ndarray, market: Market, choices: Choices) -> np.ndarray:
    """Bound the lots of each choice by what demand can use, its own maximum, and its minimum from below."""
    table = choices.table
    rate = market.contracts["machine_usd_per_hour"] / market.contracts["accelerator_count"]
    most = np.zeros(len(table))
    for j, row in enumerate(records(table)):
        if row["kind"] == DEPARTURE:
            most[j] = row["maximum_lots"]
            continue
        if row["role"] == "dollars":
            plan = row["plan_id"] if stated(row["plan_id"]) else row["offer_id"]
            mine = market.contracts["plan_id"].fillna(market.contracts["offer_id"]) == plan
            usd = (need[market.contracts["pool"][mine].to_numpy(int)] * rate[mine]).sum()
            useful = usd / row["lot_usd_per_hour"]
        else:
            pool = market.pools.loc[row["pool"]]
            useful = need[row["pool"]]
            if pool["place"] == "any":
                useful = need[(market.pools["accelerator"] == pool["accelerator"]).to_numpy()].sum()
            useful /= row["lot_accelerators"]
        cap = np.inf if np.isnan(row["maximum_lots"]) else row["maximum_lots"]
        if row["minimum_lots"] > cap:
            raise CapplanError(
                f"offer {row['offer_id']}: minimum_lots {row['minimum_lots']:g} exceeds maximum_lots {cap:g}; correct one of them"
            )
        most[j] = min(cap, max(np.ceil(useful - 1e-9), row["minimum_lots"]))
    return most


def with_expected_use(
    about: dict[str, Any],
    coefficients: dict[Any, float],
    spend: np.ndarray,
    recourse: Recourse,
    work: Work,
    index: dict[int, int],
    T: Sequence[sparse.csr_matrix],
) -> ExpectedRow:
    r"""Hold a budget with the expected use by the hour: :math:`\sum_j p_{jq} x_j - o + E[s^T y] \le B - S_q`.

    `spend` is (states, r); of use in another quarter the part counts that is paid in this one; imputed costs of unserved work are no spend.

    What late machines do not cost is a matter of the contracts alone, so it is taken off their coefficients and no recourse lowers a
    budget.
    """
    columns = recourse.columns
    pool = columns["pool"].to_numpy(int)
    within = (
        np.where(pool >= 0, about["scope"][np.maximum(pool, 0)], about["everything"])
        if len(about["scope"])
        else np.full(len(columns), about["everything"])
    )
    a = np.zeros(len(index))
    for variable, value in coefficients.items():
        a[index[id(variable)]] = value
    points = recourse.planned & np.isin(recourse.stage, np.flatnonzero(about["paid"]))
    paid, booked = (np.zeros(len(recourse.stage)) for _ in range(2))
    hours = work.points["hours"].to_numpy(float)
    for weight, share in ((paid, about["paid"]), (booked, about["late"])):
        weight[: len(hours)] = hours * share[recourse.stage[: len(hours)]]
    late = (columns["source"] == "late_delivery").to_numpy()
    for row in np.flatnonzero((recourse.rows["kind"] == "late_delivery").to_numpy() & bool((late & within).any())).tolist():
        weights = work.paths["probability"].to_numpy(float)[recourse.scenario] * booked
        share = np.bincount(recourse.technology, weights=weights, minlength=len(T))
        a += sum((each * matrix[[row]].toarray().ravel() for each, matrix in zip(share, T, strict=True)), np.zeros(len(a)))
    counted = spend * (within & ~late)
    return ExpectedRow(a, counted if len(counted) > 1 else counted[0], points, paid, float(about["room"]))
