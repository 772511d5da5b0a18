"""The arrays that the list scheduler works on."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]

#: What a task takes of a node and a node has, in this order.
RESOURCES = ("cpus", "threads", "memory_gib", "accelerators", "local_ssd_gib")
ACCELERATORS = RESOURCES.index("accelerators")
#: What a link is, where it is no row of the links table: no link at all, or the network card of the node that sends.
NO_LINK, CARD = -2, -1
#: Instants closer than this are one (hours).
INSTANT = 1e-9
#: Classes of durations, four to a doubling around an hour, for which it is remembered where a row is full.
SIZES = 96
#: What stands in a step of a profile.
TIME, AWAY, FREE = 0, 1, 2


class Work(NamedTuple):
    """Tasks. The predecessors of task t are entries before[t] to before[t + 1] of `source` and `gigabytes`.

    Args:
        need (tasks, resources): What the whole task takes; members of a gang take equal parts, whole accelerators each.
        release, limit (tasks,): Hours from which it may run, and by which it should be done.
        pausable (tasks,): 1 where a single node may go away and come back under it.
        hours, usd, members (tasks, groups): Duration, price and number of nodes in each group of equal nodes; 0 members where it cannot
            run.
        whole (1,): Column of `need` that holds accelerators, of which members of a gang take whole ones.
    """

    need: Any
    release: Any
    limit: Any
    pausable: Any
    before: Any
    source: Any
    gigabytes: Any
    hours: Any
    usd: Any
    members: Any
    whole: Any


class Ground(NamedTuple):
    """Nodes and links. The nodes of group g are entries group_from[g] to group_from[g + 1] of `group_node`."""

    group_from: Any
    group_node: Any
    place: Any  #: (nodes,): Place of each node; all nodes of a place reach others alike.
    #: hours_per_gb, latency_hours, usd_per_gb, link (places, places): From the row's place to the column's, between two different nodes;
    #: infinite hours where data cannot pass.
    hours_per_gb: Any
    latency_hours: Any
    usd_per_gb: Any
    link: Any
    inside: Any  #: (1,): Hours a gigabyte takes inside a node.
    shared: Any  #: (1,): 1 where transfers on one link take turns.


class Rule(NamedTuple):
    """How a place is chosen. `weights` are those of finish, start, hours of transfers and USD; `use_limit` puts keeping the limit first.

    `fixed_node` holds, from fixed_from[t] to fixed_from[t + 1], the nodes a task must take, in group fixed_group[t]; none: free.
    """

    order: Any
    weights: Any
    use_limit: Any
    fixed_group: Any
    fixed_from: Any
    fixed_node: Any


class Books(NamedTuple):
    """What is free when, and what was decided.

    Row r of `steps` is the profile of node r, or of a link behind the nodes: `count[r]` steps, each from its time to the next one's. A step
    is its time, whether the node is away (1), and what is free of each resource; they lie side by side, since a search reads all of them.
    """

    steps: Any  #: (rows, steps, 2 + resources)
    count: Any
    #: start, end, group (tasks,): When and in which group.
    start: Any
    end: Any
    group: Any
    #: taken_from, taken ((tasks + 1,), (members in all,)): Nodes of each task.
    taken_from: Any
    taken: Any
    #: sent, came, sender, receiver, path (edges,): Start and end of each transfer, its slowest pair of nodes, and the link row, -1 where it
    #: took none.
    sent: Any
    came: Any
    sender: Any
    receiver: Any
    path: Any
    ready: Any
    slot: Any
    fee: Any
    moved: Any
    want: Any
    turn: Any
    tail: Any
    picked: Any
    #: (classes of durations, rows, 3 + resources): From when until when nothing can begin that lasts as many hours and takes as much as
    #: stand behind: a memory of earlier searches.
    full: Any
