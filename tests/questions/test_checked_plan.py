"""A plan from anywhere: each kind of constraint it breaks with the amount worked out by hand, its cost, and files that cannot be read."""

from __future__ import annotations

import time
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from capplan.answers.proposed import checked_purchases
from capplan.book.book import load_book
from capplan.book.currencies import Currency
from capplan.book.proposed import PURCHASE_COLUMNS, Proposed, read_proposed
from capplan.book.scenario import ProcurementAssumptions
from capplan.errors import BookError
from capplan.outputs.export.files import write_table
from capplan.questions.procurement import CheckedPlan, Decided, check_plan
from capplan.questions.procurement.explain.proposed import match_rows
from tests.cases.procurement_cases import DAY, assumptions, commitment, demand, offer, settle, sku
from tests.questions.test_board import TABLES

HOURS = 2190.0
#: Hours of a year's contract that are booked in its first quarter: by its days.
FIRST = 8760.0 * 90 / 365
ON_DEMAND = offer("od", "on_demand", 4.0)
YEAR = offer("year", "reserved_1y", 2.0)
WORK = demand([[10.0, 4.0, 4.0, 4.0]])


def proposed(*rows: dict[str, Any]) -> pd.DataFrame:
    """Rows of a file, as they are read."""
    empty = {column.name: None for column in PURCHASE_COLUMNS}
    return pd.DataFrame([empty | {"file": "plan.csv", "row": line} | row for line, row in enumerate(rows, start=2)])


def buy(offer_id: str = "year", quarter: str | None = "2027Q1", **more: Any) -> dict[str, Any]:
    return {"offer_id": offer_id, "quarter": quarter, **(more or {"lots": 4.0})}


def cost(checked: CheckedPlan, measure: str = "expected_usd") -> float:
    return float(checked.costs.set_index("measure").at[measure, "checked_usd"])


def only(checked: CheckedPlan, constraint: str) -> pd.Series:
    """The one thing that is broken."""
    assert checked.broken["constraint"].tolist() == [constraint], checked.broken["words"].tolist()
    return checked.broken.iloc[0]


def small(*offers: dict[str, Any], work: pd.DataFrame = WORK, **more: Any) -> Decided:
    a = more.pop("a", None) or given(horizon_quarters=int(work["quarter"].nunique()))
    return settle(work, [ON_DEMAND, *(offers or (YEAR,))], a, **more)


@cache
def plain() -> Decided:
    """The usual one, solved once."""
    return small()


def given(**values: Any) -> ProcurementAssumptions:
    """Assumptions under which what begins today can still be signed in time."""
    return assumptions(**({"approval_days": 0, "horizon_quarters": 4} | values))


def test_the_same_plan_is_no_cent_apart() -> None:
    found = plain()
    checked = check_plan(found, found.purchases.assign(file="purchases.csv", row=range(2, 2 + len(found.purchases))))
    assert checked.in_order
    assert checked.broken.empty
    assert (checked.costs["difference_usd"] == 0.0).all()
    assert checked.lots.empty
    assert "It is the proven plan" in checked.headline


def test_another_plan_costs_what_its_own_use_costs() -> None:
    """Ten signed at 2 for a year serve all; the plan signs four and rents six for a quarter at 4."""
    checked = check_plan(plain(), proposed(buy(lots=10.0)))
    assert checked.in_order
    assert cost(checked) == pytest.approx(HOURS * 4 * 10 * 2.0)
    row = checked.costs.set_index("measure").loc["expected_usd"]
    assert row["plan_usd"] == pytest.approx(HOURS * (4 * 4 * 2.0 + 6 * 4.0))
    assert row["difference_usd"] == pytest.approx(HOURS * (80.0 - 56.0))
    assert checked.lots.to_dict("records") == [
        {"offer_id": "year", "quarter": "2027Q1", "checked_lots": 10.0, "plan_lots": 4.0, "difference_lots": 6.0}
    ]
    assert "$52.6k more than the proven plan" in checked.headline


