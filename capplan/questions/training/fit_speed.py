"""Factors of the parts of a training step from measured runs."""

import numpy as np
import pandas as pd

from capplan.questions.training.speed import CLOCKED, PARTS, POWER_PRIOR, PRIORS, Factors, clock_factor, step_parts
from capplan.records import word_list

#: How strongly a factor is held to where it is sought from, and the error (logarithm) from which one counts less than its square.
PULL, LARGE_ERROR = 0.35, 0.15
WORK = word_list(
    "parameters active expert_parameters layers width attention_width kv_width vocabulary experts experts_per_token sequence_length"
    " batch_sequences micro_batch again rate"
)
CHIP = ("bf16_rate", "bandwidth", "link", "network", "domain", "power_w")
LAYOUT = ("used", "tensor", "pipeline", "context", "expert", "data", "stage", "micro_batches", "bubble")


def fit_speed(rows: pd.DataFrame) -> Factors:
    r"""Fit the factors of the parts so that the logarithms of measured and expected speeds agree.

    .. math:: \min_f \sum_j w_j\,\rho\left(\ln G_j(f) + \ln x_j\right) + \sum_i \left(0.35 \ln\frac{f_i}{f_i^0}\right)^2

    Rows of one model, accelerator and number format count together as the root of their number; large errors count less than their square.

    Args:
        rows: One row a measured run: model, accelerator, precision, tokens_per_second (of one accelerator), and the columns of WORK, CHIP
            and LAYOUT.
    """
    from scipy.optimize import least_squares

    parts, slower, bubble = _parts(rows)
    scaled = parts * np.array([PRIORS[name] for name in PARTS])
    clocked = np.array([name in CLOCKED for name in PARTS])
    measured = -np.log(rows["tokens_per_second"].to_numpy(dtype=float))
    groups = rows.groupby(["model", "accelerator", "precision"])["tokens_per_second"].transform("size").to_numpy()

    def residuals(logs: np.ndarray) -> np.ndarray:
        stretched = scaled * np.exp(logs[:-1]) * np.where(clocked, slower[:, None] ** (POWER_PRIOR + logs[-1]), 1.0)
        return np.concatenate([(np.log(stretched.sum(axis=1) * bubble) - measured) / np.sqrt(groups), PULL * logs])

    found = least_squares(residuals, np.zeros(len(PARTS) + 1), loss="soft_l1", f_scale=LARGE_ERROR).x
    values = [float(f"{PRIORS[name] * np.exp(log):.5g}") for name, log in zip(PARTS, found[:-1], strict=True)]
    return Factors(tuple(values), round(float(POWER_PRIOR + found[-1]), 4))


def _parts(rows: pd.DataFrame) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the parts of each row (one column each), how much slower its chip is per unit of the exponent, and its bubble."""
    work, chip, layout = ({name: rows[name].to_numpy(dtype=float) for name in names} for names in (WORK, CHIP, LAYOUT))
    parts = step_parts(work, chip, layout)
    table = np.column_stack([np.broadcast_to(parts[name], len(rows)) for name in PARTS])
    return table, np.asarray(clock_factor(chip["power_w"], chip["bf16_rate"] / 1e12, 1.0)), 1 + layout["bubble"]
