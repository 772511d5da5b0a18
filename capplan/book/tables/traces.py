"""Tables of traces: jobs, the nodes they ran on, and requests."""

from __future__ import annotations

import pandas as pd

from capplan.book.tables.columns import Table, column


class Jobs(Table):
    """One job of a scheduler trace."""

    job_id: str = column("Name of the job.", key=True)
    submit: pd.Timestamp = column("When it was submitted, in UTC.", instant=True)
    start: pd.Timestamp = column("When it started, in UTC; empty if it never did or is not known.", optional=True, instant=True)
    duration_seconds: float = column("How long it ran.", unit="s", optional=True, ge=0)
    accelerators: float = column("Accelerators it held (a fraction where they are shared).", ge=0)
    team: str = column("Team, account or virtual cluster.", optional=True, default="shared")
    state: str = column("How it ended, in the scheduler's words.", optional=True)
    workload: str = column("Workload whose speeds it has on other accelerators.", optional=True)
    accelerator: str = column("Accelerator it must have; empty = any in the cluster.", optional=True)
    expected_seconds: float = column("Duration its owner states or a model predicts; empty = known.", unit="s", optional=True, gt=0)
    least_accelerators: float = column("Accelerators an elastic job can start with, and shrink to where others need room; it takes more once nobody waits. Empty = all of them.", optional=True, ge=1)
    priority: float = column("Higher goes first.", optional=True, default=0.0)
    deadline: pd.Timestamp = column("When it should be done, in UTC.", optional=True, instant=True)


class Nodes(Table):
    """Equal nodes of a cluster."""

    node: str = column("Name of the node or of the group of equal nodes.", key=True)
    accelerator: str = column("Accelerator in it.")
    accelerator_count: int = column("Accelerators in one node.", ge=0)
    nodes: int = column("How many nodes are like this.", optional=True, default=1, ge=1)
    domain: str = column("Rack or network block it stands in; a gang inside one is not slowed down.", optional=True)


class Requests(Table):
    """Requests of one interval of a request log."""

    time: pd.Timestamp = column("Start of the interval, in UTC.", key=True, instant=True)
    workload: str = column("Workload.", key=True)
    requests: float = column("Requests in the interval.", ge=0)
    input_tokens: float = column("Input tokens in the interval.", unit="tokens", ge=0)
    output_tokens: float = column("Output tokens in the interval.", unit="tokens", ge=0)
