"""Recourse that falls into independent parts, each with bases of its own, for each set of costs."""

from __future__ import annotations

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from capplan.optimize.bunching import Bunched, RecourseLibrary

Array = np.ndarray


class SeparableRecourse:
    r"""Optimal bases of a recourse matrix that is block diagonal after reordering, kept for each block and each cost vector.

    .. math:: \min q^T y,\ W y \lessgtr b\quad=\quad\textstyle\sum_k \min q_k^T y_k,\ W_k y_k \lessgtr b_k

    Blocks share neither a row nor a column. A basis of the whole is one of each block, so that a few bases of each block
    stand for very many of the whole. A basis number holds the block's basis and the cost state.

    Args:
        q (states, r): Costs, one vector for each cost state.
        W, sense ((m, r), (m,)): Matrix and senses.
        state (technologies,): Cost state of each technology.
    """

    def __init__(self, q: Array, W: sparse.csr_matrix, sense: Array, state: Array) -> None:
        self.rows, self.columns = W.shape
        self.state, self.states = np.asarray(state, dtype=int), len(q)
        self.parts = independent_parts(W)
        self.row_part = np.zeros(self.rows, dtype=int)
        for k, (rows, _) in enumerate(self.parts):
            self.row_part[rows] = k
        self._program = q, sparse.csr_matrix(W), np.asarray(sense)
        self._made: dict[int, list[RecourseLibrary]] = {}
        self.rays: list[Array] = []
        self._known: dict[tuple[int, int, int], int] = {}

    def adopt(self, other: SeparableRecourse) -> None:
        """Take over the libraries of another program for parts that are the same there."""
        theirs = {library.key: library for libraries in other._made.values() for library in libraries}
        self._made = {s: [theirs.get(library.key, library) for library in self.of(s)] for s in range(self.states)}

    def places(self, other: SeparableRecourse) -> Array | None:
        """Return which part of another program each part here is, -1 for a new one; None if one of its parts is none of these."""
        every = range(self.states if other.states == self.states else 0)
        found = np.full(len(self.parts), -1)
        for k, j in np.ndindex(len(self.parts), len(other.parts)):
            if every and all(self.of(s)[k] is other.of(s)[j] for s in every):
                found[k] = j
        return found if set(range(len(other.parts))) <= set(found.tolist()) else None

    def first(self) -> Array:
        """Return the basis that each part has first in each cost state, (states, parts)."""
        return np.array([[one.first * self.states + s for one in self.of(s)] for s in range(self.states)])

    def of(self, state: int) -> list[RecourseLibrary]:
        """Return the bases of each block at the costs of a state, which begin when they are first asked for."""
        if state not in self._made:
            q, W, sense = self._program
            self._made[state] = [RecourseLibrary(q[state][columns], W[rows][:, columns], sense[rows]) for rows, columns in self.parts]
        return self._made[state]

    @property
    def libraries(self) -> list[list[RecourseLibrary]]:
        """Bases of each block at the costs of each state."""
        return [self.of(state) for state in range(self.states)]

    def evaluate(self, rhs: Array, technology: Array, start: Array | None = None) -> Bunched:
        """Bring every block of every point to its optimal basis; (N, parts) numbers, and one ray for a point that has none.

        Args:
            rhs (N, m): Right-hand sides.
            technology (N,): Technology of each point, which names its cost state and points that lie near each other.
            start ((N, parts), optional): Bases to try first.
        """
        basis, ray = np.zeros((len(rhs), len(self.parts)), dtype=int), np.full(len(rhs), -1)
        for s, own in self._by_state(technology):
            for k, (rows, _) in enumerate(self.parts):
                b = rhs[own][:, rows] if len(self.parts) > 1 else rhs[own]
                found = self.of(s)[k].evaluate(b, technology[own], None if start is None else start[own, k] // self.states)
                basis[own, k] = found.basis * self.states + s
                for number in np.unique(found.ray[found.ray >= 0]).tolist():
                    ray[own[found.ray == number]] = self._ray(s, k, number)
        return Bunched(basis, ray)

    def duals(self, basis: Array) -> Array:
        """Return the duals of each point at its bases, (N, m)."""
        result = np.zeros((len(basis), self.rows))
        for k, (rows, _) in enumerate(self.parts):
            for s, own in self._with_state(basis[:, k]):
                result[self._at(own, rows)] = self.of(s)[k].duals[basis[own, k] // self.states]
        return result

    def costs(self, rhs: Array, basis: Array) -> Array:
        """Return the optimal cost of each point, (N,)."""
        return np.einsum("ij,ij->i", rhs, self.duals(basis))

    def by_part(self, value: Array) -> Array:
        """Sum values of rows, (N, m), within each part, (N, parts)."""
        if len(self.parts) == 1:
            return value.sum(axis=1, keepdims=True)
        return np.stack([value[:, rows].sum(axis=1) for rows, _ in self.parts], axis=1)

    def decisions(self, rhs: Array, basis: Array) -> sparse.csr_matrix:
        """Return the optimal recourse of each point, (N, r) sparse."""
        row, column, value = [np.zeros(0, dtype=int)], [np.zeros(0, dtype=int)], [np.zeros(0)]
        for k, (rows, columns) in enumerate(self.parts):
            for s, own in self._with_state(basis[:, k]):
                amount = self.of(s)[k].decisions(rhs[self._at(own, rows)], basis[own, k] // self.states).tocoo()
                row.append(own[amount.row])
                column.append(columns[amount.col])
                value.append(amount.data)
        place = np.concatenate(row), np.concatenate(column)
        return sparse.csr_matrix((np.concatenate(value), place), shape=(len(rhs), self.columns))

    def totals(self, rhs: Array, basis: Array, values: Array) -> Array:
        """Return sums of the optimal recourse of each point, weighed with values, (k, r): (k, N)."""
        result = np.zeros((len(values), len(rhs)))
        for k, (rows, columns) in enumerate(self.parts):
            for s, own in self._with_state(basis[:, k]):
                here = self.of(s)[k].totals(rhs[self._at(own, rows)], basis[own, k] // self.states, values[:, columns])
                result[:, own] += here
        return result

    def _at(self, points: Array, rows: Array) -> Array | tuple[Array, ...]:
        """Return the place of points at the rows of a part, of which one part has all."""
        return points if len(self.parts) == 1 else np.ix_(points, rows)

    def _by_state(self, technology: Array) -> list[tuple[int, Array]]:
        """Group points by the cost state of their technology."""
        if self.states == 1:
            return [(0, np.arange(len(technology)))]
        state = self.state[technology]
        return [(s, np.flatnonzero(state == s)) for s in range(self.states) if (state == s).any()]

    def _with_state(self, basis: Array) -> list[tuple[int, Array]]:
        """Group points by the cost state that their basis number holds."""
        if self.states == 1:
            return [(0, np.arange(len(basis)))]
        state = basis % self.states
        return [(s, np.flatnonzero(state == s)) for s in range(self.states) if (state == s).any()]

    def _ray(self, s: int, k: int, number: int) -> int:
        """Return the number of a block's ray among the rays of the whole."""
        key = (s, k, number)
        if key not in self._known:
            ray = np.zeros(self.rows)
            ray[self.parts[k][0]] = self.of(s)[k].rays[number]
            self._known[key] = len(self.rays)
            self.rays.append(ray)
        return self._known[key]


def independent_parts(W: sparse.csr_matrix) -> list[tuple[Array, Array]]:
    """Return rows and columns of each independent part of a matrix; empty rows and columns go with the first.

    Examples:
        >>> parts = independent_parts(sparse.csr_matrix([[1, 0, 0], [0, 2, 3], [4, 0, 0]]))
        >>> [(rows.tolist(), columns.tolist()) for rows, columns in parts]
        [([0, 2], [0]), ([1], [1, 2])]
    """
    m, r = W.shape
    joined = sparse.bmat([[None, W != 0], [(W != 0).T, None]], format="csr")
    _, label = connected_components(joined, directed=False)
    both = [number for number in dict.fromkeys(label[:m].tolist()) if (label[m:] == number).any()]
    part = np.zeros(m + r, dtype=int)
    for k, number in enumerate(both):
        part[label == number] = k
    return [(np.flatnonzero(part[:m] == k), np.flatnonzero(part[m:] == k)) for k in range(max(len(both), 1))]
