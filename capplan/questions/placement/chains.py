"""Compiled: walks along the edges of a task graph."""

from capplan.compiling import compiled, types

_COUNTS, _REALS = types.int64[::1], types.float64[::1]


@compiled(_COUNTS, _COUNTS, _COUNTS, _COUNTS, _COUNTS, source=__file__, entry=True)
def depths(before, source, depth, stack, at):  # type: ignore[no-untyped-def]
    """Fill `depth` (-1 at first) with the edges of the longest chain to each task; stack and at are room to work in."""
    for root in range(depth.shape[0]):
        if depth[root] >= 0:
            continue
        top = 0
        stack[0], at[root] = root, before[root]
        while top >= 0:
            task = stack[top]
            if at[task] < before[task + 1]:
                first = source[at[task]]
                at[task] += 1
                if depth[first] < 0:
                    top += 1
                    stack[top], at[first] = first, before[first]
                continue
            longest = 0
            for edge in range(before[task], before[task + 1]):
                longest = max(longest, depth[source[edge]] + 1)
            depth[task] = longest
            top -= 1


@compiled(_COUNTS, _COUNTS, _COUNTS, _REALS, _REALS, _REALS, source=__file__, entry=True)
def forward(order, before, source, hours, delay, start):  # type: ignore[no-untyped-def]
    """Raise `start` to the earliest at which each task can begin after its predecessors and their data."""
    for number in range(order.shape[0]):
        task = order[number]
        for edge in range(before[task], before[task + 1]):
            first = source[edge]
            start[task] = max(start[task], start[first] + hours[first] + delay[edge])


@compiled(_COUNTS, _COUNTS, _COUNTS, _REALS, _REALS, _REALS, source=__file__, entry=True)
def backward(order, before, source, hours, delay, finish):  # type: ignore[no-untyped-def]
    """Lower `finish` to the latest at which each task can end, so that its successors can end by theirs."""
    for number in range(order.shape[0] - 1, -1, -1):
        task = order[number]
        for edge in range(before[task], before[task + 1]):
            first = source[edge]
            finish[first] = min(finish[first], finish[task] - hours[task] - delay[edge])
