"""Prices that move: what an offer costs on the day it is taken, against today."""

from dataclasses import dataclass
from fnmatch import fnmatchcase

import numpy as np
import pandas as pd

from capplan.book.scenario import ProcurementAssumptions
from capplan.book.terms import PROVIDER_KINDS
from capplan.contract_kinds import USAGE_TERMS
from capplan.questions.pricing import completed
from capplan.questions.procurement.supply.generations import Arrival, expected_price
from capplan.records import records

DAYS_PER_YEAR = 365.25


@dataclass(frozen=True)
class PriceMoves:
    """What moves prices: paths, and machines that are expected, each after those it succeeds."""

    paths: pd.DataFrame | None = None
    arrivals: tuple[Arrival, ...] = ()


def price_factors(about: pd.DataFrame, moves: PriceMoves, when: pd.DatetimeIndex, a: ProcurementAssumptions) -> np.ndarray:
    r"""Return the expected price on some days against that of the plan's day, (rows, days).

    .. math:: f(t) = \prod_k \left(1 + p_k \left[(1+g_k)^{t}\,(1+s_k\,[t \ge t_k]) - 1\right]\right)

    over the paths k that fit an offer, with g the change a year, s a step on day :math:`t_k` and p the probability; t is in years from the
    plan's day.
    Where none fits, a contract of a known kind of provider changes by its assumption, and everything else costs what it costs today.
    A machine that is expected costs what it takes to do its work, whether it has come or not (see `generations.Arrival`).

    Args:
        about: provider, accelerator, term of each row.
        moves: Table price_paths, and machines that are expected.
        when: Days; before the plan's day prices are today's.
    """
    years = np.maximum((when - pd.Timestamp(a.as_of)) / pd.Timedelta(days=DAYS_PER_YEAR), 0.0)
    paths = moves.paths
    rows = [] if paths is None or paths.empty else records(completed(paths, "price_paths"))
    kinds: dict[tuple[str, str, str], np.ndarray] = {}
    for kind in zip(about["provider"], about["accelerator"], about["term"], strict=True):
        if kind in kinds:
            continue
        kinds[kind] = found = np.ones(len(when))
        offer = dict(zip(("provider", "accelerator", "term"), kind, strict=True))
        mine = [row for row in rows if fits(row, offer)]
        for row in mine:
            step = 0.0 if pd.isna(row["step_date"]) else row["step_share"] * (when >= row["step_date"])
            found *= 1 + row["probability"] * ((1 + row["change_share_per_year"]) ** years * (1 + step) - 1)
        if not mine and offer["term"] not in (*USAGE_TERMS, "owned"):
            found *= (1 + _usual_change(offer["provider"], a)) ** years
        if moves.arrivals:
            found *= expected_price(moves.arrivals, str(offer["accelerator"]), when)
    each = [kinds[kind] for kind in zip(about["provider"], about["accelerator"], about["term"], strict=True)]
    return np.array(each).reshape(len(about), len(when))


def worth_factors(about: pd.DataFrame, moves: PriceMoves, when: pd.DatetimeIndex, a: ProcurementAssumptions) -> np.ndarray:
    """Return what machines bring on some days against today, (rows, days): nobody pays more for their work than on a successor."""
    found = price_factors(about, moves, when, a)
    for arrival in moves.arrivals:
        found[(about["accelerator"] == arrival.succeeds).to_numpy()] *= arrival.outdated(when)
    return found


def fits(path: dict[str, object], offer: dict[str, object]) -> bool:
    """Tell whether a path is about an offer: provider, accelerator, term."""
    provider, accelerator, term = (path[name] if isinstance(path[name], str) else "" for name in ("provider", "accelerator", "term"))
    named = provider in ("", offer["provider"]) or offer["provider"] in PROVIDER_KINDS.get(str(provider), ())
    return named and fnmatchcase(str(offer["accelerator"]), str(accelerator) or "*") and term in ("", offer["term"])


def _usual_change(provider: object, a: ProcurementAssumptions) -> float:
    """Return the change a year of a provider's kind."""
    usual = {"hyperscaler": a.hyperscaler_price_change_share_per_year, "specialist": a.specialist_price_change_share_per_year}
    return next((usual[kind] for kind, names in PROVIDER_KINDS.items() if provider in names), 0.0)


def path_notes(paths: pd.DataFrame | None, offers: pd.DataFrame) -> list[str]:
    """Name the paths that are about nothing that is offered (provider, accelerator, term)."""
    if paths is None or paths.empty:
        return []
    known = records(offers[["provider", "accelerator", "term"]].drop_duplicates())
    lost = [row["path"] for row in records(completed(paths, "price_paths")) if not any(fits(row, offer) for offer in known)]
    return [f"{', '.join(lost)}: nothing is offered that this price path is about, so it changes nothing."] if lost else []
