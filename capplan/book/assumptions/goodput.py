"""The assumptions of goodput: how much of a paid hour is progress."""

from capplan.book.assumptions.base import assumption
from capplan.book.assumptions.pricing import PricingAssumptions


class GoodputAssumptions(PricingAssumptions):
    """How much of a paid hour is progress."""

    run_accelerators: int = assumption(
        256,
        "Accelerators of the run whose goodput is asked for.",
        "A judgement: a run of a mid-size company; failures grow with the count.",
        "1 to 1_000_000 by 8 accelerators",
    )
    goodput_accelerator: str = assumption(
        "H100", "Accelerator of the run.", "The accelerator most public training runs of 2024 to 2026 were made on."
    )
    failure_fleet: str = assumption(
        "",
        "Fleet of the failures table whose rate is taken; empty = the mean of the fleets with the offer's accelerator, or of all where none"
        " has it.",
        "Empty: the nearest evidence the table holds.",
    )
    failure_factor: float = assumption(1.0, "Multiplies the failure rates of all nodes.", "1 = as counted.", "0 to 20 by 0.1 factor")
    checkpoint_write_seconds: float = assumption(
        30.0,
        "Time for which a checkpoint stops the run.",
        "With a restart of 5 minutes it gives the 90 % of effective training time that the Llama 3 report states at an interruption every"
        " 3.1 hours.",
        "above 0 to 7200 by 5 s",
    )
    checkpoint_interval_minutes: float = assumption(
        0.0,
        "Work between two checkpoints; 0 = the interval that loses least.",
        "The exact optimum for failures without memory (Daly 2006, with Lambert's W).",
        "0 to 1440 by 5 min",
    )
    recovery_minutes: float = assumption(
        5.0,
        "Paid time from a failure until work goes on from the last checkpoint, on machines that are held.",
        "With checkpoints of 30 s it gives the 90 % of effective training time that the Llama 3 report states at an interruption every 3.1"
        " hours.",
        "0 to 1440 by 1 min",
    )
    spot_replacement_minutes: float = assumption(
        10.0,
        "Further time until an interrupted spot machine is replaced, while the others of the run wait and are paid.",
        "A judgement: asking for a machine, starting it and loading the environment takes minutes where there is one to be had.",
        "0 to 1440 by 5 min",
    )
    compute_share: float = assumption(
        0.97,
        "Share of the running time in which accelerators compute and do not wait for input.",
        "A judgement for text; image and audio pipelines can be far below (Mohan et al., Analyzing and Mitigating Data Stalls, VLDB 2021):"
        " measure it.",
        "above 0 to 1 by 0.01 share",
    )
    idle_share: float = assumption(
        0.05,
        "Share of the paid hours in which there is no run on the accelerators.",
        "A judgement: gaps between runs; the OPT-175B logbook put an idle hour of its cluster at 2,500 USD.",
        "0 to below 1 by 0.01 share",
    )
    spot_discount_share: float | None = assumption(
        None,
        "Discount of spot on the on-demand price of the same accelerator and geography; None = the prices of the offers.",
        "None: what the offers say.",
        "0 to below 1 by 0.05 share",
    )
    replay_days: float = assumption(30.0, "Days of a spot record that a run is replayed on.", "A month of training.", "1 to 365 by 1 days")
