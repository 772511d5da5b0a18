"""The questions of a meeting: each is one click and one number, and becomes assumptions or what-ifs that a file can hold."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import pandas as pd

from capplan.answers.card import EVERYTHING, SAME, Card, Entry, Picks
from capplan.answers.placement import asked_book
from capplan.answers.plan import fit_again, problem_of
from capplan.answers.serving import speeds_under_targets
from capplan.book.book import Book
from capplan.book.changes import Change
from capplan.book.scenario import Scenario
from capplan.contract_kinds import USAGE_TERMS
from capplan.errors import CapplanError, ScenarioError
from capplan.units import quarter_range, quarter_start


def _names(table: str, column: str) -> Picks:
    return lambda book: tuple(dict.fromkeys(book.get(table)[column].dropna().astype(str)))


def _work(book: Book) -> Sequence[str]:
    """List what demand can be changed for: all, a team, a workload."""
    workloads = book.get("workloads")
    teams = tuple(f"team {name}" for name in dict.fromkeys(workloads["team"].dropna()))
    return (EVERYTHING, *teams, *workloads["workload"])


def _either(book: Book) -> Sequence[str]:
    return tuple(book.get("workloads").query("host == 'either'")["workload"])


def _demand(book: Book, _: Scenario, percent: float, pick: str) -> Sequence[Change]:
    """Multiply the measured, planned and stated work of a team or workload."""
    workloads, lines = book.get("workloads"), []
    named = workloads.loc[workloads["team"].eq(pick.removeprefix("team ")), "workload"] if pick.startswith("team ") else [pick]
    for name in named:
        lines += work_multiplied(book, {"workload": name}, 1 + percent / 100)
    return lines


def work_multiplied(book: Book, where: Mapping[str, str], factor: float) -> list[Change]:
    """Multiply the measured, planned and stated work of rows with these cells, such as workload or region; nothing where there are none."""
    lines = []
    for table in (each for each in ("usage", "demand_scenarios", "training_runs") if each in book.own):
        rows = book.get(table)
        for column, value in where.items():
            rows = rows[rows[column] == value]
        columns = ("quantity", "tokens") if table == "training_runs" else ("quantity",)
        filled = [column for column in columns if rows[column].notna().any()]
        lines += [Change(table=table, where=dict(where), column=column, multiply=factor) for column in filled]
    return lines


def _late(book: Book, _: Scenario, days: float, __: str) -> Sequence[Change]:
    """Deliver everything later, for sure, instead of what the book says may happen."""
    gone = [Change(table="delivery_states", remove=True)] if len(book.get("delivery_states")) else []
    return [*gone, Change(table="delivery_states", add={"state": "late", "probability": 1, "late_days": days})]


def _quarters(book: Book) -> Sequence[str]:
    return quarter_range(book.scenario.first_quarter, book.scenario.horizon_quarters)


#: What is said of a new generation beside how fast it is: the middle of the horizon and the price of the one before, unless told.
GENERATION = (Entry("from", start=0.5, options=_quarters), Entry("price", "% of the offer's", 100, 1, 1000))
_PRICES = ("usd_per_hour", "negotiated_usd_per_hour", "capex_usd")


def _next_generation(book: Book, _: Scenario, speed_up: float, pick: str, **said: Any) -> Sequence[Change]:
    """Offer, from a quarter on, an accelerator that does this many times the work of an offer's, at a share of the offer's price."""
    offer = book.get("offers").set_index("offer_id").loc[pick]
    old = str(book.get("skus").set_index("sku").loc[offer["sku"], "accelerator"])
    new, sku = f"next after {old}", f"next-{offer['sku']}"
    prices = {name: float(offer[name]) * said["price"] / 100 for name in _PRICES if pd.notna(offer[name])} if said["price"] != 100 else {}
    speeds = book.get("speeds")
    return [
        Change(table="accelerators", like=old, add={"accelerator": new}),
        Change(table="skus", like=str(offer["sku"]), add={"sku": sku, "accelerator": new}),
        *(
            Change(
                table="speeds", add={"workload": name, "accelerator": new, "work_per_accelerator_hour": speed_up * speed, "basis": "stated"}
            )
            for name, accelerator, speed in zip(speeds["workload"], speeds["accelerator"], speeds["work_per_accelerator_hour"], strict=True)
            if accelerator == old
        ),
        Change(
            table="offers",
            like=pick,
            add={"offer_id": f"next-{pick}", "sku": sku, "available_from": f"{quarter_start(said['from']):%Y-%m-%d}", **prices},
        ),
    ]


def _api_prices(book: Book, scenario: Scenario, percent: float, pick: str) -> Sequence[Change]:
    """Change what a workload's calls cost: prices that its contracts state, and the list prices of the others, which can only fall."""
    contracts, factor = book.get("api_contracts"), 1 + percent / 100
    contracts = contracts[(contracts["workload"] == pick) & contracts["kind"].ne("provisioned")]
    stated = contracts["input_usd_per_million"].notna()
    lines = [
        Change(table="api_contracts", where={"api_contract_id": row.api_contract_id}, column=name, multiply=factor)
        for row in contracts[stated].itertuples()
        for name in ("input_usd_per_million", "cached_usd_per_million", "output_usd_per_million")
        if pd.notna(getattr(row, name))
    ]
    listed = [
        Change(
            table="api_contracts",
            where={"api_contract_id": row.api_contract_id},
            column="discount_share",
            set=round(1 - (1 - row.discount_share) * factor, 12),
        )
        for row in contracts[~stated].itertuples()
    ]
    services = book.get("services")
    for row in services[services["workload"].eq(pick) & services["provider"].notna()].itertuples():
        own = contracts["kind"].eq("payg") & contracts["provider"].eq(row.provider) & contracts["model"].eq(row.model)
        if not own.any():
            said: dict[str, Any] = {
                "api_contract_id": f"{pick}-at-less",
                "workload": pick,
                "provider": row.provider,
                "model": row.model,
                "kind": "payg",
            }
            said |= {"discount_share": round(1 - factor, 12), "as_of": f"{scenario.as_of}", "source_id": said["api_contract_id"]}
            source = {"source_id": said["source_id"], "title": "List price less what is asked", "where_found": "a what-if"}
            listed.append(Change(table="sources", add={**source, "retrieved_on": f"{scenario.as_of}"}))
            listed.append(Change(table="api_contracts", add=said))
    if not lines and not listed:
        raise ScenarioError(f"API prices change by: {pick} has no API price: no contract states its prices in api_contracts.csv")
    if listed and percent > 0:
        raise ScenarioError(
            f"API prices change by: {pick} is called at list prices, which no what-if can raise while no contract states its prices; write"
            " them into api_contracts.csv"
        )
    return [*lines, *listed]