@pytest.mark.parametrize("amount", [{"lots": 2.0}, {"machines": 6.0}, {"accelerators": 48.0}, {"lots": 2.0, "accelerators": 48.0}])
def test_an_amount_is_stated_in_lots_machines_or_accelerators(amount: dict[str, float]) -> None:
    found = small(YEAR | {"lot_machines": 3}, work=demand([[48.0]]), skus=[sku("gpu", count=8)])
    checked = check_plan(found, proposed(buy(**amount)))
    assert checked.rows[["lots", "machines", "accelerators"]].iloc[0].tolist() == [2.0, 6.0, 48.0]


# --- each kind of constraint, with the amount by hand ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limit", "rows", "over", "unit"),
    [
        ({"kind": "quota_accelerators", "amount": 7.0}, [buy(lots=10.0)], 3.0, "accelerators"),
        ({"kind": "quota_accelerators", "amount": 7.0, "counts": "running"}, [buy(lots=10.0)], 3.0, "accelerators"),
        ({"kind": "new_accelerators", "amount": 3.0}, [buy(lots=5.0)], 2.0, "accelerators"),
        (
            {"kind": "budget_usd", "amount": HOURS * 12.0, "measure": "p_and_l", "hard": True},
            [buy(lots=10.0)],
            FIRST * 20.0 - HOURS * 12.0,
            "USD",
        ),
        *(
            (
                {"kind": "budget_usd", "amount": HOURS * 12.0, "measure": measure, "hard": True, **scope},
                [buy(lots=10.0)],
                FIRST * 20.0 - HOURS * 12.0,
                "USD",
            )
            for measure in ("p_and_l", "compute")
            for scope in ({"region": "us-1"}, {"accelerator": "H100"}, {"region": "us-1", "accelerator": "H100", "quarter": "2027Q1"})
        ),
    ],
)
def test_a_limit_is_exceeded_by_so_much(limit: dict[str, Any], rows: list[dict[str, Any]], over: float, unit: str) -> None:
    checked = check_plan(small(work=demand([[10.0]]), limits=[{"limit_id": "cap", **limit}]), proposed(*rows))
    broken = only(checked, limit["kind"])
    assert broken["over"] == pytest.approx(over)
    assert (broken["name"], broken["quarter"], broken["limit"], broken["unit"]) == ("cap", "2027Q1", limit["amount"], unit)
    assert not checked.in_order
    assert np.isfinite(cost(checked))
    assert any("as if it could be had" in note for note in checked.notes)


@pytest.mark.parametrize(
    ("limit", "over", "said"),
    [
        ({"kind": "quota_accelerators", "amount": 3.0}, 3.0, "3 accelerators more than the 3 allowed"),
        ({"kind": "quota_accelerators", "amount": 3.0, "counts": "all"}, 3.0, "3 accelerators more than the 3 allowed"),
        ({"kind": "quota_accelerators", "amount": 3.0, "counts": "running"}, 3.0, "3 accelerators more than the 3 allowed"),
        ({"kind": "quota_accelerators", "amount": 5.0, "quarter": "2027Q1", "accelerator": "H100"}, 1.0, "1 accelerator more"),
        ({"kind": "new_accelerators", "amount": 1.0, "region": "us-1"}, 1.0, "1 accelerator more than the 1 allowed"),
        ({"kind": "provider_share", "amount": 0.25, "provider": "cloud"}, 4.5, "4.5 accelerators more than the 25 % allowed"),
    ],
)
def test_what_is_signed_already_counts_in_what_exceeds_a_limit(limit: dict[str, Any], over: float, said: str) -> None:
    """Four are under contract and two are proposed: six in all."""
    held = [commitment("old", 4.0, "2026-07-01", "2028-06-30", 2.0)]
    found = small(work=demand([[10.0]]), commitments=held, limits=[{"limit_id": "cap", **limit}])
    checked = check_plan(found, proposed(buy(lots=2.0)))
    assert only(checked, limit["kind"])["over"] == pytest.approx(over)
    assert said in checked.broken["words"].iloc[0]


