"""The assumptions of the price of an accelerator-hour."""

from capplan.book.assumptions.base import Timeline, assumption


class PricingAssumptions(Timeline):
    """What an accelerator-hour really costs."""

    discount_rate_per_year: float = assumption(
        0.09,
        "Cost of capital for discounting.",
        "A judgement, near Damodaran, Cost of Equity and Capital (US), NYU Stern, January 2026: equity of an industry with a beta of 1.2"
        " costs 9.3 %, debt 4 % after tax.",
        "0 to 0.5 by 0.005 share/year",
    )
    useful_life_years: float = assumption(
        5.0,
        "Useful life of owned machines, straight line.",
        "Amazon, 10-K for 2024: the life of a subset of its servers falls from six to five years from 2025 on, for the pace of AI hardware;"
        " five is the cautious end.",
        "1 to 10 by 0.5 years",
    )
    residual_share: float = assumption(
        0.1,
        "Share of the purchase price left at the end of the useful life.",
        "A judgement: the middle of the band below.",
        "0 to 0.6 by 0.05 share",
    )
    residual_band_share: float = assumption(
        0.1,
        "Half width of the band around the residual value.",
        "A judgement, shown as a band: from scrap to a fifth of the price.",
        "0 to 0.3 by 0.05 share",
    )
    pue: float = assumption(
        1.3,
        "Power usage effectiveness where a site states none.",
        "A judgement, between about 1.1 of the largest operators and 1.56, the industry's average in the Uptime Institute Global Data"
        " Center Survey 2024.",
        "1 to 3 by 0.05",
    )
    usd_per_kwh: float = assumption(
        0.09,
        "Price of electricity where a site states none.",
        "U.S. EIA, Electric Power Monthly, table 5.6, April 2025: industrial customers paid 8.7 cents in the East North Central and 9.0 in"
        " the Middle Atlantic states.",
        "0 to 1 by 0.005 USD/kWh",
    )
    colocation_usd_per_kw_month: float = assumption(
        184.0,
        "Space and committed power of owned machines where a site states none.",
        "CBRE, North America Data Center Trends H2 2024: asking rate of 184.06 USD per kW and month for 250 to 500 kW in primary markets.",
        "0 to 1000 by 5 USD/kW/month",
    )
    upkeep_share_per_year: float = assumption(
        0.05,
        "Yearly support, spares and hands for owned machines, as a share of their price.",
        "A judgement: vendor support and spares at a twentieth of the purchase price a year; check it against your quote.",
        "0 to 0.3 by 0.01 share/year",
    )
    restart_hours: float = assumption(
        0.5,
        "Work lost at each interruption of a spot machine: half a checkpoint interval and the restart.",
        "A judgement: hourly checkpoints lose half an hour on average.",
        "0 to 24 by 0.1 h",
    )
    spot_interruptions_per_hour: float = assumption(
        0.0002,
        "Interruptions of a spot machine in an hour where the offer states none.",
        "AWS Spot Instance Advisor: its band of 10 to 15 % a month is 0.00014 to 0.00022 an hour.",
        "0 to 1 by 0.0001 1/h",
    )
    on_demand_available_share: float = assumption(
        1.0,
        "Share of what is asked for on demand that is had, where the offer states none.",
        "1 = a pool's cap already says what can be had; providers publish no share of requests that are met.",
        "above 0 to 1 by 0.05 share",
    )
    price_factor: float = assumption(1.0, "Multiplies every price that is not signed yet.", "1 = as offered.", "0.2 to 5 by 0.05")
    stale_after_days: int = assumption(
        120,
        "A price older than this is flagged in the plan.",
        "A judgement: a planning quarter and a month, since list prices change a few times a year.",
        "1 to 1000 by 10 days",
    )
