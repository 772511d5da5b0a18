"""Assumptions of the placement of tasks: which task where, when, and the signs of bad placement."""

import datetime as dt
from typing import Literal

from capplan.book.assumptions.base import Spread, assumption

EC2 = "Amazon EC2 User Guide, Instance network bandwidth"


class PlacementAssumptions(Spread):
    """Which task runs where and when."""

    placement_objective: Literal["makespan", "cost", "cost_under_deadline"] = assumption(
        "makespan",
        "What is best: the earliest end of all tasks, the least money, or the least money with every deadline kept.",
        "A judgement: the end is what a pipeline's owner asks for first.",
    )
    placement_method: Literal["best", "milp", "heft", "cpop", "olb", "locality"] = assumption(
        "best",
        "Who makes the schedule: the proof (milp, which begins with the best heuristic), or one of the heuristics; best = the best of all.",
        "HEFT and CPOP: Topcuoglu, Hariri, Wu, IEEE TPDS 13(3), 2002. OLB: Braun et al., JPDC 61(6), 2001.",
    )
    deadline: dt.datetime | None = assumption(
        None,
        "Instant by which all tasks must be done, in UTC (2027-02-05T18:00); tasks may have earlier ones of their own. Empty = none.",
        "None: a deadline is a question.",
    )
    placement_start: dt.datetime | None = assumption(
        None, "Instant from which tasks may run, in UTC; empty = the start of as_of.", "The day the plan is made."
    )
    shared_links: bool = assumption(
        True,
        "Do transfers on one link take turns? Otherwise each has the link to itself.",
        "A judgement: links have one bandwidth; taking turns ends a set of transfers no later than dividing the link among them.",
    )
    node_gbit_per_second: float | None = assumption(
        54.4,
        "Rate at which a task reads what another one left on the same node; empty = it takes no time.",
        "Samsung PM9A3 data sheet: 6,800 MB/s sequential read of one NVMe drive of the kind servers have.",
        "above 0 to 1e9 by 10 Gbit/s",
    )
    rack_gbit_per_second: float = assumption(
        10.0,
        "Bandwidth between two nodes of a rack, where links does not state it.",
        f"{EC2}: one flow has up to 10 Gbit/s inside a cluster placement group.",
        "above 0 to 1e9 by 5 Gbit/s",
    )
    site_gbit_per_second: float = assumption(
        5.0,
        "Bandwidth between two racks of a site, where links does not state it.",
        f"{EC2}: one flow has 5 Gbit/s outside a cluster placement group.",
        "above 0 to 1e9 by 5 Gbit/s",
    )
    rack_latency_seconds: float = assumption(
        0.0,
        "Time before the first byte between nodes of a rack.",
        "Below a millisecond, against transfers of seconds.",
        "0 to 3600 by 0.1 s",
    )
    site_latency_seconds: float = assumption(
        0.0,
        "Time before the first byte between racks of a site.",
        "Below a few milliseconds, against transfers of seconds.",
        "0 to 3600 by 0.1 s",
    )
    bandwidth_factor: float = assumption(
        1.0, "Multiplies the bandwidth of all links between nodes.", "1 = as stated.", "above 0 to 1000 by 0.5 factor"
    )
    pipeline_demand: bool = assumption(
        False,
        "Does the plan take the tasks that name a workload as training runs on its roadmap, where and when they are placed, and what their"
        " transfers cost as egress? Leave it off where training_runs has the same work already.",
        "Off: a roadmap usually holds the runs already.",
    )
    added_node_kind: str | None = assumption(
        None, "Kind of node that is added; empty = the first kind with accelerators.", "The slider says how many."
    )
    added_nodes: int = assumption(
        0, "Nodes added of that kind, at the site where most of them are.", "0 = the nodes table.", "0 to 10_000 by 1 nodes"
    )
    gang_across_racks_slowdown_share: float = assumption(
        0.0,
        "How much longer a gang runs whose nodes stand in several racks.",
        "0: modern fabrics do not block; Jeon et al. (USENIX ATC 2019) saw jobs spread over servers run slower. Measure it.",
        "0 to 5 by 0.05 share",
    )
    placement_tries: int = assumption(
        200,
        "Schedules that are tried with ranks drawn around those of HEFT, before anything is proven.",
        "A judgement: a fraction of a second for a pipeline of 30 tasks.",
        "0 to 100_000 by 50 schedules",
    )
    proof_size: int = assumption(
        600,
        "Size of the program up to which a schedule is proven: tasks times nodes, or a thirtieth of transfers times pairs of nodes; above"
        " it only a bound of the longest path and of the work is given.",
        "A judgement: twice 30 tasks on 8 nodes, which take seconds to a minute.",
        "0 to 100_000 by 100",
    )
    proof_deterministic_seconds: float = assumption(
        30.0,
        "Effort after which the proof stops with its gap, in the solver's own count of work (about a second of one core each); counted, not"
        " timed, so that the answer is the same everywhere.",
        "A judgement: ten pipelines of 30 tasks on 8 nodes took less than one each.",
        "above 0 to 100_000 by 10 s",
    )
    proof_gap_share: float = assumption(
        1e-4,
        "Relative gap to the proven bound at which a schedule counts as the best.",
        "A judgement: a quarter of an hour in a hundred days.",
        "0 to 0.5 by 1e-4 share",
    )
    low_utilisation_share: float = assumption(
        0.7,
        "Accelerator utilisation below which a job wastes its accelerators.",
        "A judgement: half of it is common in shared clusters (Jeon et al., USENIX ATC 2019: 52 % on average), and well-fed training runs"
        " above 0.9.",
        "above 0 to 1 by 0.05 share",
    )
    low_utilisation_hours: float = assumption(
        1.0,
        "Hours a job must run before low utilisation counts.",
        "A judgement: shorter ones are start-up and tests.",
        "0 to 720 by 0.5 hours",
    )
    idle_utilisation_share: float = assumption(
        0.05,
        "Accelerator utilisation below which the work is taken to run on the CPU alone.",
        "A judgement: what a display or a monitor takes.",
        "0 to 0.5 by 0.01 share",
    )
    data_wait_limit_share: float = assumption(
        0.5,
        "Share of a job's time spent waiting for data above which waiting outweighs computing.",
        "By definition: more than half.",
        "above 0 to 1 by 0.05 share",
    )
    scatter_loss_share: float = assumption(
        0.2,
        "Share of its time that a job loses whose nodes stand in several racks.",
        "As in the cluster: a judgement. Measure it.",
        "0 to below 1 by 0.05 share",
    )
    cpu_node_usd_per_hour: float = assumption(
        4.0,
        "Price of a CPU node that would do the work that needs no accelerator.",
        "A judgement near on-demand list prices of 96 to 128 vCPUs; set your own.",
        "0 to 1000 by 0.5 USD/h",
    )
