"""Commitments by the hour as a bill shows them (FOCUS), dollar plans, and agreements to spend."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from capplan.errors import CapplanError
from capplan.records import records


def commitment_charges(
    usd_per_hour: float,
    hours: int,
    upfront_share: float,
    used_usd: np.ndarray | pd.Series,
    on_demand_usd: np.ndarray | pd.Series | float = 0.0,
) -> pd.DataFrame:
    r"""List the charges of a commitment hour by hour, as a FOCUS bill does.

    .. math:: \sum \text{effective} = \sum \text{billed}

    A purchase is billed and has no effective cost; each hour's commitment is not billed again, and its cost is effective as used or unused.

    Args:
        usd_per_hour: Committed dollars an hour, the part paid upfront included.
        upfront_share: Share paid at signing: 1 all, 0 nothing.
        used_usd (hours,): Usage of each hour at committed rates; what exceeds the commitment is charged on demand.
        on_demand_usd ((hours,), optional): What the usage above the commitment costs on demand.

    Returns:
        DataFrame: hour (-1 for a payment at signing), charge_category, charge_frequency, pricing_category, commitment_status, billed_cost,
            effective_cost.

    Source: FinOps Open Cost and Usage Specification 1.2, appendix on commitment discounts.
    """
    used = np.minimum(np.asarray(used_usd, dtype=float), usd_per_hour)
    if len(used) != hours:
        raise CapplanError(f"usage is given for {len(used)} hours of a term of {hours} hours")
    if not 0 <= upfront_share <= 1:
        raise CapplanError(f"upfront_share = {upfront_share!r}: a share lies between 0 and 1")
    extra = np.broadcast_to(np.asarray(on_demand_usd, dtype=float), hours)
    hour, recurring = np.arange(hours), usd_per_hour * (1 - upfront_share)
    unused = usd_per_hour - used
    columns = ["charge_category", "charge_frequency", "pricing_category", "commitment_status"]
    parts = []
    if upfront_share:
        parts.append(
            (np.array([-1]), ("Purchase", "One-Time", "Standard", "none"), np.array([usd_per_hour * hours * upfront_share]), np.zeros(1))
        )
    if recurring:
        parts.append((hour, ("Purchase", "Recurring", "Standard", "none"), np.full(hours, recurring), np.zeros(hours)))
    for amount, words, billed in (
        (used, ("Usage", "Usage-Based", "Committed", "Used"), False),
        (unused, ("Usage", "Usage-Based", "Committed", "Unused"), False),
        (extra, ("Usage", "Usage-Based", "Standard", "none"), True),
    ):
        there = amount > 0
        parts.append((hour[there], words, amount[there] if billed else np.zeros(there.sum()), amount[there]))
    frames = [
        pd.DataFrame({"hour": when, **dict(zip(columns, words, strict=True)), "billed_cost": billed, "effective_cost": effective})
        for when, words, billed, effective in parts
    ]
    return pd.concat(frames, ignore_index=True).sort_values(["hour", "charge_category"], kind="stable", ignore_index=True)


@dataclass(frozen=True)
class PlanDraw:
    """What a dollar plan paid for in each hour.

    Args:
        hours: hour, committed_usd, used_usd, unused_usd (lost), on_demand_usd (usage the plan did not reach), without_plan_usd.
        saving_usd: What the plan saved against paying all on demand; negative where too much of it was unused.
    """

    hours: pd.DataFrame
    saving_usd: float


def draw_dollar_plan(usage: pd.DataFrame, committed_usd_per_hour: float) -> PlanDraw:
    r"""Draw a savings plan (dollars an hour at plan rates) hour by hour; what is unused in an hour is lost.

    .. math:: C_t = F + \sum_i p_i (m_{it} - x_{it}), \qquad \sum_i q_i x_{it} \le F

    The plan is drawn by the machines it discounts most first, as AWS does, and covers x of m machine-hours at the plan's rate q instead of
    p.

    Args:
        usage: hour, sku, machine_hours, on_demand_usd_per_hour : p, plan_usd_per_hour : q.
        committed_usd_per_hour (F): Dollars an hour that are paid in any case.

    Raises:
        CapplanError: If a plan's rate is zero or above the price on demand.

    Source: AWS Savings Plans user guide, "How Savings Plans apply to your usage"; Google Cloud, spend-based committed use discounts.
    """
    bad = ~(usage["plan_usd_per_hour"] > 0) | (usage["plan_usd_per_hour"] > usage["on_demand_usd_per_hour"])
    if bad.any():
        row = usage[bad].iloc[0]
        raise CapplanError(
            f"{row['sku']}: a plan's rate lies above 0 and not above the price on demand; found {row['plan_usd_per_hour']:g} and"
            f" {row['on_demand_usd_per_hour']:g}"
        )
    table = usage.assign(
        off=1 - usage["plan_usd_per_hour"] / usage["on_demand_usd_per_hour"], wanted=usage["machine_hours"] * usage["plan_usd_per_hour"]
    )
    table = table.sort_values(["hour", "off", "sku"], ascending=[True, False, True], kind="stable")
    before = table.groupby("hour")["wanted"].cumsum() - table["wanted"]
    table["used_usd"] = (committed_usd_per_hour - before).clip(lower=0).clip(upper=table["wanted"])
    table["without_plan_usd"] = table["machine_hours"] * table["on_demand_usd_per_hour"]
    table["on_demand_usd"] = (table["wanted"] - table["used_usd"]) / table["plan_usd_per_hour"] * table["on_demand_usd_per_hour"]
    hours = table.groupby("hour", as_index=False)[["used_usd", "on_demand_usd", "without_plan_usd"]].sum()
    hours.insert(1, "committed_usd", committed_usd_per_hour)
    hours.insert(3, "unused_usd", committed_usd_per_hour - hours["used_usd"])
    saving = float((hours["without_plan_usd"] - hours["committed_usd"] - hours["on_demand_usd"]).sum())
    return PlanDraw(hours, saving)


def burn_down(agreements: pd.DataFrame, charges: pd.DataFrame, as_of: pd.Timestamp) -> pd.DataFrame:
    r"""Say how far agreements to spend are drawn, what their discount gives back, and what is short at the end of each contract year.

    .. math:: S_y = \max(0, C_y + R_{y-1} - D_y - \sum_{t \in y} b_t)

    with C the sum committed, R what rolled over from the year before, D drawn already and b the eligible charges still to come.

    Args:
        charges: month, provider, usd (billed), discountable (does the agreement's discount apply?): charges from `as_of` on.
        as_of: Months before it are in `drawn_usd` already.

    Returns:
        DataFrame: agreement_id, provider, start, end, committed_usd, rolled_in_usd, drawn_usd, planned_usd (after discount), discount_usd,
            spent_share, rolled_out_usd, shortfall_usd.
    """
    rows: list[dict[str, object]] = []
    carried: dict[str, float] = {}
    first = as_of.replace(day=1).normalize()
    for year in records(agreements.sort_values(["agreement_id", "start"])):
        name = year["agreement_id"]
        inside = (
            (charges["provider"] == year["provider"])
            & (charges["month"] >= max(year["start"].replace(day=1), first))
            & (charges["month"] <= year["end"])
        )
        eligible = charges[inside]
        discount = float(eligible.loc[eligible["discountable"], "usd"].sum()) * year["discount_share"]
        planned = float(eligible["usd"].sum()) - discount
        rolled_in = carried.pop(name, 0.0)
        over = year["end"] < as_of
        short = max(0.0, year["committed_usd"] + rolled_in - year["drawn_usd"] - planned)
        following = ((agreements["agreement_id"] == name) & (agreements["start"] > year["start"])).any()
        rolls = bool(year["rolls_over"]) and following
        if rolls:
            carried[name] = short
        target = year["committed_usd"] + rolled_in
        rows.append(
            {
                "agreement_id": name,
                "provider": year["provider"],
                "start": year["start"],
                "end": year["end"],
                "committed_usd": year["committed_usd"],
                "rolled_in_usd": rolled_in,
                "drawn_usd": year["drawn_usd"],
                "planned_usd": planned,
                "discount_usd": discount,
                "spent_share": (year["drawn_usd"] + planned) / target if target else 1.0,
                "rolled_out_usd": short if rolls else 0.0,
                "shortfall_usd": 0.0 if rolls or over else short,
            }
        )
    columns = (
        "agreement_id provider start end committed_usd rolled_in_usd drawn_usd planned_usd discount_usd spent_share rolled_out_usd"
        " shortfall_usd"
    ).split()
    return pd.DataFrame(rows, columns=columns)
