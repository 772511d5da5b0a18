"""Assumptions of the cluster simulation: how jobs wait."""

from typing import Literal

from capplan.book.assumptions.base import Spread, assumption
from capplan.book.policies import PLACEMENTS, POLICIES


class ClusterAssumptions(Spread):
    """How long jobs wait."""

    cluster_policy: Literal[tuple(POLICIES)] = assumption(  # type: ignore[valid-type]
        "easy_backfill",
        "Policy by which waiting jobs are ordered and started.",
        "EASY backfill: Lifka, The ANL/IBM SP scheduling system, 1995. A judgement: Slurm's backfill plugin promises starts to more of the"
        " queue, between this and conservative backfill.",
    )
    placement_rule: Literal[tuple(PLACEMENTS)] = assumption(  # type: ignore[valid-type]
        "pack",
        "Which nodes a job takes: the tightest fit, the emptiest node, the least loaded share, or one rack.",
        "Packing keeps whole nodes free for large jobs.",
    )
    gang_scheduling: bool = assumption(
        True,
        "A job starts with all its accelerators or not at all.",
        "Synchronous training needs all of them; without it jobs can block each other.",
    )
    allow_scatter: bool = assumption(
        False,
        "May a job take more nodes than it needs, when no compact place is free?",
        "Off: most training frameworks ask for whole nodes.",
    )
    scatter_slowdown_share: float = assumption(
        0.2,
        "How much longer a scattered job runs.",
        "A judgement; that jobs spread over servers run slower is what Jeon et al. (USENIX ATC 2019) saw on the Philly cluster."
        " Measure it.",
        "0 to 5 by 0.05 share",
    )
    partition_rule: Literal["any_size", "mig"] = assumption(
        "any_size",
        "How accelerators are divided for jobs that ask for a part of one: in parts of any size, or in the hardware partitions of MIG, each"
        " where it may stand.",
        "NVIDIA, MIG User Guide, supported profiles of A100 and H100: 7 of 1 slice, 3 of 2, 2 of 3, 1 of 4 or 1 of 7. Any size: sharing in"
        " time or by MPS.",
    )
    shrink_elastic_jobs: bool = assumption(
        True,
        "Do running elastic jobs give accelerators away, down to the least they state, when the next job in line finds no room? They take"
        " them back once nobody waits.",
        "Lyra (EuroSys 2023) and Kueue's elastic jobs scale running jobs in and out; each change costs saving and loading again.",
    )
    sharing_slowdown_share: float = assumption(
        0.0,
        "How much longer a job runs that shares an accelerator in time; 0 = partitioned, or not in each other's way.",
        "Partitions are isolated in hardware; give a measured value for time sharing.",
        "0 to 5 by 0.05 share",
    )
    checkpoint_seconds: float = assumption(
        60.0, "Time a job needs to save itself when it is displaced.", "A judgement; measure it.", "0 to 3600 by 10 s"
    )
    job_restart_seconds: float = assumption(
        120.0, "Time a displaced or failed job needs to load and go on.", "A judgement; measure it.", "0 to 7200 by 10 s"
    )
    checkpoint_interval_seconds: float = assumption(
        3600.0,
        "Work between two checkpoints: what a failing node can cost at most.",
        "A judgement: hourly checkpoints are common.",
        "above 0 to 86400 by 300 s",
    )
    node_failures_per_node_day: float = assumption(
        0.0,
        "Failures of a node a day.",
        "Off by default, so that waits come from load alone; Kokolis et al. (HPCA 2025, arXiv 2410.21680) report 6.5 and 2.34 per 1,000"
        " node-days on Meta's RSC-1 and RSC-2.",
        "0 to 1 by 0.001 failures/day",
    )
    node_repair_hours: float = assumption(12.0, "Hours until a failed node is back.", "A judgement.", "above 0 to 720 by 1 hours")
    quantum_seconds: float = assumption(
        3600.0,
        "Turn of time slicing, and step of attained service in accelerator-seconds.",
        "A judgement: long against a checkpoint, short against a day.",
        "60 to 86400 by 60 s",
    )
    fair_share_half_life_hours: float = assumption(
        168.0,
        "Past usage counts half after this.",
        "Slurm's PriorityDecayHalfLife is 7-0, seven days, where it is not set (slurm.conf manual).",
        "above 0 to 8760 by 1 hours",
    )
    borrowing_share: float = assumption(
        1.0,
        "Share of its own quota a team may borrow on top, where others leave theirs unused.",
        "A judgement: one more quota. Kueue's own default is no bound (API reference: an empty borrowingLimit is no limit), which 10 comes"
        " close to.",
        "0 to 10 by 0.1 share",
    )
    lending_share: float = assumption(
        1.0,
        "Share of its quota a team lends while unused.",
        "Kueue's default: with an empty lendingLimit all unused nominal quota can be borrowed (API reference).",
        "0 to 1 by 0.05 share",
    )
    backfill_depth: int = assumption(
        500,
        "Waiting jobs looked at in one pass.",
        "Slurm's backfill plugin tests 500 jobs where bf_max_job_test is not set (its source, max_backfill_job_cnt; old releases: 100).",
        "1 to 100000 by 10 jobs",
    )
    added_accelerators: int = assumption(
        0,
        "Accelerators added to the largest group of nodes, or taken from the last ones, in whole nodes.",
        "0 = the nodes table.",
        "-100000 to 100000 by 8 accelerators",
    )
    serving_kept_accelerators: int = assumption(
        0,
        "Accelerators of the cluster that serving keeps, so that jobs cannot use them; taken from the last nodes of the table.",
        "0 = all nodes run jobs.",
        "0 to 1_000_000 by 8 accelerators",
    )
    delay_target_minutes: float = assumption(
        30.0, "Wait that nine of ten jobs should not exceed.", "A judgement; what teams put up with.", "above 0 to 10080 by 5 minutes"
    )
    training_delay_target_hours: float | None = assumption(
        None,
        "Wait that nine of ten training jobs should not exceed; the plan then carries the cluster size that this needs in each quarter, not"
        " only mean hours. Empty = mean hours.",
        "Empty: a stated wait is a decision of the company, and needs a trace of its jobs.",
        "above 0 to 720 by 0.5 hours",
    )
    curve_sizes: int = assumption(8, "Cluster sizes on the capacity curve.", "Enough to see where it bends.", "2 to 100 by 1")
    curve_resamples: int = assumption(
        6,
        "Resampled traces behind each point of the capacity curve.",
        "The band is their whole range: 6 traces cover the median with 97 %.",
        "1 to 500 by 1",
    )
