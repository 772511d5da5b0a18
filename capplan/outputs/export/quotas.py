"""The recommended split of a fleet as quotas for a scheduler."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from capplan.errors import CapplanError, nearest
from capplan.outputs.export.foreign_names import read_split
from capplan.outputs.export.kueue import kueue_yaml
from capplan.outputs.export.slurm import slurm_conf

#: How quotas are written for each scheduler, from the quotas, the fleet and the arrangement of the split.
WRITERS: dict[str, Callable[[pd.DataFrame, pd.DataFrame, str], str]] = {
    "kueue": lambda quotas, *_: kueue_yaml(quotas),
    "kueue-v1beta1": lambda quotas, *_: kueue_yaml(quotas, "v1beta1"),
    "slurm": slurm_conf,
}
_WORDS = {"separate": "two separate clusters", "shared": "one shared pool", "lending": "lending with reclaim"}


@dataclass(frozen=True)
class Exported:
    """Quotas ready for a scheduler: the text of the file, the quotas in it, and one sentence about them."""

    text: str
    quotas: pd.DataFrame
    headline: str


def export_quotas(format_: str, report: Path) -> Exported:
    """Return the quotas of a report as Kueue objects or Slurm partitions.

    Args:
        format_: A name of `WRITERS`: "kueue" (its newest API), "kueue-v1beta1" (for a Kueue that does not know it yet) or "slurm".
        report: Folder of a report, of the notebooks beside it, or of the answer to the split.

    Raises:
        CapplanError: An unknown format, no answer there, or quotas that the scheduler would refuse.
    """
    if format_ not in WRITERS:
        raise CapplanError(f"quotas are not exported to {format_!r}; {nearest(format_, WRITERS)}")
    quotas, fleet, arrangement = read_split(report)
    own = fleet.groupby("own")["accelerator_count"].sum()
    headline = (
        f"{own.get('inference', 0):,} accelerators are inference's own and {own.get('training', 0):,} training's, divided as"
        f" {_WORDS[arrangement]}."
    )
    return Exported(WRITERS[format_](quotas, fleet, arrangement), quotas, headline)
