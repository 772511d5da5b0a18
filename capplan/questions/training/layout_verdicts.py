"""The ways a run could be laid out on the machines it takes, with a verdict on each."""

import numpy as np
import pandas as pd

from capplan.book.assumptions.training import TrainingAssumptions
from capplan.questions.training.architecture import Shape
from capplan.questions.training.layout import RUNGS, layouts
from capplan.questions.training.offered import machine_of

#: Speeds that differ by less than this share are told as equal.
SAME_SPEED = 0.005


def ladder(shape: Shape, precision: str, sku: pd.Series, count: int, chosen: pd.Series, a: TrainingAssumptions) -> pd.DataFrame:
    """Lay a run out on its chosen machines in every way; of each rung and recomputation the fastest that fits, or the smallest.

    Args:
        sku, count: Its machine, as `machine_table` describes it, and the number of accelerators.
        chosen: Row of the frontier that is taken.

    Returns:
        DataFrame: One row a rung and kind of recomputation, best first: as `RunStudy` says of its rungs.
    """
    described = machine_of(sku.to_dict(), a)
    table = layouts(shape, precision, described, [count], a)
    degrees = ["rung", "recompute", "tensor", "pipeline", "interleaved", "context", "expert"]
    taken = (table[degrees] == chosen[degrees].to_numpy()).all(axis=1)
    room = described.memory_gib * (1 - a.memory_reserve_share)
    table = table.assign(chosen=taken, room_gib=room, network_gbps=described.network_gbps, link_gbps=described.link_gbps)
    table["order"] = np.where(table["fits"], -table["rate_tflops"], table["memory_gib"])
    table["place"] = table["rung"].map(RUNGS.index)
    best = table.sort_values(["place", "chosen", "fits", "order"], ascending=[True, False, False, True], kind="stable")
    best = best.drop_duplicates(["rung", "recompute"])
    best["verdict"] = _verdicts(best)
    columns = (
        "rung recompute verdict tensor pipeline data stage weights_gib gradients_gib optimiser_gib activations_gib memory_gib room_gib fits"
        " chosen bubble_share kept_share needed_network_gbps network_gbps needed_link_gbps link_gbps"
    ).split()
    return best[columns].reset_index(drop=True)


def _verdicts(table: pd.DataFrame) -> list[str]:
    """Say of each layout whether it is taken, and why not: it does not fit, is slower, or is hardly faster for being more involved."""
    rate = float(table.loc[table["chosen"], "rate_tflops"].iloc[0])
    said = []
    for row in table.itertuples():
        ratio = row.rate_tflops / rate
        if row.chosen:
            said.append("taken")
        elif not row.fits:
            said.append(f"does not fit: {row.memory_gib:,.0f} GiB of {row.room_gib:,.0f}")
        elif ratio < 1 - SAME_SPEED:
            said.append(f"{1 - ratio:.0%} slower")
        elif ratio > 1 + SAME_SPEED:
            said.append(f"{ratio - 1:.0%} faster, too little for a more involved layout")
        else:
            said.append("no faster")
    return said
