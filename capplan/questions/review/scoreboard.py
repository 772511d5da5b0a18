"""What a unit of each workload cost, who answers for it, whether it earns that; and who bears what no workload does."""

import pandas as pd

from capplan.book.scenario import ReviewAssumptions
from capplan.records import records

#: Whom a cost is charged to that no team's work bears, before it is shared out.
SHARED = "shared"
THOUSAND = 1000.0


def attributed(planned: pd.DataFrame, variance: pd.DataFrame) -> pd.DataFrame:
    r"""Divide what was billed among the classes of work: what was planned for each, and what moved it.

    .. math:: x_w = x^0_w + \sum_d \Delta_{dw}, \qquad \sum_w x_w + x_\text{unallocated} = \text{billed}

    Args:
        planned: SPEND (see `spend_rows`).
        variance: See `bridge.variance_bridge`.

    Returns:
        DataFrame: workload (empty: borne by none), planned, actual (amounts).
    """
    mine = planned.groupby("workload")["amount"].sum()
    moved = variance.groupby("workload")["amount"].sum()
    table = pd.DataFrame({"planned": mine, "moved": moved}).fillna(0.0)
    table["actual"] = table["planned"] + table["moved"]
    return table.rename_axis("workload").reset_index()[["workload", "planned", "actual"]]


def unit_economics(shares: pd.DataFrame, work: pd.DataFrame, workloads: pd.DataFrame, a: ReviewAssumptions) -> pd.DataFrame:
    r"""Say what a thousand units of each class of work cost against the plan, what they are worth, and what follows.

    .. math:: c = 1000\,\frac{x_w}{q_w}, \qquad m = 1000\,v - c

    with x the attributed cost, q the work that came, v the value of a unit.

    Args:
        shares: See `attributed`.
        work: month, workload (class), planned, actual (quantities).
        workloads: Table workloads, with value_usd_per_unit in the plan's currency: for owner, team, unit and value; a class of several
            workloads has the largest value of its members, and their first owner.
        a: regression_share: rise of the cost of a unit from which on it is flagged.

    Returns:
        DataFrame: workload, owner, team, feature (where all members of a class serve one), unit, work, amount, amount_per_thousand,
            planned_per_thousand, change_share, value_per_thousand, margin_per_thousand (in the plan's currency), verdict.
    """
    sums = work.groupby("workload")[["planned", "actual"]].sum().rename(columns={"planned": "planned_work", "actual": "work"})
    about = workloads.assign(label=workloads["work_class"].fillna(workloads["workload"])).groupby("label")
    facts = pd.DataFrame(
        {
            "owner": about["owner"].first(),
            "team": about["team"].agg(lambda teams: teams.iloc[0] if teams.nunique() == 1 else SHARED),
            "feature": about["feature"].agg(lambda features: features.iloc[0] if features.nunique() == 1 else None),
            "unit": about["unit"].first(),
            "value": about["value_usd_per_unit"].max(),
        }
    )
    table = shares[shares["workload"] != ""].set_index("workload").join(sums, how="left").join(facts, how="left")
    table["amount_per_thousand"] = THOUSAND * table["actual"] / table["work"].where(table["work"] > 0)
    table["planned_per_thousand"] = THOUSAND * table["planned"] / table["planned_work"].where(table["planned_work"] > 0)
    table["change_share"] = table["amount_per_thousand"] / table["planned_per_thousand"].where(table["planned_per_thousand"] > 0) - 1
    table["value_per_thousand"] = THOUSAND * table["value"].astype(float)
    table["margin_per_thousand"] = table["value_per_thousand"] - table["amount_per_thousand"]
    table["verdict"] = [_verdict(row, a) for row in records(table)]
    table = table.rename(columns={"actual": "amount"}).rename_axis("workload").reset_index()
    columns = [
        "workload",
        "owner",
        "team",
        "feature",
        "unit",
        "work",
        "amount",
        "amount_per_thousand",
        "planned_per_thousand",
        "change_share",
    ]
    return table[[*columns, "value_per_thousand", "margin_per_thousand", "verdict"]].sort_values(
        "amount", ascending=False, ignore_index=True
    )


