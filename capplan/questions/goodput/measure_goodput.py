"""The answer: the share of a paid hour that is progress, its price by offer, and when spot stops paying."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from capplan.book.assumptions.goodput import GoodputAssumptions
from capplan.errors import CapplanError
from capplan.questions.goodput.failure_rates import Rate, failure_rates, rate_of
from capplan.questions.goodput.spot_replay import replay_spot, up_spells
from capplan.questions.reliability import optimum_interval, time_shares, useful_share

#: Parts of a paid hour, in the order they are shown; they add up to 1.
PARTS = ("goodput_share", "input_wait_share", "checkpoint_share", "rework_share", "restart_share", "idle_share")
#: Rates beyond which a search for the break-even is given up: an interruption each minute.
HIGHEST_PER_HOUR = 60.0


def measure_goodput(
    failures: pd.DataFrame, a: GoodputAssumptions, prices: pd.DataFrame | None = None, availability: pd.DataFrame | None = None
) -> pd.DataFrame:
    r"""Say how much of a paid hour is progress, and what an hour of progress costs.

    .. math:: G = (1 - i)\,c\,g(\tau, \delta, R, \lambda),\qquad p_\text{productive} = \frac{p}{G},\qquad
              \lambda = n\,r + \lceil n/m \rceil\,s

    with g the progress share of `capplan.questions.reliability.time_shares`, c the `compute_share`, i the `idle_share`, n the accelerators
    of the
    run, r failures of one accelerator in an hour, m accelerators in a machine and s interruptions of a spot machine in an hour.

    Args:
        prices (optional): What `price_hours` returns; without it each fleet of `failures` is a row, without a price.
        availability (optional): Records of spot availability (trace, start_hours, hours, machines, offer_id). A spot offer with a record,
            and a run of no more machines than it ever held, is replayed on it: its interruptions are then the record's.

    Returns:
        DataFrame: One row an offer, in the order of `prices`: offer_id (the fleet without prices), provider, accelerator, geography, term,
            accelerators, machines, basis ("failures", "interruptions" or "record"), fleets (whose failures were taken),
            interruptions_per_hour (of the run), mean_hours_between_interruptions, interval_minutes, goodput_share, and what takes the rest
            of a paid hour: input_wait_share, checkpoint_share, rework_share, restart_share, idle_share (all six add up to 1); running_share
            (progress of a run with all its input: the effective training time ratio), ettr_share (the same to first order, as in the
            source), usd_per_paid_accelerator_hour, usd_per_productive_accelerator_hour (infinite where there is no progress),
            idle_usd_per_hour (of all accelerators of the run).

    Raises:
        CapplanError: For rates that cannot be known and a fleet that is not in the table.

    Source: J. T. Daly, FGCS 22(3), 2006; A. Kokolis et al., HPCA 2025 (expected effective training time ratio).
    """
    rates = failure_rates(failures)
    if prices is None:
        offers = pd.DataFrame(
            {
                "offer_id": rates["fleet"],
                "provider": None,
                "accelerator": rates["accelerator"],
                "geography": None,
                "term": None,
                "accelerator_count": rates["accelerators_per_node"],
                "interruptions_per_hour": 0.0,
                "paid": np.nan,
            }
        )
        chosen = [
            Rate(float(value) * a.failure_factor, float(value) * a.failure_factor, float(value) * a.failure_factor, (str(fleet),), True)
            for fleet, value in zip(rates["fleet"], rates["failures_per_accelerator_hour"], strict=True)
        ]
    else:
        offers = _paid(prices, a)
        found = {name: rate_of(name, rates, a) for name in offers["accelerator"].unique()}
        chosen = [found[name] for name in offers["accelerator"]]
    count = a.run_accelerators
    machines = np.ceil(count / offers["accelerator_count"].to_numpy(dtype=float))
    failing = np.array([rate.per_accelerator_hour for rate in chosen]) * count
    taken = machines * offers["interruptions_per_hour"].to_numpy(dtype=float)
    table = _shares(failing, taken, a)
    result = offers[["offer_id", "provider", "accelerator", "geography", "term"]].reset_index(drop=True)
    result["accelerators"] = count
    result["machines"] = machines.astype(int)
    result["basis"] = np.where(taken > 0, "interruptions", "failures")
    result["fleets"] = [", ".join(rate.fleets) for rate in chosen]
    result = pd.concat([result, table], axis=1)
    if availability is not None and not availability.empty and prices is not None:
        result = _replayed(result, availability, failing, a)
    result["usd_per_paid_accelerator_hour"] = offers["paid"].to_numpy()
    with np.errstate(divide="ignore"):
        result["usd_per_productive_accelerator_hour"] = np.divide(
            result["usd_per_paid_accelerator_hour"].to_numpy(), result["goodput_share"].to_numpy()
        )
    result["idle_usd_per_hour"] = result["usd_per_paid_accelerator_hour"] * count
    return result


def lost_time(goodput: pd.DataFrame) -> pd.DataFrame:
    """Say where a paid hour of each offer goes.

    Args:
        goodput: What `measure_goodput` returns.

    Returns:
        DataFrame: offer_id, part (the share columns of `measure_goodput`), share; the parts of an offer add up to 1.
    """
    table = goodput[["offer_id", *PARTS]].melt(id_vars="offer_id", var_name="part", value_name="share")
    order = {name: place for place, name in enumerate(goodput["offer_id"])}
    return table.sort_values("offer_id", key=lambda names: names.map(order), kind="stable", ignore_index=True)


def spot_break_even(failures: pd.DataFrame, a: GoodputAssumptions, prices: pd.DataFrame) -> pd.DataFrame:
    r"""Say when spot stops paying: at which discount, and at how many interruptions, an hour of progress costs as much on demand.

    .. math:: d^* = 1 - \frac{g_\text{spot}}{g_\text{on demand}},
              \qquad \frac{p_\text{spot}}{g(s^*)} = \frac{p_\text{on demand}}{g_\text{on demand}}

    The checkpoint interval is chosen anew at every rate where the scenario leaves it open.

    Args:
        failures, a, prices: As in `measure_goodput`.

    Returns:
        DataFrame: One row a spot offer with an on-demand offer of the same accelerator and geography: offer_id, accelerator, geography,
            on_demand_offer_id, spot_usd, on_demand_usd (per paid accelerator-hour), discount_share, break_even_discount_share,
            interruptions_per_machine_hour, break_even_interruptions_per_machine_hour (0 where spot costs more even without interruptions,
            empty where it pays at one a minute), spot_usd_per_productive_accelerator_hour, on_demand_usd_per_productive_accelerator_hour,
            saving_share (of the on-demand price of an hour of progress), pays.
    """
    measured = measure_goodput(failures, a, prices).set_index("offer_id", drop=False)
    paid = _paid(prices, a).set_index("offer_id")
    rates = failure_rates(failures)
    rows = []
    on_demand = measured[measured["term"] == "on_demand"]
    for spot in measured[measured["term"] == "spot"].itertuples():
        same = on_demand[(on_demand["accelerator"] == spot.accelerator) & (on_demand["geography"] == spot.geography)]
        if same.empty:
            continue
        other = same.loc[same["usd_per_productive_accelerator_hour"].idxmin()]
        failing = rate_of(spot.accelerator, rates, a).per_accelerator_hour * a.run_accelerators
        price, rival = float(spot.usd_per_paid_accelerator_hour), float(other["usd_per_paid_accelerator_hour"])
        target = price * other["running_share"] / rival
        now = float(paid.loc[spot.offer_id, "interruptions_per_hour"])
        rows.append(
            {
                "offer_id": spot.offer_id,
                "accelerator": spot.accelerator,
                "geography": spot.geography,
                "on_demand_offer_id": other["offer_id"],
                "spot_usd": price,
                "on_demand_usd": rival,
                "discount_share": 1 - price / rival,
                "break_even_discount_share": 1 - float(spot.running_share) / float(other["running_share"]),
                "interruptions_per_machine_hour": now,
                "break_even_interruptions_per_machine_hour": _break_even_rate(target, failing, int(spot.machines), a),
                "spot_usd_per_productive_accelerator_hour": spot.usd_per_productive_accelerator_hour,
                "on_demand_usd_per_productive_accelerator_hour": other["usd_per_productive_accelerator_hour"],
                "saving_share": 1 - spot.usd_per_productive_accelerator_hour / other["usd_per_productive_accelerator_hour"],
                "pays": bool(spot.usd_per_productive_accelerator_hour < other["usd_per_productive_accelerator_hour"]),
            }
        )
    columns = (
        "offer_id accelerator geography on_demand_offer_id spot_usd on_demand_usd discount_share break_even_discount_share"
        " interruptions_per_machine_hour break_even_interruptions_per_machine_hour spot_usd_per_productive_accelerator_hour"
        " on_demand_usd_per_productive_accelerator_hour saving_share pays"
    ).split()
    return pd.DataFrame(rows, columns=columns)


def running_share(failing_per_hour: float, taken_per_hour: float, a: GoodputAssumptions) -> float:
    """Progress share of a run with all its input, from failures and from spot interruptions of the whole run in an hour."""
    return float(_shares(np.array([failing_per_hour]), np.array([taken_per_hour]), a)["running_share"].iloc[0])


def _paid(prices: pd.DataFrame, a: GoodputAssumptions) -> pd.DataFrame:
    """Prices of a paid accelerator-hour, before any lost work, with the scenario's spot discount where it states one."""
    table = prices.reset_index(drop=True).copy()
    needed = ("offer_id", "accelerator", "geography", "term", "effective_usd_per_accelerator_hour")
    missing = [name for name in needed if name not in table.columns]
    if missing:
        raise CapplanError(f"prices lack the column {missing[0]}; give the table that price_hours returns")
    for name, value in (("useful_share", 1.0), ("interruptions_per_hour", 0.0), ("accelerator_count", 8.0), ("provider", None)):
        if name not in table:
            table[name] = value
    # The effective price of spot already holds the work lost by one machine; here the whole run's losses take its place.
    table["paid"] = table["effective_usd_per_accelerator_hour"] * table["useful_share"]
    if a.spot_discount_share is not None:
        base = table[table["term"] == "on_demand"].groupby(["accelerator", "geography"])["paid"].min()
        rival = base.reindex(pd.MultiIndex.from_frame(table[["accelerator", "geography"]])).to_numpy()
        stated = (table["term"] == "spot").to_numpy() & ~np.isnan(rival)
        table["paid"] = np.where(stated, rival * (1 - a.spot_discount_share), table["paid"])
    return table


