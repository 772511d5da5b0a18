"""The chain: a book and a scenario become a plan; a few lines, no arithmetic."""

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

import pandas as pd

from capplan.answers.budgets import LEDGER_TABLES, NOTHING_BESIDE, Beside, book_beside, budget_notes, counts_beside, held_limits
from capplan.answers.finished_plan import Plan
from capplan.answers.headline import plan_headline
from capplan.answers.named import named_in_offers
from capplan.answers.placement import asked_book, deadline_notes
from capplan.answers.store import is_remembered, key_of, remembered
from capplan.book.book import Book
from capplan.book.book_currency import in_book_currency
from capplan.book.factors import scaled_limits
from capplan.book.scenario import (
    ClusterAssumptions,
    DemandAssumptions,
    FrontierAssumptions,
    HindsightAssumptions,
    LedgerAssumptions,
    PricingAssumptions,
    ProcurementAssumptions,
    Scenario,
)
from capplan.errors import CapplanError, MissingTableError
from capplan.optimize.two_stage import Warm
from capplan.questions.cluster import Headroom, queue_headroom
from capplan.questions.crossover import overflow_prices
from capplan.questions.demand import (
    Forecast,
    Stated,
    batch_workloads,
    class_demand,
    class_speeds,
    class_table,
    fit_usage,
    forecast_demand,
    last_days,
    stated_demand,
)
from capplan.questions.demand.capacity_requests import requested_runs
from capplan.questions.demand.classes import work_growth
from capplan.questions.demand.forecast_demand import scaled_forecast
from capplan.questions.ledger import Ledger, LedgerTables, build_ledger, expected_work, rate_limit_notes, withdrawal_notes
from capplan.questions.pricing import price_hours
from capplan.questions.procurement import (
    FIRST_GAP,
    Decided,
    FirstAnswer,
    Frontier,
    Kept,
    OutOfSample,
    Problem,
    Purchases,
    Rolling,
    Signed,
    decide,
    first_answer,
    judge_on_fresh_paths,
    keep_decision,
    kept_answer,
    plan_purchases,
    rehearse_plan,
    sample_paths,
    trace_frontier,
)
from capplan.questions.procurement.problem import BOOK_TABLES
from capplan.units import quarter_range
from capplan.workers import workers

Progress = Callable[[str], None]
#: Tables that decide the forecast.
FORECAST_TABLES = ("usage", "events", "training_runs", "workloads", "speeds")
STATED_TABLES = ("growth_statements", "planner_forecasts")
DEMAND_TABLES = (*FORECAST_TABLES, *STATED_TABLES, "capacity_requests")
#: A problem that was stated, and the digests of the tables it was stated from: of the next one only what differs is checked.
_stated: list[tuple[Mapping[str, str], Problem]] = []
#: What the last decision about a book left for the next one, by digest of the book it was read as.
_left: dict[str, Warm] = {}


def demand_of(book: Book, scenario: Scenario) -> Forecast:
    """Forecast the book's demand, or take the demand it states."""
    a = scenario.replaced(demand_factor=1.0).section(DemandAssumptions)
    if "demand_scenarios" in book.own:
        stated = remembered("stated", book, ("demand_scenarios",), a, lambda: stated_demand(book.get("demand_scenarios"), a))
        return scaled_forecast(stated, scenario.demand_factor)
    if "usage" not in book.tables and "training_runs" not in book.tables:
        book.need("usage", "The demand forecast")
    usage, events, runs, workloads, speeds = (book.get(name) for name in FORECAST_TABLES)
    if "capacity_requests" in book.tables:
        runs = pd.concat([runs, requested_runs(book.get("capacity_requests"), workloads, speeds).astype(runs.dtypes)], ignore_index=True)
    said = Stated(*(book.get(name) if name in book.tables else None for name in STATED_TABLES))
    forecast = remembered("demand", book, DEMAND_TABLES, a, lambda: forecast_demand(usage, events, runs, a, workloads, speeds, said))
    return scaled_forecast(forecast, scenario.demand_factor)


def fit_again(book: Book, scenario: Scenario) -> None:
    """Fit the book's series in this process, as a forecast that was read from the shared folder has not done."""
    fit_usage(book.get("usage"), scenario.section(DemandAssumptions), last_days(book.get("workloads")))


