"""How many accelerators serve the traffic of a book, and what that costs."""

from collections.abc import Mapping
from dataclasses import fields

import pandas as pd

from capplan.answers.plan import prices_of
from capplan.answers.store import key_of, remembered
from capplan.book.book import Book
from capplan.book.scenario import PricingAssumptions, Scenario, ServingAssumptions
from capplan.errors import CapplanError
from capplan.questions.ledger.request_prices import service_usd, withdrawal_notes
from capplan.questions.serving import Serving, plan_serving
from capplan.questions.serving.choice import cheapest_hours
from capplan.questions.serving.close_look import busiest_region, levers_of
from capplan.questions.serving.hosted import Hosted, ServingTables, host_service
from capplan.questions.serving.levers import Levers
from capplan.records import records, word_list

#: Tables the answer rests on.
TABLES = word_list(
    "services api_contracts workloads usage requests serving_runs models accelerators speeds surfaces latency_parts other_costs skus offers"
    " sites"
)
#: Services as they are hosted today: a meeting's other answers, which are far larger, never push them out.
MOST_HOSTED = 64
_today: dict[str, Hosted] = {}


def serving_of(book: Book, scenario: Scenario) -> tuple[Serving, tuple[str, ...]]:
    """Answer for a book: from memory where neither its tables nor the assumptions have changed; with notes on prices that are missing."""
    services = book.need("services", "The serving view")
    book.need("usage", "The serving view")
    a = scenario.section(ServingAssumptions)
    called, notes = _api_prices(book, services, scenario)

    def compute() -> Serving:
        other = book.get("other_costs")
        month = pd.Timestamp(scenario.as_of).replace(day=1)
        past = other[other["month"] < month]
        latest = past[past["month"] == past["month"].max()] if len(past) else other.head(0)
        return plan_serving(
            services,
            book.get("workloads"),
            serving_tables(book, scenario),
            a,
            other_costs=latest,
            api_usd_per_request=called,
            requests=book.get("requests"),
        )

    return remembered(f"serving-{_prices_key(scenario)}", book, TABLES, a, compute), tuple(notes)


def serving_tables(book: Book, scenario: Scenario) -> ServingTables:
    """Gather what every service is hosted on, with prices of the providers and geographies of the plan."""
    prices = cheapest_hours(prices_of(book, scenario), scenario.geographies, scenario.providers)
    return ServingTables(**{one.name: book.get(one.name) for one in fields(ServingTables) if one.name != "prices"}, prices=prices)


def levers_of_each(book: Book, scenario: Scenario) -> dict[str, Levers]:
    """Return the levers before hardware of every hosted service, in the region where it has most to serve."""
    found, a = serving_of(book, scenario)[0], scenario.section(ServingAssumptions)

    def compute() -> dict[str, Levers]:
        tables = book.get("models"), book.get("accelerators")
        return {
            name: found.levers if name == found.workload else levers_of(one, busiest_region(one), *tables, a)
            for name, one in found.hosted.items()
        }

    return remembered(f"levers-{_prices_key(scenario)}", book, TABLES, a, compute)


def _prices_key(scenario: Scenario) -> str:
    """Name what prices rest on."""
    return f"{scenario.section(PricingAssumptions).digest()}-{','.join((*scenario.geographies, *scenario.providers))}"


def speeds_under_targets(book: Book, scenario: Scenario, workload: str, factor: float | Mapping[str, float]) -> dict[str, float]:
    """Say what a service's accelerators do in an hour if its latency targets are multiplied, as a share of now; none that cannot keep them.

    `factor` is one for both targets, or one by column.
    A looser target never slows one down and a tighter one never speeds it up: where the choice of batch makes it look so, 1 stands.
    """
    table = book.need("services", "The latency target").merge(book.get("workloads"), on="workload", how="left", suffixes=("", "_workload"))
    row = table[table["workload"] == workload].iloc[0]
    tables, a = serving_tables(book, scenario), scenario.section(ServingAssumptions)
    columns = ("first_token_seconds_p95", "token_seconds_p95")
    factors = dict(factor) if isinstance(factor, Mapping) else dict.fromkeys(columns, factor)

    def done(times: Mapping[str, float], points: pd.DataFrame | None = None) -> Hosted:
        aimed = row.copy()
        for name in columns:
            aimed[name] = row[name] * times.get(name, 1.0)
        return host_service(aimed, tables, a, points)

    key = key_of(f"hosted-{workload}-{_prices_key(scenario)}", book, TABLES, a)
    before = _today.get(key) or done({})
    _today[key] = before
    while len(_today) > MOST_HOSTED:
        _today.pop(next(iter(_today)), None)
    try:
        after = done(factors, before.points)
    except CapplanError:
        return {}
    most = [found.choices.groupby("accelerator")["requests_per_accelerator_hour"].max() for found in (after, before)]
    share = (most[0] / most[1]).dropna()
    return {str(name): float(min(each, 1.0) if min(factors.values()) < 1 else max(each, 1.0)) for name, each in share.items()}


def _api_prices(book: Book, services: pd.DataFrame, scenario: Scenario) -> tuple[dict[str, float], list[str]]:
    """Price a request of each service that is called and not hosted; what has no price is left out, and said."""
    hosts = book.get("workloads").set_index("workload")["host"]
    found: dict[str, float] = {}
    notes = withdrawal_notes(services, book.get("api_contracts"), book.get("workloads"), pd.Timestamp(scenario.as_of))
    for row in records(services[services["workload"].map(hosts) == "api"]):
        try:
            found[str(row["workload"])] = service_usd(row, pd.Timestamp(scenario.as_of))
        except CapplanError as error:
            notes.append(f"{row['workload']} is left out of the costs: {error}")
    return found, notes
