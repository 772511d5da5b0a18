"""The assumptions of the purchase plan."""

from typing import Literal

from capplan.book.assumptions.base import assumption
from capplan.book.assumptions.pricing import PricingAssumptions


class ProcurementAssumptions(PricingAssumptions):
    """What to buy, each quarter."""

    review_interval_quarters: int = assumption(
        1, "Quarters until the plan is made anew; what can wait for that is indicative.", "A quarterly plan.", "1 to 4 by 1 quarters"
    )
    approval_days: int = assumption(
        30, "Days from decision to signature.", "A judgement: a month for budget owner, finance and legal.", "0 to 180 by 5 days"
    )
    service_level_share: float = assumption(
        0.0,
        "Share of each class's work that must be served on average over the planned quarters; 0 = the cost of shortfall alone decides.",
        "0: a stated cost of shortfall weighs service against money; a level overrides it.",
        "0 to 1 by 0.005 share",
    )
    plan_paths: int = assumption(
        40,
        "Paths the optimiser looks at, drawn from the demand paths.",
        "A judgement: enough that another draw changes expected cost little; the plan states the difference.",
        "1 to 5000 by 10",
    )
    risk_weight: float = assumption(
        0.2,
        "Weight of the bad cases (CVaR) against the average.",
        "A judgement, as every risk preference is: 0 is neutral, 1 looks at bad cases only.",
        "0 to 1 by 0.05 share",
    )
    tail_share: float = assumption(
        0.2,
        "Share of worst cases that CVaR averages.",
        "A judgement: Rockafellar and Uryasev (2000) use 1, 5 and 10 %; a fifth keeps enough paths in the tail.",
        "above 0 to 1 by 0.05 share",
    )
    demand_branches: int = assumption(
        3,
        "Groups of demand paths told apart at the next review, after which later purchases may differ; 1 = the same on all paths.",
        "A judgement: low, middle and high demand; more groups stand on few paths each.",
        "1 to 5 by 1",
    )
    gap_share: float = assumption(
        0.0025,
        "Proven gap at which the optimiser may stop; less asks for a closer proof, which takes longer.",
        "0.25 %: a tenth of what the best forecasts miss by, and where more precision stops paying for its time.",
        "0 to 0.2 by 0.0005 share",
    )
    time_limit_seconds: float = assumption(
        0.0,
        "Seconds after which the search for the plan ends with the best plan found and its proven gap; 0 = no limit, so that runs repeat to"
        " the last digit.",
        "0: the gap decides, since what a clock ends depends on the machine.",
        "0 to 86_400 by 10 s",
    )
    serving_shortfall_usd_per_accelerator_hour: float = assumption(
        25.0,
        "Cost of missing, for serving, what the fastest accelerator that can be had for it does in an hour, where the workload states"
        " none.",
        "A judgement: several times the on-demand price, since unserved customers leave.",
        "above 0 to 1000 by 1 USD/h",
    )
    batch_shortfall_usd_per_accelerator_hour: float = assumption(
        20.0,
        "Cost of missing, for training and other batch work, what the fastest accelerator that can be had for it does in an hour, where the"
        " workload states none.",
        "A judgement: above the listed on-demand prices of an accelerator-hour (at most 18 USD, a GB300 at Oracle) but Azure's of a GB200"
        " (27 to 34), so that such work is done where it can be; delay costs less than loss.",
        "above 0 to 1000 by 1 USD/h",
    )
    on_demand_accelerators: float = assumption(
        64.0,
        "Accelerators that can be had on demand in a pool, where no limit says otherwise.",
        "A judgement: eight 8-accelerator machines; large types are often sold out.",
        "0 to 100000 by 8 accelerators",
    )
    spot_accelerators: float = assumption(
        32.0,
        "Accelerators that can be had as spot in a pool, where no limit says otherwise.",
        "A judgement: half of the on-demand pool.",
        "0 to 100000 by 8 accelerators",
    )
    spot_scarcity: float = assumption(
        0.5,
        "Share of the spot in a pool that is gone for each share by which demand stands above what is expected for the hour; 0 = the cap"
        " holds whatever comes.",
        "A judgement: half of a surprise is the market's. Kim et al., arXiv 2604.16457 (2026): over 92 % of interruptions of one type and"
        " zone come within three minutes, so spot goes for all at once.",
        "0 to 10 by 0.1 share/share",
    )
    deferral_quarters: int = assumption(
        0,
        "Quarters by which work that may be deferred can be put off when the plan is made; the same in all futures.",
        "0 = the roadmap's dates stand; put work off where its deadline allows it.",
        "0 to 4 by 1 quarters",
    )
    deferral_cost_share_per_quarter: float = assumption(
        0.05,
        "Cost of putting work off by a quarter, as a share of what leaving it undone costs.",
        "A judgement: delayed work keeps most of its value.",
        "0 to 1 by 0.01 share/quarter",
    )
    horizon_end: Literal["hold_demand", "truncate", "count_in_full"] = assumption(
        "hold_demand",
        "Contracts that outlive the horizon: costed on, while the last quarter's demand is still served in the years after it, cut off"
        " there, or counted in full as if useless afterwards.",
        "Truncation hides liabilities, counting in full forbids long terms; serving demand on does neither.",
    )
    years_after_horizon: int = assumption(
        3,
        "Years after the horizon in which the last quarter's demand is served at the prices of that time, where it is held; whatever runs"
        " longer is cut off there.",
        "Three: the longest common term, signed in the last planned quarter, is seen to its end. The same whatever is offered, so that no"
        " offer makes a plan longer and dearer.",
        "0 to 10 by 1 years",
    )
    reuse_share: float = assumption(
        0.0,
        "Share of its price that an unused committed hour brings back after the horizon.",
        "0 = nothing: the cautious end.",
        "0 to 1 by 0.05 share",
    )
    later_quotes: Literal["renewed", "list_price"] = assumption(
        "renewed",
        "Price of a contract that will be signed after today's quote has expired: the quote is given again, or only the list price holds.",
        "Quotes are usually given anew at the market's price; the list price is the cautious end, and often far above it.",
    )
    renewal_without_price: Literal["same_price", "not_offered"] = assumption(
        "same_price",
        "Reservations, leases and savings plans that state no renewal price and that no offer could replace like for like: renewable at"
        " today's price, or not.",
        "A judgement: until a quote is in, today's price is the best guess; the plan names each such contract.",
    )
    hyperscaler_price_change_share_per_year: float = assumption(
        0.0,
        "Change of prices a year at large clouds (aws, azure, gcp, oci), for contracts not yet signed, where no price path says otherwise.",
        "Public price list of Google Cloud, 2022 to 2026: on demand and commitments of A100, H100 and L4 flat to +1 % a year. Cuts come as"
        " steps (AWS, p5 by up to 45 % in June 2025): state them.",
        "-0.95 to 1 by 0.01 share/year",
    )
    specialist_price_change_share_per_year: float = assumption(
        -0.1,
        "Change of prices a year at specialised clouds (coreweave, nebius, lambda, ...), for contracts not yet signed, where no price path"
        " says otherwise.",
        "One-year H100 contracts: about 2.85 USD/h early in 2024, 1.70 in October 2025, 2.35 in March 2026 (Latent Space; SemiAnalysis): 9"
        " % a year, with swings of 40 % either way.",
        "-0.95 to 1 by 0.01 share/year",
    )
    soft_limit_penalty_share: float = assumption(
        0.25,
        "Price of breaking a soft budget, per dollar over it.",
        "A judgement: a quarter on the dollar makes it a last resort.",
        "0 to 100 by 0.05 share",
    )
    quota_factor: float = assumption(
        1.0, "Multiplies quotas and what can be had by the hour, where limits.csv states them.", "1 = as stated.", "0 to 3 by 0.05 factor"
    )
    budget_factor: float = assumption(1.0, "Multiplies all budgets.", "1 = as stated.", "0 to 3 by 0.05 factor")
    target_coverage_share: float = assumption(
        0.8,
        "Share of past use that a coverage rule commits to.",
        "FinOps Foundation, maturity model: coverage targets of about 60 % (crawl), 70 % (walk) and 80 % (run).",
        "above 0 to below 1 by 0.05 share",
    )
    providers: tuple[str, ...] = assumption((), "Providers that may be bought from; empty = all.", "All that the tables offer.")
    geographies: tuple[str, ...] = assumption((), "Geographies that may be bought in; empty = all.", "All that the tables offer.")
    excluded_offers: tuple[str, ...] = assumption((), "Offers that must not be bought.", "None.")
    pinned_purchases: tuple[tuple[str, str, int], ...] = assumption((), "Purchases that are fixed: offer, quarter, lots.", "None.")
