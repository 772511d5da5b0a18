"""Simplex bases of one problem, kept as arrays, so that compiled code can test and pivot very many points at once."""

from __future__ import annotations

import itertools
import weakref

import numpy as np

from capplan.errors import SolveError
from capplan.optimize.walk import LOST, UNKNOWN, Held, Points, Work, walk

Array = np.ndarray
_clock = itertools.count(1)
_stores: weakref.WeakSet[BasisStore] = weakref.WeakSet()
#: Memory that the inverses of one store may take, and those of all stores together.
INVERSE_BYTES = 400_000_000
ALL_BYTES = 2_000_000_000
FIRST_ROOM = 64
#: Room grows by this factor; the system moves what is there without copying it, and only what is new takes memory.
GROWTH = 1.5
#: Places in the table of known bases for each basis there is room for.
TABLE_SHARE = 4


class BasisStore:
    r"""Bases of min c z, A z = b, z >= 0, each with its inverse, reduced costs and duals.

    A pivot changes one column, so that a new basis takes its inverse from the old one by one outer product,
    :math:`B'^{-1} = B^{-1} - (d - e_i)\,(B^{-1})_i / d_i` with :math:`d = B^{-1} A_j`, in m^2 steps instead of m^3.

    Args:
        matrix (m, n): A, dense.
        cost, perturbed (n,): c, and c raised a little to break ties; pivots look at the second, duals are of the first.

    Attributes:
        columns (room, m): Columns of each basis in the order of its rows; only the first `count` rows are bases.
        duals (room, m): :math:`c_B B^{-1}`.
    """

    def __init__(self, matrix: Array, cost: Array, perturbed: Array) -> None:
        self.matrix, self.cost, self.perturbed = np.ascontiguousarray(matrix), np.ascontiguousarray(cost, dtype=float), perturbed
        m, n = matrix.shape
        self.clock = 0
        self.columns, self.duals = np.zeros((FIRST_ROOM, m), dtype=np.int64), np.zeros((FIRST_ROOM, m))
        self.slot = np.full(FIRST_ROOM, -1)
        self.updates, self.used = np.zeros(FIRST_ROOM, dtype=np.int64), np.zeros(FIRST_ROOM, dtype=np.int64)
        self.priced = np.zeros(FIRST_ROOM, dtype=bool)
        self.last_used = next(_clock)
        # A basis is known by the exclusive or of random words, one for each column: equal sets of columns have equal words.
        self.word = np.random.default_rng(20270101).integers(-(2**63), 2**63, (n, 2))
        self.words, self.child = np.zeros((FIRST_ROOM, 2), dtype=np.int64), np.full((FIRST_ROOM, m), UNKNOWN)
        self.table = np.full(_table_size(FIRST_ROOM), -1)
        #: How many bases there are, and how many places for inverses are free.
        self.counter = np.zeros(2, dtype=np.int64)
        self._empty()
        self.work = Work(np.zeros(m), np.zeros(n), np.zeros(m))
        self.slot_bytes = 8 * (m * (m + 1) + n)
        self.most = max(256, INVERSE_BYTES // self.slot_bytes)
        _stores.add(self)

    @property
    def count(self) -> int:
        """How many bases there are."""
        return int(self.counter[0])

    def _empty(self) -> None:
        """Make room for a few inverses: by slot the transposed inverse, the length of each row of the inverse, and reduced costs."""
        m, n = self.matrix.shape
        self.inverse, self.norm, self.reduced = np.zeros((FIRST_ROOM, m, m)), np.zeros((FIRST_ROOM, m)), np.zeros((FIRST_ROOM, n))
        self.free = np.arange(FIRST_ROOM)[::-1].copy()
        self.counter[1] = FIRST_ROOM
        self.slot[:] = -1
        self.peak = 0

    def add(self, columns: Array) -> int:
        """Store a basis by its columns and return its number; one that is there already keeps its own."""
        word = np.bitwise_xor.reduce(self.word[columns], axis=0)
        place = self._place(word)
        if self.table[place] >= 0:
            return int(self.table[place])
        if self.count == len(self.slot):
            self._more_numbers()
            place = self._place(word)
        number = self.count
        self.table[place], self.words[number], self.columns[number] = number, word, columns
        self.counter[0] += 1
        self._invert([number])
        return number

    def settle(self, basis: Array, b: Array, tolerance: Array, steps: int) -> tuple[Array, Array, Array]:
        """Move points by dual-simplex pivots, each until it fits, a row proves it infeasible, or it has moved so often.

        Args:
            basis, b, tolerance ((N,), (N, m), (N,)): Basis each point starts from and its right-hand side, and what counts as zero.

        Returns:
            (basis, row, short), (N,) each: Where each point came to rest; `walk.FITS`, `walk.WAITS` for one that has moved often enough,
                else the row that nothing can enter by and by how much it is short.
        """
        points = Points(np.ascontiguousarray(b), tolerance, basis.astype(np.int64), np.zeros(len(b), dtype=np.int64), np.zeros(len(b)))
        # points of one basis follow each other, so that its inverse is read from memory once
        left = np.argsort(basis, kind="stable")
        while len(left):
            done = walk(self._held(), points, self.work, left, steps, self.clock)
            lost = left[:done][points.row[left[:done]] == LOST]
            if len(lost):
                self._slots(points.basis[lost])
            if done < len(left):
                self._more_numbers() if self.count == len(self.slot) else self._more_slots()
            left = np.concatenate([lost, left[done:]])
        # a basis that was made and left aside at once has duals too
        unpriced = np.flatnonzero(~self.priced[: self.count])
        if len(unpriced):
            self._invert(unpriced.tolist())
        return points.basis, points.row, points.short

    def _held(self) -> Held:
        """Return the arrays that compiled code works on."""
        kept = (self.columns, self.duals, self.slot, self.updates, self.used, self.priced, self.words, self.child, self.table, self.counter)
        return Held(*kept, self.free, self.inverse, self.norm, self.reduced, self.matrix, self.cost, self.word)

    def _place(self, word: Array) -> int:
        """Return the place of a basis in the table of known ones: where it is, or where it would be put."""
        size = len(self.table)
        place = int(word[0]) & (size - 1)
        while self.table[place] >= 0 and (self.words[self.table[place]] != word).any():
            place = (place + 1) & (size - 1)
        return place

    def _more_numbers(self) -> None:
        """Make room for more bases."""
        count = self.count
        self.columns, self.duals, self.updates, self.used, self.priced, self.words = (
            _grown(array) for array in (self.columns, self.duals, self.updates, self.used, self.priced, self.words)
        )
        more = len(self.columns) - len(self.slot)
        self.slot = np.concatenate([self.slot, np.full(more, -1)])
        self.child = np.concatenate([self.child, np.full((more, self.child.shape[1]), UNKNOWN)])
        self.table = np.full(_table_size(len(self.slot)), -1)
        for number in range(count):
            self.table[self._place(self.words[number])] = number

    def _more_slots(self) -> None:
        """Make room for more inverses."""
        have, free = len(self.inverse), int(self.counter[1])
        self.inverse, self.norm, self.reduced = (_grown(array) for array in (self.inverse, self.norm, self.reduced))
        self.free = np.concatenate([np.arange(have, len(self.inverse))[::-1], self.free[:free], np.zeros(have - free, dtype=np.int64)])
        self.counter[1] = free + len(self.inverse) - have

    def values(self, basis: Array, b: Array) -> Array:
        """Return the basic variables of points at their bases, (N, m)."""
        result, order = np.zeros_like(b), np.argsort(basis, kind="stable")
        first = np.concatenate([[0], np.flatnonzero(np.diff(basis[order])) + 1, [len(order)]])
        # the slots first: making room for them replaces the inverses
        slots = self._slots(basis[order[first[:-1]]]) if len(order) else ()
        for slot, begin, end in zip(slots, first, first[1:], strict=False):
            own = order[begin:end]
            result[own] = b[own] @ self.inverse[slot]
        return result

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
            free = int(self.counter[1])
            self.free[free : free + len(gone)] = self.slot[gone]
            self.counter[1] += len(gone)
            self.slot[gone] = -1
        total = sum(store.peak * store.slot_bytes for store in _stores)
        if total <= ALL_BYTES:
            return
        for store in sorted(_stores, key=lambda store: store.last_used)[:-1]:
            total -= store.peak * store.slot_bytes
            store._empty()
            if total <= ALL_BYTES:
                break

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
        while self.counter[1] < len(numbers):
            self._more_slots()
        self.counter[1] -= len(numbers)
        slots = self.free[self.counter[1] : self.counter[1] + len(numbers)][::-1].copy()
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


def _grown(array: Array) -> Array:
    """Return the array with more room; it is the same one."""
    array.resize((int(GROWTH * len(array)), *array.shape[1:]), refcheck=False)
    return array


def _table_size(room: int) -> int:
    """Return the places in the table of known bases: a power of two."""
    return int(2 ** np.ceil(np.log2(TABLE_SHARE * room)))
