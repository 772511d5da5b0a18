"""One cluster or two: how the fleet is divided between training and inference."""

from capplan.questions.split.served_workloads import serving_load
from capplan.questions.split.split_answer import Split
from capplan.questions.split.split_fleet import split_fleet
