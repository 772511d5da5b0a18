"""What is done once demand is known: use what is committed, rent by the hour, call an API, or fall short."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from scipy import sparse

from capplan.inputs.scenario import ProcurementAssumptions
from capplan.optimize.recourse import RecourseLibrary
from capplan.questions.procurement.choices import Choices
from capplan.questions.procurement.limits import holds_in, in_scope
from capplan.questions.procurement.market import ANYWHERE, Market, held
from capplan.questions.procurement.work import Work


@dataclass(frozen=True)
class Recourse:
    """Second stage: one matrix for all points; only right-hand sides differ.

    Parameters
    ----------
    columns
        One row a recourse variable: source (committed, on_demand, on_demand_bill, spot, api, shortfall, discount, replacement, resale, held_demand), row (of the work, -1
        for none), pool (-1 for none), usd (cost per hour), spend (the part of it that is paid in money), work (fastest accelerators served per unit).
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


@dataclass
class _Sheet:
    """Rows and columns under construction."""

    columns: list[tuple[str, int, int, float, float, float]] = field(default_factory=list)
    rows: list[tuple[str, int, int, str, str]] = field(default_factory=list)
    entries: list[tuple[int, int, float]] = field(default_factory=list)
    base: list[np.ndarray] = field(default_factory=list)
    lots: list[np.ndarray] = field(default_factory=list)

    def add_row(
        self, kind: str, base: np.ndarray, lots: np.ndarray, *, row: int = -1, pool: int = -1, limit_id: str = "", sense: str = "<"
    ) -> int:
        """Add a recourse row with its right-hand side by stage and what a lot of each choice adds to it."""
        self.rows.append((kind, row, pool, limit_id, sense))
        self.base.append(base)
        self.lots.append(lots)
        return len(self.rows) - 1

    def add_column(
        self, source: str, row: int, pool: int, usd: float, entries: list[tuple[int, float]], *, paid: bool = True, work: float = 0.0
    ) -> None:
        """Add a recourse variable with its coefficients."""
        self.entries += [(place, len(self.columns), value) for place, value in entries]
        self.columns.append((source, row, pool, usd, usd if paid else 0.0, work))


@dataclass(frozen=True)
class _Stages:
    """Planned quarters, then groups of later quarters in which exactly the same contracts run."""

    first: list[int]
    weight: list[float]
    later: int


