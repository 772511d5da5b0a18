"""The compiled walk of points from basis to basis: test, leave, enter, pivot, and remember every basis on the way."""

from typing import NamedTuple

import numpy as np

from capplan.compiling import compiled, types

Array = np.ndarray
NUMBERS, REALS, FLAGS = types.int64[::1], types.float64[::1], types.boolean[::1]
NUMBER_ROWS, ROWS, CUBE = types.int64[:, ::1], types.float64[:, ::1], types.float64[:, :, ::1]
PIVOT_TOLERANCE = 1e-9
#: Pivots after which an inverse is made anew, so that rounding does not add up.
MOST_UPDATES = 24
#: What a point came to, where no row proves it infeasible: it fits; it has moved often enough; its basis has no inverse.
FITS, WAITS, LOST = -1, -2, -3
#: Where a pivot leads, if not to a basis: nowhere, nobody knows yet, or there is no room for where.
NONE, UNKNOWN, FULL = -1, -2, -3


class Held(NamedTuple):
    """The arrays of a `bases.BasisStore`, as it describes them."""

    #: columns, duals, slot, updates, used, priced: By basis: columns in the order of its rows, duals, place of its inverse (-1: it has
    #: none), pivots since that was made anew, clock when it was last met, whether its duals are known.
    columns: Array
    duals: Array
    slot: Array
    updates: Array
    used: Array
    priced: Array
    #: words, child, table, counter: By basis: two words that name its set of columns, and where a pivot on each row leads; table of names;
    #: number of bases.
    words: Array
    child: Array
    table: Array
    counter: Array
    #: left, free, inverse, norm, reduced: How many places are free, and which; by place the transposed inverse, row lengths, reduced
    #: costs.
    left: Array
    free: Array
    inverse: Array
    norm: Array
    reduced: Array
    #: matrix, cost, word: The problem, and two random words for each column.
    matrix: Array
    cost: Array
    word: Array


class Points(NamedTuple):
    """Points on their walk: right-hand sides (N, m), what counts as zero, basis, steps; then a row or a mark, and how short that is."""

    b: Array
    tolerance: Array
    basis: Array
    taken: Array
    row: Array
    short: Array


class Work(NamedTuple):
    """Room to work in: basic values (m,), a row of the tableau (n,), a direction (m,)."""

    value: Array
    alpha: Array
    direction: Array


HELD = types.NamedTuple(
    [
        *(NUMBER_ROWS, ROWS, NUMBERS, NUMBERS, NUMBERS, FLAGS, NUMBER_ROWS, NUMBER_ROWS, NUMBERS, NUMBERS),
        *(NUMBERS, NUMBERS, CUBE, ROWS, ROWS, ROWS, REALS, NUMBER_ROWS),
    ],
    Held,
)
POINTS = types.NamedTuple([ROWS, REALS, NUMBERS, NUMBERS, NUMBERS, REALS], Points)
WORK = types.NamedUniTuple(REALS, 3, Work)


@compiled(HELD, POINTS, WORK, types.int64, types.int64, source=__file__, inside=True)
def _leaving(held, points, work, p, at):  # type: ignore[no-untyped-def]
    """Return the row of a point that is most negative for its length at an inverse, -1 where none is negative."""
    m = len(work.value)
    for i in range(m):
        work.value[i] = 0.0
    for j in range(m):
        share = points.b[p, j]
        if share != 0.0:
            for i in range(m):
                work.value[i] += held.inverse[at, j, i] * share
    lowest, least, row = 0.0, 0.0, -1
    for i in range(m):
        lowest = min(lowest, work.value[i])
        if work.value[i] < least * held.norm[at, i]:
            least, row = work.value[i] / held.norm[at, i], i
    return row if lowest < -points.tolerance[p] else -1


@compiled(HELD, WORK, types.int64, types.int64, source=__file__, inside=True)
def _entering(held, work, at, row):  # type: ignore[no-untyped-def]
    """Return the column that keeps reduced costs non-negative, -1 where there is none; the row of the tableau is written beside."""
    m, n = held.matrix.shape
    for j in range(n):
        work.alpha[j] = 0.0
    for i in range(m):
        share = held.inverse[at, i, row]
        if share != 0.0:
            for j in range(n):
                work.alpha[j] += share * held.matrix[i, j]
    largest = 1.0
    for j in range(n):
        largest = max(largest, abs(work.alpha[j]))
    least, best = -PIVOT_TOLERANCE * largest, 1e300
    for j in range(n):
        if work.alpha[j] < least:
            best = min(best, held.reduced[at, j] / -work.alpha[j])
    enters, steepest = -1, 0.0
    for j in range(n):
        if work.alpha[j] < least and held.reduced[at, j] / -work.alpha[j] <= best * (1 + 1e-12) and work.alpha[j] < steepest:
            enters, steepest = j, work.alpha[j]
    return enters


