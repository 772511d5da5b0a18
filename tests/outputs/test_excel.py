"""The finance workbook: a spreadsheet program calculates what the library says, before and after a change; text is inert."""

from __future__ import annotations

import dataclasses
import datetime as dt
import html
import json
import re
import subprocess
import zipfile
from functools import cache
from pathlib import Path

import pandas as pd
import pytest

from capplan.answers.finished_plan import Plan
from capplan.answers.plan import quarterly_plan
from capplan.answers.sums import CASH_COLUMNS, obligations, quarters_of, spend, usd_rates
from capplan.book.book import load_book
from capplan.book.places import shipped
from capplan.book.scenario import LedgerAssumptions
from capplan.errors import CapplanError
from capplan.outputs.export.accounting import lease_flags, postings, roll_forward
from capplan.outputs.export.budget import KEYS, budget_table, layouts, write_budget
from capplan.outputs.export.files import write_table
from capplan.outputs.page.html import MemoPart, TableBlock, render_page
from capplan.outputs.run.trace import trace_figure
from capplan.outputs.views import decision_tables, plan_tables, unit_tables
from capplan.outputs.views.bridges import LastPlan, budget_bridge, cost_bridge, plan_bridge
from capplan.outputs.views.memo import memo_blocks
from capplan.outputs.views.scenario_columns import scenario_columns
from capplan.outputs.views.traced import figures_of_page_one, words_of
from capplan.outputs.workbook.workbook import priced_plan, revalue_plan, write_workbook
from capplan.questions.ledger import LedgerTables, build_ledger
from capplan.questions.ledger.teams import expected_work
from tests.cases.closed_forms import gap_of
from tests.cases.office import office, recalculated
from tests.conftest import SOURCES, some

CENT = 0.005
LINK, SUM = '=HYPERLINK("x")', "@SUM(1)"
WORKLOADS = (
    "workload,stage,unit,host,interruptible,deferrable,shortfall_usd_per_unit,team,cost_center\n"
    f'"=HYPERLINK(""x"")",serving,requests,self,false,false,2,"=1+1",CC-1\n{SUM},tuning,accelerator_hours,self,true,true,20,*,>5\n'
)
SPEEDS = (
    'workload,accelerator,work_per_accelerator_hour,basis,as_of,source_id\n"=HYPERLINK(""x"")",H100,10,measured,2026-11-01,s1\n'
    f"{SUM},H100,1,measured,2026-11-01,s1\n"
)
STATED = "scenario,probability,workload,region,quarter,quantity\n" + "".join(
    f"{name},{p},{work},us,2027Q{q},{size * scale * (1 + 0.2 * q)}\n"
    for name, p, scale in (("low", 0.5, 1.0), ("high", 0.5, 1.7))
    for work, size in (('"=HYPERLINK(""x"")"', 500_000.0), (SUM, 40_000.0))
    for q in (1, 2, 3, 4)
)
SKUS = "sku,provider,accelerator,accelerator_count,power_kw,source_id\ntest.8x,aws,H100,8,10,s1\nown.8x,own,H100,8,10,s1\n"
OFFERS = (
    "offer_id,sku,region,geography,term,term_months,usd_per_hour,upfront_share,capex_usd,maximum_lots,lead_time_days_p50,discounts,guarantees_capacity,as_of,source_id\n"
    "od,test.8x,us-1,us,on_demand,,32,,,,0,none,false,2026-12-01,s1\n"
    "spot,test.8x,us-1,us,spot,,14,,,,0,none,false,2026-12-01,s1\n"
    "one,test.8x,us-1,us,reserved_1y,,20,0.25,,6,30,units,true,2026-12-01,s1\n"
    '"=1+2",own.8x,hall,us,owned,48,0,,300000,1,90,units,true,2026-12-01,s1\n'
)
CONTRACTS = (
    "commitment_id,sku,region,term,machines,usd_per_hour,start,end,notice_date,exit_cost_share,upfront_paid_usd,team,cost_center\n"
    "c1,test.8x,us-1,reserved_1y,4,20,2026-04-01,2027-03-31,2027-02-01,0.5,100800,*,>5\n"
    "c2,test.8x,us-1,reserved_1y,1,21,2026-10-16,2027-10-15,,1,0,shared,shared\n"
)
SITES = (
    "site,geography,available_kw,committed_kw,usd_per_kw_month,pue,usd_per_kwh,escalator_share_per_year,end,source_id\n"
    "hall,us,80,40,150,1.3,0.09,0.03,2028-06-30,s1\n"
)
ASSETS = (
    "asset_id,sku,site,machines,in_service,capex_usd,residual_share,support_usd_per_year,team,cost_center\n"
    "old,own.8x,hall,1,2025-06-10,250000,0.1,9000,*,>5\n"
)
AGREEMENTS = (
    "agreement_id,provider,start,end,committed_usd,discount_share,drawn_usd,rolls_over\n"
    "edp,aws,2026-07-01,2027-06-30,2500000,0.05,700000,true\nedp,aws,2027-07-01,2028-06-30,3000000,0.05,0,false\n"
)
OTHER = (
    "cost_id,month,kind,usd,amount,currency,team,cost_center,account\nstaff,2026-12-01,people,30000,,,=1+1,CC-1,5100\n"
    "disks,2026-12-01,storage,8000,,,*,>5,6310\nwages,2026-12-01,people,,21000,EUR,=1+1,CC-1,5100\n"
)
FX = "currency,date,usd\nEUR,2026-01-01,1.10\nEUR,2027-02-01,1.06\nEUR,2027-09-01,1.15\n"
LIMITS = "limit_id,kind,amount,quarter,provider,measure,hard,currency\nbudget,budget_usd,2500000,,,p_and_l,false,EUR\n"
BOOK = (
    "name: A =small book\nas_of: 2026-12-01\nfirst_quarter: 2027Q1\nhorizon_quarters: 4\ncurrency: {currency}\nprice_factor:"
    " 1.1\nproviders: [aws, own]\nfiscal_year_first_month: 2\ngap_share: 0.01\nexcluded_offers: [own-8x-h100, own-8x-b200]\n"
)


