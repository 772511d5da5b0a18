"""Storage and transfer: what checkpoints and data ask of a file system and of a network."""

from typing import Any

import numpy as np
import pandas as pd

from capplan.book.assumptions.training import TrainingAssumptions
from capplan.errors import CapplanError
from capplan.questions.training.architecture import GIB, parameter_bytes

GIGA = 1e9


def checkpoint_gib(parameters: float, precision: str = "bf16") -> float:
    r"""Say how large a checkpoint is: weights and the optimiser's state.

    .. math:: S = (b_w + b_o)\,P

    14 bytes a parameter in 16 bit with Adam.

    Examples:
        >>> round(checkpoint_gib(175e9) * 2**30 / 1e12, 2)
        2.45
    """
    weight, _, optimiser = parameter_bytes(precision)
    return (weight + optimiser) * parameters / GIB


def transfer_days(gib: Any, gbps: Any, efficiency_share: float = 1.0) -> Any:
    r"""Say how many days a network needs for some data.

    .. math:: T = \frac{8\,S}{86400\,B\,\eta}

    Args:
        gib (S):
        gbps (B): Network in Gbit/s.
        efficiency_share (eta): Share of it that is had.

    Examples:
        >>> round(transfer_days(20e9 / 2**30, 10) * 86400)
        16
    """
    if not (np.asarray(gbps, dtype=float) > 0).all() or not 0 < efficiency_share <= 1:
        raise CapplanError(f"a network of {gbps} Gbit/s used to {efficiency_share}: both must be above 0, and the share at most 1")
    return np.asarray(gib, dtype=float)[()] * GIB * 8 / (np.asarray(gbps, dtype=float)[()] * GIGA * efficiency_share) / 86400


def run_storage(
    checkpoint: float, tokens: float, tokens_per_second: float, machines: int, interval_minutes: float, days: float, a: TrainingAssumptions
) -> pd.DataFrame:
    r"""Say what a run asks of storage and network.

    .. math:: B_\text{burst} = S/\delta,\qquad B_\text{mean} = S/(\tau + \delta),\qquad B_\text{data} = x\,b

    Args:
        checkpoint (S): GiB of one checkpoint, see `checkpoint_gib`.
        tokens_per_second (x): While it trains.
        interval_minutes (tau): Work between two checkpoints; infinite = none is written.
        a: Write time (delta), bytes of a token (b), network for transfers.

    Returns:
        DataFrame: quantity, value, unit.
    """
    gigabytes = checkpoint * GIB / GIGA
    data = tokens * a.token_bytes / GIB
    written = days * 1440 / (interval_minutes + a.checkpoint_write_seconds / 60)
    rows = [
        ("One checkpoint", checkpoint, "GiB"),
        ("Write rate while a checkpoint is written", gigabytes / a.checkpoint_write_seconds, "GB/s"),
        ("The same for each machine", gigabytes / a.checkpoint_write_seconds / machines, "GB/s"),
        ("Write rate on average", gigabytes / (interval_minutes * 60 + a.checkpoint_write_seconds), "GB/s"),
        ("Checkpoints written in the run", written, "checkpoints"),
        ("Training data", data, "GiB"),
        ("Read rate of training data", tokens_per_second * a.token_bytes / GIGA, "GB/s"),
        ("The same for each machine", tokens_per_second * a.token_bytes / GIGA / machines, "GB/s"),
        (f"Bringing the data in over {a.transfer_gbps:g} Gbit/s", float(transfer_days(data, a.transfer_gbps)), "days"),
        (f"Moving one checkpoint over {a.transfer_gbps:g} Gbit/s", float(transfer_days(checkpoint, a.transfer_gbps)) * 24, "h"),
    ]
    return pd.DataFrame(rows, columns=["quantity", "value", "unit"])