def test_amounts_are_said_in_the_currency_of_the_book_at_the_rate_of_their_quarter() -> None:
    """A budget of 12 dollars an hour is ten euros at 1.2; costs are said at the rate of the day, 1.25."""
    budget = [{"limit_id": "cap", "kind": "budget_usd", "amount": HOURS * 12.0, "measure": "p_and_l", "hard": True}]
    euros = Currency("EUR", 1.25, {"2027Q1": 1.2})
    checked = check_plan(small(work=demand([[10.0]]), limits=budget), proposed(buy(lots=10.0)), euros)
    broken = only(checked, "budget_usd")
    assert (broken["over"], broken["limit"], broken["unit"]) == (
        pytest.approx((FIRST * 20 - HOURS * 12) / 1.2),
        pytest.approx(HOURS * 10),
        "EUR",
    )
    assert "€14.1k more than the €21.9k allowed" in broken["words"]
    row = checked.costs.set_index("measure").loc["expected_usd"]
    assert row["checked_amount"] == pytest.approx(row["checked_usd"] / 1.25)
    assert "$" not in checked.headline


def test_a_book_in_euros_is_checked_in_euros(make_book) -> None:
    fx = "currency,date,usd\nEUR,2026-12-01,1.25\nEUR,2027-01-01,1.2\n"
    stated = load_book(make_book("euro", fx=fx, **{**TABLES, "book": TABLES["book"] + "currency: EUR\n"}))
    rows = Proposed("purchases", proposed(buy(lots=1.0)), ())
    checked = checked_purchases(stated, stated.scenario, rows)
    assert "€" in checked.headline
    assert "$" not in checked.headline
    row = checked.costs.set_index("measure").loc["expected_usd"]
    assert row["plan_amount"] == pytest.approx(row["plan_usd"] / 1.25)


@pytest.mark.parametrize("hard", [True, False])
def test_the_budget_of_a_team_is_exceeded_by_what_the_ledger_books_for_it(make_book, hard) -> None:
    """Two machines at 16 an hour for a year: 90 of its 365 days lie in the first quarter, and web uses them alone; lab bears nothing."""
    alone = {name: "".join(line for line in TABLES[name].splitlines(True) if "tune" not in line) for name in ("demand_scenarios", "speeds")}
    limits = "limit_id,kind,amount,quarter,measure,hard,team\n" + "".join(
        f"{team},budget_usd,50000,2027Q1,p_and_l,{hard},{team}\n" for team in ("web", "lab")
    )
    stated = load_book(make_book("teams", limits=limits, **TABLES | alone))
    checked = checked_purchases(stated, stated.scenario, Proposed("purchases", proposed(buy(lots=2.0)), ()))
    broken = only(checked, "team_budget_usd")
    assert (broken["name"], broken["quarter"], broken["limit"], broken["unit"]) == ("web", "2027Q1", 50_000.0, "USD")
    assert broken["over"] == pytest.approx(2 * 16 * FIRST - 50_000.0)
    assert bool(broken["forbids"]) is hard
    assert checked.in_order is not hard
    assert checked_purchases(stated, stated.scenario, Proposed("purchases", proposed(buy(lots=1.0)), ())).broken.empty


def test_a_share_of_a_provider_is_exceeded_in_accelerators() -> None:
    """Eight of ten at one provider, of which half are allowed: three of them would have to stand elsewhere."""
    skus, other = [sku("gpu"), sku("rival", provider="rival")], offer("other", "reserved_1y", 2.5, sku="rival")
    share = [{"limit_id": "mix", "kind": "provider_share", "amount": 0.5}]
    found = small(YEAR, other, work=demand([[10.0]]), skus=skus, limits=share)
    broken = only(check_plan(found, proposed(buy(lots=8.0), buy("other", lots=2.0))), "provider_share")
    assert (broken["over"], broken["name"]) == (pytest.approx(3.0), "mix cloud")


