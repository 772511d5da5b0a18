"""Made-up daily demand of fifteen kinds whose future is known."""

from __future__ import annotations

import numpy as np

ORDINARY = ("steady", "slowing", "linear", "season", "flat", "wandering")
UNBIASED = ("steady", "slowing", "linear", "season", "flat")
KINDS = (
    *ORDINARY,
    "threefold a year",
    "declining",
    "growth and season",
    "step",
    "noisy",
    "walking level",
    "plateau",
    "s-curve",
    "accelerating",
)


def _season(years: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    first, second = generator.random(2)
    return 0.2 * np.sin(2 * np.pi * (years + first)) + 0.06 * np.sin(4 * np.pi * (years + second))


def _wandering(years: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Growth between -20 and 80 % a year that wanders by 30 points in a year."""
    slope = generator.normal(0.3, 0.25) + np.cumsum(generator.normal(0, 0.3 / np.sqrt(365.25), len(years)))
    return np.cumsum(slope) / 365.25


def logarithm(kind: str, generator: np.random.Generator, years: np.ndarray, history_years: float) -> np.ndarray:
    """Return the logarithm of the level over some years, of which the first are known."""
    middle = history_years * generator.uniform(0.2, 0.5 if kind == "plateau" else 0.8)
    width = 0.2 if kind == "plateau" else generator.uniform(0.2, 0.5)
    return {
        "steady": lambda: years * np.log(generator.uniform(1.3, 2.0)),
        "threefold a year": lambda: years * np.log(3.0),
        "linear": lambda: np.log1p(generator.uniform(0.5, 3.0) * years / history_years),
        "slowing": lambda: generator.uniform(0.8, 2.0) * (1 - np.exp(-years / generator.uniform(0.7, 2.0))),
        "season": lambda: _season(years, generator),
        "flat": lambda: 0 * years,
        "wandering": lambda: _wandering(years, generator),
        "declining": lambda: -years * np.log(generator.uniform(1.2, 1.8)),
        "growth and season": lambda: years * np.log(generator.uniform(1.3, 2.0)) + _season(years, generator),
        "step": lambda: (
            years * generator.uniform(0, 0.3) + generator.choice([-0.6, 0.6]) * (years > history_years * generator.uniform(0.3, 0.9))
        ),
        "noisy": lambda: np.repeat(generator.normal(0, 0.25, len(years) // 15 + 1), 15)[: len(years)],
        "walking level": lambda: np.cumsum(generator.normal(0, 0.008, len(years))),
        "plateau": lambda: np.log(0.05 + 1 / (1 + np.exp(-(years - middle) / width))),
        "s-curve": lambda: np.log(0.05 + 1 / (1 + np.exp(-(years - middle) / width))),
        "accelerating": lambda: generator.uniform(0.05, 0.2) * years + generator.uniform(0.05, 0.15) * years**2,
    }[kind]()


def made_up(kind: str, seed: int, days: int, history: int) -> np.ndarray:
    """Return daily work of one series, `days` long, whose first `history` days are known."""
    generator = np.random.default_rng([sum(map(ord, kind)), seed, history])
    level = logarithm(kind, generator, np.arange(days) / 365.25, history / 365.25)
    return 1000 * np.exp(level + generator.normal(0, 0.08, days))


def four_weeks(kind: str, count: int, months: int, ahead: int = 24) -> tuple[np.ndarray, int]:
    """Return means of four weeks (series x periods) with so many periods ahead, and the periods of history."""
    history = round(months * 365.25 / 12) // 28 * 28
    series = [made_up(kind, seed, history + 28 * ahead, history).reshape(-1, 28).mean(axis=1) for seed in range(count)]
    return np.array(series), history // 28
