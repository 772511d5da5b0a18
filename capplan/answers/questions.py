"""Questions beside the chain, asked of a book: how to mix contracts, whether to host a model or call an API, what a training run needs."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd

from capplan.answers.plan import PURCHASE_TABLES, demand_of, prices_of, work_digest, work_of
from capplan.answers.store import remembered
from capplan.book.book import Book
from capplan.book.scenario import (
    CrossoverAssumptions,
    DemandAssumptions,
    GoodputAssumptions,
    PortfolioAssumptions,
    PricingAssumptions,
    ScalingAssumptions,
    Scenario,
    TrainingAssumptions,
)
from capplan.errors import CapplanError, nearest
from capplan.questions.crossover import Crossover, Replica, api_ways, find_crossover, peak_over_block, terms_of
from capplan.questions.demand import Forecast, class_speeds, class_table
from capplan.questions.goodput import measure_goodput
from capplan.questions.portfolio import Portfolio, Rehearsal, holdings_of, mix_portfolio
from capplan.questions.scaling import ScalingFit, fit_scaling
from capplan.questions.serving.choice import cheapest_hours
from capplan.questions.serving.hosted import host_service
from capplan.questions.training import RunStudy, choose_run, study_run
from capplan.units import quarter_index, quarter_label, quarter_of, quarter_start

#: A quarter is played again when at least this much of it was measured.
REHEARSED = pd.Timedelta(days=28)


def portfolio_of(book: Book, scenario: Scenario) -> Portfolio:
    """Mix contracts, spot and on demand for each pool, and hold rules that look back against it."""
    a = scenario.section(PortfolioAssumptions)

    def compute() -> Portfolio:
        speeds = book.need("speeds", "The portfolio")
        hosted = book.get("workloads").query("host != 'api'")
        offers, skus = book.get("offers"), book.get("skus")
        prices = prices_of(book, scenario)
        allowed = ~prices["offer_id"].isin(a.excluded_offers)
        allowed &= prices["provider"].isin(a.providers) | (len(a.providers) == 0)
        allowed &= prices["geography"].isin(a.geographies) | (len(a.geographies) == 0)
        return mix_portfolio(
            work_of(book, scenario),
            class_speeds(speeds, hosted),
            prices[allowed],
            a,
            classes=class_table(hosted, speeds, a),
            holdings=holdings_of(book.get("commitments"), book.get("assets"), skus, offers, book.get("sites"), a.useful_life_years),
            limits=book.get("limits"),
            usage=book.get("usage") if "usage" in book.tables else None,
            workloads=hosted,
            rehearsal=_rehearsal(book, scenario) if a.rehearse else None,
        )

    return remembered(f"portfolio-{work_digest(scenario)}", book, PURCHASE_TABLES, a, compute)


#: Tables that decide between hosting and calling.
CROSSOVER_TABLES = (
    *PURCHASE_TABLES,
    "serving_runs",
    "models",
    "accelerators",
    "surfaces",
    "latency_parts",
)


def crossover_of(book: Book, scenario: Scenario) -> tuple[str, Crossover]:
    """Hold hosting one served workload against calling an API for it; returns the workload's name, too."""
    a = scenario.section(CrossoverAssumptions)
    services, workloads = book.need("services", "The crossover"), book.get("workloads")
    name = _crossover_workload(services, workloads, demand_of(book, scenario), a)

    def compute() -> Crossover:
        row = services.merge(workloads, on="workload", suffixes=("", "_workload")).set_index("workload", drop=False).loc[name]
        forecast, when = demand_of(book, scenario), pd.Timestamp(scenario.as_of)
        offered = book.get("api_contracts")
        ways, notes = api_ways(row, offered[offered["workload"] == name], when)
        prices = prices_of(book, scenario)
        prices = prices[prices["geography"].isin(scenario.geographies)] if scenario.geographies else prices
        prices = prices[prices["provider"].isin(scenario.providers)] if scenario.providers else prices
        replica, terms = None, pd.DataFrame({"term": [], "term_months": [], "usd_per_accelerator_hour": [], "provider": []})
        if row["host"] != "api" or not pd.isna(row["hosted_model"]):
            hosted = host_service(
                row,
                book.need("usage", "The crossover"),
                book.get("serving_runs"),
                book.get("models"),
                book.get("accelerators"),
                cheapest_hours(prices),
                book.get("speeds"),
                a,
                surfaces=book.get("surfaces"),
                latency_parts=book.get("latency_parts"),
            )
            replica = Replica(hosted.point, float(row["output_tokens"]), next(iter(hosted.fleets.values())).first_token_seconds, a)
            terms = terms_of(prices, str(hosted.point["accelerator"]))
        paths = forecast.paths[forecast.paths["workload"] == name]
        if paths.empty:
            raise CapplanError(f"The crossover of {name} needs its usage, and usage.csv has none; {nearest(name, set(forecast.paths['workload']))}")
        traffic = paths.merge(forecast.blocks, on=["quarter", "block"]).rename(columns={"quantity": "requests"})
        missed = row["shortfall_usd_per_unit"] if not pd.isna(row["shortfall_usd_per_unit"]) else row["value_usd_per_unit"]
        found = find_crossover(
            row, traffic, ways, replica, terms, a, peak_factor=peak_over_block(forecast, name), may_wait=bool(row["deferrable"]), unserved_usd_per_request=float(missed)
        )
        return replace(found, notes=(*notes, *found.notes))

    key = f"crossover-{name}-{scenario.section(DemandAssumptions).digest()}-{scenario.section(PricingAssumptions).digest()}-{scenario.geographies}-{scenario.providers}"
    return name, remembered(key, book, CROSSOVER_TABLES, a, compute)


