"""What of the demand forecast is shown, and how it is tested; nothing here changes a forecast."""

from __future__ import annotations

from typing import Literal

from capplan.inputs.assumptions import Timeline, assumption


class DemandViewAssumptions(Timeline):
    """Which workloads, which quantile, how many tests."""

    shown_workloads: tuple[str, ...] = assumption(
        (), "Workloads that the demand question shows; empty = all of them.", "All: nothing is hidden until somebody picks."
    )
    shown_quantile: Literal["P75", "P90", "P95"] = assumption(
        "P90",
        "Quantile of demand that the demand question puts beside the median.",
        "P90 is what one quarter in ten exceeds, the usual cautious case of a budget; a judgement.",
    )
    backtest_origins: int = assumption(
        4,
        "Past days from which the forecast is made anew and compared with what came; 0 = no test.",
        "A judgement: four spread over a year touch every season, and each costs a fit of all series.",
        unit="origins",
        ge=0,
        le=24,
        step=1,
    )
