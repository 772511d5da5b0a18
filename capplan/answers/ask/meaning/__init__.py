"""What a parsed clause means for one book: typed what-ifs, or in which way it is unclear.

Every rule of the grammar has its method in one of these modules; what a rule says is looked up in the book, and where two things fit, or
none, it is asked back with what could be meant.
"""

from capplan.answers.ask.meaning.amounts import Amounts
from capplan.answers.ask.meaning.base import UnclearError
from capplan.answers.ask.meaning.reasons import Reasons
from capplan.answers.ask.meaning.work import Work

__all__ = ["Meaning", "UnclearError"]


class Meaning(Work, Amounts, Reasons):
    """All rules together."""
