"""Whether a plan of a book can start: what the purchase plan needs, tried without forecasting or solving."""

import pandas as pd

from capplan.answers.named import unknown_names
from capplan.book.book import Book
from capplan.book.scenario import Scenario
from capplan.book.tables.registry import columns_of
from capplan.errors import CapplanError
from capplan.workers import workers

#: Tables of which a plan needs one, to know what work there will be.
WORK_TABLES = ("usage", "training_runs", "demand_scenarios")
#: Tables and assumptions that cannot stop a plan in any way that is not looked at here; where a book has more, its plan is rehearsed.
PLAIN_TABLES = {"usage", "workloads", "speeds", "commitments", "billing", "requests", "jobs", "sources"}
PLAIN_SETTINGS = {
    "name",
    "description",
    "as_of",
    "first_quarter",
    "horizon_quarters",
    "providers",
    "geographies",
    "excluded_offers",
    "on_demand_accelerators",
    "plan_paths",
    "paths",
    "seed",
    "gap_share",
    "risk_weight",
    "flip_search",
}
#: Optional columns of workloads that change what work needs or where it may run.
PLAIN_WORKLOADS = {"workload", "stage", "unit", "team", "deferrable", "interruptible", "host"}


def readiness(book: Book, scenario: Scenario) -> list[str]:
    """Say what keeps a plan of a book from starting.

    Returns:
        list of str: Every reason that was found; empty where the plan can start.
    """
    found: list[str] = []
    hosted = book.get("workloads").query("host != 'api'")
    if not set(WORK_TABLES) & set(book.own):
        found.append(
            f"the plan needs one of the tables {', '.join(WORK_TABLES)}; ingest usage: capplan ingest auto FILE --into {book.path}"
        )
    elif hosted.empty:
        found.append("no workload is self-hosted: every one runs through an API. Set host to self or either in workloads.csv")
    found += _without_speed(book, hosted)
    found += unknown_names(book, scenario)
    found += _unanswered(scenario)
    found = found or _supply(book, scenario)
    if not found and not _is_plain(book, scenario):
        from capplan.answers.rehearsal import rehearsed

        found = rehearsed(book, scenario)
    return found


def _unanswered(scenario: Scenario) -> list[str]:
    """Say whether the cluster that is to do the work does not answer."""
    if scenario.workers is None:
        return []
    try:
        with workers(scenario.workers):
            return []
    except CapplanError as error:
        return [str(error)]


def _is_plain(book: Book, scenario: Scenario) -> bool:
    """Say whether a book holds so little that nothing else can stop its plan."""
    workloads = book.get("workloads").dropna(axis="columns", how="all")
    stated = {column.name for column in columns_of("workloads") if column.default is None} & set(workloads)
    return (
        set(book.own) <= PLAIN_TABLES
        and set(scenario.model_dump(exclude_defaults=True)) <= PLAIN_SETTINGS
        and stated <= PLAIN_WORKLOADS
        and not workloads["host"].ne("self").any()
    )


def require_ready(book: Book, scenario: Scenario) -> None:
    """Raise one error with all that keeps a plan from starting."""
    found = readiness(book, scenario)
    if found:
        raise CapplanError(f"the tables of {book.name} are in order, but a plan cannot start: " + "; ".join(found))


def _without_speed(book: Book, hosted: pd.DataFrame) -> list[str]:
    """Name workloads of which it is not known how fast they run on any accelerator."""
    speeds = book.get("speeds")
    classes = hosted.assign(work_class=hosted["work_class"].fillna(hosted["workload"]))
    fast = set(speeds["workload"])
    known = set(classes.loc[classes["workload"].isin(fast), "work_class"])
    slow = classes.loc[~classes["work_class"].isin(known), ["workload", "unit"]]
    if slow.empty:
        return []
    names = ", ".join(slow["workload"])
    unit = slow["unit"].iloc[0]
    return [
        f"no speed is known for {names}: add rows to speeds.csv (workload, accelerator, work_per_accelerator_hour in {unit} an hour,"
        " basis), or give accelerator= and work_per_accelerator_hour= when ingesting; a model that serving_runs has is measured there"
    ]


def _supply(book: Book, scenario: Scenario) -> list[str]:
    """Say whether anything can be had for the work, and name offers that have ended and capacity blocks that begin too early."""
    speeds, machines = book.get("speeds"), book.get("skus").drop_duplicates("sku").set_index("sku")
    offers = book.get("offers").reset_index(drop=True)
    provider, accelerator = offers["sku"].map(machines["provider"]), offers["sku"].map(machines["accelerator"])
    wanted = accelerator.isin(speeds["accelerator"]) & ~offers["offer_id"].isin(scenario.excluded_offers)
    for names, column in ((scenario.providers, provider), (scenario.geographies, offers["geography"])):
        wanted &= column.isin(names) | (len(names) == 0)
    held = pd.concat([book.get(name)["sku"] for name in ("commitments", "assets")]).map(machines["accelerator"])
    if not wanted.any() and not held.isin(speeds["accelerator"]).any():
        return [
            "nothing can be had for this work: no offer of"
            f" {', '.join(scenario.providers) or 'any provider'}{' in ' + ', '.join(scenario.geographies) if scenario.geographies else ''}"
            " has an accelerator that speeds.csv names, and nothing is held; add offers or speeds, or state other providers"
        ]
    earliest = pd.Timestamp(scenario.as_of) + pd.to_timedelta(offers["lead_time_days_p50"].fillna(0.0), unit="D")
    late = wanted & (offers["term"] == "capacity_block") & (offers["available_from"] < earliest)
    ended = wanted & (offers["term"] != "capacity_block") & (offers["available_to"] < pd.Timestamp(scenario.as_of))
    places = pd.Series(book.lines_of("offers"), offers.index).map(lambda line: f"offers.csv, row {line}" if line else "reference offers")
    return [
        f"{places[row.Index]}, column available_to: {row.offer_id} could be signed until {row.available_to:%Y-%m-%d} and"
        f" has ended; delete the row, correct available_to, or write `excluded_offers: [{row.offer_id}]` into book.yaml"
        for row in offers[ended].itertuples()
    ] + [
        f"{places[row.Index]}, column available_from: the capacity block {row.offer_id} starts on"
        f" {row.available_from:%Y-%m-%d} and can be had on {earliest[row.Index]:%Y-%m-%d} at the earliest; delete the row, correct"
        f" available_from, or write `excluded_offers: [{row.offer_id}]` into book.yaml"
        for row in offers[late].itertuples()
    ]
