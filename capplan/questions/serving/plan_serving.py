"""The whole answer about serving: every hosted service's fleet, one of them replayed, levers, latency budget and loaded cost."""

from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

from capplan.book.assumptions.serving import ServingAssumptions
from capplan.errors import CapplanError, nearest
from capplan.questions.serving.autoscale import Replay
from capplan.questions.serving.choice import length_notes, speed_check, speed_notes
from capplan.questions.serving.close_look import budget_of, busiest_region, formulas_note, formulas_under_bursts, levers_of, policies_of
from capplan.questions.serving.cost import feature_costs, fleet_components, loaded_costs
from capplan.questions.serving.hosted import DAYS, Hosted, ServingTables, host_service, recent_traffic
from capplan.questions.serving.latency import Budget
from capplan.questions.serving.levers import Levers
from capplan.questions.serving.staffing import held_error_share
from capplan.records import records

MONTHS = DAYS / (365.25 / 12)


@dataclass(frozen=True)
class Serving:
    """How the served workloads run.

    Args:
        workload, region: The one looked at closely.
        hosted: Every hosted service.
        policies: policy, slo_share, shed_share, routed_share, accelerator_hours: the busiest day with a burst, replayed.
        replay: The planned policy's replay.
        bursts: burst_factor, formula_share, simulated_share, valid: up to which burst within an hour the queueing formulas hold.
        levers, budget: Savings before hardware, and the latency budget by surface.
        costs, features: Loaded costs by component, and by feature.
        speeds: The book's stated speeds against what is known.
        headline, notes: One sentence with the number that decides, and what was assumed.
    """

    workload: str
    region: str
    hosted: Mapping[str, Hosted]
    policies: pd.DataFrame
    replay: Replay
    bursts: pd.DataFrame
    levers: Levers
    budget: Budget
    costs: pd.DataFrame
    features: pd.DataFrame
    speeds: pd.DataFrame
    headline: str
    notes: tuple[str, ...]


def plan_serving(
    services: pd.DataFrame,
    workloads: pd.DataFrame,
    tables: ServingTables,
    a: ServingAssumptions,
    *,
    other_costs: pd.DataFrame,
    api_usd_per_request: Mapping[str, float] | None = None,
    requests: pd.DataFrame | None = None,
) -> Serving:
    """Size every hosted service on the last four weeks of its traffic, and look at one of them closely.

    Args:
        other_costs: Rows of other_costs of one month.
        api_usd_per_request: What a request costs at an API, by workload, for services that are called and not hosted.
        requests: The table requests, where there is a request log: its tokens are held against those the services state.

    Raises:
        CapplanError: If no service is hosted, one has no traffic, no machine holds a model, or none meets a target.
    """
    table = services.merge(workloads, on="workload", how="left", suffixes=("", "_workload"))
    own = table[table["host"].isin(["self", "either"])]
    if own.empty:
        raise CapplanError(
            "no service runs on own or rented accelerators (host is api for all of them); set host to self or either in workloads.csv"
        )
    hosted = {str(row["workload"]): host_service(row, tables, a) for _, row in own.iterrows()}
    chosen = _chosen(hosted, a)
    one = hosted[chosen]
    region = busiest_region(one)
    policies, replay = policies_of(one, region, tables.models, a)
    bursts = formulas_under_bursts(one, region, a)
    levers = levers_of(one, region, tables.models, tables.accelerators, a)
    budget = budget_of(hosted, tables.surfaces, tables.latency_parts, a)
    served, components = _served(table, hosted, tables.usage, api_usd_per_request or {}, a)
    costs = loaded_costs(served, components, other_costs, MONTHS, _overhead_share(workloads, tables.usage, tables.speeds, served))
    checks = pd.concat([speed_check(name, item.choices, tables.speeds) for name, item in hosted.items()], ignore_index=True)
    notes = *_basis_notes(hosted), *length_notes(services, requests), *speed_notes(checks), *levers.notes, *replay.notes
    features, headline = feature_costs(costs, served), _headline(one, policies, levers, a)
    looked = policies, replay, bursts, levers, budget
    return Serving(chosen, region, hosted, *looked, costs, features, checks, headline, (*notes, formulas_note(bursts, a)))