def small_book(folder: Path, currency: str) -> None:
    """Write a book of a few contracts, sites and offers."""
    tables = {
        "workloads": WORKLOADS,
        "speeds": SPEEDS,
        "demand_scenarios": STATED,
        "skus": SKUS,
        "offers": OFFERS,
        "commitments": CONTRACTS,
        "sites": SITES,
        "assets": ASSETS,
        "spend_agreements": AGREEMENTS,
        "other_costs": OTHER,
        "fx": FX,
        "limits": LIMITS,
        "sources": SOURCES,
    }
    for name, text in tables.items():
        (folder / f"{name}.csv").write_text(text)
    (folder / "book.yaml").write_text(BOOK.format(currency=currency))


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> dict[str, tuple[Plan, object, Path, Path]]:
    """Plans of a book in dollars and in euros, each with its workbook and budget file."""
    found = {}
    for currency in ("USD", "EUR"):
        folder = tmp_path_factory.mktemp(currency)
        small_book(folder, currency)
        book = load_book(folder)
        plan = quarterly_plan(book)
        found[currency] = (plan, book, write_workbook(plan, book, folder / "plan.xlsx"), write_budget(plan, folder / "budget.csv"))
    return found


@pytest.fixture(scope="module")
def recalculate(tmp_path_factory):
    """Return what turns a workbook into the values LibreOffice calculates for it, stored results taken out."""
    return lambda path: recalculated(path, tmp_path_factory.mktemp("office"))


@cache
def opened(path: Path, **how):
    """Open a finished workbook once; for reading only."""
    import openpyxl

    return openpyxl.load_workbook(path, **how)


def formulas(path: Path):
    """List formulas of a workbook with the values written into it."""
    shown = opened(path, data_only=True)
    for sheet in opened(path):
        for row in sheet.iter_rows():
            for cell in row:
                if cell.data_type == "f":
                    yield sheet.title, cell.coordinate, cell.value, shown[sheet.title][cell.coordinate].value


def find(sheet, text: str, column: int = 1) -> int:
    """Return the row whose cell in a column holds a text."""
    return next(row for row in range(1, sheet.max_row + 1) if sheet.cell(row, column).value == text)


def totals(values) -> dict[str, float]:
    """Return the totals of the views, and the present value, of a calculated workbook."""
    found = {}
    for view, name in (("cash", "Cash"), ("billed", "Billed"), ("p_and_l", "P&L")):
        sheet = values[name]
        found[view] = sheet.cell(find(sheet, "Total"), sheet.max_column).value
    summary = values["Summary"]
    found["economic"] = summary.cell(find(summary, "Cash from 2026-12-01 on, present value"), 3).value
    return found


def changed(path: Path, target: Path, cells: dict[str, float]) -> Path:
    """Save a copy of a workbook with other values in named cells."""
    import openpyxl

    book = openpyxl.load_workbook(path)
    for name, value in cells.items():
        sheet, cell = next(iter(book.defined_names[name].destinations))
        book[sheet][cell.replace("$", "")] = value
    book.save(target)
    return target


@pytest.mark.office
@pytest.mark.parametrize("currency", ["USD", "EUR"])
def test_every_formula_has_the_librarys_number(made, recalculate, currency):
    plan, _, path, _ = made[currency]
    values = recalculate(path)
    count = 0
    for sheet, cell, formula, written in formulas(path):
        found = values[sheet][cell].value
        assert not (isinstance(found, str) and found.startswith("#")), (sheet, cell, formula, found)
        if isinstance(written, (bool, str)):
            assert found == written, (sheet, cell, formula)
        else:
            assert found == pytest.approx(written, abs=CENT), (sheet, cell, formula)
        count += 1
    assert count > 1000
    for view, amount in totals(values).items():
        assert amount == pytest.approx(plan.ledger.total(view), abs=CENT), view


@pytest.mark.office
def test_checks_hold_and_summary_says_so(made, recalculate):
    values = recalculate(made["EUR"][2])
    checks = values["Checks"]
    first = find(checks, "Check") + 1
    held = [checks.cell(row, 2).value for row in range(first, checks.max_row + 1)]
    assert len(held) >= 15
    assert all(value is True for value in held)
    assert values["Summary"].cell(find(values["Summary"], "Checks"), 2).value == "all checks pass"