def test_power_and_capex_are_exceeded_by_so_much() -> None:
    own = offer("own", "owned", 0.0, capex_usd=1000.0, term_months=36, sku="own", region="us-1")
    skus = [sku("gpu"), sku("own", power_kw=2.0)]
    limits = [
        {"limit_id": "room", "kind": "power_kw", "amount": 9.0, "region": "us-1"},
        {"limit_id": "capex", "kind": "budget_usd", "amount": 4500.0, "measure": "capex", "hard": True, "quarter": "2027Q1"},
    ]
    found = settle(demand([[10.0]]), [ON_DEMAND, own], given(horizon_quarters=1), skus=skus, limits=limits)
    broken = check_plan(found, proposed(buy("own", lots=6.0))).broken.set_index("name")
    assert broken.at["room", "over"] == pytest.approx(6 * 2.0 - 9.0)
    assert broken.at["capex", "over"] == pytest.approx(6 * 1000.0 - 4500.0)


def test_a_budget_is_kept_by_leaving_work_undone_where_that_can_be() -> None:
    """Signed for 8 of 12 dollars an hour, one of six on demand at 4 is still paid for, and five hours are missed at 25."""
    budget = [{"limit_id": "cap", "kind": "budget_usd", "amount": HOURS * 12.0, "measure": "p_and_l", "hard": True}]
    checked = check_plan(small(work=demand([[10.0]]), limits=budget), proposed(buy(lots=4.0)))
    assert checked.in_order
    rented = (HOURS * 12.0 - FIRST * 4 * 2.0) / 4.0
    assert cost(checked) == pytest.approx(HOURS * 4 * 2.0 + rented * 4.0 + (HOURS * 6 - rented) * 25.0)


def test_a_soft_budget_is_paid_for_and_forbids_nothing() -> None:
    budget = [{"limit_id": "cap", "kind": "budget_usd", "amount": HOURS * 5.0, "measure": "p_and_l", "hard": False}]
    a = given(horizon_quarters=1, soft_limit_penalty_share=0.5)
    checked = check_plan(small(work=demand([[10.0]]), limits=budget, a=a), proposed(buy(lots=4.0)))
    broken = only(checked, "budget_usd")
    assert checked.in_order
    over = FIRST * 4 * 2.0 + HOURS * (6 * 4.0 - 5.0)
    assert broken["over"] == pytest.approx(over)
    assert cost(checked) == pytest.approx(HOURS * 32.0 + 0.5 * over)


@pytest.mark.parametrize(
    ("more", "row", "constraint", "over", "unit"),
    [
        ({"lead_time_days_p50": 40.0}, buy(), "lead time", 40.0, "days"),
        ({"available_from": pd.Timestamp("2027-03-15")}, buy(), "lead time", 73.0, "days"),
        ({"available_to": pd.Timestamp("2026-12-20")}, buy(), "offer ended", 12.0, "days"),
        ({}, buy(quarter="2028Q1"), "planned quarters", 1.0, "days"),
        ({}, buy(quarter="2026Q4"), "planned quarters", 92.0, "days"),
        ({"minimum_lots": 6}, buy(lots=4.0), "minimum lots", 2.0, "lots"),
        ({"maximum_lots": 3.0}, buy(lots=4.0), "maximum lots", 1.0, "lots"),
        ({"lot_machines": 4}, buy(machines=10.0), "whole lots", 2.0, "machines"),
        ({}, buy(lots=4.0, usd_per_hour=1.5), "price", 0.5, "USD per hour"),
        ({}, buy(lots=4.0, ends=pd.Timestamp("2027-12-01")), "terms", 30.0, "days"),
        ({}, buy(quarter=None, lots=4.0, starts=pd.Timestamp("2027-01-15")), "start", 14.0, "days"),
    ],
)
def test_what_cannot_be_had_as_stated(more: dict[str, Any], row: dict[str, Any], constraint: str, over: float, unit: str) -> None:
    checked = check_plan(small(YEAR | more), proposed(row))
    assert constraint in checked.broken["constraint"].tolist(), checked.broken["words"].tolist()
    broken = checked.broken.set_index("constraint").loc[constraint]
    assert (broken["over"], broken["unit"]) == (pytest.approx(over), unit)
    assert bool(broken["forbids"])
    assert (broken["file"], broken["row"]) == ("plan.csv", 2.0)
    assert not checked.rows["in_order"].iloc[0]


