"""Crossover: host a model, or call an API."""

from capplan.questions.crossover.find import Crossover, crossover_volumes, find_crossover
from capplan.questions.crossover.options import api_usd, break_even_share, provisioned_usd, self_host_usd

__all__ = ["Crossover", "api_usd", "break_even_share", "crossover_volumes", "find_crossover", "provisioned_usd", "self_host_usd"]