@pytest.mark.office
def test_a_changed_assumption_gives_what_revaluation_gives(made, recalculate, tmp_path):
    plan, book, path, _ = made["EUR"]
    cells = {
        "price_factor": 0.8,
        "discount_rate": 0.13,
        "upkeep_share": 0.08,
        "price_contract_c1": 17.5,
        "price_power_hall": 0.12,
        "price_offer_one": 23.0,
        "price_machine_1_2": 350_000.0,
    }
    cells |= {"price_on_demand_aws_H100": 40.0, "usd_rate_2027_05": 1.3}
    months = {pd.Timestamp("2027-05-01"): 1.3}
    prices = {"contract c1": 17.5, "power hall": 0.12, "offer one": 23.0, "machine =1+2": 350_000.0, "on_demand aws H100": 40.0}
    now = revalue_plan(
        plan, book, price_factor=0.8, discount_rate_per_year=0.13, upkeep_share_per_year=0.08, prices=prices, exchange_rates=months
    )
    values = recalculate(changed(path, tmp_path / "plan.xlsx", cells))
    for view, amount in totals(values).items():
        assert amount == pytest.approx(now.total(view), abs=CENT), view
        assert abs(amount - plan.ledger.total(view)) > 1000, view
    sheet, row = values["Purchases"], find(values["Purchases"], "Agreement") + 1
    for place, short in enumerate(now.agreements["shortfall_usd"]):
        assert sheet.cell(row + place, 12).value == pytest.approx(short, abs=CENT)
    checks = values["Checks"]
    assert all(checks.cell(row, 2).value is True for row in range(find(checks, "Check") + 1, checks.max_row + 1))


@pytest.mark.office
def test_lower_prices_can_open_a_shortfall(made, recalculate, tmp_path):
    plan, book, path, _ = made["USD"]
    now = revalue_plan(plan, book, price_factor=0.3)
    values = recalculate(changed(path, tmp_path / "plan.xlsx", {"price_factor": 0.3}))
    assert now.agreements["shortfall_usd"].sum() > plan.ledger.agreements["shortfall_usd"].sum() + 1000
    for view, amount in totals(values).items():
        assert amount == pytest.approx(now.total(view), abs=CENT), view


def test_revaluation_without_a_change_is_the_ledger(made):
    for plan, book, _, _ in made.values():
        now = revalue_plan(plan, book)
        for view in ("cash", "billed", "p_and_l", "economic"):
            assert now.total(view) == pytest.approx(plan.ledger.total(view), abs=1e-6)
        entries = plan.ledger.entries[plan.ledger.entries["view"] == "p_and_l"]
        lines = now.lines[now.lines["view"] == "p_and_l"]
        keys = ["month", "component", "team"]
        difference = lines.groupby(keys)["amount"].sum().sub(entries.groupby(keys)["amount"].sum(), fill_value=0.0)
        assert difference.abs().max() < 1e-6


def booked(plan: Plan, book, purchases: pd.DataFrame, dispatch: pd.DataFrame, **changes):
    """Book purchases and use in a ledger of their own."""
    names = ("commitments", "payments", "skus", "workloads", "services", "assets", "sites", "spend_agreements", "other_costs", "fx")
    a = LedgerAssumptions(**{**plan.scenario.section(LedgerAssumptions).model_dump(), **changes})
    work = expected_work(plan.forecast.paths)
    return build_ledger(
        a,
        LedgerTables(
            purchases=purchases, dispatch=dispatch, capacity=plan.purchases.capacity, work=work, **{name: book.get(name) for name in names}
        ),
    )


def test_revaluation_at_another_rate_is_a_ledger_booked_at_it(made):
    plan, book, _, _ = made["EUR"]
    ledger = booked(plan, book, plan.purchases.purchases, plan.purchases.dispatch, discount_rate_per_year=0.2)
    assert revalue_plan(plan, book, discount_rate_per_year=0.2).total("economic") == pytest.approx(ledger.total("economic"), abs=1e-6)


def test_revaluation_at_another_price_factor_is_a_ledger_of_dearer_purchases(made):
    """Contracts and use scale with the factor; of machines that are bought the price and its upkeep do, power and space do not."""
    plan, book, _, _ = made["EUR"]
    bought, used = plan.purchases.purchases.copy(), plan.purchases.dispatch.copy()
    assert set(bought["term"]) >= {"owned", "reserved_1y"}
    ratio = 1.4 / plan.scenario.price_factor
    machine_hours = bought["machines"] * bought["hours"]
    upkeep = bought["upfront_usd"] / bought["machines"] * plan.scenario.upkeep_share_per_year / 8760 * machine_hours
    dearer = bought["usd"] * ratio
    owned = bought["term"] == "owned"
    bought["usd"] = dearer.where(~owned, bought["usd"] + (ratio - 1) * (bought["upfront_usd"] + upkeep))
    bought["upfront_usd"] *= ratio
    used["expected_usd"] *= ratio
    ledger = booked(plan, book, bought, used)
    now = revalue_plan(plan, book, price_factor=1.4)
    for view in ("cash", "billed", "p_and_l", "economic"):
        assert now.total(view) == pytest.approx(ledger.total(view), abs=1e-6), view
    assert now.agreements["shortfall_usd"].to_numpy() == pytest.approx(ledger.agreements["shortfall_usd"].to_numpy(), abs=1e-6)