def feature_economics(economics: pd.DataFrame) -> pd.DataFrame:
    """Say what a thousand units of each product feature cost, with its dearest workload beside the average, which hides it.

    Args:
        economics: See `unit_economics`.

    Returns:
        DataFrame: feature, unit, workloads (how many), work, amount, amount_per_thousand, planned_per_thousand (in the plan's currency),
            dearest (workload), dearest_per_thousand; features and units that nothing names are left out.
    """
    named = economics.dropna(subset=["feature", "unit", "amount_per_thousand"])
    planned = named["planned_per_thousand"] * named["work"]
    parts = named.assign(planned=planned).groupby(["feature", "unit"], as_index=False)
    table = parts.agg(
        workloads=("workload", "size"),
        work=("work", "sum"),
        amount=("amount", "sum"),
        planned=("planned", lambda usd: usd.sum(skipna=False)),
    )
    table["amount_per_thousand"] = THOUSAND * table["amount"] / table["work"]
    table["planned_per_thousand"] = table.pop("planned") / table["work"]
    first = named.sort_values("amount_per_thousand", ascending=False).drop_duplicates(["feature", "unit"])
    first = first.rename(columns={"workload": "dearest", "amount_per_thousand": "dearest_per_thousand"})
    table = table.merge(first[["feature", "unit", "dearest", "dearest_per_thousand"]], on=["feature", "unit"])
    return table.sort_values("amount", ascending=False, ignore_index=True)


def _verdict(row: dict, a: ReviewAssumptions) -> str:
    """Say what follows from the cost of a unit."""
    if pd.isna(row["amount_per_thousand"]):
        return "spend without work: retire it, or find what runs" if row["actual"] > 0 else "no spend and no work"
    dearer = pd.notna(row["change_share"]) and row["change_share"] > a.regression_share
    if pd.isna(row["value_per_thousand"]):
        return f"{'dearer than planned; ' if dearer else ''}state value_usd_per_unit to see whether it earns its compute"
    if row["margin_per_thousand"] < 0:
        return "costs more than it is worth: a smaller model, a cheaper tier, or retire it"
    return "earns its compute, but a unit is dearer than planned: find out why" if dearer else "earns its compute"


def chargeback(shares: pd.DataFrame, teams: dict[str, str]) -> pd.DataFrame:
    r"""Charge what was billed to teams: their own work, and of what no work bears a part as large as their part of the work's cost.

    .. math:: y_t = x_t + x_\text{shared}\,\frac{x_t}{\sum_s x_s}, \qquad \sum_t y_t = \text{billed}

    Args:
        shares: See `attributed`.
        teams: Team by class of work; work of several teams, or of none, is shared.

    Returns:
        DataFrame: team, own_amount, shared_amount, amount; where no team has any cost of its own, all of it is charged to `shared`.
    """
    owner = shares["workload"].map(teams).fillna("").replace("", SHARED)
    own = shares.groupby(owner)["actual"].sum()
    rest = float(own.get(SHARED, 0.0))
    mine = own.drop(SHARED, errors="ignore")
    mine = mine[mine != 0]
    total = float(mine.sum())
    if total <= 0:
        return pd.DataFrame({"team": [SHARED], "own_amount": [0.0], "shared_amount": [float(own.sum())], "amount": [float(own.sum())]})
    table = pd.DataFrame({"own_amount": mine, "shared_amount": rest * mine / total})
    table["amount"] = table.sum(axis=1)
    return table.rename_axis("team").reset_index().sort_values("amount", ascending=False, ignore_index=True)


def rate_card(economics: pd.DataFrame, charged: pd.DataFrame) -> pd.DataFrame:
    r"""Return what a thousand units are charged internally: the cost of a unit, and its part of what is shared.

    .. math:: r_w = c_w \Big(1 + \frac{x_\text{shared}}{\sum_s x_s}\Big)

    Charged at these rates, the work that came pays for the whole bill.

    Args:
        economics: See `unit_economics`.
        charged: See `chargeback`.

    Returns:
        DataFrame: workload, team, unit, amount_per_thousand (full cost).
    """
    own = float(charged["own_amount"].sum())
    surcharge = float(charged["shared_amount"].sum()) / own if own > 0 else 0.0
    named = economics[economics["team"].fillna(SHARED) != SHARED]
    return (
        named[["workload", "team", "unit"]]
        .assign(amount_per_thousand=named["amount_per_thousand"] * (1 + surcharge))
        .reset_index(drop=True)
    )
