"""Operating points: how a service could run on each accelerator, how fast, and on what that rests."""

from typing import Any

import numpy as np
import pandas as pd

from capplan.book.assumptions.serving import ServingAssumptions
from capplan.book.book import reference_tables
from capplan.errors import CapplanError, nearest
from capplan.questions.serving.measured import CURVE, METRICS, SAME_TOKENS_SHARE, interpolate, usable_runs
from capplan.questions.serving.performance import MEASURED_FACTOR, UNFINISHED, band_width, replica_performance, spread_of
from capplan.questions.serving.replica_memory import PARALLEL, model_of, replica_memory, smallest_replica

#: Number format of weights where neither the service nor a measurement states one.
UNSTATED_PRECISION = "fp8"
#: Loads that are tried: requests at once in one replica.
LOADS = (1, *(load for power in range(1, 13) for load in (2**power, 3 * 2 ** (power - 1))))
COLUMNS = (
    "accelerator accelerators engine precision concurrency first_token_seconds token_seconds first_token_seconds_high token_seconds_high"
    " first_token_width token_width first_token_error_share token_error_share basis note"
).split()


def service_of(service: pd.Series | pd.DataFrame) -> pd.Series:
    """Return the one row of the table services that is asked about, with defaults of columns it leaves out.

    Raises:
        CapplanError: If there is not exactly one row, or a share or number of tokens is out of bounds.
    """
    if isinstance(service, pd.DataFrame):
        if len(service) != 1:
            raise CapplanError(f"size_fleet takes one service, and got {len(service)} rows; choose one workload of the services table")
        service = service.iloc[0]
    row = service.copy()
    for name in ("workload", "model", "input_tokens", "output_tokens"):
        if name not in row or pd.isna(row[name]):
            raise CapplanError(f"the service states no {name}; the table services needs it")
    for name, default in (
        ("hosted_model", None),
        ("precision", None),
        ("cached_share", 0.0),
        ("concurrency_limit", np.nan),
        ("small_model", None),
    ):
        if name not in row or pd.isna(row[name]):
            row[name] = default
    if not (row["input_tokens"] > 0 and row["output_tokens"] >= 0):
        raise CapplanError(
            f"{row['workload']}: {row['input_tokens']:g} input and {row['output_tokens']:g} output tokens; input must be above 0, output"
            " from 0 on"
        )
    if not 0 <= row["cached_share"] <= 1:
        raise CapplanError(f"{row['workload']}: cached_share is {row['cached_share']:g}; it is a share from 0 to 1, so 90 % is 0.9")
    row["served_model"] = row["hosted_model"] or row["model"]
    return row


def targets_of(service: pd.Series, a: ServingAssumptions) -> tuple[float, float]:
    """Return the targets for the first token and for each further token, seconds; infinite where none is stated."""
    found = [service.get(name) for name in ("first_token_seconds_p95", "token_seconds_p95")]
    first, token = (np.inf if value is None or pd.isna(value) else float(value) * a.target_factor for value in found)
    return first, token


def within_limit(points: pd.DataFrame, service: pd.Series) -> pd.DataFrame:
    """Return the points that a service allows as it is set up today.

    Raises:
        CapplanError: If none is as small.
    """
    limit = service["concurrency_limit"]
    if pd.isna(limit):
        return points
    part = points[points["concurrency"] <= limit]
    if part.empty:
        raise CapplanError(
            f"{service['workload']}: no operating point has {limit:g} requests at once or fewer; the smallest listed has"
            f" {points['concurrency'].min():g}. Raise concurrency_limit in services.csv"
        )
    return part


def operating_points(
    service: pd.Series | pd.DataFrame,
    serving_runs: pd.DataFrame,
    a: ServingAssumptions,
    *,
    models: pd.DataFrame | None = None,
    accelerators: pd.DataFrame | None = None,
    names: list[str] | None = None,
) -> pd.DataFrame:
    """List how a service could run: accelerator, size of a replica, requests at once, and the latency that comes of it.

    Measured points of this very model and request length are taken as they are; where there are none on an accelerator, loads from 1 on are
    tried on every size of replica that holds the model, and the latency is measured where this very setup was, calibrated where measured
    curves of
    others allow it, and modelled elsewhere.

    Args:
        models, accelerators: Tables of these names; the reference facts where none are given.
        names: Accelerators to look at; all that were measured with this model, or all there are, where none are named.

    Returns:
        DataFrame: accelerator, accelerators (of one replica), engine, precision, concurrency, first_token_seconds and token_seconds
            (means), the same with _high (at target_share of requests), first_token_width and token_width (of the logarithm, over requests),
            first_token_error_share and token_error_share (how much longer it may be), basis, note; in a fixed order.

    Raises:
        CapplanError: If the model or an accelerator is unknown (naming the nearest), or the model fits no listed machine.
    """
    row = service_of(service)
    runs = usable_runs(serving_runs, a.use_unfinished_runs) if len(serving_runs) else serving_runs
    own = _own_runs(row, runs)
    machines = reference_tables()["accelerators"] if accelerators is None else accelerators
    wanted = _names(row, own, machines, a, names)
    measured = _measured(row, own[own["accelerator"].isin(wanted)], a) if len(own) else pd.DataFrame(columns=COLUMNS)
    rest = [name for name in wanted if name not in set(measured["accelerator"])]
    parts = [measured] if len(measured) else []
    if rest:
        table = reference_tables()["models"] if models is None else models
        tried = _tried(row, serving_runs, table, machines, rest, a, required=not len(measured))
        parts += [tried] if len(tried) else []
    points = pd.concat(parts, ignore_index=True)
    return points.sort_values(["accelerator", "accelerators", "engine", "concurrency"], kind="stable", ignore_index=True)[COLUMNS]


