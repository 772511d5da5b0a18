"""The assumptions of training runs: layout, speed, sweeps, and the ways to a model that does the job."""

from typing import Literal

from capplan.book.assumptions.base import assumption
from capplan.book.assumptions.goodput import GoodputAssumptions


class TrainingAssumptions(GoodputAssumptions):
    """What a training run needs."""

    training_run: str = assumption(
        "", "Run of the roadmap that is planned; empty = the first that states parameters and has not begun.", "The roadmap's order."
    )
    planned_accelerators: int | None = assumption(
        None,
        "Accelerators the run is given; empty = as many as make it cheapest within its deadline.",
        "Empty: the count is what is asked for.",
        "1 to 200_000 by 64 accelerators",
    )
    mfu_share: float | None = assumption(
        None,
        "Share of the peak rate that a small run of this kind reaches, before it loses to scaling, pipelines, failures and waiting; empty ="
        " worked out for its architecture, number format, accelerator and layout from measured runs.",
        "Empty: NVIDIA, Megatron-Bridge performance summary (2026), and MosaicML, llm-foundry benchmarks; models held out: 7 % median error"
        " dense, 14 % mixture.",
        "above 0 to 1 by 0.01 share",
    )
    run_software: Literal["as_published", "tuned"] = assumption(
        "as_published",
        "How well the software of the run uses its accelerators: as published runs of their generation, or tuned as today's benchmarks"
        " are.",
        "Narayanan et al. (2021) and BLOOM (2022): runs on A100 reached 0.75 (median of nine) of what today's software would; of later"
        " accelerators benchmarks and published runs agree.",
    )
    scale_loss_share: float = assumption(
        0.03,
        "Share of the speed that each doubling of the accelerators costs (stragglers, busy networks), beyond those of the measured runs.",
        "Chowdhery et al., PaLM (2022): two pods reach 97 % of twice one; Dubey et al., Llama 3 (2024), table 4: 430 and 400 TFLOP/s on"
        " 8,192 and 16,384.",
        "0 to below 0.5 by 0.005 share",
    )
    scale_loss_from: float = assumption(
        512.0,
        "Accelerators from which on that counts.",
        "The largest of most measured runs behind the speed (MosaicML: 512; NVIDIA: 64 to 1,024).",
        "1 to 1_000_000 by 64 accelerators",
    )
    operations_counted: Literal["hardware", "model"] = assumption(
        "hardware",
        "What the share of the peak counts: all operations, also those done twice to save memory (HFU), or those of the mathematics only"
        " (MFU).",
        "The two differ by a third under full recomputation only; counting all shows what recomputation costs.",
    )
    attention_operations: bool = assumption(
        False,
        "Does the work of a run count the products of attention, which grow with the sequence, beside 6 x parameters x tokens?",
        "Off: as the demand forecast counts a run, and as the Llama 3 and OPT reports do; MosaicML counts them.",
    )
    recompute: Literal["fastest", "none", "selective", "full"] = assumption(
        "fastest",
        "Activations computed again in the backward pass: none, those of attention, all, or whichever of them is fastest and fits.",
        "Korthikanti et al., Reducing activation recomputation (2022): selective saves 70 % of the memory for under 3 % more work in"
        " GPT-3; all takes a third more, and fits where nothing else does.",
    )
    sequence_length: int = assumption(
        8192,
        "Tokens in a training sequence.",
        "Dubey et al. (2024), section 3.4: Llama 3 trains on 8,192.",
        "128 to 1_048_576 by 1024 tokens",
    )
    global_batch_tokens: float = assumption(
        4e6,
        "Tokens in one optimiser step: the fewer, the fewer accelerators a run can use.",
        "Dubey et al. (2024), section 3.4.1: Llama 3 starts with 4 million and ends with 16.",
        "above 0 to 1e9 by 1e6 tokens",
    )
    micro_batch_sequences: int = assumption(
        1, "Sequences in one micro-batch.", "The smallest takes the least memory.", "1 to 1024 by 1 sequences"
    )
    memory_reserve_share: float = assumption(
        0.1,
        "Share of an accelerator's memory kept for buffers and fragmentation.",
        "A judgement: communication buffers and the allocator take several GiB.",
        "0 to below 0.9 by 0.01 share",
    )
    simple_rung_share: float = assumption(
        0.8,
        "The simplest layout that fits is taken if it is at least this share as fast as the fastest that fits; 0 = whatever it loses.",
        "A judgement: a fifth of the speed is worth a layout that is less to build, tune and debug; a pipeline that idles for most of a"
        " step is not.",
        "0 to 1 by 0.1 share",
    )
    fabric_gbps_per_accelerator: float = assumption(
        400.0,
        "Network for each accelerator of a machine with fast links, where its row states none.",
        "NVIDIA, DGX H100/H200 user guide: a 400 Gbit/s card beside each of the eight accelerators.",
        "above 0 to 10_000 by 50 Gbit/s",
    )
    ethernet_gbps_per_accelerator: float = assumption(
        12.5,
        "The same for machines without fast links.",
        "Amazon EC2 instance types: 100 Gbit/s for the eight accelerators of a g5.48xlarge or g6.48xlarge.",
        "above 0 to 10_000 by 2.5 Gbit/s",
    )
    run_maximum_accelerators: int = assumption(
        4096, "Largest run that is looked at.", "A judgement: raise it for larger fleets.", "1 to 200_000 by 256 accelerators"
    )
    run_on_spot: Literal["as_workload", "yes", "no"] = assumption(
        "as_workload",
        "May the run take spot machines? As its workload says (interruptible), or yes, or no.",
        "The workloads table says what can be stopped at any time.",
    )
    contract_reuse_share: float = assumption(
        0.0,
        "Share of a contract's time after the run that other work uses; what is left is paid by the run.",
        "0: a run is priced as if nothing else needed its machines; the purchase plan knows better.",
        "0 to 1 by 0.1 share",
    )
    run_curve: str = assumption(
        "",
        "Measured scaling curve that the run follows; empty = the first that was measured on a growing number of the same model.",
        "The order of the table.",
    )
    token_bytes: float = assumption(
        4.0,
        "Bytes that a training token takes in storage.",
        "A judgement: a 32-bit token number; text with its records takes about as much, images and sound far more.",
        "above 0 to 1e7 by 1 bytes",
    )
    transfer_gbps: float = assumption(
        10.0,
        "Network over which data and checkpoints are brought to another place.",
        "A judgement: a common private connection to a cloud region.",
        "above 0 to 10_000 by 10 Gbit/s",
    )
    sweep_trials: int = assumption(
        81, "Settings a tuning sweep tries.", "Four rounds that each keep a third: 81, 27, 9, 3.", "1 to 100_000 by 9 trials"
    )
    sweep_epochs: int = assumption(
        27, "Rounds of training in a whole trial.", "81 trials that keep a third end with 3 after 27.", "1 to 10_000 by 9 epochs"
    )
    sweep_keep_one_in: int = assumption(
        3,
        "Of how many trials one goes on after a round of successive halving.",
        "Li et al., Hyperband, JMLR 2018: 3 or 4 are suggested.",
        "2 to 16 by 1",
    )
    sweep_stopped_share: float = assumption(
        0.5,
        "Share of the trials of a grid or random sweep that a stopping rule ends early.",
        "Golovin et al., Google Vizier (KDD 2017), section 3.2: a trial below the median of the others is stopped.",
        "0 to 1 by 0.05 share",
    )
    sweep_stopped_at_share: float = assumption(
        0.3,
        "Share of its training at which such a trial is ended.",
        "A judgement: curves of good and bad settings have parted by then.",
        "above 0 to 1 by 0.05 share",
    )
    sweep_population: int = assumption(
        20,
        "Trials that a population-based sweep trains side by side.",
        "Jaderberg et al., Population Based Training (2017), section 4: 10 to 80.",
        "2 to 10_000 by 5 trials",
    )
    trial_accelerators: int = assumption(8, "Accelerators of one trial.", "One machine.", "1 to 10_000 by 1 accelerators")
    trial_hours_per_epoch: float = assumption(
        1.0, "Hours one trial takes for an epoch.", "A judgement; yours come from a first trial.", "above 0 to 1000 by 0.5 h"
    )
    sweep_pool_accelerators: int = assumption(
        64, "Accelerators a sweep may hold at once.", "A judgement: eight machines.", "1 to 100_000 by 8 accelerators"
    )
    adaptation_tokens: float = assumption(
        1e9,
        "Tokens of your own that a model is tuned on.",
        "A judgement: a few million documents' worth of examples.",
        "above 0 to 1e14 by 1e8 tokens",
    )
    adaptation_runs: int = assumption(
        5,
        "Tuning runs until one is good enough, over the months looked at.",
        "A judgement: a few tries, and again for each new base model.",
        "1 to 1000 by 1 runs",
    )
    adapter_rank: int = assumption(
        16, "Rank of low-rank adapters.", "Hu et al., LoRA (2021), section 7.2: small ranks of 1 to 64 do as well.", "1 to 1024 by 8"
    )
    monthly_million_tokens: float = assumption(
        2000.0,
        "Tokens a month that the finished model reads and writes.",
        "A judgement: a product feature of a mid-size company.",
        "0 to 1e9 by 100 million/month",
    )
    api_usd_per_million_tokens: float = assumption(
        2.0,
        "Price of a million tokens of a model one calls, input and output mixed.",
        "A judgement between small and large models' list prices; the crossover question has yours.",
        "0 to 1000 by 0.5 USD",
    )
    own_usd_per_million_tokens: float = assumption(
        0.8,
        "Cost of a million tokens of a model one serves oneself.",
        "A judgement; the serving question has yours.",
        "0 to 1000 by 0.1 USD",
    )
    decision_months: int = assumption(
        12, "Months over which ways to a model are compared.", "A year: models are replaced about as often.", "1 to 60 by 1 months"
    )
