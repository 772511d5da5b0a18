"""What the learners see of a served model: its load and shape, what it is made of, and the parts of its roofline."""

import re

import numpy as np
import pandas as pd

from capplan.questions.serving.learners import CATEGORY, Values
from capplan.questions.serving.replica_memory import BYTES_PER_WEIGHT
from capplan.questions.serving.roofline import rows_of
from capplan.records import word_list

#: Columns whose values are categories.
CATEGORIES = ("accelerator", "model", "engine", "precision")
FIRST_DAY = pd.Timestamp("2023-01-01")
UNKNOWN = -1.0
#: A part that is nothing still has a logarithm (seconds).
NEXT_TO_NOTHING = 1e-9


def features_of(
    setups: pd.DataFrame, roof: pd.DataFrame, models: pd.DataFrame, accelerators: pd.DataFrame, known: tuple[tuple[str, str], ...]
) -> pd.DataFrame:
    """Return the features of each setup; the first word of a name says its kind (see learners.STEPS).

    Args:
        setups: Filled in by `complete`.
    """
    model, machine = rows_of(models, "model", setups["model"]), rows_of(accelerators, "accelerator", setups["accelerator"])
    prompts = setups["concurrency"] / setups["prefill_workers"]
    waiting = prompts * roof["prefill_seconds"]
    positive = {
        "load concurrency": setups["concurrency"],
        "load of a worker": setups["concurrency"] / setups["decode_workers"],
        "load of a group": roof["batch"],
        "load of prompts": prompts / setups["prefill_data_parallel"],
        "load held": roof["held"] * setups["decode_workers"] / setups["concurrency"],
        "tokens input": setups["input_tokens"],
        "tokens output": setups["output_tokens"],
        "machine bandwidth": machine["memory_bandwidth_gbps"],
        "machine rate": machine["fp8_tflops"].fillna(machine["bf16_tflops"]),
        "machine memory": machine["memory_gib"],
        "model parameters": model["parameters_total"],
        "model active": model["parameters_active"],
        "model layers": model["layers"],
        "parts prompts waiting": waiting,
        "parts busy": waiting / (roof["token_seconds"] * setups["output_tokens"]),
    }
    shape = [name for name in setups if name.endswith(("_parallel", "_workers")) and name != "stated_workers"]
    positive |= {f"parallel {name}": setups[name] for name in ["accelerators", *shape]}
    times = [name for name in roof if name.endswith("_seconds") and name not in {"handling_seconds", "ahead_seconds"}]
    positive |= {f"parts {name}": roof[name] + 1e-6 for name in times}
    seen = pd.DataFrame({name: np.log(values.astype(float)) for name, values in positive.items()})
    seen["model bytes"] = setups["precision"].map(BYTES_PER_WEIGHT)
    seen["model experts touched"] = roof["touched_share"]
    seen["parts prompt share"] = roof["prompt_seconds"] / roof["token_seconds"]
    seen["when version"] = setups["engine_version"].map(version_number).astype(float) if "engine_version" in setups else UNKNOWN
    days = (pd.to_datetime(setups["as_of"]) - FIRST_DAY).dt.days if "as_of" in setups else pd.Series(np.nan, index=seen.index)
    seen["when day"] = days.astype(float).fillna(UNKNOWN)
    flags = {
        "separate": setups["separate"],
        "workers": setups["stated_workers"],
        "experts": setups["expert_parallel"] > 1,
        "groups": setups["data_parallel"] > 1,
        "latent": model["cache_values_per_layer"].notna(),
    }
    flags |= {f"{column} {value}": setups[column] == value for column, value in known}
    for name, flag in flags.items():
        seen[f"{CATEGORY}{name}"] = flag.astype(float)
    return seen


def parts_of(roof: pd.DataFrame, metric: str) -> Values:
    """Return the parts of a roofline's time that the physics give factors of their own (seconds, one column each)."""
    names = {
        "token_seconds": word_list("weights_seconds cache_seconds arithmetic_seconds prompt_seconds exchange_seconds overhead_seconds"),
        "first_token_seconds": word_list("prefill_seconds ahead_seconds handling_seconds waiting_seconds overhead_seconds token_seconds"),
    }[metric]
    fixed = np.full(len(roof), 1e-3)
    return np.column_stack([roof[list(names)].to_numpy(dtype=float).clip(min=NEXT_TO_NOTHING), fixed])


def version_number(text: object) -> float:
    """Return a number that orders the versions of an engine; -1 where the text holds none.

    Examples:
        >>> [version_number("0.19.0"), version_number("1.2.0rc6"), version_number("nightly")]
        [19.0, 102.0, -1.0]
    """
    parts = [int(part) for part in re.findall(r"\d+", str(text))[:3] if len(part) < 3]
    return sum(part * weight for part, weight in zip(parts, (100.0, 1.0, 0.01), strict=False)) if parts else UNKNOWN
