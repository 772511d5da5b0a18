"""What is done once demand is known: use what is committed, rent by the hour, call an API, or fall short."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import sparse

from capplan.book.scenario import ProcurementAssumptions
from capplan.questions.procurement.program.stages import Technologies, group_years, moving_prices, technologies_of, there
from capplan.questions.procurement.program.ways_to_serve import Sheet, Sources
from capplan.questions.procurement.supply.choices import Choices
from capplan.questions.procurement.supply.market import Market
from capplan.questions.procurement.work.load import Work
from capplan.questions.procurement.work.spot_scarcity import Scarcity, lay_out_scarcity
from capplan.questions.procurement.work.states import States

#: Levels of demand that stand for its distribution after the horizon.
LATER_LEVELS = 10
#: Points whose caps on spot are found together.
PIECE = 65_536
#: Columns that pay the price on demand.
ON_DEMAND = ("on_demand", "on_demand_bill", "agreement_draw")


@dataclass(frozen=True)
class Recourse:
    """Second stage: one matrix for all points; right-hand sides differ, and prices between a few states."""

    #: One row a recourse variable: source (committed, on_demand, on_demand_bill, spot, api, shortfall, discount, late_delivery,
    #: replacement, resale), row (of the work, -1 for none), pool (-1 for none), usd (cost per hour at stated prices), spend (the part of it
    #: that is paid in money), work (fastest accelerators served per unit), egress (the part of usd and spend that is paid for data that
    #: leaves its home). Planned spend under an agreement (agreement_draw) costs nothing here and spends the rate on demand.
    columns: pd.DataFrame
    rows: pd.DataFrame  #: One row a recourse row: kind, row, pool, limit_id, sense.
    W: sparse.csr_matrix  #: (m, r): Coefficients.
    #: (one (m, n) a technology): What one lot adds to the right-hand side, negated. A technology is a stage, or a span of it, under a state
    #: of prices and deliveries.
    T: list[sparse.csr_matrix]
    #: usd, spend (technologies, r): Cost and spend per hour of each column.
    usd: np.ndarray
    spend: np.ndarray
    stage_of: np.ndarray  #: (technologies,): Stage of each technology.
    h: np.ndarray  #: (P, m): Right-hand sides without purchases.
    #: stage, technology (P,): Stage (planned quarter, or group of equal years after the horizon) and technology of each point.
    stage: np.ndarray
    technology: np.ndarray
    weight: np.ndarray  #: (P,): Discounted hours.
    span: np.ndarray  #: (P,): Span of each point, in `Choices.spans`; the first of a group of equal years.
    planned: np.ndarray  #: ((P,) bool): Points of planned quarters, in the order of the work's points; later ones follow.
    scenario: np.ndarray  #: (P,): Path of each point.
    draws: dict[str, int]  #: Row of the planned spend by the hour of each provider with a spend agreement.
    scarcity: Scarcity  #: Caps on spot before high demand takes its part of them.

    def by_stage(self, value: np.ndarray) -> np.ndarray:
        """Add up a value of technologies by stage, (stages, ...)."""
        total = np.zeros((int(self.stage_of.max()) + 1, *value.shape[1:]))
        np.add.at(total, self.stage_of, value)
        return total


def build_recourse(
    work: Work,
    market: Market,
    choices: Choices,
    limits: pd.DataFrame,
    a: ProcurementAssumptions,
    states: States,
    agreed: Sequence[str] = (),
) -> Recourse:
    r"""Build the second stage of one point and the right-hand sides of all: :math:`\min \sum_j q_j y_j` over the rows of `Sources`.

    Args:
        limits: Caps on what can be rented by the hour; pools without one have the cap of the assumptions.
        a: Caps, treatment of the horizon's end, share of reuse.
        states: States of prices and deliveries; `work.paths` says which one each path is in.
        agreed: Providers with which a spend agreement runs.
    """
    spans, timeline = choices.spans, choices.timeline
    nominal = there(market, choices, choices.table["start"])
    arrived = np.stack([there(market, choices, start) for start in states.arrivals(choices.table)])
    factors = [each[:, spans.quarter] for each in states.factors(timeline)]
    prices = moving_prices(market, choices, a)
    stages = group_years(market, choices, [arrived, *factors, *prices.values()])
    technologies = technologies_of(stages, choices, nominal, arrived, prices, dict(zip(("on_demand", "spot"), factors, strict=True)))
    sources = Sources(work, market, choices, limits, a, technologies, agreed)
    return _assemble(sources.build(), work, sources)


def _assemble(sheet: Sheet, work: Work, sources: Sources) -> Recourse:
    """Turn the sheet into matrices; after the horizon each path meets all of the last quarter's demand, so that risk is the plan's."""
    technologies = sources.technologies
    stages = technologies.stages
    columns = pd.DataFrame(sheet.columns, columns=["source", "row", "pool", "usd", "spend", "work", "egress"])
    rows = pd.DataFrame(sheet.rows, columns=["kind", "row", "pool", "limit_id", "sense"])
    i, j, value = zip(*sheet.entries, strict=True)
    W = sparse.csr_matrix((value, (i, j)), shape=(len(rows), len(columns)))
    lots = np.stack([lot if lot.ndim == 2 else lot[:, None] * technologies.covered for lot in sheet.lots])
    T = [sparse.csr_matrix(-lots[:, :, t]) for t in range(len(technologies.stage))]
    usd, spend = _by_state(columns, technologies)
    quarter, paths = work.points["quarter"].to_numpy(), len(work.paths)
    later, levels, hours = np.flatnonzero(stages.later), *later_levels(work, sources.choices.timeline.planned - 1)
    # one point a path, group of later years and level of demand
    beyond = np.repeat(later, paths * len(hours))
    level = np.tile(np.arange(len(hours)), paths * len(later))

    place = np.concatenate([sources.choices.spans.first[quarter] + work.points["segment"].to_numpy(int), beyond])
    path = np.concatenate([work.points["path"].to_numpy(), np.tile(np.repeat(np.arange(paths), len(hours)), len(later))])
    stage = stages.stage[place]
    h = np.stack(sheet.base, axis=1)[place]
    load = h[:, : len(work.rows)]
    load[: len(quarter)] = work.load
    load[len(quarter) :] = np.asarray(levels @ work.load)[level]
    for row in sorted({row for found in sources.share_rows.values() for row in found}):
        h[:, row] *= load[:, rows["row"][row]]
    scarcity = lay_out_scarcity(sources.spot_caps, place, (levels, level), work, sources.a.spot_scarcity, sources.ample)
    for at in range(0, len(h), PIECE):
        piece = slice(at, at + PIECE)
        h[piece, scarcity.rows] = scarcity.left(np.ascontiguousarray(load[piece]), piece)
    technology = technologies.number[place, work.paths["state"].to_numpy(int)[path]]
    weight = np.concatenate([work.points["hours"].to_numpy(), hours[level]]) * stages.weight[stage]
    planned = np.arange(len(place)) < len(quarter)
    return Recourse(
        columns,
        rows,
        W,
        T,
        usd,
        spend,
        technologies.stage,
        h,
        stage,
        technology,
        weight,
        stages.span[place],
        planned,
        path,
        sources.draws,
        scarcity,
    )


def later_levels(work: Work, quarter: int) -> tuple[sparse.csr_matrix, np.ndarray]:
    """Return the distribution of a quarter's demand in a few levels: weights of the work's points in each, (levels, points), and its hours.

    Points are put in order of all work they bring and cut into `LATER_LEVELS` parts of about equal expected hours; each stands for its
    mean.
    """
    own = np.flatnonzero(work.points["quarter"].to_numpy() == quarter)
    mass = (work.paths["probability"].to_numpy(float)[work.points["path"]] * work.points["hours"].to_numpy(float))[own]
    own, mass = own[mass > 0], mass[mass > 0]
    value, group = np.unique(np.round(work.load[own], 9), axis=0, return_inverse=True)
    group = np.ravel(group)
    if len(value) > LATER_LEVELS:
        scale = work.load[own].max(axis=0)
        order = np.argsort((work.load[own] / np.where(scale > 0, scale, 1.0)).sum(axis=1), kind="stable")
        reached = np.cumsum(mass[order]) - mass[order] / 2
        group[order] = np.minimum((LATER_LEVELS * reached / mass.sum()).astype(int), LATER_LEVELS - 1)
        group = np.unique(group, return_inverse=True)[1]
    hours = np.bincount(group, weights=mass)
    return sparse.csr_matrix((mass / hours[group], (group, own)), shape=(len(hours), len(work.points))), hours


def _by_state(columns: pd.DataFrame, technologies: Technologies) -> tuple[np.ndarray, np.ndarray]:
    """Return cost and spend of each column under each technology.

    What is planned under an agreement is paid and counted at stated prices: what an hour costs beyond them comes on top, and where it costs
    less the rest is lost, so that no plan counts on spend that it does not lead to.
    """
    source, pool = columns["source"].to_numpy(), np.maximum(columns["pool"].to_numpy(int), 0)
    usd, spend, egress = (columns[name].to_numpy(float) for name in ("usd", "spend", "egress"))
    rise = np.zeros((len(technologies.stage), len(columns)))
    for name, moves in technologies.prices.items():
        mine = np.isin(source, ON_DEMAND) if name == "on_demand" else source == name
        rise[:, mine] = moves[:, pool[mine]] - 1
    beyond = np.where(source == "agreement_draw", np.maximum(rise, 0.0) * spend, rise * usd)
    return usd + beyond - rise * egress, spend + rise * (spend - egress)


def hours_by_technology(work: Work, recourse: Recourse, decisions: sparse.csr_matrix) -> np.ndarray:
    """Return the expected hours of each column's unit in the planned quarters, (technologies, r)."""
    planned = np.flatnonzero(recourse.planned)
    hours = work.paths["probability"].to_numpy()[work.points["path"]] * work.points["hours"].to_numpy()
    member = sparse.csr_matrix((hours, (recourse.technology[planned], np.arange(len(planned)))), shape=(len(recourse.T), len(planned)))
    return np.asarray((member @ decisions[planned]).todense())
