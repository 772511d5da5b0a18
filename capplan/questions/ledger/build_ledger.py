"""The ledger: every cost of a plan in cash, billed, P&L and economic terms, by month, team and cost centre."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import pandas as pd

from capplan.book.currencies import converted
from capplan.book.scenario import LedgerAssumptions
from capplan.book.tables.registry import columns_of
from capplan.questions.contracts import owned, signed
from capplan.questions.ledger.accounts import account_labels
from capplan.questions.ledger.bill import before_plan_entries, open_months, sorted_bill
from capplan.questions.ledger.costs import (
    asset_entries,
    contracts_to_book,
    departure_entries,
    late_entries,
    other_entries,
    purchase_entries,
    site_entries,
    token_entries,
    usage_entries,
)
from capplan.questions.ledger.hourly_commitments import burn_down
from capplan.questions.ledger.notes import idle_agreement_notes, ledger_headline, ledger_notes
from capplan.questions.ledger.reconcile import against_budgets, reconcile
from capplan.questions.ledger.request_prices import api_spend
from capplan.questions.ledger.schedules import Entry, as_incurred, entry_frame, framed, payments_by_day, priced_lines
from capplan.questions.ledger.summaries import contract_table, idle_table, obligation_table, residual_table, spend_band
from capplan.questions.ledger.teams import class_bearers, purchase_bearers
from capplan.questions.ledger.unit_prices import plan_prices, purchase_name
from capplan.questions.ledger.work_costs import work_costs
from capplan.records import records
from capplan.units import fiscal_year, quarter_end, quarter_of, quarter_range, quarter_start

#: Columns of the plan's tables that a ledger reads.
PLANNED = {
    "costs": ["path", "probability", "quarter", "component", "usd"],
    "departures": ["contract_id", "provider", "day", "machines", "not_owed_usd", "exit_usd", "firm"],
    "capacity": ["quarter", "provider", "accelerator", "accelerators"],
    "dispatch": "quarter class region source provider accelerator expected_accelerator_hours expected_work expected_usd".split(),
    "purchases": "offer_id provider accelerator region term sku machines quarter end_quarter upfront_usd usd sign_by firm".split(),
    "work": ["workload", "quarter", "quantity"],
}


@dataclass(frozen=True)
class Ledger:
    """All money of a plan.

    Args:
        entries: month, view (cash, billed, p_and_l, economic), component, contract_id, provider, status (signed, firm, indicative,
            expected, stated), team, cost_center, account, usd, quarter, fiscal_year, amount (in the book's currency). Imputed shortfall of
            service is in none of them.
        payments: Cash by the day it is paid (see `schedules.payments_by_day`).
        lines: What is booked by the price it is paid at (see `schedules.priced_lines`).
        prices: What units cost (see `revalue.Priced.prices`), also those of nothing that is booked.
        contracts: contract_id, component, status, cash_usd, billed_usd, p_and_l_usd (whole life), economic_usd, paid_usd (before as_of),
            owed_usd (after it), beyond_horizon_usd, notice_date, exit_cost_usd (today).
        obligations: fiscal_year, status, component, contract_id, usd (cash still to be paid), beyond_horizon: what is owed by contract,
            also after the horizon.
        agreements: Burn-down of agreements to spend (see `plans.burn_down`).
        residuals: contract_id, month, low_usd, expected_usd, high_usd: what owned machines may bring at the end of their life.
        idle: Use and cost of what is paid for in any case (see `summaries.idle_table`).
        pools: Provider, accelerator, and whether capacity is held, of each contract, machine and purchase.
        work_costs: The compute P&L by class of work (see `work_costs.work_costs`).
        band: Quantiles of P&L spend over the paths (see `summaries.spend_band`).
        reconciliation: The ledger against the last full month of the bill (see `reconcile.reconcile`).
        budgets: Spend against budgets (see `reconcile.against_budgets`).
        api: Spend of API-only workloads (see `request_prices.api_spend`).
        headline, notes: One sentence; what was assumed.
    """

    entries: pd.DataFrame
    payments: pd.DataFrame
    lines: pd.DataFrame
    prices: pd.DataFrame
    contracts: pd.DataFrame
    obligations: pd.DataFrame
    agreements: pd.DataFrame
    residuals: pd.DataFrame
    idle: pd.DataFrame
    pools: Mapping[str, tuple[str, str, bool]]
    work_costs: pd.DataFrame
    band: pd.DataFrame
    reconciliation: pd.DataFrame
    budgets: pd.DataFrame
    api: pd.DataFrame
    headline: str
    notes: tuple[str, ...]

    def total(self, view: str, quarters: list[str] | None = None) -> float:
        """Return the sum of a view, over all months or those of some quarters, in the book's currency."""
        rows = self.entries[self.entries["view"] == view]
        return float((rows if quarters is None else rows[rows["quarter"].isin(quarters)])["amount"].sum())


@dataclass(frozen=True)
class LedgerTables:
    """What a ledger is made from; what is missing has no cost.

    Args:
        purchases, departures, dispatch, capacity, costs: What a purchase plan buys and gives back, what runs where, the accelerators that
            are there, and the costs of each path.
        work: workload, quarter, quantity (expected, in the workload's unit): for API tokens, and for the shares of teams.
    """

    commitments: pd.DataFrame | None = None
    payments: pd.DataFrame | None = None
    offer_payments: pd.DataFrame | None = None
    purchases: pd.DataFrame | None = None
    departures: pd.DataFrame | None = None
    dispatch: pd.DataFrame | None = None
    capacity: pd.DataFrame | None = None
    costs: pd.DataFrame | None = None
    skus: pd.DataFrame | None = None
    workloads: pd.DataFrame | None = None
    work: pd.DataFrame | None = None
    services: pd.DataFrame | None = None
    assets: pd.DataFrame | None = None
    sites: pd.DataFrame | None = None
    spend_agreements: pd.DataFrame | None = None
    other_costs: pd.DataFrame | None = None
    billing: pd.DataFrame | None = None
    limits: pd.DataFrame | None = None
    fx: pd.DataFrame | None = None
    account_map: pd.DataFrame | None = None

    def full(self, name: str) -> pd.DataFrame:
        """Return a table of the book with all of its columns and defaults, without rows where there is none."""
        frame = getattr(self, name)
        given = pd.DataFrame() if frame is None else frame.reset_index(drop=True)
        found = {}
        for column in columns_of(name):
            missing = pd.NaT if column.kind == "datetime64[ns]" else None if column.kind == "str" else float("nan")
            if column.name in given:
                series = given[column.name]
            else:
                series = pd.Series(
                    [missing] * len(given), index=given.index, dtype="object" if column.kind in ("str", "bool", "int64") else column.kind
                )
            if column.default is not None:
                series = series.astype(object).where(series.notna(), column.default)
            kind = "object" if column.kind == "str" or (series.isna().any() and column.kind in ("bool", "int64")) else column.kind
            found[column.name] = series.astype(kind)
        return pd.DataFrame(found)

    def planned(self, name: str) -> pd.DataFrame:
        """Return a table of the plan, with the columns it is read by where there is none."""
        frame = getattr(self, name)
        return pd.DataFrame(columns=PLANNED[name]) if frame is None else frame.reset_index(drop=True)


def build_ledger(a: LedgerAssumptions, tables: LedgerTables) -> Ledger:
    r"""Book a plan: what is paid, invoiced and expensed, when, by whom, and what of it is owed already.

    .. math:: \sum_t \text{cash}_t = \sum_t \text{billed}_t = \sum_t \text{P\&L}_t \quad\text{for every contract over its life}

    Args:
        a: Horizon, payment terms, currency, fiscal year, discount rate, useful life and residual value.

    Raises:
        CapplanError: Where contracts contradict their payments, a model has no list price, a currency no rate, or a budget no measure.
    """
    held, own = signed(tables.full("commitments")), owned(tables.full("assets"), a.useful_life_years)
    machines, rooms = tables.full("skus"), tables.full("sites")
    jobs, rates, others = tables.full("workloads"), tables.full("fx"), tables.full("other_costs")
    bill = sorted_bill(tables.full("billing"), held, machines, rooms, others, rates)
    bought, runs = tables.planned("purchases"), tables.planned("dispatch")
    expected = tables.planned("work")
    as_of, quarters = pd.Timestamp(a.as_of), quarter_range(a.first_quarter, a.horizon_quarters)
    months = pd.date_range(as_of.replace(day=1), quarter_end(quarters[-1]), freq="MS", inclusive="left")
    providers = machines.set_index("sku")["provider"]
    classes = class_bearers(jobs, expected)
    spend = api_spend(tables.full("services"), _requests(expected, jobs))

    prices = plan_prices(tables.full("commitments"), rooms, spend, runs, bought, a)
    contracts = contracts_to_book(held, tables.full("payments"), providers, prices, a)
    entries = [e for contract in contracts for e in contract.entries(a.payment_terms_days)]
    entries += purchase_entries(bought, tables.full("offer_payments"), purchase_bearers(bought, runs, classes), machines, rooms, prices, a)
    entries += departure_entries(tables.planned("departures"), held, own, a)
    entries += usage_entries(runs, classes, prices, a) + late_entries(tables.planned("costs"), a) + token_entries(spend, jobs, prices, a)
    entries += asset_entries(own, a) + site_entries(rooms, own, machines, bought, months.union(open_months(bill, a)), prices, a)
    entries += other_entries(others, months, a, rates) + before_plan_entries(bill, a)
    agreements = burn_down(tables.full("spend_agreements"), _charges(entries, as_of), as_of)
    entries += _agreement_entries(entries, agreements, as_of, a)

    booked = framed(entries)
    frame = entry_frame(booked, as_of, a.discount_rate_per_year)
    frame["account"] = account_labels(frame, tables.full("account_map"))
    frame["quarter"] = [quarter_of(month) for month in frame["month"]]
    frame["fiscal_year"] = [fiscal_year(month, a.fiscal_year_first_month) for month in frame["month"]]
    frame["amount"] = converted(frame["usd"], frame["month"], a.currency, rates)
    end, pools = quarter_end(quarters[-1]), held_pools(held, own, bought, machines)
    reconciliation = reconcile(bill, frame, held, providers, as_of)
    return Ledger(
        entries=frame,
        payments=payments_by_day(booked),
        lines=priced_lines(booked),
        prices=prices.table(),
        contracts=contract_table(entries, frame, held, as_of, end),
        obligations=obligation_table(entries, as_of, end, a),
        agreements=agreements,
        residuals=residual_table(entries, own, a),
        idle=idle_table(frame, pools, tables.planned("capacity"), runs, a),
        pools=pools,
        work_costs=work_costs(frame, pools, runs, quarters),
        band=spend_band(frame, tables.planned("costs"), quarters, a.fiscal_year_first_month),
        reconciliation=reconciliation,
        budgets=against_budgets(frame, tables.full("limits"), quarters, a.currency, rates),
        api=spend,
        headline=ledger_headline(frame, quarters, a),
        notes=(*ledger_notes(a, reconciliation, agreements, held, bought, rates), *idle_agreement_notes(frame, agreements)),
    )


def held_pools(held: pd.DataFrame, own: pd.DataFrame, bought: pd.DataFrame, skus: pd.DataFrame) -> dict[str, tuple[str, str, bool]]:
    """Say which accelerators each contract, asset and purchase is for, and whether it holds capacity or only a price."""
    about = skus.set_index("sku")[["provider", "accelerator"]]
    found = {}
    for row in (*records(held), *records(own)):
        if row["sku"] in about.index:
            maker, accelerator = about.loc[row["sku"]]
            found[row["name"]] = str(maker), str(accelerator), bool(row.get("guarantees_capacity", True))
    for row in records(bought):
        found[purchase_name(row)] = (str(row["provider"]), str(row["accelerator"]), row.get("gives") != "price")
    return found


def _requests(work: pd.DataFrame, workloads: pd.DataFrame) -> pd.DataFrame:
    """Spread expected requests of API-only workloads over the months of each quarter, by their days."""
    api = set(workloads.loc[workloads["host"] == "api", "workload"])
    rows = []
    for row in records(work[work["workload"].isin(api)]):
        first, after = quarter_start(row["quarter"]), quarter_end(row["quarter"])
        for month in pd.date_range(first, after, freq="MS", inclusive="left"):
            rows.append((row["workload"], month, row["quantity"] * month.days_in_month / (after - first).days))
    frame = pd.DataFrame(rows, columns=["workload", "month", "quantity"])
    return frame.astype({"month": "datetime64[ns]", "quantity": "float64"}).groupby(["workload", "month"], as_index=False)["quantity"].sum()


def _charges(entries: list[Entry], as_of: pd.Timestamp) -> pd.DataFrame:
    """List billed charges from `as_of` on; an agreement's discount applies to use by the hour, not to contracts."""
    first = as_of.replace(day=1).normalize()
    rows = [
        (e.date.replace(day=1), e.provider, e.usd, e.component in ("on_demand", "spot"))
        for e in entries
        if e.view == "billed" and e.date >= first
    ]
    return pd.DataFrame(rows, columns=["month", "provider", "usd", "discountable"]).astype(
        {"month": "datetime64[ns]", "usd": "float64", "discountable": "bool"}
    )


def _agreement_entries(entries: list[Entry], agreements: pd.DataFrame, as_of: pd.Timestamp, a: LedgerAssumptions) -> list[Entry]:
    """Book what agreements give back month by month, and what is short at the end of each contract year."""
    found: list[Entry] = []
    for year in records(agreements):
        if year["discount_usd"]:
            base = [
                e
                for e in entries
                if e.component in ("on_demand", "spot")
                and e.provider == year["provider"]
                and max(year["start"], as_of).replace(day=1) <= e.date <= year["end"]
            ]
            share = year["discount_usd"] / sum(e.usd for e in base if e.view == "billed")
            # The cash of an invoice may fall after the contract year: it follows the invoice, so both are found by the P&L entry.
            for e in base:
                if e.view == "p_and_l":
                    entry = replace(
                        e, component="agreement_discount", contract_id=str(year["agreement_id"]), quantity=-e.quantity * share, account=""
                    )
                    found += as_incurred(entry, a.payment_terms_days)
        if year["shortfall_usd"]:
            blank = Entry(
                year["end"], "", "agreement_shortfall", str(year["agreement_id"]), year["shortfall_usd"], "expected", str(year["provider"])
            )
            found += as_incurred(blank, a.payment_terms_days)
    return found
