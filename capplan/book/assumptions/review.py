"""Assumptions of the review of an accepted plan against what was billed and used since."""

from __future__ import annotations

from capplan.book.assumptions.base import Spread, assumption


class ReviewAssumptions(Spread):
    """What counts as a good forecast, and what is worth a word."""

    forecast_error_share: float = assumption(
        0.15,
        "Error of a month's forecast up to which it counts as good.",
        "The FinOps maturity stages as they are commonly quoted: 20 % variance at the crawl stage, 15 % at the walk stage.",
        gt=0,
        le=1,
        step=0.05,
    )
    worth_a_word_share: float = assumption(
        0.01,
        "Part of the planned spend from which on a driver is named in the headline.",
        "A judgement: one percent of spend is what a monthly review talks about.",
        ge=0,
        le=1,
        step=0.005,
    )
    regression_share: float = assumption(
        0.2,
        "Rise of the cost of a unit over the plan's from which on it is flagged.",
        "A judgement: below a fifth, months differ by chance.",
        ge=0,
        le=5,
        step=0.05,
    )
    price_change_share: float = assumption(
        0.2,
        "Rise of prices by use that the register of vendor risks costs.",
        "A judgement: spot prices of A100 and L4 rose by 13 to 22 % a year on GCP from 2022 to 2026 (public price history).",
        ge=0,
        le=5,
        step=0.05,
    )
    reviewed_plan: str = assumption(
        "",
        "Folder of the plan that is reviewed (a report or an accepted plan); empty = accepted_plan in the book, then reports/sample.",
        "A place, not a number.",
        max_length=4096,
    )
    reviewed_team: str = assumption("", "Team whose part of the difference is listed; empty = all.", "All.")
    reviewed_driver: str = assumption("", "Driver whose part of the difference is listed; empty = all.", "All.")
