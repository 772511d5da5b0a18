"""Small purchase problems for tests: one place, few offers, demand in accelerators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from capplan.book.scenario import ProcurementAssumptions
from capplan.optimize.two_stage import Warm
from capplan.questions.procurement import Problem, Purchases, decide, plan_purchases
from capplan.questions.procurement.decide import Decided
from capplan.units import quarter_hours, quarter_range

DAY = pd.Timestamp("2027-01-01")
BASE: dict[str, Any] = {
    "as_of": "2027-01-01",
    "first_quarter": "2027Q1",
    "horizon_quarters": 2,
    "hours_convention": "average",
    "discount_rate_per_year": 0.0,
    "risk_weight": 0.0,
    "gap_share": 0.0,
    "horizon_end": "truncate",
    "on_demand_accelerators": 100_000.0,
    "spot_accelerators": 100_000.0,
    "renewal_without_price": "not_offered",
}


def assumptions(**values: Any) -> ProcurementAssumptions:
    return ProcurementAssumptions(**(BASE | values))


def offer(offer_id: str, term: str, usd: float, **more: Any) -> dict[str, Any]:
    """One row of the offers table, for one-accelerator machines called gpu."""
    full = term in ("reserved_1y", "reserved_3y", "lease")
    base = {
        "sku": "gpu",
        "region": "us-1",
        "geography": "us",
        "discounts": "units" if full else "none",
        "guarantees_capacity": full,
        "interruptions_per_hour": 0.0 if term == "spot" else None,
        "as_of": DAY,
        "source_id": "s",
    }
    return {"offer_id": offer_id, "term": term, "usd_per_hour": usd} | base | more


def sku(name: str, accelerator: str = "H100", count: int = 1, provider: str = "cloud", power_kw: float | None = None) -> dict[str, Any]:
    return {
        "sku": name,
        "provider": provider,
        "accelerator": accelerator,
        "accelerator_count": count,
        "power_kw": power_kw,
        "source_id": "s",
    }


def work_class(name: str = "work", **more: Any) -> dict[str, Any]:
    return {
        "class": name,
        "unit": "accelerator_hours",
        "interruptible": False,
        "deferrable": False,
        "residency": None,
        "stage_kind": "serving",
        "shortfall_usd_per_unit": 25.0,
        "api": "self",
    } | more


def demand(
    loads: dict[str, Sequence[float]] | Sequence[Sequence[float]],
    probability: Sequence[float] | None = None,
    name: str = "work",
    region: str = "us",
) -> pd.DataFrame:
    """Demand by path: a list of loads by quarter each."""
    paths = list(loads.values()) if isinstance(loads, dict) else list(loads)
    shares = probability or [1 / len(paths)] * len(paths)
    return pd.DataFrame(
        [
            {
                "path": s,
                "probability": shares[s],
                "class": name,
                "region": region,
                "quarter": quarter,
                "block": 0,
                "hours": 2190.0,
                "work_per_hour": float(load),
            }
            for s, path in enumerate(paths)
            for quarter, load in zip(quarter_range("2027Q1", len(path)), path, strict=True)
        ]
    )


def blocks(quarter_loads: Sequence[Sequence[tuple[float, float]]], convention: str = "average", **more: Any) -> pd.DataFrame:
    """Demand of one path in load blocks: (share of hours, load) by quarter."""
    rows = []
    for quarter, parts in zip(quarter_range("2027Q1", len(quarter_loads)), quarter_loads, strict=True):
        for block, (share, load) in enumerate(parts):
            rows.append(
                {
                    "path": 0,
                    "probability": 1.0,
                    "class": "work",
                    "region": "us",
                    "quarter": quarter,
                    "block": block,
                    "hours": share * quarter_hours(quarter, convention),
                    "work_per_hour": load,
                }
                | more
            )
    return pd.DataFrame(rows)


def problem(
    work: pd.DataFrame,
    offers: Sequence[dict[str, Any]],
    a: ProcurementAssumptions | None = None,
    *,
    limits: Sequence[dict[str, Any]] = (),
    commitments: Sequence[dict[str, Any]] = (),
    skus: Sequence[dict[str, Any]] = (sku("gpu"),),
    classes: Sequence[dict[str, Any]] = (work_class(),),
    speeds: Sequence[tuple[str, str, float]] = (("work", "H100", 1.0),),
    **others: Any,
) -> Problem:
    """State a problem from rows."""
    return Problem(
        demand=work,
        speeds=pd.DataFrame(list(speeds), columns=["class", "accelerator", "work_per_accelerator_hour"]),
        classes=pd.DataFrame(list(classes)),
        assumptions=a or assumptions(horizon_quarters=int(work["quarter"].nunique())),
        offers=pd.DataFrame(list(offers)),
        skus=pd.DataFrame(list(skus)),
        commitments=pd.DataFrame(list(commitments)) if commitments else None,
        limits=pd.DataFrame(list(limits)) if limits else None,
        **others,
    )


def solve(*rows: Any, **more: Any) -> Purchases:
    """Plan through the public face."""
    return plan_purchases(problem(*rows, **more))


def settle(*rows: Any, warm: Warm | None = None, proof: bool = True, **more: Any) -> Decided:
    """Decide only, without the explanation."""
    return decide(problem(*rows, **more), warm=warm, proof=proof)


def commitment(name: str, machines: float, start: str, end: str, usd: float = 2.0, **more: Any) -> dict[str, Any]:
    return {
        "commitment_id": name,
        "sku": "gpu",
        "region": "us-1",
        "term": "reserved_1y",
        "machines": machines,
        "usd_per_hour": usd,
        "start": pd.Timestamp(start),
        "end": pd.Timestamp(end),
    } | more
