"""A pool over the life of a contract: load of each quarter, what is held then, and the stack that serves the rest."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from capplan.book.assumptions.portfolio import PortfolioAssumptions
from capplan.optimize.program import blended_cost
from capplan.questions.portfolio.pools import Pool
from capplan.questions.portfolio.stack import Stack
from capplan.questions.reliability import spot_left_share
from capplan.units import quarter_end, quarter_hours, quarter_index, quarter_label, quarter_start

Array = np.ndarray


@dataclass(frozen=True)
class Periods:
    """Quarters from the first planned one on, as far as a contract reaches; after the horizon, demand is held at the last quarter's."""

    pool: Pool  #: The pool.
    a: PortfolioAssumptions  #: Assumptions.

    def label(self, step: int) -> str:
        """Name a quarter, counted from the first planned one."""
        return quarter_label(quarter_index(self.a.first_quarter) + step)

    def held(self, step: int, bought: pd.DataFrame | None = None) -> float:
        """Mean accelerators of holdings and purchases in a quarter, those that start or end inside it by their share of it."""
        start, stop = quarter_start(self.label(step)), quarter_end(self.label(step))
        total = 0.0
        for rows in (self.pool.holdings, bought):
            if rows is None or rows.empty:
                continue
            lap = rows["end"].clip(upper=stop) - rows["start"].clip(lower=start)
            total += float((rows["accelerators"].astype(float) * (lap / (stop - start)).clip(lower=0.0)).sum())
        return total

    def stack(self, first: int, count: float, bought: pd.DataFrame | None = None) -> tuple[Stack, Array]:
        """Stack the load of some quarters, net of what is held, over all paths.

        Args:
            first, count: First quarter and how many, counted from the first planned one; the last one may be a part.
            bought: Purchases on top of the pool's holdings.

        Returns:
            tuple: The stack (weights: hours x discount x probability, so that costs are present values), and the path of each of its
                points.
        """
        pool = self.pool
        paths, planned, blocks = pool.load.shape
        parts = []
        for step in range(int(np.ceil(count - 1e-9))):
            quarter = min(first + step, planned - 1)
            share = min(1.0, count - step)
            hours = (
                pool.hours[quarter] / pool.hours[quarter].sum() * quarter_hours(self.label(first + step), self.a.hours_convention) * share
            )
            worth = (1 + self.a.discount_rate_per_year) ** (-(first + step + 0.5) / 4)
            held = self.held(first + step, bought)
            parts.append((quarter, hours * worth, held))
        load = np.concatenate([np.maximum(pool.load[:, quarter] - held, 0.0).ravel() for quarter, _, held in parts])
        weight = np.concatenate([(pool.probability[:, None] * hours).ravel() for _, hours, _ in parts])
        path = np.tile(np.repeat(np.arange(paths), blocks), len(parts))
        interruptible = np.concatenate(
            [np.minimum(pool.interruptible[:, q], np.maximum(pool.load[:, q] - held, 0.0)).ravel() for q, _, held in parts]
        )
        by_class = np.concatenate([pool.unserved[:, :, q].reshape(len(pool.unserved), -1) for q, _, _ in parts], axis=1)
        spot = np.minimum(interruptible, np.concatenate([self._spot_left()[:, q].ravel() for q, _, _ in parts]))
        return self._stack(load, weight, spot, by_class.T), path

    def _spot_left(self) -> Array:
        """Return the accelerators that can be had as spot in each block of each path, (S, Q, B)."""
        pool = self.pool
        return np.asarray(
            pool.spot_cap * spot_left_share(pool.load, np.einsum("s,sqb->qb", pool.probability, pool.load), self.a.spot_scarcity)
        )

    def _stack(self, load: Array, weight: Array, spot: Array, by_class: Array) -> Stack:
        """Put spot, on demand and work left undone beside the load."""
        pool = self.pool
        prices, capacity = list(pool.unserved_usd), [by_class]
        if np.isfinite(pool.spot_usd):
            prices.append(pool.spot_usd)
            capacity.append(spot[:, None])
        if np.isfinite(pool.on_demand_usd):
            prices.append(pool.on_demand_usd)
            capacity.append(np.full((len(load), 1), pool.on_demand_cap))
        return Stack(load, weight, np.array(prices), np.hstack(capacity))


def measured(stack: Stack, path: Array, probability: Array, level: float, usd_per_hour: float, tail_share: float) -> dict[str, float]:
    """Cost and use of a new commitment over a period, as finance and cloud consoles report it.

    Returns:
        dict: expected_usd, cvar_usd (mean of the worst `tail_share` of paths), coverage_share (of the hours that are not under contract
            yet), utilisation_share (hours of it in use), stranded_probability (of paths in which it costs more than what it displaces).
    """
    count = len(probability)
    own = stack.weight / np.where(probability[path] > 0, probability[path], 1.0)
    rest, alone = stack.rest_usd_per_hour(level), stack.rest_usd_per_hour(0.0)
    hours = np.bincount(path, weights=own, minlength=count)
    commitment = usd_per_hour * level * hours
    cost = np.bincount(path, weights=own * rest, minlength=count) + commitment
    saved = np.bincount(path, weights=own * (alone - rest), minlength=count)
    used = stack.used(level)
    eligible = float(stack.weight @ stack.load)
    return {
        "expected_usd": float(probability @ cost),
        "cvar_usd": blended_cost(cost, probability, 1.0, tail_share),
        "coverage_share": float(stack.weight @ used) / eligible if eligible else 0.0,
        "utilisation_share": float(stack.weight @ used) / (level * float(stack.weight.sum())) if level > 0 else float("nan"),
        "stranded_probability": float(probability[saved < commitment - 1e-9].sum()) if level > 0 else 0.0,
    }
