"""One cluster or two: how the fleet is divided between training and inference."""

from capplan.questions.split.answer import Split
from capplan.questions.split.compare import split_fleet
from capplan.questions.split.serving import serving_load

__all__ = ["Split", "serving_load", "split_fleet"]