@pytest.mark.parametrize(
    ("row", "constraint", "said"),
    [
        (buy("od", lots=4.0), "terms", "rented by the hour"),
        (buy(lots=4.0, term="reserved_3y"), "terms", "it states the term reserved_3y, and the offer has reserved_1y"),
        (buy(lots=4.0, provider="rival"), "terms", "it states the provider rival, and the offer has cloud"),
        (buy("barred", lots=1.0), "excluded", "excluded_offers names it"),
        (buy("abroad", lots=1.0), "excluded", "eu is none of the geographies us"),
        (buy("tpu", lots=1.0), "speeds", "none of the work is stated to run on TPU"),
        (buy("renew old", lots=1.0), "terms", "contract old states no right to renew"),
        (buy("leave old", lots=1.0), "terms", "contract old states no right to leave"),
    ],
)
def test_what_cannot_be_had_at_all(row: dict[str, Any], constraint: str, said: str) -> None:
    others = [
        offer("barred", "reserved_1y", 1.0),
        offer("abroad", "reserved_1y", 1.0, geography="eu", region="eu-1"),
        offer("tpu", "reserved_1y", 1.0, sku="tpu"),
    ]
    a = given(horizon_quarters=4, excluded_offers=("barred",), geographies=("us",))
    held = [commitment("old", 1.0, "2026-07-01", "2027-06-30")]
    found = small(YEAR, *others, a=a, skus=[sku("gpu"), sku("tpu", "TPU")], commitments=held)
    broken = only(check_plan(found, proposed(row)), constraint)
    assert said in broken["words"]
    assert np.isnan(broken["over"])


def test_a_quote_that_has_expired_has_no_later_start_without_a_list_price() -> None:
    """The quote holds to the end of the quarter in which it expires; a start half a year later is 184 days after its last."""
    quoted = YEAR | {"negotiated_usd_per_hour": 1.5, "quote_expires": pd.Timestamp("2027-01-20"), "usd_per_hour": 0.0}
    a = given(horizon_quarters=4, later_quotes="list_price")
    broken = only(check_plan(small(quoted, a=a), proposed(buy(quarter="2027Q3"))), "quote")
    assert broken["over"] == 91.0


def test_a_site_whose_contract_has_ended_takes_no_machines() -> None:
    own = offer("own", "owned", 0.0, capex_usd=1000.0, term_months=36, sku="own", region="room")
    sites = pd.DataFrame(
        [{"site": "room", "geography": "us", "available_kw": 100.0, "pue": 1.2, "usd_per_kwh": 0.1, "end": DAY + pd.Timedelta(days=89)}]
    )
    found = settle(WORK, [ON_DEMAND, own], given(horizon_quarters=4), skus=[sku("gpu"), sku("own", power_kw=1.0)], sites=sites)
    broken = only(check_plan(found, proposed(buy("own", quarter="2027Q3", lots=1.0))), "site")
    assert broken["over"] == 92.0  # first of April to first of July, and the day itself


def test_what_is_late_can_be_signed_and_is_said() -> None:
    found = small(YEAR | {"lead_time_days_p90": 20.0}, a=given(horizon_quarters=4, approval_days=10))
    checked = check_plan(found, proposed(buy()))
    assert only(checked, "late")["over"] == 30.0
    assert checked.in_order