def _crossover_workload(services: pd.DataFrame, workloads: pd.DataFrame, forecast: Forecast, a: CrossoverAssumptions) -> str:
    """Choose the service to look at: the one named, or the largest of those with a choice."""
    known = services["workload"].tolist()
    if a.crossover_workload is not None:
        if a.crossover_workload not in known:
            raise CapplanError(f"crossover_workload is {a.crossover_workload!r}, which services.csv does not have; {nearest(a.crossover_workload, known)}")
        return a.crossover_workload
    host = workloads.set_index("workload")["host"]
    both = [name for name in known if host.get(name) == "either"] or known
    size = forecast.paths.groupby("workload")["quantity"].sum()
    return max(both, key=lambda name: (float(size.get(name, 0.0)), name))


#: Tables that decide what a training run needs.
TRAINING_TABLES = ("training_runs", "scaling_runs", "failures", "models", "accelerators", "skus", "offers", "sites", "workloads")
#: Accelerators at which failures are counted; a run between two is read between them.
GOODPUT_COUNTS = (8, 32, 128, 512, 2048, 8192, 32768)


def training_of(book: Book, scenario: Scenario) -> RunStudy:
    """Study one run of the roadmap on the plan's providers, where its data may be."""
    a = scenario.section(TrainingAssumptions)
    run = choose_run(book.need("training_runs", "The training view"), a)

    def compute() -> RunStudy:
        prices = prices_of(book, scenario)
        prices = prices[~prices["offer_id"].isin(scenario.excluded_offers)]
        prices = prices[prices["provider"].isin(scenario.providers)] if scenario.providers else prices
        prices = prices[prices["geography"].isin(scenario.geographies)] if scenario.geographies else prices
        region = run["region"]
        here = prices if pd.isna(region) or region == "any" else prices[(prices["geography"] == region) | (prices["region"] == region)]
        may_stop = bool(book.get("workloads").set_index("workload")["interruptible"].get(run["workload"], False))
        spot = a.run_on_spot == "yes" or (a.run_on_spot == "as_workload" and may_stop)
        left_out = not spot and (here["term"] == "spot").any()
        here = here if spot else here[here["term"] != "spot"]
        if here.empty:
            raise CapplanError(
                f"run {run['run_id']} must be in {region}, where none of the plan's providers offers a machine"
                f"{' but spot; allow it with run_on_spot,' if left_out else ';'} add offers, or change its region"
            )
        scaling, goodput = _scaling_of(book, scenario), _goodput_of(book, scenario)
        found = study_run(
            run, book.get("skus"), scaling, goodput, here, a, accelerators=book.get("accelerators"), models=book.get("models")
        )
        note = f"The workload {run['workload']} is not interruptible: spot is left out (run_on_spot changes it)."
        return replace(found, notes=(*found.notes, note)) if left_out and a.run_on_spot == "as_workload" else found

    key = f"training-{scenario.section(ScalingAssumptions).digest()}-{scenario.geographies}-{scenario.providers}-{scenario.excluded_offers}"
    return remembered(key, book, TRAINING_TABLES, a, compute)


def _scaling_of(book: Book, scenario: Scenario) -> ScalingFit | None:
    """Fit the book's scaling runs, if it has any."""
    measured, a = book.get("scaling_runs"), scenario.section(ScalingAssumptions)
    return remembered("scaling", book, ("scaling_runs",), a, lambda: fit_scaling(measured, a)) if len(measured) else None


def _goodput_of(book: Book, scenario: Scenario) -> pd.DataFrame | None:
    """Measure the goodput of every offer at a few numbers of accelerators, if failures are known."""
    failures, a = book.get("failures"), scenario.section(GoodputAssumptions)

    def compute() -> pd.DataFrame:
        prices = prices_of(book, scenario)
        return pd.concat([measure_goodput(failures, a.model_copy(update={"run_accelerators": count}), prices) for count in GOODPUT_COUNTS], ignore_index=True)

    return remembered("goodput", book, ("failures", "skus", "offers", "sites"), a, compute) if len(failures) else None


def _rehearsal(book: Book, scenario: Scenario) -> Rehearsal | None:
    """Forecast the last quarter of the history from what was known before it, where there is as much history again before."""
    if "usage" not in book.tables or "demand_scenarios" in book.own:
        return None
    time = book.get("usage")["time"]
    quarter = quarter_of(time.max() - REHEARSED)
    cutoff = quarter_start(quarter)
    if time.min() > quarter_start(quarter_label(quarter_index(quarter) - 1)):
        return None
    then = book.with_rows("usage", book.get("usage")[lambda rows: rows["time"] < cutoff])
    known = scenario.replaced(as_of=(cutoff - pd.Timedelta(days=1)).date(), first_quarter=quarter, horizon_quarters=1)
    return Rehearsal(cutoff, work_of(then, known))
