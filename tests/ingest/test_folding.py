"""What several files hold of the same: sums of charges, and time that was seen."""

from __future__ import annotations

import pandas as pd
import pytest

from capplan.book.tables.registry import key_of
from capplan.ingest.folding import billing_table, usage_of


@pytest.mark.parametrize(
    ("units", "quantity", "unit"),
    [(["Hours", "Hours"], 5.0, "Hours"), (["Hours", "GB"], None, None), (["Hours", None], None, None), ([None, None], None, None)],
)
def test_quantities_are_added_up_in_one_unit_alone(units, quantity, unit):
    keys = dict.fromkeys(key_of("billing"), "same") | {"month": pd.Timestamp("2026-05-01")}
    amounts = {"billed_cost": [1.0, 2.0], "effective_cost": [1.0, 2.0], "list_cost": [1.0, 2.0], "quantity": [2.0, 3.0]}
    (row,) = billing_table(pd.DataFrame(keys | amounts | {"quantity_unit": units}, index=[0, 1])).to_dict("records")
    assert row["billed_cost"] == 3.0
    assert (pd.isna(row["quantity"]), pd.isna(row["quantity_unit"])) == (quantity is None, unit is None)
    assert quantity is None or (row["quantity"], row["quantity_unit"]) == (quantity, unit)


def test_time_that_files_cover_together_counts_once():
    """Three logs see the first third of an hour: one of them all of it, the others a part each."""
    hour = pd.Timestamp("2026-05-01 10:00")
    part = {"time": hour, "seconds": 3600.0, "workload": "chat", "region": "any", "family": "requests", "file": 0}
    parts = pd.DataFrame([part | {"quantity": 6.0, "queued_quantity": None, "refused_quantity": None}])
    minutes = [(0, 20), (5, 10), (10, 20)]
    spans = pd.DataFrame(
        [
            {"family": "requests", "workload": "chat", "region": "any"}
            | {"earliest": hour + pd.Timedelta(minutes=first), "latest": hour + pd.Timedelta(minutes=last)}
            for first, last in minutes
        ]
    )
    assert usage_of(parts, spans, [])["covered_share"].tolist() == pytest.approx([1 / 3])
