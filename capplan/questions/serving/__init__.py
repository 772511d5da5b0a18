"""Serving: how many accelerators serve this traffic within its latency target."""

from capplan.questions.serving.hosted import ServingTables
from capplan.questions.serving.plan_serving import Serving, plan_serving
from capplan.questions.serving.size_fleet import Fleet, size_fleet, staff_fleet
