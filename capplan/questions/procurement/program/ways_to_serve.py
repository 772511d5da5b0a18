"""The ways to serve work at one recourse point, as rows and columns of the second stage."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from capplan.book.scenario import ProcurementAssumptions
from capplan.questions.procurement.program.limit_scope import holds_in, in_scope
from capplan.questions.procurement.program.stages import Technologies
from capplan.questions.procurement.supply.choices import Choices
from capplan.questions.procurement.supply.departures import DEPARTURE
from capplan.questions.procurement.supply.market import ANYWHERE, Market, held
from capplan.questions.procurement.work.load import Work
from capplan.records import records


@dataclass
class Sheet:
    """Rows and columns under construction."""

    columns: list[tuple[str, int, int, float, float, float, float]] = field(default_factory=list)
    rows: list[tuple[str, int, int, str, str]] = field(default_factory=list)
    entries: list[tuple[int, int, float]] = field(default_factory=list)
    base: list[np.ndarray] = field(default_factory=list)
    lots: list[np.ndarray] = field(default_factory=list)

    def add_row(
        self, kind: str, base: np.ndarray, lots: np.ndarray, *, row: int = -1, pool: int = -1, limit_id: str = "", sense: str = "<"
    ) -> int:
        """Add a recourse row with its right-hand side by stage, and what a lot of each choice adds to it.

        The latter is for a contract that runs, (n,), or for each technology as it is, (n, technologies).
        """
        self.rows.append((kind, row, pool, limit_id, sense))
        self.base.append(base)
        self.lots.append(lots)
        return len(self.rows) - 1

    def add_column(
        self,
        source: str,
        row: int,
        pool: int,
        usd: float,
        entries: list[tuple[int, float]],
        *,
        spend: float | None = None,
        egress: float = 0.0,
    ) -> None:
        """Add a recourse variable with its coefficients, for a row of work that of this row first; it spends what it costs, if not stated.

        What it moves out of the home of its data is paid on top. All sources of a row but its shortfall do work.
        """
        work = entries[0][1] if row >= 0 and source != "shortfall" else 0.0
        self.entries += [(place, len(self.columns), value) for place, value in entries]
        self.columns.append((source, row, pool, usd + egress, (usd if spend is None else spend) + egress, work, egress))


class Sources:
    """Builds the rows and columns of the second stage, source by source.

    Args:
        work, market, choices, limits, a: As in `recourse.build_recourse`.
        technologies: What runs in each state in each of the spans that have right-hand sides of their own.
        agreed: Providers with which a spend agreement runs.

    Attributes:
        draws: Row of each of these providers' planned spend by the hour.
        spot_caps: Row of each cap on spot: the rows of work it concerns, and the cap by stage, infinite where none is stated.
    """

    def __init__(
        self,
        work: Work,
        market: Market,
        choices: Choices,
        limits: pd.DataFrame,
        a: ProcurementAssumptions,
        technologies: Technologies,
        agreed: Sequence[str] = (),
    ) -> None:
        self.agreed, self.technologies, stages = agreed, technologies, technologies.stages
        self.draws: dict[str, int] = {}
        self.work, self.market, self.choices, self.limits, self.a = work, market, choices, limits, a
        self.sheet = Sheet()
        self.planned = choices.timeline.planned
        self.spans = stages.span
        self.quarter = np.minimum(stages.stage, self.planned - 1)
        self.none, self.zero = np.zeros(len(choices.table)), np.zeros(len(stages.span))
        self.later = stages.later
        self.held = held(market, choices.spans)[:, stages.span]
        self.had = market.pools["on_demand_available_share"].to_numpy(float)
        most = float((work.load.max(axis=0, initial=0.0) / _slowest(work, market)).sum())
        self.ample = 1 + 2 * (1 + a.deferral_quarters) * most / np.nanmin(self.had, initial=1.0)
        self.pool_of = choices.table["pool"].to_numpy(int)
        self.on_demand_usd = market.pools["on_demand_usd_per_hour"].to_numpy(float)
        self.spot_usd = market.pools["spot_usd_per_hour"].to_numpy(float)
        self.replacement_usd, self.rediscount_usd = (
            market.pools[f"{word}_usd_per_hour"].to_numpy(float) if self.later.any() else np.full(len(market.pools), np.nan)
            for word in ("replacement", "rediscount")
        )
        self.share_rows: dict[tuple[int, int], list[int]] = {}
        self.spot_caps: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        self._cap_rows: dict[tuple[str, int], list[int]] = {}
        self._quotas: dict[tuple[str, int], list[int]] = {}
        self._exchange: dict[str, int] = {}
        self._rates: dict[str, int] = {}
        self._bills: dict[int, list[tuple[int, float]]] = {}

    def build(self) -> Sheet:
        """Add all rows and columns."""
        self._add_work()
        self._add_caps("on_demand_accelerators", ~np.isnan(self.on_demand_usd), self.a.on_demand_accelerators)
        self._add_caps("spot_accelerators", ~np.isnan(self.spot_usd), self.a.spot_accelerators)
        self._add_shares()
        self._add_quotas()
        self._add_replacement()
        discounts = _discounts(self.market, self.choices, self.held)
        billed = {p for targets, _, _ in discounts for p in targets} | set(self.pool_of[self.choices.table["lot_reserve"].to_numpy() > 0])
        billed |= set(np.flatnonzero(~np.isnan(self.rediscount_usd)).tolist())
        rented = {provider: self._rented(provider) for provider in sorted(set(self.agreed))}
        billed |= {p for pools in rented.values() for p in pools}
        for p in range(len(self.market.pools)):
            self._add_committed(p)
            if not np.isnan(self.on_demand_usd[p]):
                self._add_on_demand(p, p in billed)
            if not np.isnan(self.spot_usd[p]):
                self._add_spot(p)
        for targets, base, lots in discounts:
            self._add_discount(targets, base, lots)
        for provider, pools in rented.items():
            self._add_draw(provider, pools)
        self._add_late_delivery()
        for d, row in enumerate(records(self.work.rows)):
            if not np.isnan(row["api_usd"]):
                rate = [] if np.isnan(row["api_most"]) else [(self._rate_limit(row["class"], row["api_most"]), 1.0)]
                self.sheet.add_column("api", d, -1, row["api_usd"], [(self._work_rows[d], 1.0), *rate])
            self.sheet.add_column("shortfall", d, -1, row["shortfall_usd"], [(self._work_rows[d], 1.0)], spend=0.0)
        return self.sheet

    def _add_work(self) -> None:
        r"""Serve work, or miss it at its price: :math:`\sum_p v_{dp} (f_{dp} + m_{dp} + g_p s_{dp}) + a_d + u_d \ge D_d`."""
        self._work_rows = [self.sheet.add_row("work", self.zero, self.none, row=d, sense=">") for d in range(len(self.work.rows))]

    def _add_replacement(self) -> None:
        r"""Replace contracts only after the horizon: :math:`\sum_p r_p + \sum_p d_p \le 0` before it."""
        if self.later.any():
            self._exchange["replacement"] = self.sheet.add_row("replacement", np.where(self.later, self.ample, 0.0), self.none)

    def _add_late_delivery(self) -> None:
        r"""Take off what a late delivery does not cost: :math:`z \le \sum_j c_j x_j`, at a price of -1."""
        if self.technologies.refund.any():
            late = self.sheet.add_row("late_delivery", self.zero, self.technologies.refund)
            self.sheet.add_column("late_delivery", -1, -1, -1.0, [(late, 1.0)])

    def _rate_limit(self, name: str, most: float) -> int:
        r"""Share the rate limit of an API among the regions of a class: :math:`\sum_{d \in c} a_d \le A_c`."""
        if name not in self._rates:
            self._rates[name] = self.sheet.add_row("api_rate", self.zero + most, self.none, limit_id=f"rate limit of the API of {name}")
        return self._rates[name]

    def _served(self, p: int) -> list[int]:
        """Rows of work that a pool can serve."""
        return np.flatnonzero(self.work.speed[:, p] > 0).tolist()

    def _add_committed(self, p: int) -> None:
        r"""Serve from committed capacity, and after the horizon from what replaces it: :math:`\sum_d f_{dp} \le K_p(x) + r_p`."""
        table, holdings = self.choices.table, self.market.holdings
        full = (table["role"] == "full").to_numpy() & (self.pool_of == p)
        signed = (holdings["role"] == "full").to_numpy() & (holdings["pool"] == p).to_numpy()
        replaced = not np.isnan(self.replacement_usd[p])
        if not (full.any() or signed.any() or replaced):
            return
        lots = np.where(full, table["lot_accelerators"].to_numpy(float), 0.0)
        existing = self.held[signed].sum(axis=0)
        capacity = self.sheet.add_row("committed", self.zero + existing, lots, pool=p)
        for d in self._served(p):
            speed = self.work.speed[d, p]
            self.sheet.add_column("committed", d, p, 0.0, [(self._work_rows[d], speed), (capacity, 1.0)], egress=self.work.egress_usd[d, p])
        if replaced:
            entries = [(capacity, -1.0), (self._exchange["replacement"], 1.0)]
            self.sheet.add_column("replacement", -1, p, self.replacement_usd[p], entries, spend=0.0)
        if self.later.any() and self.a.reuse_share > 0:
            self._add_resale(p, capacity, full)

    def _add_resale(self, p: int, capacity: int, full: np.ndarray) -> None:
        r"""Let what is unused after the horizon at a share of its price: :math:`\sum_d f_{dp} + l_j \le K_p(x),\ l_j \le K_j x_j`."""
        table, later = self.choices.table, self.technologies.stage >= self.planned
        rate = self.market.contracts.set_index("offer_id")["effective_usd_per_accelerator_hour"]
        own = (table["usd_per_hour"] * table["lot_machines"] / table["lot_accelerators"]).where(table["term"] != "owned")
        full = full & (table["kind"] != DEPARTURE).to_numpy()
        for offer in sorted(set(table["offer_id"][full])):
            mine = full & (table["offer_id"] == offer).to_numpy()
            usd = float(np.fmin(own[mine].min(), rate.get(offer, np.nan)))
            lots = np.where(mine, table["lot_accelerators"].to_numpy(float), 0.0)[:, None] * self.technologies.covered * later
            room = self.sheet.add_row("resale", self.zero, lots, pool=p)
            self.sheet.add_column("resale", -1, p, -self.a.reuse_share * usd, [(capacity, 1.0), (room, 1.0)], spend=0.0)

    def _add_on_demand(self, p: int, billed: bool) -> None:
        r"""Bill use by the hour to discounts, then on demand: :math:`\max(\sum_d m_{dp}, G_p(x)) \le \sum_k z_{kp} + o_p`."""
        bill = self.sheet.add_row("billing", self.zero, self.none, pool=p) if billed else -1
        usd = 0.0 if billed else self.on_demand_usd[p]
        billing = [(bill, 1.0)] if billed else []
        # What is asked for is capped, what is had is used and paid.
        caps = [(i, 1 / self.had[p]) for i in self._cap_rows.get(("on_demand_accelerators", p), [])]
        caps += [(i, 1.0) for i in self._quotas.get(("on_demand", p), [])]
        for d in self._served(p):
            speed = self.work.speed[d, p]
            self.sheet.add_column("on_demand", d, p, usd, [(self._work_rows[d], speed), *caps, *billing], egress=self.work.egress_usd[d, p])
        reserved = self.choices.table["lot_reserve"].to_numpy(float) * (self.pool_of == p)
        pays = [(bill, -1.0)] if billed else []
        if reserved.any():
            room = self.sheet.add_row("reserved", self.zero, reserved, pool=p)
            # Whether used or not, what is reserved is billed.
            pays.append((self.sheet.add_row("reserved_bill", self.zero, -reserved, pool=p), -1.0))
            for d in self._served(p):
                speed = self.work.speed[d, p]
                self.sheet.add_column(
                    "on_demand", d, p, usd, [(self._work_rows[d], speed), (room, 1.0), *billing], egress=self.work.egress_usd[d, p]
                )
        if billed:
            self._bills[p] = pays
            self.sheet.add_column("on_demand_bill", -1, p, self.on_demand_usd[p], pays)
            if not np.isnan(self.rediscount_usd[p]):
                entries = [*pays, (self._exchange["replacement"], 1.0)]
                self.sheet.add_column("rediscount", -1, p, self.rediscount_usd[p], entries, spend=0.0)

    def _add_spot(self, p: int) -> None:
        r"""Serve work that can be interrupted on spot, lost hours left out: :math:`\sum_{p \in S} \sum_d s_{dp} \le S_S(D)`."""
        useful = float(self.market.pools["spot_useful_share"][p])
        caps = [(i, 1.0) for i in [*self._cap_rows.get(("spot_accelerators", p), []), *self._quotas.get(("spot", p), [])]]
        for d in self._served(p):
            if self.work.rows["interruptible"][d]:
                served = self.work.speed[d, p] * useful
                shares = [(i, served) for i in self.share_rows.get((d, p), [])]
                self.sheet.add_column(
                    "spot",
                    d,
                    p,
                    self.spot_usd[p],
                    [(self._work_rows[d], served), *caps, *shares],
                    egress=self.work.egress_usd[d, p] * useful,
                )

    def _add_discount(self, targets: dict[int, float], base: np.ndarray, lots: np.ndarray) -> None:
        r"""Pay the bills of some pools by a discount, in machines or dollars: :math:`\sum_p r_{kp} z_{kp} \le B_k(x)`."""
        room = self.sheet.add_row("discount", base, lots, pool=min(targets))
        for p, rate in targets.items():
            self.sheet.add_column("discount", -1, p, 0.0, [(room, rate), *self._bills[p]])

    def _rented(self, provider: str) -> list[int]:
        """Pools of a provider in which machines can be rented on demand."""
        return np.flatnonzero((self.market.pools["provider"] == provider).to_numpy() & (self.on_demand_usd > 0)).tolist()

    def _add_draw(self, provider: str, pools: list[int]) -> None:
        r"""Pay bills on demand by spend that is planned under an agreement: :math:`\sum_p r_p z_p \le w_{iq}`."""
        if not pools:
            return
        self.draws[provider] = self.sheet.add_row("agreement", self.zero, self.none, pool=pools[0])
        for p in pools:
            entries = [(self.draws[provider], self.on_demand_usd[p]), *self._bills[p]]
            self.sheet.add_column("agreement_draw", -1, p, 0.0, entries, spend=self.on_demand_usd[p])

    def _add_caps(self, kind: str, offered: np.ndarray, default: float) -> None:
        r"""Cap what is asked for by the hour, of which a share is had: :math:`\sum_{p \in S} \sum_d m_{dp} / \alpha_p \le M_S`.

        A pool that no limit covers in a quarter has the assumed cap.
        """
        pools, timeline = self.market.pools, self.choices.timeline
        scopes: dict[tuple[int, ...], tuple[np.ndarray, list[str]]] = {}
        covered = np.zeros((len(offered), self.planned), dtype=bool)
        for limit in records(self.limits[self.limits["kind"] == kind]):
            mask = in_scope(limit, pools) & offered
            if mask.any():
                when = holds_in(limit, timeline.horizon)
                cap, names = scopes.setdefault(tuple(np.flatnonzero(mask).tolist()), (np.full(self.planned, np.inf), []))
                cap[when] = np.minimum(cap[when], float(limit["amount"]))
                names.append(str(limit["limit_id"]))
                covered |= mask[:, None] & when
        for p in np.flatnonzero(offered & ~covered.all(axis=1)).tolist():
            cap, names = scopes.setdefault((p,), (np.full(self.planned, np.inf), []))
            cap[~covered[p]] = np.minimum(cap[~covered[p]], default)
        for scope, (cap, names) in scopes.items():
            assumed = f"{kind} (assumed) {' '.join(pools.loc[scope[0], ['provider', 'accelerator', 'place']])}"
            row = self.sheet.add_row(
                kind, np.minimum(self._held(cap), self.ample), self.none, pool=scope[0], limit_id=", ".join(names) or assumed
            )
            if kind == "spot_accelerators":
                self.spot_caps[row] = np.asarray((self.work.speed[:, list(scope)] > 0).any(axis=1)), self._held(cap)
            for p in scope:
                self._cap_rows.setdefault((kind, p), []).append(row)

    def _add_shares(self) -> None:
        r"""Rest only a share of work on spot: :math:`\sum_p v_{dp} g_p s_{dp} \le \sigma_d D_d`."""
        for limit in records(self.limits[self.limits["kind"] == "spot_share"]):
            share = np.where(holds_in(limit, self.choices.timeline.horizon), min(float(limit["amount"]), 1.0), 1.0)
            mask = in_scope(limit, self.market.pools) & ~np.isnan(self.spot_usd)
            for d in np.flatnonzero(self.work.rows["interruptible"].to_numpy(bool)).tolist():
                here = np.flatnonzero(mask & (self.work.speed[d] > 0)).tolist()
                if here:
                    row = self.sheet.add_row("spot_share", self._held(share), self.none, row=d, limit_id=str(limit["limit_id"]))
                    for p in here:
                        self.share_rows.setdefault((d, p), []).append(row)

    def _add_quotas(self) -> None:
        r"""Count what runs by the hour beside what is bought: :math:`\sum_{p \in S} \sum_d m_{dp} + \sum_j a_j x_j \le Q - K`."""
        table, holdings, kinds = self.choices.table, self.market.holdings, {"running": ("on_demand",), "all": ("on_demand", "spot")}
        for limit in records(self.limits[self.limits["counts"].isin(list(kinds))]):
            when = holds_in(limit, self.choices.timeline.horizon)
            full = in_scope(limit, holdings) & (holdings["role"] == "full").to_numpy()
            room = np.maximum(float(limit["amount"]) - self.held[full].sum(axis=0), 0.0)
            stage = self.technologies.stage
            counted = when[np.minimum(stage, self.planned - 1)] & (stage < self.planned)
            lots = -(self.choices.sure_accelerators * in_scope(limit, table))[:, None] * self.technologies.covered * counted
            base = np.where(when[self.quarter] & ~self.later, np.minimum(room, self.ample), self.ample)
            row = self.sheet.add_row("quota_accelerators", base, lots, limit_id=str(limit["limit_id"]))
            for p in np.flatnonzero(in_scope(limit, self.market.pools)).tolist():
                for kind in kinds[limit["counts"]]:
                    self._quotas.setdefault((kind, p), []).append(row)

    def _held(self, by_quarter: np.ndarray) -> np.ndarray:
        """Spread a limit by quarter over spans; after the horizon that of the last planned quarter holds on."""
        return np.asarray(by_quarter[self.quarter])


def _slowest(work: Work, market: Market) -> np.ndarray:
    """Least work a useful accelerator-hour does for each row, so that capacity beyond it can never be needed."""
    useful = market.pools["spot_useful_share"].fillna(1.0).to_numpy() if "spot_useful_share" in market.pools else 1.0
    return np.where(work.speed > 0, work.speed * useful, np.inf).min(axis=1)


def _discounts(market: Market, choices: Choices, signed: np.ndarray) -> list[tuple[dict[int, float], np.ndarray, np.ndarray]]:
    """List discounts without capacity: pools with the rate at which they draw, what is signed by span, and what a lot adds."""
    table, holdings, pools = choices.table, market.holdings, market.pools
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
        here = same & (pools.index == p)
        # A discount stated for a whole geography, or for anywhere, pays for machines in any of its regions.
        where = same if pool["place"] == ANYWHERE else here if here.any() else same & (pools["geography"] == pool["place"])
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
