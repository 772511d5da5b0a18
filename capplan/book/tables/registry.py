"""Every table a book may have: the one source of checks, error texts and the data dictionary."""

from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from typing import Any

import pandas as pd

from capplan.book.allowed import FORMS, form_words
from capplan.book.tables import contracts, facts, money, offers, placement, serving, traces, training, work
from capplan.book.tables.columns import KINDS, Table

TABLES: dict[str, type[Table]] = {
    "workloads": work.Workloads,
    "usage": work.Usage,
    "commitments": contracts.Commitments,
    "payments": contracts.Payments,
    "spend_agreements": contracts.SpendAgreements,
    "offers": offers.Offers,
    "offer_tiers": offers.OfferTiers,
    "offer_payments": offers.OfferPayments,
    "egress_prices": offers.EgressPrices,
    "price_paths": offers.PricePaths,
    "generations": offers.Generations,
    "price_states": offers.PriceStates,
    "delivery_states": offers.DeliveryStates,
    "limits": contracts.Limits,
    "events": work.Events,
    "training_runs": work.TrainingRuns,
    "speeds": work.Speeds,
    "capacity_requests": work.CapacityRequests,
    "services": work.Services,
    "demand_scenarios": work.DemandScenarios,
    "growth_statements": work.GrowthStatements,
    "planner_forecasts": work.PlannerForecasts,
    "sites": contracts.Sites,
    "assets": contracts.Assets,
    "other_costs": money.OtherCosts,
    "fx": money.Fx,
    "account_map": money.AccountMap,
    "billing": money.Billing,
    "jobs": traces.Jobs,
    "nodes": traces.Nodes,
    "requests": traces.Requests,
    "telemetry": traces.Telemetry,
    "tasks": placement.Tasks,
    "task_edges": placement.TaskEdges,
    "task_durations": placement.TaskDurations,
    "links": placement.Links,
    "scaling_runs": training.ScalingRuns,
    "training_speeds": training.TrainingSpeeds,
    "failures": training.Failures,
    "spot_availability": training.SpotAvailability,
    "serving_runs": serving.ServingRuns,
    "api_contracts": serving.ApiContracts,
    "surfaces": serving.Surfaces,
    "latency_parts": serving.LatencyParts,
    "skus": facts.Skus,
    "accelerators": facts.Accelerators,
    "models": facts.Models,
    "sources": facts.Sources,
}
#: Tables that data/reference supplies; a row of the book with the same key overrides the fact.
REFERENCE_TABLES = ("accelerators", "skus", "offers", "models", "serving_runs", "training_speeds", "failures", "sources")


@dataclass(frozen=True)
class Column:
    """One column of a table, as the reader and the dictionary need it."""

    name: str
    kind: str
    meaning: str
    unit: str
    optional: bool
    default: Any
    refers: str | None
    key: bool
    instant: bool
    rules: tuple[str, ...]

    @property
    def rule(self) -> str:
        """All that is allowed, in words that follow "must be"."""
        rules = " and ".join(self.rules)
        if rules.startswith("one of") or rules in FORMS.values():
            return rules
        return f"{KINDS[self.kind]}{' with a time' if self.instant else ''} {rules}".strip()


def _words(check: Any) -> str:
    """Say in words what a pandera check allows."""
    given = check.statistics
    match check.name:
        case "greater_than":
            return f"above {given['min_value']:g}"
        case "greater_than_or_equal_to":
            return f"at least {given['min_value']:g}"
        case "less_than":
            return f"below {given['max_value']:g}"
        case "less_than_or_equal_to":
            return f"at most {given['max_value']:g}"
        case "isin":
            return "one of " + ", ".join(map(str, given["allowed_values"]))
        case "str_matches":
            return form_words(given["pattern"])
    raise AssertionError(f"the check {check.name} has no words yet")


@cache
def columns_of(table: str) -> tuple[Column, ...]:
    """Return the columns of a table in order."""
    found = []
    for name, column in TABLES[table].to_schema().columns.items():
        meta = column.metadata
        found.append(
            Column(
                name=name,
                kind=str(column.dtype),
                meaning=column.description,
                unit=meta["unit"],
                optional=meta["optional"],
                default=meta["default"],
                refers=meta["refers"],
                key=meta["key"],
                instant=meta["instant"],
                rules=tuple(_words(check) for check in column.checks),
            )
        )
    return tuple(found)


def key_of(table: str) -> list[str]:
    """Return the columns that are unique together."""
    return [column.name for column in columns_of(table) if column.key]


def in_order(table: str, rows: pd.DataFrame) -> pd.DataFrame:
    """Put rows of a table in the order of its key, each with its index: the order in a file is not read, so none can move an answer."""
    key = key_of(table)
    unique = not (rows[key].isna().any(axis=None) or rows.duplicated(key).any())
    return rows.sort_values(key if unique else [*key, *rows.columns.difference(key)], kind="stable")


def meaning_of(table: str) -> str:
    """Return the sentence that says what one row of the table is."""
    return (TABLES[table].__doc__ or "").strip()


@cache
def bounds_of(table: str) -> Any:
    """Return the pandera model of a table without the types of its columns: whoever asks has converted cells, or named them as faults."""
    schema = deepcopy(TABLES[table].to_schema())
    for column in schema.columns.values():
        column.dtype = None
    return schema
