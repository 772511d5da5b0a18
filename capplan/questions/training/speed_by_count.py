"""What a run reaches on each number of accelerators, with its band: published where a run like it was measured, else worked out."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from capplan.book.assumptions.training import TrainingAssumptions
from capplan.questions.training.architecture import Shape
from capplan.questions.training.flops import TERA
from capplan.questions.training.layout import Machine, chosen_layouts, operations_counted
from capplan.questions.training.speed import BANDS, basis_of

#: A batch and a model this near (share) count as the measured ones.
SAME_SHARE = 0.05
#: Formats from wide to narrow: what may compute in a narrow one may compute in a wide one.
FORMATS = ("bf16", "fp8", "fp4")
ROUNDING = 1e-9
#: TFLOP/s of one accelerator by its name and number format, and the number of accelerators.
Published = Mapping[tuple[str, str], Mapping[int, float]]


@dataclass(frozen=True)
class Rates:
    """TFLOP/s of one accelerator by count."""

    #: low, value, high: Ends and middle of a band of nine in ten.
    low: np.ndarray
    value: np.ndarray
    high: np.ndarray
    basis: np.ndarray  #: stated, measured (a published run like this one), calibrated or modelled.
    corrected: np.ndarray  #: Did the gate move the value?


def published_rates(
    speeds: pd.DataFrame | None, model: str | None, shape: Shape, models: pd.DataFrame | None, a: TrainingAssumptions
) -> Published:
    """Return the fastest published rates of runs like this one: of its model, with its sequences and within 5 % its batch.

    Args:
        speeds: Table training_speeds; None = nothing is published.
        model, shape: The run's; a size other than the model's is another model.
    """
    if speeds is None or models is None or model is None or model not in set(models["model"]):
        return {}
    known = float(models.set_index("model").loc[model, "parameters_active"])
    alike = speeds[(speeds["model"] == model) & (speeds["sequence_length"] == a.sequence_length)]
    alike = alike[abs(alike["batch_sequences"] * a.sequence_length / a.global_batch_tokens - 1) <= SAME_SHARE]
    if abs(shape.active / known - 1) > SAME_SHARE or alike.empty:
        return {}
    rates = alike.groupby(["accelerator", "precision", "accelerators"])["tokens_per_second"].max() * operations_counted(shape, a) / TERA
    return {kind: part.droplevel([0, 1]).to_dict() for kind, part in rates.groupby(level=[0, 1])}


def rates_of(
    run: tuple[Shape, str, Published], machine: Machine, chosen: Mapping[str, np.ndarray], scaled: np.ndarray, a: TrainingAssumptions
) -> Rates:
    """Hold the rates of chosen layouts, and both ends of their bands, to the gate of every answer about training.

    None is above the peak of the format; no narrower number format and no more accelerators give less, in value and in both ends: what
    would be slower is left idle, or computes in the wider format.

    Args:
        run: Architecture, number format and `published_rates`.
        machine, a: As in `chosen_layouts`.
        scaled: Share of the speed that a measured scaling curve leaves beside the layout's losses, by count; published runs hold theirs.
    """
    shape, precision, published = run
    n, chip, rates = chosen["accelerators"], machine.chip, chosen["rate_tflops"] * scaled
    if chip is None:
        value = np.maximum.accumulate(rates * n) / n
        return Rates(value, value, value, np.full(len(n), "stated", dtype=object), value > rates * (1 + ROUNDING))
    own, basis = _banded(run, precision, chip.name, rates, n)
    held = own
    for wide in FORMATS[: FORMATS.index(precision) if precision in FORMATS else 0]:
        measured = (chip.name, wide) in published or (chip.name, precision) in published
        mixture = shape.expert_parameters > 0
        # Worked out alike, the narrower format is no slower in value or ends.
        if measured or BANDS[basis_of(chip.name, wide), mixture] != BANDS[basis_of(chip.name, precision), mixture]:
            other = chosen_layouts(shape, wide, machine, n, a)["rate_tflops"] * scaled
            held = np.maximum(held, _banded(run, wide, chip.name, other, n)[0])
    held = np.minimum(np.maximum.accumulate(held * n, axis=1) / n, chip.peak(precision))
    corrected = (abs(held[1] / own[1] - 1) > ROUNDING) | (held[1] >= chip.peak(precision) * (1 - ROUNDING))
    basis = np.where(corrected & (basis == "measured"), basis_of(chip.name, precision), basis)
    return Rates(held[0], held[1], held[2], basis, corrected)


def _banded(
    run: tuple[Shape, str, Published], precision: str, chip: str, rates: np.ndarray, n: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return lower end, value and upper end (rows) of a format's rates by count, and on what they rest."""
    shape, _, published = run
    known = np.array([published.get((chip, precision), {}).get(int(count), np.nan) for count in n])
    basis = np.where(np.isfinite(known), "measured", basis_of(chip, precision)).astype(object)
    value = np.where(np.isfinite(known), known, rates)
    factor = np.array([BANDS[name, shape.expert_parameters > 0] for name in basis])
    return np.array([value / factor, value, value * factor]), basis
