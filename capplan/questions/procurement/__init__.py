"""Procurement: what to buy in each quarter, and why."""

from capplan.questions.procurement.answer import Proof, Purchases
from capplan.questions.procurement.plan import plan_purchases
from capplan.questions.procurement.sampling import sample_paths
from capplan.questions.procurement.solve import decide

__all__ = ["Proof", "Purchases", "decide", "plan_purchases", "sample_paths"]
