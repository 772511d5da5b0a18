"""Data that leaves its home costs money, and the plan moves when that outweighs the price of machines."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from capplan.book.scenario import LedgerAssumptions
from capplan.errors import CapplanError
from capplan.questions.demand import class_table
from capplan.questions.ledger import LedgerTables, build_ledger
from capplan.questions.procurement import Purchases
from capplan.questions.procurement.work.egress import crossings
from tests.cases.procurement_cases import assumptions, demand, offer, settle, sku, solve, work_class

HOURS = 2190.0
HOME = {"home_provider": "cloud", "home_region": "us"}
PRICES = pd.DataFrame(
    [("cloud", "same_geography", 0.02), ("cloud", "other_geography", 0.05), ("cloud", "other_provider", 0.09)],
    columns=["provider", "crossing", "usd_per_gib"],
)
ROWS = [
    offer("us", "on_demand", 4.0),
    offer("eu", "on_demand", 3.0, region="eu-1", geography="eu"),
    offer("rival", "on_demand", 2.5, sku="other"),
]
MACHINES = [sku("gpu"), sku("other", provider="rival")]


def moved(
    gib: float, rows: list[dict[str, Any]] = ROWS, prices: pd.DataFrame | None = PRICES, load: float = 10.0, **more: Any
) -> Purchases:
    """Work that may run anywhere, with its data at one provider in the US; an accelerator does two units an hour."""
    kind = {name: more.pop(name) for name in list(more) if name in ("interruptible", "home_provider", "home_region")}
    return solve(
        demand([[load]], region="any"),
        rows,
        skus=MACHINES,
        classes=[work_class(egress_gib_per_unit=gib, **(HOME | kind))],
        speeds=[("work", "H100", 2.0)],
        egress_prices=prices,
        **more,
    )


@pytest.mark.parametrize(
    ("gib", "where", "usd"), [(0.0, "rival", 2.5), (5.0, "rival", 2.5 + 2 * 5 * 0.09), (9.0, "eu", 3.0 + 2 * 9 * 0.05), (11.0, "us", 4.0)]
)
def test_the_plan_moves_where_egress_outweighs_the_price_of_machines(gib: float, where: str, usd: float) -> None:
    """An hour does two units: the rival costs 2.5 + 0.18 g, Europe 3 + 0.1 g, home 4; they cross at g = 6.25 and 10."""
    found = settle(
        demand([[10.0]], region="any"),
        ROWS,
        skus=MACHINES,
        classes=[work_class(egress_gib_per_unit=gib, **HOME)],
        speeds=[("work", "H100", 2.0)],
        egress_prices=PRICES,
    )
    columns = found.recourse.columns.assign(hours=np.ravel(found.solution.recourse.toarray()) * HOURS)
    ran = columns[(columns["source"] == "on_demand") & (columns["hours"] > 0)]
    place, provider, price = {"rival": ("us", "rival", 2.5), "eu": ("eu", "cloud", 3.0), "us": ("us", "cloud", 4.0)}[where]
    assert found.market.pools.loc[ran["pool"], ["provider", "place"]].to_numpy().tolist() == [[provider, place]]
    assert found.solution.upper == pytest.approx(HOURS * 5 * usd, rel=1e-12)
    used = moved(gib).dispatch.query("source == 'on_demand'")
    assert used[["provider", "expected_usd"]].to_numpy().tolist() == [[provider, pytest.approx(HOURS * 5 * price)]]


def test_egress_is_shown_and_paid_on_its_own() -> None:
    plan = moved(5.0)
    egress = HOURS * 5 * 2 * 5 * 0.09
    cost = plan.costs.groupby("component")["usd"].sum()
    line = plan.dispatch.query("source == 'egress'").iloc[0]
    assert (cost["egress"], cost["on_demand"]) == (pytest.approx(egress), pytest.approx(HOURS * 5 * 2.5))
    assert (line["expected_usd"], line["provider"], line["expected_work"]) == (pytest.approx(egress), "cloud", 0.0)
    assert plan.alternatives.set_index("name").at["plan", "spend_usd"] == pytest.approx(HOURS * 5 * 3.4)
    assert "egress" not in set(moved(0.0).costs["component"])


def test_contracts_and_spot_move_data_too() -> None:
    """A contract at the rival pays for its hours and for what they move; a spot hour moves as much as it does."""
    contract = [ROWS[0], offer("lease", "lease", 2.0, term_months=3, sku="other")]
    plan = moved(5.0, contract)
    assert plan.proof.upper_usd == pytest.approx(HOURS * 5 * (2.0 + 0.9))
    assert moved(12.0, contract).purchases.empty
    spot = [ROWS[0], offer("spot", "spot", 1.0, sku="other", interruptions_per_hour=0.4)]
    assert moved(5.0, spot, interruptible=True).proof.upper_usd == pytest.approx(HOURS * (5 / 0.8 * 1.0 + 5 * 0.9))


def test_a_budget_counts_egress() -> None:
    budget = [{"limit_id": "budget", "kind": "budget_usd", "amount": HOURS * 5 * 1.7, "measure": "p_and_l", "hard": True}]
    plan = moved(5.0, limits=budget)
    assert plan.service["served_share"].tolist() == [pytest.approx(0.5)]


def test_the_ledger_books_egress_with_the_provider_it_leaves() -> None:
    plan = moved(5.0)
    a = LedgerAssumptions(as_of="2027-01-01", first_quarter="2027Q1", horizon_quarters=1)
    book = build_ledger(a, LedgerTables(purchases=plan.purchases, dispatch=plan.dispatch, skus=pd.DataFrame(MACHINES)))
    own = book.entries.query("component == 'egress'")
    assert own.groupby("view")["usd"].sum()[["billed", "cash", "p_and_l"]].tolist() == pytest.approx([HOURS * 5 * 0.9] * 3)
    assert set(own["provider"]) == {"cloud"}
    assert set(own["account"]) == {"network"}


def test_the_distance_of_each_crossing() -> None:
    pools = pd.DataFrame(
        [("cloud", "us-1", "us"), ("cloud", "us", "us"), ("cloud", "eu", "eu"), ("rival", "us-1", "us")],
        columns=["provider", "place", "geography"],
    )
    assert crossings("cloud", "us-1", pools).tolist() == ["", "same_geography", "other_geography", "other_provider"]
    assert crossings("cloud", "us", pools).tolist() == ["", "", "other_geography", "other_provider"]
    assert crossings("cloud", None, pools).tolist() == ["", "", "", "other_provider"]


def test_missing_prices_and_homes_are_refused() -> None:
    with pytest.raises(CapplanError, match=r"from cloud to other provider, and egress_prices has no price"):
        moved(1.0, prices=PRICES[:2])
    with pytest.raises(CapplanError, match="has no home_provider"):
        moved(1.0, home_provider=None)


def test_classes_carry_the_home_of_their_data_and_must_agree_on_it() -> None:
    jobs = pd.DataFrame({"workload": ["a", "b"], "stage": "tuning", "unit": "u", "work_class": "c", "egress_gib_per_unit": 2.0} | HOME)
    table = class_table(jobs, None, assumptions())
    assert table.loc[0, ["home_provider", "home_region", "egress_gib_per_unit"]].tolist() == ["cloud", "us", 2.0]
    with pytest.raises(CapplanError, match="different home_region"):
        class_table(jobs.assign(home_region=["us", "eu"]), None, assumptions())
