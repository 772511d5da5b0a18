"""Which accelerator serves a workload for least, and whether the book's stated speeds agree with what is known of the model."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from capplan.book.assumptions.serving import ServingAssumptions
from capplan.errors import CapplanError
from capplan.questions.serving.operating_points import service_of, targets_of, within_limit
from capplan.questions.serving.staffing import cheapest_point, feasible_points, held_error_share

#: Mean tokens of a request log this far (share) from what the services state are named.
LENGTH_TOLERANCE_SHARE = 0.1
#: A stated speed this far (factor) outside the band of the throughput known is named.
TOLERANCE_FACTOR = 1.05


def cheapest_hours(prices: pd.DataFrame, geographies: tuple[str, ...] = (), providers: tuple[str, ...] = ()) -> pd.DataFrame:
    """Say what an accelerator-hour costs at least, by the hour and under a commitment.

    Args:
        prices: Answer of `price_hours`.
        geographies, providers: Those that may be used; empty = all.

    Returns:
        DataFrame: accelerator, on_demand_usd, committed_usd (empty where none is offered), usd_per_accelerator_hour (on demand, or else
            committed).
    """
    part = prices[prices["geography"].isin(geographies)] if geographies else prices
    part = part[part["provider"].isin(providers)] if providers else part
    hourly = part[part["term"] == "on_demand"].groupby("accelerator")["effective_usd_per_accelerator_hour"].min()
    held = part[~part["term"].isin(["on_demand", "spot"])].groupby("accelerator")["effective_usd_per_accelerator_hour"].min()
    table = pd.concat([hourly.rename("on_demand_usd"), held.rename("committed_usd")], axis=1).sort_index()
    table["usd_per_accelerator_hour"] = table["on_demand_usd"].fillna(table["committed_usd"])
    return table.rename_axis("accelerator").reset_index()


def accelerator_choices(
    service: pd.Series,
    points: pd.DataFrame,
    prices: pd.DataFrame,
    a: ServingAssumptions,
    traffics: Sequence[np.ndarray],
    first_token_seconds: float | None = None,
) -> pd.DataFrame:
    """Say what each accelerator serves an hour within the latency targets, and what the whole traffic costs on it.

    Args:
        points: From `operating_points`.
        prices: From `cheapest_hours`.
        traffics: Requests of each hour, one array a fleet (region).
        first_token_seconds: Target for the first token; the service's own where none is given.

    Returns:
        DataFrame: The cheapest point of each accelerator that meets the targets, with requests_per_accelerator_hour (all slots taken), its
            band (_lower, _upper), usd_per_accelerator_hour, usd (of the sized fleets over all hours) and usd_per_thousand_requests;
            cheapest first, those without a price last.

    Raises:
        CapplanError: If no accelerator meets the targets, saying which part of the budget breaks.
    """
    row = service_of(service)
    first, token = targets_of(row, a)
    first = first if first_token_seconds is None else first_token_seconds
    points = within_limit(points, row).merge(prices[["accelerator", "usd_per_accelerator_hour"]], on="accelerator", how="left")
    rows = []
    for _, part in points.groupby("accelerator", sort=True):
        try:
            able = feasible_points(part, float(row["output_tokens"]), first, token)
        except CapplanError:
            continue
        place, usd = cheapest_point(able, traffics, first, a)
        rows.append({**able.iloc[place].to_dict(), "usd": usd})
    if not rows:
        feasible_points(points, float(row["output_tokens"]), first, token)
    table = pd.DataFrame(rows)
    error = np.array([held_error_share(point, float(row["output_tokens"])) for _, point in table.iterrows()])
    table["requests_per_accelerator_hour_lower"] = table["requests_per_accelerator_hour"] / (1 + error)
    table["requests_per_accelerator_hour_upper"] = table["requests_per_accelerator_hour"] * (1 + error)
    requests = sum(float(one.sum()) for one in traffics)
    table["usd_per_thousand_requests"] = 1e3 * table["usd"] / requests if requests else np.nan
    return table.sort_values(["usd", "requests_per_accelerator_hour"], ascending=[True, False], ignore_index=True)


def speed_check(workload: str, choices: pd.DataFrame, speeds: pd.DataFrame) -> pd.DataFrame:
    """Hold the book's stated speeds against the throughput known of the model within its latency target.

    Args:
        choices: From `accelerator_choices`.

    Returns:
        DataFrame: workload, accelerator, stated, found, lower, upper (requests per accelerator-hour), stated_basis, basis, agrees.
    """
    stated = speeds.loc[speeds["workload"] == workload, ["accelerator", "work_per_accelerator_hour", "basis"]].rename(
        columns={"work_per_accelerator_hour": "stated", "basis": "stated_basis"}
    )
    names = {f"requests_per_accelerator_hour{end}": name for end, name in (("", "found"), ("_lower", "lower"), ("_upper", "upper"))}
    table = stated.merge(choices[["accelerator", *names, "basis"]].rename(columns=names), on="accelerator", how="inner")
    table["agrees"] = table["stated"].between(table["lower"] / TOLERANCE_FACTOR, table["upper"] * TOLERANCE_FACTOR)
    return table.assign(workload=workload)[
        ["workload", "accelerator", "stated", "found", "lower", "upper", "stated_basis", "basis", "agrees"]
    ]


def speed_notes(checks: pd.DataFrame) -> list[str]:
    """Name every stated speed that lies outside the band of what is known."""
    return [
        f"speeds.csv says that {row.workload} does {row.stated:,.0f} requests an hour on one {row.accelerator}; the {row.basis} throughput"
        f" within its latency target is {row.found:,.0f} ({row.lower:,.0f} to {row.upper:,.0f}). The purchase plan uses the stated one:"
        " measure, and correct the one that is wrong."
        for row in checks[~checks["agrees"].astype(bool)].itertuples()
    ]


def length_notes(services: pd.DataFrame, requests: pd.DataFrame | None) -> list[str]:
    """Name every service whose stated tokens are far from those of the request log: a fleet is sized on the length of its requests.

    Args:
        requests: The table requests (workload, requests, input_tokens, output_tokens); None or empty where there is no log.
    """
    if requests is None or requests.empty:
        return []
    sums = requests.groupby("workload")[["requests", "input_tokens", "output_tokens"]].sum()
    notes = []
    for row in services.itertuples():
        if row.workload not in sums.index or not sums.loc[row.workload, "requests"] > 0:
            continue
        for name in ("input_tokens", "output_tokens"):
            found, stated = float(sums.loc[row.workload, name] / sums.loc[row.workload, "requests"]), float(getattr(row, name))
            if abs(found - stated) > LENGTH_TOLERANCE_SHARE * max(found, 1.0):
                notes.append(
                    f"services.csv states {stated:,.0f} {name.replace('_', ' ')} for a request of {row.workload}; the request log's mean is"
                    f" {found:,.0f}. Correct the one that is wrong: the fleet is sized on the stated length."
                )
    return notes
