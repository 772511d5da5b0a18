"""The question of goodput: how much of a paid hour is progress."""

from capplan.questions.goodput.failure_by_failure import Checkpoints, simulate_failures
from capplan.questions.goodput.failure_rates import failure_rates, rate_of
from capplan.questions.goodput.measure_goodput import lost_time, measure_goodput, running_share, spot_break_even
from capplan.questions.goodput.spot_replay import replay_spot, search_interval, up_spells
