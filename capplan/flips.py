"""Flips: at which value of an assumption the decision to sign changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pandas as pd

from capplan.errors import CapplanError
from capplan.inputs.book import Book
from capplan.inputs.scenario import Scenario
from capplan.plan import firm_offers

#: Paths and gap that are enough to see which offers are signed; the answer says so.
FLIP_PATHS = 5
FLIP_GAP_SHARE = 0.01
#: Halvings of the interval in which the decision changes.
HALVINGS = 1


@dataclass(frozen=True)
class Probe:
    """An assumption and how far it is moved.

    Parameters
    ----------
    field
        Assumption of the scenario.
    low, high
        Ends of the search, as factors on today's value, or as values where `absolute` is set.
    absolute
        Are the ends values?
    """

    field: str
    low: float
    high: float
    absolute: bool = False

    def ends(self, scenario: Scenario) -> tuple[float, float]:
        """Return the two values between which is searched, within the assumption's bounds."""
        now = float(getattr(scenario, self.field))
        low, high = (self.low, self.high) if self.absolute else (now * self.low, now * self.high)
        bounds = {name: value for rule in Scenario.model_fields[self.field].metadata for name, value in vars_of(rule).items()}
        return max(low, bounds.get("ge", low)), min(high, bounds.get("le", high))


def vars_of(rule: object) -> dict[str, float]:
    """Return a bound of an assumption by its name (ge, le)."""
    return {name: float(getattr(rule, name)) for name in ("ge", "le") if hasattr(rule, name)}


PROBES = (
    Probe("demand_factor", 0.6, 1.6),
    Probe("price_factor", 0.6, 1.6),
    Probe("on_demand_accelerators", 0.0, 4.0),
    Probe("risk_weight", 0.0, 1.0, absolute=True),
    Probe("discount_rate_per_year", 0.0, 0.25, absolute=True),
)


def find_flips(book: Book, scenario: Scenario, progress: Callable[[str], None] = lambda _: None) -> pd.DataFrame:
    """Move one assumption at a time, and find where the offers to be signed now become others.

    Parameters
    ----------
    book, scenario
        As for the plan.
    progress
        Called with a few words before each assumption.

    Returns
    -------
    DataFrame
        [assumption, now, flips_below, flips_above, then]: the decision holds between the two values (missing: up to the end of the search,
        which `then` states); found with fewer paths than the plan, to a half of the searched interval.
    """
    quick = scenario.replaced(plan_paths=min(scenario.plan_paths, FLIP_PATHS), gap_share=max(scenario.gap_share, FLIP_GAP_SHARE))
    base = firm_offers(book, quick)

    def decision(field: str, value: float) -> frozenset[str] | None:
        try:
            return firm_offers(book, quick.replaced(**{field: value}))
        except CapplanError:
            return None  # no plan exists at this value: the decision cannot stand there either

    rows = []
    for probe in PROBES:
        progress(f"asking when {probe.field} flips the decision")
        now = float(getattr(scenario, probe.field))
        low, high = probe.ends(scenario)
        found: dict[str, float] = {}
        words = []
        for side, end in (("flips_below", low), ("flips_above", high)):
            if end == now:
                continue
            other = decision(probe.field, end)
            if other == base:
                words.append(f"holds to {end:.3g}")
                continue
            holds, changed = now, end
            for _ in range(HALVINGS):
                middle = (holds + changed) / 2
                answer = decision(probe.field, middle)
                if answer == base:
                    holds = middle
                else:
                    changed, other = middle, answer
            found[side] = changed
            words.append(f"{'below' if side == 'flips_below' else 'above'} {changed:.3g}: {_difference(base, other)}")
        rows.append((probe.field, now, found.get("flips_below"), found.get("flips_above"), "; ".join(words)))
    frame = pd.DataFrame(rows, columns=["assumption", "now", "flips_below", "flips_above", "then"])
    return frame.astype({"flips_below": float, "flips_above": float})


def _difference(base: frozenset[str], other: frozenset[str] | None) -> str:
    """Say which offers enter and leave."""
    if other is None:
        return "no plan exists"
    parts = [f"sign {name}" for name in sorted(other - base)] + [f"do not sign {name}" for name in sorted(base - other)]
    return ", ".join(parts)
