"""Closed forms from the literature that answers are held against; the library itself needs none of them."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from capplan.outputs.views.bridges import TOTAL


def daly_interval(write, mean, order: int = 2):
    """Work between checkpoints, J. T. Daly (2006): a write takes `write`, failures come every `mean`; M where a write takes 2 M."""
    delta, m = np.asarray(write, dtype=float), np.asarray(mean, dtype=float)
    if order == 1:
        return np.sqrt(2 * delta * m) - delta
    share = delta / (2 * m)
    return np.where(share < 1, np.sqrt(2 * delta * m) * (1 + np.sqrt(share) / 3 + share / 9) - delta, m)


def halfin_whitt_delay(beta: float) -> float:
    """Share that waits in a large system with square-root spare capacity beta, Halfin and Whitt (1981)."""
    density = math.exp(-beta * beta / 2) / math.sqrt(2 * math.pi)
    return 1.0 / (1.0 + beta * 0.5 * math.erfc(-beta / math.sqrt(2)) / density)


def square_root_servers(load: float, beta: float) -> int:
    """Servers of the square-root rule."""
    return math.ceil(load + beta * math.sqrt(load) - 1e-9)


def poisson_arrivals(rate_per_second: float, count: int, rng: np.random.Generator) -> np.ndarray:
    """Arrivals that know nothing of each other."""
    return np.cumsum(rng.exponential(1 / rate_per_second, count))


def gap_of(bridge: pd.DataFrame) -> float:
    """Return by how much the totals of a bridge differ from the sums of the rows above them, at most."""
    level, worst = 0.0, 0.0
    for row in bridge.to_dict("records"):
        if row["kind"] == TOTAL:
            worst = max(worst, abs(level - row["amount"]))
        else:
            level += row["amount"]
    return worst


def usl_throughput(accelerators, alpha: float, beta: float, gamma: float):
    """Throughput by the Universal Scalability Law (N. J. Gunther, Guerrilla Capacity Planning, Springer, 2007)."""
    n = np.asarray(accelerators, dtype=float)
    return gamma * n / (1 + alpha * (n - 1) + beta * n * (n - 1))


def transformer_parameters(layers: int, width: int, vocabulary: int, sequence_length: int) -> float:
    """Parameters of a dense transformer with learnt positions (D. Narayanan et al., SC21, equation 2)."""
    return 12 * layers * width**2 * (1 + 13 / (12 * width) + (vocabulary + sequence_length) / (12 * layers * width))


def iteration_operations(batch: float, sequence_length: int, layers: int, width: int, vocabulary: int) -> float:
    """Operations of one optimiser step whose forward pass is done twice (D. Narayanan et al., SC21, equation 3)."""
    inner = 1 + sequence_length / (6 * width) + vocabulary / (16 * layers * width)
    return 96 * batch * sequence_length * layers * width**2 * inner


def run_energy_mwh(accelerator_hours: float, power_w: float, pue: float) -> float:
    """Electricity of a run with the building's overhead (H. Touvron et al., LLaMA, 2023, section 6)."""
    return accelerator_hours * power_w / 1e6 * pue