SAME_TERM, SAME_MACHINE = f"{SAME}term", f"{SAME}machine"


def _machines(book: Book) -> Sequence[str]:
    """List the machines that a quote can be for: those that something of the book or its offers is about."""
    return (SAME_MACHINE, *sorted(set(book.get("skus")["sku"])))


#: What a quote states beside its price.
QUOTE = (
    Entry("machine", options=_machines),
    Entry("term", options=lambda _: (SAME_TERM, "reserved_1y", "reserved_3y")),
    Entry("prepaid", "%", 0, 0, 100),
    Entry("lot", "machines", 1, 1, 100_000),
)


def _quoted(book: Book) -> Sequence[str]:
    offers = book.get("offers")
    return tuple(offers.loc[~offers["term"].isin(["owned", "capacity_block"]), "offer_id"])


def _price_now(book: Book, pick: str) -> float:
    """Return what a machine of an offer costs an hour today."""
    offer = book.get("offers").set_index("offer_id").loc[pick]
    quote = offer["negotiated_usd_per_hour"]
    return float(offer["usd_per_hour"] if pd.isna(quote) else quote)


def _quote(book: Book, _: Scenario, usd: float, pick: str, **given: Any) -> Sequence[Change]:
    """Put a quote in the place of an offer: its price, and its own machine, term, prepayment and lot."""
    offer = book.get("offers").set_index("offer_id").loc[pick]
    machine, term, prepaid, lot = (given[entry.name] for entry in QUOTE)
    said: dict[str, Any] = {"offer_id": f"quote-{pick}", "negotiated_usd_per_hour": usd}
    said |= {"sku": machine} if machine not in (SAME_MACHINE, offer["sku"]) else {}
    if term != SAME_TERM and term != offer["term"]:
        said |= {"term": term, "term_months": {"reserved_1y": 12, "reserved_3y": 36}[term]}
    if said.get("term", offer["term"]) not in USAGE_TERMS:
        said |= {"upfront_share": prepaid / 100, "lot_machines": int(lot)}
        said |= {"discounts": "units", "guarantees_capacity": True} if offer["term"] in USAGE_TERMS else {}
    elif prepaid or lot != 1:
        raise ScenarioError(f"This quote instead: {pick} is rented by the hour, which is neither prepaid nor bought in lots; give a term")
    return [Change(table="offers", like=pick, add=said), Change(table="offers", where={"offer_id": pick}, remove=True)]


