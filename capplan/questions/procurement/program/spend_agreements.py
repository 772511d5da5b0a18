"""Spend agreements: sums to be spent with a provider by contract year, drawn by what the plan buys and rents, paid where they are not."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

from capplan.book.scenario import ProcurementAssumptions
from capplan.errors import CapplanError
from capplan.optimize.program import ExpectedRow
from capplan.questions.pricing import completed
from capplan.questions.procurement.program.other_decisions import Columns, Extra
from capplan.questions.procurement.program.second_stage import Recourse, hours_by_technology
from capplan.questions.procurement.supply.choices import Choices
from capplan.questions.procurement.supply.market import Market
from capplan.questions.procurement.work.load import Work
from capplan.questions.procurement.work.timeline import Timeline
from capplan.records import records
from capplan.units import quarter_end

#: What the discount of an agreement applies to; contracts have prices of their own.
DISCOUNTED_SOURCES = ("on_demand", "on_demand_bill", "agreement_draw", "spot")


@dataclass(frozen=True)
class Year:
    """One contract year of an agreement, as far as the plan reaches."""

    #: agreement_id, provider, start, end: As in the table spend_agreements.
    agreement_id: str
    provider: str
    start: pd.Timestamp
    end: pd.Timestamp
    #: committed_usd, drawn_usd: To be spent and already spent in the year; the part of a year after the last planned quarter is left out of
    #: the first in proportion to its days.
    committed_usd: float
    drawn_usd: float
    signed_usd: float  #: What contracts already signed, and other costs billed by the provider, will still draw.
    discount_share: float  #: Discount on what is rented by the hour.
    rolls: bool  #: (bool): Does an unspent rest move to the next year?
    overlap: np.ndarray  #: (planned,): Share of each planned quarter that lies in the year.
    lot_usd: np.ndarray  #: (n,): What one lot of each choice draws in the year.
    due: int  #: Planned quarter in which a shortfall is paid.

    @property
    def name(self) -> str:
        """The agreement and the day its year ends."""
        return f"{self.agreement_id} until {self.end:%Y-%m-%d}"

    @property
    def open_usd(self) -> float:
        """What is still to be spent beyond what is signed."""
        return self.committed_usd - self.drawn_usd - self.signed_usd


def contract_years(
    agreements: pd.DataFrame | None, other_costs: pd.DataFrame | None, market: Market, choices: Choices, a: ProcurementAssumptions
) -> list[Year]:
    """List the contract years of spend agreements that overlap the planned quarters.

    Args:
        agreements, other_costs: Tables spend_agreements and other_costs of the book; None where it has none. Of the latter only rows that
            name a provider count.
        a: `as_of`: what is billed before it is in `drawn_usd`.

    Raises:
        CapplanError: If two years of one agreement overlap.
    """
    if agreements is None or agreements.empty:
        return []
    table = completed(agreements, "spend_agreements").sort_values(["agreement_id", "start"]).reset_index(drop=True)
    timeline, as_of = choices.timeline, pd.Timestamp(a.as_of)
    horizon = quarter_end(timeline.horizon[-1])
    quarters = pd.DataFrame({"start": timeline.starts[: timeline.planned]})
    quarters["end"] = [quarter_end(label) for label in timeline.horizon]
    found = []
    for row in records(table):
        begin, end = row["start"], row["end"] + pd.Timedelta(days=1)
        same = table["agreement_id"] == row["agreement_id"]
        following = table[same & (table["start"] > begin)]
        if len(following) and following["start"].iloc[0] < end:
            raise CapplanError(
                f"spend agreement {row['agreement_id']}: the years that start on {begin:%Y-%m-%d} and {following['start'].iloc[0]:%Y-%m-%d}"
                " overlap; a year ends before the next one starts"
            )
        overlap = _share(quarters["start"], quarters["end"], begin, end)
        if not overlap.any():
            continue
        left, reached = end - max(begin, as_of), min(end, horizon) - max(begin, as_of)
        mine = (choices.table["provider"] == row["provider"]).to_numpy()
        # What is paid at signing is billed on that day, as the ledger books it, also where service begins in a later contract year.
        billed = choices.table["signed_on"].clip(lower=as_of)
        upfront = choices.upfront_usd[:, : timeline.planned].sum(axis=1) * ((billed >= begin) & (billed < end)).to_numpy()
        lot_usd = np.where(mine, choices.recurring_usd[:, : timeline.planned] @ overlap + upfront, 0.0)
        dated = choices.payments[choices.payments["date"].between(begin, min(end, horizon), inclusive="left")]
        lot_usd += np.bincount(dated["choice"], weights=dated["usd"], minlength=len(mine)) * mine
        drawn, due = float(row["drawn_usd"]), int(np.flatnonzero(overlap)[-1])
        committed = drawn + (float(row["committed_usd"]) - drawn) * (reached / left)
        signed = _signed_usd(market, row["provider"], max(begin, as_of), min(end, horizon))
        signed += _other_usd(other_costs, row["provider"], max(begin, as_of), min(end, horizon))
        rolls = bool(row["rolls_over"]) and len(following) > 0 and following["start"].iloc[0] < horizon
        found.append(
            Year(
                str(row["agreement_id"]),
                str(row["provider"]),
                begin,
                row["end"],
                committed,
                drawn,
                signed,
                float(row["discount_share"]),
                rolls,
                overlap,
                lot_usd,
                due,
            )
        )
    return found


def _share(starts: pd.Series, ends: pd.Series, begin: pd.Timestamp, end: pd.Timestamp) -> np.ndarray:
    """Share of each interval that lies between two instants."""
    inside = (ends.clip(upper=end) - starts.clip(lower=begin)) / (ends - starts)
    return inside.clip(lower=0.0).to_numpy(float)


def _signed_usd(market: Market, provider: str, begin: pd.Timestamp, end: pd.Timestamp) -> float:
    """Return what signed contracts with a provider will bill between two instants; what was paid at signing is not billed again."""
    held = market.holdings
    if held.empty:
        return 0.0
    hours = (held["end"].clip(upper=end) - held["start"].clip(lower=begin)) / pd.Timedelta(hours=1)
    mine = (held["provider"] == provider) & (held["kind"] == "contract")
    return float((hours.clip(lower=0.0) * held["usd_per_hour"] * (1 - held["prepaid_share"]))[mine].sum())


def _other_usd(other_costs: pd.DataFrame | None, provider: str, begin: pd.Timestamp, end: pd.Timestamp) -> float:
    """Return other costs that a provider bills in the months between two instants."""
    if other_costs is None or other_costs.empty or "provider" not in other_costs:
        return 0.0
    inside = (other_costs["provider"] == provider) & (other_costs["month"] >= begin.replace(day=1)) & (other_costs["month"] < end)
    return float(other_costs.loc[inside, "usd"].sum())


def discounted(recourse: Recourse, market: Market, years: Sequence[Year]) -> tuple[np.ndarray, np.ndarray]:
    """Return cost and spend of each recourse column under each technology after the agreements' discounts, both (technologies, r).

    Args:
        years: Contract years; quarters after the planned ones have no discount.
    """
    off = np.zeros(recourse.usd.shape)
    for year in years:
        share = np.append(year.overlap * year.discount_share, 0.0)[np.minimum(recourse.stage_of, len(year.overlap))]
        off += np.outer(share, _by_the_hour(recourse.columns, market, year.provider))
    egress = recourse.columns["egress"].to_numpy(float)
    return recourse.usd - off * (recourse.usd - egress), recourse.spend - off * (recourse.spend - egress)


def _by_the_hour(columns: pd.DataFrame, market: Market, provider: str) -> np.ndarray:
    """Tell which columns are rented by the hour from a provider."""
    pool = columns["pool"].to_numpy(int)
    theirs = (market.pools["provider"] == provider).to_numpy()
    return np.isin(columns["source"], DISCOUNTED_SOURCES) & (pool >= 0) & theirs[np.maximum(pool, 0)]


def pledges(years: Sequence[Year], timeline: Timeline, draws: dict[str, int], most: dict[str, float]) -> list[Extra]:
    """List what can be planned to be rented by the hour from each agreement's provider, in dollars an hour of each planned quarter.

    What is planned is paid for like a contract and counts towards the agreement; what is not used within its hour is lost.

    Args:
        years, timeline: Contract years and quarters.
        draws: Recourse row of each provider's planned spend.
        most: Most dollars an hour that can be rented from each provider.
    """
    found = []
    for provider in sorted(draws):
        own = [year for year in years if year.provider == provider]
        off = sum((year.overlap * year.discount_share for year in own), np.zeros(timeline.planned))
        inside = sum((year.overlap for year in own), np.zeros(timeline.planned)) > 0
        for q in np.flatnonzero(inside).tolist():
            net = float(timeline.hours[q] * (1 - off[q]))
            name = f"by the hour {provider} {timeline.quarters[q]}"
            found.append(Extra(name, provider, q, most[provider], net * float(timeline.discount[q]), net, {(q, draws[provider]): 1.0}))
    return found


def agreement_table(
    years: Sequence[Year], lots: np.ndarray, work: Work, recourse: Recourse, market: Market, decisions: sparse.csr_matrix
) -> pd.DataFrame:
    """Say how far each contract year is drawn in expectation by all that is bought and rented, and what is short."""
    columns = (
        "agreement_id provider start end committed_usd rolled_in_usd drawn_usd signed_usd bought_usd by_the_hour_usd rolled_out_usd"
        " shortfall_usd"
    ).split()
    hours = hours_by_technology(work, recourse, decisions)
    rows = []
    carried: dict[str, float] = {}
    for year in years:
        theirs = np.where(
            _by_the_hour(recourse.columns, market, year.provider), recourse.spend - recourse.columns["egress"].to_numpy(float), 0.0
        )
        inside = np.append(year.overlap, 0.0)[np.minimum(recourse.stage_of, len(year.overlap))]
        used = float((inside[:, None] * hours * theirs).sum()) * (1 - year.discount_share)
        bought = float(year.lot_usd @ lots)
        rolled_in = carried.pop(year.agreement_id, 0.0)
        short = max(year.open_usd + rolled_in - bought - used, 0.0)
        if year.rolls:
            carried[year.agreement_id] = short
        rows.append(
            (
                year.agreement_id,
                year.provider,
                year.start,
                year.end,
                year.committed_usd,
                rolled_in,
                year.drawn_usd,
                year.signed_usd,
                bought,
                used,
                short if year.rolls else 0.0,
                0.0 if year.rolls else short,
            )
        )
    return pd.DataFrame(rows, columns=columns)


def most_rented(market: Market, need: np.ndarray) -> dict[str, float]:
    """Most dollars an hour that demand can ever spend on demand with each provider."""
    usd = market.pools["on_demand_usd_per_hour"].fillna(0.0).to_numpy() * need
    return {str(provider): float(usd[own.to_numpy(int)].sum()) for provider, own in market.pools.reset_index().groupby("provider")["index"]}


def agreement_rules(
    problem: Any, years: Sequence[Year], lots: list[Any], extras: list[Extra], amounts: list[Any], timeline: Timeline
) -> tuple[list[tuple[Any, str]], dict[Any, float]]:
    r"""Let what is bought and planned reach a contract year, or pay or roll it: :math:`b^T x + \sum_q w_{iq} + u_k - u_{k-1} \ge U_k`."""
    from capplan.optimize import modelling

    rules: list[tuple[Any, str]] = []
    unspent: dict[Any, float] = {}
    carried: dict[str, Any] = {}
    for year in years:
        rest = problem.add_variable(f"unspent {year.name}", 0)
        unspent[rest] = 0.0 if year.rolls else float(timeline.discount[year.due])
        used = {lots[j]: float(year.lot_usd[j]) for j in np.flatnonzero(year.lot_usd)}
        used |= {
            amount: float(timeline.hours[extra.quarter] * (1 - year.discount_share) * year.overlap[extra.quarter])
            for amount, extra in zip(amounts, extras, strict=True)
            if extra.group == year.provider and year.overlap[extra.quarter] > 0
        }
        used[rest] = 1.0
        if year.agreement_id in carried:
            used[carried.pop(year.agreement_id)] = -1.0
        if year.rolls:
            carried[year.agreement_id] = rest
        rules.append((modelling.LpAffineExpression(used) >= year.open_usd, f"spend {year.name}"))
    return rules, unspent


def agreement_rows(
    years: Sequence[Year], columns: Columns, work: Work, recourse: Recourse, market: Market, spend: np.ndarray
) -> tuple[ExpectedRow, ...]:
    r"""Count all that is expected to be rented towards a contract year: :math:`b^T x + E[s^T y] + u_k - u_{k-1} \ge U_k`.

    Args:
        spend (states, r): Spend at stated prices by cost state.
    """
    rows: list[ExpectedRow] = []
    carried: dict[str, int] = {}
    quarter = work.points["quarter"].to_numpy(int)
    for year, left in zip(years, columns.unspent.tolist(), strict=True):
        a = np.zeros(columns.count)
        a[columns.lots], a[left] = -year.lot_usd, -1.0
        if year.agreement_id in carried:
            a[carried.pop(year.agreement_id)] = 1.0
        if year.rolls:
            carried[year.agreement_id] = left
        theirs = np.where(_by_the_hour(recourse.columns, market, year.provider), spend - recourse.columns["egress"].to_numpy(float), 0.0)
        hours = np.zeros(len(recourse.stage))
        hours[: len(quarter)] = work.points["hours"].to_numpy(float) * year.overlap[quarter]
        g = -theirs * (1 - year.discount_share)
        rows.append(ExpectedRow(a, g if len(g) > 1 else g[0], hours > 0, hours, -year.open_usd))
    return tuple(rows)
