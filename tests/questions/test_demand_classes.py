"""Classes of work: what is added, what must agree, and what an error names."""

import numpy as np
import pandas as pd
import pytest

from capplan.book.scenario import DemandAssumptions, ProcurementAssumptions
from capplan.errors import CapplanError
from capplan.questions.demand import class_demand, class_speeds, class_table, stated_demand

A = ProcurementAssumptions()
WORKLOADS = pd.DataFrame(
    {
        "workload": ["chat", "search", "train"],
        "stage": ["serving", "serving", "pretraining"],
        "unit": ["tokens", "tokens", "exaflop"],
        "work_class": ["inference", "inference", np.nan],
        "host": ["self", "self", "either"],
        "interruptible": [False, False, True],
        "deferrable": [False, False, True],
        "shortfall_usd_per_unit": [np.nan, np.nan, 4.0],
        "residency": [np.nan, np.nan, "eu"],
    }
)
SPEEDS = pd.DataFrame(
    [
        ("chat", "H100", 100.0, "measured"),
        ("chat", "L4", 10.0, "measured"),
        ("search", "H100", 100.0, "stated"),
        ("search", "L4", 10.0, "stated"),
        ("train", "H100", 1.4, "modelled"),
    ],
    columns=["workload", "accelerator", "work_per_accelerator_hour", "basis"],
)


def test_table():
    table = class_table(WORKLOADS, SPEEDS, A).set_index("class")
    assert table.index.tolist() == ["inference", "train"]
    assert table["stage_kind"].tolist() == ["serving", "batch"]
    assert table["api"].tolist() == ["self", "either"]
    assert table["shortfall_usd_per_unit"].tolist() == [A.serving_shortfall_usd_per_accelerator_hour / 100, 4.0]
    assert table["residency"].isna().tolist() == [True, False]


def test_speeds():
    assert class_speeds(SPEEDS, WORKLOADS).values.tolist() == [
        ["inference", "H100", 100.0, "measured"],
        ["inference", "L4", 10.0, "measured"],
        ["train", "H100", 1.4, "modelled"],
    ]
    assert class_speeds(None, WORKLOADS).empty


def test_shortfall_without_speeds_stays_open():
    assert class_table(WORKLOADS, None, A)["shortfall_usd_per_unit"].isna().tolist() == [True, False]


@pytest.mark.parametrize(
    ("column", "value", "words"),
    [
        ("unit", "requests", "unit"),
        ("interruptible", True, "interruptible"),
        ("residency", "us", "residency"),
        ("stage", "tuning", "stage_kind"),
        ("shortfall_usd_per_unit", 1.0, "shortfall"),
    ],
)
def test_differences_are_named(column, value, words):
    changed = WORKLOADS.copy()
    changed[column] = changed[column].astype(object)
    changed.loc[1, column] = value
    with pytest.raises(CapplanError, match=rf"class inference mixes workloads of different {words}.*chat: .*search: "):
        class_table(changed, SPEEDS, A)


def test_different_speeds_are_named():
    changed = SPEEDS.copy()
    changed.loc[2, "work_per_accelerator_hour"] = 90.0
    with pytest.raises(CapplanError, match=r"inference on H100 \(chat: 100, search: 90\)"):
        class_speeds(changed, WORKLOADS)
    with pytest.raises(CapplanError, match=r"inference on L4 \(chat: 10, search: no speed\)"):
        class_speeds(SPEEDS.drop(index=3), WORKLOADS)


def scenarios() -> pd.DataFrame:
    rows = [
        (name, 0.5, workload, "us", quarter, 2190.0 * k)
        for name, k in (("a", 1), ("b", 3))
        for workload in ("chat", "search", "train")
        for quarter in ("2027Q1", "2027Q2")
    ]
    return pd.DataFrame(rows, columns=["scenario", "probability", "workload", "region", "quarter", "quantity"])


def test_demand_adds_the_workloads_of_a_class():
    answer = stated_demand(scenarios(), DemandAssumptions(horizon_quarters=2, hours_convention="average"))
    demand = class_demand(answer.paths, answer.blocks, WORKLOADS)
    assert list(demand.columns) == ["path", "probability", "class", "region", "quarter", "block", "hours", "work_per_hour"]
    assert demand.groupby(["path", "class"])["work_per_hour"].first().tolist() == pytest.approx([2.0, 1.0, 6.0, 3.0])
    work = (demand["work_per_hour"] * demand["hours"]).sum()
    assert work == pytest.approx(answer.paths["quantity"].sum())


def test_unknown_workloads_are_named():
    answer = stated_demand(
        scenarios().assign(workload="ghost").drop_duplicates(["scenario", "quarter"]), DemandAssumptions(horizon_quarters=2)
    )
    with pytest.raises(CapplanError, match="ghost"):
        class_demand(answer.paths, answer.blocks, WORKLOADS)