def test_a_pinned_purchase_is_held_to() -> None:
    found = small(a=given(horizon_quarters=4, pinned_purchases=(("year", "2027Q1", 3),)))
    assert only(check_plan(found, proposed(buy(lots=5.0))), "pinned purchase")["over"] == 2.0


def test_tiers_begin_at_their_amounts() -> None:
    tiers = pd.DataFrame([{"offer_id": "year", "from_lots": 5, "usd_per_hour": 1.0}])
    found = small(YEAR | {"minimum_lots": 2}, offer_tiers=tiers)
    assert cost(check_plan(found, proposed(buy(lots=5.0)))) == pytest.approx(HOURS * (4 * 5 * 1.0 + 5 * 4.0))
    below = check_plan(found, proposed(buy(lots=1.0)))
    assert only(below, "minimum lots")["over"] == 1.0
    assert cost(below) == pytest.approx(HOURS * (4 * 1 * 2.0 + (9 + 3 + 3 + 3) * 4.0))


def test_a_renewal_that_cannot_be_stopped_is_counted_and_one_of_more_than_there_is_breaks_a_rule() -> None:
    row = commitment("old", 3.0, "2026-04-01", "2027-03-31", renewal_usd_per_hour=2.0, renews=True, notice_date=pd.Timestamp("2026-12-01"))
    found = small(commitments=[row])
    checked = check_plan(found, proposed(buy(lots=1.0)))
    assert any("renew old renews by itself in 2027Q2" in note for note in checked.notes)
    assert cost(checked) == pytest.approx(HOURS * (4 * 1 * 2.0 + 6 * 4.0 + 3 * 3 * 2.0))
    more = check_plan(found, proposed(buy("renew old", quarter="2027Q2", lots=5.0)))
    assert more.broken.loc[more.broken["forbids"], ["constraint", "over"]].to_numpy().tolist() == [["maximum lots", 2.0]]


def test_machines_are_not_left_and_renewed_as_well_and_an_exchange_buys_as_much() -> None:
    row = commitment("old", 4.0, "2026-07-01", "2027-06-30", 6.0, exit_cost_share=0.0, renewal_usd_per_hour=2.0, exchangeable=True)
    found = small(a=given(horizon_quarters=4, approval_days=0), commitments=[row])
    checked = check_plan(found, proposed(buy("leave old", lots=3.0), buy("renew old", quarter="2027Q3", lots=2.0)))
    rule = only(checked, "rule")
    assert (rule["name"], rule["over"]) == ("machines of old", 1.0)
    swapped = check_plan(found, proposed(buy("exchange old", lots=2.0), buy(lots=1.0)))
    rule = only(swapped, "rule")
    assert rule["over"] == pytest.approx(2 * 2 * HOURS * 6.0 - 4 * HOURS * 2.0)


def test_work_that_can_wait_is_put_off_under_a_proposal_as_under_the_plan() -> None:
    """Eight of the ten wait a quarter, so that five machines do nearly all; a proposal without them rents."""
    from tests.cases.procurement_cases import work_class

    a = given(horizon_quarters=2, deferral_quarters=1)
    found = small(YEAR, work=demand([[10.0, 0.0]]), classes=[work_class(deferrable=True, stage_kind="pretraining")], a=a)
    checked = check_plan(found, proposed(buy(lots=5.0)))
    assert cost(checked, "objective_usd") >= found.solution.lower - 1e-6
    assert cost(checked) <= HOURS * (2 * 5 * 2.0 + 5 * 4.0) + 1e-6


