"""Assumptions of the trade-off between expected cost and the bad cases."""

from capplan.book.assumptions.base import assumption
from capplan.book.assumptions.procurement import ProcurementAssumptions


class FrontierAssumptions(ProcurementAssumptions):
    """What it costs to be safer."""

    frontier_points: int = assumption(
        5,
        "Plans on the frontier of expected cost against the bad cases: risk weights from 0 to 1 in equal steps, and the plan's own.",
        "A judgement: quarters of the way show the bend; each point is a plan of its own, solved from the last one.",
        "2 to 21 by 1",
    )
