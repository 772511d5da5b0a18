"""All that a purchase is decided from, as one value that is checked when it is made."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, field, fields
from typing import Any

import pandas as pd

from capplan.book.frames import check_frames
from capplan.book.scenario import ProcurementAssumptions

#: Tables that are made from the book's, by the demand's own rules; all others are the book's as they are.
DERIVED = ("demand", "speeds", "classes", "usage", "workloads")


@dataclass(frozen=True, eq=False)
class Problem:
    """The tables and assumptions of a purchase.

    Args:
        demand (path, probability, class, region, quarter, block, hours, work_per_hour): What must be served, on each path.
        speeds (class, accelerator, work_per_accelerator_hour): What runs where, and how fast.
        classes (class, interruptible, residency, stage_kind, shortfall_usd_per_unit, api; optionally api_usd_per_unit,
            api_units_per_hour,):
        home_provider,: home_region, egress_gib_per_unit Classes of work.
        assumptions: Dates, horizon, risk and all else that no table states.
        offers, skus, commitments, limits, assets, sites, spend_agreements, other_costs, offer_tiers, offer_payments, egress_prices,:
        price_paths, generations, price_states,:
        delivery_states: Tables of the book; None or empty where it has none. Of other costs only those billed by the provider of a spend
            agreement count.
        usage, workloads: Measured work and its classes: then rules that only look back are held against the plan.
        laid_out: What `on_offer` has laid out of this problem and of those it was made from; tables are not changed in place.

    Raises:
        CapplanError: Naming every cell of the book's tables that is not allowed.
    """

    demand: pd.DataFrame
    speeds: pd.DataFrame
    classes: pd.DataFrame
    assumptions: ProcurementAssumptions
    offers: pd.DataFrame
    skus: pd.DataFrame
    commitments: pd.DataFrame | None = None
    limits: pd.DataFrame | None = None
    assets: pd.DataFrame | None = None
    sites: pd.DataFrame | None = None
    spend_agreements: pd.DataFrame | None = None
    other_costs: pd.DataFrame | None = None
    offer_tiers: pd.DataFrame | None = None
    offer_payments: pd.DataFrame | None = None
    egress_prices: pd.DataFrame | None = None
    price_paths: pd.DataFrame | None = None
    generations: pd.DataFrame | None = None
    price_states: pd.DataFrame | None = None
    delivery_states: pd.DataFrame | None = None
    usage: pd.DataFrame | None = None
    workloads: pd.DataFrame | None = None
    laid_out: list[Any] = field(default_factory=list, init=False, repr=False)

    def __post_init__(self) -> None:
        """Check the book's tables."""
        check_frames({name: getattr(self, name) for name in BOOK_TABLES})

    def __getstate__(self) -> dict[str, Any]:
        """Return what another process needs: what was laid out is laid out there."""
        return {**vars(self), "laid_out": []}

    def replaced(self, **parts: Any) -> Problem:
        """Return it with other tables or assumptions; what stays is not checked again."""
        found = copy(self)
        object.__setattr__(found, "laid_out", self.laid_out)
        for name, part in parts.items():
            if name not in self.__dataclass_fields__:
                raise TypeError(f"a purchase has no part {name}")
            object.__setattr__(found, name, part)
        check_frames({name: parts[name] for name in BOOK_TABLES if name in parts})
        return found


#: Tables of the book that a problem holds under their own names.
BOOK_TABLES = tuple(field.name for field in fields(Problem) if field.name not in (*DERIVED, "assumptions", "laid_out"))
