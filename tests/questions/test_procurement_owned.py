"""Machines owned: kept beyond their useful life where that pays, sold where it does not pay to wait for its end."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from capplan.book.scenario import LedgerAssumptions
from capplan.questions.ledger import LedgerTables, build_ledger
from capplan.questions.procurement.supply.owned import sold_machines
from tests.cases.procurement_cases import assumptions, demand, offer, sku, solve

HOURS = 2190.0
ON_DEMAND = offer("od", "on_demand", 4.0)
MACHINES = [sku("gpu"), sku("own", provider="own", power_kw=2.0)]
SITE = pd.DataFrame({"site": ["room"], "geography": ["us"], "available_kw": [99.0], "pue": [1.25], "usd_per_kwh": [0.1]})
#: Electricity and space of a machine for an hour, and its support.
ELECTRICITY, SUPPORT = 2.0 * 1.25 * 0.1, 0.5


def machines(**more: Any) -> pd.DataFrame:
    """Ten machines that were bought for 80,000 each; their useful life of five years ends with the first planned quarter."""
    row = {"asset_id": "old", "sku": "own", "site": "room", "machines": 10, "in_service": pd.Timestamp("2022-04-01")}
    money = {"capex_usd": 800_000.0, "useful_life_years": 5.0, "support_usd_per_year": 10 * SUPPORT * 24 * 365.25}
    return pd.DataFrame([row | money | more])


def plan(loads: list[float], assets: pd.DataFrame, **assumed: Any) -> Any:
    a = assumptions(approval_days=0, horizon_quarters=len(loads), **assumed)
    return solve(demand([loads]), [ON_DEMAND], a, skus=MACHINES, sites=SITE, assets=assets)


def test_machines_stop_with_their_useful_life_unless_they_can_run_on() -> None:
    stopped = plan([10.0, 10.0], machines())
    assert stopped.proof.upper_usd == pytest.approx(HOURS * 40)
    kept = plan([10.0, 6.0], machines(last_day=pd.Timestamp("2028-12-31")))
    row = kept.purchases.iloc[0]
    assert (row["offer_id"], row["kind"], row["machines"], row["quarter"]) == ("keep old", "keep", 6.0, "2027Q2")
    assert kept.proof.upper_usd == pytest.approx(HOURS * 6 * (ELECTRICITY + SUPPORT))


def test_upkeep_that_costs_more_than_renting_is_not_paid() -> None:
    dear = plan([10.0, 10.0], machines(last_day=pd.Timestamp("2028-12-31"), kept_usd_per_year=10 * 5.0 * 8760))
    assert dear.purchases.empty


def test_they_are_kept_year_by_year_to_their_last_day() -> None:
    found = plan([10.0] * 6, machines(last_day=pd.Timestamp("2028-06-30")))
    assert found.purchases[["quarter", "machines"]].to_numpy().tolist() == [["2027Q2", 10.0], ["2028Q2", 10.0]]
    assert str(found.purchases["ends"].max().date()) == "2028-06-30"


def test_who_sells_saves_electricity_and_support_and_still_pays_for_the_space() -> None:
    holding = {
        "name": "old",
        "kind": "asset",
        "machines": 10,
        "power_kw": 20.0,
        "region": "room",
        "accelerators": 10.0,
        "price_usd": 800_000.0,
    }
    holding |= {"start": pd.Timestamp("2024-07-01"), "end": pd.Timestamp("2029-07-01"), "resale_share": 0.5, "residual_share": 0.1}
    a = assumptions(approval_days=0)
    for rent in (0.0, 146.0):
        found = sold_machines(holding | {"support_usd_per_hour": 10 * SUPPORT}, ["2027Q1"], SITE.assign(usd_per_kw_month=rent), a)
        assert [row["usd_per_hour"] for row in found] == [pytest.approx(ELECTRICITY + SUPPORT)]


def test_idle_machines_are_sold_where_they_may_be_and_the_ledger_says_so() -> None:
    """Two and a half years of life left; half of the price today, falling to a tenth: six idle ones are sold at once."""
    assets = machines(in_service=pd.Timestamp("2024-07-01"), resale_share=0.5, residual_share=0.1)
    kept = plan([4.0, 4.0], assets.drop(columns="resale_share"), horizon_end="hold_demand")
    assert kept.departures.empty
    found = plan([4.0, 4.0], assets, horizon_end="hold_demand")
    gone = found.departures.iloc[0]
    assert (gone["contract_id"], gone["what"], gone["machines"], str(gone["day"].date())) == ("old", "sell", 6.0, "2027-01-01")
    assert gone["exit_usd"] == pytest.approx(-6 * 80_000 * (0.5 - 0.1))
    saved = 6 * (80_000 * 0.4 + 10 * HOURS * (ELECTRICITY + SUPPORT))
    assert kept.proof.upper_usd - found.proof.upper_usd == pytest.approx(saved)
    assert found.departures["saves_usd"].sum() == pytest.approx(saved)
    ledger = build_ledger(
        LedgerAssumptions(as_of="2027-01-01", first_quarter="2027Q1", horizon_quarters=2),
        LedgerTables(assets=assets, sites=SITE, departures=found.departures, skus=pd.DataFrame(MACHINES)),
    )
    sold = ledger.entries[ledger.entries["status"] == "firm"].groupby("view")["usd"].sum()
    assert sold["cash"] == pytest.approx(sold["p_and_l"])
    assert sold["cash"] == pytest.approx(gone["exit_usd"] - gone["not_owed_usd"])
    # half of their price comes at once, and the tenth that was to come on their last day does not
    resale = ledger.entries[(ledger.entries["status"] == "firm") & (ledger.entries["component"] == "residual")]
    brought = resale[resale["view"] == "cash"].groupby("month")["usd"].sum()
    assert {f"{day:%Y-%m-%d}": usd for day, usd in brought.items()} == pytest.approx({"2027-01-01": -240_000.0, "2029-06-01": 48_000.0})


def test_a_machine_that_is_sold_is_not_kept() -> None:
    """Four of ten idle ones are sold in the first quarter; at most the six others run on after the end of their life."""
    assets = machines(resale_share=0.5, residual_share=0.1, last_day=pd.Timestamp("2028-12-31"))
    found = plan([6.0, 10.0], assets)
    assert found.departures["machines"].sum() + found.purchases.loc[found.purchases["kind"] == "keep", "machines"].sum() <= 10


def test_a_machine_that_is_sold_saves_electricity_at_its_price_of_the_day() -> None:
    """Prices of the room rise by a tenth after a year: from the fifth quarter on a machine saves that much more."""
    assets = machines(in_service=pd.Timestamp("2024-01-01"), resale_share=0.5, residual_share=0.1)
    a = assumptions(approval_days=0, horizon_quarters=6)
    site = SITE.assign(escalator_share_per_year=0.1)
    kept, sold = (
        solve(demand([[0.0] * 6]), [ON_DEMAND], a, skus=MACHINES, sites=site, assets=assets.assign(resale_share=share))
        for share in (0.0, 0.5)
    )
    saved = 10 * (80_000 * 0.4 + HOURS * (6 * SUPPORT + (4 + 2 * 1.1) * ELECTRICITY))
    assert kept.proof.upper_usd - sold.proof.upper_usd == pytest.approx(saved)