def _chosen(hosted: Mapping[str, Hosted], a: ServingAssumptions) -> str:
    """Return the workload to look at closely."""
    if not a.serving_workload:
        return max(hosted, key=lambda name: float(hosted[name].hours["accelerators"].sum()))
    if a.serving_workload not in hosted:
        raise CapplanError(
            f"serving_workload names {a.serving_workload!r}, which is no hosted service; {nearest(a.serving_workload, hosted)}"
        )
    return a.serving_workload


def _served(
    table: pd.DataFrame, hosted: Mapping[str, Hosted], usage: pd.DataFrame, api_usd: Mapping[str, float], a: ServingAssumptions
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the served workloads with requests and tokens, and what their compute costs by component."""
    rows, parts = [], []
    for row in records(table):
        name = str(row["workload"])
        if name not in hosted and name not in api_usd:
            continue
        requests = float(recent_traffic(usage, name)["requests"].sum())
        feature = row.get("feature")
        rows.append(
            {
                "workload": name,
                "feature": name if feature is None or pd.isna(feature) else str(feature),
                "cost_center": str(row["cost_center"]),
                "requests": requests,
                "tokens": requests * (float(row["input_tokens"]) + float(row["output_tokens"])),
            }
        )
        if name in hosted:
            price = float(hosted[name].point["usd_per_accelerator_hour"])
            for fleet in hosted[name].fleets.values():
                split = fleet_components(fleet.hours, a.spare_replicas, price)
                parts += [{"workload": name, "component": part, "usd": usd} for part, usd in split.items()]
        else:
            parts.append({"workload": name, "component": "api", "usd": requests * api_usd[name]})
    return pd.DataFrame(rows), pd.DataFrame(parts).groupby(["workload", "component"], as_index=False, sort=False)["usd"].sum()


def _overhead_share(workloads: pd.DataFrame, usage: pd.DataFrame, speeds: pd.DataFrame, served: pd.DataFrame) -> float:
    """Return serving's share of all accelerator work of the last weeks, by each workload's fastest stated speed."""
    fastest = speeds.groupby("workload")["work_per_accelerator_hour"].max()
    part = usage[(usage["time"] > usage["time"].max() - pd.Timedelta(days=DAYS)) & usage["workload"].isin(workloads["workload"])]
    hours = (part.groupby("workload")["quantity"].sum() / fastest).dropna()
    return float(hours[hours.index.isin(served["workload"])].sum() / hours.sum()) if hours.sum() > 0 else 1.0


def _basis_notes(hosted: Mapping[str, Hosted]) -> list[str]:
    """Say on what each fleet rests, and how far it could be off."""
    notes = []
    for name, item in hosted.items():
        point = item.point
        error = held_error_share(point, float(item.service["output_tokens"]))
        width = f"a factor of {1 + error:.1f}" if error > 0.5 else f"about {error:.0%}"
        notes.append(
            f"{name}: {item.service['served_model']} in {point['precision']} on {int(point['accelerators'])} {point['accelerator']} a"
            f" replica, {int(point['concurrency'])} requests at once; its latency is {point['basis']}, within"
            f" {width}{'; ' if point['note'] else ''}{point['note']}."
        )
        notes += list(item.notes)
    return notes


def _headline(one: Hosted, policies: pd.DataFrame, levers: Levers, a: ServingAssumptions) -> str:
    """Say in one sentence how large the fleet is, what a burst does to it, and what could be saved first."""
    hours = one.hours
    peak, mean = int(hours["accelerators"].max()), float(hours["accelerators"].mean())
    if peak == 0:
        return f"{one.service['workload']} has no traffic and needs no accelerator."
    planned = policies.iloc[-1]
    saved = 1 - levers.together_usd / levers.base_usd if levers.base_usd else 0.0
    return (
        f"{one.service['workload']} needs {peak:,} {one.point['accelerator']} in its busiest hour and {mean:,.0f} on average"
        f" ({one.point['basis']}); with a burst of {a.burst_factor:g} times the traffic, {planned['slo_share']:.1%} of the day's requests"
        f" are answered in time; the levers before hardware could save {saved:.0%}."
    )
