"""Spot that is scarcer when demand is high: every recourse point has a cap of its own, so that all still share one matrix."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import sparse

from capplan.questions.procurement.work.load import Work
from capplan.questions.reliability import spot_left_share

#: A cap that falls, or is left unused, by less than this share of it is rounding.
NOTICEABLE_SHARE = 1e-6


@dataclass(frozen=True)
class Scarcity:
    """Caps on spot, as stated and as demand leaves them."""

    rows: np.ndarray  #: (k,): Recourse rows of the caps.
    serves: np.ndarray  #: ((k, D) bool): Rows of work that could run in the pools of a cap.
    caps: np.ndarray  #: (spans, k): Caps before anything is gone; infinite where none is stated.
    place: np.ndarray  #: (P,): Span of each point.
    mean: np.ndarray  #: (cells, k): Fastest accelerators that these rows are expected to need.
    cell: np.ndarray  #: (P,): Which of these means is a point's.
    share: float  #: Share of a cap that is gone for each share above expectation.
    ample: float  #: Accelerators beyond which no cap matters.

    def left(self, load: np.ndarray, points: np.ndarray | slice = slice(None)) -> np.ndarray:
        """Return the caps of some points at a load, (points, k)."""
        stated = self.caps[self.place[points]]
        expected = np.where(np.isinf(stated), np.inf, self.mean[self.cell[points]])
        return np.asarray(np.minimum(stated * spot_left_share(load @ self.serves.T, expected, self.share), self.ample))


def lay_out_scarcity(
    caps: Mapping[int, tuple[np.ndarray, np.ndarray]],
    place: np.ndarray,
    later: tuple[sparse.csr_matrix, np.ndarray],
    work: Work,
    share: float,
    ample: float,
) -> Scarcity:
    r"""Say what is left of each cap: :math:`S_p = S \max(0,\ 1 - \kappa \max(0,\ D_p / E[D] - 1))`.

    D is all work that could run in the cap's pools, in fastest accelerators, and its expectation is over the paths in the same block of
    the same quarter.

    Args:
        caps: For each recourse row of a cap: the rows of work it concerns, and the cap by span.
        place (P,): Span of each recourse point.
        later: Weights of the work's points in each level of demand after the horizon, and the level of each later point.
        share, ample: As in `Scarcity`.
    """
    rows, spans = np.array(sorted(caps), dtype=int), int(place.max()) + 1
    serves = np.array([caps[row][0] for row in rows.tolist()], dtype=float).reshape(len(rows), len(work.rows))
    stated = np.array([caps[row][1][:spans] for row in rows.tolist()], dtype=float).reshape(len(rows), spans).T
    cell = pd.MultiIndex.from_frame(work.points[["quarter", "block"]]).factorize()[0].astype(np.int32)
    weight = work.paths["probability"].to_numpy(float)[work.points["path"]] * work.points["hours"].to_numpy(float)
    total = np.bincount(cell, weights=weight)
    mean = np.zeros((len(total), len(rows)))
    if len(rows):
        need = work.load @ serves.T
        mean = np.stack([np.bincount(cell, weights=weight * column) / total for column in need.T], axis=1)
    levels, level = later
    own = np.unique(levels.indices)
    means = np.vstack([mean, np.asarray(levels[:, own] @ mean[cell[own]])])
    cells = np.concatenate([cell, (len(total) + level).astype(np.int32)])
    return Scarcity(rows, serves, stated, place.astype(np.int32), means, cells, share, ample)


def scarcity_notes(scarcity: Scarcity, h: np.ndarray, W: sparse.csr_matrix, weight: np.ndarray, decisions: sparse.csr_matrix) -> list[str]:
    """Say how often the plan would use spot that high demand has taken away.

    Args:
        h, weight, decisions: Right-hand sides, expected hours and recourse of the planned points, which come first.
    """
    stated, left = np.minimum(scarcity.caps[scarcity.place[: len(h)]], scarcity.ample), h[:, scarcity.rows]
    used = np.asarray((decisions @ W[scarcity.rows].T).todense())
    little = NOTICEABLE_SHARE * np.maximum(stated, 1.0)
    missed = ((left < stated - little) & (used > left - little)).any(axis=1)
    share = float(weight @ missed / weight.sum())
    if share == 0:
        return []
    often = f"{100 * share:.0f} %" if share >= 0.01 else "less than 1 %"
    return [
        f"Spot is taken to be scarcer when demand is high: demand 10 % above what is expected leaves {10 * scarcity.share:g} % less of it"
        f" (spot_scarcity). In {often} of the hours all that is left is used."
    ]
