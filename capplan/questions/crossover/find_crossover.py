"""Host a model, or call an API: every way costed on every path, and what decides between them."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from capplan.book.assumptions.crossover import CrossoverAssumptions
from capplan.errors import CapplanError
from capplan.quantiles import weighted_quantiles
from capplan.questions.crossover.calls import calling_usd
from capplan.questions.crossover.hosting import Replica, egress_usd_per_request, fixed_usd_per_quarter, hosting_usd
from capplan.questions.crossover.service_traffic_by_path import Load, load_of, shape_of
from capplan.questions.crossover.vendor import vendor_risk
from capplan.questions.crossover.volumes import Timing, break_even_share, staircase_crossings, time_crossover
from capplan.text import money
from capplan.units import quarter_start

Array = np.ndarray
#: Points of the picture of cost against volume, and how far it goes beyond the largest expected quarter.
POINTS, BEYOND = 60, 2.0
#: Points between which the cost of calling is straight.
CALL_POINTS = 600


@dataclass(frozen=True)
class Crossover:
    """Whether, from which volume and from when on hosting is cheaper than an API.

    Args:
        ways: way, kind (payg, batch, provisioned, self), provider, expected_usd, p10_usd, p90_usd over the horizon,
            usd_per_thousand_requests, usable (may it serve this work?), chosen (the cheapest usable of its side), remark.
        costs: quarter, way, expected_usd, p10_usd, p50_usd, p90_usd.
        curve: requests (a quarter), way, usd: cost of the first quarter at its prices, against volume; hosting by both ends of each step.
        volumes: requests (a quarter), cheaper_above ("self" or "api"): best way of hosting against best way of calling.
        quarters, starts: As in `Timing`; empty where nobody can host the model.
        sensitivity: throughput_factor, requests (first crossover volume, missing where there is none), crossing_share, break_even_share,
            expected_usd (of hosting).
        vendor: case, expected_usd, more_usd (than calling as it is), lost_requests, remark.
        break_even_share: Utilisation of a replica at which it costs what the API costs, without fixed cost.
        value_of_waiting_usd: Expected cost of hosting from the first quarter on, less that of the best start.
        crossing_share: Probability that hosting is cheaper in at least one quarter.
        saving_usd: Expected cost of the best way to call, less that of the best start of hosting, over the horizon.
        headline, notes:
    """

    ways: pd.DataFrame
    costs: pd.DataFrame
    curve: pd.DataFrame
    volumes: pd.DataFrame
    quarters: pd.DataFrame
    starts: pd.DataFrame
    sensitivity: pd.DataFrame
    vendor: pd.DataFrame
    break_even_share: float
    value_of_waiting_usd: float
    crossing_share: float
    saving_usd: float
    headline: str
    notes: tuple[str, ...]


def find_crossover(
    service: pd.Series,
    traffic: pd.DataFrame,
    api_prices: pd.DataFrame,
    fleet: Replica | None,
    prices: pd.DataFrame,
    a: CrossoverAssumptions,
    *,
    peak_factor: float = 1.0,
    may_wait: bool = False,
    unserved_usd_per_request: float = float("nan"),
) -> Crossover:
    """Say whether, from which volume and from when on hosting a model is cheaper than calling an API.

    Args:
        service: Row of services: tokens of a request.
        traffic: path, probability, region, quarter, block, hours, requests (in the block).
        api_prices: What `api_ways` returns: list price, contracts, batch, provisioned throughput.
        fleet: How a replica serves; None where nobody can host the model (its weights are not public).
        prices: term, term_months (0 or empty = by the hour), usd_per_accelerator_hour of the replica's accelerator.
        a: Assumptions: price changes, fixed cost of hosting, throughput error.
        peak_factor: Highest hour of a quarter over the mean of its peak block.
        may_wait: May the work go through a batch interface?
        unserved_usd_per_request: What a request costs that nobody answers; nan = not priced.

    Raises:
        CapplanError: If there is no traffic table, no way at all, or probabilities do not add up to 1.
    """
    load = load_of(traffic, peak_factor)
    if fleet is None and api_prices.empty:
        raise CapplanError(
            f"{service.get('workload', 'the service')} can neither be hosted (no architecture, no price) nor called (no provider, no"
            " api_contracts)"
        )
    calls = _calls(api_prices, load, a, may_wait, unserved_usd_per_request)
    own = _own(service, fleet, prices, load, a)
    ways = _ways(calls, own, load)
    best_call, best_own = _best(ways, "api"), _best(ways, "self")
    notes = [str(text) for text in ways["remark"] if text] + ([fleet.remark] if fleet is not None else [])
    empty = Timing(pd.DataFrame(columns=["quantile", "quarter"]), pd.DataFrame(columns=["start", "expected_usd"]), 0.0, 0.0)
    timing, volumes, rows, share, saving = empty, pd.DataFrame({"requests": [], "cheaper_above": []}), [], float("nan"), 0.0
    if fleet is not None and best_own is not None and best_call is not None:
        row = _term(prices, best_own)
        price = _per_request(api_prices, best_call, calls, load)
        spent = calls[best_call][1]
        calling = _calling(api_prices, best_call, load, a, may_wait, unserved_usd_per_request)
        for factor in (1 - a.throughput_error_share, 1.0, 1 + a.throughput_error_share):
            hosted = _hosted(service, fleet, row, prices, load, a, factor)
            found = _volumes(service, fleet, row, load, calling, a, factor)
            busy = float(fleet.point["requests_per_accelerator_hour"]) * fleet.accelerators * factor
            even = break_even_share(price, busy, float(row["usd_per_accelerator_hour"]) * fleet.accelerators)
            timed = time_crossover(hosted, spent, load.probability, load.quarters)
            rows.append(
                {
                    "throughput_factor": factor,
                    "requests": float(found["requests"].iloc[0]) if len(found) else np.nan,
                    "crossing_share": timed.crossing_share,
                    "break_even_share": even,
                    "expected_usd": float(load.probability @ hosted.sum(axis=1)),
                }
            )
            if factor == 1.0:
                timing, volumes, share = timed, found, even
        called = float(load.probability @ spent.sum(axis=1))
        saving = called - float(timing.starts["expected_usd"].iloc[:-1].min())
    called_usd = float(ways.set_index("way").at[best_call, "expected_usd"]) if best_call else float("nan")
    vendor = vendor_risk(
        api_prices,
        best_call,
        called_usd,
        load.rate,
        load.hours,
        load.probability,
        own[best_own][1] if best_own else None,
        a,
        unserved_usd_per_request,
    )
    return Crossover(
        ways=ways,
        costs=_costs(calls, own, load),
        curve=_curve(service, fleet, prices, api_prices, best_own, load, a, may_wait, unserved_usd_per_request),
        volumes=volumes,
        quarters=timing.quarters,
        starts=timing.starts,
        sensitivity=pd.DataFrame(rows),
        vendor=vendor,
        break_even_share=share,
        value_of_waiting_usd=timing.value_of_waiting_usd,
        crossing_share=timing.crossing_share,
        saving_usd=saving,
        headline=_headline(service, ways, best_call, best_own, volumes, timing, saving),
        notes=tuple(notes),
    )


def _calls(
    api_prices: pd.DataFrame, load: Load, a: CrossoverAssumptions, may_wait: bool, unserved: float
) -> dict[str, tuple[pd.Series, Array, bool, str]]:
    """Cost every way to call: its row, USD (S, Q), whether it may serve this work, and a remark."""
    growth = (1 + a.api_price_change_per_year) ** load.years
    free = api_prices[(api_prices["kind"] == "payg") & ~np.isfinite(api_prices["requests_per_hour_limit"].astype(float))]
    result = {}
    for _, way in api_prices.iterrows():
        others = free[free["way"] != way["way"]]["usd_per_request"]
        spill = float(others.min()) if len(others) else unserved
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
        if way["kind"] == "batch" and not may_wait:
            usable, remark = False, f"{way['way']}: a batch interface answers within hours, and this work cannot wait."
        ends = way["withdrawn_on"]
        gone = np.array([not pd.isna(ends) and quarter_start(quarter) >= ends for quarter in load.quarters])
        if gone.any():
            alive = free[(free["way"] != way["way"]) & free["withdrawn_on"].isna()]["usd_per_request"]
            if len(alive):
                usd[:, gone] = load.requests[:, gone] * float(alive.min()) * growth[gone]
                remark = f"{way['way']} is withdrawn on {ends.date()}; from then on the cheapest other API is called."
            else:
                usable, remark = False, f"{way['way']} is withdrawn on {ends.date()}, within the horizon, and no other API is known."
        result[str(way["way"])] = (way, usd, usable, remark)
    return result


def _own(
    service: pd.Series, fleet: Replica | None, prices: pd.DataFrame, load: Load, a: CrossoverAssumptions
) -> dict[str, tuple[pd.Series, Array]]:
    """Cost hosting on every term: its row, USD (S, Q)."""
    if fleet is None:
        return {}
    return {f"self_{row['term']}": (row, _hosted(service, fleet, row, prices, load, a, 1.0)) for _, row in prices.iterrows()}


def _hosted(
    service: pd.Series, fleet: Replica, row: pd.Series, prices: pd.DataFrame, load: Load, a: CrossoverAssumptions, factor: float
) -> Array:
    """Cost hosting on one term at a throughput, with people, evaluation and egress."""
    replicas = {region: fleet.replicas(peak, factor) for region, peak in load.peaks.items()}
    by_hour = prices[prices["term"] == "on_demand"]["usd_per_accelerator_hour"]
    months = 0.0 if pd.isna(row["term_months"]) else float(row["term_months"])
    machines = hosting_usd(
        replicas,
        load.hours.sum(axis=1),
        float(row["usd_per_accelerator_hour"]) * fleet.accelerators,
        (float(by_hour.iloc[0]) if len(by_hour) else float("nan")) * fleet.accelerators,
        months,
        load.probability,
        (1 + a.hosting_price_change_per_year) ** load.years,
    )
    return machines + fixed_usd_per_quarter(a) + load.requests * egress_usd_per_request(float(service["output_tokens"]), a)


def _ways(calls: dict[str, tuple[pd.Series, Array, bool, str]], own: dict[str, tuple[pd.Series, Array]], load: Load) -> pd.DataFrame:
    """List all ways with their cost over the horizon."""
    requests = float(load.probability @ load.requests.sum(axis=1))
    rows = []
    entries = [(name, str(way["kind"]), str(way["provider"]), usd, usable, remark) for name, (way, usd, usable, remark) in calls.items()]
    entries += [(name, "self", str(row.get("provider", "")), usd, True, "") for name, (row, usd) in own.items()]
    for name, kind, provider, usd, usable, remark in entries:
        low, high = weighted_quantiles(usd.sum(axis=1), load.probability, (0.1, 0.9))
        mean = float(load.probability @ usd.sum(axis=1))
        rows.append(
            {
                "way": name,
                "kind": kind,
                "provider": provider,
                "expected_usd": mean,
                "p10_usd": low,
                "p90_usd": high,
                "usd_per_thousand_requests": 1e3 * mean / requests if requests else np.nan,
                "usable": usable,
                "remark": remark,
            }
        )
    table = pd.DataFrame(rows)
    side = np.where(table["kind"] == "self", "self", "api")
    least = table["expected_usd"].where(table["usable"]).groupby(side).transform("min")
    table.insert(
        8,
        "chosen",
        table["usable"] & (table["expected_usd"] == least) & ~pd.Series(side).where(table["expected_usd"] == least).duplicated(),
    )
    return table


def _best(ways: pd.DataFrame, side: str) -> str | None:
    """Name the cheapest usable way of a side."""
    part = ways[ways["chosen"] & ((ways["kind"] == "self") == (side == "self"))]
    return str(part["way"].iloc[0]) if len(part) else None


def _costs(calls: dict[str, tuple[pd.Series, Array, bool, str]], own: dict[str, tuple[pd.Series, Array]], load: Load) -> pd.DataFrame:
    """Cost of each way by quarter."""
    rows = []
    for name, usd in [(name, entry[1]) for name, entry in calls.items()] + [(name, entry[1]) for name, entry in own.items()]:
        for place, quarter in enumerate(load.quarters):
            low, middle, high = weighted_quantiles(usd[:, place], load.probability, (0.1, 0.5, 0.9))
            mean = float(load.probability @ usd[:, place])
            rows.append({"quarter": quarter, "way": name, "expected_usd": mean, "p10_usd": low, "p50_usd": middle, "p90_usd": high})
    return pd.DataFrame(rows)


def _term(prices: pd.DataFrame, way: str) -> pd.Series:
    """Return the price row of a way to host."""
    return prices[prices["term"] == way.removeprefix("self_")].iloc[0]


def _per_request(api_prices: pd.DataFrame, best: str, calls: dict[str, tuple[pd.Series, Array, bool, str]], load: Load) -> float:
    """Price of a request through the best way to call: its own, or the mean of the first quarter."""
    usd = float(api_prices.set_index("way").at[best, "usd_per_request"])
    if np.isfinite(usd):
        return usd
    requests = float(load.probability @ load.requests[:, 0])
    return float(load.probability @ calls[best][1][:, 0]) / requests if requests else float("inf")


def _volumes(
    service: pd.Series, fleet: Replica, row: pd.Series, load: Load, calling: tuple[Array, Array], a: CrossoverAssumptions, factor: float
) -> pd.DataFrame:
    """Find the volumes of the first quarter at which hosting and calling change places, up to twice the forecast."""
    ends, usd = _stairs(fleet, row, load, float(calling[0][-1]), a, factor)
    beside = calling[0] * egress_usd_per_request(float(service["output_tokens"]), a)
    return staircase_crossings(ends, usd, calling[0], calling[1] - beside)


def _stairs(fleet: Replica, row: pd.Series, load: Load, most: float, a: CrossoverAssumptions, factor: float = 1.0) -> tuple[Array, Array]:
    """Return the highest volume of each step of hosting in the first quarter, up to a most, and its cost without egress."""
    _, peaks = shape_of(load)
    hour = float(load.hours[0].sum()) * float(row["usd_per_accelerator_hour"]) * fleet.accelerators
    ends: list[float] = []
    steps = {}
    for region, peak in peaks.items():
        counts, highest = fleet.thresholds(max(most * peak, 1e-9), factor)
        steps[region] = (counts, highest / peak if peak > 0 else np.full(len(highest), np.inf))
        ends += [end for end in steps[region][1] if end < most]
    grid = np.unique([*ends, most])
    replicas = sum(counts[np.minimum(np.searchsorted(edges, grid * (1 - 1e-9)), len(counts) - 1)] for counts, edges in steps.values())
    return grid, np.asarray(replicas) * hour + fixed_usd_per_quarter(a)


def _calling(
    api_prices: pd.DataFrame, best: str, load: Load, a: CrossoverAssumptions, may_wait: bool, unserved: float
) -> tuple[Array, Array]:
    """Cost the first quarter's calls against volume: requests and USD."""
    shape, _ = shape_of(load)
    volumes = np.linspace(0.0, max(float(load.probability @ load.requests.max(axis=1)) * BEYOND, 1.0), CALL_POINTS)
    # every volume is a path of its own; reserved units are those that the forecast would buy, so they are asked for one by one
    if api_prices.set_index("way").at[best, "kind"] == "provisioned":
        usd = [
            float(_calls(api_prices, _one(load, shape * volume), a, may_wait, unserved)[best][1].sum())
            for volume in volumes[:: CALL_POINTS // POINTS]
        ]
        return volumes[:: CALL_POINTS // POINTS], np.array(usd)
    many = Load(
        {"all": (volumes[:, None] * shape)[:, None, :]},
        load.hours[:1],
        np.full(CALL_POINTS, 1 / CALL_POINTS),
        load.quarters[:1],
        load.peak_factor,
    )
    return volumes, _calls(api_prices, many, a, may_wait, unserved)[best][1][:, 0]


def _one(load: Load, rate: Array) -> Load:
    """Return a load of one path and quarter."""
    return Load({"all": rate[None, None, :]}, load.hours[:1], np.ones(1), load.quarters[:1], load.peak_factor)


def _curve(
    service: pd.Series,
    fleet: Replica | None,
    prices: pd.DataFrame,
    api_prices: pd.DataFrame,
    best_own: str | None,
    load: Load,
    a: CrossoverAssumptions,
    may_wait: bool,
    unserved: float,
) -> pd.DataFrame:
    """Cost the first quarter against volume: every usable way to call, and hosting on its best term."""
    shape, _ = shape_of(load)
    most = max(float(load.probability @ load.requests.max(axis=1)) * BEYOND, 1.0)
    parts = []
    for volume in np.linspace(0.0, most, POINTS):
        for name, (_, usd, usable, _) in _calls(api_prices, _one(load, shape * volume), a, may_wait, unserved).items():
            if usable:
                parts.append({"requests": volume, "way": name, "usd": float(usd.sum())})
    if fleet is not None and best_own is not None:
        ends, usd = _stairs(fleet, _term(prices, best_own), load, most, a)
        # where there are more steps than can be seen, only some of them are drawn
        seen = np.unique(np.linspace(0, len(ends) - 1, min(len(ends), CALL_POINTS)).astype(int))
        ends, usd = ends[seen], usd[seen]
        volumes, steps = np.column_stack([np.concatenate([[0.0], ends[:-1]]), ends]).ravel(), np.repeat(usd, 2)
        egress = volumes * egress_usd_per_request(float(service["output_tokens"]), a)
        parts += [{"requests": volume, "way": best_own, "usd": cost} for volume, cost in zip(volumes, steps + egress, strict=True)]
    return pd.DataFrame(parts)


def _headline(
    service: pd.Series,
    ways: pd.DataFrame,
    best_call: str | None,
    best_own: str | None,
    volumes: pd.DataFrame,
    timing: Timing,
    saving: float,
) -> str:
    """Say in one sentence what to do."""
    name = str(service.get("workload", "the service"))
    usd = ways.set_index("way")["expected_usd"]
    if best_own is None:
        return (
            f"{name} can only be called: the cheapest way is {str(best_call).replace('_', ' ')}, at {money(usd[best_call])} over the"
            " horizon."
        )
    if best_call is None:
        return f"{name} can only be hosted: {best_own.replace('_', ' ')} costs {money(usd[best_own])} over the horizon."
    start = timing.best_start
    if start == "never":
        where = (
            f"hosting would first pay at {float(format(volumes['requests'].iloc[0], '.3g')):,.0f} requests a quarter"
            if len(volumes)
            else "hosting pays at no volume up to twice the forecast"
        )
        starts = timing.starts.iloc[:-1]
        best = starts.loc[starts["expected_usd"].idxmin(), "start"]
        return (
            f"Call {name} through {best_call.replace('_', ' ')}: it costs {money(-saving)} less over the horizon than hosting from {best}"
            f" on, its best start; {where}."
        )
    waiting = f"; waiting until then is worth {money(timing.value_of_waiting_usd)}" if timing.value_of_waiting_usd > 0 else ""
    return (
        f"Host {name} from {start} on ({best_own.replace('_', ' ')}): it costs {money(saving)} less over the horizon than"
        f" {best_call.replace('_', ' ')}, and is cheaper in some quarter with a probability of {timing.crossing_share:.0%}{waiting}."
    )
