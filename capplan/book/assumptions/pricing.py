"""The assumptions of the price of an accelerator-hour."""

from __future__ import annotations

from capplan.book.assumptions.base import Timeline, assumption


class PricingAssumptions(Timeline):
    """What an accelerator-hour really costs."""

    discount_rate_per_year: float = assumption(
        0.09,
        "Cost of capital for discounting.",
        "A judgement, near Damodaran, Cost of Equity and Capital (US), NYU Stern, January 2026: equity of an industry with a beta of 1.2"
        " costs 9.3 %, debt 4 % after tax.",
        unit="share/year",
        ge=0,
        le=0.5,
        step=0.005,
    )
    useful_life_years: float = assumption(
        5.0,
        "Useful life of owned machines, straight line.",
        "Amazon, 10-K for 2024: the life of a subset of its servers falls from six to five years from 2025 on, for the pace of AI hardware;"
        " five is the cautious end.",
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
        "A judgement, between about 1.1 of the largest operators and 1.56, the industry's average in the Uptime Institute Global Data"
        " Center Survey 2024.",
        ge=1,
        le=3,
        step=0.05,
    )
    usd_per_kwh: float = assumption(
        0.09,
        "Price of electricity where a site states none.",
        "U.S. EIA, Electric Power Monthly, table 5.6, April 2025: industrial customers paid 8.7 cents in the East North Central and 9.0 in"
        " the Middle Atlantic states.",
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
