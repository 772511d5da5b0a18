"""Whether prices of a sheet are near those of the same machine elsewhere, and whether their names mean one thing."""

from pathlib import Path

import numpy as np
import pandas as pd

from capplan.errors import BookError, Fault
from capplan.ingest.known import known_table
from capplan.units import HOURS_PER_AVERAGE_MONTH

#: A price may be this many times above or below the middle of the same machine's and term's prices elsewhere, ...
SAME_MACHINE = 3.0
#: ... spot prices move further, ...
SAME_MACHINE_SPOT = 5.0
#: ... and a machine that is not known this far below and above the range of its accelerator's prices (hosts differ in size).
BELOW_ACCELERATOR, ABOVE_ACCELERATOR = 2.5, 4.0
#: A host's share of the price of its machine, and how near a ratio must be to one that has a meaning.
HOST_SHARE, ALIKE = 0.11, 2.0
#: Cheapest share of the price on demand at which spot capacity was seen.
LEAST_SPOT_SHARE = 0.04


def refuse_far_prices(file: str, offers: pd.DataFrame, confirmed: tuple[str, ...], book: Path | None) -> None:
    """Refuse prices that are far from those of the same machine and term elsewhere, unless they are confirmed by name.

    Args:
        offers: Offers of the sheet, with machine, accelerator, accelerator_count, sku, term and usd_per_hour.
        confirmed: Machines (as the sheet or the tables name them) whose prices are right, or "all".
        book: Folder of the book, whose machines are known besides the reference facts.

    Raises:
        BookError: With every such price, what it was compared with, and what it may be instead.
    """
    skus = known_table("skus", book)[["sku", "accelerator", "accelerator_count"]]
    known = known_table("offers", None).merge(skus, on="sku")
    known = known[known["usd_per_hour"] > 0]
    middle = known.groupby(["sku", "term"])["usd_per_hour"].median()
    rate = known["usd_per_hour"] / known["accelerator_count"]
    range_of = rate.groupby([known["accelerator"], known["term"]]).agg(["min", "max"])
    faults = []
    for row in offers[["sku", "machine", "region", "term", "usd_per_hour", "accelerator", "accelerator_count"]].itertuples(index=False):
        if "all" in confirmed or {row.sku, row.machine} & set(confirmed):
            continue
        spot = row.term == "spot"
        if (row.sku, row.term) in middle.index:
            usual, width = float(middle[(row.sku, row.term)]), SAME_MACHINE_SPOT if spot else SAME_MACHINE
            low, high, said = usual / width, usual * width, f"{usual:,.2f} USD/h, the middle of this machine's prices elsewhere"
        elif (row.accelerator, "on_demand") in range_of.index:
            term = row.term if (row.accelerator, row.term) in range_of.index and not spot else "on_demand"
            least, most = range_of.loc[(row.accelerator, term)] * row.accelerator_count
            low, high = (
                least * (LEAST_SPOT_SHARE if spot else 1 / BELOW_ACCELERATOR / (1 if term == row.term else 3)),
                most * ABOVE_ACCELERATOR,
            )
            usual, said = (
                float(np.sqrt(least * most)),
                f"{least:,.2f} to {most:,.2f} USD/h, what {row.accelerator_count:g} {row.accelerator} cost elsewhere",
            )
        else:
            continue
        if not low <= row.usd_per_hour <= high:
            faults.append(_fault(file, row, usual, said))
    if faults:
        raise BookError(faults, where=file)


def _fault(file: str, row: object, usual: float, said: str) -> Fault:
    """Say what is wrong with a price, and what it looks like."""
    price, count = float(row.usd_per_hour), float(row.accelerator_count)  # type: ignore[attr-defined]
    ratio = price / usual
    guesses = {"a price of a month": HOURS_PER_AVERAGE_MONTH}
    if count > 1:
        guesses["the price of one accelerator, or of the host without its accelerators"] = 1 / count
    else:
        guesses["the host without its accelerator"] = HOST_SHARE
    best = min(guesses, key=lambda name: abs(np.log(ratio / guesses[name])))
    near = abs(np.log(ratio / guesses[best])) < np.log(ALIKE)
    guess = f" It looks like {best}." if near else ""
    factor = f"{1 / guesses[best]:.9g}" if near and guesses[best] != HOST_SHARE else ""
    machine, term = str(row.machine), str(row.term)  # type: ignore[attr-defined]
    cure = f"Give scale={term}={factor}, " if factor else "Correct it, "
    rule = f"{machine} in {row.region} ({term}) is far from {said}.{guess}"  # type: ignore[attr-defined]
    return Fault(file, 0, term, f"{price:g}", rule.rstrip("."), f"{cure}or confirm={machine} where it is right, or leave_out={machine}.")


def named_apart(offers: pd.DataFrame) -> pd.DataFrame:
    """Give offers another name where the reference has their name for another machine, place, term or payment at signing."""
    meaning = ["sku", "region", "term", "upfront_share"]
    known = known_table("offers", None).set_index("offer_id")[meaning].fillna({"upfront_share": 0.0})
    theirs = known.reindex(offers["offer_id"])
    other = theirs["sku"].notna().to_numpy() & (theirs.to_numpy() != offers[meaning].to_numpy()).any(axis=1)
    return offers.assign(offer_id=offers["offer_id"].where(~other, offers["offer_id"] + "-of-" + offers["source_id"]))
