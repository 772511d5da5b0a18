"""The recommended split of a fleet as quotas for a scheduler."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from capplan.errors import CapplanError, nearest
from capplan.outputs.export.kueue import kueue_yaml
from capplan.outputs.export.names import read_split
from capplan.outputs.export.slurm import slurm_conf

FORMATS = ("kueue", "kueue-v1beta1", "slurm")
_WORDS = {"separate": "two separate clusters", "shared": "one shared pool", "lending": "lending with reclaim"}


@dataclass(frozen=True)
class Exported:
    """Quotas ready for a scheduler: the text of the file, the quotas in it, and one sentence about them."""

    text: str
    quotas: pd.DataFrame
    headline: str


def export_quotas(format_: str, report: Path) -> Exported:
    """Return the quotas of a report as Kueue objects or Slurm partitions.

    Parameters
    ----------
    format_
        "kueue" (its newest API), "kueue-v1beta1" (for a Kueue that does not know it yet) or "slurm".
    report
        Folder of a report, of the notebooks beside it, or of the answer to the split.

    Raises
    ------
    CapplanError
        An unknown format, no answer there, or quotas that the scheduler would refuse.
    """
    if format_ not in FORMATS:
        raise CapplanError(f"quotas are not exported to {format_}; {nearest(format_, FORMATS)}")
    quotas, fleet, arrangement = read_split(report)
    versions = {"kueue": "v1beta2", "kueue-v1beta1": "v1beta1"}
    text = kueue_yaml(quotas, versions[format_]) if format_ in versions else slurm_conf(quotas, fleet, arrangement)
    own = fleet.groupby("own")["accelerator_count"].sum()
    headline = (
        f"{own.get('inference', 0):,} accelerators are inference's own and {own.get('training', 0):,} training's, divided as"
        f" {_WORDS[arrangement]}."
    )
    return Exported(text, quotas, headline)
