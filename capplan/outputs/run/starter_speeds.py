"""How fast the work of a first book runs: as its bills and contracts say, or by public measurements of the model that is served."""

import math
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from capplan.book.book import reference_tables
from capplan.book.places import shipped
from capplan.book.reader import read_table
from capplan.errors import CapplanError, nearest
from capplan.ingest.machines import Recogniser, hours_of_unit
from capplan.ingest.writing import write_tables

#: Accelerator of work in accelerator-hours where nothing says on which it runs.
USUAL_ACCELERATOR = "H100"
SECONDS_PER_HOUR = 3600
Ask = Callable[[str, Sequence[str]], str]


def _accelerators_at_hand(draft: Path) -> tuple[dict[str, pd.Series], pd.Series]:
    """Return the accelerator-hours each account was billed for by accelerator, and the accelerators one has under contract or owns."""
    known = reference_tables()
    recogniser = Recogniser(known["skus"], known["accelerators"])
    found = {}
    for table, name in (("billing", "machine"), ("commitments", "sku"), ("assets", "sku")):
        frame = read_table(draft / f"{table}.csv", table)[0] if (draft / f"{table}.csv").is_file() else pd.DataFrame({name: []})
        if table == "billing" and len(frame):
            frame = frame[(frame["bucket"] == "machine_hours") & (frame["quantity"] > 0)]
        machines = {text: recogniser.find(str(text)) for text in frame[name].unique()}
        of = frame[name].map(lambda text, machines=machines: getattr(machines[text], "accelerator", None))
        count = frame[name].map(lambda text, machines=machines: getattr(machines[text], "count", 0.0)).astype(float)
        found[table] = frame.assign(accelerator=of, count=count).dropna(subset=["accelerator"])
    bill = found.pop("billing")
    if len(bill):
        units = {unit: hours_of_unit(unit) or (0.0, False) for unit in bill["quantity_unit"].unique()}
        each = bill["count"].where(~bill["quantity_unit"].map(lambda unit: units[unit][1]), 1.0)
        bill = bill.assign(hours=bill["quantity"] * bill["quantity_unit"].map(lambda unit: units[unit][0]) * each)
    hours = {account: _largest(part, part["hours"]) for account, part in bill.groupby("account")} if len(bill) else {}
    held = pd.concat([part for part in found.values() if len(part)] or [pd.DataFrame({"accelerator": [], "machines": [], "count": []})])
    return hours, _largest(held, held["machines"] * held["count"])


def _largest(rows: pd.DataFrame, amount: pd.Series) -> pd.Series:
    return amount.groupby(rows["accelerator"]).sum().sort_values(ascending=False, kind="stable")


def starter_speeds(draft: Path, models: dict[str, str], ask: Ask | None, assumed: list[tuple[str, str, str]]) -> None:
    """State how fast workloads run that have no speed yet: accelerator-hours as they are, other work by a model's public measurements."""
    if not (draft / "workloads.csv").is_file():
        return
    workloads, _ = read_table(draft / "workloads.csv", "workloads")
    stated = set(read_table(draft / "speeds.csv", "speeds")[0]["workload"]) if (draft / "speeds.csv").is_file() else set()
    unknown = [name for name in models if name not in set(workloads["workload"])]
    if unknown:
        raise CapplanError(f"--model names the workload {unknown[0]!r}, which no file has; {nearest(unknown[0], workloads['workload'])}")
    billed, held = _accelerators_at_hand(draft)
    peak = reference_tables()["accelerators"].set_index("accelerator")["bf16_tflops"].astype(float)
    rows: list[dict[str, Any]] = []
    alike: dict[str, list[str]] = {}
    for row in workloads[~workloads["workload"].isin(stated) & (workloads["host"] != "api")].itertuples():
        if row.unit == "accelerator_hours":
            mine = billed.get(row.workload, held)
            chosen = list(mine.index) or [USUAL_ACCELERATOR]
            speed = {name: float(round(peak.get(name) / peak.get(chosen[0]), 2)) if len(chosen) > 1 else 1.0 for name in chosen}
            rows += [
                {"workload": row.workload, "accelerator": name, "work_per_accelerator_hour": speed[name], "basis": basis}
                for name, basis in zip(chosen, ("stated", *["modelled"] * len(chosen)), strict=False)
            ]
            where = (
                "as its bills say"
                if row.workload in billed
                else "the accelerators of contracts and machines"
                if len(mine)
                else "no file says which, so the most usual"
            )
            others = "".join(f"; an hour on one {name} counts {speed[name]:g} of that, the ratio of their peaks" for name in chosen[1:])
            alike.setdefault(f"{chosen[0]} ({where}){others}", []).append(str(row.workload))
        else:
            rows += _measured_speeds(draft, str(row.workload), str(row.unit), models, ask, assumed)
    for said, names in alike.items():
        whose = _some(names)
        assumed.append((f"{whose} {'runs' if len(names) == 1 else 'run'} on", said, f"speeds.csv, rows of {whose}"))
    if rows:
        write_tables({"speeds": pd.DataFrame(rows)}, draft)