def _own_runs(row: pd.Series, runs: pd.DataFrame) -> pd.DataFrame:
    """Return the measurements of the service's model, in its number format where it states one."""
    own = runs[runs["model"] == row["served_model"]] if len(runs) else runs
    return own[own["precision"] == row["precision"]] if len(own) and row["precision"] is not None else own


def _names(row: pd.Series, own: pd.DataFrame, machines: pd.DataFrame, a: ServingAssumptions, names: list[str] | None) -> list[str]:
    """Return the accelerators to look at."""
    known = [*machines["accelerator"], *(own["accelerator"] if len(own) else [])]
    chosen = [a.serving_accelerator] if a.serving_accelerator else names
    if chosen is None:
        chosen = sorted(set(own["accelerator"])) if len(own) else list(machines["accelerator"])
    for name in chosen:
        if name not in known:
            raise CapplanError(f"{row['workload']}: there is no accelerator {name!r}; {nearest(name, known)}")
    return list(dict.fromkeys(chosen))


def _measured(row: pd.Series, own: pd.DataFrame, a: ServingAssumptions) -> pd.DataFrame:
    """Take the measured points whose requests are as long as the service's."""
    near = pd.concat([np.abs(np.log(own[name] / max(float(row[name]), 1.0))) for name in ("input_tokens", "output_tokens")], axis=1)
    own = own[(near <= np.log1p(SAME_TOKENS_SHARE)).all(axis=1)]
    if own.empty:
        return pd.DataFrame(columns=COLUMNS)
    setups = own.drop_duplicates([*CURVE, "concurrency"]).reset_index(drop=True)
    found = interpolate(setups, own)
    for name in METRICS:
        setups[name] = found[name]
    ratios = {"first_token_seconds": a.first_token_p99_ratio, "token_seconds": a.token_p99_ratio}
    for name, ratio in ratios.items():
        widths = np.array([spread_of(value) for value in (found[f"{name}_p99"] / found[name]).fillna(ratio).clip(lower=1.0)])
        setups[f"{name}_high"] = setups[name] * _quantile(widths, a.target_share)
        setups[f"{name.removesuffix('_seconds')}_width"] = widths
    setups["first_token_error_share"] = setups["token_error_share"] = MEASURED_FACTOR ** band_width(a.performance_band_share) - 1
    note = np.where(found["unfinished"], UNFINISHED, "")
    return setups.assign(basis="measured", note=note)[COLUMNS]


def _tried(
    row: pd.Series,
    serving_runs: pd.DataFrame,
    models: pd.DataFrame,
    machines: pd.DataFrame,
    names: list[str],
    a: ServingAssumptions,
    *,
    required: bool,
) -> pd.DataFrame:
    """Try every size of replica and load on the accelerators, as far as the memory reaches."""
    model, own = model_of(models, row["served_model"]), _own_runs(row, serving_runs)
    precision = row["precision"] or (own["precision"].mode().iloc[0] if len(own) else UNSTATED_PRECISION)
    length = float(row["input_tokens"]) + float(row["output_tokens"])
    kept: dict[str, Any] = {"precision": precision, "cache_precision": a.cache_precision, "reserve_share": a.reserve_memory_share}
    widths, setups = [count for count in PARALLEL if count <= a.most_accelerators_per_replica], []
    for name in names:
        memory = float(machines.loc[machines["accelerator"] == name, "memory_gib"].iloc[0])
        known = (serving_runs["model"] == row["served_model"]) & (serving_runs["accelerator"] == name) if len(serving_runs) else []
        engines = sorted(set(serving_runs.loc[known, "engine"] if len(serving_runs) else ())) or [a.serving_engine]
        for width in widths:
            room = replica_memory(model, memory, width, length, **kept).concurrency
            setups += [
                {"accelerator": name, "accelerators": width, "engine": engine, "concurrency": load}
                for engine in engines
                for load in LOADS
                if load <= room
            ]
    if not setups:
        if required:
            largest = machines[machines["accelerator"].isin(names)].sort_values("memory_gib").iloc[-1]
            smallest_replica(model, largest, length, most_accelerators=a.most_accelerators_per_replica, **kept)
        return pd.DataFrame(columns=COLUMNS)
    asked = pd.DataFrame(setups).assign(
        model=row["served_model"],
        precision=precision,
        cache_precision=a.cache_precision,
        input_tokens=float(row["input_tokens"]),
        output_tokens=max(1.0, float(row["output_tokens"])),
    )
    found = replica_performance(asked, serving_runs, models, machines, a)
    for name in METRICS:
        widths = np.sqrt(np.maximum(0.0, -2 * np.log(np.minimum(1.0, found[f"{name}_p50"] / found[name]))))
        found[f"{name}_high"] = found[name] * _quantile(widths, a.target_share)
        found[f"{name.removesuffix('_seconds')}_width"] = widths
    return found[COLUMNS]


def _quantile(widths: np.ndarray, share: float) -> np.ndarray:
    """Return the quantile of a log-normal distribution over its mean, by the width of its logarithm."""
    from scipy.special import ndtri

    return np.exp(np.asarray(widths) * ndtri(share) - np.asarray(widths) ** 2 / 2)