@pytest.mark.parametrize(("mine", "theirs"), [(0.0, 0.0), (3.0, 2.0), (6.0, 0.0), (7.0, 4.0)])
def test_what_a_proposal_leaves_unspent_of_an_agreement_is_paid(mine: float, theirs: float) -> None:
    offers = [offer("mine", "lease", 2.5, term_months=3), offer("theirs", "lease", 1.5, term_months=3, sku="other", maximum_lots=4.0)]
    year = {"agreement_id": "edp", "provider": "cloud", "start": DAY, "end": pd.Timestamp("2027-03-31"), "committed_usd": 60_000.0}
    skus, a = [sku("gpu"), sku("other", provider="rival")], given(horizon_quarters=1)
    found = settle(demand([[6.0]]), offers, a, skus=skus, spend_agreements=pd.DataFrame([year]))
    checked = check_plan(found, proposed(buy("mine", lots=mine), buy("theirs", lots=theirs)))
    undone, unspent = max(6.0 - mine - theirs, 0.0), max(60_000.0 - HOURS * 2.5 * mine, 0.0)
    assert checked.in_order
    assert cost(checked) == pytest.approx(HOURS * (2.5 * mine + 1.5 * theirs + 25.0 * undone) + unspent)
    assert cost(checked, "objective_usd") >= found.solution.lower - 1e-6


# --- files ----------------------------------------------------------------------------------------------------------------------------


def write(folder: Path, text: str, name: str = "plan.csv") -> Path:
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


def test_what_a_plan_writes_is_read_back(tmp_path: Path) -> None:
    found = small(YEAR | {"usd_per_hour": 2.0 / 3.0})
    read = read_proposed([write_table(found.purchases, tmp_path / "purchases.csv")])
    assert read.kind == "purchases"
    checked = check_plan(found, read.rows)
    assert checked.broken.empty
    assert (checked.costs["difference_usd"] == 0.0).all()


def test_a_file_without_rows_proposes_to_buy_nothing(tmp_path: Path) -> None:
    checked = check_plan(plain(), read_proposed([write(tmp_path, "offer_id,lots,quarter\n")]).rows)
    assert checked.in_order
    assert cost(checked) == pytest.approx(HOURS * (10 + 4 + 4 + 4) * 4.0)


def test_departures_stand_in_a_file_of_their_own(tmp_path: Path) -> None:
    a = given(horizon_quarters=2, approval_days=0)
    old = commitment("old", 10.0, "2026-07-01", "2027-06-30", 6.0, exit_cost_share=0.0)
    found = settle(demand([[10.0, 10.0]]), [ON_DEMAND], a, commitments=[old])
    leaving = write(tmp_path, "offer_id,quarter,lots,machines\nleave old,2027Q1,10,10\n", "departures.csv")
    alone = check_plan(found, proposed(buy("leave old", lots=0.0)))
    assert any("departures.csv" in note for note in alone.notes)
    assert (check_plan(found, read_proposed([leaving]).rows).costs["difference_usd"] == 0.0).all()


def faults(found: Decided, *files: Path) -> list[str]:
    def read() -> None:
        held = read_proposed(files)
        match_rows(found, held.rows, held.faults)

    with pytest.raises(BookError) as caught:
        read()
    return [str(fault) for fault in caught.value.faults]


