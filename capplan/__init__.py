"""capplan: capacity planning and economics of AI infrastructure, from an uncertain forecast to a dated purchase plan."""

import os
from importlib import import_module
from typing import Any

__version__ = "0.1.0"

#: Public name -> module; loaded on first use, so that `import capplan` is quick.
_PUBLIC = {
    "load_book": "capplan.book.book",
    "open_book": "capplan.answers.opened",
    "Book": "capplan.book.book",
    "Scenario": "capplan.book.scenario",
    "quarterly_plan": "capplan.answers.plan",
    "Plan": "capplan.answers.plan",
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
    "place_tasks": "capplan.questions.placement",
    "split_fleet": "capplan.questions.split",
    "review_plan": "capplan.questions.review",
    "plan_purchases": "capplan.questions.procurement",
    "trace_frontier": "capplan.questions.procurement",
    "solve_two_stage": "capplan.optimize.two_stage",
    "TwoStage": "capplan.optimize.two_stage",
    "check_parameters": "capplan.outputs.lab.given",
    "explore": "capplan.outputs.lab.widgets",
    "meeting": "capplan.outputs.lab.widgets",
    "run_notebook": "capplan.outputs.run.report",
}


#: Where every question has its `show_NAME`.
_SHOWN = "capplan.outputs.views.all_questions"


def __getattr__(name: str) -> Any:
    if os.environ.get("CAPPLAN_HEADLESS"):
        import_module("capplan.loading").look_rarely()
        if name.startswith("show_"):
            return import_module("capplan.outputs.views.view").handed(name, _SHOWN)
    place = _PUBLIC.get(name, _SHOWN if name.startswith("show_") else "")
    if place and hasattr(import_module(place), name):
        return getattr(import_module(place), name)
    raise AttributeError(f"module 'capplan' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*_PUBLIC, "__version__", *(name for name in dir(import_module(_SHOWN)) if name.startswith("show_"))])
