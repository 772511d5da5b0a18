"""How far a moved scenario's deciding number is from the baseline's, in one sentence."""

import math

from capplan.book.scenario import Scenario
from capplan.outputs.charts.theme import display_name
from capplan.outputs.lab.controls import label_of
from capplan.outputs.views.view import View
from capplan.text import duration_words, number_text, value_text

#: Assumptions about how an answer is computed, not about the world.
TECHNICAL = frozenset(
    (
        *("paths", "plan_paths", "gap_share", "time_limit_seconds", "seed", "load_blocks", "backtest_origins", "curve_sizes"),
        *("curve_resamples", "placement_method", "placement_tries", "proof_gap_share", "proof_deterministic_seconds", "proof_size"),
    )
)


def computed_alike(before: Scenario, after: Scenario) -> Scenario:
    """Return the first scenario computed as the second one is: answers of unlike paths or seeds are not held against each other.

    Where nothing else differs, what the other computation does is the question, and the first scenario stays as it is.
    """
    moved = {name for name in Scenario.model_fields if getattr(after, name) != getattr(before, name)}
    return before.replaced(**{name: getattr(after, name) for name in moved & TECHNICAL}) if moved - TECHNICAL else before


def difference_text(baseline: View | None, view: View, before: Scenario, after: Scenario) -> str:
    """Say how far the deciding number is from the baseline, and what was moved.

    Args:
        baseline, view: What the baseline's scenario and the moved one show.
    """
    if baseline is None or after == before:
        return "These are the baseline's assumptions."
    moved = [
        f"{_within(label_of(name))} {value_text(getattr(before, name))} → {value_text(getattr(after, name))}"
        for name in Scenario.model_fields
        if getattr(after, name) != getattr(before, name)
    ]
    because = f"because {' and '.join(moved) if len(moved) < 3 else ', '.join(moved)}"
    step = view.value - baseline.value
    if not math.isfinite(step):
        return f"{_amount(view)} against the baseline's {_amount(baseline)}, {because}."
    if abs(step) <= 1e-9 * max(1.0, abs(baseline.value)):
        return f"No difference to the baseline ({_amount(baseline)}), {because.replace('because', 'although', 1)}."
    unsure = max(baseline.unsure, view.unsure)
    if abs(step) <= unsure:
        left = f"{_amount(view, step, signed=True)} is less than the {_amount(view, unsure)} that the search left open"
        return f"No difference that is proven to the baseline ({_amount(baseline)}): {left}, {because.replace('because', 'although', 1)}."
    share = f", {number_text(step / abs(baseline.value), 'share', signed=True)}" if baseline.value else ""
    return f"{_amount(view, step, signed=True)}{share} against the baseline ({_amount(baseline)}), {because}{_parts(baseline, view)}."


def _parts(before: View, after: View) -> str:
    """Name the two components of the number that moved most, where the view lists them (details["components"]: component, usd)."""
    if "components" not in before.details or "components" not in after.details:
        return ""
    old, new = (view.details["components"].groupby("component")["usd"].sum() for view in (before, after))
    steps = new.sub(old, fill_value=0.0)
    largest = steps[steps.abs() >= max(0.5, 0.05 * steps.abs().max())].sort_values(key=abs, ascending=False, kind="stable").head(2)
    shown = largest / after.usd_per_unit
    named = [f"{display_name(name).lower()} {number_text(step, after.unit, signed=True)}" for name, step in shown.items()]
    return f": mostly {' and '.join(named)}" if named else ""


def _amount(view: View, value: float | None = None, *, signed: bool = False) -> str:
    amount = view.value if value is None else value
    if view.unit == "seconds":
        sign = ("-" if amount < 0 else "+") if signed else ""
        return sign + duration_words(abs(amount)) if math.isfinite(amount) else "no end"
    text = number_text(amount, view.unit, signed=signed)
    return text if view.unit in ("", "share") or text[-1:] == "%" or any(sign in text for sign in "$€£¥") else f"{text} {view.unit}"


def _within(label: str) -> str:
    """Write a label within a sentence: a small letter first, unless it is an abbreviation."""
    return label if label[:2].isupper() else label[:1].lower() + label[1:]
