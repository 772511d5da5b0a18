"""What runs when: stages of the second stage, the spans in them, and which machines are there in each state."""

import itertools
from dataclasses import dataclass

import numpy as np
import pandas as pd

from capplan.book.scenario import ProcurementAssumptions
from capplan.questions.procurement.supply.choices import Choices
from capplan.questions.procurement.supply.departures import DEPARTURE
from capplan.questions.procurement.supply.market import REPLACED, Market, held, short_term
from capplan.questions.procurement.supply.price_paths import price_factors, worth_factors
from capplan.questions.procurement.work.spans import YEAR


@dataclass(frozen=True)
class Stages:
    """Planned quarters, then years after them, those in which exactly the same machines run and prices hold as one."""

    #: (k,): Spans (index in `Choices.spans`) that have right-hand sides of their own: all planned ones, then one of each group of years.
    span: np.ndarray
    stage: np.ndarray  #: (k,): Stage of each.
    weight: np.ndarray  #: (stages,): What an hour of each stage counts.
    planned: int  #: Planned spans; later ones follow.

    @property
    def later(self) -> np.ndarray:
        """Which spans lie after the horizon."""
        return np.arange(len(self.span)) >= self.planned


@dataclass(frozen=True)
class Technologies:
    """Each stage, span and state, once where nothing differs.

    Args:
        stages: Spans with right-hand sides of their own.
        stage (T,): Stage of each.
        covered, refund (n, T): Share in which each choice is there, and what a lot of it does not pay while it is late.
        prices ({source: (T, pools)}): What multiplies prices on demand, of spot, of what replaces contracts after the horizon, and of
            unused hours then.
        number (spans, states): Which of them holds.
    """

    stages: Stages
    stage: np.ndarray
    covered: np.ndarray
    refund: np.ndarray
    prices: dict[str, np.ndarray]
    number: np.ndarray


def moving_prices(market: Market, choices: Choices, a: ProcurementAssumptions) -> dict[str, np.ndarray]:
    """Return what multiplies prices by pool in each span, (pools, k): at the middle of its quarter, or of its year."""
    spans, timeline, pools = choices.spans, choices.timeline, market.pools
    later = np.arange(len(spans.quarter)) >= spans.planned
    days = timeline.middles[spans.quarter].where(~later, timeline.starts[np.minimum(spans.quarter + YEAR // 2, len(timeline.quarters) - 1)])
    found = {term: price_factors(pools.assign(term=term), market.price_paths, days, a) for term in ("on_demand", "spot")}
    found["resale"] = worth_factors(pools.assign(term=""), market.price_paths, days, a)
    for word, roles in REPLACED.items():
        own = market.contracts[market.contracts["role"].isin(roles)]
        moves, today = price_factors(own, market.price_paths, days, a), pools[f"{word}_usd_per_hour"].to_numpy(float)
        then = short_term(own, moves).reindex(pools.index).to_numpy(float)
        found[word] = np.where(today[:, None] > 0, then / np.where(today > 0, today, 1.0)[:, None], 1.0)
    return found


def there(market: Market, choices: Choices, start: pd.Series) -> np.ndarray:
    """Share of each span in which each choice is there if it begins at some instants, (n, k).

    Work that can be moved within its quarter runs in the weeks of a short capacity block: that is there at its mean, the whole quarter
    long.
    """
    spans, table = choices.spans, choices.table
    moved = market.pools["movable_only"].to_numpy(bool)[table["pool"].to_numpy(int)][:, None] & (
        np.arange(len(spans.quarter)) < spans.planned
    )
    return np.where(moved, choices.timeline.covered(start, table["end"])[:, spans.quarter], spans.covered(start, table["end"]))


def group_years(market: Market, choices: Choices, varying: list[np.ndarray]) -> Stages:
    """Group the years after the horizon in which exactly the same machines run in every state: one recourse, with weights added."""
    timeline, spans = choices.timeline, choices.spans
    span, stage = list(range(spans.planned)), spans.quarter[: spans.planned].tolist()
    weight = timeline.discount[: timeline.planned].tolist()
    running = np.vstack([held(market, spans), *(each.reshape(-1, len(spans.quarter)) for each in varying)])
    seen: dict[bytes, int] = {}
    for k in range(spans.planned, len(spans.quarter)):
        quarters = slice(spans.quarter[k], spans.quarter[k] + YEAR)
        # A later year is counted in lengths of the last planned quarter, whose hours its points have.
        length = float((timeline.discount * timeline.hours)[quarters].sum() / timeline.hours[timeline.planned - 1])
        place = seen.setdefault(running[:, k].tobytes(), len(weight))
        if place == len(weight):
            span.append(k)
            stage.append(place)
            weight.append(0.0)
        weight[place] += length
    return Stages(np.array(span), np.array(stage), np.array(weight), spans.planned)


def technologies_of(
    stages: Stages, choices: Choices, nominal: np.ndarray, arrived: np.ndarray, prices: dict[str, np.ndarray], states: dict[str, np.ndarray]
) -> Technologies:
    """Join spans with states: what is there and at what price; a machine that is late is not there and not paid for.

    Args:
        nominal ((n, k); arrived : (states, n, k)): Share of each span in which each choice should be there, and is.
        prices ({source: (pools, k)}): What multiplies prices as time passes.
        states ({source: (states, k)}): What multiplies them in each state.
    """
    paid = _paid_per_hour(choices)
    seen: dict[tuple[object, ...], int] = {}
    number = np.zeros((len(stages.span), len(arrived)), dtype=int)
    found = []
    for (place, k), state in itertools.product(enumerate(stages.span.tolist()), range(len(arrived))):
        covered = arrived[state][:, k]
        price = {source: moves[:, k] * (states[source][state, k] if source in states else 1.0) for source, moves in prices.items()}
        key = (stages.stage[place], *(value.tobytes() for value in price.values()), covered.tobytes())
        if key not in seen:
            seen[key] = len(seen)
            found.append((stages.stage[place], covered, paid[:, k] * (nominal[:, k] - covered), price))
        number[place, state] = seen[key]
    stage, covered, refund = (np.array(part) for part in list(zip(*found, strict=True))[:3])
    moved = {source: np.stack([each[3][source] for each in found]) for source in prices}
    return Technologies(stages, stage, covered.T, refund.T, moved, number)


def _paid_per_hour(choices: Choices) -> np.ndarray:
    """Return what a lot of each choice costs in an hour in which it is there, by span, (n, k)."""
    timeline, spans = choices.timeline, choices.spans
    owned = (choices.table["term"] == "owned").to_numpy()[:, None]
    # The space for a machine is there, and paid, from the day on that it should have been.
    usd, hours = np.where(owned, choices.recurring_usd - choices.space_usd, choices.expense_usd), choices.covered * timeline.hours
    # Contracts are booked by day and priced by the hour, which differs where hours of a quarter are an average.
    even = (
        choices.table["role"].isin(["full", "dollars", "units"]).to_numpy() & ~owned[:, 0] & (choices.table["kind"] != DEPARTURE).to_numpy()
    )
    usd[even] = hours[even] * (usd[even].sum(axis=1) / hours[even].sum(axis=1))[:, None]
    last = np.append(spans.quarter[: spans.planned] + 1, spans.quarter[spans.planned :] + YEAR)
    total, there = (
        np.stack([each[:, q:end].sum(axis=1) for q, end in zip(spans.quarter, last, strict=True)], axis=1) for each in (usd, hours)
    )
    return np.divide(total, there, out=np.zeros_like(total), where=there > 0)
