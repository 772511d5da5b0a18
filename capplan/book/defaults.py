"""What a book that says little is taken to mean: dates, providers, workloads and speeds, each with a note."""

from typing import Any

import pandas as pd

from capplan.book.empty import empty_table
from capplan.book.tables.registry import columns_of
from capplan.errors import BookError, Fault
from capplan.units import quarter_end, quarter_of

BOOK_KEYS = ("name", "description", "most_megabytes")
#: Provider of machines that a company buys for sites of its own.
OWN_PROVIDER = "own"


def assumptions(entries: dict[str, Any], own: dict[str, pd.DataFrame], known: dict[str, pd.DataFrame], notes: list[str]) -> dict[str, Any]:
    """Take the overrides of book.yaml; what it does not state follows from its own tables."""
    values = {name: value for name, value in entries.items() if name not in BOOK_KEYS}
    if "as_of" not in values:
        usage = known.get("usage")
        if usage is None or usage.empty:
            raise BookError(
                [
                    Fault(
                        "book.yaml", 0, "as_of", "", "a book without usage must state its date", "Write `as_of: 2026-12-01` into book.yaml."
                    )
                ]
            )
        last = usage["time"].max()
        values["as_of"] = (last.normalize() + pd.Timedelta(days=1)).date().isoformat()
        notes.append(f"book.yaml states no as_of: taken as {values['as_of']}, the day after the last usage.")
    if "first_quarter" not in values:
        as_of = pd.to_datetime(str(values["as_of"]), errors="coerce")
        if pd.isna(as_of):
            return values
        values["first_quarter"] = quarter_of(as_of if as_of == as_of.to_period("Q").start_time else quarter_end(quarter_of(as_of)))
        notes.append(f"book.yaml states no first_quarter: taken as {values['first_quarter']}, the first one that starts on or after as_of.")
    if "providers" not in values:
        values["providers"] = providers_at_hand(own, known)
        notes.append(
            f"book.yaml states no providers: {', '.join(values['providers'])} may be bought from, those of the book's own contracts, offers"
            " and bills, or all where it has none; machines of one's own only with a site. Write `providers: [aws, nebius]` to say which,"
            " or `providers: []` for all."
        )
    return values


def providers_at_hand(own: dict[str, pd.DataFrame], known: dict[str, pd.DataFrame]) -> list[str]:
    """Return the providers a company has to do with.

    These are those of its contracts, offers, machines and of machine hours in its bills; all where it has none of these; its own machines
    only with sites.
    """
    provider_of = known["skus"].drop_duplicates("sku").set_index("sku")["provider"]
    named = [own[name]["sku"].map(provider_of) for name in ("commitments", "offers", "assets") if name in own and len(own[name])]
    if "billing" in own and len(own["billing"]):
        bill = own["billing"]
        named.append(bill.loc[bill["bucket"].isin(["machine_hours", "unused_commitment", "unused_reservation"]), "provider"])
    offered = set(known["offers"]["sku"].map(provider_of).dropna()) if "offers" in known else set()
    found = set(pd.concat(named).dropna()) & offered if named else set()
    housed = "sites" in own and len(own["sites"]) > 0
    outside = found - {OWN_PROVIDER} or offered - {OWN_PROVIDER}
    return sorted(outside | ({OWN_PROVIDER} & offered if housed else set()))


def assume_workloads(own: dict[str, pd.DataFrame], known: dict[str, pd.DataFrame], notes: list[str]) -> None:
    """Give workloads that only occur in usage a plain row: self-hosted accelerator hours that cannot wait."""
    if "workloads" in own or not ({"usage", "demand_scenarios"} & set(own)):
        return
    names = sorted(set().union(*(own[name]["workload"].dropna() for name in ("usage", "demand_scenarios", "training_runs") if name in own)))
    frame = pd.DataFrame({"workload": names, "stage": "serving", "unit": "accelerator_hours"})
    for column in columns_of("workloads"):
        if column.name not in frame:
            frame[column.name] = column.default
    known["workloads"] = frame
    notes.append(
        "The book has no workloads table: every workload is taken as serving that is measured in accelerator hours and must not wait."
    )


def assume_speeds(known: dict[str, pd.DataFrame], notes: list[str]) -> None:
    """Let a workload measured in accelerator hours run at speed 1 on the accelerators the company has, where no speed is stated."""
    if "workloads" not in known:
        return
    workloads = known["workloads"]
    speeds = known.get("speeds", empty_table("speeds"))
    plain = workloads[
        (workloads["unit"] == "accelerator_hours") & (workloads["host"] != "api") & ~workloads["workload"].isin(speeds["workload"])
    ]
    held = [known[name]["sku"] for name in ("commitments", "assets") if name in known]
    accelerators = sorted(set(known["skus"].set_index("sku")["accelerator"].reindex(pd.concat(held)).dropna())) if held else []
    if plain.empty or not accelerators:
        return
    rows = pd.DataFrame(
        [(name, accelerator) for name in plain["workload"] for accelerator in accelerators], columns=["workload", "accelerator"]
    )
    rows = rows.assign(work_per_accelerator_hour=1.0, basis="stated", as_of=pd.NaT, source_id=None)
    known["speeds"] = rows if speeds.empty else pd.concat([speeds, rows.set_axis([0] * len(rows))])
    notes.append(
        f"No speeds are stated for {', '.join(plain['workload'])}: an hour counts the same on every accelerator the company has"
        f" ({', '.join(accelerators)})."
    )