def test_a_price_moves_only_what_is_paid_at_it(made):
    plan, book, _, _ = made["USD"]
    base, now = revalue_plan(plan, book), revalue_plan(plan, book, prices={"contract c1": 40.0})
    moved = (now.lines["usd"] - base.lines["usd"]).abs() > 1e-9
    assert set(now.lines.loc[moved, "contract_id"]) <= {"c1", "edp"}
    life = now.lines[(now.lines["contract_id"] == "c1") & (now.lines["view"] == "p_and_l")]["usd"].sum()
    assert life == pytest.approx(4 * 40.0 * 365 * 24)


def test_unknown_prices_and_months_are_refused(made):
    plan, book, _, _ = made["EUR"]
    with pytest.raises(CapplanError, match=r"no price 'contract c9'; did you mean contract c2 or contract c1"):
        revalue_plan(plan, book, prices={"contract c9": 1.0})
    with pytest.raises(CapplanError, match="first day of a month"):
        revalue_plan(plan, book, exchange_rates={pd.Timestamp("2027-05-02"): 1.1})
    with pytest.raises(CapplanError, match="is no view of a ledger"):
        revalue_plan(plan, book).total("csh")


def test_budget_file_adds_up_to_the_ledger(made):
    for plan, _, _, path in made.values():
        table = pd.read_csv(path, dtype={"account": str})
        assert list(table.columns) == [*KEYS, "amount", "currency"]
        entries = plan.ledger.entries[plan.ledger.entries["view"] == "p_and_l"]
        entries = entries[entries["quarter"].isin(quarters_of(plan))]
        assert table["amount"].sum() == pytest.approx(entries["amount"].sum(), abs=CENT)
        assert (table["month"].min(), table["month"].max()) == ("2027-01", "2027-12")
        assert set(table["fiscal_year"]) == {"FY2027", "FY2028"}
        by_account = entries.groupby("account")["amount"].sum()
        assert table.groupby("account")["amount"].sum().to_numpy() == pytest.approx(by_account.to_numpy(), abs=CENT)
        assert set(table["currency"]) == {plan.scenario.currency}
        assert not table["team"].str.startswith(("=", "+", "-", "@")).any()


@pytest.mark.office
def test_budget_file_is_the_profit_and_loss_sheet(made, recalculate):
    _, _, path, budget = made["USD"]
    sheet, table = recalculate(path)["P&L"], pd.read_csv(budget)
    row = find(sheet, "Total")
    head = next(place for place in range(1, row) if sheet.cell(place, 1).value == "Component")
    for column in range(4, sheet.max_column - 1):
        month = sheet.cell(head, column).value
        assert isinstance(month, dt.datetime)
        if month < dt.datetime(2027, 1, 1):
            continue
        assert sheet.cell(row, column).value == pytest.approx(table.loc[table["month"] == f"{month:%Y-%m}", "amount"].sum(), abs=CENT)


def test_text_of_a_book_is_inert(made):
    _, _, path, _ = made["USD"]
    texts = []
    for sheet in opened(path):
        for row in sheet.iter_rows():
            for cell in row:
                if isinstance(cell.value, str):
                    texts.append((cell.value, cell.data_type))
                assert cell.hyperlink is None
    for text in (LINK, SUM, "=1+2", "*"):
        assert {kind for value, kind in texts if value == text} == {"s"}, text
    assert not any("HYPERLINK" in value for value, kind in texts if kind == "f")
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        assert not [name for name in names if "external" in name.lower()]
        for name in names:
            if name.startswith("xl/worksheets/") and name.endswith(".xml"):
                assert b"<hyperlink" not in archive.read(name)


def test_the_workbook_is_ready_for_finance(made):
    book = opened(made["EUR"][2])
    assert book.sheetnames == [
        "Summary",
        "Memo",
        "Decisions",
        "Bridges",
        "Purchases",
        "Cash",
        "Billed",
        "P&L",
        "Demand",
        "Unit economics",
        "Assumptions",
        "Sources",
        "Checks",
        "Lines",
    ]
    assert {"price_factor", "discount_rate", "upkeep_share", "as_of", "all_checks", "price_contract_c1", "usd_rate_2027_05"} <= set(
        book.defined_names
    )
    for sheet in book:
        assert sheet.page_setup.orientation == "landscape"
        assert sheet.sheet_properties.pageSetUpPr.fitToPage
        if sheet.title not in ("Summary", "Memo", "Bridges", "Unit economics", "Sources"):
            assert sheet.freeze_panes, sheet.title
            assert sheet.print_title_rows, sheet.title
    assert sum(len(sheet._charts) for sheet in book) >= 4
    notes = " ".join(str(cell.value) for row in book["Summary"].iter_rows() for cell in row if cell.value)
    assert "do not decide anew" in notes


def test_missing_work_is_no_money(made):
    plan, book, _, _ = made["USD"]
    assert (plan.purchases.costs["component"] == "shortfall").any()
    assert "shortfall" not in set(priced_plan(plan, book).lines["component"])


def test_equal_plans_are_equal_files(made, tmp_path):
    plan, book, path, _ = made["USD"]
    again = write_workbook(plan, book, tmp_path / "again.xlsx")
    with zipfile.ZipFile(path) as one, zipfile.ZipFile(again) as other:
        assert one.namelist() == other.namelist()
        assert all(one.read(name) == other.read(name) for name in one.namelist())


