"""Compiled: what is free on a node, or on a link, and from when on."""

from math import frexp

from capplan.compiling import compiled, types
from capplan.questions.placement.state import AWAY, FREE, INSTANT, SIZES, TIME, Books

COUNT, REAL = types.int64, types.float64
COUNTS, REALS, TABLE, CUBE, GRID = (
    types.int64[::1],
    types.float64[::1],
    types.float64[:, ::1],
    types.float64[:, :, ::1],
    types.int64[:, ::1],
)
#: Steps a row must have, and a search must pass, before it is remembered.
MANY, LONG = 64, 4
BOOKS = types.NamedTuple(
    [
        CUBE,
        COUNTS,
        REALS,
        REALS,
        COUNTS,
        COUNTS,
        COUNTS,
        REALS,
        REALS,
        COUNTS,
        COUNTS,
        COUNTS,
        REALS,
        REALS,
        REALS,
        REALS,
        REALS,
        COUNTS,
        REALS,
        COUNTS,
        CUBE,
    ],
    Books,
)


@compiled(BOOKS, COUNT, REAL, source=__file__)
def _step(books, row, when):  # type: ignore[no-untyped-def]
    """Return the step of a profile that an instant lies in; an instant just before a step counts as its begin.

    It is looked for from the last step backwards, by doubled strides: tasks are placed by rank, so that most begin near the end of what is
    placed, and the search does not grow with the length of the profile.
    """
    high, stride = books.count[row], 1
    while high - stride > 0 and books.steps[row, high - stride, TIME] > when + INSTANT:
        high -= stride
        stride *= 2
    low = max(high - stride, 0)
    while high - low > 1:
        middle = (low + high) // 2
        if books.steps[row, middle, TIME] <= when + INSTANT:
            low = middle
        else:
            high = middle
    return low


@compiled(BOOKS, COUNT, COUNT, source=__file__)
def _fits(books, row, step):  # type: ignore[no-untyped-def]
    """Tell whether what is wanted is free in a step."""
    short = 0
    for resource in range(books.want.shape[0]):
        short += books.want[resource] > books.steps[row, step, FREE + resource] + 1e-9
    return short == 0


@compiled(REAL, source=__file__, inside=True)
def _size(hours):  # type: ignore[no-untyped-def]
    """Return the class of a duration: four to a doubling."""
    share, doublings = frexp(hours)
    return min(max(4 * doublings + int(8 * share) - 4 + SIZES // 2, 0), SIZES - 1)


@compiled(BOOKS, COUNT, COUNT, REAL, source=__file__, inside=True)
def _knows(books, row, size, hours):  # type: ignore[no-untyped-def]
    """Tell whether what was found full for others is full for this, too: it lasts as long, and takes as much."""
    less = int(books.full[size, row, 2] > hours)
    for resource in range(books.want.shape[0]):
        less += books.full[size, row, 3 + resource] > books.want[resource]
    return less == 0


@compiled(BOOKS, COUNT, REAL, REAL, source=__file__, inside=True)
def _past_full(books, row, ready, hours):  # type: ignore[no-untyped-def]
    """Return the instant up to which it is known that nothing of this size can begin on a row from `ready` on."""
    size = _size(hours)
    for known in range(size, max(size - 2, -1), -1):
        if books.full[known, row, 0] <= ready < books.full[known, row, 1] and _knows(books, row, known, hours):
            ready = books.full[known, row, 1]
    return ready


@compiled(BOOKS, COUNT, REAL, REAL, REAL, source=__file__, inside=True)
def _note_full(books, row, since, until, hours):  # type: ignore[no-untyped-def]
    """Write down that nothing of this size can begin from `since` to `until`: what is taken is never given back, so it stays true."""
    size = _size(hours)
    if books.full[size, row, 0] <= since <= books.full[size, row, 1] and _knows(books, row, size, hours):
        since, until = books.full[size, row, 0], max(until, books.full[size, row, 1])
    books.full[size, row, 0], books.full[size, row, 1], books.full[size, row, 2] = since, until, hours
    for resource in range(books.want.shape[0]):
        books.full[size, row, 3 + resource] = books.want[resource]


@compiled(BOOKS, COUNT, REAL, REAL, COUNT, REAL, source=__file__, inside=True)
def earliest(books, row, ready, hours, pausable, cutoff):  # type: ignore[no-untyped-def]
    """Return the earliest start from `ready` on, and the end, of what takes books.want for some hours; it rests while the node is away.

    What could only end after the cutoff is not looked for. Spans that earlier searches found full are passed at once.
    """
    since = ready
    if pausable == 0 and books.count[row] > MANY:
        ready = _past_full(books, row, ready, hours)
    if ready + hours > cutoff:
        return 1e18, 1e18
    first = _step(books, row, ready)
    step, last = first, books.count[row] - 1
    start, finish, left = -1.0, 1e18, hours
    while True:
        begin = max(books.steps[row, step, TIME], ready)
        if start < 0.0 and begin + hours > cutoff:
            break
        fits = _fits(books, row, step)
        if books.steps[row, step, AWAY] == 1:
            if start >= 0.0 and not (pausable == 1 and fits):
                start = -1.0
        elif fits:
            if start < 0.0:
                start, left = begin, hours
            if step == last or books.steps[row, step + 1, TIME] - begin >= left - INSTANT:
                finish = begin + left
                break
            left -= books.steps[row, step + 1, TIME] - begin
        else:
            start = -1.0
        if step == last:
            return 1e18, 1e18
        step += 1
    if pausable == 0 and step - first >= LONG:
        _note_full(books, row, since, begin if start < 0.0 else start, hours)
    return (start, finish) if start >= 0.0 else (1e18, 1e18)


@compiled(BOOKS, COUNT, REAL, source=__file__)
def _cut(books, row, when):  # type: ignore[no-untyped-def]
    """Make an instant the begin of a step, and return the step."""
    step = _step(books, row, when)
    if abs(books.steps[row, step, TIME] - when) <= INSTANT or when < books.steps[row, step, TIME]:
        return step
    for at in range(books.count[row], step + 1, -1):
        for part in range(books.steps.shape[2]):
            books.steps[row, at, part] = books.steps[row, at - 1, part]
    books.count[row] += 1
    for part in range(books.steps.shape[2]):
        books.steps[row, step + 1, part] = books.steps[row, step, part]
    books.steps[row, step + 1, TIME] = when
    return step + 1


@compiled(BOOKS, COUNT, COUNT, source=__file__)
def _join(books, row, step):  # type: ignore[no-untyped-def]
    """Make one step of two neighbours in which the same is free, so that full stretches are passed at once."""
    if step <= 0 or step >= books.count[row]:
        return
    for part in range(AWAY, books.steps.shape[2]):
        if books.steps[row, step, part] != books.steps[row, step - 1, part]:
            return
    books.count[row] -= 1
    for at in range(step, books.count[row]):
        for part in range(books.steps.shape[2]):
            books.steps[row, at, part] = books.steps[row, at + 1, part]


@compiled(BOOKS, COUNT, REAL, REAL, source=__file__)
def take(books, row, start, end):  # type: ignore[no-untyped-def]
    """Take books.want of a row from start to end."""
    if end - start <= INSTANT:
        return
    first = _cut(books, row, start)
    last = _cut(books, row, end)
    for step in range(first, last):
        for resource in range(books.want.shape[0]):
            books.steps[row, step, FREE + resource] -= books.want[resource]
    _join(books, row, last)
    _join(books, row, first)
