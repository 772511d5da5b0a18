"""Prices by the hour and deliveries in a few states, joined with the demand paths, so that the plan and its bad cases see all three."""

from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pandas as pd

from capplan.errors import CapplanError
from capplan.questions.pricing import completed
from capplan.questions.procurement.supply.late_deliveries import delivered
from capplan.questions.procurement.supply.market import ANYWHERE
from capplan.questions.procurement.work.load import Work
from capplan.questions.procurement.work.sampling import total_by_path
from capplan.questions.procurement.work.spans import Spans
from capplan.questions.procurement.work.timeline import Timeline
from capplan.records import records
from capplan.units import quarter_index

PROBABILITY_TOLERANCE = 1e-6
#: Up to this many scenarios every path is joined with every state; beyond, each path has one of them.
MOST_CROSSED = 400
#: Fractions of multiples of the golden ratio spread evenly, for any number of them.
GOLDEN = (np.sqrt(5) - 1) / 2


@dataclass(frozen=True)
class States:
    """All states that prices and deliveries may be in together, as if independent of each other and of demand."""

    #: price_state, delivery_state, probability, on_demand_factor, spot_factor, from_quarter; one row where nothing is stated.
    table: pd.DataFrame
    deliveries: pd.DataFrame  #: Table delivery_states, completed.

    @property
    def stated(self) -> bool:
        """Tell whether a book names states at all."""
        return len(self.table) > 1

    def factors(self, timeline: Timeline) -> tuple[np.ndarray, np.ndarray]:
        """Return what multiplies prices on demand and of spot by state and quarter, both (states, Q)."""
        first = self.table["from_quarter"].map(lambda label: quarter_index(label) if isinstance(label, str) else 0).to_numpy()
        shows = np.array([quarter_index(label) for label in timeline.quarters]) >= first[:, None]
        on_demand, spot = (np.where(shows, self.table[name].to_numpy(float)[:, None], 1.0) for name in ("on_demand_factor", "spot_factor"))
        return on_demand, spot

    def late_days(self, choices: pd.DataFrame) -> np.ndarray:
        """Return by how many days each choice is delivered late in each state, (states, n); where several rows meet, the longest counts."""
        days = np.zeros((len(self.table), len(choices)))
        usual = (choices["lead_time_days_p90"] - choices["lead_time_days_p50"]).fillna(0.0).to_numpy(float)
        for row in records(self.deliveries):
            late = usual if pd.isna(row["late_days"]) else float(row["late_days"])
            here = np.where(_touched(row, choices), late, 0.0)
            own = (self.table["delivery_state"] == row["state"]).to_numpy()
            days[own] = np.maximum(days[own], here)
        return days

    def arrivals(self, choices: pd.DataFrame) -> list[pd.Series]:
        """Return from when on each choice is there, in each state."""
        return [choices["start"] + pd.to_timedelta(days, "D") for days in self.late_days(choices)]

    def known_deliveries(self, choices: pd.DataFrame) -> np.ndarray:
        """Tell which choices may be delivered late by what is stated, (n,)."""
        return np.asarray((self.late_days(choices) > 0).any(axis=0))


def cut_points(work: Work, spans: Spans) -> Work:
    """Cut every point of a quarter into the quarter's spans; its load is spread evenly over them."""
    quarter = work.points["quarter"].to_numpy(int)
    number = np.append(spans.first, spans.planned)
    count = np.diff(number)[quarter]
    index = np.repeat(np.arange(len(quarter)), count)
    segment = np.arange(len(index)) - np.repeat(np.cumsum(count) - count, count)
    share = spans.share[number[quarter[index]] + segment]
    points = work.points.iloc[index].reset_index(drop=True)
    return replace(work, points=points.assign(hours=points["hours"] * share, segment=segment), load=work.load[index])


def _touched(row: dict[str, object], choices: pd.DataFrame) -> np.ndarray:
    """Tell which choices wait for a delivery that a row of delivery_states is about."""
    mine = delivered(choices)
    for name in ("provider", "accelerator"):
        if row[name] != ANYWHERE:
            mine &= (choices[name] == row[name]).to_numpy()
    return mine


