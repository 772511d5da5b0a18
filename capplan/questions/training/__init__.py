"""The question of training: what a run or a tuning sweep needs, in accelerators, days and money."""

from capplan.questions.training.answer import RunStudy, choose_run, study_run
from capplan.questions.training.plan import plan_run
from capplan.questions.training.sweeps import plan_sweep

__all__ = ["RunStudy", "choose_run", "plan_run", "plan_sweep", "study_run"]
