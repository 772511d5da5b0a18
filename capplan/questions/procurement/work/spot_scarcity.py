"""Spot that is scarcer when demand is high: every recourse point has a cap of its own, so that all still share one matrix."""

from collections.abc import Callable, Mapping
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
    stated: np.ndarray  #: (P, k): Caps before anything is gone; infinite where none is stated.
    expected: np.ndarray  #: (P, k): Fastest accelerators that these rows are expected to need at a point; infinite where no cap is stated.
    share: float  #: Share of a cap that is gone for each share above expectation.
    ample: float  #: Accelerators beyond which no cap matters.

    def left(self, load: np.ndarray, points: np.ndarray | slice = slice(None)) -> np.ndarray:
        """Return the caps of some points at a load, (points, k)."""
        share = spot_left_share(load @ self.serves.T, self.expected[points], self.share)
        return np.asarray(np.minimum(self.stated[points] * share, self.ample))


def lay_out_scarcity(
    caps: Mapping[int, tuple[np.ndarray, np.ndarray]],
    place: np.ndarray,
    spread: Callable[[np.ndarray], np.ndarray],
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
        spread: Turns a value for each of the work's points, (points, k), into one for each recourse point, (P, k).
        share, ample: As in `Scarcity`.
    """
    rows = np.array(sorted(caps), dtype=int)
    serves = np.array([caps[row][0] for row in rows.tolist()], dtype=float).reshape(len(rows), len(work.rows))
    stated = np.array([caps[row][1][place] for row in rows.tolist()], dtype=float).reshape(len(rows), len(place)).T
    need = work.load @ serves.T
    cell = pd.MultiIndex.from_frame(work.points[["quarter", "block"]]).factorize()[0]
    weight = work.paths["probability"].to_numpy(float)[work.points["path"]] * work.points["hours"].to_numpy(float)
    total = np.bincount(cell, weights=weight)
    mean = (
        np.stack([np.bincount(cell, weights=weight * column) / total for column in need.T], axis=1)
        if len(rows)
        else np.zeros((len(total), 0))
    )
    return Scarcity(rows, serves, stated, np.where(np.isinf(stated), np.inf, spread(mean[cell])), share, ample)


def scarcity_notes(scarcity: Scarcity, h: np.ndarray, W: sparse.csr_matrix, weight: np.ndarray, decisions: sparse.csr_matrix) -> list[str]:
    """Say how often the plan would use spot that high demand has taken away.

    Args:
        h, weight, decisions: Right-hand sides, expected hours and recourse of the planned points, which come first.
    """
    stated, left = np.minimum(scarcity.stated[: len(h)], scarcity.ample), h[:, scarcity.rows]
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
