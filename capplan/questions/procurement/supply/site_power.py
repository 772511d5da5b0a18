"""Rooms and the power in them: what is paid for in any case serves machines one buys before they pay for more."""

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from capplan.book.scenario import ProcurementAssumptions
from capplan.questions.pricing import completed, escalated, kilowatt_usd_per_hour
from capplan.questions.procurement.program.other_decisions import Extra
from capplan.questions.procurement.work.spans import Spans
from capplan.questions.procurement.work.timeline import Timeline, counted_quarters
from capplan.records import records
from capplan.units import HOURS_PER_AVERAGE_MONTH


@dataclass(frozen=True)
class PaidPower:
    """Power that is paid for and that no machine draws yet."""

    #: What machines bought take of it, a site and a quarter each, or all quarters after the horizon in which the same machines run:
    #: kilowatts free at most, and what a kilowatt saves, as a cost below zero.
    extras: tuple[Extra, ...]
    draws: np.ndarray  #: (k, n): Kilowatts that one lot of each choice draws there.

    def taken(self, lots: np.ndarray) -> np.ndarray:
        """Return the kilowatts that lots of each choice take over, (k,)."""
        return np.minimum([extra.most for extra in self.extras], self.draws @ lots)

    def saved_usd(self, lots: np.ndarray, planned: int) -> np.ndarray:
        """Return what lots of each choice do not pay in each planned quarter, undiscounted, (planned,)."""
        usd = np.zeros(planned)
        for extra, kilowatts in zip(self.extras, self.taken(lots), strict=True):
            if extra.quarter < planned:
                usd[extra.quarter] -= extra.billed_usd * kilowatts
        return usd


def space_usd(site: pd.Series, sites: pd.DataFrame | None, timeline: Timeline, a: ProcurementAssumptions) -> np.ndarray:
    """Price of a kilowatt with its space over each whole quarter, (rows, Q).

    Args:
        sites: Table of sites; None where a book has none.
    """
    hourly = kilowatt_usd_per_hour(site, a, sites).to_numpy(float)[:, None]
    return np.asarray(hourly * timeline.hours * rises(site, sites, timeline, a))


def rises(
    site: pd.Series, sites: pd.DataFrame | None, timeline: Timeline, a: ProcurementAssumptions, *, by_month: bool = False
) -> np.ndarray:
    """Mean rise of each site's prices of power and space in each quarter, (rows, Q): over its days, or its months where these are paid."""
    if sites is None or sites.empty:
        return np.ones((len(site), len(timeline.quarters)))
    yearly = site.map(completed(sites, "sites").set_index("site")["escalator_share_per_year"]).astype(float).fillna(0.0)
    months = timeline.months[:-1]
    even = by_month or a.hours_convention != "calendar"
    days = np.ones(len(months)) if even else months.days_in_month.to_numpy(float)
    weights = days.reshape(-1, 3) / days.reshape(-1, 3).sum(axis=1, keepdims=True)
    found = {share: escalated(share, months, pd.Timestamp(a.as_of)).reshape(-1, 3) for share in set(yearly)}
    return np.array([(found[share] * weights).sum(axis=1) for share in yearly]).reshape(len(site), -1)


def site_ends(site: pd.Series, sites: pd.DataFrame | None) -> pd.Series:
    """First instant after the contract of each row's site; empty where none is stated."""
    if sites is None or sites.empty:
        return pd.Series(pd.NaT, index=site.index, dtype="datetime64[ns]")
    return pd.to_datetime(site.map(completed(sites, "sites").set_index("site")["end"])) + pd.Timedelta(days=1)


def paid_power(
    table: pd.DataFrame, holdings: pd.DataFrame, sites: pd.DataFrame | None, timeline: Timeline, spans: Spans, a: ProcurementAssumptions
) -> PaidPower:
    r"""List the power that is committed, not drawn by machines owned, and can be taken over by machines bought.

    .. math:: r_{sq} \le \max(C_s - U_{sq}, 0),\quad r_{sq} \le \sum_j k_j \phi_{jq} x_j

    with C the committed kilowatts while the site's contract runs, U those of machines owned, k the kilowatts of a lot and phi the share of
    the quarter in which it is there. Choices cost their power and space in full as far as a plan counts payments; each kilowatt of r takes
    its price off again.

    Args:
        timeline, spans, a: Quarters, their parts, and the price of space where a site states none.
    """
    owned = (table["term"] == "owned").to_numpy()
    found: dict[tuple[object, ...], tuple[Extra, np.ndarray]] = {}
    if sites is not None and not sites.empty and owned.any():
        rooms = completed(sites, "sites").reset_index(drop=True)
        # A room is paid by the month, whatever its hours.
        monthly = kilowatt_usd_per_hour(rooms["site"], a, sites).to_numpy(float)[:, None] * HOURS_PER_AVERAGE_MONTH
        usd = 3 * monthly * rises(rooms["site"], sites, timeline, a, by_month=True)
        ends = site_ends(rooms["site"], sites).fillna(timeline.starts[-1] + pd.DateOffset(months=3))
        begins = pd.Series(timeline.starts[0], index=rooms.index)
        parts = [(q, int(k), spans.covered) for k, q in enumerate(spans.quarter[: spans.planned].tolist())]
        parts += [(q, q, timeline.covered) for q in range(timeline.planned, counted_quarters(timeline, a))]
        for s, room in enumerate(records(rooms)):
            here = np.maximum(table["lot_kw"].to_numpy(float), 0.0) * (owned & (table["region"] == room["site"]).to_numpy())
            drawn = holdings["power_kw"].to_numpy(float) * (holdings["region"] == room["site"]).to_numpy()
            for q, place, within in parts:
                running = drawn @ within(holdings["start"], holdings["end"])[:, place] if len(holdings) else 0.0
                free = max(room["committed_kw"] - running, 0.0) * within(begins, ends)[s, place]
                draws = here * within(table["start"], table["end"])[:, place]
                if not (free > 0 and usd[s, q] > 0 and draws.any()):
                    continue
                share = spans.share[place] if q < timeline.planned else 1.0
                name = f"paid power of {room['site']} {timeline.quarters[q]}"
                if q < timeline.planned and place != spans.first[q]:
                    name += f" from {spans.starts[place]:%Y-%m-%d}"
                own = Extra(
                    name, room["site"], q, float(free), float(-usd[s, q] * share * timeline.discount[q]), float(-usd[s, q] * share), {}
                )
                key = (s, place) if q < timeline.planned else (s, "later", own.most, draws.tobytes())
                first = found.setdefault(key, (replace(own, usd=0.0, billed_usd=0.0), draws))[0]
                found[key] = replace(first, usd=first.usd + own.usd, billed_usd=first.billed_usd + own.billed_usd), draws
    return PaidPower(
        tuple(extra for extra, _ in found.values()), np.array([draws for _, draws in found.values()]).reshape(len(found), len(table))
    )