def build_recourse(work: Work, market: Market, choices: Choices, limits: pd.DataFrame, a: ProcurementAssumptions) -> Recourse:
    r"""Build the second stage of one point and the right-hand sides of all.

    .. math::

        \min\ & \sum_{j} q_j y_j \\
        & \textstyle\sum_p v_{dp}\,(f_{dp} + m_{dp} + g_p s_{dp}) + a_d + u_d \ge D_d && \text{work of row } d \\
        & \textstyle\sum_d f_{dp} \le K_p(x) && \text{fully committed capacity of pool } p \\
        & \textstyle\sum_{p \in S}\sum_d m_{dp} \le M_S && \text{on demand within scope } S \\
        & \textstyle\sum_d m_{dp} \le \sum_k z_{kp} + o_p,\quad \sum_k z_{kp} + o_p \ge G_p(x) && \text{billing: discounts, then on demand} \\
        & \textstyle\sum_p r_{kp} z_{kp} \le B_k(x) && \text{discount } k: \text{machines, or dollars at plan rates} \\
        & \textstyle\sum_{p \in S}\sum_d s_{dp} \le S_S,\quad \sum_p v_{dp} g_p s_{dp} \le \sigma_d D_d && \text{spot}

    Parameters
    ----------
    work, market, choices
        Demand, pools and holdings, decisions.
    limits
        Caps on what can be rented by the hour; pools without one have the cap of the assumptions.
    a
        Caps, treatment of the horizon's end, share of reuse.
    """
    stages = _stages(market, choices, a)
    sheet = _Sheet()
    table, covered, holdings = choices.table, choices.covered[:, stages.first], market.holdings
    owned = held(market, choices.timeline)[:, stages.first]
    count, none = len(stages.first), np.zeros((len(table), len(stages.first)))
    zero = np.zeros(count)
    later = np.arange(count) >= choices.timeline.planned
    ample = 1 + 2 * float((work.load.max(axis=0, initial=0.0) / _slowest(work, market)).sum())

    demand_rows = [sheet.add_row("work", zero, none, row=d, sense=">") for d in range(len(work.rows))]
    pools = market.pools
    paid_by_hour = pools["on_demand_usd_per_hour"].to_numpy(float)
    spot_usd = pools["spot_usd_per_hour"].to_numpy(float)
    role = table["role"].to_numpy()
    pool_of = table["pool"].to_numpy(int)
    reserve = table["lot_reserve"].to_numpy(float)
    discounts = _discounts(market, choices)
    billed = {p for targets, _, _ in discounts for p in targets} | set(pool_of[reserve > 0])
    billed = {p for p in billed if not np.isnan(paid_by_hour[p])}
    replaceable, rediscount = (
        pools[f"{word}_usd_per_hour"].to_numpy(float) if later.any() else np.full(len(pools), np.nan)
        for word in ("replacement", "rediscount")
    )
    billed |= set(np.flatnonzero(~np.isnan(rediscount) & ~np.isnan(paid_by_hour)))
    limit_rows: dict[tuple[str, int], list[int]] = {}
    _cap_rows(
        sheet, "on_demand_accelerators", ~np.isnan(paid_by_hour), a.on_demand_accelerators, limits, market, choices, ample, none, limit_rows
    )
    _cap_rows(sheet, "spot_accelerators", ~np.isnan(spot_usd), a.spot_accelerators, limits, market, choices, ample, none, limit_rows)
    share_rows = _share_rows(sheet, limits, work, market, choices, none)
    exchange = {}
    if later.any():
        exchange["replacement"] = sheet.add_row("replacement", np.where(later, ample, 0.0), none)
        if a.reuse_share > 0:
            exchange["resale"] = sheet.add_row("resale", np.where(later, ample * 10, 0.0), none)

    for p in range(len(pools)):
        rows_here = [d for d in range(len(work.rows)) if work.speed[d, p] > 0]
        full = (role == "full") & (pool_of == p)
        signed = (holdings["role"] == "full").to_numpy() & (holdings["pool"] == p).to_numpy() if len(holdings) else np.zeros(0, dtype=bool)
        can_replace = not np.isnan(replaceable[p])
        if full.any() or signed.any() or can_replace:
            lots = np.where(full, table["lot_accelerators"].to_numpy(float), 0.0)[:, None] * covered
            capacity = sheet.add_row("committed", owned[signed].sum(axis=0) + zero, lots, pool=p)
            for d in rows_here:
                sheet.add_column("committed", d, p, 0.0, [(demand_rows[d], work.speed[d, p]), (capacity, 1.0)], work=work.speed[d, p])
            if can_replace:
                sheet.add_column("replacement", -1, p, replaceable[p], [(capacity, -1.0), (exchange["replacement"], 1.0)], paid=False)
                if "resale" in exchange:
                    cheapest = market.contracts.loc[market.contracts["pool"] == p, "effective_usd_per_accelerator_hour"].min()
                    sheet.add_column("resale", -1, p, -a.reuse_share * cheapest, [(capacity, 1.0), (exchange["resale"], 1.0)], paid=False)
        if not np.isnan(paid_by_hour[p]):
            bill = sheet.add_row("billing", zero, none, pool=p) if p in billed else -1
            usd = 0.0 if p in billed else paid_by_hour[p]
            billing = [(bill, 1.0)] if p in billed else []
            caps = [(i, 1.0) for i in limit_rows.get(("on_demand_accelerators", p), [])]
            for d in rows_here:
                sheet.add_column("on_demand", d, p, usd, [(demand_rows[d], work.speed[d, p]), *caps, *billing], work=work.speed[d, p])
            reserved = reserve * (pool_of == p)
            idle = -1
            if reserved.any():
                lots = reserved[:, None] * covered
                room = sheet.add_row("reserved", zero, lots, pool=p)
                idle = sheet.add_row("reserved_bill", zero, -lots, pool=p)
                for d in rows_here:
                    sheet.add_column(
                        "on_demand", d, p, usd, [(demand_rows[d], work.speed[d, p]), (room, 1.0), *billing], work=work.speed[d, p]
                    )
            if p in billed:
                pays = [(bill, -1.0), *([(idle, -1.0)] if idle >= 0 else [])]
                sheet.add_column("on_demand_bill", -1, p, paid_by_hour[p], pays)
                if not np.isnan(rediscount[p]):
                    sheet.add_column("replacement", -1, p, rediscount[p], [*pays, (exchange["replacement"], 1.0)], paid=False)
        if not np.isnan(spot_usd[p]):
            useful = float(pools["spot_useful_share"][p])
            caps = [(i, 1.0) for i in limit_rows.get(("spot_accelerators", p), [])]
            for d in rows_here:
                if work.rows["interruptible"][d]:
                    served = work.speed[d, p] * useful
                    shares = [(i, served) for i in share_rows.get((d, p), [])]
                    sheet.add_column("spot", d, p, spot_usd[p], [(demand_rows[d], served), *caps, *shares], work=served)
    bills = {row[2]: i for i, row in enumerate(sheet.rows) if row[0] == "billing"}
    idles = {row[2]: i for i, row in enumerate(sheet.rows) if row[0] == "reserved_bill"}
    for targets, base, lots in discounts:
        room = sheet.add_row("discount", base[stages.first], lots[:, None] * covered, pool=min(targets))
        for p, rate in targets.items():
            if p in bills:
                idle_entry = [(idles[p], -1.0)] if p in idles else []
                sheet.add_column("discount", -1, p, 0.0, [(room, rate), (bills[p], -1.0), *idle_entry])
    for d, row in enumerate(work.rows.to_dict("records")):
        if not np.isnan(row["api_usd"]):
            sheet.add_column("api", d, -1, row["api_usd"], [(demand_rows[d], 1.0)], work=1.0)
        sheet.add_column("shortfall", d, -1, row["shortfall_usd"], [(demand_rows[d], 1.0)], paid=False, work=0.0)
    held_demand = -1
    if later.any():
        held_demand = sheet.add_row("held_demand", zero, none)
        sheet.add_column("held_demand", -1, -1, -1.0, [(held_demand, 1.0)], paid=False)
    return _assemble(sheet, work, choices, stages, share_rows, held_demand)


