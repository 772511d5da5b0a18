"""Tables of traces: jobs, the nodes they ran on, and requests."""

import pandas as pd

from capplan.book.tables.columns import Table, column
from capplan.book.terms import STAGES

STORAGE = ["local", "network"]


class Jobs(Table):
    """One job of a scheduler trace."""

    job_id: str = column("Name of the job.", key=True)
    submit: pd.Timestamp = column("When it was submitted, in UTC.", instant=True)
    start: pd.Timestamp = column("When it started, in UTC; empty if it never did or is not known.", optional=True, instant=True)
    duration_seconds: float = column("How long it ran.", unit="s", optional=True, ge=0)
    accelerators: float = column("Accelerators it held (a fraction where they are shared).", ge=0)
    team: str = column("Team, account or virtual cluster.", default="shared")
    state: str = column("How it ended, in the scheduler's words.", optional=True)
    workload: str = column("Workload whose speeds it has on other accelerators.", optional=True)
    accelerator: str = column("Accelerator it must have; empty = any in the cluster.", optional=True)
    expected_seconds: float = column("Duration its owner states or a model predicts; empty = known.", unit="s", optional=True, gt=0)
    least_accelerators: float = column(
        "Accelerators an elastic job can start with, and shrink to where others need room; it takes more once nobody waits. Empty = all of"
        " them.",
        optional=True,
        ge=1,
    )
    priority: float = column("Higher goes first.", default=0.0)
    deadline: pd.Timestamp = column("When it should be done, in UTC.", optional=True, instant=True)
    utilisation_share: float = column("Mean utilisation of its accelerators while it ran.", optional=True, ge=0, le=1)
    data_wait_share: float = column("Share of its time in which it waited for data.", optional=True, ge=0, le=1)
    racks: float = column("Racks its nodes stood in.", optional=True, ge=1)
    storage: str = column("Where its data lay.", optional=True, isin=STORAGE)
    stage: str = column("Where in a model's life it stands; empty = as its workload.", optional=True, isin=STAGES)
    run_id: str = column("Training run it is a part of: that of training_runs, or any name its jobs share; empty = of none.", optional=True)


class Nodes(Table):
    """Equal nodes of a cluster."""

    node: str = column("Name of the node or of the group of equal nodes.", key=True)
    accelerator: str = column("Accelerator in it.")
    accelerator_count: int = column("Accelerators in one node.", ge=0)
    nodes: int = column("How many nodes are like this.", default=1, ge=1)
    domain: str = column("Rack or network block it stands in; a gang inside one is not slowed down.", optional=True)
    kind: str = column("Kind of node, as durations of tasks name it; empty = its accelerator.", optional=True)
    cpus: float = column("CPUs (cores or vCPUs) of one node; empty = not counted.", optional=True, ge=0)
    cpu_threads: float = column("CPU threads of one node; empty = as many as CPUs.", optional=True, ge=0)
    memory_gib: float = column("Main memory of one node; empty = not counted.", unit="GiB", optional=True, ge=0)
    local_ssd_gib: float = column("Local flash storage of one node; empty = not counted.", unit="GiB", optional=True, ge=0)
    site: str = column("Site it stands in.", optional=True)
    geography: str = column("Part of the world the site lies in.", optional=True)
    usd_per_hour: float = column("Price of one node for one hour.", unit="USD/h", optional=True, ge=0)
    taken_until: pd.Timestamp = column("Until when other work takes it, in UTC.", optional=True, instant=True)
    taken_share: float = column("Share of it that is taken until then.", default=1.0, gt=0, le=1)
    away_from: pd.Timestamp = column("When it goes away (maintenance), in UTC.", optional=True, instant=True)
    away_to: pd.Timestamp = column("When it is back, in UTC.", optional=True, instant=True)


class Requests(Table):
    """Requests of one interval of a request log."""

    time: pd.Timestamp = column("Start of the interval, in UTC.", key=True, instant=True)
    workload: str = column("Workload.", key=True)
    requests: float = column("Requests in the interval.", ge=0)
    input_tokens: float = column("Input tokens in the interval.", unit="tokens", ge=0)
    output_tokens: float = column("Output tokens in the interval.", unit="tokens", ge=0)


class Telemetry(Table):
    """How busy the accelerators of a job were at a moment."""

    job_id: str = column("Job.", refers="jobs.job_id", key=True)
    time: pd.Timestamp = column("When it was read, in UTC.", key=True, instant=True)
    utilisation_share: float = column("Mean utilisation of the job's accelerators.", ge=0, le=1)
    data_wait_share: float = column("Share of the time in which the job waited for data.", optional=True, ge=0, le=1)
