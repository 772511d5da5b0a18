"""Simplex bases of one problem, kept as arrays, so that compiled code can test and pivot very many points at once."""

from __future__ import annotations

import numpy as np

from capplan.errors import SolveError
from capplan.optimize.inverses import FIRST_ROOM, clock, grown, guard, inverses_of, let_go
from capplan.optimize.walk import LOST, UNKNOWN, Held, Points, Work, walk

Array = np.ndarray
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
        # A basis is known by the exclusive or of random words, one for each column: equal sets of columns have equal words.
        self.word = np.random.default_rng(20270101).integers(-(2**63), 2**63, (n, 2))
        self.words, self.child = np.zeros((FIRST_ROOM, 2), dtype=np.int64), np.full((FIRST_ROOM, m), UNKNOWN)
        self.table = np.full(_table_size(FIRST_ROOM), -1)
        self.counter = np.zeros(1, dtype=np.int64)
        self.work = Work(np.zeros(m), np.zeros(n), np.zeros(m))
        self.kept = inverses_of(m, n)
        with guard:
            self.kept.keepers.add(self)

    def __del__(self) -> None:
        """Give back what the inverses took."""
        self.kept.returned.append(self.slot[self.slot >= 0])

    @property
    def count(self) -> int:
        """How many bases there are."""
        return int(self.counter[0])

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
        with guard:
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
        none = np.zeros(len(b), dtype=np.int64)
        points = Points(np.ascontiguousarray(b), tolerance, basis.astype(np.int64), none, none.copy(), np.zeros(len(b)))
        # points of one basis follow each other, so that its inverse is read from memory once
        left = np.argsort(basis, kind="stable")
        with guard:
            while len(left):
                order = left
                while (done := walk(self._held(), points, self.work, left, steps, self.clock)) < len(left):
                    self._more_numbers() if self.count == len(self.slot) else self.kept.grow()
                    left = left[done:]
                # only when all have moved, so that the order of points, and so every bit, is the same wherever room ran out
                left = order[points.row[order] == LOST]
                if len(left):
                    self._slots(points.basis[left])
            # a basis that was made and left aside at once has duals too
            unpriced = np.flatnonzero(~self.priced[: self.count])
            if len(unpriced):
                self._invert(unpriced.tolist())
        return points.basis, points.row, points.short

    def _held(self) -> Held:
        """Return the arrays that compiled code works on."""
        kept = (self.columns, self.duals, self.slot, self.updates, self.used, self.priced, self.words, self.child, self.table, self.counter)
        at = self.kept
        return Held(*kept, at.left, at.free, at.inverse, at.norm, at.reduced, self.matrix, self.cost, self.word)

    def _place(self, word: Array) -> int:
        """Return the place of a basis in the table of known ones: where it is, or where it would be put."""
        size = len(self.table)
        place = int(word[0]) & (size - 1)
        while self.table[place] >= 0 and (self.words[self.table[place]] != word).any():
            place = (place + 1) & (size - 1)
        return place

    def _more_numbers(self) -> None:
        """Make room for more bases."""
        self.columns, self.duals, self.updates, self.used, self.priced, self.words = (
            grown(array) for array in (self.columns, self.duals, self.updates, self.used, self.priced, self.words)
        )
        more = len(self.columns) - len(self.slot)
        self.slot = np.concatenate([self.slot, np.full(more, -1)])
        self.child = np.concatenate([self.child, np.full((more, self.child.shape[1]), UNKNOWN)])
        self.table = np.full(_table_size(len(self.slot)), -1)
        left, place = np.arange(self.count), self.words[: self.count, 0] & (len(self.table) - 1)
        while len(left):
            # the first at a free place takes it, and the others go on to the next
            places, first = np.unique(place, return_index=True)
            first = first[self.table[places] < 0]
            self.table[place[first]] = left[first]
            left, place = np.delete(left, first), (np.delete(place, first) + 1) & (len(self.table) - 1)

    def values(self, basis: Array, b: Array) -> Array:
        """Return the basic variables of points at their bases, (N, m)."""
        result, order = np.zeros_like(b), np.argsort(basis, kind="stable")
        first = np.concatenate([[0], np.flatnonzero(np.diff(basis[order])) + 1, [len(order)]])
        with guard:
            slots = self._slots(basis[order[first[:-1]]]) if len(order) else ()
            for slot, begin, end in zip(slots, first, first[1:], strict=False):
                own = order[begin:end]
                result[own] = b[own] @ self.kept.inverse[slot]
        return result

    def row_of_inverse(self, number: int, row: int) -> Array:
        """Return one row of the inverse of a basis, (m,)."""
        with guard:
            slot = self._slots(np.array([number]))[0]
            return np.array(self.kept.inverse[slot, :, row])

    def begin(self) -> None:
        """Begin to move points: what is used from now on was used last."""
        self.clock = next(clock)

    def evict(self) -> None:
        """Let go of inverses where they take more memory than they may."""
        with guard:
            let_go()

    def _slots(self, basis: Array) -> Array:
        """Return where the inverses of bases are, made anew where they were let go."""
        self.used[basis] = self.clock
        slots = self.slot[basis]
        lost = np.unique(basis[slots < 0])
        if len(lost):
            self._invert(lost.tolist())
            slots = self.slot[basis]
        return slots

    def _invert(self, numbers: list[int]) -> None:
        """Make inverses from the columns of their bases."""
        at, columns = self.kept, self.columns[numbers]
        try:
            inverse = np.linalg.inv(self.matrix[:, columns].transpose(1, 0, 2))
        except np.linalg.LinAlgError as error:
            raise SolveError("a recourse basis is singular; look for recourse coefficients of very different size") from error
        slots = at.room(len(numbers))
        self.slot[numbers], self.used[numbers] = slots, self.clock
        at.inverse[slots] = inverse.transpose(0, 2, 1)
        at.norm[slots] = np.sqrt(np.einsum("kij,kij->ki", inverse, inverse))
        reduced = self.perturbed - np.einsum("ki,kij->kj", self.perturbed[columns], inverse) @ self.matrix
        np.put_along_axis(reduced, columns, 0.0, axis=1)
        at.reduced[slots] = np.maximum(reduced, 0.0)
        # duals stay as they were first made, so that cuts do not depend on what was let go in between
        new = np.array(numbers)[~self.priced[numbers]]
        self.duals[new] = np.einsum("ki,kij->kj", self.cost[self.columns[new]], inverse[~self.priced[numbers]])
        self.priced[numbers] = True
        self.updates[numbers] = 0


def _table_size(room: int) -> int:
    """Return the places in the table of known bases: a power of two."""
    return int(2 ** np.ceil(np.log2(TABLE_SHARE * room)))