def known_states(price_states: pd.DataFrame | None, delivery_states: pd.DataFrame | None) -> States:
    """Join the states of prices and of deliveries.

    Args:
        price_states, delivery_states: Tables of the book; None or empty where it has none.

    Raises:
        CapplanError: If probabilities do not sum to 1, or a delivery state has several.
    """
    if all(table is None or table.empty for table in (price_states, delivery_states)):
        return _certain()
    return _joined(price_states, delivery_states)


@cache
def _certain() -> States:
    """Return the one state of a book that names none."""
    return _joined(None, None)


def _joined(price_states: pd.DataFrame | None, delivery_states: pd.DataFrame | None) -> States:
    """Return every pair of a price state and a delivery state, after checking both tables."""
    one = pd.DataFrame({"state": [""], "probability": [1.0]})
    prices = completed(one if price_states is None or price_states.empty else price_states, "price_states")
    empty = pd.DataFrame({"state": pd.Series(dtype=object), "probability": pd.Series(dtype=float)})
    deliveries = completed(empty if delivery_states is None else delivery_states, "delivery_states")
    several = deliveries.groupby("state")["probability"].nunique()
    if (several > 1).any():
        raise CapplanError(
            f"delivery_states: {several.index[several > 1][0]} has different probabilities in different rows; make them equal"
        )
    supply = deliveries.drop_duplicates("state") if len(deliveries) else one
    for table, rows in (("price_states", prices), ("delivery_states", supply)):
        total = float(rows["probability"].sum())
        if abs(total - 1) > PROBABILITY_TOLERANCE:
            raise CapplanError(f"{table}: the probabilities of its {len(rows)} states sum to {total:.6g}; they must sum to 1")
    joined = prices.rename(columns={"state": "price_state"}).merge(supply[["state", "probability"]], how="cross", suffixes=("", "_supply"))
    joined["probability"] *= joined["probability_supply"]
    joined = joined.rename(columns={"state": "delivery_state"}).drop(columns="probability_supply")
    return States(joined[["price_state", "delivery_state", "probability", "on_demand_factor", "spot_factor", "from_quarter"]], deliveries)


def with_states(demand: pd.DataFrame, states: States, seed: int) -> pd.DataFrame:
    r"""Join demand paths with states: all with all where there are few, else one state a path, spread evenly over low and high demand.

    .. math:: P(s, k) = p_s\,\pi_k

    In the second case path i in order of demand has the state in whose part of [0, 1] the fraction of :math:`u + i\,\phi` falls, and
    probabilities are scaled so that each state keeps its own.

    Args:
        demand (path, probability, ...): Paths.
        states: States; demand that has states already is returned as it is.

    Returns:
        DataFrame: The same rows with `demand_path` and `state` (its row in `States.table`) added; path numbers a path in a state.
    """
    if "state" in demand:
        return demand
    count = len(states.table)
    weight = states.table["probability"].to_numpy(float)
    paths = demand[["path", "probability"]].drop_duplicates("path").sort_values("path").reset_index(drop=True)
    if count == 1:
        # columns are put beside the others, which are not copied
        found = demand.copy(deep=False)
        found["demand_path"], found["state"] = demand["path"], 0
        return found
    if len(paths) * count > MOST_CROSSED:
        order = np.lexsort((paths["path"].to_numpy(), total_by_path(demand).reindex(paths["path"]).to_numpy()))
        places = (np.random.default_rng(seed).random() + GOLDEN * np.arange(len(order))) % 1
        state = np.empty(len(order), dtype=int)
        state[order] = np.minimum(np.searchsorted(np.cumsum(weight), places, side="right"), count - 1)
        mass = np.bincount(state, weights=paths["probability"], minlength=count)
        if (mass > 0).all():
            scale = (weight / mass * float(paths["probability"].sum()))[state]
            about = pd.DataFrame({"path": paths["path"], "state": state, "probability": paths["probability"] * scale})
            joined = demand.drop(columns="probability").merge(about, on="path", how="left")
            return joined.assign(demand_path=joined["path"])
    frames = [
        demand.assign(demand_path=demand["path"], state=k, path=demand["path"] * count + k, probability=demand["probability"] * weight[k])
        for k in range(count)
    ]
    return pd.concat(frames, ignore_index=True)
