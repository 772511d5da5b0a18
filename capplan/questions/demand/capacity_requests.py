"""Requests for capacity: judged by their profile, and put into demand where they have one."""

import pandas as pd

from capplan.book.tables.registry import columns_of
from capplan.records import records

#: What a request must say of its work before it is judged, and what it is called when asked for.
PROFILE = {
    "compute_utilisation_share": "the share of its time in which accelerators compute",
    "data_wait_share": "the share of its time spent waiting for data",
    "transfer_share": "the share of its time spent on communication between accelerators",
    "memory_use_share": "the share of accelerator memory in use",
}
HOURS_PER_DAY = 24


def profiled(requests: pd.DataFrame) -> pd.Series:
    """Tell which requests have a whole profile."""
    return requests[list(PROFILE)].notna().all(axis=1)


def requested_runs(requests: pd.DataFrame, workloads: pd.DataFrame, speeds: pd.DataFrame) -> pd.DataFrame:
    r"""Turn requests that have a profile into rows of the table training_runs, which the forecast adds to what history says.

    .. math:: q = n\,h\,s

    with n accelerators over h hours, and s the work an accelerator-hour does (1 for workloads counted in accelerator-hours).

    Returns:
        DataFrame: Rows of training_runs; requests whose work no speed measures are not among them.
    """
    asked = requests[profiled(requests)]
    units = workloads.set_index("workload")["unit"]
    rates = speeds.set_index(["workload", "accelerator"])["work_per_accelerator_hour"]
    rows = []
    for row in records(asked):
        in_hours = units.get(row["workload"]) == "accelerator_hours"
        rate = 1.0 if in_hours else rates.get((row["workload"], row["accelerator"]))
        if rate is None:
            continue
        hours = ((row["end"] - row["start"]).days + 1) * HOURS_PER_DAY
        rows.append(
            {
                "run_id": f"request {row['request_id']}",
                "workload": row["workload"],
                "quantity": row["accelerators"] * hours * float(rate),
                "start": row["start"],
                "deadline": row["end"],
                "probability": row["probability"],
                "region": row["region"],
            }
        )
    columns = [column.name for column in columns_of("training_runs")]
    return pd.DataFrame(rows).reindex(columns=columns)
