"""What hosting costs: whole replicas sized for the peak of every quarter, on each term of contract, with what is paid beside them."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from capplan.book.assumptions.crossover import CrossoverAssumptions
from capplan.contract_kinds import UNSTEADY_TERMS
from capplan.quantiles import weighted_quantiles
from capplan.questions.demand import Forecast
from capplan.questions.serving.size_fleet import allowed_wait, held_seconds, replicas_for
from capplan.questions.serving.staffing import held_error_share

Array = np.ndarray
BYTES_PER_TOKEN = 4.0
GIB = 2.0**30
MONTHS_PER_QUARTER = 3


@dataclass(frozen=True)
class Replica:
    """How a replica serves, as the fleet question found it.

    Args:
        point: Operating point: accelerator, accelerators, concurrency, first_token_seconds, token_seconds, basis.
        output_tokens: Mean output tokens of a request.
        first_token_seconds: Target for the first token.
        a: Assumptions.
    """

    point: pd.Series
    output_tokens: float
    first_token_seconds: float
    a: CrossoverAssumptions

    def replicas(self, requests_per_hour: Array, throughput_factor: float = 1.0) -> Array:
        """Whole replicas that serve these rates within the target, spare ones included; none without traffic.

        With a throughput factor f a request holds its slot 1/f of the time.
        """
        held = held_seconds(self.point, self.output_tokens) / throughput_factor
        rates, place = np.unique(np.asarray(requests_per_hour, float).ravel(), return_inverse=True)
        needed = replicas_for(rates, int(self.point["concurrency"]), held, allowed_wait(self.point, self.first_token_seconds), self.a)
        return np.asarray(needed[place].reshape(np.shape(requests_per_hour)), float)

    def thresholds(self, most_requests_per_hour: float, throughput_factor: float = 1.0) -> tuple[Array, Array]:
        """Find the rates at which one more replica is needed.

        Returns:
            tuple: replicas (k,), and the highest rate that so many serve (k,), to a relative 1e-9.
        """
        least = float(self.replicas(np.array([1e-9]), throughput_factor)[0])
        most = float(self.replicas(np.array([most_requests_per_hour]), throughput_factor)[0])
        counts = np.arange(least, most + 1)
        low, high = np.zeros(len(counts)), np.full(len(counts), float(most_requests_per_hour) * 2)
        for _ in range(60):
            middle = (low + high) / 2
            fits = self.replicas(middle, throughput_factor) <= counts
            low, high = np.where(fits, middle, low), np.where(fits, high, middle)
        return counts, low

    @property
    def remark(self) -> str:
        """On what the throughput of hosting rests, and how far it may be off."""
        error = held_error_share(self.point, self.output_tokens)
        return (
            f"Hosting: {self.accelerators} {self.point['accelerator']} a replica, {int(self.point['concurrency'])} requests at once;"
            f" throughput {self.point['basis']}"
            + (f", a request may take up to {error:.0%} longer" if error else "")
            + (f"; {self.point['note']}" if self.point.get("note") else "")
            + "."
        )

    @property
    def accelerators(self) -> int:
        """Accelerators of one replica."""
        return int(self.point["accelerators"])


def fixed_usd_per_quarter(a: CrossoverAssumptions) -> float:
    """People and evaluation of one hosted service."""
    return a.hosting_engineers * a.engineer_usd_per_year / 4 + a.evaluation_usd_per_quarter


def egress_usd_per_request(tokens: float, a: CrossoverAssumptions) -> float:
    """Price of the answer's way out."""
    return tokens * BYTES_PER_TOKEN / GIB * a.egress_usd_per_gib


def hosting_usd(
    replicas: Mapping[str, Array],
    hours: Array,
    usd_per_replica_hour: float,
    on_demand_usd_per_replica_hour: float,
    term_months: float,
    probability: Array,
    price_factor: Array,
) -> Array:
    r"""Cost every path's quarter of accelerators.

    Contracts are signed at the start of every term for as many replicas as cost least on average, :math:`F(K) \ge 1 - c/p`, and replicas
    above
    them run by the hour, all hours of the quarter.

    Args:
        replicas: Replicas of each quarter's peak by region, each (S, Q).
        hours (Q,): Hours of each quarter.
        usd_per_replica_hour, on_demand_usd_per_replica_hour: Price of a replica under the term, and by the hour (nan where nothing can be
            had so: contracts then cover the highest need).
        term_months: Length of the term; 0 = by the hour.
        probability (S,): Of the paths.
        price_factor (Q,): Price level of contracts signed in each quarter.

    Returns:
        (S, Q) array: USD.
    """
    total = np.zeros(next(iter(replicas.values())).shape)
    for need in replicas.values():
        if term_months == 0:
            total += need * (hours * usd_per_replica_hour * price_factor)
            continue
        span = max(round(term_months / MONTHS_PER_QUARTER), 1)
        for first in range(0, need.shape[1], span):
            window = slice(first, first + span)
            held = _best_held(need[:, window], hours[window], usd_per_replica_hour / on_demand_usd_per_replica_hour, probability)
            committed = held * hours[window] * usd_per_replica_hour * price_factor[first]
            above = np.maximum(need[:, window] - held, 0.0) * hours[window]
            total[:, window] += committed
            if np.isfinite(on_demand_usd_per_replica_hour):
                total[:, window] += above * on_demand_usd_per_replica_hour * price_factor[window]
    return total


def _best_held(need: Array, hours: Array, ratio: float, probability: Array) -> float:
    """Return the replicas whose last one is needed more than a share `ratio` of the hours; the most if nothing runs by the hour."""
    if not np.isfinite(ratio):
        return float(need.max())
    if ratio >= 1:
        return 0.0
    return float(weighted_quantiles(need.ravel(), (probability[:, None] * hours).ravel(), (1 - ratio,))[0])


def terms_of(prices: pd.DataFrame, accelerator: str) -> pd.DataFrame:
    """Say what an hour of an accelerator costs on each term, at the cheapest offer; spot and short blocks cannot serve users.

    Args:
        prices: What `price_hours` returns, of the offers that may be bought.

    Returns:
        DataFrame: term, term_months (empty = by the hour), usd_per_accelerator_hour, provider.
    """
    part = prices[(prices["accelerator"] == accelerator) & ~prices["term"].isin(UNSTEADY_TERMS)]
    cheapest = (
        part.sort_values(["effective_usd_per_accelerator_hour", "offer_id"]).drop_duplicates("term").sort_values("term", ignore_index=True)
    )
    named = cheapest.rename(columns={"effective_usd_per_accelerator_hour": "usd_per_accelerator_hour"})
    return named[["term", "term_months", "usd_per_accelerator_hour", "provider"]]


def peak_over_block(forecast: Forecast, workload: str) -> float:
    """Say by what the highest hour of a quarter lies above the mean of its peak block, in the median of all quarters; 1 where unknown."""
    peaks = forecast.peaks[(forecast.peaks["workload"] == workload) & (forecast.peaks["quantile"] == 0.5)]
    first = forecast.paths[(forecast.paths["workload"] == workload) & (forecast.paths["block"] == 0)]
    first = first.merge(forecast.blocks, on=["quarter", "block"])
    rate = (first["quantity"] / first["hours"]).groupby([first["region"], first["quarter"]]).median()
    ratio = peaks.set_index(["region", "quarter"])["work_per_hour"] / rate
    ratio = ratio[np.isfinite(ratio)]
    return max(float(ratio.mean()), 1.0) if len(ratio) else 1.0