def prices_of(book: Book, scenario: Scenario) -> pd.DataFrame:
    """Price an hour of every offer."""
    a = scenario.section(PricingAssumptions)
    return remembered(
        "prices",
        book,
        ("skus", "offers", "sites", "offer_payments"),
        a,
        lambda: price_hours(book.get("skus"), book.get("offers"), a, book.get("sites"), book.get("offer_payments")),
    )


def headroom_of(book: Book, scenario: Scenario) -> Headroom | None:
    """Size the cluster that the delay target of training jobs needs; None where no target is set."""
    if scenario.training_delay_target_hours is None:
        return None
    a = scenario.section(ClusterAssumptions)
    jobs, nodes = (book.need(name, "The delay target of training jobs") for name in ("jobs", "nodes"))
    batch = batch_workloads(book.get("workloads"))

    def compute() -> Headroom:
        forecast = demand_of(book, scenario) if {"usage", "training_runs", "demand_scenarios"} & set(book.tables) else None
        growth = work_growth(forecast.paths, forecast.blocks, batch, scenario.demand_factor) if forecast else None
        return queue_headroom(jobs, nodes, batch, a, growth)

    return remembered(f"headroom-{work_digest(scenario)}", book, (*DEMAND_TABLES, "demand_scenarios", "jobs", "nodes"), a, compute)


def work_digest(scenario: Scenario) -> str:
    """Return a digest of the assumptions that decide the work to be planned."""
    kinds = (DemandAssumptions,) if scenario.training_delay_target_hours is None else (DemandAssumptions, ClusterAssumptions)
    return "-".join([*(scenario.section(kind).digest() for kind in kinds), str(scenario.hold_other_costs)])


def _classed(book: Book, scenario: Scenario, paths: pd.DataFrame, hosted: pd.DataFrame) -> pd.DataFrame:
    """Put paths into classes of work, with what a delay target needs beyond mean hours."""
    headroom = headroom_of(book, scenario)
    return class_demand(paths, demand_of(book, scenario).blocks, hosted, headroom.factors if headroom else None)


def work_of(book: Book, scenario: Scenario) -> pd.DataFrame:
    """Put the forecast into classes of work, on the paths the optimiser looks at."""
    forecast = demand_of(book, scenario)
    hosted = book.get("workloads").query("host != 'api'")
    paths = forecast.paths[forecast.paths["workload"].isin(hosted["workload"])]
    if paths.empty:
        raise MissingTableError(
            f"The plan of {book.name} has no self-hosted work: every workload runs through an API. Set host to self or either in"
            " workloads.csv."
        )
    return _classed(book, scenario, sample_paths(paths, scenario.plan_paths, scenario.seed), hosted)


#: Paths at most on which purchases are held against waiting.
VERDICT_PATHS = 80
#: Tables that decide what is bought.
PURCHASE_TABLES = tuple(dict.fromkeys((*DEMAND_TABLES, "demand_scenarios", *BOOK_TABLES, *LEDGER_TABLES, "api_contracts", "jobs", "nodes")))


def problem_of(book: Book, scenario: Scenario) -> Problem:
    """State what is to be bought, from the tables of a book under a scenario."""
    named_in_offers(book, scenario)
    a = scenario.section(ProcurementAssumptions)
    speeds = book.need("speeds", "The purchase plan")
    hosted = book.get("workloads").query("host != 'api'")
    calls = overflow_prices(hosted, book.get("services"), book.get("api_contracts"), pd.Timestamp(scenario.as_of))
    beside = beside_compute(book, scenario) if counts_beside(book) else NOTHING_BESIDE
    quarters = quarter_range(scenario.first_quarter, scenario.horizon_quarters)
    moves: dict[str, Any] = {
        "demand": work_of(book, scenario),
        "speeds": class_speeds(speeds, hosted),
        "classes": class_table(hosted, None, a).merge(calls, on="class", how="left"),
        "assumptions": a,
        "other_costs": beside.billed,
        "limits": held_limits(book.get("limits"), book.get("fx"), beside, quarters, scenario.payment_terms_days),
    }
    tables = (*BOOK_TABLES, "usage", "workloads")
    # Another thread may put another book's problem there meanwhile, so it is looked at once.
    digests, known = next(iter(_stated), ({}, None))
    given = {name: book.get(name) for name in tables if known is None or digests.get(name) != book.digests.get(name)} | moves
    found = Problem(**given) if known is None else known.replaced(**given)
    _stated[:] = [(book.digests, found)]
    return found


