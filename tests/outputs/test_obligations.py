"""What is owed by fiscal year, by hand: several payments a year, and payments on the days between years and at the horizon's end."""

from types import SimpleNamespace

import pandas as pd

from capplan.answers.sums import obligations


def test_what_is_owed_adds_up_by_fiscal_year_and_begins_again_at_the_horizon():
    rows = [
        ("2026-11-30", 7.0, "signed", "commitment"),  # before the plan
        ("2026-12-01", 10.0, "signed", "commitment"),
        ("2027-06-30", 20.0, "signed", "support"),
        ("2027-06-30", 5.0, "firm", "purchase"),
        ("2027-07-01", 40.0, "firm", "purchase"),
        ("2027-12-31", 80.0, "signed", "commitment"),
        ("2028-01-01", 160.0, "signed", "commitment"),  # the first day after the planned quarters
        ("2028-01-01", 1000.0, "planned", "commitment"),  # not decided
        ("2028-01-01", 1000.0, "firm", "on_demand"),  # not owed
    ]
    payments = pd.DataFrame(rows, columns=["date", "usd", "status", "component"]).assign(date=lambda table: pd.to_datetime(table["date"]))
    scenario = SimpleNamespace(as_of="2026-12-01", first_quarter="2027Q1", horizon_quarters=4, fiscal_year_first_month=7, currency="USD")
    found = obligations(SimpleNamespace(ledger=SimpleNamespace(payments=payments), scenario=scenario))
    assert found.to_numpy().tolist() == [["FY2027", 30.0, 5.0, 0.0], ["FY2028", 240.0, 40.0, 160.0]]