def _wait(book: Book, scenario: Scenario, quarters: float, _: str) -> Sequence[Change]:
    """Sign nothing new for some quarters: no offer can be had so soon that it would have to be signed before."""
    offers = book.get("offers")
    offers = offers[~offers["term"].isin(USAGE_TERMS)]
    careful = offers["lead_time_days_p90"].fillna(offers["lead_time_days_p50"]) - offers["lead_time_days_p50"]
    until = pd.Timestamp(scenario.as_of) + pd.DateOffset(months=3 * int(quarters)) + pd.Timedelta(days=scenario.approval_days)
    opens = until + pd.to_timedelta(careful, unit="D").dt.ceil("D")
    later = offers["available_from"].notna() & (offers["available_from"] >= opens)
    blocks = (offers["term"] == "capacity_block") & ~later
    gone = [Change(table="offers", where={"offer_id": name}, remove=True) for name in offers.loc[blocks, "offer_id"]]
    days = opens[~later & ~blocks].groupby(offers["term"]).max()
    kept = offers[later & offers["term"].isin(days.index)]
    lines = [
        Change(table="offers", where={"term": str(term)}, column="available_from", set=f"{day:%Y-%m-%d}") for term, day in days.items()
    ]
    back = [
        Change(table="offers", where={"offer_id": row.offer_id}, column="available_from", set=f"{row.available_from:%Y-%m-%d}")
        for row in kept.itertuples()
    ]
    return [*gone, *lines, *back]


def _served(book: Book) -> Sequence[str]:
    """List the hosted services with a latency target."""
    if "services" not in book.own:
        return ()
    services, hosts = book.get("services"), book.get("workloads").set_index("workload")["host"]
    aimed = services[["first_token_seconds_p95", "token_seconds_p95"]].notna().any(axis=1)
    return tuple(services.loc[aimed & services["workload"].map(hosts).isin(["self", "either"]), "workload"])


def get_ready(book: Book, scenario: Scenario) -> None:
    """Compute beforehand what the first click on a card would wait for, also where another kernel or a report made the plan.

    That are fitted series, checked tables and how fast each service's accelerators are. What cannot be computed is left to the card, which
    says why.
    """
    with suppress(CapplanError):
        asked = asked_book(book, scenario)
        fit_again(asked, scenario)
        problem_of(asked, scenario)
    for name in _served(book):
        with suppress(CapplanError):
            speeds_under_targets(book, scenario, name, 1.0)


def _latency(book: Book, scenario: Scenario, percent: float, pick: str) -> Sequence[Change]:
    """Change a service's targets, and with them what one accelerator serves within them."""
    factor = 1 + percent / 100
    row = book.get("services").set_index("workload").loc[pick]
    aimed = [name for name in ("first_token_seconds_p95", "token_seconds_p95") if pd.notna(row[name])]
    targets = [Change(table="services", where={"workload": pick}, column=name, multiply=factor) for name in aimed]
    return [*targets, *_speeds_within(book, scenario, pick, factor)]


def _token_within(column: str) -> Callable[..., Sequence[Change]]:
    """Return a maker of what-ifs that set one latency target of a service, and with it what one accelerator serves within its targets."""

    def made(book: Book, scenario: Scenario, ms: float, pick: str) -> Sequence[Change]:
        now = book.get("services").set_index("workload").loc[pick, column]
        if pd.isna(now):
            raise ScenarioError(f"{pick} has no {column} in services.csv; write the target of today into it")
        target = Change(table="services", where={"workload": pick}, column=column, set=ms / 1000)
        return [target, *_speeds_within(book, scenario, pick, {column: ms / 1000 / float(now)})]

    return made


