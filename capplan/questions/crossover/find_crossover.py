"""Host a model, or call an API: every way costed on every path, and what decides between them."""

from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from capplan.book.assumptions.crossover import CrossoverAssumptions
from capplan.errors import CapplanError
from capplan.quantiles import weighted_quantiles
from capplan.questions.crossover.costed_ways import Calling, Hosting, Way, curve
from capplan.questions.crossover.hosting import Replica
from capplan.questions.crossover.service_traffic_by_path import Load, Work, load_of
from capplan.questions.crossover.vendor import vendor_risk
from capplan.questions.crossover.volumes import Timing, break_even_share, staircase_crossings, time_crossover
from capplan.text import money


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
    work: Work | None = None,
) -> Crossover:
    """Say whether, from which volume and from when on hosting a model is cheaper than calling an API.

    Args:
        service: Row of services: tokens of a request.
        traffic: path, probability, region, quarter, block, hours, requests (in the block).
        api_prices: What `api_ways` returns: list price, contracts, batch, provisioned throughput.
        fleet: How a replica serves; None where nobody can host the model (its weights are not public).
        prices: term, term_months (0 or empty = by the hour), usd_per_accelerator_hour of the replica's accelerator.
        work: What else is known of the work; None = its peaks are those of the blocks, it cannot wait, and lost requests have no price.

    Raises:
        CapplanError: If there is no traffic table, no way at all, or probabilities do not add up to 1.
    """
    load = load_of(traffic, work or Work())
    if fleet is None and api_prices.empty:
        raise CapplanError(
            f"{service.get('workload', 'the service')} can neither be hosted (no architecture, no price) nor called (no provider, no"
            " api_contracts)"
        )
    calling, hosting = Calling(api_prices, a), Hosting(fleet, prices, float(service["output_tokens"]), a) if fleet is not None else None
    found = calling.ways(load) | (hosting.ways(load) if hosting is not None else {})
    ways = _ways(found, load)
    best_call, best_own = _best(ways, "api"), _best(ways, "self")
    called = float(ways.set_index("way").at[best_call, "expected_usd"]) if best_call else float("nan")
    moved = Moved(Timing(pd.DataFrame(columns=["quantile", "quarter"]), pd.DataFrame(columns=["start", "expected_usd"]), 0.0, 0.0))
    if hosting is not None and best_own is not None and best_call is not None:
        moved = _moved(calling, hosting, best_call, best_own, found[best_call], load)
    return Crossover(
        ways=ways,
        costs=_costs(found, load),
        curve=curve(calling, hosting, best_own, load),
        volumes=moved.volumes,
        quarters=moved.timing.quarters,
        starts=moved.timing.starts,
        sensitivity=pd.DataFrame(moved.rows),
        vendor=vendor_risk(api_prices, best_call, called, found[best_own].usd if best_own else None, load, a),
        break_even_share=moved.break_even_share,
        value_of_waiting_usd=moved.timing.value_of_waiting_usd,
        crossing_share=moved.timing.crossing_share,
        saving_usd=moved.saving_usd,
        headline=_headline(service, ways, best_call, best_own, moved),
        notes=(*(str(text) for text in ways["remark"] if text), *((fleet.remark,) if fleet is not None else ())),
    )


@dataclass(frozen=True)
class Moved:
    """When and from which volume on hosting pays: fields as in `Crossover`, rows those of its sensitivity."""

    timing: Timing
    volumes: pd.DataFrame = field(default_factory=lambda: pd.DataFrame({"requests": [], "cheaper_above": []}))
    rows: list[dict[str, float]] = field(default_factory=list)
    break_even_share: float = float("nan")
    saving_usd: float = 0.0


def _moved(calling: Calling, hosting: Hosting, best_call: str, best_own: str, called: Way, load: Load) -> Moved:
    """Hold the best way to host against the best way to call, at the throughput expected and at both ends of its error."""
    fleet, row, error = hosting.fleet, hosting.term(best_own), hosting.a.throughput_error_share
    price, (requests, usd) = calling.price(best_call, called, load), calling.by_volume(best_call, load)
    rows, planned = [], None
    for factor in (1 - error, 1.0, 1 + error):
        hosted = hosting.usd(row, load, factor)
        ends, steps = hosting.stairs(row, load, float(requests[-1]), factor)
        volumes = staircase_crossings(ends, steps, requests, usd - requests * hosting.egress_usd)
        busy = float(fleet.point["requests_per_accelerator_hour"]) * fleet.accelerators * factor
        even = break_even_share(price, busy, float(row["usd_per_accelerator_hour"]) * fleet.accelerators)
        timed = time_crossover(hosted, called.usd, load.probability, load.quarters)
        rows.append(
            {
                "throughput_factor": factor,
                "requests": float(volumes["requests"].iloc[0]) if len(volumes) else np.nan,
                "crossing_share": timed.crossing_share,
                "break_even_share": even,
                "expected_usd": float(load.probability @ hosted.sum(axis=1)),
            }
        )
        if factor == 1.0:
            planned = timed, volumes, even
    assert planned is not None
    timing, volumes, even = planned
    saving = float(load.probability @ called.usd.sum(axis=1)) - float(timing.starts["expected_usd"].iloc[:-1].min())
    return Moved(timing, volumes, rows, even, saving)


def _ways(found: dict[str, Way], load: Load) -> pd.DataFrame:
    """List all ways with their cost over the horizon."""
    requests = float(load.probability @ load.requests.sum(axis=1))
    rows = []
    for name, way in found.items():
        low, high = weighted_quantiles(way.usd.sum(axis=1), load.probability, (0.1, 0.9))
        mean = float(load.probability @ way.usd.sum(axis=1))
        rows.append(
            {
                "way": name,
                "kind": way.kind,
                "provider": way.provider,
                "expected_usd": mean,
                "p10_usd": low,
                "p90_usd": high,
                "usd_per_thousand_requests": 1e3 * mean / requests if requests else np.nan,
                "usable": way.usable,
                "remark": way.remark,
            }
        )
    table = pd.DataFrame(rows)
    side = np.where(table["kind"] == "self", "self", "api")
    least = table["expected_usd"].where(table["usable"]).groupby(side).transform("min")
    chosen = table["usable"] & (table["expected_usd"] == least) & ~pd.Series(side).where(table["expected_usd"] == least).duplicated()
    table.insert(8, "chosen", chosen)
    return table


def _best(ways: pd.DataFrame, side: str) -> str | None:
    """Name the cheapest usable way of a side."""
    part = ways[ways["chosen"] & ((ways["kind"] == "self") == (side == "self"))]
    return str(part["way"].iloc[0]) if len(part) else None


def _costs(found: dict[str, Way], load: Load) -> pd.DataFrame:
    """Cost of each way by quarter."""
    rows = []
    for name, way in found.items():
        for place, quarter in enumerate(load.quarters):
            low, middle, high = weighted_quantiles(way.usd[:, place], load.probability, (0.1, 0.5, 0.9))
            mean = float(load.probability @ way.usd[:, place])
            rows.append({"quarter": quarter, "way": name, "expected_usd": mean, "p10_usd": low, "p50_usd": middle, "p90_usd": high})
    return pd.DataFrame(rows)


def _headline(service: pd.Series, ways: pd.DataFrame, best_call: str | None, best_own: str | None, moved: Moved) -> str:
    """Say in one sentence what to do."""
    name, timing, volumes, saving = str(service.get("workload", "the service")), moved.timing, moved.volumes, moved.saving_usd
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
