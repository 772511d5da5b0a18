"""The question of training: what a run or a tuning sweep needs, in accelerators, days and money."""

from capplan.questions.training.architecture import Shape, activation_bytes, shape_of, state_bytes
from capplan.questions.training.flops import operations_per_token, run_accelerator_hours, run_days, run_exaflop, run_usd, utilisation_share
from capplan.questions.training.layout import Machine, bubble_share, chosen_layouts, layouts
from capplan.questions.training.offered import TrainingTables
from capplan.questions.training.plan_run import plan_run
from capplan.questions.training.run_answer import RunStudy, choose_run, study_run
from capplan.questions.training.storage import checkpoint_gib, run_storage, transfer_days
from capplan.questions.training.sweeps import halving_rungs, hyperband_brackets, plan_sweep
from capplan.questions.training.ways import adapter_parameters, compare_ways