def _slowest(work: Work, market: Market) -> np.ndarray:
    """Least work a useful accelerator-hour does for each row, so that capacity beyond it can never be needed."""
    useful = market.pools["spot_useful_share"].fillna(1.0).to_numpy() if "spot_useful_share" in market.pools else 1.0
    return np.where(work.speed > 0, work.speed * useful, np.inf).min(axis=1)


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


def _discounts(market: Market, choices: Choices) -> list[tuple[dict[int, float], np.ndarray, np.ndarray]]:
    """List discounts without capacity: pools with the rate at which they draw, what is signed by quarter, and what a lot adds."""
    table, holdings, pools = choices.table, market.holdings, market.pools
    signed = held(market, choices.timeline)
    found: list[tuple[dict[int, float], np.ndarray, np.ndarray]] = []
    units = (table["role"] == "units").to_numpy()
    units_signed = (holdings["role"] == "units").to_numpy() if len(holdings) else np.zeros(0, dtype=bool)
    for p in sorted(set(table["pool"][units]) | set(holdings["pool"][units_signed])):
        pool = pools.loc[p]
        same = (
            (pools["provider"] == pool["provider"])
            & (pools["accelerator"] == pool["accelerator"])
            & pools["on_demand_usd_per_hour"].notna()
        )
        where = same if pool["place"] == ANYWHERE else same & (pools.index == p)
        targets = dict.fromkeys(pools.index[where].tolist(), 1.0)
        mine = units_signed & (holdings["pool"] == p).to_numpy() if len(holdings) else units_signed
        if targets:
            found.append(
                (targets, signed[mine].sum(axis=0), np.where(units & (table["pool"] == p).to_numpy(), table["lot_accelerators"], 0.0))
            )
    contracts = market.contracts[market.contracts["role"] == "dollars"]
    rate = contracts["machine_usd_per_hour"] / contracts["accelerator_count"]
    for plan, offers in contracts.assign(rate=rate, plan=contracts["plan_id"].fillna(contracts["offer_id"])).groupby("plan", sort=True):
        targets = {
            int(p): float(usd) for p, usd in offers.groupby("pool")["rate"].min().items() if pools["on_demand_usd_per_hour"].notna()[p]
        }
        mine = (table["plan_id"].fillna(table["offer_id"]) == plan).to_numpy() & (table["role"] == "dollars").to_numpy()
        if targets and mine.any():
            found.append((targets, np.zeros(signed.shape[1]), np.where(mine, table["lot_usd_per_hour"], 0.0)))
    return found


