"""The assumptions of the portfolio question."""

from capplan.book.assumptions.base import assumption
from capplan.book.assumptions.procurement import ProcurementAssumptions


class PortfolioAssumptions(ProcurementAssumptions):
    """How much reserved, spot and on demand."""

    largest_ending_share: float = assumption(
        0.34,
        "Largest share of the capacity under contract that may end in one quarter, by the ladder of terms.",
        "A judgement: at most a third, so that no renewal decides the whole fleet.",
        "above 0 to 1 by 0.05 share",
    )
    rehearse: bool = assumption(
        True,
        "Are the rules also tried on the last quarter of the history, with what was known before it?",
        "On: it takes one more forecast.",
    )
