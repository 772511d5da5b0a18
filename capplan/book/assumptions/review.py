"""Assumptions of the review of an accepted plan against what was billed and used since."""

from capplan.book.assumptions.base import Spread, assumption


class ReviewAssumptions(Spread):
    """What counts as a good forecast, and what is worth a word."""

    forecast_error_share: float = assumption(
        0.15,
        "Error of a month's forecast up to which it counts as good.",
        "The FinOps maturity stages as they are commonly quoted: 20 % variance at the crawl stage, 15 % at the walk stage.",
        "above 0 to 1 by 0.05",
    )
    worth_a_word_share: float = assumption(
        0.01,
        "Part of the planned spend from which on a driver is named in the headline.",
        "A judgement: one percent of spend is what a monthly review talks about.",
        "0 to 1 by 0.005",
    )
    regression_share: float = assumption(
        0.2,
        "Rise of the cost of a unit over the plan's from which on it is flagged.",
        "A judgement: below a fifth, months differ by chance.",
        "0 to 5 by 0.05",
    )
    overrun_share: float = assumption(
        0.2,
        "Time that a workload's jobs take beyond what their owners stated, from which on it is flagged.",
        "A judgement: a fifth over a stated time is a slip of a day a week.",
        "0 to 5 by 0.05",
    )
    step_time_share: float = assumption(
        0.2,
        "Rise of the accelerator-hours of a unit of work over the months before, from which on it is flagged.",
        "A judgement: below a fifth, months differ by their mix of jobs.",
        "0 to 5 by 0.05",
    )
    least_utilisation_share: float = assumption(
        0.5,
        "Share of their time in which a workload's accelerators compute, below which it is flagged.",
        "Jeon et al., USENIX ATC 2019: jobs of a shared cluster used their accelerators 52 % of the time on average.",
        "0 to 1 by 0.05",
    )
    least_goodput_share: float = assumption(
        0.8,
        "Share of a workload's accelerator-hours in jobs that did not fail, below which it is flagged.",
        "Jeon et al., USENIX ATC 2019: jobs that failed took 18 % of the accelerator-hours of a shared cluster.",
        "0 to 1 by 0.05",
    )
    least_scaling_share: float = assumption(
        0.75,
        "Share of proportional speed on the most accelerators that were measured, below which a training curve is flagged.",
        "Shoeybi et al., Megatron-LM (2019): 76 % at 512 accelerators.",
        "0 to 1 by 0.05",
    )
    ask_levers: bool = assumption(
        True,
        "Are levers, crossover and other calls asked, to say which workloads should move?",
        "On: it takes as long as the serving and the crossover question.",
    )
    price_change_share: float = assumption(
        0.2,
        "Rise of prices by use that the register of vendor risks costs.",
        "A judgement: spot prices of A100 and L4 rose by 13 to 22 % a year on GCP from 2022 to 2026 (public price history).",
        "0 to 5 by 0.05",
    )
    bottleneck_wait_share: float = assumption(
        0.25,
        "Share of its time that work waits for data, or on communication, from which on that holds it back.",
        "A judgement: a quarter of what is bought would stand idle.",
        "above 0 to 1 by 0.05",
    )
    usual_utilisation_share: float = assumption(
        0.7,
        "Share of its time in which well-fed work computes.",
        "A judgement, as for the signs of bad placement: half of it is common in shared clusters (Jeon et al., USENIX ATC 2019: 52 %).",
        "above 0 to 1 by 0.05",
    )
    memory_full_share: float = assumption(
        0.9,
        "Share of accelerator memory in use from which on memory holds work back.",
        "vLLM engine arguments: gpu_memory_utilization is 0.9 by default, the part of the memory that an engine may take.",
        "above 0 to 1 by 0.05",
    )
    worth_of_knowing: bool = assumption(
        True,
        "Is the accepted plan made again with what came, to say what knowing it would have been worth?",
        "On: it takes a few decisions like the plan's own.",
    )
    reviewed_plan: str = assumption(
        "",
        "Folder of the plan that is reviewed (a report or an accepted plan); empty = accepted_plan in the book, then reports/sample.",
        "A place, not a number.",
        max_length=4096,
    )
    reviewed_team: str = assumption("", "Team whose part of the difference is listed; empty = all.", "All.")
    reviewed_quarter: str = assumption("", "Quarter (like 2026Q4) whose part of the difference is listed; empty = all.", "All.")
    reviewed_driver: str = assumption("", "Driver whose part of the difference is listed; empty = all.", "All.")
