"""Machines on offer for a training run: what each is, what an hour of it costs, and how much of it is progress."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from capplan.book.assumptions.training import TrainingAssumptions
from capplan.errors import CapplanError, nearest
from capplan.questions.scaling import ScalingFit
from capplan.questions.training.layout import Machine
from capplan.questions.training.speed import WATTS_PER_TFLOPS, Chip

PEAKS = {"bf16": "bf16_tflops", "fp16": "bf16_tflops", "fp8": "fp8_tflops", "fp4": "fp4_tflops"}


@dataclass(frozen=True)
class TrainingTables:
    """What a training run is planned on.

    Args:
        skus: Machines one can have; with the accelerators table beside, or with accelerator_memory_gib, the peak rates, link_gbps and
            power_w of their accelerators as columns.
        prices: What `price_hours` returns.
        accelerators, models: Tables of these names.
        speeds: Published runs (table training_speeds): one like this run takes the place of what is worked out.
        scaling (e): Fitted scaling, or None = what the layout says alone.
        goodput (g): What `measure_goodput` returns: offer_id, goodput_share; with rows for several `accelerators` it is read between them
            by the logarithm. One share holds for all offers; None = nothing is lost but what the price of spot says.
    """

    skus: pd.DataFrame
    prices: pd.DataFrame
    accelerators: pd.DataFrame | None = None
    models: pd.DataFrame | None = None
    speeds: pd.DataFrame | None = None
    scaling: ScalingFit | None = None
    goodput: pd.DataFrame | float | None = None


@dataclass(frozen=True)
class Offers:
    """Offers of one kind of machine."""

    #: Rows of prices with paid (USD for a paid accelerator-hour) and share (of it that is progress where nothing better is known).
    table: pd.DataFrame
    #: By offer: logarithms of the counts measured, shares of a paid hour that are progress, idle share.
    useful: dict[str, tuple[np.ndarray, np.ndarray, float]]

    def goodput(self, n: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Share of a paid hour that is progress, for each offer (row) and count, and that is idle between runs, for each offer."""
        share = np.repeat(self.table["share"].to_numpy(dtype=float)[:, None], len(n), axis=1)
        idle = np.zeros(len(self.table))
        for place, offer in enumerate(self.table["offer_id"]):
            if offer in self.useful:
                counts, shares, idle[place] = self.useful[offer]
                share[place] = np.interp(np.log(n), counts, shares)
        return share, idle


def offers_by_machine(tables: TrainingTables) -> dict[str, Offers]:
    """Return the offers of each kind of machine, by SKU."""
    goodput = _as_table(tables.goodput, tables.prices)
    useful = _useful(goodput)
    return {str(sku): Offers(part, useful) for sku, part in _offers(tables.prices, goodput).groupby("sku", sort=False)}


def _offers(prices: pd.DataFrame, goodput: pd.DataFrame | None) -> pd.DataFrame:
    """Take what a paid accelerator-hour costs, and the share of it that is useful where nothing better is known."""
    table = prices.reset_index(drop=True).copy()
    useful = table["useful_share"] if "useful_share" in table else pd.Series(1.0, index=table.index)
    table["paid"] = table["effective_usd_per_accelerator_hour"] * useful
    table["share"] = useful
    if goodput is not None and "usd_per_paid_accelerator_hour" in goodput:
        stated = goodput.drop_duplicates("offer_id").set_index("offer_id")["usd_per_paid_accelerator_hour"]
        table["paid"] = table["offer_id"].map(stated).fillna(table["paid"])
    for name in ("term", "term_months"):
        if name not in table:
            table[name] = "on_demand" if name == "term" else np.nan
    return table


def _as_table(goodput: pd.DataFrame | float | None, prices: pd.DataFrame) -> pd.DataFrame | None:
    """Return goodput as a table; one share stands for every offer."""
    if goodput is None or isinstance(goodput, pd.DataFrame):
        return goodput
    if not 0 < float(goodput) <= 1:
        raise CapplanError(f"goodput = {goodput!r}: a share of paid time lies above 0 and at most at 1; write 90 % as 0.9")
    return pd.DataFrame({"offer_id": prices["offer_id"], "goodput_share": float(goodput)})