@compiled(HELD, WORK, types.int64, types.int64, types.int64, types.int64, source=__file__, inside=True)
def _pivot(held, work, old, new, row, enters):  # type: ignore[no-untyped-def]
    """Write the inverse, row lengths, reduced costs and duals of a new basis from those of the old one."""
    m, n = held.matrix.shape
    source, target = held.slot[old], held.slot[new]
    for i in range(m):
        work.direction[i] = 0.0
        held.norm[target, i] = 0.0
    dual_cost = held.cost[enters]
    for j in range(m):
        share = held.matrix[j, enters]
        if share != 0.0:
            dual_cost -= held.duals[old, j] * share
            for i in range(m):
                work.direction[i] += held.inverse[source, j, i] * share
    turn = work.direction[row]
    for j in range(m):
        part = held.inverse[source, j, row] / turn
        held.duals[new, j] = held.duals[old, j] + dual_cost * part
        for i in range(m):
            held.inverse[target, j, i] = held.inverse[source, j, i] - work.direction[i] * part
        held.inverse[target, j, row] = part
        for i in range(m):
            held.norm[target, i] += held.inverse[target, j, i] * held.inverse[target, j, i]
    for i in range(m):
        held.norm[target, i] = held.norm[target, i] ** 0.5
    step = held.reduced[source, enters] / -work.alpha[enters]
    for j in range(n):
        held.reduced[target, j] = max(held.reduced[source, j] + step * work.alpha[j], 0.0)
    held.reduced[target, enters] = 0.0


@compiled(HELD, WORK, types.int64, types.int64, source=__file__, inside=True)
def _derived(held, work, old, row):  # type: ignore[no-untyped-def]
    """Return the basis that a pivot leads to, made where it is new; NONE where nothing can enter, FULL where there is no room."""
    enters = _entering(held, work, held.slot[old], row)
    if enters < 0:
        held.child[old, row] = NONE
        return NONE
    leaves = held.columns[old, row]
    first = held.words[old, 0] ^ held.word[leaves, 0] ^ held.word[enters, 0]
    second = held.words[old, 1] ^ held.word[leaves, 1] ^ held.word[enters, 1]
    mask = len(held.table) - 1
    place = first & mask
    while held.table[place] >= 0:
        known = held.table[place]
        if held.words[known, 0] == first and held.words[known, 1] == second:
            held.child[old, row] = known
            return known
        place = (place + 1) & mask
    new, free = held.counter[0], held.left[0]
    if new == len(held.slot) or free == 0:
        return FULL
    held.table[place], held.child[old, row], held.counter[0] = new, new, new + 1
    held.words[new, 0], held.words[new, 1] = first, second
    for i in range(held.columns.shape[1]):
        held.columns[new, i] = held.columns[old, i]
    held.columns[new, row] = enters
    held.updates[new] = held.updates[old] + 1
    # after many pivots an inverse is made anew from the columns, by whoever keeps them
    if held.updates[new] <= MOST_UPDATES:
        held.left[0] = free - 1
        held.slot[new] = held.free[free - 1]
        _pivot(held, work, old, new, row, enters)
        held.priced[new] = True
    return new


@compiled(HELD, POINTS, WORK, NUMBERS, types.int64, types.int64, source=__file__, entry=True)
def walk(held, points, work, order, steps, clock):  # type: ignore[no-untyped-def]
    """Move points on, each until it fits, is proven infeasible, or so many steps; return how many before room ran out."""
    for i in range(len(order)):
        p = order[i]
        number = points.basis[p]
        points.row[p] = WAITS
        # steps that were taken before there was room for the next one count
        while points.taken[p] < steps:
            at = held.slot[number]
            if at < 0:
                points.row[p] = LOST
                break
            held.used[number] = clock
            row = _leaving(held, points, work, p, at)
            if row < 0:
                points.row[p] = FITS
                break
            target = held.child[number, row]
            if target == UNKNOWN:
                target = _derived(held, work, number, row)
            if target == FULL:
                points.basis[p] = number
                return i
            if target == NONE:
                points.row[p], points.short[p] = row, -work.value[row]
                break
            number = target
            points.taken[p] += 1
        points.basis[p] = number
    return len(order)
