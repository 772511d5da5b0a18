"""The questions of a meeting: each is one click and one number, and becomes assumptions or what-ifs that a file can hold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from capplan.book.book import Book
from capplan.book.changes import Change, quoted
from capplan.book.scenario import Scenario
from capplan.errors import ScenarioError
from capplan.units import quarter_start

EVERYTHING = "all work"
Picks = Callable[[Book], Sequence[str]]


@dataclass(frozen=True)
class Card:
    """One question.

    Parameters
    ----------
    name
        What it asks, in words that stand before a number.
    unit
        What the number counts; empty where the question has none.
    start, low, high
        Where the number stands at first, and its bounds.
    picks
        What can be picked, from the book; None where nothing is.
    lines
        What-ifs in the grammar of `capplan.book.changes`, with {pick}, {number}, {whole} (the number as a whole), {factor} (1 + number /
        100) and
        {share} (number / 100) in them.
    made
        Return further what-ifs from the book, its scenario, the number and what was picked.
    factor, share
        Assumption that is multiplied by 1 + number / 100; assumption that becomes number / 100.
    """

    name: str
    unit: str = ""
    start: float = 0.0
    low: float = 0.0
    high: float = 0.0
    picks: Picks | None = None
    lines: tuple[str, ...] = ()
    made: Callable[[Book, Scenario, float, str], Sequence[Change]] | None = None
    factor: str = ""
    share: str = ""

    def ask(self, book: Book, scenario: Scenario, number: float = 0.0, pick: str = "") -> Scenario:
        """Return the scenario that the question means, on top of another one.

        Raises
        ------
        ScenarioError
            Where the number or the pick is impossible: which card, what came, what is allowed.
        """
        known = self.picks(book) if self.picks else ()
        if self.unit and not self.low <= number <= self.high:
            raise ScenarioError(f"{self.name} {number:g} {self.unit}: impossible; give {self.low:g} to {self.high:g}")
        if self.unit in ("quarters", "days") and number != int(number):
            raise ScenarioError(f"{self.name} {number:g} {self.unit}: impossible; give a whole number")
        if self.picks and pick not in known:
            raise ScenarioError(f"{self.name}: {pick!r} is not in the book" if known else f"{self.name}: the book has nothing to pick from")
        values = {
            "pick": quoted(pick) if pick else "",
            "number": repr(number),
            "whole": f"{int(number):+d}",
            "factor": repr(1 + number / 100),
            "share": repr(number / 100),
        }
        if pick == EVERYTHING:
            return scenario.replaced(demand_factor=scenario.demand_factor * (1 + number / 100))
        moved = (
            {self.factor: getattr(scenario, self.factor) * (1 + number / 100)}
            if self.factor
            else {self.share: number / 100}
            if self.share
            else {}
        )
        changes = [Change.model_validate(line.format(**values)) for line in self.lines] + list(
            self.made(book, scenario, number, pick) if self.made else ()
        )
        return scenario.replaced(**moved, changes=(*scenario.changes, *changes)) if changes else scenario.replaced(**moved)

    def title(self, number: float, pick: str = "") -> str:
        """Name the column that answers."""
        size = f"{number:+g}" if self.low < 0 else f"{number:g}"
        return " ".join(part for part in (self.name.rstrip(":"), pick, f"{size} {self.unit}" if self.unit else "") if part)


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
        for table in (each for each in ("usage", "demand_scenarios", "training_runs") if each in book.own):
            rows = book.get(table)
            rows = rows[rows["workload"] == name]
            columns = ("quantity", "tokens") if table == "training_runs" else ("quantity",)
            filled = [column for column in columns if rows[column].notna().any()]
            lines += [Change(table=table, where={"workload": name}, column=column, multiply=1 + percent / 100) for column in filled]
    return lines


def _late(book: Book, _: Scenario, days: float, __: str) -> Sequence[Change]:
    """Deliver everything later, for sure, instead of what the book says may happen."""
    gone = [Change(table="delivery_states", remove=True)] if len(book.get("delivery_states")) else []
    return [*gone, Change(table="delivery_states", add={"state": "late", "probability": 1, "late_days": days})]


def _next_generation(book: Book, scenario: Scenario, speed_up: float, pick: str) -> Sequence[Change]:
    """Offer, from the middle of the horizon on, an accelerator that does this many times the work of an offer's, at the offer's price."""
    offer = book.get("offers").set_index("offer_id").loc[pick]
    old = str(book.get("skus").set_index("sku").loc[offer["sku"], "accelerator"])
    new, sku = f"next after {old}", f"next-{offer['sku']}"
    opens = (quarter_start(scenario.first_quarter).to_period("Q") + scenario.horizon_quarters // 2).start_time
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
        Change(table="offers", like=pick, add={"offer_id": f"next-{pick}", "sku": sku, "available_from": f"{opens:%Y-%m-%d}"}),
    ]


def _api_prices(book: Book, _: Scenario, percent: float, pick: str) -> Sequence[Change]:
    contracts = book.get("api_contracts")
    contracts = contracts[contracts["workload"] == pick]
    stated = [
        name for name in ("input_usd_per_million", "cached_usd_per_million", "output_usd_per_million") if contracts[name].notna().any()
    ]
    if not stated:
        raise ScenarioError(f"API prices change by: {pick} has no contract that states its prices; write them into api_contracts.csv")
    return [Change(table="api_contracts", where={"workload": pick}, column=name, multiply=1 + percent / 100) for name in stated]


def _bought(book: Book) -> Sequence[str]:
    """List the offers that are signed or bought: what is rented by the hour has no first day."""
    offers = book.get("offers")
    return tuple(offers.loc[~offers["term"].isin(["on_demand", "spot"]), "offer_id"])


_RUNS, _OFFERS, _CONTRACTS = _names("training_runs", "run_id"), _names("offers", "offer_id"), _names("commitments", "commitment_id")
_SPOT = tuple(f"offers where term=spot multiply {name} {{number}}" for name in ("usd_per_hour", "negotiated_usd_per_hour"))
#: The questions in the order of the board.
CARDS = (
    Card("Demand changes by", "%", 30, -90, 900, _work, made=_demand),
    Card("Budgets change by", "%", -15, -100, 200, factor="budget_factor"),
    Card("Unsigned prices change by", "%", -20, -90, 900, factor="price_factor"),
    Card("This quote instead:", "USD/h", 10, 0.001, 100_000, _OFFERS, ("offers.{pick} set negotiated_usd_per_hour {number}",)),
    Card("This quote is prepaid:", "%", 25, 0, 100, _OFFERS, ("offers.{pick} set upfront_share {share}",)),
    Card("A run slips by", "quarters", 2, 1, 12, _RUNS, ("shift training_runs.{pick} {whole} quarters",)),
    Card("A run is dropped:", picks=_RUNS, lines=("remove training_runs.{pick}",)),
    Card("Spot prices are multiplied by", "times", 2, 0.01, 100, lines=_SPOT),
    Card("Spot is gone", lines=("remove offers where term=spot",)),
    Card("No capital is spent", lines=("add limit {{limit_id: no-capex, kind: budget_usd, amount: 0, measure: capex}}",)),
    Card("Deliveries slip by", "days", 90, 1, 1000, made=_late),
    Card("A new generation is faster:", "times", 2, 0.1, 100, _bought, made=_next_generation),
    Card("A contract is extended by", "quarters", 4, 1, 12, _CONTRACTS, ("shift commitments.{pick} end {whole} quarters",)),
    Card("A contract lapses:", picks=_CONTRACTS, lines=("commitments.{pick} set renews false",)),
    Card("A contract renews:", picks=_CONTRACTS, lines=("commitments.{pick} set renews true",)),
    Card("API prices change by", "%", -50, -99, 900, _either, made=_api_prices),
    Card("No API for", picks=_either, lines=("workloads.{pick} set host self",)),
    Card("Bad cases weigh", "%", 50, 0, 100, share="risk_weight"),
    Card("Work that must be served:", "%", 99, 0, 100, share="service_level_share"),
)
