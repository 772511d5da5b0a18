"""Crossover: host a model, or call an API."""

from capplan.questions.crossover.calls import api_ways, overflow_prices
from capplan.questions.crossover.find_crossover import Crossover, find_crossover
from capplan.questions.crossover.hosting import Replica, peak_over_block, terms_of
from capplan.questions.crossover.service_traffic_by_path import Work
from capplan.questions.crossover.volumes import break_even_share, staircase_crossings, time_crossover
