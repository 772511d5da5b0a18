"""The assumptions of the demand forecast, and of what is shown of it and how it is tested."""

from typing import Literal

from capplan.book.assumptions.base import Spread, Timeline, assumption


class DemandAssumptions(Spread):
    """How much work will come."""

    paths: int = assumption(
        200,
        "Sample paths of the future.",
        "A 5 % quantile from 200 paths has a standard error of 1.5 points of probability (binomial).",
        "10 to 5000 by 10",
    )
    load_blocks: int = assumption(
        5,
        "Load blocks into which the hours of a quarter are sorted, from peak to base.",
        "A judgement after the practice of screening curves: a few blocks, narrow at the peak.",
        "1 to 24 by 1 blocks",
    )
    growth_share_per_year: float | None = assumption(
        None,
        "Yearly growth of demand; empty = estimated from the history, and damped where it is shorter than two years.",
        "No default growth is assumed: the history decides, damped because undamped trends overshoot over long horizons (Gardner and"
        " McKenzie, 1985).",
        "-0.9 to 10 by 0.05 share/year",
    )
    growth_band_share: float = assumption(
        0.3,
        "Half width of the 80 % band around yearly growth, where the history is shorter than two years; wider where the history itself"
        " leaves growth less certain.",
        "A judgement of this book's makers: one year of history cannot separate growth from season; move it and watch the plan.",
        "0 to 3 by 0.05 share/year",
    )
    season_band_share: float = assumption(
        0.15,
        "Half width of the 80 % band of a yearly season (its sine and its cosine), where the history is shorter than two years; 0 = no"
        " season.",
        "A judgement of this book's makers: business use falls at the turn of the year and in summer, by how much is not known before two"
        " years are; move it and watch the plan.",
        "0 to 1 by 0.05 share",
    )
    demand_factor: float = assumption(
        1.0, "Multiplies all demand that will come.", "1 = as forecast or stated.", "0.0 to 10 by 0.05 factor"
    )
    event_strength: float = assumption(
        1.0, "Multiplies the effect of all known events (0 = ignore them).", "1 = as stated in the events table.", "0 to 3 by 0.1"
    )
    unmet_share: float = assumption(
        1.0,
        "Share of queued and refused work that counts as demand.",
        "1 = all of it: refused work is demand that capacity hid.",
        "0 to 1 by 0.05 share",
    )


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
        "0 to 24 by 1 origins",
    )