def test_a_plan_that_buys_nothing_has_a_workbook_too(make_book, tmp_path):
    """Without contracts, limits, sites and agreements there are sheets without rows, and every check holds."""
    offers = "\n".join(line for line in OFFERS.splitlines() if line.startswith(("offer_id", "od,"))) + "\n"
    tables = {"workloads": WORKLOADS, "speeds": SPEEDS, "demand_scenarios": STATED, "skus": SKUS, "offers": offers, "sources": SOURCES}
    text = BOOK.format(currency="USD").replace("[aws, own]", "[aws]")
    book = load_book(make_book(**tables, book=text + "on_demand_accelerators: 100000\n"))
    plan = quarterly_plan(book, book.scenario_with(excluded_offers=tuple(set(book.get("offers")["offer_id"]) - {"od"})))
    assert plan.purchases.purchases.empty
    path = write_workbook(plan, book, tmp_path / "plan.xlsx")
    written = {(sheet, cell): value for sheet, cell, _, value in formulas(path)}
    assert all(value is True for (sheet, _), value in written.items() if sheet == "Checks")


@pytest.mark.parametrize("currency", ["USD", "EUR"])
def test_every_sum_shown_is_the_ledgers(made, currency):
    """No check here shares a filter with what it checks: the ledger's entries and payments are summed anew."""
    plan, _, _, _ = made[currency]
    entries, quarters = plan.ledger.entries, quarters_of(plan)
    inside = entries[(entries["view"] == "p_and_l") & entries["quarter"].isin(quarters)]
    compute = inside[(inside["status"] != "stated") & (inside["component"] != "tokens")]
    assert unit_tables.unit_costs(plan)["amount"].sum() == pytest.approx(compute["amount"].sum(), abs=CENT)
    by_quarter = unit_tables.coverage(plan).set_index("quarter")["compute_amount"].to_dict()
    assert by_quarter == pytest.approx(compute.groupby("quarter")["amount"].sum().to_dict(), abs=CENT)
    assert plan_tables.teams(plan)["amount"].sum() == pytest.approx(inside["amount"].sum(), abs=CENT)
    years = plan_tables.fiscal_years(plan).set_index("fiscal_year")
    assert years.loc["total", "p_and_l_amount"] == pytest.approx(inside["amount"].sum(), abs=CENT)
    assert years.drop(index="total")["p_and_l_amount"].sum() == pytest.approx(inside["amount"].sum(), abs=CENT)
    assert years.drop(index="total")["budget_amount"].sum() == pytest.approx(spend(plan)["budget"].sum(), abs=CENT)
    assert years.loc["total", "over_amount"] == pytest.approx(spend(plan)["over"].sum(), abs=CENT), "one measure: expected less budget"
    for year, usd in inside.groupby("fiscal_year")["usd"].sum().items():
        share = plan.ledger.band.set_index(["period", "quantile"]).loc[(year, 0.9), "usd"] / usd
        assert years.loc[year, "p90_amount"] == pytest.approx(share * years.loc[year, "p_and_l_amount"]), "at the rates of the P&L"
    owed = plan.ledger.payments[plan.ledger.payments["date"] >= pd.Timestamp(plan.scenario.as_of)]
    rate = usd_rates(plan)
    month = owed["date"].dt.to_period("M").dt.to_timestamp()
    amount = (owed["usd"] / month.map(rate)).sum()
    for by in ("quarter", "fiscal_year"):
        assert plan_tables.cash(plan, by)["total_amount"].sum() == pytest.approx(amount, abs=CENT), by
    for bridge in (budget_bridge(plan), cost_bridge(plan), plan_bridge(plan, spend(plan).assign(expected=lambda t: t["expected"] * 0.9))):
        assert len(bridge) > 3
        assert gap_of(bridge) < CENT
    cash = entries[(entries["view"] == "cash") & entries["quarter"].isin(quarters)]["amount"].sum()
    assert cost_bridge(plan)["amount"].iloc[-1] == pytest.approx(cash, abs=CENT)


def test_a_raised_plan_price_raises_the_price_of_an_hour(made):
    plan, _, _, _ = made["USD"]
    before = unit_tables.coverage(plan).set_index("quarter")["amount_per_accelerator_hour"]
    dearer = plan.ledger.work_costs.copy()
    dearer.loc[dearer["basis"].str.startswith("plan "), "amount"] *= 1.25
    after = unit_tables.coverage(dataclasses.replace(plan, ledger=dataclasses.replace(plan.ledger, work_costs=dearer))).set_index("quarter")
    bought = plan.purchases.purchases
    assert (bought["gives"] == "price").any(), "the book buys a plan that only discounts"
    assert (after["amount_per_accelerator_hour"] > before + 1e-9).any()


