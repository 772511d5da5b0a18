"""Which pools, offers and quarters a limit covers."""

from collections.abc import Hashable

import numpy as np
import pandas as pd

from capplan.book.factors import scaled_limits
from capplan.book.scenario import ProcurementAssumptions
from capplan.book.terms import COUNTS
from capplan.questions.pricing import completed
from capplan.questions.procurement.supply.market import ANYWHERE


def known_limits(limits: pd.DataFrame | None, sites: pd.DataFrame | None, a: ProcurementAssumptions) -> pd.DataFrame:
    """Return the limits with all columns, scaled, each of the kind of what it counts, and the power of sites that no limit names."""
    empty = pd.DataFrame({"limit_id": pd.Series(dtype=object), "kind": pd.Series(dtype=object), "amount": pd.Series(dtype=float)})
    table = scaled_limits(completed(empty if limits is None or limits.empty else limits, "limits"), a)
    table["kind"] = table["counts"].map(COUNTS).fillna(table["kind"])
    if sites is None or sites.empty:
        return table
    free = sites[~sites["site"].isin(table.loc[table["kind"] == "power_kw", "region"])]
    power = pd.DataFrame(
        {"limit_id": "power of " + free["site"], "kind": "power_kw", "amount": free["available_kw"], "region": free["site"]}
    )
    return (
        table
        if power.empty
        else pd.concat([table.astype(object), completed(power, "limits").astype(object)], ignore_index=True).infer_objects()
    )


def stated(value: object) -> bool:
    """Tell whether a cell of a limit narrows its scope."""
    return isinstance(value, str) and value not in ("", ANYWHERE)


def in_scope(limit: dict[Hashable, object], frame: pd.DataFrame) -> np.ndarray:
    """Tell which rows of a frame (provider, accelerator, place, geography; optionally region) a limit covers."""
    mask = np.ones(len(frame), dtype=bool)
    for name in ("provider", "accelerator"):
        if stated(limit[name]):
            mask &= (frame[name] == limit[name]).to_numpy()
    if stated(limit["region"]):
        here = (frame["place"] == limit["region"]) | (frame["geography"] == limit["region"])
        if "region" in frame:
            here |= frame["region"] == limit["region"]
        mask &= here.to_numpy()
    return mask


def holds_in(limit: dict[Hashable, object], quarters: tuple[str, ...] | list[str]) -> np.ndarray:
    """Tell in which quarters a limit holds; one without a quarter holds in all."""
    return np.array([not stated(limit["quarter"]) or limit["quarter"] == quarter for quarter in quarters], dtype=bool)


def named_in(limit_id: object, quarter: object) -> str:
    """Name a limit in a quarter; one that has a row for each of its quarters carries the quarter in its id.

    Examples:
        >>> named_in("quota", "2027Q1"), named_in("budget 2027Q1", "2027Q1")
        ('quota in 2027Q1', 'budget in 2027Q1')
    """
    return f"{str(limit_id).removesuffix(f' {quarter}')} in {quarter}"
