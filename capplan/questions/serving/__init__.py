"""Serving: how many accelerators serve this traffic within its latency target."""

from capplan.questions.serving.answer import Serving, plan_serving
from capplan.questions.serving.fleet import Fleet, fleet_of, size_fleet, staff_fleet

__all__ = ["Fleet", "Serving", "fleet_of", "plan_serving", "size_fleet", "staff_fleet"]
