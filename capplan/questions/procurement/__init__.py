"""Procurement: what to buy in each quarter, and why."""

from capplan.questions.procurement.agreed import QUICK
from capplan.questions.procurement.answer import Proof, Purchases
from capplan.questions.procurement.first import FIRST_GAP, FirstAnswer, first_answer
from capplan.questions.procurement.fresh import OutOfSample, judge_on_fresh_paths
from capplan.questions.procurement.frontier import Frontier, trace_frontier
from capplan.questions.procurement.keeping import Kept, Signed, keep_decision, signed_now
from capplan.questions.procurement.plan import plan_purchases
from capplan.questions.procurement.rolling import Rolling, rehearse_plan
from capplan.questions.procurement.sampling import sample_paths
from capplan.questions.procurement.solve import Decided, decide

__all__ = [
    "FIRST_GAP",
    "QUICK",
    "Decided",
    "FirstAnswer",
    "Frontier",
    "Kept",
    "OutOfSample",
    "Proof",
    "Purchases",
    "Rolling",
    "Signed",
    "decide",
    "first_answer",
    "judge_on_fresh_paths",
    "keep_decision",
    "plan_purchases",
    "rehearse_plan",
    "sample_paths",
    "signed_now",
    "trace_frontier",
]
