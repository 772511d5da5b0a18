"""The best layers of commitment, and a ladder of terms so that contracts do not all end together."""

from itertools import pairwise

import numpy as np
import pandas as pd

from capplan.optimize.program import blended_cost
from capplan.quantiles import weighted_quantiles
from capplan.questions.portfolio.periods import Periods
from capplan.units import HOURS_PER_YEAR, quarter_index, quarter_of, quarter_start

#: Purchases smaller than this many accelerators are not made.
LEAST = 1e-6


def best_layers(periods: Periods, step: int, bought: pd.DataFrame | None = None, only: str | None = None) -> pd.DataFrame:
    r"""Give each level of load to the term that saves most per hour over its own life.

    .. math:: k^*(\ell) = \arg\max_k \{ g_k(\ell) - c_k : g_k(\ell) > c_k,\ g_1(\ell) > c_k \}

    with g_k the worth of a committed accelerator at level l over the life of term k (`Stack.worth`), g_1 its worth in the first quarter and
    c_k its price; where nothing saves, nothing is committed. A level that pays over the whole life but not yet in the first quarter waits:
    signing it later costs less. With one term and steady demand this is the newsvendor's commitment.

    Args:
        step: Quarter in which all contracts start, counted from the first planned one.
        only: A term, where no other may be used.

    Returns:
        DataFrame: term, offer_id, term_months, usd_per_accelerator_hour, from_accelerators, to_accelerators, accelerators,
            saving_usd_per_year; levels count from what is held on.
    """
    offers = periods.pool.contracts
    offers = offers if only is None else offers[offers["term"] == only]
    columns = (
        "term offer_id term_months usd_per_accelerator_hour from_accelerators to_accelerators accelerators saving_usd_per_year"
    ).split()
    if offers.empty:
        return pd.DataFrame({name: pd.Series(dtype=object if name in columns[:2] else float) for name in columns})
    worths = [periods.stack(step, months / 3, bought)[0].worth() for months in offers["term_months"]]
    now = periods.stack(step, 1, bought)[0].worth()
    levels = np.unique(np.concatenate([level for level, _ in [*worths, now]]))
    at_once = _read(now, levels)
    prices = offers["usd_per_hour"].to_numpy(float)
    saving = np.array([np.where(at_once > usd, _read(worth, levels) - usd, 0.0) for worth, usd in zip(worths, prices, strict=True)])
    best, width = saving.argmax(axis=0)[:-1], np.diff(levels)
    gain = saving.max(axis=0)[:-1]
    keep = gain > 1e-12 * prices.max()
    rows = []
    edges = np.flatnonzero(np.diff(np.where(keep, best, -1), prepend=-2))
    for first, last in pairwise([*edges, len(width)]):
        if keep[first]:
            offer = offers.iloc[best[first]]
            rows.append(
                (
                    offer["term"],
                    offer["offer_id"],
                    float(offer["term_months"]),
                    float(offer["usd_per_hour"]),
                    float(levels[first]),
                    float(levels[last]),
                    float(width[first:last].sum()),
                    float((gain * width)[first:last].sum()) * HOURS_PER_YEAR,
                )
            )
    return pd.DataFrame(rows, columns=columns)


def _read(worth: tuple[np.ndarray, np.ndarray], levels: np.ndarray) -> np.ndarray:
    """Read the worth of one more accelerator at given levels."""
    return np.asarray(worth[1][np.searchsorted(worth[0], levels, side="right") - 1])


