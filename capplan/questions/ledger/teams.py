"""Who bears a shared cost: the teams whose work it serves."""

from typing import Any

import pandas as pd

from capplan.questions.ledger.schedules import Bearer
from capplan.questions.ledger.unit_prices import purchase_name
from capplan.records import records

Shares = dict[str, list[tuple[Bearer, float]]]


def class_bearers(workloads: pd.DataFrame, work: pd.DataFrame) -> Shares:
    """Return the teams of each class of work, by their share of its work.

    Args:
        workloads: Table workloads; an empty work_class makes a workload its own class.
        work: workload, quarter, quantity (expected); workloads of a class share a unit. Without it, workloads of a class count alike.
    """
    expected = work.groupby("workload")["quantity"].sum() if len(work) else pd.Series(dtype=float)
    members = workloads.assign(
        label=workloads["work_class"].fillna(workloads["workload"]), weight=workloads["workload"].map(expected).fillna(0.0)
    )
    found: Shares = {}
    for label, part in members.groupby("label", sort=True):
        weight = part["weight"] if part["weight"].sum() > 0 else pd.Series(1.0, index=part.index)
        by_team = weight.groupby([part["team"], part["cost_center"]]).sum() / weight.sum()
        found[str(label)] = [(Bearer(str(team), str(center)), float(share)) for (team, center), share in by_team.items() if share > 0]
    return found


def purchase_bearers(purchases: pd.DataFrame, dispatch: pd.DataFrame, classes: Shares) -> Shares:
    """Return the teams of each purchase, by the committed accelerator-hours their classes use on its accelerator while it runs.

    One set of shares holds for the whole contract, so that a team's cash, bills and P&L agree over its life as the company's do.
    """
    used = dispatch[dispatch["source"] == "committed"] if len(dispatch) else dispatch
    found: Shares = {}
    for row in records(purchases):
        found[purchase_name(row)] = _by_use(row, used, classes)
    return found


def _by_use(row: dict[Any, Any], used: pd.DataFrame, classes: Shares) -> list[tuple[Bearer, float]]:
    if not len(used):
        return [(Bearer(), 1.0)]
    inside = (used["provider"] == row["provider"]) & (used["accelerator"] == row["accelerator"])
    inside &= (used["quarter"] >= row["quarter"]) & (used["quarter"] <= row["end_quarter"])
    hours = used[inside].groupby("class")["expected_accelerator_hours"].sum()
    if hours.sum() <= 0:
        return [(Bearer(), 1.0)]
    total: dict[Bearer, float] = {}
    for label, share in (hours / hours.sum()).items():
        for bearer, part in classes.get(str(label), [(Bearer(), 1.0)]):
            total[bearer] = total.get(bearer, 0.0) + float(share) * part
    return sorted(total.items(), key=lambda item: (item[0].team, item[0].cost_center))


def expected_work(paths: pd.DataFrame) -> pd.DataFrame:
    """Return the expected work of each workload and quarter: workload, quarter, quantity.

    Args:
        paths: path, probability, workload, quarter, quantity (and region, block): the paths of a forecast.
    """
    weighted = paths.assign(quantity=paths["quantity"] * paths["probability"])
    return weighted.groupby(["workload", "quarter"], as_index=False)["quantity"].sum()
