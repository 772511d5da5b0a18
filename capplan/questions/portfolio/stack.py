"""A stack of ways to serve load, dearest first to go: what another committed accelerator is worth, and how many pay."""

from dataclasses import dataclass

import numpy as np

from capplan.errors import CapplanError

Array = np.ndarray


@dataclass(frozen=True)
class Stack:
    r"""Load that commitments serve first and other sources after them, in the order of their price.

    With K accelerators committed, point i costs :math:`C_i(K) = \sum_j p_j \min(\max(L_i - K - \sum_{l<j} m_{il}, 0), m_{ij})`, and one
    more
    committed accelerator is worth :math:`g(K) = \sum_i w_i\,p_{j(i,K)} / \sum_i w_i`, the price of the source that it displaces, which
    falls in K. So the best commitment at price c is the smallest K with g(K) <= c: with one source at price p the
    1 - c/p quantile of load (newsvendor), on a load-duration curve the level that is used c/p of the time (screening curve).

    Args:
        load (n,): Load of each point, in accelerators.
        weight (n,): Weight of each point: hours times probability (times discount factor).
        prices (k,): Price of an hour of each source.
        capacity (n, k): Accelerators that each source can serve at each point; inf where nothing limits it.

    Raises:
        CapplanError: If a load, weight or price is negative or not a number, or some load no source can serve.

    Source: Newsvendor: Cachon and Terwiesch, Matching Supply with Demand, chapter 12; screening curves: Stoft, Power System Economics, part
        1-4.

    Examples:
        >>> stack = Stack(np.array([10.0, 20.0, 30.0, 40.0]), np.ones(4), np.array([4.0]), np.full((4, 1), np.inf))
        >>> stack.best_level(1.5)  # discount 62.5 %: the third of four loads
        30.0
    """

    load: Array
    weight: Array
    prices: Array
    capacity: Array

    def __post_init__(self) -> None:
        """Check, and put the sources into the order of their price."""
        order = np.argsort(self.prices, kind="stable")
        object.__setattr__(self, "prices", np.asarray(self.prices, float)[order])
        object.__setattr__(self, "capacity", np.asarray(self.capacity, float)[:, order])
        for name, values in (("load", self.load), ("weight", self.weight), ("price", self.prices)):
            if not (np.isfinite(values).all() and (values >= 0).all()):
                raise CapplanError(f"a portfolio needs every {name} to be a number of 0 or more; found {values.min()}")
        short = self.load > self.capacity.sum(axis=1) * (1 + 1e-9) + 1e-9
        if short.any():
            raise CapplanError(
                f"{float((self.load - self.capacity.sum(axis=1))[short].max()):.6g} accelerators of load have no source; "
                "add an on-demand offer, or a price for work that is not served"
            )

    @property
    def below(self) -> Array:
        """Capacity of the cheaper sources at each point, (n, k)."""
        finite = np.where(np.isfinite(self.capacity), self.capacity, self.load[:, None])
        return np.asarray(np.cumsum(finite, axis=1) - finite)

    def served(self, level: float) -> Array:
        """Accelerators of each source at each point beside a commitment, (n, k)."""
        rest = np.maximum(self.load - level, 0.0)[:, None]
        return np.asarray(np.minimum(np.maximum(rest - self.below, 0.0), self.capacity))

    def rest_usd_per_hour(self, level: float) -> Array:
        """Cost per hour, at each point, of what the commitment leaves to the other sources, (n,)."""
        return np.asarray(self.served(level) @ self.prices)

    def used(self, level: float) -> Array:
        """Accelerators of the commitment in use at each point, (n,)."""
        return np.minimum(self.load, level)

    def worth(self) -> tuple[Array, Array]:
        """Return the levels at which the worth of one more accelerator falls, and its worth from each level on.

        Returns:
            tuple: levels (m,), ascending from 0; worth (m,) in USD per committed accelerator-hour, on [levels[j], levels[j + 1]).
        """
        drop = np.diff(self.prices, prepend=0.0)
        edges = np.maximum(self.load[:, None] - self.below, 0.0)
        # a source without capacity at a point is never the one displaced there; its step belongs to the next dearer one, at the same edge
        falls = np.broadcast_to(drop, edges.shape) * self.weight[:, None]
        levels, place = np.unique(np.append(edges.ravel(), 0.0), return_inverse=True)
        lost = np.bincount(place[:-1], weights=falls.ravel(), minlength=len(levels))
        total = float(self.weight.sum())
        left = (lost.sum() - np.cumsum(lost)) / total if total else np.zeros(len(levels))
        return levels, np.maximum(left, 0.0)

    def best_level(self, usd_per_hour: float) -> float:
        """Return the commitment that costs least at this price of a committed accelerator-hour; the smallest, where several do."""
        levels, worth = self.worth()
        return float(levels[int(np.argmax(worth <= usd_per_hour * (1 + 1e-12)))])

    def cost_usd_per_hour(self, level: float, usd_per_hour: float) -> float:
        """Return the mean cost of an hour: commitment and the rest."""
        return usd_per_hour * level + float(self.weight @ self.rest_usd_per_hour(level)) / float(self.weight.sum())

    def level_that_covers(self, share: float) -> float:
        """Return the smallest commitment that serves this share of all load.

        Examples:
            >>> Stack(np.array([1.0, 3.0]), np.ones(2), np.array([1.0]), np.full((2, 1), np.inf)).level_that_covers(0.75)
            2.0
        """
        order = np.argsort(self.load, kind="stable")
        load, weight = self.load[order], self.weight[order]
        total = float(weight @ load)
        if total == 0 or share <= 0:
            return 0.0
        before = np.concatenate(([0.0], np.cumsum(weight * load)[:-1]))
        covered = before + load * (weight.sum() - np.concatenate(([0.0], np.cumsum(weight)[:-1])))
        place = int(np.argmax(covered >= share * total * (1 - 1e-12)))
        low, low_covered = (load[place - 1], covered[place - 1]) if place else (0.0, 0.0)
        slope = float(weight[place:].sum())
        return float(low + (share * total - low_covered) / slope)