def _measured_speeds(
    draft: Path, workload: str, unit: str, models: dict[str, str], ask: Ask | None, assumed: list[tuple[str, str, str]]
) -> list[dict[str, Any]]:
    """Take the speed of a workload from public measurements of the model that is served."""
    runs, _ = read_table(shipped("data") / "reference" / "serving_runs.csv", "serving_runs")
    known = sorted(runs["model"].unique())
    model = models.get(workload) or next((name for name in known if _plain(name) == _plain(workload)), "")
    if not model and ask is not None:
        model = ask(f"Which model is most like the one that serves {workload}?", known)
    if not model:
        raise CapplanError(
            f"{workload} is counted in {unit}, and nothing says which model serves it: give --model {workload}=MODEL, one of"
            f" {', '.join(known)}"
        )
    if model not in known:
        raise CapplanError(f"--model {workload}={model}: no public measurement of it comes with capplan; {nearest(model, known)}")
    runs = runs[runs["model"] == model]
    per_request, said, inputs = _tokens_per_request(draft, workload, unit, runs)
    best, how = _like_with_like(runs, inputs)
    assumed.append(
        (
            f"{workload} is served like {model}",
            (
                f"{', '.join(f'{rate * SECONDS_PER_HOUR / per_request:,.0f} {unit} an hour on one {name}' for name, rate in best.items())}"
                f" ({how}; {said})"
            ),
            f"speeds.csv, rows of {workload}; or --model {workload}=...",
        )
    )
    return [
        {
            "workload": workload,
            "accelerator": name,
            "work_per_accelerator_hour": float(rate) * SECONDS_PER_HOUR / per_request,
            "basis": "modelled",
        }
        for name, rate in best.items()
    ]


def _like_with_like(runs: pd.DataFrame, inputs: float | None) -> tuple[pd.Series, str]:
    """Return the output tokens a second of one accelerator of each kind, and what that rests on.

    Kinds are compared on requests of the same lengths and as many of them at once, each with the number of accelerators that does most;
    where no such requests were run on all of them, each kind has the median of its own.

    Args:
        inputs: Input tokens of a request; runs of the length nearest to it count, of all where it is not known.
    """
    # where a run states no throughput, it is what its requests in progress write
    written = runs["output_tokens_per_second"].fillna(runs["concurrency"] / runs["token_seconds"]) / runs["accelerators"]
    asked = runs[["input_tokens", "output_tokens", "concurrency"]]
    most = written.groupby([runs["accelerator"], *(asked[name] for name in asked)]).max().unstack("accelerator")
    alike = most.dropna()
    same = len(alike) > 0
    alike = alike if same else most
    if inputs:
        away = (np.log(alike.index.get_level_values("input_tokens").astype(float)) - math.log(inputs)).to_series().abs()
        alike = alike[(away == away.min()).to_numpy()]
    told = "median of public runs" + (", the same requests on each" if same else "")
    return alike.median().dropna(), told


def _some(names: Sequence[str], shown: int = 4) -> str:
    """Name a few workloads."""
    return ", ".join(names) if len(names) <= shown else f"{', '.join(names[:shown])} and {len(names) - shown} more"


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _tokens_per_request(draft: Path, workload: str, unit: str, runs: pd.DataFrame) -> tuple[float, str, float | None]:
    """Return how many output tokens one unit of the workload needs, whence that is known, and the input tokens of a request if it is."""
    if unit == "output_tokens":
        return 1.0, "the unit is output tokens", None
    per_request, inputs = float(runs["output_tokens"].median()), float(runs["input_tokens"].median())
    said, known = f"{per_request:,.0f} output tokens a request, as in those runs", None
    if (draft / "requests.csv").is_file():
        frame, _ = read_table(draft / "requests.csv", "requests")
        sums = frame[frame["workload"] == workload][["requests", "input_tokens", "output_tokens"]].sum()
        if sums["requests"] and sums["output_tokens"]:
            per_request, inputs = sums["output_tokens"] / sums["requests"], sums["input_tokens"] / sums["requests"]
            said, known = f"{per_request:,.0f} output tokens a request, as in the log", float(inputs)
    shares = {"requests": per_request, "input_tokens": per_request / inputs, "tokens": per_request / (inputs + per_request)}
    if unit not in shares:
        raise CapplanError(
            f"{workload} is counted in {unit}; its speed cannot follow from tokens. Write speeds.csv and give it with the other files"
        )
    return shares[unit], said, known