def _shares(failing: np.ndarray, taken: np.ndarray, a: GoodputAssumptions) -> pd.DataFrame:
    """Divide a paid hour of a run among progress and losses, for failures and spot interruptions of the run in an hour."""
    write, recovery = a.checkpoint_write_seconds / 3600, a.recovery_minutes / 60
    rate = failing + taken
    with np.errstate(divide="ignore"):
        mean = np.where(rate > 0, 1 / np.where(rate > 0, rate, 1.0), np.inf)
    # The restart is the mean of both kinds of interruption, by how often they come.
    restart = recovery + a.spot_replacement_minutes / 60 * np.where(rate > 0, taken / np.where(rate > 0, rate, 1.0), 0.0)
    interval = (
        np.full_like(rate, a.checkpoint_interval_minutes / 60) if a.checkpoint_interval_minutes > 0 else optimum_interval(write, mean)
    )
    parts = time_shares(interval, write, restart, rate)
    ettr = np.where(rate > 0, useful_share(rate, restart + np.where(rate > 0, interval, 0.0) / 2, write, interval), parts["progress"])
    return _divided(parts, rate, mean, interval, ettr, a)


def _divided(
    parts: Mapping[str, np.ndarray], rate: np.ndarray, mean: np.ndarray, interval: np.ndarray, ettr: np.ndarray, a: GoodputAssumptions
) -> pd.DataFrame:
    """Lay idle time and waits for input over the shares of a run."""
    running = 1 - a.idle_share
    return pd.DataFrame(
        {
            "interruptions_per_hour": rate,
            "mean_hours_between_interruptions": mean,
            "interval_minutes": interval * 60,
            "goodput_share": running * a.compute_share * parts["progress"],
            "input_wait_share": running * (1 - a.compute_share) * parts["progress"],
            "checkpoint_share": running * parts["checkpoints"],
            "rework_share": running * parts["rework"],
            "restart_share": running * parts["restarts"],
            "idle_share": a.idle_share,
            "running_share": parts["progress"],
            "ettr_share": np.clip(ettr, 0.0, 1.0),
        }
    )


