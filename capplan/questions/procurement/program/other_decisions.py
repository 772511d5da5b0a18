"""Decisions of the first stage beside contracts: amounts that move a recourse row in one or more quarters."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse


@dataclass(frozen=True)
class Extra:
    """A continuous decision."""

    name: str  #: Name of its variable.
    group: str  #: What it belongs to: a provider, or a row of work.
    quarter: int  #: Planned quarter (index) that it belongs to.
    most: float  #: Upper bound.
    usd: float  #: Value today of what one unit costs.
    billed_usd: float  #: What one unit bills, undiscounted.
    adds: dict[tuple[int, int], float]  #: What one unit adds to the right-hand side of recourse rows, by stage and row.


@dataclass(frozen=True)
class Columns:
    """Where the decisions stand in the program."""

    count: int  #: All columns.
    lots: np.ndarray  #: (n,): Column of each choice.
    unspent: np.ndarray  #: (years,): Of what is left of each contract year of spend agreements.
    #: Of use by the hour that is planned under an agreement, of work that is put off, and of power that is paid for anyway.
    planned_use: np.ndarray
    deferred: np.ndarray
    power: np.ndarray

    @property
    def extras(self) -> np.ndarray:
        """Of all decisions beside contracts, in their order."""
        return np.concatenate([self.planned_use, self.deferred, self.power])


def technology_of(extras: Sequence[Extra], columns: Sequence[int] | np.ndarray, stage: int, shape: tuple[int, int]) -> sparse.csr_matrix:
    """Return what a unit of each decision adds to the right-hand sides of a stage, negated, in the program's columns.

    Args:
        columns: Column of each in the program.
        shape: Recourse rows and columns of the program.
    """
    found = [
        (row, column, -value)
        for extra, column in zip(extras, columns, strict=True)
        for (when, row), value in extra.adds.items()
        if when == stage
    ]
    if not found:
        return sparse.csr_matrix(shape)
    rows, places, values = zip(*found, strict=True)
    return sparse.csr_matrix((values, (rows, places)), shape=shape)
