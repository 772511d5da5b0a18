"""The question of scaling: what one more accelerator really adds."""

from capplan.questions.scaling.fit_scaling import ScalingFit, fit_scaling
from capplan.questions.scaling.laws import Law, fit_law