def test_no_cash_before_a_signature_and_no_signature_before_it_is_asked_for(made):
    for plan, _, _, _ in made.values():
        table = decision_tables.decisions(plan)
        assert (table["sign_by"] - table["submit_by"]).dt.days.min() >= 0
        assert (table["submit_by"] >= pd.Timestamp(plan.scenario.as_of)).all()
        bought = plan.purchases.purchases
        for row in bought.to_dict("records"):
            paid = plan.ledger.payments[plan.ledger.payments["contract_id"] == f"{row['offer_id']} {row['quarter']}"]
            assert paid["date"].min() >= row["signed_on"]
            assert row["signed_on"] >= pd.Timestamp(plan.scenario.as_of) + pd.Timedelta(days=plan.scenario.approval_days)


@pytest.mark.parametrize("currency", ["USD", "EUR"])
def test_each_figure_on_page_one_is_its_cell(made, currency):
    plan, book, path, _ = made[currency]
    figures = frozenset(words_of(figures_of_page_one(plan, book))["figure"])
    parts = [
        MemoPart(
            f"memo_{part.key}",
            part.title,
            part.sentences,
            TableBlock(part.table, currency=currency, linked=figures) if len(part.table) else None,
            part.half,
        )
        for part in memo_blocks(plan, book, None)
    ]
    page = render_page("t", "", plan.headline, [], [], parts)
    found = re.findall(r'<td id="(memo_\w+)"[^>]*>(.*?)</td>', page, re.S)
    shown = {key: re.sub(r"<[^>]+>", "", text).strip() for key, text in found}
    linked = dict(re.findall(r'<td id="(memo_\w+)"[^>]*>\s*<a class="figure" href="#(\w+)">', page))
    assert all(bool(re.fullmatch(r"-?[\d,.]+", shown[key])) for key in linked), "numbers are links"
    assert {f"from_{key}" for key in linked if key in figures} <= set(linked.values())
    assert any(target.startswith("from_") for target in linked.values())
    cells = opened(path, data_only=True)
    assert len(shown) > 40
    for key, text in shown.items():
        sheet, where = next(iter(cells.defined_names[key].destinations))
        value = cells[sheet][where.replace("$", "")].value
        wanted = "" if value is None else f"{value:%Y-%m-%d}" if isinstance(value, dt.datetime) else value
        if isinstance(wanted, (int, float)):
            assert text == f"{0.0 if abs(wanted) < 0.5 else wanted:,.0f}", key
        else:
            assert html.unescape(text) == str(wanted), key
    assert ("€" if currency == "EUR" else "$") in plan.headline
    assert ("$" in plan.headline) == (currency == "USD")


@pytest.mark.office
def test_the_workbook_prints_on_few_pages(made, tmp_path):
    path = made["EUR"][2]
    subprocess.run(
        [
            office(),
            f"-env:UserInstallation={(tmp_path / 'profile').as_uri()}",
            "--headless",
            "--convert-to",
            "pdf",
            "--outdir",
            str(tmp_path),
            str(path),
        ],
        check=True,
        capture_output=True,
        timeout=300,
    )
    pages = len(re.findall(rb"/Type\s*/Page\b", (tmp_path / path.with_suffix(".pdf").name).read_bytes()))
    assert 8 <= pages <= 25


@pytest.mark.parametrize("currency", ["USD", "EUR"])
def test_every_layout_holds_the_same_budget(made, currency):
    plan, _, _, _ = made[currency]
    table = budget_table(plan)
    whole = table["amount"].sum()
    found = layouts(table)
    assert set(found) == {"anaplan", "adaptive", "oracle_epm"}
    assert found["anaplan"]["Amount"].sum() == pytest.approx(whole, abs=CENT)
    for name in ("adaptive", "oracle_epm"):
        amounts = found[name].select_dtypes("number")
        assert amounts.shape[1] == 12
        assert amounts.to_numpy().sum() == pytest.approx(whole, abs=CENT), name
    assert list(found["oracle_epm"].columns[[0, -2, -1]]) == ["Account", "Point-of-View", "Data Load Cube Name"]
    assert found["oracle_epm"]["Point-of-View"].str.count(",").eq(4).all()
    assert found["oracle_epm"]["Point-of-View"].str.contains(",FY28,").any()
    march = table.loc[table["month"] == "2027-03", "amount"].sum()
    assert found["adaptive"]["Mar 2027"].sum() == pytest.approx(march, abs=CENT)
    # an account of which a month has nothing has nothing there
    holes = table[(table["account"] != table["account"].iloc[0]) | (table["month"] != "2027-03")]
    assert len(holes) < len(table)
    for name in ("adaptive", "oracle_epm"):
        assert layouts(holes)[name].select_dtypes("number").to_numpy().sum() == pytest.approx(holes["amount"].sum(), abs=CENT), name


def test_an_account_map_says_the_accounts_and_must_be_whole(made):
    plan, _, _, _ = made["USD"]
    inside = plan.ledger.entries[(plan.ledger.entries["view"] == "p_and_l") & plan.ledger.entries["quarter"].isin(quarters_of(plan))]
    components = sorted(set(inside.loc[inside["status"] != "stated", "component"]))
    whole = pd.DataFrame(
        {"component": components, "account": [str(6000 + place) for place in range(len(components))], "account_name": components}
    )
    table = budget_table(plan, whole)
    assert set(whole["account"]) <= set(table["account"])
    assert {"5100", "6310"} <= set(table["account"]), "other costs keep the account that they state"
    with pytest.raises(CapplanError, match=rf"account_map.csv has no account for {components[1]}; add a row"):
        budget_table(plan, whole.drop(index=1))


