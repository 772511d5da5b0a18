"""Ways to spend less on the workloads of a book: cheaper calls, a smaller model and other levers, hosting or calling."""

import pandas as pd

from capplan.answers.crossover import crossover_of
from capplan.answers.serving import levers_of_each
from capplan.book.book import Book
from capplan.book.scenario import Scenario
from capplan.errors import CapplanError
from capplan.questions.crossover import api_ways
from capplan.questions.review.portfolio_review import Option
from capplan.records import records

#: What a lever is called as something to do; others are taken together as they are.
SMALLER = {"Routing": "send easy requests to a smaller model", "Cascade": "ask a smaller model first"}


def options_of(book: Book, scenario: Scenario) -> tuple[list[Option], tuple[str, ...]]:
    """List ways to spend less, from the levers, the crossover and the prices of calls; with notes on what could not be asked."""
    services, workloads = book.get("services"), book.get("workloads")
    if services.empty:
        return [], ()
    hosts, found, notes = workloads.set_index("workload")["host"], [], []
    for service in records(services):
        name = str(service["workload"])
        try:
            if hosts.get(name) != "self":
                found += _cheaper_calls(book, pd.Series(service), bool(workloads.set_index("workload")["deferrable"].get(name)), scenario)
            if hosts.get(name) == "either":
                found += _host_or_call(book, scenario.replaced(crossover_workload=name))
        except CapplanError as error:
            notes.append(f"{name} is not held against other ways to serve it: {error}")
    try:
        found += _levers(book, scenario) if (hosts.reindex(services["workload"]) != "api").any() else []
    except CapplanError as error:
        notes.append(f"Levers before hardware could not be asked: {error}")
    return found, tuple(notes)


def _cheaper_calls(book: Book, service: pd.Series, may_wait: bool, scenario: Scenario) -> list[Option]:
    """Hold the cheapest way to call against the way a service is called now, the first of them."""
    offered = book.get("api_contracts")
    ways = api_ways(service, offered[offered["workload"] == service["workload"]], pd.Timestamp(scenario.as_of))[0]
    by_call = ways[ways["kind"].isin(["payg", "batch"] if may_wait else ["payg"]) & ways["usd_per_request"].gt(0)]
    if len(by_call) < 2 or pd.isna(service["provider"]):
        return []
    now, best = by_call.iloc[0], by_call.sort_values("usd_per_request", kind="stable").iloc[0]
    saving = 1 - float(best["usd_per_request"]) / float(now["usd_per_request"])
    if saving <= 0:
        return []
    sure = "high" if best["model"] == now["model"] else "medium"
    limit = float(best["requests_per_hour_limit"])
    true = [f"{best['model']} of {best['provider']} answers as well"]
    true += [f"no hour has more than {limit:,.0f} requests"] * (limit < float("inf"))
    return [Option(str(service["workload"]), f"move to a cheaper tier: {best['way']}", saving, sure, " and ".join(true))]


def _host_or_call(book: Book, scenario: Scenario) -> list[Option]:
    """Take the crossover's word where hosting beats calling."""
    name, found = crossover_of(book, scenario)
    called = found.ways[found.ways["chosen"] & (found.ways["kind"] != "self")]["expected_usd"]
    if found.saving_usd <= 0 or called.empty or float(called.iloc[0]) <= 0:
        return []
    true = f"demand is as forecast: hosting beats calling in {found.crossing_share:.0%} of its paths"
    return [Option(name, "host it", float(found.saving_usd / called.iloc[0]), "medium", true)]


def _levers(book: Book, scenario: Scenario) -> list[Option]:
    """Take what a smaller model, and all other levers together, save of each hosted service."""
    rows = []
    for name, levers in levers_of_each(book, scenario).items():
        table = levers.table
        rows += [
            Option(name, SMALLER[row["lever"]], float(row["saving_share"]), "medium", f"{row['setting']}, and users accept it")
            for row in records(table[table["lever"].isin(SMALLER) & table["used"]])
        ]
        if levers.base_usd > 0:
            share = float(1 - levers.together_usd / levers.base_usd)
            used = ", ".join(f"{row['lever'].lower()} ({row['setting']})" for row in records(table[table["used"]]))
            rows.append(Option(name, "pull all levers before hardware", share, "low", f"all of these hold: {used}"))
    return rows