def beside_compute(book: Book, scenario: Scenario) -> Beside:
    """Book all that no decision changes (see `budgets.book_beside`).

    Neither prices of what is not signed nor the cost of capital are in it, and of demand only tokens are, in proportion.
    """
    plain = scenario.replaced(demand_factor=1.0, price_factor=1.0, discount_rate_per_year=0.0)
    tables = (*DEMAND_TABLES, "demand_scenarios", *LEDGER_TABLES)

    def booked(name: str, work: Callable[[], pd.DataFrame | None]) -> Beside:
        key = f"{name}-{work_digest(plain)}"
        return remembered(key, book, tables, plain.section(LedgerAssumptions), lambda: book_beside(book, plain, work()))

    whole = booked("beside", lambda: expected_work(demand_of(book, plain).paths))
    return whole if scenario.demand_factor == 1.0 else whole.at_demand(scenario.demand_factor, booked("standing", lambda: None))


def purchases_of(book: Book, scenario: Scenario) -> Purchases:
    """Decide what to buy, and explain it."""

    def compute() -> Purchases:
        problem, fresh = problem_of(book, scenario), _fresh(book, scenario)
        with workers(scenario.workers) if scenario.workers else nullcontext():
            return plan_purchases(problem, tell=partial(_leave, book), fresh=fresh)

    return remembered(_decided_by(book, scenario), book, PURCHASE_TABLES, scenario.section(ProcurementAssumptions), compute)


def _decided_by(book: Book, scenario: Scenario) -> str:
    """Name what a decision rests on beside its tables and its section: its work, and how money beside it is booked, where that counts."""
    booked = f"-{scenario.hold_other_costs}-{scenario.payment_terms_days}" if counts_beside(book) else ""
    return f"purchases-{work_digest(scenario)}{booked}"


def _is_decided(book: Book, scenario: Scenario) -> bool:
    """Tell whether the full answer is known already."""
    return is_remembered(key_of(_decided_by(book, scenario), book, PURCHASE_TABLES, scenario.section(ProcurementAssumptions)))


def _fresh(book: Book, scenario: Scenario) -> pd.DataFrame | None:
    """Return work on some paths of the forecast that the plan is not made for; None where it looks at them all."""
    try:
        return sample_paths(unseen_of(book, scenario), VERDICT_PATHS, scenario.seed)
    except CapplanError:
        return None


def cost_of(book: Book, scenario: Scenario, warm: Warm | None = None) -> tuple[float, Warm | None]:
    """Decide only: what the best plan costs, risk-weighted and within the gap, and what the decision leaves for the next one like it."""
    found = decide(problem_of(book, scenario), warm=warm, proof=False)
    return found.solution.upper, found.solution.warm


def _leave(book: Book, found: Decided) -> None:
    """Keep what a decision leaves for the next one about the same book."""
    if found.solution.warm is not None:
        _left[book.origin] = found.solution.warm


@in_book_currency
def first_answer_of(book: Book, scenario: Scenario) -> FirstAnswer | None:
    """Decide from what the last decision left, where this process made one, and stop early; None where the full answer is known."""
    if _is_decided(book, scenario):
        return None
    quick = scenario.replaced(gap_share=max(scenario.gap_share, FIRST_GAP))
    found = decide(problem_of(book, quick), warm=_left.get(book.origin), proof=False)
    _leave(book, found)
    return first_answer(found, alike=True)


@in_book_currency
def kept_answer_of(book: Book, scenario: Scenario, base: tuple[Book, Scenario]) -> FirstAnswer | None:
    """Cost the purchases of another scenario's plan under this one, at once; None where that plan is not known, or the full answer is."""
    if not _is_decided(*base) or _is_decided(book, scenario):
        return None
    bought = purchases_of(*base).purchases
    lots = dict(zip(zip(bought["offer_id"], bought["quarter"], strict=True), bought["lots"].astype(float), strict=True))
    return kept_answer(problem_of(book, scenario), lots)


def unseen_of(book: Book, scenario: Scenario) -> pd.DataFrame:
    """Return the work on those paths of the forecast that the optimiser does not look at."""
    forecast = demand_of(book, scenario)
    hosted = book.get("workloads").query("host != 'api'")
    paths = forecast.paths[forecast.paths["workload"].isin(hosted["workload"])]
    others = paths[~paths["path"].isin(work_of(book, scenario)["path"])]
    if others.empty:
        raise CapplanError("every path of the forecast is one the plan was made for; forecast more paths, or lower plan_paths")
    count = others["path"].nunique()
    return _classed(book, scenario, others.assign(probability=1 / count), hosted)


