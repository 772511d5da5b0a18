"""One hosted service: its traffic, the accelerator it runs on, and a fleet in each region."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from capplan.book.assumptions.serving import ServingAssumptions
from capplan.errors import CapplanError, named, nearest
from capplan.questions.serving.choice import accelerator_choices
from capplan.questions.serving.latency import NO_WAIT, NOTHING, Machine, outside_parts, surface_time
from capplan.questions.serving.operating_points import operating_points, service_of, targets_of
from capplan.questions.serving.size_fleet import Fleet, staff_fleet

#: Traffic of the last weeks that fleets are sized on.
DAYS = 28


@dataclass(frozen=True)
class Hosted:
    """A hosted service with the accelerator it runs on."""

    #: service, choices, points: Row of services, what each accelerator does, all operating points.
    service: pd.Series
    choices: pd.DataFrame
    points: pd.DataFrame
    fleets: Mapping[str, Fleet]  #: Fleet by region of demand.
    notes: tuple[str, ...]  #: Surfaces whose target could not be kept.

    @property
    def point(self) -> pd.Series:
        """The operating point chosen: the cheapest accelerator's."""
        return self.choices.iloc[0]

    @property
    def hours(self) -> pd.DataFrame:
        """Hours of all regions, added up: hour, requests, replicas, accelerators, accelerators_upper, busy_share."""
        width = int(self.point["accelerators"])
        parts = pd.concat([fleet.hours for fleet in self.fleets.values()])
        parts = parts.assign(working=parts["accelerators"] * parts["busy_share"], accelerators_upper=parts["replicas_upper"] * width)
        table = parts.groupby("hour", as_index=False)[["requests", "replicas", "accelerators", "accelerators_upper", "working"]].sum()
        busy = np.divide(table["working"], table["accelerators"], out=np.zeros(len(table)), where=table["accelerators"].to_numpy() > 0)
        return table.drop(columns="working").assign(busy_share=busy)


@dataclass(frozen=True)
class ServingTables:
    """What every service of a book is hosted on: tables of these names, and prices from `cheapest_hours`."""

    usage: pd.DataFrame
    serving_runs: pd.DataFrame
    models: pd.DataFrame
    accelerators: pd.DataFrame
    speeds: pd.DataFrame
    surfaces: pd.DataFrame
    latency_parts: pd.DataFrame
    prices: pd.DataFrame


def host_service(row: pd.Series, tables: ServingTables, a: ServingAssumptions, points: pd.DataFrame | None = None) -> Hosted:
    """Choose the accelerator that serves a service for least, and size a fleet in every region.

    The target for the first token is the service's own, or what its surfaces leave of theirs where that is tighter. Accelerators are those
    the speeds table names for the workload and that are offered; all that are offered, where it names none.

    Args:
        row: A row of services with its workload's columns.
        points: How it could run (`Hosted.points`), where that is known already: no latency target changes it.

    Raises:
        CapplanError: If there is no traffic, no machine holds the model, or none meets the target.
    """
    service = service_of(row)
    if "unit" in row and row["unit"] != "requests":
        raise CapplanError(
            f"{row['workload']} is measured in {row['unit']}, and a service is sized on requests; set its unit to requests in workloads.csv"
            " and count them in usage.csv"
        )
    stated = tables.speeds.loc[tables.speeds["workload"] == row["workload"], "accelerator"]
    offered = sorted(set(tables.prices["accelerator"]) & set(tables.accelerators["accelerator"]))
    names = [name for name in stated if name in offered] or offered
    if points is None:
        with named(f"{row['workload']} (services.csv)"):
            points = operating_points(service, tables.serving_runs, a, models=tables.models, accelerators=tables.accelerators, names=names)
    target, notes = _first_token_target(service, points, tables.surfaces, tables.latency_parts, a)
    traffic = recent_traffic(tables.usage, str(row["workload"]))
    asked = [part["requests"].to_numpy(dtype=float) for _, part in traffic.groupby("region", sort=True)]
    with named(f"{row['workload']} (services.csv)"):
        choices = accelerator_choices(service, points, tables.prices, a, asked, target)
    fleets = {
        str(region): staff_fleet(part, choices.iloc[0], float(service["output_tokens"]), target, a)
        for region, part in traffic.groupby("region", sort=True)
    }
    length = interval_hours(tables.usage[tables.usage["workload"] == row["workload"]])
    if length > 1:
        notes.append(
            f"{row['workload']}: usage comes in intervals of {length} hours and is spread evenly over them; its peaks are higher than"
            " shown. Give hourly usage."
        )
    return Hosted(service, choices, points, fleets, tuple(notes))


def recent_traffic(usage: pd.DataFrame, workload: str) -> pd.DataFrame:
    """Return the last four weeks of a workload's traffic: region, hour, requests (asked for, refused ones included).

    Intervals longer than an hour are spread evenly over their hours; shorter ones are added up.

    Raises:
        CapplanError: If it has none.
    """
    part = usage[usage["workload"] == workload]
    if part.empty:
        raise CapplanError(f"usage has no row of the served workload {workload}; {nearest(workload, usage['workload'].unique())}")
    part = part[part["time"] > part["time"].max() - pd.Timedelta(days=DAYS)]
    asked = part["quantity"] + (part["refused_quantity"].fillna(0.0) if "refused_quantity" in part else 0.0)
    part = part.assign(requests=asked, hour=part["time"].dt.floor("h"))
    table = part.groupby(["region", "hour"], as_index=False)["requests"].sum()
    length = interval_hours(part)
    if length > 1:
        table = table.loc[table.index.repeat(length)].reset_index(drop=True)
        table["hour"] += pd.to_timedelta(table.groupby(["region", "hour"]).cumcount(), unit="h")
        table["requests"] /= length
    return table


def interval_hours(usage: pd.DataFrame) -> int:
    """Return how many hours an interval of usage lasts (1 for an hour or less)."""
    times = pd.Series(usage["time"].unique()).sort_values()
    return max(1, round(times.diff().median() / pd.Timedelta(hours=1))) if len(times) > 1 else 1


def _first_token_target(
    service: pd.Series, points: pd.DataFrame, surfaces: pd.DataFrame, latency_parts: pd.DataFrame, a: ServingAssumptions
) -> tuple[float, list[str]]:
    """Return the tightest target for the first token that some machine can keep, and the surfaces that none can."""
    target, notes = targets_of(service, a)[0], []
    quickest = float(points["first_token_seconds_high"].min())
    own = surfaces[(surfaces["workload"] == service["workload"]) & (surfaces["measure"] == "first_token")]
    for row in own.itertuples():
        way = outside_parts(latency_parts, str(row.surface))
        outside = surface_time(way, NO_WAIT, Machine(NOTHING, NOTHING), float(row.target_share)).seconds
        left = float(row.target_seconds) * a.target_factor - outside
        if left > quickest:
            target = min(target, left)
        else:
            notes.append(
                f"{row.surface}: network, retrieval and the like leave {max(0.0, left):.2f} s for the first token, and the quickest machine"
                f" takes {quickest:.2f} s; the fleet is sized without this target, and its budget is missed."
            )
    return target, notes