def test_the_accounting_pack_adds_up(made):
    for plan, book, _, _ in made.values():
        table = roll_forward(plan)
        moves = table["opening_amount"] + table["added_amount"] - table["expensed_amount"] - table["disposed_amount"]
        assert (moves - table["closing_amount"]).abs().max() < CENT
        for _, part in table.groupby("kind"):
            assert part["closing_amount"].iloc[-1] == pytest.approx(0.0, abs=CENT), "at the end of all lives nothing is left"
            assert part["opening_amount"].iloc[1:].to_numpy() == pytest.approx(part["closing_amount"].iloc[:-1].to_numpy(), abs=CENT)
        posted = postings(plan)
        entries = plan.ledger.entries[plan.ledger.entries["quarter"].isin(["2026Q4", *quarters_of(plan)])]
        entries = entries[entries["month"] >= pd.Timestamp("2026-12-01")]
        for view, text in (("cash", "payments"), ("billed", "invoices"), ("p_and_l", "expense of the month")):
            assert posted.loc[posted["text"] == text, "amount"].sum() == pytest.approx(
                entries.loc[entries["view"] == view, "amount"].sum(), abs=CENT
            )
        flags = lease_flags(plan, book).set_index("contract_id")
        assert flags.loc["c1", "identified_asset"] == "to be confirmed"
        assert flags["confirmed_by"].eq("").all()
        owned = flags[flags["term"] == "owned"]
        assert len(owned)
        assert owned["proposal"].str.startswith("no lease").all()


