"""The first stage as a readable PuLP model, joined with the recourse to a two-stage program."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

from capplan.book.scenario import ProcurementAssumptions
from capplan.errors import CapplanError
from capplan.optimize.solver import Arrays, arrays
from capplan.optimize.two_stage import ExpectedRow, TwoStage
from capplan.questions.procurement.program.leaving import departure_rules
from capplan.questions.procurement.program.limit_rows import LimitRows, limit_rows
from capplan.questions.procurement.program.limit_scope import stated
from capplan.questions.procurement.program.other_decisions import Columns, Extra, technology_of
from capplan.questions.procurement.program.purchase_model import Model
from capplan.questions.procurement.program.second_stage import Recourse
from capplan.questions.procurement.program.spend_agreements import Year, agreement_rows, agreement_rules, discounted, most_rented, pledges
from capplan.questions.procurement.supply.choices import Choices
from capplan.questions.procurement.supply.departures import DEPARTURE
from capplan.questions.procurement.supply.market import Market
from capplan.questions.procurement.supply.site_power import PaidPower
from capplan.questions.procurement.work.deferral import deferrals
from capplan.questions.procurement.work.load import Work
from capplan.records import records


def need_accelerators(work: Work) -> np.ndarray:
    """Most accelerators of each pool that demand can ever use at once, (pools,): buying more is never better."""
    peak = work.load.max(axis=0, initial=0.0)
    with np.errstate(divide="ignore"):
        hours = np.where(work.speed > 0, peak[:, None] / np.where(work.speed > 0, work.speed, 1.0), 0.0)
    return np.asarray(hours.sum(axis=0))


@dataclass(frozen=True)
class _Stated:
    """The first stage as it is written in PuLP, variable by variable."""

    problem: Any
    lots: list[Any]
    planned_use: Sequence[Extra]
    deferred: Sequence[Extra]
    power: PaidPower
    amounts: list[Any]  #: Variables of planned use, deferred work and power, in this order.
    limited: LimitRows
    agreed: list[tuple[Any, str]]
    unspent: dict[Any, float]

    @property
    def extras(self) -> list[Extra]:
        """Decisions beside contracts."""
        return [*self.planned_use, *self.deferred, *self.power.extras]

    def columns(self, index: dict[int, int]) -> Columns:
        """Return where the decisions stand in the program, by the place of each variable."""
        lots, unspent, moved = (np.array([index[id(one)] for one in each], dtype=int) for each in (self.lots, self.unspent, self.amounts))
        ends = np.cumsum([len(self.planned_use), len(self.deferred)])
        return Columns(len(index), lots, unspent, *np.split(moved, ends))


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
    stated = _first_stage(work, market, choices, recourse, limits, a, years)
    matrices, limited = arrays(stated.problem), stated.limited
    index = {id(variable): j for j, variable in enumerate(stated.problem.variables())}
    place_of = {name: i for i, name in enumerate(matrices.row_names)}
    columns = stated.columns(index)
    program, listed = _two_stage(stated, matrices, columns, index, work, recourse, discounted(recourse, market, years))
    described = [{"row": place_of[rule.name], **about} for rule, _, about in limited.rows]
    keys = ["limit_id", "kind", "quarter", "limit", "soft"]
    pledged = np.zeros((len(years), columns.count))
    for k, year in enumerate(years):
        for extra, column in zip(stated.planned_use, columns.planned_use, strict=True):
            if extra.group == year.provider:
                pledged[k, column] = extra.billed_usd * year.overlap[extra.quarter]
    return Model(
        problem=stated.problem,
        program=program,
        position=columns.lots,
        rows=pd.DataFrame(described, columns=["row", "limit_id", "kind", "quarter", "limit", "already"]),
        budgets=pd.DataFrame([tuple(about[key] for key in keys) for about, _ in limited.budgets], columns=keys),
        years=tuple(years),
        spend_rows=np.array([place_of[rule.name] for rule, _ in stated.agreed], dtype=int),
        unspent=columns.unspent,
        pledged=pledged,
        agreed=agreement_rows(years, columns, work, recourse, market, listed),
        drawn=(recourse.columns["source"] == "agreement_draw").to_numpy(),
        deferred=tuple(stated.deferred),
        deferred_columns=columns.deferred,
        power=stated.power,
        power_columns=columns.power,
        notes=tuple(limited.notes),
    )


def _first_stage(
    work: Work, market: Market, choices: Choices, recourse: Recourse, limits: pd.DataFrame, a: ProcurementAssumptions, years: Sequence[Year]
) -> _Stated:
    """Write the variables, their cost and all rules between them."""
    from capplan.optimize import modelling

    timeline = choices.timeline
    problem = modelling.LpProblem("purchases", modelling.LpMinimize)
    highest = _most_lots(need_accelerators(work) * (1 + a.deferral_quarters), market, choices)
    lots, rules = _lot_columns(problem, choices.table, highest, a)
    planned_use = pledges(years, timeline, recourse.draws, most_rented(market, need_accelerators(work)))
    deferred, power = deferrals(work, timeline, a), choices.paid_power
    extras = [*planned_use, *deferred, *power.extras]
    amounts = [problem.add_variable(extra.name, 0, extra.most) for extra in extras]
    saving = amounts[len(amounts) - len(power.extras) :]
    limited = limit_rows(problem, choices, market, limits, lots, saving, a)
    paid = {amount: extra.usd for amount, extra in zip(amounts, extras, strict=True)}
    for amount, extra, kilowatts in zip(saving, power.extras, power.draws, strict=True):
        rules.append(drawn_within(amount, kilowatts, lots, extra.name))
    agreed, unspent = agreement_rules(problem, years, lots, planned_use, amounts[: len(planned_use)], timeline)
    rules += agreed
    cost = dict(zip(lots, choices.present_cost_usd(a.horizon_end), strict=True))
    problem += modelling.LpAffineExpression(cost | limited.soft | paid | unspent), "cost"
    for rule, name in [*rules, *departure_rules(choices, lots)]:
        problem += rule, name
    for rule, name, _ in limited.rows:
        problem += rule, name
    return _Stated(problem, lots, planned_use, deferred, power, amounts, limited, agreed, unspent)


def _two_stage(
    stated: _Stated,
    matrices: Arrays,
    columns: Columns,
    index: dict[int, int],
    work: Work,
    recourse: Recourse,
    prices: tuple[np.ndarray, np.ndarray],
) -> tuple[TwoStage, np.ndarray]:
    """Join the first stage with the recourse; return the program, and spend at stated prices, (cost states, r)."""
    shape = (len(columns.lots), columns.count)
    spread = sparse.csr_matrix((np.ones(shape[0]), (np.arange(shape[0]), columns.lots)), shape=shape)
    both, found = np.unique(np.hstack([*prices, recourse.spend]), axis=0, return_inverse=True)
    costs, spend, listed = np.split(both, 3, axis=1)
    T = [
        sparse.csr_matrix(matrix @ spread + technology_of(stated.extras, columns.extras, int(stage), (matrix.shape[0], columns.count)))
        for stage, matrix in zip(recourse.stage_of, recourse.T, strict=True)
    ]
    several = len(both) > 1
    budgets = [with_expected_use(about, values, spend, recourse, work, index, T) for about, values in stated.limited.budgets]
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
        expected=tuple(budgets),
        costs=costs if several else None,
        cost_state=np.ravel(found) if several else None,
    )
    return program, listed


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
    table, pools, contracts = choices.table, market.pools, market.contracts
    anywhere, accelerator = (pools["place"] == "any").to_numpy(), pools["accelerator"].to_numpy()
    pool_of, owner = contracts["pool"].to_numpy(int), contracts["plan_id"].fillna(contracts["offer_id"]).to_numpy()
    rate = (contracts["machine_usd_per_hour"] / contracts["accelerator_count"]).to_numpy()
    most = np.zeros(len(table))
    for j, row in enumerate(records(table)):
        if row["kind"] == DEPARTURE:
            most[j] = row["maximum_lots"]
            continue
        if row["role"] == "dollars":
            plan = row["plan_id"] if stated(row["plan_id"]) else row["offer_id"]
            mine = owner == plan
            useful = np.nansum(need[pool_of[mine]] * rate[mine]) / row["lot_usd_per_hour"]
        else:
            pool = row["pool"]
            useful = need[accelerator == accelerator[pool]].sum() if anywhere[pool] else need[pool]
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
