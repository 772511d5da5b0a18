"""Simplex bases of one problem, kept as arrays, so that compiled code can test and pivot very many of them at once."""

from __future__ import annotations

import itertools
import weakref

import numpy as np
from numba import types

from capplan.compiling import compiled
from capplan.errors import SolveError

Array = np.ndarray
_clock = itertools.count(1)
_stores: weakref.WeakSet[BasisStore] = weakref.WeakSet()
NUMBERS, REALS, TABLE, CUBE = types.int64[::1], types.float64[::1], types.float64[:, ::1], types.float64[:, :, ::1]
PIVOT_TOLERANCE = 1e-9
#: Pivots after which an inverse is made anew, so that rounding does not add up.
MOST_UPDATES = 24
#: Memory that the inverses of one store may take, and those of all stores together.
INVERSE_BYTES = 400_000_000
ALL_BYTES = 1_000_000_000
FIRST_ROOM = 64
GROWTH = 4


class BasisStore:
    r"""Bases of min c z, A z = b, z >= 0, each with its inverse, reduced costs and duals.

    A pivot changes one column, so that a new basis takes its inverse from the old one by one outer product,
    :math:`B'^{-1} = B^{-1} - (d - e_i)\,(B^{-1})_i / d_i` with :math:`d = B^{-1} A_j`, in m^2 steps instead of m^3.

    Parameters
    ----------
    matrix : (m, n)
        A, dense.
    cost, perturbed : (n,)
        c, and c raised a little to break ties; pivots look at the second, duals are of the first.

    Attributes
    ----------
    columns : (room, m)
        Columns of each basis in the order of its rows; only the first `count` rows are bases.
    duals : (room, m)
        :math:`c_B B^{-1}`.
    """

    def __init__(self, matrix: Array, cost: Array, perturbed: Array) -> None:
        self.matrix, self.cost, self.perturbed = np.ascontiguousarray(matrix), cost, perturbed
        m, n = matrix.shape
        self.count, self.clock = 0, 0
        self.columns, self.duals = np.zeros((FIRST_ROOM, m), dtype=np.int64), np.zeros((FIRST_ROOM, m))
        self.slot = np.full(FIRST_ROOM, -1)
        self.updates, self.used = np.zeros(FIRST_ROOM, dtype=np.int64), np.zeros(FIRST_ROOM, dtype=np.int64)
        self.priced = np.zeros(FIRST_ROOM, dtype=bool)
        self.last_used = next(_clock)
        self._empty()
        # A basis is known by the exclusive or of random words, one for each column: equal sets of columns have equal words.
        draw = np.random.default_rng(20270101)
        self.word = [int.from_bytes(draw.bytes(16)) for _ in range(n)]
        self.words: list[int] = []
        self.index: dict[int, int] = {}
        self.child: dict[tuple[int, int], int] = {}
        self.slot_bytes = 8 * (m * (m + 1) + n)
        self.most = max(256, INVERSE_BYTES // self.slot_bytes)
        _stores.add(self)

    def _empty(self) -> None:
        """Make room for a few inverses: by slot the transposed inverse, the length of each row of the inverse, and reduced costs."""
        m, n = self.matrix.shape
        self.inverse, self.norm, self.reduced = np.zeros((FIRST_ROOM, m, m)), np.zeros((FIRST_ROOM, m)), np.zeros((FIRST_ROOM, n))
        self.free = list(range(FIRST_ROOM))[::-1]
        self.slot[:] = -1
        self.peak = 0

    def add(self, columns: Array) -> int:
        """Store a basis by its columns and return its number; one that is there already keeps its own."""
        word = 0
        for j in columns.tolist():
            word ^= self.word[j]
        known = self.index.get(word)
        if known is not None:
            return known
        number = self._new(word)
        self.columns[number] = columns
        self._invert([number])
        return number

    def leaving(self, basis: Array, b: Array, tolerance: Array) -> tuple[Array, Array]:
        """Return the row that each point must leave its basis by, -1 where the basis fits, and by how much that row is short; (N,) both.

        Parameters
        ----------
        basis, b, tolerance : (N,), (N, m), (N,)
            Basis and right-hand side of each point, and what counts as zero.
        """
        rows, short = np.zeros(len(b), dtype=np.int64), np.zeros(len(b))
        _leaving(self._slots(basis), self.inverse, self.norm, b, tolerance, np.zeros(len(self.matrix)), rows, short)
        return rows, short

    def values(self, number: int, b: Array) -> Array:
        """Return the basic variables of points that share a basis, (N, m)."""
        # the slot first: making room for it replaces the inverses
        slot = self._slots(np.array([number]))[0]
        return b @ self.inverse[slot]

    def move(self, basis: Array, row: Array) -> Array:
        """Return the basis after a dual-simplex pivot of each on a row, (N,); -1 where nothing can enter, which proves infeasibility."""
        pairs = list(zip(basis.tolist(), row.tolist(), strict=True))
        missing = [i for i, pair in enumerate(pairs) if pair not in self.child]
        if missing:
            old, at = basis[missing], row[missing]
            slots = self._slots(old)
            entering, alpha = np.zeros(len(at), dtype=np.int64), np.zeros((len(at), self.matrix.shape[1]))
            _entering(slots, at, self.inverse, self.reduced, self.matrix, alpha, entering)
            leaving = self.columns[old, at]
            fresh: list[tuple[int, int]] = []
            for i, (pair, enters, leaves) in enumerate(zip([pairs[k] for k in missing], entering.tolist(), leaving.tolist(), strict=True)):
                if enters < 0:
                    self.child[pair] = -1
                    continue
                word = self.words[pair[0]] ^ self.word[leaves] ^ self.word[enters]
                number = self.index.get(word)
                if number is None:
                    number = self._new(word)
                    fresh.append((i, number))
                self.child[pair] = number
            if fresh:
                made, new = (np.array(part) for part in zip(*fresh, strict=True))
                self._derive(old[made], at[made], entering[made], alpha[made], new)
        return np.array([self.child[pair] for pair in pairs], dtype=int)

    def row_of_inverse(self, number: int, row: int) -> Array:
        """Return one row of the inverse of a basis, (m,)."""
        slot = self._slots(np.array([number]))[0]
        return self.inverse[slot, :, row].copy()

    def evict(self) -> None:
        """Let go of the inverses used longest ago when they take more memory than they may, here and in all stores together."""
        held = np.flatnonzero(self.slot[: self.count] >= 0)
        self.last_used, self.peak = next(_clock), max(self.peak, len(held))
        if len(held) > self.most:
            held = held[np.argsort(-self.used[held], kind="stable")]
            gone = held[self.most // 2 :]
            self.free.extend(self.slot[gone].tolist())
            self.slot[gone] = -1
        total = sum(store.peak * store.slot_bytes for store in _stores)
        if total <= ALL_BYTES:
            return
        for store in sorted(_stores, key=lambda store: store.last_used)[:-1]:
            total -= store.peak * store.slot_bytes
            store._empty()
            if total <= ALL_BYTES:
                break

    def _new(self, word: int) -> int:
        """Return the number of a basis that has no inverse yet."""
        number = self.count
        if number == len(self.slot):
            self.columns, self.duals, self.updates, self.used, self.priced = (
                _grown(array) for array in (self.columns, self.duals, self.updates, self.used, self.priced)
            )
            self.slot = np.concatenate([self.slot, np.full(len(self.columns) - number, -1)])
        self.index[word] = number
        self.words.append(word)
        self.count += 1
        return number

    def _slots(self, basis: Array) -> Array:
        """Return where the inverses of bases are, made anew where they were let go."""
        self.used[basis] = self.clock
        slots = self.slot[basis]
        lost = np.unique(basis[slots < 0])
        if len(lost):
            self._invert(lost.tolist())
            slots = self.slot[basis]
        return slots

    def _room(self, numbers: list[int]) -> Array:
        """Give bases a slot each and return the slots."""
        while len(self.free) < len(numbers):
            have = len(self.inverse)
            self.inverse, self.norm, self.reduced = (_grown(array) for array in (self.inverse, self.norm, self.reduced))
            self.free = list(range(have, len(self.inverse)))[::-1] + self.free
        slots = np.array([self.free.pop() for _ in numbers], dtype=int)
        self.slot[numbers] = slots
        self.used[numbers] = self.clock
        return slots

    def _invert(self, numbers: list[int]) -> None:
        """Make inverses from the columns of their bases."""
        slots = self._room(numbers)
        columns = self.columns[numbers]
        try:
            inverse = np.linalg.inv(self.matrix[:, columns].transpose(1, 0, 2))
        except np.linalg.LinAlgError as error:
            raise SolveError("a recourse basis is singular; look for recourse coefficients of very different size") from error
        self.inverse[slots] = inverse.transpose(0, 2, 1)
        self.norm[slots] = np.sqrt(np.einsum("kij,kij->ki", inverse, inverse))
        reduced = self.perturbed - np.einsum("ki,kij->kj", self.perturbed[columns], inverse) @ self.matrix
        np.put_along_axis(reduced, columns, 0.0, axis=1)
        self.reduced[slots] = np.maximum(reduced, 0.0)
        # duals stay as they were first made, so that cuts do not depend on what was let go in between
        new = np.array(numbers)[~self.priced[numbers]]
        self.duals[new] = np.einsum("ki,kij->kj", self.cost[self.columns[new]], inverse[~self.priced[numbers]])
        self.priced[numbers] = True
        self.updates[numbers] = 0

    def _derive(self, old: Array, row: Array, entering: Array, alpha: Array, new: Array) -> None:
        """Make bases from those they differ from by one column."""
        self.columns[new] = self.columns[old]
        self.columns[new, row] = entering
        self.updates[new] = self.updates[old] + 1
        stale = self.updates[new] > MOST_UPDATES
        if stale.any():
            self._invert(new[stale].tolist())
            old, row, entering, alpha, new = (part[~stale] for part in (old, row, entering, alpha, new))
        target = self._room(new.tolist())
        duals = self.duals[old]
        work = np.zeros(len(self.matrix))
        _pivot(self.slot[old], target, row, entering, alpha, self.inverse, self.norm, self.reduced, duals, self.matrix, self.cost, work)
        self.duals[new], self.priced[new] = duals, True


def _grown(array: Array) -> Array:
    """Return an array with more room; what is not used yet takes no memory."""
    result = np.zeros((GROWTH * len(array), *array.shape[1:]), dtype=array.dtype)
    result[: len(array)] = array
    return result


@compiled(NUMBERS, CUBE, TABLE, TABLE, REALS, REALS, NUMBERS, REALS, source=__file__, entry=True)
def _leaving(slots, inverse, norm, b, tolerance, value, rows, short):  # type: ignore[no-untyped-def]
    """Write each point's row that is most negative for its length (-1: none), and by how much; `value` is (m,) to work in."""
    points, m = b.shape
    for p in range(points):
        at = slots[p]
        for i in range(m):
            value[i] = 0.0
        for j in range(m):
            share = b[p, j]
            if share != 0.0:
                for i in range(m):
                    value[i] += inverse[at, j, i] * share
        lowest, least, row = 0.0, 0.0, -1
        for i in range(m):
            lowest = min(lowest, value[i])
            if value[i] < least * norm[at, i]:
                least, row = value[i] / norm[at, i], i
        rows[p] = -1
        if lowest < -tolerance[p]:
            rows[p], short[p] = row, -value[row]


@compiled(NUMBERS, NUMBERS, CUBE, TABLE, TABLE, TABLE, NUMBERS, source=__file__, entry=True)
def _entering(slots, rows, inverse, reduced, matrix, alpha, entering):  # type: ignore[no-untyped-def]
    """Write the column that keeps reduced costs non-negative, -1 where there is none, and the row of the tableau, (N, n), into zeros."""
    m, n = matrix.shape
    for p in range(len(slots)):
        at, row = slots[p], rows[p]
        for i in range(m):
            share = inverse[at, i, row]
            if share != 0.0:
                for j in range(n):
                    alpha[p, j] += share * matrix[i, j]
        largest = 1.0
        for j in range(n):
            largest = max(largest, abs(alpha[p, j]))
        least, best = -PIVOT_TOLERANCE * largest, 1e300
        for j in range(n):
            if alpha[p, j] < least:
                best = min(best, reduced[at, j] / -alpha[p, j])
        entering[p], steepest = -1, 0.0
        for j in range(n):
            if alpha[p, j] < least and reduced[at, j] / -alpha[p, j] <= best * (1 + 1e-12) and alpha[p, j] < steepest:
                entering[p], steepest = j, alpha[p, j]


@compiled(NUMBERS, NUMBERS, NUMBERS, NUMBERS, TABLE, CUBE, TABLE, TABLE, TABLE, TABLE, REALS, REALS, source=__file__, entry=True)
def _pivot(source, target, rows, entering, alpha, inverse, norm, reduced, duals, matrix, cost, direction):  # type: ignore[no-untyped-def]
    """Write inverse, row lengths, reduced costs and duals of each new basis; `duals` holds the old ones, `direction` is (m,)."""
    m, n = matrix.shape
    for p in range(len(source)):
        old, new, row, enters = source[p], target[p], rows[p], entering[p]
        for i in range(m):
            direction[i] = 0.0
            norm[new, i] = 0.0
        dual_cost = cost[enters]
        for j in range(m):
            share = matrix[j, enters]
            if share != 0.0:
                dual_cost -= duals[p, j] * share
                for i in range(m):
                    direction[i] += inverse[old, j, i] * share
        turn = direction[row]
        for j in range(m):
            part = inverse[old, j, row] / turn
            duals[p, j] += dual_cost * part
            for i in range(m):
                inverse[new, j, i] = inverse[old, j, i] - direction[i] * part
            inverse[new, j, row] = part
            for i in range(m):
                norm[new, i] += inverse[new, j, i] * inverse[new, j, i]
        for i in range(m):
            norm[new, i] = norm[new, i] ** 0.5
        step = reduced[old, enters] / -alpha[p, enters]
        for j in range(n):
            reduced[new, j] = max(reduced[old, j] + step * alpha[p, j], 0.0)
        reduced[new, enters] = 0.0