@pytest.mark.parametrize("currency", ["USD", "EUR"])
def test_every_figure_can_be_traced_to_lines_that_add_up_to_it(made, tmp_path, currency):
    plan, book, _, _ = made[currency]
    behind: dict[str, pd.DataFrame] = {}
    path = write_workbook(plan, book, tmp_path / "plan.xlsx", behind)
    (tmp_path / "tables").mkdir()
    for name, frame in (behind | {"alternatives": plan.purchases.alternatives, "verdicts": plan.purchases.verdicts}).items():
        write_table(frame, tmp_path / "tables" / f"{name}.csv")
    (tmp_path / "run.json").write_text(json.dumps({"parameters": plan.scenario.model_dump(mode="json")}))
    cells = opened(path, data_only=True)
    figures = behind["figures"]["figure"]
    pages = [name for name in figures if name.startswith("memo_")]
    kinds = ("memo_ask", "memo_years", "memo_waiting", "memo_agreements", "memo_renewals")
    assert {name.rsplit("_", 2)[0] for name in pages} == set(kinds), "capex, waiting and agreements can be followed as well"
    for name in [*pages, *figures[~figures.isin(pages)].iloc[:: max(1, len(figures) // 25)]]:
        if name.startswith("memo_"):
            sheet, where = next(iter(cells.defined_names[name].destinations))
            value = cells[sheet][where.replace("$", "")].value
        else:
            sheet, where = name.split("!")
            value = cells[sheet][where].value
        found = trace_figure(tmp_path, f"plan.xlsx!{name}" if "!" in name else name)
        if name.startswith(("memo_ask", "memo_renewals")) and currency == "EUR":
            continue  # a contract's value stands at the rate of one day, its invoices at those of their months
        assert found.amount == pytest.approx(value, abs=0.02), name
    one = trace_figure(tmp_path, "memo_ask_0_3" if pages else pages[0])
    assert len(one.lines)
    assert set(one.prices["table"]) == {"offers"}
    assert one.prices["source_id"].ne("").all()
    with pytest.raises(CapplanError, match="nothing is recorded behind 'P&L!ZZ9'"):
        trace_figure(tmp_path, "P&L!ZZ9")
    with pytest.raises(CapplanError, match="is no report that can be traced"):
        trace_figure(tmp_path / "tables", "P&L!D12")


@pytest.mark.parametrize("currency", ["USD", "EUR"])
def test_the_workbook_has_the_bridge_from_the_last_plan_and_the_scenarios(made, tmp_path, currency):
    import openpyxl

    plan, book, _, _ = made[currency]
    last = spend(plan)[["quarter", "expected"]].assign(expected=lambda t: t["expected"] * 0.75)
    cells = openpyxl.load_workbook(write_workbook(plan, book, tmp_path / "plan.xlsx", None, LastPlan(last)), data_only=True)
    sheet, bridge = cells["Bridges"], plan_bridge(plan, last)
    first = find(sheet, "P&L of the last plan")
    for step, row in enumerate(bridge.to_dict("records")):
        assert sheet.cell(first + step, 1).value == row["step"]
        assert sheet.cell(first + step, 2).value == pytest.approx(row["amount"], abs=CENT)
    assert any("The last plan said" in str(cell.value) for row in cells["Memo"].iter_rows() for cell in row)
    columns, summary = scenario_columns(plan), cells["Summary"]
    at = find(summary, "P&L of the planned quarters, expected")
    alternatives = plan.purchases.alternatives.set_index("name")
    moved = alternatives.loc["sign_nothing_yet", "spend_usd"] - alternatives.loc["plan", "spend_usd"]
    rate = 1.0 if currency == "USD" else 1.10
    assert columns["base_amount"].iloc[0] == pytest.approx(spend(plan)["expected"].sum(), abs=CENT)
    assert columns["wait_a_quarter_amount"].iloc[0] - columns["base_amount"].iloc[0] == pytest.approx(moved / rate, abs=CENT)
    for step, row in enumerate(columns.itertuples(index=False)):
        for col, value in enumerate(row[1:], 2):
            found = summary.cell(at + step, col).value
            assert (found is None) == (value != value)
            assert found is None or found == pytest.approx(value, abs=CENT)
    assert any("no formula of this file can make" in str(cell.value) for row in summary.iter_rows() for cell in row)


@pytest.mark.parametrize("currency", ["USD", "EUR"])
def test_each_column_shows_its_own_number(made, currency):
    """Every amount is computed anew from the plan's own rows; no two columns of a table are equal, so that none stands for another."""
    plan, _, _, _ = made[currency]
    rate = usd_rates(plan)

    def own(usd: float, when: pd.Timestamp) -> float:
        known = rate[rate.index <= when.to_period("M").to_timestamp()]
        return usd / (known.iloc[-1] if len(known) else rate.iloc[0])

    bought = {(row["offer_id"], row["quarter"]): row for row in plan.purchases.purchases.to_dict("records")}
    table = decision_tables.decisions(plan)
    for row in some(table.to_dict("records")):
        source = bought[row["offer_id"], row["quarter"]]
        assert row["upfront_amount"] == pytest.approx(own(source["upfront_usd"], row["sign_by"]), abs=CENT)
        assert row["value_amount"] == pytest.approx(own(source["usd"], row["sign_by"]), abs=CENT)
        leaving = source["upfront_usd"] * (1 - plan.scenario.residual_share) if row["term"] == "owned" else source["usd"]
        assert row["exit_amount"] == pytest.approx(own(leaving, row["sign_by"]), abs=CENT)
        assert (row["machines"], row["accelerators"]) == (source["machines"], source["accelerators"])
        assert (row["starts"], row["ends"]) == (source["starts"], source["ends"])
    paid, kinds = plan.ledger.payments, {"capex": "capex_amount", "residual": "capex_amount", "tokens": "model_apis_amount"}
    kinds |= dict.fromkeys(("commitment", "purchase", "agreement_shortfall"), "contracts_amount")
    kinds |= dict.fromkeys(("on_demand", "spot", "api", "egress", "agreement_discount", "late_delivery", "use_before_plan"), "usage_amount")
    sums: dict[tuple[str, str], float] = {}
    for row in paid[paid["date"] >= pd.Timestamp(plan.scenario.as_of)].to_dict("records"):
        label = "later" if row["date"] >= pd.Timestamp("2028-01-01") else f"{row['date'].year}Q{row['date'].quarter}"
        kind = "other_amount" if row["status"] == "stated" else kinds.get(row["component"], "other_amount")
        sums[label, kind] = sums.get((label, kind), 0.0) + own(row["usd"], row["date"])
    shown = plan_tables.cash(plan).set_index("quarter")
    for label in shown.index:
        for name in CASH_COLUMNS:
            assert shown.loc[label, name] == pytest.approx(sums.get((label, name), 0.0), abs=0.02), (label, name)
    owed = obligations(plan)
    for frame in (table, shown.reset_index(), spend(plan), plan_tables.fiscal_years(plan), decision_tables.agreements(plan), owed):
        amounts = frame.select_dtypes("number").dropna(axis=1)
        used = [name for name in amounts if amounts[name].abs().sum() > 0]
        same = [(a, b) for place, a in enumerate(used) for b in used[:place] if amounts[a].equals(amounts[b])]
        # a contract is owed in full; of two paths of demand the lower one is the tenth percentile and the median
        assert same in ([], [("exit_amount", "value_amount")], [("p50", "p10")]), same


def test_a_provider_in_the_bill_is_a_provider_of_the_book():
    """Of the example: whatever a provider bills beside machines stands in the book under that provider, so that agreements count it."""
    book = load_book(shipped("data") / "enterprise")
    bill, other = book.get("billing"), book.get("other_costs")
    beside = bill[(bill["provider"] == "aws") & (bill["service"] != "Amazon EC2")]
    last = beside[beside["month"] == beside["month"].max()]
    stated = other[(other["provider"] == "aws") & (other["month"] == last["month"].max())]
    assert len(last) == len(stated) == 4
    assert stated["usd"].sum() == pytest.approx(last["billed_cost"].sum(), rel=0.02)
    billed = set(bill["provider"])
    for name in book.get("spend_agreements")["provider"]:
        assert name in billed


@pytest.mark.parametrize("currency", ["USD", "EUR"])
def test_no_text_of_a_cell_is_cut(made, currency):
    """A text is cut where the cell to its right is filled; letters in bold and figures are a little wider than the column counts."""
    for sheet in opened(made[currency][2]):
        for cell in (cell for row in sheet.iter_rows() for cell in row if isinstance(cell.value, str) and not cell.value.startswith("=")):
            beside = sheet.cell(cell.row, cell.column + 1).value
            if beside in (None, "") or cell.alignment.wrap_text:
                continue
            assert len(cell.value) <= sheet.column_dimensions[cell.column_letter].width, f"{sheet.title}!{cell.coordinate}: {cell.value}"
