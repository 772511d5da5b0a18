"""Placement: which task runs where and when, and what moving the data costs."""

from capplan.questions.placement.deadline import Deadline
from capplan.questions.placement.place_tasks import Placement, place_tasks

__all__ = ["Deadline", "Placement", "place_tasks"]
