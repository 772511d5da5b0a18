"""The assumptions of scaling."""

from typing import Literal

from capplan.book.assumptions.base import Timeline, assumption


class ScalingAssumptions(Timeline):
    """What one more accelerator adds."""

    scaling_law: Literal["auto", "usl", "amdahl", "gustafson", "power"] = assumption(
        "auto",
        "Law the answer is read from; auto takes the Universal Scalability Law, averaged with a power law for what a new run will give, and"
        " for weak scaling Gustafson's where it predicts the largest run better.",
        "Gunther, Guerrilla Capacity Planning, 2007: the law contains Amdahl's and linear scaling as special cases.",
    )
    scaling_curve: str | None = assumption(
        None, "Curve of scaling_runs that is looked at closely; None = the first by name.", "None: every curve stands in the table."
    )
    scaling_accelerators: int = assumption(
        256,
        "Number of accelerators whose throughput, efficiency and gain are asked for.",
        "A judgement: a run of a mid-size company.",
        "1 to 1_000_000 by 8 accelerators",
    )
    marginal_share_floor: float = assumption(
        0.5,
        "An accelerator is worth adding while it brings at least this share of what one brings in the smallest measured run.",
        "A judgement: below a half, a second run beside the first does more.",
        "above 0 to below 1 by 0.05 share",
    )
    confidence_share: float = assumption(
        0.95,
        "Probability that a new run lies in the band of its curve.",
        "The usual level of prediction intervals.",
        "0.5 to 0.999 by 0.01 share",
    )
