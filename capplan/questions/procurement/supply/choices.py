"""Everything that can be decided: each offer in each quarter in which it can start, and each renewal."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from capplan.book.scenario import ProcurementAssumptions
from capplan.errors import CapplanError, nearest
from capplan.questions.pricing import owned_running_usd_per_hour
from capplan.questions.procurement.supply.departures import DEPARTURE, departure_usd, departures_of
from capplan.questions.procurement.supply.instalments import due
from capplan.questions.procurement.supply.late_deliveries import bridge_usd
from capplan.questions.procurement.supply.market import Market
from capplan.questions.procurement.supply.owned import kept_machines, sold_machines
from capplan.questions.procurement.supply.price_paths import price_factors, worth_factors
from capplan.questions.procurement.supply.site_power import PaidPower, paid_power, rises, site_ends, space_usd
from capplan.questions.procurement.supply.starts_and_signing import renewals_of, starts_of
from capplan.questions.procurement.supply.tiers import with_tiers
from capplan.questions.procurement.work.spans import YEAR, Spans, lay_out_spans
from capplan.questions.procurement.work.states import States
from capplan.questions.procurement.work.timeline import Timeline, make_timeline, years_after
from capplan.records import records
from capplan.units import quarter_of, quarter_range, quarter_start


@dataclass(frozen=True)
class Choices:
    """Decisions of the first stage with what one lot of each gives and costs in every quarter."""

    #: One row a decision: name, offer_id, kind (offer, renewal, keep, departure), sku, provider, accelerator, region, geography, place,
    #: pool, term, role, quarter, start, end, lot_machines, lot_accelerators, lot_kw, lot_reserve (accelerators reserved without a
    #: discount), lot_usd_per_hour (dollars an hour of a savings plan, at today's rates), minimum_lots, maximum_lots, forced (renews by
    #: itself), follows (name of the renewal of which it renews what is left), of_contract and way (of a departure: the contract, and leave,
    #: sell or exchange; its accelerators count below zero), rising_usd_per_hour (what a machine sold saves at its site's prices, which
    #: rise), renewal_assumed (at today's price, since the contract states none), requoted (rests on a quote that must be given again),
    #: tiered (one of several price tiers), usd_per_hour (one machine), sign_by (day of signature), submit_by (day it must be asked for),
    #: signed_on (day it is signed, if asked for at once where that day is past), late, firm, site_end (first instant after the contract of
    #: the site in which a machine one buys stands).
    table: pd.DataFrame
    timeline: Timeline  #: Planned quarters and those until the last contract ends.
    #: spans, moments: Parts of the planned quarters in which the same machines are there, and years after them; the same cut at short
    #: capacity blocks as well, for limits.
    spans: Spans
    moments: Spans
    covered: np.ndarray  #: (n, Q): Share of each quarter in which the contract runs.
    #: recurring_usd, upfront_usd, residual_usd, expense_usd (n, Q): What one lot pays in the quarter, pays at its start, brings back at its
    #: end, and books as P&L.
    recurring_usd: np.ndarray
    upfront_usd: np.ndarray
    residual_usd: np.ndarray
    expense_usd: np.ndarray
    bridge_usd: np.ndarray  #: (n,): What one lot is expected to cost in the days that its delivery slips.
    payments: pd.DataFrame  #: What one lot pays by a schedule: choice, date, quarter, usd, present_usd.
    #: (n, Q): The part of `recurring_usd` that is paid for power with its space at a site, at what it costs where none is paid for already.
    space_usd: np.ndarray
    paid_power: PaidPower  #: What of that is paid for in any case.

    @property
    def sure_accelerators(self) -> np.ndarray:
        """Accelerators that one lot surely gives, (n,): paid for or reserved."""
        table = self.table
        return np.where(table["role"] == "full", table["lot_accelerators"], table["lot_reserve"]).astype(float)

    @property
    def running_usd(self) -> np.ndarray:
        """What one lot pays in each quarter after its start, evenly or by a schedule, (n, Q)."""
        return self.recurring_usd + self._scheduled("usd")

    @property
    def sold_power_usd(self) -> np.ndarray:
        """Electricity of each quarter that one lot of machines sold no longer draws, (n, Q); 0 for all other choices."""
        table = self.table
        support = (table["usd_per_hour"] - table["rising_usd_per_hour"]) * table["lot_machines"]
        saved = -self.recurring_usd - support.fillna(0.0).to_numpy()[:, None] * self.covered * self.timeline.hours
        return np.where(self._sold, saved, 0.0)

    @property
    def _sold(self) -> np.ndarray:
        """Which choices sell machines that are there, (n, 1)."""
        return self.table["rising_usd_per_hour"].notna().to_numpy()[:, None]

    def cash_usd(self, months_later: int, as_of: pd.Timestamp, *, machines_there: bool = True) -> np.ndarray:
        """Return what one lot pays in each quarter, (n, Q), on its days: upfront when it is signed, scheduled, and by monthly invoices.

        Args:
            months_later: Months from that of the service to that in which its invoice is paid.
            as_of: Nothing is signed before it; what is paid before the planned quarters is in none of them.
            machines_there: Whether support and electricity of machines that are there are counted, and so saved where they are sold.
        """
        table, quarters = self.table, list(self.timeline.quarters)
        owned = (table["term"] == "owned").to_numpy()[:, None]
        due = np.where(owned, self.recurring_usd, _by_day(self.recurring_usd.sum(axis=1), self.covered, self.timeline))
        due[self._sold[:, 0] & (not machines_there)] = 0.0
        paid = self.timeline.paid(due, table["start"], table["end"], months_later) + self._scheduled("usd")
        leaving = (table["kind"] == DEPARTURE).to_numpy()
        paid[leaving] += self.upfront_usd[leaving]
        begun, ending = np.cumsum(self.covered, axis=1) > 0, np.cumsum(self.covered[:, ::-1], axis=1)[:, ::-1] > 0
        rest = np.where(self._sold, (table["rest_usd"] * table["lot_machines"]).to_numpy(float)[:, None], 0.0)
        # what a machine would have brought at the end of its life fails to come then, and not on the day
        paid += rest * (np.diff(ending, axis=1, append=False) * 1.0 - np.diff(begun, axis=1, prepend=False))
        upfront = np.where(leaving, 0.0, self.upfront_usd.sum(axis=1))
        for j, quarter in enumerate(self.paid_in(as_of)):
            if quarter in quarters:
                paid[j, quarters.index(quarter)] += upfront[j]
        return paid

    def paid_in(self, as_of: pd.Timestamp) -> np.ndarray:
        """Quarter in which each choice is signed and paid upfront, (n,)."""
        return np.array([quarter_of(max(day, as_of)) for day in self.table["signed_on"]], dtype=object)

    def _scheduled(self, column: str) -> np.ndarray:
        """Add up the payments of schedules by choice and quarter."""
        total = np.zeros(self.recurring_usd.shape)
        np.add.at(total, (self.payments["choice"], self.payments["quarter"]), self.payments[column])
        return total

    @property
    def present_bridge_usd(self) -> np.ndarray:
        """Value today of bridging the slipped delivery of one lot, (n,)."""
        begins = np.argmax(self.covered > 0, axis=1)
        return np.asarray(self.bridge_usd * self.timeline.discount_start[begins])

    def present_cost_usd(self, ending: str) -> np.ndarray:
        """Value today of what one lot of each choice is charged, (n,): within the planned quarters, to its end, or while demand is held.

        In the last case a contract that runs longer is charged the part of its payments at and after signing that the part of its hours
        until then is.
        """
        timeline = self.timeline
        counted = {"truncate": timeline.planned, "count_in_full": len(timeline.quarters)}.get(ending)
        if counted is not None:
            return np.asarray(self.present_usd[:, :counted].sum(axis=1) + self.present_bridge_usd)
        hours = self.covered * timeline.hours
        until = timeline.planned + YEAR * (len(self.spans.quarter) - self.spans.planned)
        share = hours[:, :until].sum(axis=1) / hours.sum(axis=1)
        at_once = (self.upfront_usd * timeline.discount_start + self._scheduled("present_usd")).sum(axis=1)
        recurring = (self.recurring_usd * timeline.discount)[:, :until].sum(axis=1)
        kept = np.where(share < 1, self.residual_usd.sum(axis=1) * timeline.discount[until - 1], self.residual_usd @ timeline.discount)
        return np.asarray(recurring + (at_once - kept) * share + self.present_bridge_usd)

    @property
    def present_usd(self) -> np.ndarray:
        """Value today of all payments of one lot by quarter, (n, Q)."""
        when, start = self.timeline.discount, self.timeline.discount_start
        return self.recurring_usd * when + self.upfront_usd * start - self.residual_usd * when + self._scheduled("present_usd")


def list_choices(
    market: Market,
    sites: pd.DataFrame | None,
    a: ProcurementAssumptions,
    tiers: Mapping[str, pd.DataFrame] | None = None,
    schedules: Mapping[str, pd.DataFrame] | None = None,
    states: States | None = None,
) -> Choices:
    """List what can be bought or renewed within the planned quarters, and cost one lot of it to its end.

    An offer can start in a quarter that begins at least its median lead time after `as_of`. It must be signed by the quarter's start less
    the 90th percentile of the lead time (the median where that is not known) less the approval days, and before its booking window ends.
    A quote holds for starts up to the first quarter that begins its lead time after it expires, and must be signed by then; later starts
    are at a quote given again or at the list price, as `later_quotes` says.

    Args:
        sites: Prices of power and space for machines one owns; none can start where the site's contract has ended.
        tiers, schedules: Volume tiers and payment schedules by offer.
        states: States of deliveries; what they are stated for is not bridged at its expected delay as well.

    Raises:
        CapplanError: If a capacity block lies in the past, or a pinned purchase cannot be had.
    """
    quarters = quarter_range(a.first_quarter, a.horizon_quarters)
    table = _listed(market, sites, quarters, tiers or {}, a)
    timeline = make_timeline(a, table["end"].max() if len(table) else quarter_start(quarters[-1]))
    _check_pins(table, market, a)
    arrivals = [] if states is None else states.arrivals(table)
    ends = site_ends(table["region"].where(table["term"] == "owned"), sites)
    moved = market.pools["movable_only"].to_numpy(bool)[table["pool"].to_numpy(int)]
    cuts = [ends, market.holdings["start"], market.holdings["end"]]
    spans = lay_out_spans(timeline, [*cuts, *(each[~moved] for each in (table["start"], table["end"], *arrivals))], years_after(a))
    moments = lay_out_spans(timeline, [*cuts, table["start"], table["end"]], 0)
    covered = timeline.covered(table["start"], table["end"])
    costs = _Costs(table, timeline, covered)
    payments = due(schedules or {}, table, costs.whole.sum(axis=1), timeline)
    costs.recurring[payments["choice"].unique()] = 0.0
    costs.own(market, sites, a)
    costs.leave(market, sites, a)
    costs.reserve(market, a)
    bridge = bridge_usd(table, market, a)
    if states is not None:
        bridge[states.known_deliveries(table)] = 0.0
    power = paid_power(table, market.holdings, sites, timeline, spans, a)
    amounts = (costs.recurring, costs.upfront, costs.residual, costs.expense)
    return Choices(table, timeline, spans, moments, covered, *amounts, bridge, payments, costs.space, power)


def _listed(
    market: Market, sites: pd.DataFrame | None, quarters: list[str], steps: Mapping[str, pd.DataFrame], a: ProcurementAssumptions
) -> pd.DataFrame:
    """List offers by quarter and tier, machines kept, renewals and departures, at the price of their day (see `_COLUMNS`)."""
    as_of = pd.Timestamp(a.as_of)
    rows = [
        tier
        for offer in records(_bought(market.contracts))
        for row in starts_of(offer, quarters, as_of, a)
        for tier in with_tiers(row, None if row["listed"] else steps.get(offer["offer_id"]), a.price_factor)
    ]
    held = records(market.holdings)
    rows += [row for holding in held for row in kept_machines(holding, quarters, a)]
    closed = site_ends(pd.Series([row["region"] for row in rows], dtype=object), sites)
    rows = [row | {"site_end": end if row["term"] == "owned" else pd.NaT} for row, end in zip(rows, closed, strict=True)]
    rows = [row for row in rows if not row["start"] >= row["site_end"]]
    for holding in held:
        rows += [*renewals_of(holding, quarters, a), *departures_of(holding, quarters, a), *sold_machines(holding, quarters, sites, a)]
    table = pd.DataFrame(rows) if rows else pd.DataFrame(columns=list(_COLUMNS))
    if rows:
        table = _at_the_price_of_its_day(table, market, a)
        dollars = table["role"] == "dollars"
        sure = (table["role"] == "reserve") | (dollars & (table["guarantees_capacity"] == True))  # noqa: E712 - empty cells are False
        table["lot_reserve"] = table["lot_accelerators"].where(sure, 0.0)
        # Whatever a plan costs on the day it is signed, its lot pays for its machines: in dollars at today's rates.
        rate = table["offer_id"].map(market.contracts.set_index("offer_id")["machine_usd_per_hour"])
        table["lot_usd_per_hour"] = (table["lot_machines"] * rate).where(dollars, 0.0)
    table = table.reindex(columns=list(_COLUMNS)).astype({name: kind for name, kind in _COLUMNS.items() if kind})
    return table


class _Costs:
    """What a lot of each choice is charged in each quarter, (n, quarters); contracts first, other kinds put right after."""

    def __init__(self, table: pd.DataFrame, timeline: Timeline, covered: np.ndarray) -> None:
        self.table, self.timeline, self.covered = table, timeline, covered
        self.hours = covered * timeline.hours
        self.lots, self.price, share = (table[name].to_numpy(float)[:, None] for name in ("lot_machines", "usd_per_hour", "upfront_share"))
        self.whole = self.price * self.lots * self.hours
        self.begins = (np.cumsum(covered > 0, axis=1) == 1) & (covered > 0)
        self.recurring = self.whole * (1 - share)
        self.upfront = self.begins * (self.whole * share).sum(axis=1, keepdims=True)
        self.residual, self.space = np.zeros_like(self.whole), np.zeros_like(self.whole)
        self.expense = _by_day(self.whole.sum(axis=1), covered, timeline)

    def own(self, market: Market, sites: pd.DataFrame | None, a: ProcurementAssumptions) -> None:
        """Charge machines bought by their price, their power, space and upkeep, and what they are worth at the end."""
        table, timeline = self.table, self.timeline
        owned = ((table["term"] == "owned") & (table["kind"] != DEPARTURE)).to_numpy()
        if not owned.any():
            return
        machine, covered, lots = table[owned], self.covered[owned], self.lots[owned]
        last_quarter = np.zeros_like(covered, dtype=bool)
        last_quarter[np.arange(len(machine)), covered.shape[1] - 1 - np.argmax(covered[:, ::-1] > 0, axis=1)] = True
        rise = rises(machine["region"], sites, timeline, a)
        self.space[owned] = space_usd(machine["region"], sites, timeline, a) * (machine["lot_kw"].to_numpy(float)[:, None] * covered)
        running = owned_running_usd_per_hour(machine["power_kw"], machine["capex_usd"], machine["region"], a, sites).to_numpy()[:, None]
        upkeep = (machine["capex_usd"] * a.upkeep_share_per_year / 8760).to_numpy()[:, None]
        self.recurring[owned] = ((running - upkeep) * rise + upkeep + self.price[owned]) * lots * self.hours[owned]
        capex = machine["capex_usd"].to_numpy()[:, None] * lots
        self.upfront[owned] = self.begins[owned] * capex
        days = pd.DatetimeIndex(sorted(set(machine["end"])))
        worth = worth_factors(machine, market.price_paths, days, a)
        worth = worth[np.arange(len(machine)), days.get_indexer(pd.DatetimeIndex(machine["end"]))][:, None]
        kept = np.minimum(a.residual_share * worth, 1.0)
        self.residual[owned] = last_quarter * capex * kept
        self.expense[owned] = self.recurring[owned] + _by_day((capex * (1 - kept))[:, 0], covered, timeline)

    def leave(self, market: Market, sites: pd.DataFrame | None, a: ProcurementAssumptions) -> None:
        """Charge machines that are given back by what is no longer owed, and what giving them back costs."""
        leaving, rising = (self.table["kind"] == DEPARTURE).to_numpy(), self.table["rising_usd_per_hour"].to_numpy(float)[:, None]
        sold = ~np.isnan(rising[:, 0])
        if sold.any():
            more = rises(self.table["region"][sold], sites, self.timeline, a) - 1
            self.whole[sold] += rising[sold] * more * self.lots[sold] * self.hours[sold]
        if leaving.any():
            charged = departure_usd(self.table[leaving], self.whole[leaving], market, a)
            self.recurring[leaving], at_once, self.expense[leaving] = charged
            self.upfront[leaving] = self.begins[leaving] * at_once[:, None]
        if sold.any():  # the loss of value that was to come falls on the day
            book = (self.table["book_usd"].to_numpy(float)[:, None] * self.lots)[sold]
            self.expense[sold] += self.begins[sold] * book - _by_day(book[:, 0], self.covered[sold], self.timeline)

    def reserve(self, market: Market, a: ProcurementAssumptions) -> None:
        """Charge reservations by their premium: their hours are billed on demand in the recourse."""
        reserve = (self.table["role"] == "reserve").to_numpy()
        if not reserve.any():
            return
        own = self.table["pool"].to_numpy()[reserve].astype(int)
        moves = price_factors(market.pools.iloc[own].assign(term="on_demand"), market.price_paths, self.timeline.middles, a)
        by_hour = market.pools["on_demand_usd_per_hour"].to_numpy()[own][:, None] * moves
        had = self.table["lot_accelerators"].to_numpy()[reserve][:, None]
        premium = (self.price[reserve] * self.lots[reserve] - by_hour * had) * self.hours[reserve]
        self.recurring[reserve], self.upfront[reserve], self.expense[reserve] = premium, 0.0, premium


def _by_day(usd: np.ndarray, covered: np.ndarray, timeline: Timeline) -> np.ndarray:
    """Spread amounts, (n,), over the quarters by days of service, (n, Q), as they are expensed and invoiced."""
    days = timeline.days * covered
    return np.asarray(usd[:, None] * days / days.sum(axis=1, keepdims=True))


def _at_the_price_of_its_day(table: pd.DataFrame, market: Market, a: ProcurementAssumptions) -> pd.DataFrame:
    """Price what no quote and no right to renew holds at the prices of the day on which it begins."""
    days = pd.DatetimeIndex(sorted(set(table["start"])))
    factor = price_factors(table, market.price_paths, days, a)[np.arange(len(table)), days.get_indexer(pd.DatetimeIndex(table["start"]))]
    factor = np.where(table["quoted"].to_numpy(bool), 1.0, factor)
    return table.assign(usd_per_hour=table["usd_per_hour"] * factor, capex_usd=table["capex_usd"] * factor)


def _bought(contracts: pd.DataFrame) -> pd.DataFrame:
    """Keep one offer of each savings plan: its dollars are the same at any of its rates, so the finest lot stands for all."""
    plan = contracts["plan_id"].where(contracts["role"] == "dollars")
    dollars = contracts["lot_machines"] * contracts["machine_usd_per_hour"]
    finest = contracts.assign(plan=plan, dollars=dollars)[plan.notna()].sort_values(["dollars", "offer_id"]).drop_duplicates("plan").index
    return contracts[plan.isna() | contracts.index.isin(finest)]


_COLUMNS = dict.fromkeys(
    ["name", "offer_id", "kind", "sku", "provider", "accelerator", "region", "geography", "place", "term", "role", "plan_id", "quarter"], ""
) | {
    "pool": "int64",
    "start": "datetime64[ns]",
    "end": "datetime64[ns]",
    "sign_by": "datetime64[ns]",
    "submit_by": "datetime64[ns]",
    "signed_on": "datetime64[ns]",
    "site_end": "datetime64[ns]",
    "lot_machines": "float64",
    "lot_accelerators": "float64",
    "lot_kw": "float64",
    "lot_reserve": "float64",
    "lot_usd_per_hour": "float64",
    "minimum_lots": "float64",
    "maximum_lots": "float64",
    "usd_per_hour": "float64",
    "upfront_share": "float64",
    "lead_time_days_p50": "float64",
    "lead_time_days_p90": "float64",
    "capex_usd": "float64",
    "power_kw": "float64",
    "follows": "",
    "of_contract": "",
    "way": "",
    "prepaid_share": "float64",
    "brings_usd": "float64",
    "rising_usd_per_hour": "float64",
    "rest_usd": "float64",
    "book_usd": "float64",
    "exit_cost_share": "float64",
    "resale_share": "float64",
    "forced": "bool",
    "renewal_assumed": "bool",
    "requoted": "bool",
    "tiered": "bool",
    "late": "bool",
    "firm": "bool",
}


def _check_pins(table: pd.DataFrame, market: Market, a: ProcurementAssumptions) -> None:
    """Refuse pinned purchases of offers that are not there or cannot start then."""
    known = set(market.contracts["offer_id"]) | set(table["offer_id"])
    possible = set(zip(table["offer_id"], table["quarter"], strict=True))
    for offer_id, quarter, lots in a.pinned_purchases:
        if offer_id not in known:
            raise CapplanError(f"pinned_purchases names {offer_id!r}, which is no offer that can be bought; {nearest(offer_id, known)}")
        if (offer_id, quarter) not in possible:
            can = sorted(q for name, q in possible if name == offer_id)
            raise CapplanError(
                f"pinned_purchases wants {offer_id} from {quarter}, but it can start only in {', '.join(can) or 'no planned quarter'}"
            )
        if lots < 0:
            raise CapplanError(f"pinned_purchases wants {lots} lots of {offer_id} in {quarter}; a purchase is 0 lots or more")


def lots_of(table: pd.DataFrame, bought: pd.Series) -> np.ndarray:
    """Return the lots of each choice, (n,), from lots by offer and quarter: with price tiers those of the tier they are in.

    Args:
        bought: Lots, indexed by (offer_id, quarter).
    """
    keys = list(zip(table["offer_id"], table["quarter"], strict=True))
    lots = np.array([float(bought.get(key, 0.0)) for key in keys])
    most = table["maximum_lots"].fillna(np.inf).to_numpy(float)
    inside = (lots >= table["minimum_lots"].to_numpy(float)) & (lots <= most)
    return np.where(table["tiered"].to_numpy(bool) & ~inside, 0.0, lots)
