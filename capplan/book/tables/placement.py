"""Tables of pipelines: tasks that wait for each other, the data between them, and the links it takes."""

import pandas as pd

from capplan.book.tables.columns import Table, column
from capplan.book.terms import STAGES


class Tasks(Table):
    """One task of a pipeline."""

    task_id: str = column("Name of the task.", key=True)
    pipeline: str = column("Pipeline it belongs to.", default="pipeline")
    stage: str = column("Where in a model's life it stands.", optional=True, isin=STAGES)
    cpus: float = column("CPUs (cores or vCPUs, as nodes count them) it takes.", default=0.0, ge=0)
    threads: float = column("CPU threads it takes, where they are counted apart.", default=0.0, ge=0)
    memory_gib: float = column("Main memory it takes.", unit="GiB", default=0.0, ge=0)
    accelerators: float = column(
        "Accelerators it takes; more than a node has make it a gang over several equal nodes of one site.", default=0.0, ge=0
    )
    accelerator: str = column("Accelerator it must have; empty = any.", optional=True)
    local_ssd_gib: float = column("Local flash storage it takes.", unit="GiB", default=0.0, ge=0)
    duration_hours: float = column(
        "How long it runs; empty where task_durations says it for every node it may run on.", unit="hours", optional=True, ge=0
    )
    output_gb: float = column("Data it leaves to each task after it, where task_edges does not say.", unit="GB", default=0.0, ge=0)
    owner: str = column("Person, role or team that answers for it.", optional=True)
    residency: str = column("Site or geography it must stay in; empty = anywhere.", optional=True)
    deadline: pd.Timestamp = column("When it must be done, in UTC.", optional=True, instant=True)
    earliest_start: pd.Timestamp = column("When it can start at the soonest, in UTC.", optional=True, instant=True)
    interruptible: bool = column("May a single node go away under it and come back?", default=False)
    workload: str = column("Workload whose demand its accelerator-hours are.", optional=True, refers="workloads.workload")


class TaskEdges(Table):
    """One task that waits for another, and the data between them."""

    from_task: str = column("Task that comes first.", refers="tasks.task_id", key=True)
    to_task: str = column("Task that waits for it.", refers="tasks.task_id", key=True)
    data_gb: float = column(
        "Data that must be there before the second starts; empty = the first one's output.", unit="GB", optional=True, ge=0
    )


class TaskDurations(Table):
    """How long a task runs on one kind of node."""

    task_id: str = column("Task.", refers="tasks.task_id", key=True)
    runs_on: str = column("A node, a kind of node, or an accelerator; the most specific one counts.", key=True)
    duration_hours: float = column("How long it runs there.", unit="hours", ge=0)


class Links(Table):
    """A link between two nodes, racks or sites, in both directions unless another row states the way back."""

    from_place: str = column("Node, rack (domain of nodes) or site at one end.", key=True)
    to_place: str = column("Node, rack or site at the other end; the same name = inside it. The most specific row counts.", key=True)
    gbit_per_second: float = column("Bandwidth.", unit="Gbit/s", gt=0)
    latency_seconds: float = column("Time before the first byte.", unit="s", default=0.0, ge=0)
    usd_per_gb: float = column("Price of moved data (egress).", unit="USD/GB", default=0.0, ge=0)
    used_share: float = column("Share of the bandwidth that is in use today.", default=0.0, ge=0, lt=1)
