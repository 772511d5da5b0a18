"""Requests for capacity, judged: what to measure first, what holds the work back, and what removing that saves against the purchase."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from capplan.book.scenario import ReviewAssumptions
from capplan.questions.demand.capacity_requests import PROFILE, profiled
from capplan.records import records
from capplan.text import listed

COLUMNS = "request_id workload accelerators answer bottleneck saving_accelerators usd saving_usd waited_days remark".split()
REMEDIES = {
    "data path": "bring the data nearer, or read ahead: accelerators wait for it",
    "communication": "fewer, larger messages, or machines that stand closer: accelerators wait for each other",
    "memory": "accelerators with more memory, or a layout that shards more: memory is full before they compute",
    "batching": "larger batches: accelerators have memory to spare and do not compute",
    "accelerator": "nothing but accelerators is short",
}


def judge_requests(requests: pd.DataFrame, usd_per_accelerator_hour: Mapping[str, float], a: ReviewAssumptions) -> pd.DataFrame:
    r"""Answer requests for capacity.

    Time that accelerators wait is capacity that need not be bought: with a share w of it,

    .. math:: \Delta n = n\,w, \qquad w = \text{data wait, communication, or } 1 - u / u^*

    for work that computes a share u of its time where u* is usual.

    Args:
        usd_per_accelerator_hour: Price by accelerator; the key "" holds for requests that name none.
        a: bottleneck_wait_share, usual_utilisation_share, memory_full_share.

    Returns:
        DataFrame: request_id, workload, accelerators, answer (taken into demand, or returned), bottleneck, saving_accelerators, usd (the
            request at its probability), saving_usd, waited_days (from the request to productive use), remark.
    """
    whole = profiled(requests)
    rows = []
    for row, known in zip(records(requests), whole, strict=True):
        price = usd_per_accelerator_hour.get(row["accelerator"] if pd.notna(row["accelerator"]) else "", float("nan"))
        hours = ((row["end"] - row["start"]).days + 1) * 24
        usd = row["accelerators"] * hours * price * row["probability"]
        waited = (
            (row["productive_on"] - row["requested_on"]).days if pd.notna(row["productive_on"]) and pd.notna(row["requested_on"]) else None
        )
        if known:
            name, share = bottleneck(row, a)
            answer, remark = "taken into demand", REMEDIES[name]
        else:
            missing = [text for column, text in PROFILE.items() if pd.isna(row[column])]
            name, share, answer, remark = "", float("nan"), "returned", f"measure {listed(missing)}"
        saved = row["accelerators"] * share
        rows.append((row["request_id"], row["workload"], row["accelerators"], answer, name, saved, usd, usd * share, waited, remark))
    floats = dict.fromkeys(("accelerators", "saving_accelerators", "usd", "saving_usd", "waited_days"), "float64")
    return pd.DataFrame(rows, columns=COLUMNS).astype(floats)


def bottleneck(row: Mapping[Any, Any], a: ReviewAssumptions) -> tuple[str, float]:
    """Name what holds work back, and the share of its accelerators' time that this takes."""
    waits = {"data path": float(row["data_wait_share"]), "communication": float(row["transfer_share"])}
    longest = max(waits, key=lambda name: waits[name])
    if waits[longest] >= a.bottleneck_wait_share:
        return longest, waits[longest]
    if row["compute_utilisation_share"] < a.usual_utilisation_share:
        full = row["memory_use_share"] >= a.memory_full_share
        return "memory" if full else "batching", 1 - float(row["compute_utilisation_share"]) / a.usual_utilisation_share
    return "accelerator", 0.0
