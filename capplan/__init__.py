"""capplan: capacity planning and economics of AI infrastructure, from an uncertain forecast to a dated purchase plan."""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

#: Public name -> module; loaded on first use, so that `import capplan` is quick.
_PUBLIC = {
    "load_book": "capplan.inputs.book",
    "open_book": "capplan.inputs.book",
    "Book": "capplan.inputs.book",
    "Scenario": "capplan.inputs.scenario",
    "quarterly_plan": "capplan.plan",
    "Plan": "capplan.plan",
    "forecast_demand": "capplan.questions.demand",
    "stated_demand": "capplan.questions.demand",
    "class_demand": "capplan.questions.demand",
    "fit_scaling": "capplan.questions.scaling",
    "measure_goodput": "capplan.questions.goodput",
    "simulate_failures": "capplan.questions.goodput",
    "plan_run": "capplan.questions.training",
    "price_hours": "capplan.questions.pricing",
    "size_fleet": "capplan.questions.serving",
    "plan_serving": "capplan.questions.serving",
    "simulate_cluster": "capplan.questions.cluster",
    "find_crossover": "capplan.questions.crossover",
    "mix_portfolio": "capplan.questions.portfolio",
    "split_fleet": "capplan.questions.split",
    "plan_purchases": "capplan.questions.procurement",
    "trace_frontier": "capplan.questions.procurement",
    "solve_two_stage": "capplan.optimize.two_stage",
    "TwoStage": "capplan.optimize.two_stage",
    "show_book": "capplan.outputs.views",
    "show_cluster": "capplan.outputs.views",
    "show_crossover": "capplan.outputs.views",
    "show_demand": "capplan.outputs.views",
    "show_frontier": "capplan.outputs.views",
    "show_pricing": "capplan.outputs.views",
    "show_serving": "capplan.outputs.views",
    "show_portfolio": "capplan.outputs.views",
    "show_split": "capplan.outputs.views",
    "show_procurement": "capplan.outputs.views",
    "show_procurement_at_once": "capplan.outputs.views",
    "show_training": "capplan.outputs.views",
    "show_scaling": "capplan.outputs.views",
    "show_goodput": "capplan.outputs.views",
    "show_plan": "capplan.outputs.views",
    "explore": "capplan.outputs.widgets",
    "run_notebook": "capplan.outputs.report",
}


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        return getattr(import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module 'capplan' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*_PUBLIC, "__version__"])
