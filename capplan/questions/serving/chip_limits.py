"""The gate every answer about a served model passes: no chip computes faster than its peak, nor reads faster than its memory."""

import numpy as np
import pandas as pd

from capplan.questions.serving.measured import METRICS
from capplan.questions.serving.replica_memory import BYTES_PER_WEIGHT
from capplan.questions.serving.roofline import GIGA, peak_rate, rows_of

#: Differences below this share are rounding.
ROUNDING = 1e-9
CORRECTED = "held to what the chip can do (peak arithmetic and memory bandwidth)"


def floors(done: pd.DataFrame, roof: pd.DataFrame, models: pd.DataFrame, accelerators: pd.DataFrame) -> pd.DataFrame:
    r"""Return the least seconds that the accelerators of a replica need, at their full peak and bandwidth.

    .. math::

        t_\text{token} \ge \max\left(\frac{W + n\,m\,s}{g\,B},\; \frac{2 P_a n}{g\,F}\right),\qquad
        t_\text{first} \ge \frac{2 P_a n_\text{in}}{g\,F},\qquad
        t_\text{request} \ge \max\left(\frac{N\,2 P_a (n_\text{in} + n_\text{out} - 1)}{g\,F},\;
        t_\text{first} + \frac{N}{n}(n_\text{out} - 1)\,t_\text{token}\right)

    by Little's law: N requests in progress that take t each are N/t a second, and each costs its operations; n of them are held in the
    cache at
    once, and the others wait for a place. W are the bytes of the
    weights that a step reads; where it is not known how many workers write, those of one token and all accelerators are taken.

    Args:
        done: Setups, filled in by `complete`.

    Returns:
        DataFrame: first_token_seconds, token_seconds, request_seconds.
    """
    model, machine = rows_of(models, "model", done["model"]), rows_of(accelerators, "accelerator", done["accelerator"])
    rate, bandwidth = peak_rate(done["precision"], machine), machine["memory_bandwidth_gbps"] * GIGA
    open_ended = done["separate"].astype(bool)
    count = done["accelerators"].astype(float)
    work = 2 * model["parameters_active"]
    read = (roof["weights_seconds"] + roof["cache_seconds"]).where(
        ~open_ended, model["parameters_active"] * done["precision"].map(BYTES_PER_WEIGHT) / (count * bandwidth)
    )
    held = roof["held"].where(~open_ended, 1.0)
    steps = (done["output_tokens"] - 1).clip(lower=0.0)
    first, token = work * done["input_tokens"] / (count * rate), np.maximum(read, work * held / (count * rate))
    turns = (done["concurrency"] / done["decode_workers"] / roof["held"]).clip(lower=1.0).where(~open_ended, 1.0)
    whole = np.maximum(done["concurrency"] * work * (done["input_tokens"] + steps) / (count * rate), first + turns * steps * token)
    return pd.DataFrame({"first_token_seconds": first, "token_seconds": token, "request_seconds": whole}, index=done.index)


def hold(parts: tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame], least: pd.DataFrame, output_tokens: pd.Series) -> pd.Series:
    """Raise latencies and both ends of their bands, in place, to what the accelerators need; say which values were raised.

    Requests beyond what the chip computes wait: what a whole request lacks is added to its time to first token, so that the time of a token
    keeps its order over loads.

    Args:
        parts: Values, lower and upper ends; columns first_token_seconds, token_seconds, request_seconds.
        least: From `floors`.
    """
    values, lower, upper = parts
    raised = pd.Series(False, index=values.index)
    for table in parts:
        before = table.copy()
        for name in METRICS:
            table[name] = np.maximum(table[name], least[name])
        steps = (output_tokens - 1).clip(lower=0.0)
        if table is values:
            # A token that must take longer leaves less of the same request to the wait before the first.
            whole = np.maximum(before["first_token_seconds"] + steps * before["token_seconds"], least["request_seconds"])
            table["first_token_seconds"] = whole - steps * table["token_seconds"]
            table["request_seconds"] = whole
            raised = (table > before * (1 + ROUNDING)).any(axis=1)
        else:
            table["request_seconds"] = np.maximum(table["request_seconds"], least["request_seconds"])
    for name in values:
        lower[name], upper[name] = np.minimum(lower[name], values[name]), np.maximum(upper[name], values[name])
    return raised
