"""The budget file: P&L of the planned months by account, team and cost centre, in a neutral layout and those of planning systems."""

from pathlib import Path

import pandas as pd

from capplan.answers.finished_plan import Plan
from capplan.outputs.export.files import write_table
from capplan.questions.ledger.accounts import mapped_accounts
from capplan.units import fiscal_year, quarter_end, quarter_range, quarter_start

#: Name of the cube that a new application of Oracle EPM Planning has.
ORACLE_CUBE = "Plan1"
KEYS = ["version", "entity", "fiscal_year", "month", "account", "account_name", "cost_center", "team"]


def budget_table(plan: Plan, account_map: pd.DataFrame | None = None) -> pd.DataFrame:
    """Return the P&L of the planned months as planning systems take it in.

    Args:
        account_map: The book's table of this name; None where it has none.

    Returns:
        DataFrame: version, entity, fiscal_year, month (YYYY-MM), account, account_name, cost_center, team, amount (book's currency),
            currency.
    """
    scenario = plan.scenario
    quarters = quarter_range(scenario.first_quarter, scenario.horizon_quarters)
    rows = plan.ledger.entries
    inside = (rows["view"] == "p_and_l") & (rows["month"] >= quarter_start(quarters[0])) & (rows["month"] < quarter_end(quarters[-1]))
    rows = rows[inside].reset_index(drop=True)
    accounts = mapped_accounts(rows, pd.DataFrame() if account_map is None else account_map)
    table = pd.DataFrame(
        {
            "version": scenario.budget_version,
            "entity": scenario.entity,
            "fiscal_year": [fiscal_year(month, scenario.fiscal_year_first_month) for month in rows["month"]],
            "month": rows["month"].dt.strftime("%Y-%m"),
            "account": accounts["account"].astype(str),
            "account_name": accounts["account_name"].astype(str),
            "cost_center": rows["cost_center"],
            "team": rows["team"],
            "amount": rows["amount"],
        }
    )
    return table.groupby(KEYS, as_index=False, sort=True)["amount"].sum().assign(currency=scenario.currency)


def layouts(table: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return a budget in the layouts in which planning systems load data; amounts are the same.

    What they rest on: Anaplan imports any flat file whose columns are mapped to dimensions and line items, one row an amount, with
    periods by their names (Jan 27 is its usual name of a month). Workday Adaptive Planning's spreadsheet import wants accounts and levels
    in columns and a column a period, whose heading is the period's label in the instance; other labels than Jan 2027 are mapped there.
    Oracle EPM Planning's data file wants one dimension down (Account), members across (months), the column Point-of-View with a member of
    every other dimension, separated by commas, and the column Data Load Cube Name; years are named FY27. Names of dimensions, members and
    cubes are each installation's own, so the mapping is checked once when it is set up.

    Returns:
        dict: anaplan, adaptive, oracle_epm.
    """
    when = pd.to_datetime(table["month"] + "-01")
    order = list(dict.fromkeys(when.sort_values().dt.strftime("%b %Y")))
    anaplan = pd.DataFrame(
        {
            "Version": table["version"],
            "Entity": table["entity"],
            "Account": table["account"],
            "Cost Center": table["cost_center"],
            "Team": table["team"],
            "Time": when.dt.strftime("%b %y"),
            "Amount": table["amount"],
        }
    )
    wide = table.assign(time=when.dt.strftime("%b %Y"), level=table["entity"] + "/" + table["cost_center"])
    adaptive = wide.pivot_table(
        index=["account", "account_name", "level", "team"], columns="time", values="amount", aggfunc="sum", fill_value=0.0
    )
    adaptive = adaptive[order].rename_axis(columns=None).reset_index()
    adaptive.columns = ["Account Code", "Account Name", "Level", "Team", *order]
    return {"anaplan": anaplan, "adaptive": adaptive, "oracle_epm": _oracle_epm(table, when)}


def _oracle_epm(table: pd.DataFrame, when: pd.Series) -> pd.DataFrame:
    """Return one row for each account and point of view, its months across; commas in names would be read as another member."""
    months = list(dict.fromkeys(when.sort_values().dt.strftime("%b")))
    members = table.assign(year="FY" + table["fiscal_year"].str[-2:])[["version", "entity", "year", "cost_center", "team"]]
    view = members.apply(lambda part: part.str.replace(",", " ", regex=False)).agg(",".join, axis=1)
    wide = table.assign(time=when.dt.strftime("%b"), view=view)
    epm = wide.pivot_table(index=["account", "view"], columns="time", values="amount", aggfunc="sum", fill_value=0.0)
    epm = epm[months].rename_axis(columns=None).reset_index().rename(columns={"account": "Account"})
    return epm.assign(**{"Point-of-View": epm.pop("view"), "Data Load Cube Name": ORACLE_CUBE})


def write_budget(plan: Plan, path: Path, account_map: pd.DataFrame | None = None) -> Path:
    """Write the budget file, and beside it those of planning systems (budget-anaplan.csv and so on).

    Args:
        path: CSV file to write; its folder must exist.
        account_map: The book's table of this name; None where it has none.
    """
    table = budget_table(plan, account_map)
    for name, frame in layouts(table).items():
        write_table(frame, path.with_name(f"{path.stem}-{name.replace('_', '-')}.csv"))
    return write_table(table, path)
