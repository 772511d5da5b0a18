"""What is done once demand is known: use what is committed, rent by the hour, call an API, or fall short."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import sparse

from capplan.book.scenario import ProcurementAssumptions
from capplan.optimize.separable import SeparableRecourse
from capplan.questions.procurement.program.ways_to_serve import Sheet, Sources
from capplan.questions.procurement.supply.choices import Choices
from capplan.questions.procurement.supply.market import Market, held
from capplan.questions.procurement.work.load import Work
from capplan.questions.procurement.work.scarcity import Scarcity, lay_out_scarcity
from capplan.questions.procurement.work.states import States, segments

#: Columns that pay the price on demand.
ON_DEMAND = ("on_demand", "on_demand_bill", "agreement_draw")


@dataclass(frozen=True)
class Recourse:
    """Second stage: one matrix for all points; right-hand sides differ, and prices between a few states.

    Parameters
    ----------
    columns
        One row a recourse variable: source (committed, on_demand, on_demand_bill, spot, api, shortfall, discount, late_delivery,
        replacement, resale, held_demand), row (of the work, -1
        for none), pool (-1 for none), usd (cost per hour at stated prices), spend (the part of it that is paid in money), work (fastest accelerators
        served per unit), egress (the part of usd and spend that is paid for data that leaves its home). Planned spend under an agreement (agreement_draw) costs nothing here and spends the rate on demand.
    rows
        One row a recourse row: kind, row, pool, limit_id, sense.
    W : (m, r)
        Coefficients.
    T : one (m, n) a technology
        What one lot adds to the right-hand side, negated. A technology is a stage, or a segment of it, under a state of prices and deliveries.
    usd, spend : (technologies, r)
        Cost and spend per hour of each column.
    stage_of : (technologies,)
        Stage of each technology.
    h : (P, m)
        Right-hand sides without purchases.
    stage, technology : (P,)
        Stage (planned quarter or group of equal later quarters) and technology of each point.
    weight : (P,)
        Discounted hours.
    planned : (P,) bool
        Points of planned quarters, in the order of the work's points; later ones follow.
    scenario : (P,)
        Path of each point.
    draws
        Row of the planned spend by the hour of each provider with a spend agreement.
    scarcity
        Caps on spot before high demand takes its part of them.
    """

    columns: pd.DataFrame
    rows: pd.DataFrame
    W: sparse.csr_matrix
    T: list[sparse.csr_matrix]
    usd: np.ndarray
    spend: np.ndarray
    stage_of: np.ndarray
    h: np.ndarray
    stage: np.ndarray
    technology: np.ndarray
    weight: np.ndarray
    planned: np.ndarray
    scenario: np.ndarray
    draws: dict[str, int]
    scarcity: Scarcity

    def by_stage(self, value: np.ndarray) -> np.ndarray:
        """Add up a value of technologies by stage, (stages, ...)."""
        total = np.zeros((int(self.stage_of.max()) + 1, *value.shape[1:]))
        np.add.at(total, self.stage_of, value)
        return total


@dataclass(frozen=True)
class _Stages:
    """Planned quarters, then groups of later quarters in which exactly the same contracts run."""

    first: list[int]
    weight: list[float]
    later: int


@dataclass(frozen=True)
class _Technologies:
    """Each stage, segment and state, once where nothing differs: stage, share covered and refund of each choice, price factors; number of each triple."""

    stage: np.ndarray
    covered: np.ndarray
    refund: np.ndarray
    on_demand: np.ndarray
    spot: np.ndarray
    number: np.ndarray


def build_recourse(
    work: Work, market: Market, choices: Choices, limits: pd.DataFrame, a: ProcurementAssumptions, states: States, agreed: Sequence[str] = ()
) -> Recourse:
    r"""Build the second stage of one point and the right-hand sides of all.

    .. math::

        \min\ & \sum_{j} q_j y_j \\
        & \textstyle\sum_p v_{dp}\,(f_{dp} + m_{dp} + g_p s_{dp}) + a_d + u_d \ge D_d && \text{work of row } d \\
        & \textstyle\sum_d f_{dp} \le K_p(x) && \text{fully committed capacity of pool } p \\
        & \textstyle\sum_{p \in S}\sum_d m_{dp} / \alpha_p \le M_S && \text{on demand within scope } S \text{, of which a share } \alpha \text{ is had} \\
        & \textstyle\sum_d m_{dp} \le \sum_k z_{kp} + o_p,\quad \sum_k z_{kp} + o_p \ge G_p(x) && \text{billing: discounts, then on demand} \\
        & \textstyle\sum_p r_{kp} z_{kp} \le B_k(x) && \text{discount } k: \text{machines, or dollars at plan rates} \\
        & \textstyle\sum_{d \in c} a_d \le A_c && \text{rate limit of the API of class } c \\
        & \textstyle\sum_{p \in S}\sum_d s_{dp} \le S_S(D),\quad \sum_p v_{dp} g_p s_{dp} \le \sigma_d D_d && \text{spot}

    Parameters
    ----------
    work, market, choices
        Demand, pools and holdings, decisions.
    limits
        Caps on what can be rented by the hour; pools without one have the cap of the assumptions.
    a
        Caps, treatment of the horizon's end, share of reuse.
    states
        States of prices and deliveries; `work.paths` says which one each path is in.
    agreed
        Providers with which a spend agreement runs.
    """
    missing, factors = states.missing(choices.table, choices.timeline), states.factors(choices.timeline)
    stages = _stages(market, choices, a, [*missing, *factors])
    technologies = _technologies(stages, choices, missing, *factors)
    refund = technologies.refund if technologies.refund.any() else None
    sources = Sources(work, market, choices, limits, a, stages.first, agreed, refund)
    return _assemble(sources.build(), work, choices, stages, sources, technologies)


def _technologies(stages: _Stages, choices: Choices, missing: np.ndarray, on_demand: np.ndarray, spot: np.ndarray) -> _Technologies:
    """Join stages with states and segments; a machine that is late is not there and not paid for. After the horizon lateness counts by its share."""
    planned = choices.timeline.planned
    owned = (choices.table["term"] == "owned").to_numpy()[:, None]
    # The space for a machine is there, and paid, from the day on that it should have been.
    paid = np.where(owned, choices.recurring_usd - choices.space_usd, choices.expense_usd) / choices.timeline.hours
    begins = segments(missing, planned)
    seen: dict[tuple[object, ...], int] = {}
    number = np.zeros((len(stages.first), max(map(len, begins)), len(missing)), dtype=int)
    found = []
    for (s, q), k in itertools.product(enumerate(stages.first), range(len(missing))):
        for i, begin in enumerate(begins[q] if q < planned else [0.0]):
            gone = (missing[k, :, q] > begin) * 1.0 if q < planned else missing[k, :, q]
            covered, refund = choices.covered[:, q] * (1 - gone), paid[:, q] * gone
            key = (s, on_demand[k, q], spot[k, q], covered.tobytes())
            if key not in seen:
                seen[key] = len(seen)
                found.append((s, covered, refund, on_demand[k, q], spot[k, q]))
            number[s, i if q < planned else slice(None), k] = seen[key]
    stage, covered, refund, by_hour, by_spot = (np.array(part) for part in zip(*found, strict=True))
    return _Technologies(stage, covered.T, refund.T, by_hour, by_spot, number)


def _stages(market: Market, choices: Choices, a: ProcurementAssumptions, varying: list[np.ndarray]) -> _Stages:
    """Group later quarters in which exactly the same contracts run in every state: they have one recourse, with weights added."""
    timeline = choices.timeline
    planned, total = timeline.planned, len(timeline.quarters)
    first = list(range(planned))
    weight = [float(timeline.discount[q]) for q in range(planned)]
    if a.horizon_end != "hold_demand" or total == planned:
        return _Stages(first, weight, 0)
    running = np.vstack([choices.covered, held(market, timeline), *varying])
    seen: dict[bytes, int] = {}
    for q in range(planned, total):
        # Weights of later quarters are in planned-quarter lengths: the last quarter's blocks are stretched to this one's hours.
        stretch = float(timeline.discount[q] * timeline.hours[q] / timeline.hours[planned - 1])
        key = running[:, q].tobytes()
        if key in seen:
            weight[seen[key]] += stretch
        else:
            seen[key] = len(first)
            first.append(q)
            weight.append(stretch)
    return _Stages(first, weight, len(first) - planned)


def _assemble(sheet: Sheet, work: Work, choices: Choices, stages: _Stages, sources: Sources, technologies: _Technologies) -> Recourse:
    """Turn the sheet into matrices, and copy the last quarter's points to the later stages.

    Each later point is credited with what it costs without this plan's contracts, so that only what they save or cost against that
    remains.
    """
    share_rows, held_demand = sources.share_rows, sources.held_demand
    columns = pd.DataFrame(sheet.columns, columns=["source", "row", "pool", "usd", "spend", "work", "egress"])
    rows = pd.DataFrame(sheet.rows, columns=["kind", "row", "pool", "limit_id", "sense"])
    i, j, value = zip(*sheet.entries, strict=True)
    W = sparse.csr_matrix((value, (i, j)), shape=(len(rows), len(columns)))
    lots = np.stack([lot if lot.ndim == 2 else lot[:, None] * technologies.covered for lot in sheet.lots])
    T = [sparse.csr_matrix(-lots[:, :, t]) for t in range(len(technologies.stage))]
    usd, spend = _by_state(columns, technologies)
    planned = choices.timeline.planned
    quarter = work.points["quarter"].to_numpy()
    last = np.flatnonzero(quarter == planned - 1)
    index = np.concatenate([np.arange(len(quarter)), *([last] * stages.later)])
    stage = np.concatenate([quarter, np.repeat(np.arange(planned, planned + stages.later), len(last))])
    h = np.stack(sheet.base)[:, stage].T.copy()
    load = work.load[index]
    h[:, : len(work.rows)] = load
    for place in sorted({row for found in share_rows.values() for row in found}):
        h[:, place] *= load[:, rows["row"][place]]
    scarcity = lay_out_scarcity(sources.spot_caps, stage, index, work, sources.a.spot_scarcity, sources.ample)
    h[:, scarcity.rows] = scarcity.left(load)
    planned_points = np.arange(len(index)) < len(quarter)
    path = work.points["path"].to_numpy()[index]
    technology = technologies.number[stage, work.points["segment"].to_numpy(int)[index], work.paths["state"].to_numpy(int)[path]]
    if held_demand >= 0:
        beyond = np.flatnonzero(~planned_points)
        prices, state = np.unique(usd, axis=0, return_inverse=True)
        library = SeparableRecourse(prices, W, rows["sense"].to_numpy(str), np.ravel(state))
        h[beyond, held_demand] = library.costs(h[beyond], library.evaluate(h[beyond], technology[beyond]).basis)
    weight = work.points["hours"].to_numpy()[index] * np.array(stages.weight)[stage]
    return Recourse(columns, rows, W, T, usd, spend, technologies.stage, h, stage, technology, weight, planned_points, path, sources.draws, scarcity)


def _by_state(columns: pd.DataFrame, technologies: _Technologies) -> tuple[np.ndarray, np.ndarray]:
    """Return cost and spend of each column under each technology; planned spend under an agreement counts at stated prices, the difference is paid on top."""
    source = columns["source"].to_numpy()
    usd, spend, egress = (columns[name].to_numpy(float) for name in ("usd", "spend", "egress"))
    rise = np.zeros((len(technologies.stage), len(columns)))
    rise[:, np.isin(source, ON_DEMAND)] = technologies.on_demand[:, None] - 1
    rise[:, source == "spot"] = technologies.spot[:, None] - 1
    drawn = source == "agreement_draw"
    return usd + rise * (np.where(drawn, spend, usd) - egress), spend + rise * (spend - egress)


def hours_by_technology(work: Work, recourse: Recourse, decisions: sparse.csr_matrix) -> np.ndarray:
    """Return the expected hours of each column's unit in the planned quarters, (technologies, r)."""
    planned = np.flatnonzero(recourse.planned)
    hours = work.paths["probability"].to_numpy()[work.points["path"]] * work.points["hours"].to_numpy()
    member = sparse.csr_matrix((hours, (recourse.technology[planned], np.arange(len(planned)))), shape=(len(recourse.T), len(planned)))
    return np.asarray((member @ decisions[planned]).todense())
