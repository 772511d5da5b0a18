"""Ways to a model that does the job: train it, tune it whole, tune adapters, or call one."""

import numpy as np
import pandas as pd

from capplan.book.assumptions.training import TrainingAssumptions
from capplan.questions.training.architecture import GIB, Shape, activation_bytes, parameter_bytes
from capplan.questions.training.flops import EXA, TERA, Recompute, operations_per_token, run_usd

#: Adapters train with forward and backward through frozen weights, whose own gradients are not needed: 4 operations a parameter and token.
ADAPTER_OPERATIONS = 4
#: Matrices of a layer that adapters stand beside: queries, keys, values, output.
ADAPTED_MATRICES = 4


def adapter_parameters(shape: Shape, rank: int) -> float:
    r"""Count the parameters of low-rank adapters beside the four matrices of attention.

    .. math:: P_\text{LoRA} = 4 \cdot 2\,r\,h\,L

    (square matrices; grouped keys and values have fewer).

    Source: E. Hu et al., LoRA: Low-rank adaptation of large language models, 2021, section 4.2 (18M for GPT-3 with r = 4 beside two
        matrices).

    Examples:
        >>> gpt3 = Shape(175e9, 175e9, 96, 12288, 96, 50257, 12288)
        >>> round(adapter_parameters(gpt3, 4) / 2 / 1e6, 1)
        18.9
    """
    return ADAPTED_MATRICES * 2.0 * rank * shape.width * shape.layers


def compare_ways(
    shape: Shape,
    precision: str,
    scratch_exaflop: float,
    tflops_per_accelerator: float,
    usd_per_accelerator_hour: float,
    memory_gib: float,
    a: TrainingAssumptions,
) -> pd.DataFrame:
    r"""Hold training a model against tuning one, against adapters, and against calling one.

    .. math:: K = K_\text{once} + 12\,v\,c,\qquad C_\text{tune} = 6ND',\qquad C_\text{LoRA} = 4ND'

    Args:
        memory_gib: Memory of one accelerator that is free.
        a: Tokens of one's own (D'), tuning runs, months and tokens a month (v), prices of tokens (c).

    Returns:
        DataFrame: way, trained_parameters, accelerators_needed (at the least, for the memory of the model's state), accelerator_hours,
            once_usd, monthly_usd, total_usd, usd_per_million_tokens (all in), break_even_million_tokens_per_month (from which the way beats
            calling; 0 = at any, infinite = never), cheapest, needs; cheapest first.

    Source: E. Hu et al., LoRA, 2021; D. Narayanan et al., SC21.
    """
    weight, gradient, optimiser = parameter_bytes(precision)
    each = float(operations_per_token(shape.active))
    adapters = adapter_parameters(shape, a.adapter_rank)
    again: Recompute = "selective" if a.recompute == "fastest" else a.recompute
    activation = float(activation_bytes(shape, a.sequence_length, a.micro_batch_sequences, again))
    full = (weight + gradient + optimiser) * shape.parameters
    small = weight * shape.parameters + (weight + gradient + optimiser) * adapters
    tuned = a.adaptation_tokens * a.adaptation_runs / EXA
    served, called = a.own_usd_per_million_tokens * a.monthly_million_tokens, a.api_usd_per_million_tokens * a.monthly_million_tokens
    everything, base = (shape.parameters, full + activation), "A good open model, and"
    plan = [
        ("train_from_scratch", *everything, scratch_exaflop, served, "Data, people and evaluation for a whole training; full control."),
        ("fine_tune", *everything, each * tuned, served, f"{base} enough data to move all its weights."),
        (
            *("adapters", adapters, small + activation, each * ADAPTER_OPERATIONS / 6 * tuned, served),
            f"{base} a task near what it can do; one base serves many adapters.",
        ),
        ("call_an_api", 0.0, 0.0, 0.0, called, "Data may leave the house, and the provider's model does the job as it is."),
    ]
    saved = a.api_usd_per_million_tokens - a.own_usd_per_million_tokens
    spread = a.monthly_million_tokens * a.decision_months
    rows = []
    for way, trained, held, work, monthly, needs in plan:
        hours = work * EXA / (tflops_per_accelerator * TERA * 3600)
        once = run_usd(hours, usd_per_accelerator_hour)
        margin = (called - monthly) / a.monthly_million_tokens if a.monthly_million_tokens else saved
        volume = once / a.decision_months / margin if margin > 0 else (0.0 if once == 0 and way == "call_an_api" else np.inf)
        total = once + monthly * a.decision_months
        rows.append(
            {
                "way": way,
                "trained_parameters": trained,
                "accelerators_needed": int(np.ceil(held / GIB / memory_gib)),
                "accelerator_hours": hours,
                "once_usd": once,
                "monthly_usd": monthly,
                "total_usd": total,
                "usd_per_million_tokens": total / spread if spread else np.nan,
                "break_even_million_tokens_per_month": volume if way != "call_an_api" else np.nan,
                "needs": needs,
            }
        )
    table = pd.DataFrame(rows).sort_values("total_usd", kind="stable", ignore_index=True)
    table.insert(7, "cheapest", table.index == 0)
    return table
