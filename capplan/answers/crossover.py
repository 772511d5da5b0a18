"""Host a model or call an API, asked of a book."""

from dataclasses import replace

import pandas as pd

from capplan.answers.plan import PURCHASE_TABLES, demand_of, prices_of
from capplan.answers.serving import serving_tables
from capplan.answers.store import remembered
from capplan.book.book import Book
from capplan.book.scenario import CrossoverAssumptions, DemandAssumptions, PricingAssumptions, Scenario
from capplan.errors import CapplanError, nearest
from capplan.questions.crossover import Crossover, Replica, Work, api_ways, find_crossover, peak_over_block, terms_of
from capplan.questions.demand import Forecast
from capplan.questions.serving.hosted import host_service

#: Tables that decide between hosting and calling.
CROSSOVER_TABLES = (*PURCHASE_TABLES, "serving_runs", "models", "accelerators", "surfaces", "latency_parts")


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
            book.need("usage", "The crossover")
            hosted = host_service(row, serving_tables(book, scenario), a)
            replica = Replica(hosted.point, float(row["output_tokens"]), next(iter(hosted.fleets.values())).first_token_seconds, a)
            terms = terms_of(prices, str(hosted.point["accelerator"]))
        paths = forecast.paths[forecast.paths["workload"] == name]
        if paths.empty:
            raise CapplanError(
                f"The crossover of {name} needs its usage, and usage.csv has none; {nearest(name, set(forecast.paths['workload']))}"
            )
        traffic = paths.merge(forecast.blocks, on=["quarter", "block"]).rename(columns={"quantity": "requests"})
        missed = row["shortfall_usd_per_unit"] if not pd.isna(row["shortfall_usd_per_unit"]) else row["value_usd_per_unit"]
        work = Work(peak_over_block(forecast, name), bool(row["deferrable"]), float(missed))
        found = find_crossover(row, traffic, ways, replica, terms, a, work)
        return replace(found, notes=(*notes, *found.notes))

    sections = "-".join(scenario.section(kind).digest() for kind in (DemandAssumptions, PricingAssumptions))
    key = f"crossover-{name}-{sections}-{scenario.geographies}-{scenario.providers}"
    return name, remembered(key, book, CROSSOVER_TABLES, a, compute)


def _crossover_workload(services: pd.DataFrame, workloads: pd.DataFrame, forecast: Forecast, a: CrossoverAssumptions) -> str:
    """Choose the service to look at: the one named, or the largest of those with a choice."""
    known = services["workload"].tolist()
    if a.crossover_workload is not None:
        if a.crossover_workload not in known:
            raise CapplanError(
                f"crossover_workload is {a.crossover_workload!r}, which services.csv does not have; {nearest(a.crossover_workload, known)}"
            )
        return a.crossover_workload
    host = workloads.set_index("workload")["host"]
    both = [name for name in known if host.get(name) == "either"] or known
    size = forecast.paths.groupby("workload")["quantity"].sum()
    return max(both, key=lambda name: (float(size.get(name, 0.0)), name))