def _cap_rows(
    sheet: _Sheet, kind: str, offered: np.ndarray, default: float, limits: pd.DataFrame, market: Market, choices: Choices, ample: float,
    none: np.ndarray, found: dict[tuple[str, int], list[int]],
) -> None:  # fmt: skip
    """Add one row for each scope of a cap; a pool that no limit covers in a quarter has the assumed cap."""
    planned = choices.timeline.planned
    scopes: dict[tuple[int, ...], tuple[np.ndarray, list[str]]] = {}
    covered = np.zeros((len(offered), planned), dtype=bool)
    for limit in limits[limits["kind"] == kind].to_dict("records"):
        mask = in_scope(limit, market.pools) & offered
        if mask.any():
            when = holds_in(limit, choices.timeline.horizon)
            cap, names = scopes.setdefault(tuple(np.flatnonzero(mask).tolist()), (np.full(planned, ample), []))
            cap[when] = np.minimum(cap[when], float(limit["amount"]))
            names.append(str(limit["limit_id"]))
            covered |= mask[:, None] & when
    for p in np.flatnonzero(offered & ~covered.all(axis=1)):
        cap, names = scopes.setdefault((int(p),), (np.full(planned, ample), []))
        cap[~covered[p]] = np.minimum(cap[~covered[p]], default)
    for scope, (cap, names) in scopes.items():
        stages = np.concatenate([np.minimum(cap, ample), np.full(none.shape[1] - planned, min(cap[-1], ample))])
        assumed = f"{kind} (assumed) {' '.join(market.pools.loc[scope[0], ['provider', 'accelerator', 'place']])}"
        row = sheet.add_row(kind, stages, none, pool=scope[0], limit_id=", ".join(names) or assumed)
        for pool in scope:
            found.setdefault((kind, pool), []).append(row)


def _share_rows(
    sheet: _Sheet, limits: pd.DataFrame, work: Work, market: Market, choices: Choices, none: np.ndarray
) -> dict[tuple[int, int], list[int]]:
    """Add a row for each row of work whose share on spot is capped: the limit's region names the demand's region."""
    found: dict[tuple[int, int], list[int]] = {}
    planned = choices.timeline.planned
    for limit in limits[limits["kind"] == "spot_share"].to_dict("records"):
        share = np.where(holds_in(limit, choices.timeline.horizon), min(float(limit["amount"]), 1.0), 1.0)
        stages = np.concatenate([share, np.full(none.shape[1] - planned, share[-1])])
        mask = in_scope(limit, market.pools) & market.pools["spot_usd_per_hour"].notna().to_numpy()
        for d in np.flatnonzero(work.rows["interruptible"].to_numpy(bool)).tolist():
            here = np.flatnonzero(mask & (work.speed[d] > 0))
            if len(here):
                row = sheet.add_row("spot_share", stages, none, row=d, limit_id=str(limit["limit_id"]))
                for p in here:
                    found.setdefault((d, int(p)), []).append(row)
    return found


def _assemble(
    sheet: _Sheet, work: Work, choices: Choices, stages: _Stages, share_rows: dict[tuple[int, int], list[int]], held_demand: int
) -> Recourse:
    """Turn the sheet into matrices, and copy the last quarter's points to the later stages.

    Each later point is credited with what it costs without this plan's contracts, so that only what they save or cost against that remains.
    """
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
    return Recourse(columns, rows, W, T, h, stage, weight, planned_points, work.points["path"].to_numpy()[index])