def _useful(goodput: pd.DataFrame | None) -> dict[str, tuple[np.ndarray, np.ndarray, float]]:
    """Read goodput by offer: logarithms of the counts measured, shares of a paid hour that are progress, idle share."""
    if goodput is None:
        return {}
    table = goodput.sort_values("accelerators", kind="stable") if "accelerators" in goodput else goodput
    found = {}
    for offer, rows in table.groupby("offer_id", sort=False):
        counts = np.log(rows["accelerators"].to_numpy(dtype=float)) if "accelerators" in rows else np.zeros(len(rows))
        idle = float(rows["idle_share"].iloc[0]) if "idle_share" in rows else 0.0
        found[str(offer)] = (counts, rows["goodput_share"].to_numpy(dtype=float), idle)
    return found


def machine_of(machine: dict[str, Any], a: TrainingAssumptions) -> Machine:
    """Describe a machine for layouts; a network that is not stated is the usual one of its kind."""
    count, link = int(machine["accelerator_count"]), float(machine.get("link_gbps", np.nan))
    link = link if np.isfinite(link) else 0.0
    stated = float(machine.get("network_gbps", np.nan))
    usual = count * (a.fabric_gbps_per_accelerator if link else a.ethernet_gbps_per_accelerator)
    network = stated if np.isfinite(stated) else usual
    peak, memory = float(machine["peak_tflops"]), float(machine["accelerator_memory_gib"])
    if a.mfu_share is not None:
        return Machine(memory, count, link, network, peak * a.mfu_share)
    bf16 = float(machine["bf16_tflops"])
    fp8 = _or(machine["fp8_tflops"], bf16)
    domain = _or(machine.get("link_domain_accelerators"), count)
    bandwidth = float(machine["memory_bandwidth_gbps"])
    if not np.isfinite(bandwidth):
        raise CapplanError(
            f"the speed of {machine['accelerator']} is worked out from its memory_bandwidth_gbps, and the table accelerators states none."
            " Add it, or state mfu_share"
        )
    power = _or(machine["power_w"], WATTS_PER_TFLOPS * bf16)
    chip = Chip(str(machine["accelerator"]), bf16, fp8, _or(machine["fp4_tflops"], fp8), bandwidth, power, domain)
    return Machine(memory, count, link, network, peak, chip)


def _or(value: Any, otherwise: float) -> float:
    """Return a number, or another where there is none."""
    return otherwise if value is None or pd.isna(value) else float(value)


def machine_table(skus: pd.DataFrame, accelerators: pd.DataFrame | None, prices: pd.DataFrame, precision: str) -> pd.DataFrame:
    """Join machines with their accelerators' memory and peak; those that someone offers."""
    table, peak = skus.reset_index(drop=True), PEAKS[precision]
    known = accelerators
    if known is None:
        # The memory_gib of a machine is its main memory.
        merged = skus.drop_duplicates("accelerator").drop(columns="memory_gib", errors="ignore")
        known = merged.rename(columns={"accelerator_memory_gib": "memory_gib"})
    missing = [name for name in ("memory_gib", peak) if name not in known.columns]
    if missing:
        raise CapplanError(f"plan_run needs {missing[0]} of each accelerator; pass the accelerators table as accelerators=")
    unknown = sorted(set(table["accelerator"]) - set(known["accelerator"]))
    if unknown:
        raise CapplanError(f"the table accelerators does not have {unknown[0]!r}; {nearest(unknown[0], known['accelerator'])}")
    facts = known.set_index("accelerator")
    table = table[table["sku"].isin(prices["sku"])].copy()
    table["accelerator_memory_gib"] = table["accelerator"].map(facts["memory_gib"])
    table["peak_tflops"] = table["accelerator"].map(facts[peak])
    for name in ("link_gbps", "link_domain_accelerators", "power_w", "memory_bandwidth_gbps", *dict.fromkeys(PEAKS.values())):
        table[name] = table["accelerator"].map(facts[name]) if name in facts else np.nan
    table = table[table["peak_tflops"].notna()]
    if table.empty:
        raise CapplanError(f"no offered machine has a peak rate in {precision}; choose another precision, or add offers of one that has")
    return table.reset_index(drop=True)
