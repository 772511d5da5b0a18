"""The assumptions of each question: one small frozen model, every default with its unit, bounds and source."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from capplan.units import QUARTER_PATTERN


def assumption(default: Any, meaning: str, source: str, *, unit: str = "", step: float | None = None, **bounds: Any) -> Any:
    """Declare an assumption: default, meaning, unit, slider step, bounds, and the source of the default."""
    return Field(default, description=meaning, json_schema_extra={"unit": unit, "source": source, "step": step}, **bounds)


class Section(BaseModel):
    """Base of all sections: frozen, no unknown names."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    def digest(self) -> str:
        """Return a short digest of all values: the section's part of a cache key."""
        text = json.dumps(self.model_dump(mode="json"), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


class Timeline(Section):
    """When: what every question must agree on."""

    as_of: dt.date = assumption(
        dt.date(2026, 12, 1),
        "Day the plan is made; nothing reads the clock.",
        "Set by the book: the day its prices and usage were collected.",
    )
    first_quarter: str = assumption(
        "2027Q1", "First quarter that is planned.", "Set by the book: the first quarter that starts after as_of.", pattern=QUARTER_PATTERN
    )
    horizon_quarters: int = assumption(
        8,
        "Quarters that are planned.",
        "Two budget years: a yearly budget is set up to a year ahead, and one-year terms must be seen to their end.",
        unit="quarters",
        ge=1,
        le=12,
        step=1,
    )
    hours_convention: Literal["calendar", "average"] = assumption(
        "calendar",
        "Quarters with their real hours, or with 2,190 each.",
        "Invoices count real hours; 2,190 = 8,760 / 4 serves comparisons with textbook problems.",
    )
    seed: int = assumption(
        7, "Seed of everything that is drawn at random.", "Any fixed number; the same seed gives the same plan.", ge=0, le=2**31 - 1
    )


class Spread(Timeline):
    """Where work that falls into many pieces is done."""

    workers: str | None = assumption(
        None,
        "Address of a Dask cluster that does the parallel work; empty = the cores of this machine. The numbers are the same.",
        "This machine: a cluster pays from thousands of series on.",
    )


class DemandAssumptions(Spread):
    """How much work will come."""

    paths: int = assumption(
        200,
        "Sample paths of the future.",
        "A 5 % quantile from 200 paths has a standard error of 1.5 points of probability (binomial).",
        ge=10,
        le=5000,
        step=10,
    )
    load_blocks: int = assumption(
        5,
        "Load blocks into which the hours of a quarter are sorted, from peak to base.",
        "A judgement after the practice of screening curves: a few blocks, narrow at the peak.",
        unit="blocks",
        ge=1,
        le=24,
        step=1,
    )
    growth_share_per_year: float | None = assumption(
        None,
        "Yearly growth of demand; empty = estimated from the history and damped.",
        "No default growth is assumed: the history decides, damped because undamped trends overshoot over long horizons (Gardner and McKenzie, 1985).",
        unit="share/year",
        ge=-0.9,
        le=10,
        step=0.05,
    )
    growth_band_share: float = assumption(
        0.3,
        "Half width of the 80 % band around yearly growth, where the history is shorter than two years; wider where the history itself leaves growth less certain.",
        "A judgement of this book's makers: one year of history cannot separate growth from season; move it and watch the plan.",
        unit="share/year",
        ge=0,
        le=3,
        step=0.05,
    )
    season_band_share: float = assumption(
        0.15,
        "Half width of the 80 % band of a yearly season (its sine and its cosine), where the history is shorter than two years; 0 = no season.",
        "A judgement of this book's makers: business use falls at the turn of the year and in summer, by how much is not known before two years are; move it and watch the plan.",
        unit="share",
        ge=0,
        le=1,
        step=0.05,
    )
    demand_factor: float = assumption(
        1.0, "Multiplies all demand that will come.", "1 = as forecast or stated.", unit="factor", ge=0.0, le=10, step=0.05
    )
    event_strength: float = assumption(
        1.0, "Multiplies the effect of all known events (0 = ignore them).", "1 = as stated in the events table.", ge=0, le=3, step=0.1
    )
    unmet_share: float = assumption(
        1.0,
        "Share of queued and refused work that counts as demand.",
        "1 = all of it: refused work is demand that capacity hid.",
        unit="share",
        ge=0,
        le=1,
        step=0.05,
    )


class PricingAssumptions(Timeline):
    """What an accelerator-hour really costs."""

    discount_rate_per_year: float = assumption(
        0.09,
        "Cost of capital for discounting.",
        "A judgement, near Damodaran, Cost of Equity and Capital (US), NYU Stern, January 2026: equity of an industry with a beta of 1.2 costs 9.3 %, debt 4 % after tax.",
        unit="share/year",
        ge=0,
        le=0.5,
        step=0.005,
    )
    useful_life_years: float = assumption(
        5.0,
        "Useful life of owned machines, straight line.",
        "Amazon, 10-K for 2024: the life of a subset of its servers falls from six to five years from 2025 on, for the pace of AI hardware; five is the cautious end.",
        unit="years",
        ge=1,
        le=10,
        step=0.5,
    )
    residual_share: float = assumption(
        0.1,
        "Share of the purchase price left at the end of the useful life.",
        "A judgement: the middle of the band below.",
        unit="share",
        ge=0,
        le=0.6,
        step=0.05,
    )
    residual_band_share: float = assumption(
        0.1,
        "Half width of the band around the residual value.",
        "A judgement, shown as a band: from scrap to a fifth of the price.",
        unit="share",
        ge=0,
        le=0.3,
        step=0.05,
    )
    pue: float = assumption(
        1.3,
        "Power usage effectiveness where a site states none.",
        "A judgement, between about 1.1 of the largest operators and 1.56, the industry's average in the Uptime Institute Global Data Center Survey 2024.",
        ge=1,
        le=3,
        step=0.05,
    )
    usd_per_kwh: float = assumption(
        0.085,
        "Price of electricity where a site states none.",
        "U.S. EIA, Electric Power Monthly, table 5.6, April 2025: industrial customers paid 8.7 cents in the East North Central and 9.0 in the Middle Atlantic states.",
        unit="USD/kWh",
        ge=0,
        le=1,
        step=0.005,
    )
    colocation_usd_per_kw_month: float = assumption(
        184.0,
        "Space and committed power of owned machines where a site states none.",
        "CBRE, North America Data Center Trends H2 2024: asking rate of 184.06 USD per kW and month for 250 to 500 kW in primary markets.",
        unit="USD/kW/month",
        ge=0,
        le=1000,
        step=5,
    )
    upkeep_share_per_year: float = assumption(
        0.05,
        "Yearly support, spares and hands for owned machines, as a share of their price.",
        "A judgement: vendor support and spares at a twentieth of the purchase price a year; check it against your quote.",
        unit="share/year",
        ge=0,
        le=0.3,
        step=0.01,
    )
    restart_hours: float = assumption(
        0.5,
        "Work lost at each interruption of a spot machine: half a checkpoint interval and the restart.",
        "A judgement: hourly checkpoints lose half an hour on average.",
        unit="h",
        ge=0,
        le=24,
        step=0.1,
    )
    spot_interruptions_per_hour: float = assumption(
        0.0002,
        "Interruptions of a spot machine in an hour where the offer states none.",
        "AWS Spot Instance Advisor: its band of 10 to 15 % a month is 0.00014 to 0.00022 an hour.",
        unit="1/h",
        ge=0,
        le=1,
        step=0.0001,
    )
    on_demand_available_share: float = assumption(
        1.0,
        "Share of what is asked for on demand that is had, where the offer states none.",
        "1 = a pool's cap already says what can be had; providers publish no share of requests that are met.",
        unit="share",
        gt=0,
        le=1,
        step=0.05,
    )
    price_factor: float = assumption(1.0, "Multiplies every price that is not signed yet.", "1 = as offered.", ge=0.2, le=5, step=0.05)
    stale_after_days: int = assumption(
        120,
        "A price older than this is flagged in the plan.",
        "A judgement: a planning quarter and a month, since list prices change a few times a year.",
        unit="days",
        ge=1,
        le=1000,
        step=10,
    )


class ProcurementAssumptions(PricingAssumptions):
    """What to buy, each quarter."""

    review_interval_quarters: int = assumption(
        1,
        "Quarters until the plan is made anew; what can wait for that is indicative.",
        "A quarterly plan.",
        unit="quarters",
        ge=1,
        le=4,
        step=1,
    )
    approval_days: int = assumption(
        30, "Days from decision to signature.", "A judgement: a month for budget owner, finance and legal.", unit="days", ge=0, le=180, step=5,
    )  # fmt: skip
    service_level_share: float = assumption(
        0.0, "Share of each class's work that must be served on average over the planned quarters; 0 = the cost of shortfall alone decides.",
        "0: a stated cost of shortfall weighs service against money; a level overrides it.", unit="share", ge=0, le=1, step=0.005,
    )  # fmt: skip
    plan_paths: int = assumption(
        40, "Paths the optimiser looks at, drawn from the demand paths.",
        "A judgement: enough that another draw changes expected cost little; the plan states the difference.", ge=1, le=5000, step=10,
    )  # fmt: skip
    risk_weight: float = assumption(
        0.2, "Weight of the bad cases (CVaR) against the average.",
        "A judgement, as every risk preference is: 0 is neutral, 1 looks at bad cases only.", unit="share", ge=0, le=1, step=0.05,
    )  # fmt: skip
    tail_share: float = assumption(
        0.2, "Share of worst cases that CVaR averages.",
        "A judgement: Rockafellar and Uryasev (2000) use 1, 5 and 10 %; a fifth keeps enough paths in the tail.", unit="share", gt=0, le=1, step=0.05,
    )  # fmt: skip
    demand_branches: int = assumption(
        3,
        "Groups of demand paths told apart at the next review, after which later purchases may differ; 1 = the same on all paths.",
        "A judgement: low, middle and high demand; more groups stand on few paths each.",
        ge=1,
        le=5,
        step=1,
    )
    gap_share: float = assumption(
        0.001, "Proven gap at which the optimiser may stop.", "0.1 %: far below the error of any forecast.", unit="share", ge=0, le=0.2, step=0.0005,
    )  # fmt: skip
    time_limit_seconds: float = assumption(
        0.0, "Seconds after which the search for the plan ends with the best plan found and its proven gap; 0 = no limit, so that runs repeat to the last digit.",
        "0: the gap decides, since what a clock ends depends on the machine.", unit="s", ge=0, le=86_400, step=10,
    )  # fmt: skip
    serving_shortfall_usd_per_accelerator_hour: float = assumption(
        25.0,
        "Cost of missing, for serving, what the fastest accelerator its speeds name does in an hour, where the workload states none.",
        "A judgement: several times the on-demand price, since unserved customers leave.",
        unit="USD/h",
        gt=0,
        le=1000,
        step=1,
    )
    batch_shortfall_usd_per_accelerator_hour: float = assumption(
        12.0,
        "Cost of missing, for training and other batch work, what the fastest accelerator its speeds name does in an hour, where the workload states none.",
        "A judgement: about twice the on-demand price, since delay costs less than loss.",
        unit="USD/h",
        gt=0,
        le=1000,
        step=1,
    )
    on_demand_accelerators: float = assumption(
        64.0,
        "Accelerators that can be had on demand in a pool, where no limit says otherwise.",
        "A judgement: eight 8-accelerator machines; large types are often sold out.",
        unit="accelerators",
        ge=0,
        le=100000,
        step=8,
    )
    spot_accelerators: float = assumption(
        32.0,
        "Accelerators that can be had as spot in a pool, where no limit says otherwise.",
        "A judgement: half of the on-demand pool.",
        unit="accelerators",
        ge=0,
        le=100000,
        step=8,
    )
    spot_scarcity: float = assumption(
        0.5,
        "Share of the spot in a pool that is gone for each share by which demand stands above what is expected for the hour; 0 = the cap holds whatever comes.",
        "A judgement: half of a surprise is the market's. Kim et al., arXiv 2604.16457 (2026): over 92 % of interruptions of one type and zone come within three minutes, so spot goes for all at once.",
        unit="share/share",
        ge=0,
        le=10,
        step=0.1,
    )
    deferral_quarters: int = assumption(
        0, "Quarters by which work that may be deferred can be put off when the plan is made; the same in all futures.",
        "0 = the roadmap's dates stand; put work off where its deadline allows it.", unit="quarters", ge=0, le=4, step=1,
    )  # fmt: skip
    deferral_cost_share_per_quarter: float = assumption(
        0.05, "Cost of putting work off by a quarter, as a share of what leaving it undone costs.",
        "A judgement: delayed work keeps most of its value.", unit="share/quarter", ge=0, le=1, step=0.01,
    )  # fmt: skip
    horizon_end: Literal["hold_demand", "truncate", "count_in_full"] = assumption(
        "hold_demand",
        "Contracts that outlive the horizon: costed to their end against demand held at the last quarter, cut off there, or counted in full as if useless afterwards.",
        "Truncation hides liabilities, counting in full forbids long terms; holding demand does neither.",
    )
    reuse_share: float = assumption(
        0.0,
        "Share of its price that an unused committed hour brings back after the horizon.",
        "0 = nothing: the cautious end.",
        unit="share",
        ge=0,
        le=1,
        step=0.05,
    )
    later_quotes: Literal["renewed", "list_price"] = assumption(
        "renewed",
        "Price of a contract that will be signed after today's quote has expired: the quote is given again, or only the list price holds.",
        "Quotes are usually given anew at the market's price; the list price is the cautious end, and often far above it.",
    )
    renewal_without_price: Literal["same_price", "not_offered"] = assumption(
        "same_price",
        "Reservations, leases and savings plans that state no renewal price and that no offer could replace like for like: renewable at today's price, or not.",
        "A judgement: until a quote is in, today's price is the best guess; the plan names each such contract.",
    )
    soft_limit_penalty_share: float = assumption(
        0.25,
        "Price of breaking a soft budget, per dollar over it.",
        "A judgement: a quarter on the dollar makes it a last resort.",
        unit="share",
        ge=0,
        le=100,
        step=0.05,
    )
    quota_factor: float = assumption(
        1.0, "Multiplies quotas and what can be had by the hour, where limits.csv states them.", "1 = as stated.", unit="factor", ge=0, le=3, step=0.05
    )
    budget_factor: float = assumption(1.0, "Multiplies all budgets.", "1 = as stated.", unit="factor", ge=0, le=3, step=0.05)
    target_coverage_share: float = assumption(
        0.8,
        "Share of past use that a coverage rule commits to.",
        "FinOps Foundation, maturity model: coverage targets of about 60 % (crawl), 70 % (walk) and 80 % (run).",
        unit="share",
        gt=0,
        lt=1,
        step=0.05,
    )
    providers: tuple[str, ...] = assumption((), "Providers that may be bought from; empty = all.", "All that the tables offer.")
    geographies: tuple[str, ...] = assumption((), "Geographies that may be bought in; empty = all.", "All that the tables offer.")
    excluded_offers: tuple[str, ...] = assumption((), "Offers that must not be bought.", "None.")
    pinned_purchases: tuple[tuple[str, str, int], ...] = assumption((), "Purchases that are fixed: offer, quarter, lots.", "None.")
