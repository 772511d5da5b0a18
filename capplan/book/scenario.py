"""Scenario: the union of all assumptions, flat, with typed changes of tables.

Its fields are the notebook parameters, the sliders, the keys of run.json and of the overrides in book.yaml.
Nothing else carries assumptions, and nothing reads the clock.
"""

from __future__ import annotations

from typing import Any, Self, TypeVar

from pydantic import ValidationError, field_validator, model_validator

from capplan.book.allowed import fault_words
from capplan.book.assumptions.base import Section, Timeline, assumption
from capplan.book.assumptions.cluster import ClusterAssumptions
from capplan.book.assumptions.crossover import CrossoverAssumptions
from capplan.book.assumptions.demand import DemandAssumptions, DemandViewAssumptions
from capplan.book.assumptions.frontier import FrontierAssumptions
from capplan.book.assumptions.goodput import GoodputAssumptions
from capplan.book.assumptions.hindsight import HindsightAssumptions
from capplan.book.assumptions.ledger import LedgerAssumptions
from capplan.book.assumptions.performance import PerformanceAssumptions
from capplan.book.assumptions.placement import PlacementAssumptions
from capplan.book.assumptions.portfolio import PortfolioAssumptions
from capplan.book.assumptions.pricing import PricingAssumptions
from capplan.book.assumptions.procurement import ProcurementAssumptions
from capplan.book.assumptions.review import ReviewAssumptions
from capplan.book.assumptions.scaling import ScalingAssumptions
from capplan.book.assumptions.serving import ServingAssumptions
from capplan.book.assumptions.split import SplitAssumptions
from capplan.book.assumptions.training import TrainingAssumptions
from capplan.book.changes import Change
from capplan.errors import ScenarioError, nearest, shortened
from capplan.units import quarter_start

__all__ = [
    "Change",
    "ClusterAssumptions",
    "CrossoverAssumptions",
    "DemandAssumptions",
    "DemandViewAssumptions",
    "FrontierAssumptions",
    "GoodputAssumptions",
    "HindsightAssumptions",
    "LedgerAssumptions",
    "PerformanceAssumptions",
    "PlacementAssumptions",
    "PortfolioAssumptions",
    "PricingAssumptions",
    "ProcurementAssumptions",
    "ReviewAssumptions",
    "ScalingAssumptions",
    "Scenario",
    "Section",
    "ServingAssumptions",
    "SplitAssumptions",
    "Timeline",
    "TrainingAssumptions",
    "build_scenario",
]
SectionType = TypeVar("SectionType", bound=Section)


class Scenario(
    DemandAssumptions,
    DemandViewAssumptions,
    PortfolioAssumptions,
    HindsightAssumptions,
    FrontierAssumptions,
    ProcurementAssumptions,
    LedgerAssumptions,
    ScalingAssumptions,
    TrainingAssumptions,
    GoodputAssumptions,
    SplitAssumptions,
    ClusterAssumptions,
    PlacementAssumptions,
    ReviewAssumptions,
    CrossoverAssumptions,
    ServingAssumptions,
    PerformanceAssumptions,
):
    """All assumptions of a plan, flat, with unique names; plus typed changes of the tables."""

    flip_search: bool = assumption(
        True, "Does the report search for the values at which the decision flips?", "On: it takes about as long as the plan itself."
    )
    changes: tuple[Change, ...] = assumption(
        (), "What-ifs on the book's tables, each a line such as: where term=spot multiply usd_per_hour 2.", "None."
    )

    @field_validator("changes", mode="before")
    @classmethod
    def _one_line(cls, given: Any) -> Any:
        return (given,) if isinstance(given, str) else given

    @model_validator(mode="after")
    def _time_order(self) -> Self:
        if quarter_start(self.first_quarter).date() < self.as_of:
            raise ValueError(
                f"first_quarter {self.first_quarter} began before as_of {self.as_of}; plan from the next quarter on, or move as_of"
            )
        return self

    def section(self, kind: type[SectionType]) -> SectionType:
        """Return the part of the assumptions one question uses."""
        return kind(**{name: getattr(self, name) for name in kind.model_fields})

    def replaced(self, **values: Any) -> Scenario:
        """Return a copy with some values replaced, checked like new.

        Raises:
            ScenarioError: Naming every value that is misspelt or out of bounds.
        """
        return build_scenario({**self.model_dump(exclude_unset=True), **values})


def _is_switch_for_number(name: str, value: Any) -> bool:
    """Tell whether true or false was given, anywhere in a value, to an assumption that holds numbers or names (Python takes true for 1)."""
    if name == "changes":
        return False
    if isinstance(value, (list, tuple)):
        return any(_is_switch_for_number(name, part) for part in value)
    return isinstance(value, bool) and "bool" not in str(Scenario.model_fields[name].annotation)


def build_scenario(values: dict[str, Any], where: str = "scenario") -> Scenario:
    """Check a mapping of assumptions and build a Scenario.

    Args:
        values: Assumption by name; texts are converted as on a command line.
        where: Where the values came from, for the message.

    Raises:
        ScenarioError: One message that lists every fault: name, value, what is allowed.
    """
    faults = [
        f"{name} is not an assumption; {nearest(name, Scenario.model_fields)}" for name in values if name not in Scenario.model_fields
    ]
    known = {name: value for name, value in values.items() if name in Scenario.model_fields}
    faults += [
        f"{name} = {str(value).lower()}: true and false are no numbers"
        for name, value in known.items()
        if _is_switch_for_number(name, value)
    ]
    scenario = None
    try:
        scenario = Scenario(**known)
    except ValidationError as error:
        for item in error.errors():
            place = ".".join(str(part) for part in item["loc"])
            shown = f"{place} = {shortened(repr(item['input']))}: " if place else ""
            faults.append(f"{shown}{shortened(fault_words(item), 500)}")
    if faults or scenario is None:
        raise ScenarioError(f"{where}: " + "; ".join(faults))
    return scenario
