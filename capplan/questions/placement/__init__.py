"""Placement: which task runs where and when, what moving the data costs, what is misplaced, and which machine fits which stage."""

from capplan.questions.placement.checked_placement import CheckedPlacement, check_placement
from capplan.questions.placement.deadline import Deadline
from capplan.questions.placement.diagnose_placement import Diagnosis, diagnose_placement
from capplan.questions.placement.pipeline_demand import as_other_costs, as_training_runs, demand_by_stage, egress
from capplan.questions.placement.place_tasks import Placement, place_tasks
from capplan.questions.placement.proposed_placement import read_placement
from capplan.questions.placement.stage_guide import stage_guide
