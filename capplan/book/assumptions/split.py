"""Assumptions of the question whether training and inference share a cluster."""

from typing import Literal

from capplan.book.assumptions.base import assumption
from capplan.book.assumptions.cluster import ClusterAssumptions
from capplan.book.policies import POLICIES


class SplitAssumptions(ClusterAssumptions):
    """One cluster or two."""

    inference_accelerators: int | None = assumption(
        None,
        "Accelerators that are inference's own, in whole nodes; empty = its highest load.",
        "Empty: a serving cluster that lends nothing is sized for its peak.",
        "0 to 1_000_000 by 8 accelerators",
    )
    training_policy: Literal[tuple(name for name, policy in POLICIES.items() if policy.on_a_changing_fleet)] = assumption(  # type: ignore[valid-type]
        "easy_backfill",
        "Policy by which training jobs are started.",
        "Backfill is Slurm's default scheduler (SchedulerType=sched/backfill).",
    )
    reclaim_delay_minutes: float = assumption(
        10.0,
        "Time from asking a lent node back until it serves: jobs saved and ended, container and model loaded.",
        "Spheron, GPU cold start (2026): 4 to 8 minutes for an image that is not cached, and 1.5 for the weights and graphs of a 70B model;"
        " jobs end meanwhile.",
        "0 to 1440 by 5 minutes",
    )
    reclaim_lead_minutes: float = assumption(
        0.0,
        "How long before the load rises nodes are asked back; needs a forecast of the load.",
        "0: the load is seen when it comes.",
        "0 to 1440 by 5 minutes",
    )
    preemption_cost_minutes: float = assumption(
        5.0,
        "What a displaced job loses each time: saving itself, starting again, and work since its last checkpoint.",
        "A judgement: saving on notice and loading again take minutes; without saving on notice it is half a checkpoint interval more.",
        "0 to 2880 by 5 minutes",
    )
    warm_spare_share: float = assumption(
        0.25,
        "Spare that inference keeps ready above its load.",
        "ServeGen m-large, 14 days (arXiv 2505.09999): one hour in ten carries over 27 % more than the hour before, one in twenty over"
        " 35 %.",
        "0 to 2 by 0.05 share",
    )
    serving_target_share: float = assumption(
        0.999,
        "Share of the inference load that must find an accelerator ready.",
        "A judgement: three nines, as service level agreements of hosted models name for availability.",
        "0 to 1 by 0.001 share",
    )
    fleet_usd_per_accelerator_hour: float = assumption(
        2.5,
        "Price of an accelerator-hour of the fleet.",
        "A judgement, near quotations for a reserved H100; see the pricing notebook for the terms at hand.",
        "above 0 to 100 by 0.1 USD/h",
    )
    late_serving_usd_per_accelerator_hour: float = assumption(
        25.0,
        "Cost of an hour of inference load that finds no accelerator ready.",
        "A judgement, as for missing serving capacity in the plan: several times the on-demand price, since unserved customers leave.",
        "0 to 1000 by 1 USD/h",
    )
    cluster_region: str | None = assumption(
        None, "Region whose served workloads share the cluster; empty = the one with the most of them.", "The nodes table states no region."
    )