def _speeds_within(book: Book, scenario: Scenario, pick: str, factor: float | Mapping[str, float]) -> list[Change]:
    """Change what one accelerator of a service serves, where its latency targets are multiplied, all or each by its own factor."""
    shares = speeds_under_targets(book, scenario, pick, factor)
    known = book.get("speeds").query("workload == @pick")["accelerator"]
    if not set(known) & set(shares):
        raise ScenarioError(f"latency targets of {pick}: no accelerator of it can keep them; give looser ones")
    return [
        Change(table="speeds", where={"workload": pick, "accelerator": name}, column="work_per_accelerator_hour", multiply=shares[name])
        if name in shares
        else Change(table="speeds", where={"workload": pick, "accelerator": name}, remove=True)
        for name in known
    ]


_RUNS, _OFFERS, _CONTRACTS = _names("training_runs", "run_id"), _names("offers", "offer_id"), _names("commitments", "commitment_id")
_SPOT = tuple(f"offers where term=spot multiply {name} {{number}}" for name in ("usd_per_hour", "negotiated_usd_per_hour"))
#: The questions in the order of the board.
CARDS = (
    Card("Demand changes by", "%", 30, -90, 900, _work, made=_demand, said="Demand of {pick} {number}"),
    Card("Budgets change by", "%", -15, -100, 200, factor="budget_factor", said="Budgets {number}"),
    Card("Unsigned prices change by", "%", -20, -90, 900, factor="price_factor", said="Unsigned prices {number}"),
    Card(
        "This quote instead:",
        "USD/h",
        10,
        0.001,
        100_000,
        _quoted,
        made=_quote,
        more=QUOTE,
        said="A quote of {number} instead of {pick}",
        now=_price_now,
    ),
    Card("Nothing new is signed for", "quarters", 1, 1, 8, made=_wait, said="Nothing new is signed for {number}"),
    Card("A run slips by", "quarters", 2, 1, 12, _RUNS, ("shift training_runs.{pick} {whole} quarters",), said="{pick} slips by {number}"),
    Card("A run is dropped:", picks=_RUNS, lines=("remove training_runs.{pick}",), said="{pick} is dropped"),
    Card("Spot prices are multiplied by", "times", 2, 0.01, 100, lines=_SPOT, said="Spot prices multiplied by {number}"),
    Card("Spot is gone", lines=("remove offers where term=spot",)),
    Card("No capital is spent", lines=("add limit {{limit_id: no-capex, kind: budget_usd, amount: 0, measure: capex}}",)),
    Card("Deliveries slip by", "days", 90, 1, 1000, made=_late, said="Deliveries slip by {number}"),
    Card(
        "A new generation is faster:",
        "times",
        2,
        0.1,
        100,
        _OFFERS,
        made=_next_generation,
        more=GENERATION,
        said="A generation after {pick}, {number} times as fast",
    ),
    Card(
        "A contract is extended by",
        "quarters",
        4,
        1,
        12,
        _CONTRACTS,
        ("shift commitments.{pick} end {whole} quarters",),
        said="{pick} is extended by {number}",
    ),
    Card("A contract lapses:", picks=_CONTRACTS, lines=("commitments.{pick} set renews false",), said="{pick} lapses"),
    Card("A contract renews:", picks=_CONTRACTS, lines=("commitments.{pick} set renews true",), said="{pick} renews"),
    Card("API prices change by", "%", -50, -99, 900, _either, made=_api_prices, said="API prices of {pick} {number}"),
    Card("No API for", picks=_either, lines=("workloads.{pick} set host self",), said="No API for {pick}"),
    Card("Latency targets change by", "%", -30, -90, 900, _served, made=_latency, said="Latency targets of {pick} {number}"),
    Card(
        "First token within",
        "ms",
        1000,
        1,
        600_000,
        _served,
        made=_token_within("first_token_seconds_p95"),
        said="First token of {pick} within {number}",
    ),
    Card(
        "Each token within",
        "ms",
        50,
        0.1,
        60_000,
        _served,
        made=_token_within("token_seconds_p95"),
        said="Each token of {pick} within {number}",
    ),
    Card("Bad cases weigh", "%", 50, 0, 100, share="risk_weight", said="Bad cases weigh {number}"),
    Card("Work that must be served:", "%", 99, 0, 100, share="service_level_share", said="{number} of work must be served"),
)
