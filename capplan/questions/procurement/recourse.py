"""What is done once demand is known: use what is committed, rent by the hour, call an API, or fall short."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import sparse

from capplan.inputs.scenario import ProcurementAssumptions
from capplan.optimize.recourse import RecourseLibrary
from capplan.questions.procurement.choices import Choices
from capplan.questions.procurement.market import Market, held
from capplan.questions.procurement.sources import Sheet, Sources
from capplan.questions.procurement.work import Work


@dataclass(frozen=True)
class Recourse:
    """Second stage: one matrix for all points; only right-hand sides differ.

    Parameters
    ----------
    columns
        One row a recourse variable: source (committed, on_demand, on_demand_bill, spot, api, shortfall, discount, replacement, resale,
        held_demand), row (of the work, -1
        for none), pool (-1 for none), usd (cost per hour), spend (the part of it that is paid in money), work (fastest accelerators
        served per unit). Planned spend under an agreement (agreement_draw) costs nothing here and spends the rate on demand.
    rows
        One row a recourse row: kind, row, pool, limit_id, sense.
    W : (m, r)
        Coefficients.
    T : one (m, n) a stage
        What one lot adds to the right-hand side, negated.
    h : (P, m)
        Right-hand sides without purchases.
    stage : (P,)
        Stage (planned quarter or group of equal later quarters) of each point.
    weight : (P,)
        Discounted hours.
    planned : (P,) bool
        Points of planned quarters, in the order of the work's points; later ones follow.
    scenario : (P,)
        Path of each point.
    draws
        Row of the planned spend by the hour of each provider with a spend agreement.
    """

    columns: pd.DataFrame
    rows: pd.DataFrame
    W: sparse.csr_matrix
    T: list[sparse.csr_matrix]
    h: np.ndarray
    stage: np.ndarray
    weight: np.ndarray
    planned: np.ndarray
    scenario: np.ndarray
    draws: dict[str, int]


@dataclass(frozen=True)
class _Stages:
    """Planned quarters, then groups of later quarters in which exactly the same contracts run."""

    first: list[int]
    weight: list[float]
    later: int


def build_recourse(work: Work, market: Market, choices: Choices, limits: pd.DataFrame, a: ProcurementAssumptions, agreed: Sequence[str] = ()) -> Recourse:
    r"""Build the second stage of one point and the right-hand sides of all.

    .. math::

        \min\ & \sum_{j} q_j y_j \\
        & \textstyle\sum_p v_{dp}\,(f_{dp} + m_{dp} + g_p s_{dp}) + a_d + u_d \ge D_d && \text{work of row } d \\
        & \textstyle\sum_d f_{dp} \le K_p(x) && \text{fully committed capacity of pool } p \\
        & \textstyle\sum_{p \in S}\sum_d m_{dp} \le M_S && \text{on demand within scope } S \\
        & \textstyle\sum_d m_{dp} \le \sum_k z_{kp} + o_p,\quad \sum_k z_{kp} + o_p \ge G_p(x) && \text{billing: discounts, then on demand} \\
        & \textstyle\sum_p r_{kp} z_{kp} \le B_k(x) && \text{discount } k: \text{machines, or dollars at plan rates} \\
        & \textstyle\sum_{d \in c} a_d \le A_c && \text{rate limit of the API of class } c \\
        & \textstyle\sum_{p \in S}\sum_d s_{dp} \le S_S,\quad \sum_p v_{dp} g_p s_{dp} \le \sigma_d D_d && \text{spot}

    Parameters
    ----------
    work, market, choices
        Demand, pools and holdings, decisions.
    limits
        Caps on what can be rented by the hour; pools without one have the cap of the assumptions.
    a
        Caps, treatment of the horizon's end, share of reuse.
    agreed
        Providers with which a spend agreement runs.
    """
    stages = _stages(market, choices, a)
    sources = Sources(work, market, choices, limits, a, stages.first, agreed)
    return _assemble(sources.build(), work, choices, stages, sources)


def _stages(market: Market, choices: Choices, a: ProcurementAssumptions) -> _Stages:
    """Group later quarters in which exactly the same contracts run: they have one recourse, with weights added."""
    timeline = choices.timeline
    planned, total = timeline.planned, len(timeline.quarters)
    first = list(range(planned))
    weight = [float(timeline.discount[q]) for q in range(planned)]
    if a.horizon_end != "hold_demand" or total == planned:
        return _Stages(first, weight, 0)
    running = np.vstack([choices.covered, held(market, timeline)])
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


def _assemble(sheet: Sheet, work: Work, choices: Choices, stages: _Stages, sources: Sources) -> Recourse:
    """Turn the sheet into matrices, and copy the last quarter's points to the later stages.

    Each later point is credited with what it costs without this plan's contracts, so that only what they save or cost against that
    remains.
    """
    share_rows, held_demand = sources.share_rows, sources.held_demand
    columns = pd.DataFrame(sheet.columns, columns=["source", "row", "pool", "usd", "spend", "work"])
    rows = pd.DataFrame(sheet.rows, columns=["kind", "row", "pool", "limit_id", "sense"])
    i, j, value = zip(*sheet.entries, strict=True)
    W = sparse.csr_matrix((value, (i, j)), shape=(len(rows), len(columns)))
    lots = np.stack(sheet.lots)
    T = [sparse.csr_matrix(-lots[:, :, k]) for k in range(len(stages.first))]
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
    planned_points = np.arange(len(index)) < len(quarter)
    if held_demand >= 0:
        beyond = np.flatnonzero(~planned_points)
        library = RecourseLibrary(columns["usd"].to_numpy(float), W, rows["sense"].to_numpy(str))
        h[beyond, held_demand] = library.costs(h[beyond], library.evaluate(h[beyond], stage[beyond]).basis)
    weight = work.points["hours"].to_numpy()[index] * np.array(stages.weight)[stage]
    return Recourse(columns, rows, W, T, h, stage, weight, planned_points, work.points["path"].to_numpy()[index], sources.draws)
