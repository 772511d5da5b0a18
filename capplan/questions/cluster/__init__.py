"""How long jobs wait: a trace-driven simulation of a cluster and its scheduler."""

from capplan.book.policies import POLICIES, Policy
from capplan.questions.cluster.capacity import CapacityCurve, capacity_curve, resized, smallest_size
from capplan.questions.cluster.headroom import Headroom, queue_headroom
from capplan.questions.cluster.simulate_cluster import Schedule, simulate_cluster
