"""How much work will come, and how sure are we?"""

from capplan.questions.demand.classes import class_demand, class_speeds, class_table
from capplan.questions.demand.forecast import Forecast, forecast_demand, stated_demand, total_demand

__all__ = ["Forecast", "class_demand", "class_speeds", "class_table", "forecast_demand", "stated_demand", "total_demand"]
