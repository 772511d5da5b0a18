"""Traffic of one service as arrays: rates by path, quarter and load block."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from capplan.errors import CapplanError
from capplan.units import quarter_index

Array = np.ndarray
QUARTERS_PER_YEAR = 4


@dataclass(frozen=True)
class Work:
    """What is known of a service's work beside its traffic.

    Args:
        peak_factor: Highest hour of a quarter over the mean of its peak block.
        may_wait: May the work go through a batch interface?
        unserved_usd_per_request: What a request costs that nobody answers; nan = not priced.
    """

    peak_factor: float = 1.0
    may_wait: bool = False
    unserved_usd_per_request: float = float("nan")


@dataclass(frozen=True)
class Load:
    """Traffic of one service: requests an hour by region (S, Q, B), hours (Q, B), probability (S,), quarters, its work."""

    rates: dict[str, Array]
    hours: Array
    probability: Array
    quarters: list[str]
    work: Work

    @property
    def rate(self) -> Array:
        """Requests an hour of all regions together, (S, Q, B)."""
        return np.asarray(sum(self.rates.values()))

    @property
    def requests(self) -> Array:
        """Requests of each path's quarter, (S, Q)."""
        return np.asarray((self.rate * self.hours).sum(axis=2))

    @property
    def peaks(self) -> dict[str, Array]:
        """Requests in the highest hour by region, each (S, Q)."""
        return {region: rate.max(axis=2) * self.work.peak_factor for region, rate in self.rates.items()}

    @property
    def years(self) -> Array:
        """Years from the first quarter to each, (Q,)."""
        return np.arange(len(self.quarters)) / QUARTERS_PER_YEAR


def load_of(traffic: pd.DataFrame, work: Work) -> Load:
    """Turn traffic into arrays."""
    if traffic.empty or not (traffic["requests"] >= 0).all():
        raise CapplanError("crossover: traffic must have rows, with requests from 0 on")
    paths = traffic.drop_duplicates("path").sort_values("path")
    probability = paths["probability"].to_numpy(float)
    if abs(probability.sum() - 1) > 1e-6:
        raise CapplanError(f"crossover: the probabilities of the demand paths add up to {probability.sum():g}; they must add up to 1")
    quarters, blocks = sorted(traffic["quarter"].unique(), key=quarter_index), sorted(traffic["block"].unique())
    hours = (
        traffic.drop_duplicates(["quarter", "block"])
        .pivot(index="quarter", columns="block", values="hours")
        .reindex(quarters)[blocks]
        .to_numpy(float)
    )
    rates = {}
    for region, part in traffic.groupby("region", sort=True):
        table = np.zeros((len(paths), len(quarters), len(blocks)))
        place = (paths["path"].searchsorted(part["path"]), part["quarter"].map(quarters.index), part["block"].map(blocks.index))
        np.add.at(table, place, part["requests"].to_numpy(float))
        rates[str(region)] = table / hours
    return Load(rates, hours, probability, [str(name) for name in quarters], work)


def shape_of(load: Load) -> tuple[Array, dict[str, float]]:
    """Mean rates of the first quarter for one request in it, (B,), and the peak of each region for one request."""
    total = float(load.probability @ load.requests[:, 0])
    if total == 0:
        hours = load.hours[0].sum()
        return np.full(load.hours.shape[1], 1 / hours), {region: load.work.peak_factor / hours / len(load.rates) for region in load.rates}
    mean = np.asarray(load.probability @ load.rate[:, 0] / total)
    return mean, {region: float(load.probability @ peak[:, 0]) / total for region, peak in load.peaks.items()}
