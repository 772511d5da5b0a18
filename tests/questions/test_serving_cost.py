"""Loaded costs: parts add up, other costs are shared once, and idle capacity is named."""

from __future__ import annotations

import pandas as pd
import pytest

from capplan.errors import CapplanError
from capplan.questions.serving import cost

SERVED = pd.DataFrame(
    {
        "workload": ["chat", "drafts", "summaries"],
        "feature": ["Assistant", "Drafts", "Drafts"],
        "cost_center": ["A", "B", "B"],
        "requests": [1000.0, 3000.0, 1000.0],
        "tokens": [2e6, 3e6, 1e6],
    }
)
COMPUTE = pd.DataFrame(
    {"workload": ["chat", "chat", "drafts", "summaries"], "component": ["busy", "spare", "busy", "api"], "usd": [500.0, 100, 300, 100]}
)
OTHER = pd.DataFrame(
    {
        "kind": ["egress", "egress", "people", "storage", "people"],
        "cost_center": ["A", "B", "P", "P", "B"],
        "usd": [10.0, 40.0, 200.0, 999.0, 40.0],
    }
)


def test_other_costs_are_shared_once_and_by_their_key():
    found = cost.loaded_costs(SERVED, COMPUTE, OTHER, months=1.0, overhead_share=0.5).set_index(["workload", "component"])["usd"]
    # egress of B by requests 3 : 1; people of B by spend 300 : 100; half of the platform's people by spend 600 : 300 : 100; its storage
    # not at all
    assert found["chat", "egress"] == 10
    assert (found["drafts", "egress"], found["summaries", "egress"]) == (30, 10)
    assert found["chat", "people"] == pytest.approx(60)
    assert found["drafts", "people"] == pytest.approx(30 + 30)
    assert found["summaries", "people"] == pytest.approx(10 + 10)
    assert found.sum() == pytest.approx(1000 + 50 + 100 + 40)


def test_unit_costs_and_features_add_up():
    table = cost.loaded_costs(SERVED, COMPUTE, OTHER, 1.0, 0.5)
    features = cost.feature_costs(table, SERVED).set_index("feature")
    assert features["usd"].sum() == pytest.approx(table["usd"].sum())
    assert features.loc["Drafts", "usd_per_thousand_requests"] == pytest.approx(1e3 * features.loc["Drafts", "usd"] / 4000)
    assert features.loc["Assistant", "usd_per_million_tokens"] == pytest.approx(features.loc["Assistant", "usd"] / 2)
    chat = table[table["workload"] == "chat"]
    assert chat["usd_per_thousand_requests"].sum() == pytest.approx(features.loc["Assistant", "usd_per_thousand_requests"])


def test_without_requests_unit_costs_are_empty():
    table = cost.loaded_costs(SERVED.assign(requests=0.0, tokens=0.0), COMPUTE, OTHER.head(0), 1.0, 0.5)
    assert table["usd_per_thousand_requests"].isna().all()
    assert table["usd"].sum() == 1000


def test_fleet_splits_into_work_headroom_and_spare():
    hours = pd.DataFrame({"replicas": [3, 0, 2], "accelerators": [12, 0, 8], "busy_share": [0.5, 0.0, 0.4]})
    found = cost.fleet_components(hours, 1, 2.0)
    assert found == {"busy": pytest.approx(2 * (6 + 3.2)), "headroom": pytest.approx(2 * (20 - 9.2 - 8)), "spare": pytest.approx(2 * 8)}
    assert sum(found.values()) == pytest.approx(40)


def test_faults_are_named():
    with pytest.raises(CapplanError, match="no served workload"):
        cost.loaded_costs(SERVED, COMPUTE.assign(workload="other"), OTHER, 1.0, 0.5)
    with pytest.raises(CapplanError, match=r"0\.9"):
        cost.loaded_costs(SERVED, COMPUTE, OTHER, 1.0, 90)


def test_what_stands_by_is_no_more_than_what_does_not_work():
    hours = pd.DataFrame({"replicas": [2.0], "accelerators": [16.0], "busy_share": [0.75]})
    assert cost.fleet_components(hours, 2, 2.5) == {"busy": 30.0, "headroom": 0.0, "spare": 10.0}
    assert cost.fleet_components(hours.assign(replicas=8.0), 1, 2.5) == {"busy": 30.0, "headroom": 5.0, "spare": 5.0}
