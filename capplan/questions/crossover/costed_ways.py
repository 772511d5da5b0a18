"""Ways to serve one service, costed on every path and against volume: calling an API, and hosting on each term."""

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from capplan.book.assumptions.crossover import CrossoverAssumptions
from capplan.questions.crossover.calls import calling_usd
from capplan.questions.crossover.hosting import Replica, egress_usd_per_request, fixed_usd_per_quarter, hosting_usd
from capplan.questions.crossover.service_traffic_by_path import Load, shape_of
from capplan.units import quarter_start

Array = np.ndarray
#: Points of the picture of cost against volume, and how far it goes beyond the largest expected quarter.
POINTS, BEYOND = 60, 2.0
#: Points between which the cost of calling is straight.
CALL_POINTS = 600


@dataclass(frozen=True)
class Way:
    """One way to serve: kind (self where it is hosted), provider, USD (S, Q), whether it may serve this work, and a remark."""

    kind: str
    provider: str
    usd: Array
    usable: bool = True
    remark: str = ""


@dataclass(frozen=True)
class Calling:
    """Calling an API."""

    prices: pd.DataFrame  #: What `api_ways` returns.
    a: CrossoverAssumptions

    def ways(self, load: Load) -> dict[str, Way]:
        """Cost every way to call."""
        free = self.prices[(self.prices["kind"] == "payg") & ~np.isfinite(self.prices["requests_per_hour_limit"].astype(float))]
        return {str(row["way"]): self._way(row, free[free["way"] != row["way"]], load) for _, row in self.prices.iterrows()}

    def _way(self, way: pd.Series, others: pd.DataFrame, load: Load) -> Way:
        """Cost one way; what it cannot take goes to the cheapest of the others, which have no rate limit."""
        growth = (1 + self.a.api_price_change_per_year) ** load.years
        spill = float(others["usd_per_request"].min()) if len(others) else load.work.unserved_usd_per_request
        remark, usable = "", True
        limit = float(way["requests_per_hour_limit"])
        rate = load.rate
        usd = np.zeros(load.requests.shape)
        if np.isfinite(limit) and (rate > limit).any():
            over = (np.maximum(rate - limit, 0.0) * load.hours).sum(axis=2)
            usable = np.isfinite(spill)
            usd = usd + over * (spill if usable else 0.0)
            rest = "goes elsewhere by the request" if usable else "has nowhere to go"
            remark = (
                f"{way['way']}: its rate limit of {limit:,.0f} requests an hour is exceeded; {load.probability @ over.sum(axis=1):,.0f}"
                f" requests over the horizon are too many, which {rest}."
            )
            rate = np.minimum(rate, limit)
        if way["kind"] == "provisioned" and not np.isfinite(spill):
            spill, remark = 0.0, f"{way['way']}: no price is known for what its units cannot take, so it cannot serve alone."
            usable = False
        usd = (usd + calling_usd(way, rate, load.hours, spill)) * growth
        if way["kind"] == "batch" and not load.work.may_wait:
            usable, remark = False, f"{way['way']}: a batch interface answers within hours, and this work cannot wait."
        ends = way["withdrawn_on"]
        gone = np.array([not pd.isna(ends) and quarter_start(quarter) >= ends for quarter in load.quarters])
        if gone.any():
            alive = others[others["withdrawn_on"].isna()]["usd_per_request"]
            if len(alive):
                usd[:, gone] = load.requests[:, gone] * float(alive.min()) * growth[gone]
                remark = f"{way['way']} is withdrawn on {ends.date()}; from then on the cheapest other API is called."
            else:
                usable, remark = False, f"{way['way']} is withdrawn on {ends.date()}, within the horizon, and no other API is known."
        return Way(str(way["kind"]), str(way["provider"]), usd, bool(usable), remark)

    def price(self, name: str, way: Way, load: Load) -> float:
        """Price of a request through a way: its own, or the mean of the first quarter."""
        usd = float(self.prices.set_index("way").at[name, "usd_per_request"])
        if np.isfinite(usd):
            return usd
        requests = float(load.probability @ load.requests[:, 0])
        return float(load.probability @ way.usd[:, 0]) / requests if requests else float("inf")

    def by_volume(self, name: str, load: Load) -> tuple[Array, Array]:
        """Cost the first quarter's calls through a way against volume: requests and USD."""
        shape, _ = shape_of(load)
        volumes = np.linspace(0.0, most_requests(load), CALL_POINTS)
        # every volume is a path of its own; reserved units are those that the forecast would buy, so they are asked for one by one
        if self.prices.set_index("way").at[name, "kind"] == "provisioned":
            some = volumes[:: CALL_POINTS // POINTS]
            return some, np.array([float(self.ways(first_quarter(load, shape * volume))[name].usd.sum()) for volume in some])
        many = replace(first_quarter(load, volumes[:, None] * shape), probability=np.full(CALL_POINTS, 1 / CALL_POINTS))
        return volumes, self.ways(many)[name].usd[:, 0]


@dataclass(frozen=True)
class Hosting:
    """Hosting the model."""

    fleet: Replica
    prices: pd.DataFrame  #: term, term_months (0 or empty = by the hour), usd_per_accelerator_hour of the replica's accelerator.
    output_tokens: float  #: Of a request.
    a: CrossoverAssumptions

    def ways(self, load: Load) -> dict[str, Way]:
        """Cost hosting on every term."""
        rows = self.prices.iterrows()
        return {f"self_{row['term']}": Way("self", str(row.get("provider", "")), self.usd(row, load)) for _, row in rows}

    def term(self, way: str) -> pd.Series:
        """Return the price row of a way to host."""
        return self.prices[self.prices["term"] == way.removeprefix("self_")].iloc[0]

    def usd(self, row: pd.Series, load: Load, factor: float = 1.0) -> Array:
        """Cost hosting on one term at a throughput, with people, evaluation and egress, (S, Q)."""
        replicas = {region: self.fleet.replicas(peak, factor) for region, peak in load.peaks.items()}
        by_hour = self.prices[self.prices["term"] == "on_demand"]["usd_per_accelerator_hour"]
        machines = hosting_usd(
            replicas,
            load.hours.sum(axis=1),
            float(row["usd_per_accelerator_hour"]) * self.fleet.accelerators,
            (float(by_hour.iloc[0]) if len(by_hour) else float("nan")) * self.fleet.accelerators,
            0.0 if pd.isna(row["term_months"]) else float(row["term_months"]),
            load.probability,
            (1 + self.a.hosting_price_change_per_year) ** load.years,
        )
        return machines + fixed_usd_per_quarter(self.a) + load.requests * self.egress_usd

    @property
    def egress_usd(self) -> float:
        """Egress of one request, USD."""
        return egress_usd_per_request(self.output_tokens, self.a)

    def stairs(self, row: pd.Series, load: Load, most: float, factor: float = 1.0) -> tuple[Array, Array]:
        """Return the highest volume of each step of hosting in the first quarter, up to a most, and its cost without egress."""
        _, peaks = shape_of(load)
        hour = float(load.hours[0].sum()) * float(row["usd_per_accelerator_hour"]) * self.fleet.accelerators
        ends: list[float] = []
        steps = {}
        for region, peak in peaks.items():
            counts, highest = self.fleet.thresholds(max(most * peak, 1e-9), factor)
            steps[region] = (counts, highest / peak if peak > 0 else np.full(len(highest), np.inf))
            ends += [end for end in steps[region][1] if end < most]
        grid = np.unique([*ends, most])
        replicas = sum(counts[np.minimum(np.searchsorted(edges, grid * (1 - 1e-9)), len(counts) - 1)] for counts, edges in steps.values())
        return grid, np.asarray(replicas) * hour + fixed_usd_per_quarter(self.a)


def first_quarter(load: Load, rate: Array) -> Load:
    """Return the first quarter at rates (B,), or (S, B) with a path each."""
    return replace(
        load, rates={"all": np.atleast_2d(rate)[:, None, :]}, hours=load.hours[:1], probability=np.ones(1), quarters=load.quarters[:1]
    )


def most_requests(load: Load) -> float:
    """Return the requests of a quarter up to which volumes are looked at."""
    return max(float(load.probability @ load.requests.max(axis=1)) * BEYOND, 1.0)


def curve(calling: Calling, hosting: Hosting | None, best_own: str | None, load: Load) -> pd.DataFrame:
    """Cost the first quarter against volume: every usable way to call, and hosting on its best term: requests, way, usd."""
    shape, _ = shape_of(load)
    most = most_requests(load)
    parts = []
    for volume in np.linspace(0.0, most, POINTS):
        for name, way in calling.ways(first_quarter(load, shape * volume)).items():
            if way.usable:
                parts.append({"requests": volume, "way": name, "usd": float(way.usd.sum())})
    if hosting is not None and best_own is not None:
        ends, usd = hosting.stairs(hosting.term(best_own), load, most)
        # where there are more steps than can be seen, only some of them are drawn
        seen = np.unique(np.linspace(0, len(ends) - 1, min(len(ends), CALL_POINTS)).astype(int))
        ends, usd = ends[seen], usd[seen]
        volumes, steps = np.column_stack([np.concatenate([[0.0], ends[:-1]]), ends]).ravel(), np.repeat(usd, 2)
        costs = zip(volumes, steps + volumes * hosting.egress_usd, strict=True)
        parts += [{"requests": volume, "way": best_own, "usd": cost} for volume, cost in costs]
    return pd.DataFrame(parts)