def hindsight_of(book: Book, scenario: Scenario) -> tuple[OutOfSample, Rolling]:
    """Judge the plan on fresh paths, and rehearse it quarter by quarter on some of them."""
    a, plan = scenario.section(HindsightAssumptions), purchases_of(book, scenario)

    def compute() -> tuple[OutOfSample, Rolling]:
        fresh = unseen_of(book, scenario)
        few = sample_paths(fresh, a.rolling_paths, a.seed)
        problem = problem_of(book, scenario)
        judged = judge_on_fresh_paths(problem, fresh, plan.decided, plan.proof.upper_usd - plan.proof.lower_usd, a)
        return judged, rehearse_plan(problem, few, plan.decided, a)

    return remembered(f"hindsight-{work_digest(scenario)}", book, PURCHASE_TABLES, a, compute)


def frontier_of(book: Book, scenario: Scenario) -> Frontier:
    """Trace what each step of caution costs, and what it saves in the bad cases."""
    key = f"frontier-{work_digest(scenario)}"
    a = scenario.section(FrontierAssumptions)
    return remembered(key, book, PURCHASE_TABLES, a, lambda: trace_frontier(problem_of(book, scenario), a))


def keep_in(book: Book, scenario: Scenario, signed: Signed, warm: Warm | None = None) -> Callable[[], Kept]:
    """Return the question what signing another plan's contracts costs under a scenario; without `warm` it can go elsewhere."""
    return partial(keep_decision, problem_of(book, scenario), signed, warm)


def ledger_of(book: Book, scenario: Scenario) -> Ledger:
    """Book the plan in cash, billed, P&L and economic terms."""
    bought = purchases_of(book, scenario)
    a = scenario.section(LedgerAssumptions)
    key = f"ledger-{work_digest(scenario)}-{scenario.section(ProcurementAssumptions).digest()}"
    return remembered(key, book, PURCHASE_TABLES, a, lambda: build_ledger(a, ledger_tables(book, scenario, vars(bought))))


def ledger_tables(book: Book, scenario: Scenario, bought: Mapping[str, Any]) -> LedgerTables:
    """Gather what the ledger of a purchase plan is made from: purchases, departures, dispatch, capacity and costs of it, and the book."""
    limits = scaled_limits(book.get("limits"), scenario)
    return LedgerTables(
        **{name: bought[name] for name in ("purchases", "departures", "dispatch", "capacity", "costs")},
        work=expected_work(demand_of(book, scenario).paths),
        **({name: book.get(name) for name in LEDGER_TABLES} | {"limits": limits}),
    )


def quarterly_plan(book: Book, scenario: Scenario | None = None, progress: Progress = lambda _: None) -> Plan:
    """Carry a book through demand, prices and purchases to a plan.

    Args:
        scenario: Assumptions; the book's own where none are given.

    Raises:
        CapplanError: Where an input is missing or contradicts another one, or no plan exists; never a partial plan.
    """
    return _made(book, scenario or book.scenario, progress)


@in_book_currency
def _made(book: Book, scenario: Scenario, progress: Progress) -> Plan:
    """Carry a book to a plan, step by step."""
    book = asked_book(book, scenario)
    progress("forecasting demand")
    forecast = demand_of(book, scenario)
    progress("pricing accelerator-hours")
    prices = prices_of(book, scenario)
    progress("deciding what to buy")
    purchases = purchases_of(book, scenario)
    progress("booking costs")
    ledger, headroom = ledger_of(book, scenario), headroom_of(book, scenario)
    called = book.get("services"), book.get("api_contracts"), book.get("workloads")
    plan = Plan(
        book=book.name,
        scenario=scenario,
        forecast=forecast,
        prices=prices,
        demand=work_of(book, scenario),
        purchases=purchases,
        ledger=ledger,
        headline="",
        warnings=(
            *book.notes,
            *forecast.notes,
            *(headroom.notes if headroom else ()),
            *purchases.notes,
            *ledger.notes,
            *budget_notes(ledger, beside_compute(book, scenario), book.get("limits")),
            *withdrawal_notes(*called, pd.Timestamp(scenario.as_of)),
            *rate_limit_notes(*called, book.get("usage"), expected_work(forecast.paths)),
            *deadline_notes(book, scenario),
        ),
    )
    return replace(plan, headline=plan_headline(plan))
