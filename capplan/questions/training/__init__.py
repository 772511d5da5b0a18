"""The question of training: what a run or a tuning sweep needs, in accelerators, days and money."""

from capplan.questions.training.plan import plan_run

__all__ = ["plan_run"]