def _replayed(result: pd.DataFrame, availability: pd.DataFrame, failing: np.ndarray, a: GoodputAssumptions) -> pd.DataFrame:
    """Replay spot offers that have a record on it; failures of nodes come on top of the record's interruptions."""
    result = result.copy()
    write, restart = a.checkpoint_write_seconds / 3600, (a.recovery_minutes + a.spot_replacement_minutes) / 60
    for place in range(len(result)):
        offer = result.loc[place, "offer_id"]
        part = availability[(availability["offer_id"] == offer) & (result.loc[place, "term"] == "spot")]
        if part.empty:
            continue
        if part["trace"].nunique() > 1:
            raise CapplanError(f"offer {offer} has {part['trace'].nunique()} spot records; keep one in spot_availability for each offer")
        if part["machines"].max() < result.loc[place, "machines"]:
            continue
        spells = up_spells(part, machines=float(result.loc[place, "machines"]), days=a.replay_days)
        taken = 0.0 if spells.interruptions == 0 else 1 / spells.mean_hours
        rate = float(failing[place]) + taken
        closed = optimum_interval(write, 1 / rate) if rate > 0 else spells.record_hours
        interval = a.checkpoint_interval_minutes / 60 if a.checkpoint_interval_minutes > 0 else closed
        played = replay_spot(spells, [interval], write, restart).iloc[0]
        # What the record does not hold: failures of the nodes themselves, at the same interval.
        kept = time_shares(interval, write, a.recovery_minutes / 60, float(failing[place]))
        bare = interval / (interval + write)
        progress = float(played["goodput_share"]) * kept["progress"] / bare
        checkpoints = progress * write / interval
        restarts = min(1 - progress - checkpoints, restart * len(spells.hours) / float(spells.hours.sum()) + kept["restarts"])
        shares = {"progress": progress, "checkpoints": checkpoints, "restarts": restarts}
        shares["rework"] = 1 - progress - checkpoints - restarts
        of_run = rate, 1 / rate if rate > 0 else np.inf, interval, useful_share(rate, restart + interval / 2, write, interval)
        alone, inside, between, ettr = (np.array([each]) for each in of_run)
        row = _divided({name: np.array([share]) for name, share in shares.items()}, alone, inside, between, ettr, a).iloc[0]
        for name, value in row.items():
            result.loc[place, name] = value
        result.loc[place, "basis"] = "record"
    return result


def _break_even_rate(target: float, failing: float, machines: int, a: GoodputAssumptions) -> float:
    """Find the interruptions of a machine in an hour at which the progress share falls to a target."""
    from scipy.optimize import brentq

    def above(rate: float) -> float:
        return running_share(failing, machines * rate, a) - target

    if above(0.0) <= 0:
        return 0.0
    if above(HIGHEST_PER_HOUR) > 0:
        return float("nan")
    return float(brentq(above, 0.0, HIGHEST_PER_HOUR, xtol=1e-12, rtol=1e-12))
