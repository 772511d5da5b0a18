"""Demand: how much work will come, and how sure is that."""

from capplan.questions.demand.backtest import Backtest, backtest_demand
from capplan.questions.demand.classes import batch_workloads, class_demand, class_speeds, class_table, shortfall_usd_per_unit, work_growth
from capplan.questions.demand.fitting import fit_usage
from capplan.questions.demand.forecast_demand import Forecast, forecast_demand, last_days, stated_demand
from capplan.questions.demand.series import SeriesForecasts, forecast_series
from capplan.questions.demand.spend import unit_prices
from capplan.questions.demand.statements import Stated
