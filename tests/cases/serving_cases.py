"""Public measurements of served models as the table serving_runs, for tests and the benchmark."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

MODELS = {
    "DeepSeek": "DeepSeek-V3",
    "GLM-5": "GLM-5",
    "Kimi-K2.5": "Kimi-K2.5",
    "Llama-3.1-70B": "Llama-3.1-70B",
    "Llama-3.1-8B": "Llama-3.1-8B",
    "MiniMax-M2.5": "MiniMax-M2.5",
    "Qwen3-235B": "Qwen3-235B-A22B",
    "Qwen3-32B": "Qwen3-32B",
    "Qwen3.5-397B": "Qwen3.5-397B-A17B",
    "gpt-oss-120b": "gpt-oss-120b",
}
ACCELERATORS = {"h100_sxm": "H100", "h200_sxm": "H200", "b200_sxm": "B200", "b300_sxm": "B300", "gb200": "GB200", "gb300": "GB300"}


def silicon_runs(path: Path) -> pd.DataFrame:
    """Return the public database of measured latencies (sample of silicon runs in aiconfigurator) as serving_runs.

    Where the source writes the product of two kinds of parallelism into both columns (expert parallel runs of sixteen and more), the
    number of accelerators is the quotient; where prompts are read elsewhere and the number of workers is missing, one of each is
    assumed and the number of decode workers left empty; models of one architecture are one model; precision missing means fp8.
    """
    raw = pd.read_csv(path)
    raw = raw[raw["concurrency"].notna()].reset_index(drop=True)
    split = raw["mode"] == "disagg"

    def of(name: str, prefix: str) -> pd.Series:
        return raw[f"{prefix}{name}"].where(split, raw.get(name, np.nan)).fillna(1.0).clip(lower=1.0)

    runs = pd.DataFrame({"run": [f"silicon-{row}" for row in raw.index]})
    runs["model"] = [next(name for part, name in MODELS.items() if part in path_) for path_ in raw["model_path"]]
    runs["accelerator"] = raw["system"].map(ACCELERATORS)
    runs["engine"], runs["engine_version"] = raw["backend"], raw["backend_version"]
    runs["precision"] = raw["precision"].fillna("fp8")
    for target, prefix in (("", "decode_"), ("prefill_", "prefill_")):
        tensor, data, expert = (of(name, prefix) for name in ("tp_size", "attention_dp_size", "moe_ep_size"))
        product = ~split & (expert > 1)
        tensor = (tensor / expert).where(product & (tensor >= 16) & (tensor % expert == 0), tensor)
        data = (data / expert).where(product & (data >= 16) & (data % expert == 0), data)
        runs[f"{target}tensor_parallel"], runs[f"{target}data_parallel"], runs[f"{target}expert_parallel"] = tensor, data, expert
    kinds = ["tensor_parallel", "data_parallel", "expert_parallel"]
    together, one = runs[kinds[:2]].max(axis=1), runs[kinds].max(axis=1)
    first = runs[[f"prefill_{name}" for name in kinds]].max(axis=1)
    workers, readers = of("num_workers", "decode_"), of("num_workers", "prefill_")
    stated = raw["decode_num_workers"].notna()
    runs["accelerators"] = (one * workers + first * readers).where(split, together).astype(int)
    runs["decode_workers"], runs["prefill_workers"] = workers.where(split & stated), readers.where(split)
    for name in kinds:
        runs[f"prefill_{name}"] = runs[f"prefill_{name}"].where(split)
    runs["input_tokens"], runs["output_tokens"] = raw["isl"].astype(float), raw["osl"].astype(float)
    runs["concurrency"] = raw["concurrency"]
    runs["first_token_seconds"], runs["token_seconds"] = raw["silicon_ttft_ms"] / 1e3, raw["silicon_tpot_ms"] / 1e3
    runs["work_in_progress"] = raw["wip"].astype(str) == "True"
    runs["as_of"] = pd.to_datetime(raw["measured_date"])
    runs["source_id"] = "aiconfigurator"
    return runs
