"""Public measurements of training speed as rows of `fit_speed`, for tests and the benchmark."""

from __future__ import annotations

import numpy as np
import pandas as pd

from capplan.book.book import reference_tables
from tests.conftest import reference_file

BRIDGE_MODELS = {
    "LLAMA3_70B": "Llama-3.1-70B",
    "LLAMA3.1_405B": "Llama-3.1-405B",
    "DeepSeekV3": "DeepSeek-V3",
    "GPT OSS 120B": "gpt-oss-120b",
    "Qwen3_30B_a3B": "Qwen3-30B-A3B",
}
FORMATS = {"BF16": "bf16", "FP8": "fp8", "MXFP8": "fp8", "NVFP4": "fp4"}
#: MPT models: layers and width; vocabulary of 50,368 (MosaicML, llm-foundry).
MPT = {
    "125m": (12, 768),
    "350m": (24, 1024),
    "760m": (24, 1536),
    "1b": (24, 2048),
    "3b": (32, 2560),
    "7b": (32, 4096),
    "13b": (40, 5120),
    "30b": (48, 7168),
    "70b": (80, 8192),
}
#: Gbit/s of network for each accelerator (200 on A100, 400 on Hopper and Blackwell systems, 800 on Blackwell Ultra), and accelerators
#: joined by fast links.
NETWORK = {"A100-80GB": 200, "A100-40GB": 200, "H100": 400, "B200": 400, "GB200": 400, "B300": 800, "GB300": 800}
DOMAIN = {"GB200": 72, "GB300": 72}


def chip_columns(name: str, precision: str) -> dict[str, float]:
    """Return what the fit needs of a chip."""
    row = reference_tables()["accelerators"].set_index("accelerator").loc[name]
    peaks = [row["bf16_tflops"], row["fp8_tflops"], row["fp4_tflops"]]
    best = [peak for peak in peaks[: 1 + ("bf16", "fp8", "fp4").index(precision)] if peak == peak][-1]
    return {
        "rate": best * 1e12,
        "bf16_rate": row["bf16_tflops"] * 1e12,
        "bandwidth": row["memory_bandwidth_gbps"] * 1e9,
        "link": row["link_gbps"] * 1e9 / 2,
        "network": NETWORK[name] * 1e9 / 8,
        "domain": DOMAIN.get(name, 8),
        "power_w": row["power_w"],
    }


def row_of(model, accelerator, precision, shape, layout, *, sequence, batch, micro, again=1.0, speed=np.nan, collection=""):
    """Return one row of `fit_speed`; shape: parameters, active, layers, width, attention and kv width, vocabulary, experts, per token."""
    parameters, active, layers, width, attention, keys, vocabulary, experts, chosen = shape
    used, tensor, pipeline, context, expert, virtual, sharded = layout
    data = used / (tensor * pipeline * context)
    steps = batch / (data * micro)
    routed = (parameters - active) / (1 - chosen / experts) if experts else 0.0
    return {
        "collection": collection,
        "model": model,
        "accelerator": accelerator,
        "precision": precision,
        "tokens_per_second": speed,
        "parameters": parameters,
        "active": active,
        "expert_parameters": routed,
        "layers": layers,
        "width": width,
        "attention_width": attention,
        "kv_width": keys,
        "vocabulary": vocabulary,
        "experts": experts,
        "experts_per_token": chosen,
        "sequence_length": sequence,
        "batch_sequences": batch,
        "micro_batch": micro,
        "again": again,
        **chip_columns(accelerator, precision),
        "used": used,
        "tensor": tensor,
        "pipeline": pipeline,
        "context": context,
        "expert": expert,
        "data": data,
        "stage": 3 if sharded else 1,
        "micro_batches": steps,
        "bubble": (pipeline - 1) / (steps * virtual),
    }


def model_shape(name: str) -> tuple[float, ...]:
    row = reference_tables()["models"].set_index("model").loc[name]
    experts, chosen = (0.0 if row[column] != row[column] else row[column] for column in ("experts", "experts_per_token"))
    wide = row["attention_heads"] * row["head_size"]
    return (
        row["parameters_total"],
        row["parameters_active"],
        row["layers"],
        row["hidden_size"],
        wide,
        row["kv_heads"] * row["head_size"],
        row["vocabulary"],
        experts,
        chosen,
    )


def bridge_rows(path=None) -> pd.DataFrame:
    """NVIDIA Megatron-Bridge: pre-training throughput by model, system, number format and layout."""
    raw = pd.read_csv(path or reference_file("data", "training_scaling", "megatron_bridge_pretraining_part.csv"))
    degrees = raw[["fsdp", "tp", "pp", "cp", "vp", "ep"]].astype(float).fillna(1.0).replace(0.0, 1.0)
    rows = []
    for place, row in enumerate(raw.itertuples()):
        fsdp, tensor, pipeline, context, virtual, expert = degrees.iloc[place]
        layout = (float(row.gpus), tensor, pipeline, context, expert, virtual, fsdp > 1)
        name = BRIDGE_MODELS[row.model]
        more = {
            "sequence": row.sequence_length,
            "batch": row.global_batch_size,
            "micro": row.micro_batch_size,
            "speed": row.tokens_per_second_per_gpu,
        }
        rows.append(
            row_of(name, row.system.removeprefix("DGX-"), FORMATS[row.precision], model_shape(name), layout, **more, collection="bridge")
        )
    return pd.DataFrame(rows)


def mosaic_rows() -> pd.DataFrame:
    """MosaicML llm-foundry: MPT models, fully sharded."""
    raw = pd.read_csv(reference_file("data", "training_scaling", "mosaicml_mpt_training_throughput.csv"))
    rows = []
    for row in raw.itertuples():
        layers, width = MPT[row.model]
        chip = "H100" if "h100" in row.gpu else ("A100-40GB" if "40" in row.gpu else "A100-80GB")
        shape = (row.num_params, row.num_params, layers, width, width, width, 50368, 0.0, 0.0)
        layout = (float(row.gpus), 1.0, 1.0, 1.0, 1.0, 1.0, row.sharding_strategy == "FULL_SHARD")
        again = 4 / 3 if row.activation_checkpointing else 1.0
        more = {
            "sequence": row.seq_len_tokens,
            "batch": row.global_batch_size,
            "micro": row.micro_batch_size,
            "speed": row.tokens_per_second_per_gpu,
        }
        rows.append(
            row_of(
                row.model, chip, "fp8" if "fp8" in str(row.precision) else "bf16", shape, layout, again=again, **more, collection="mosaic"
            )
        )
    return pd.DataFrame(rows)
