"""Many scenarios: which assumptions move the decision, and which decision stands across all of them."""

from capplan.sweep.points import Axis, parse_axis, points_of
from capplan.sweep.run import Sweep, sweep_book
from capplan.sweep.write import write_sweep

__all__ = ["Axis", "Sweep", "parse_axis", "points_of", "sweep_book", "write_sweep"]