def test_all_faults_of_a_file_are_named_at_once(tmp_path: Path) -> None:
    text = (
        "offer_id,quarter,starts,lots,machines\n"
        "yeer,2027Q1,,1,\n"
        "year,,,1,\n"
        "year,2027Q7,,1,\n"
        "year,2027Q1,2027-05-01,1,\n"
        "year,2027Q1,,,\n"
        "year,2027Q1,,-1,\n"
        "year,2027Q1,,1,2\n"
        "year,2027Q2,,1,\n"
        "year,2027Q2,,2,\n"
        "year,2027Q3,,many,\n"
    )
    said = faults(plain(), write(tmp_path, text))
    for row, words in (
        (2, "Did you mean year?"),
        (3, "neither quarter nor starts is stated"),
        (4, "Write quarters like 2027Q1"),
        (5, "the day does not lie in 2027Q1"),
        (6, "none of lots, machines and accelerators is stated"),
        (7, "it must be at least 0"),
        (8, "a lot is 1 machine with 1 accelerator"),
        (10, "it is proposed already in plan.csv, row 9"),
        (11, "found 'many'"),
    ):
        assert any(f"row {row}," in line and words in line for line in said), (row, said)
    assert len(said) == 9


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "the file is empty"),
        ("offer_id;lots\nyear;1\n", "columns are separated by commas"),
        ("ofer_id,lots,quarter\nyear,1,2027Q1\n", "did you mean offer_id?"),
        ("lots,quarter\n1,2027Q1\n", "the column is missing"),
        ("offer_id,machins,quarter\nyear,1,2027Q1\n", "did you mean machines"),
        ("offer_id,quantity,quarter\nyear,1,2027Q1\n", "none of lots, machines and accelerators is stated"),
        ('offer_id,lots,quarter\nyear,"1,5",2027Q1\n', "Write a decimal point"),
        ("offer_id,lots,starts\nyear,1,01/02/2027\n", "Write dates as 2027-01-31"),
        ("offer_id,lots,quarter\nyear,1e30,2027Q1\n", "must be"),
        ("offer_id,lots,quarter\nye\u200bar,1,2027Q1\n", "a character that nobody sees"),
        ("offer_id,lots,quarter\nyear,1,2027Q1,9\n", "the header has 3 columns"),
    ],
)
def test_a_bad_file_is_one_clear_error(tmp_path: Path, text: str, said: str) -> None:
    assert any(said in line for line in faults(plain(), write(tmp_path, text)))


@pytest.mark.parametrize("scope", [{"region": "eu-1"}, {"accelerator": "B200"}, {"region": "us-1", "accelerator": "B200"}])
def test_a_budget_of_another_place_or_accelerator_is_not_touched(scope: dict[str, Any]) -> None:
    limit = {"limit_id": "cap", "kind": "budget_usd", "amount": 1.0, "measure": "p_and_l", "hard": True, **scope}
    assert check_plan(small(work=demand([[10.0]]), limits=[limit]), proposed(buy(lots=10.0))).in_order


def test_a_file_of_a_million_rows_is_refused_before_it_is_read(tmp_path: Path) -> None:
    long = write(tmp_path, "offer_id,lots,quarter\n" + "year,1,2027Q1\n" * 1_000_000)
    begun = time.thread_time()
    with pytest.raises(BookError, match="at most 20,000 lines"):
        read_proposed([long])
    some = read_proposed([write(tmp_path, "offer_id,lots,quarter\n" + "year,1,2027Q1\n" * 10_000)])
    assert time.thread_time() - begun < 5
    begun = time.thread_time()
    with pytest.raises(BookError, match="proposed already"):
        match_rows(plain(), some.rows, some.faults)
    assert time.thread_time() - begun < 5


def test_columns_nobody_needs_are_passed_over_and_kinds_are_not_mixed(tmp_path: Path) -> None:
    noisy = write(tmp_path, "offer_id,lots,quarter,because,mood\nyear,4,2027Q1,=cmd|'/c calc'!A1,<script>alert(1)</script>\n")
    assert check_plan(plain(), read_proposed([noisy]).rows).broken.empty
    other = write(tmp_path, "task_id,nodes,start\na,n,2027-01-01\n", "placement.csv")
    with pytest.raises(BookError, match="Check one kind of plan at a time"):
        read_proposed([noisy, other])
    with pytest.raises(BookError, match="cannot be read"):
        read_proposed([tmp_path / "nowhere.csv"])


def test_names_of_a_book_that_look_like_formulas_stay_names(tmp_path: Path) -> None:
    found = small(YEAR | {"offer_id": "=1+1"})
    file = write_table(found.purchases, tmp_path / "purchases.csv")
    assert "'=1+1" in file.read_text(encoding="utf-8")
    rows = read_proposed([file]).rows
    assert rows["offer_id"].iloc[0] == "=1+1"
    checked = check_plan(found, rows)
    assert (checked.costs["difference_usd"] == 0.0).all()
    assert checked.rows["offer_id"].tolist() == ["=1+1"]
