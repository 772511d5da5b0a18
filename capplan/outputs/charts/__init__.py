"""Pictures: one function per kind; each takes a tidy frame, checks its columns, and computes nothing.

Every function takes the finding as `title`, the assumption it rests on as `subtitle`, and title and unit of
each `Axis`.
"""

from capplan.outputs.charts.bars import bars, tornado, waterfall
from capplan.outputs.charts.frontier import frontier
from capplan.outputs.charts.growth import growth
from capplan.outputs.charts.over_time import curve, fan, layers
from capplan.outputs.charts.pictures import Picture
from capplan.outputs.charts.rows import gantt, heat_map
from capplan.outputs.charts.schedule import schedule
from capplan.outputs.charts.theme import Axis, ChartError, stacked
