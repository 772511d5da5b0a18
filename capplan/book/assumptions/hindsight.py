"""Assumptions of the tests of a purchase plan on demand it has not seen."""

from capplan.book.assumptions.base import assumption
from capplan.book.assumptions.procurement import ProcurementAssumptions


class HindsightAssumptions(ProcurementAssumptions):
    """How well do plans made this way do on demand they have not seen."""

    rolling_test: bool = assumption(
        False,
        "Is the plan rehearsed quarter by quarter on paths it has not seen, and judged on fresh paths?",
        "Off: it takes minutes, since every quarter of every path is a decision of its own.",
    )
    rolling_paths: int = assumption(
        4,
        "Unseen paths on which the plan is rehearsed quarter by quarter.",
        "A judgement: enough to see a pattern, few enough for a coffee break; more paths give narrower bands.",
        "1 to 200 by 1",
    )
    rolling_neighbours: int = assumption(
        12,
        "Paths of the forecast, nearest to what was seen, that stand for the future in each review of the rehearsal.",
        "A judgement: enough for a tail, few enough to be near.",
        "2 to 200 by 1",
    )
    fresh_batches: int = assumption(
        5,
        "Batches of fresh paths, each decided anew, from which the statistical gap is estimated.",
        "Mak, Morton and Wood (1999) ask for independent batches; five give a usable confidence band where paths are few.",
        "2 to 30 by 1",
    )
