"""Every table a book may have: the one source of checks, error texts and the data dictionary."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from capplan.inputs import schema_market as market
from capplan.inputs import schema_procurement as procurement
from capplan.inputs import schema_serving as serving
from capplan.inputs import schema_surfaces as surfaces
from capplan.inputs import schema_training as training
from capplan.inputs import schema_work as work
from capplan.inputs.columns import KINDS, Table

TABLES: dict[str, type[Table]] = {
    "workloads": work.Workloads,
    "usage": work.Usage,
    "commitments": market.Commitments,
    "payments": market.Payments,
    "spend_agreements": market.SpendAgreements,
    "offers": market.Offers,
    "offer_tiers": market.OfferTiers,
    "offer_payments": procurement.OfferPayments,
    "egress_prices": procurement.EgressPrices,
    "price_states": procurement.PriceStates,
    "delivery_states": procurement.DeliveryStates,
    "limits": market.Limits,
    "events": work.Events,
    "training_runs": work.TrainingRuns,
    "speeds": work.Speeds,
    "services": work.Services,
    "demand_scenarios": work.DemandScenarios,
    "sites": market.Sites,
    "assets": market.Assets,
    "other_costs": market.OtherCosts,
    "fx": market.Fx,
    "billing": market.Billing,
    "jobs": work.Jobs,
    "nodes": work.Nodes,
    "requests": work.Requests,
    "scaling_runs": training.ScalingRuns,
    "failures": training.Failures,
    "spot_availability": training.SpotAvailability,
    "serving_runs": serving.ServingRuns,
    "api_contracts": serving.ApiContracts,
    "surfaces": surfaces.Surfaces,
    "latency_parts": surfaces.LatencyParts,
    "skus": market.Skus,
    "accelerators": market.Accelerators,
    "models": work.Models,
    "sources": market.Sources,
}
#: Tables that data/reference supplies; a row of the book with the same key overrides the fact.
REFERENCE_TABLES = ("accelerators", "skus", "offers", "models", "serving_runs", "failures", "sources")


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
        if rules.startswith("one of"):
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
            return f"of the form {getattr(given['pattern'], 'pattern', given['pattern'])}"
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


def meaning_of(table: str) -> str:
    """Return the sentence that says what one row of the table is."""
    return (TABLES[table].__doc__ or "").strip()