def build_ladder(periods: Periods) -> dict[str, pd.DataFrame]:
    """Buy what the layers ask for, quarter by quarter, no more of it ending in one quarter than the ladder allows.

    Every quarter the best layers are found anew, net of what is held and was bought before; a purchase is cut where more than
    `largest_ending_share` of the wanted capacity would end in one quarter, and the rest waits for the next quarter.

    Returns:
        dict: ladder, capacity and ladder_cost, with the columns of `Portfolio`.
    """
    pool, a = periods.pool, periods.a
    planned = pool.load.shape[1]
    laddered = _purchases(periods, planned, a.largest_ending_share)
    whole = _purchases(periods, planned, 1.0)
    peak = pool.load.max(axis=2)
    capacity = []
    for step in range(planned):
        low, median, high = weighted_quantiles(peak[:, step], pool.probability, (0.1, 0.5, 0.9)).tolist()
        ends = laddered[laddered["end"] == quarter_start(periods.label(step + 1))]["accelerators"].sum()
        existing = periods.held(step)
        capacity.append(
            {
                "quarter": periods.label(step),
                "existing": existing,
                "laddered": periods.held(step, laddered) - existing,
                "ending": float(ends),
                "low": low,
                "median": median,
                "high": high,
            }
        )
    costs = []
    for name, bought in (("ladder", laddered), ("no_ladder", whole), ("nothing", whole.iloc[:0])):
        cost = _cost(periods, bought)
        ending = bought.groupby("end")["accelerators"].sum()
        costs.append(
            {
                "name": name,
                "expected_usd": float(pool.probability @ cost),
                "cvar_usd": blended_cost(cost, pool.probability, 1.0, a.tail_share),
                "largest_ending_share": float(ending.max() / bought["accelerators"].sum()) if len(bought) else 0.0,
            }
        )
    table = laddered.assign(
        quarter=[quarter_of(start) for start in laddered["start"]],
        end_quarter=[quarter_of(end - pd.Timedelta(days=1)) for end in laddered["end"]],
    )
    return {
        "ladder": table[["quarter", "term", "offer_id", "accelerators", "end_quarter"]],
        "capacity": pd.DataFrame(capacity),
        "ladder_cost": pd.DataFrame(costs),
    }


def _purchases(periods: Periods, quarters: int, ending_share: float) -> pd.DataFrame:
    """Buy quarter by quarter; rows as holdings have them."""
    empty = {
        "term": object,
        "offer_id": object,
        "accelerators": float,
        "usd_per_hour": float,
        "start": "datetime64[ns]",
        "end": "datetime64[ns]",
    }
    bought = pd.DataFrame({name: pd.Series(dtype=kind) for name, kind in empty.items()})
    for step in range(quarters):
        layers = best_layers(periods, step, bought)
        start = quarter_start(periods.label(step))
        wanted = periods.held(step, bought) - periods.held(step) + float(layers["accelerators"].sum())
        for row in (
            layers.groupby(["term", "offer_id", "term_months", "usd_per_accelerator_hour"], as_index=False)["accelerators"]
            .sum()
            .itertuples()
        ):
            end = start + pd.DateOffset(months=round(float(row.term_months)))
            ending = float(
                bought.loc[
                    [quarter_index(quarter_of(stop)) == quarter_index(quarter_of(end)) for stop in bought["end"]], "accelerators"
                ].sum()
            )
            amount = min(float(row.accelerators), max(ending_share * wanted - ending, 0.0))
            if amount > LEAST:
                bought.loc[len(bought)] = [row.term, row.offer_id, amount, row.usd_per_accelerator_hour, start, end]
    return bought


def _cost(periods: Periods, bought: pd.DataFrame) -> np.ndarray:
    """Present value of the planned quarters by path: purchases while they run, and what they leave to the other sources."""
    pool = periods.pool
    total = np.zeros(len(pool.probability))
    for step in range(pool.load.shape[1]):
        stack, path = periods.stack(step, 1, bought)
        own = stack.weight / np.where(pool.probability[path] > 0, pool.probability[path], 1.0)
        total += np.bincount(path, weights=own * stack.rest_usd_per_hour(0.0), minlength=len(total))
        start, stop = quarter_start(periods.label(step)), quarter_start(periods.label(step + 1))
        share = ((bought["end"].clip(upper=stop) - bought["start"].clip(lower=start)) / (stop - start)).clip(lower=0.0)
        total += float((share * bought["accelerators"] * bought["usd_per_hour"]).sum()) * np.bincount(
            path, weights=own, minlength=len(total)
        )
    return total
