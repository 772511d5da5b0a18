"""Tables of facts: accelerators, machines, model architectures, and where facts come from."""

import pandas as pd

from capplan.book.tables.columns import Table, column, order_rule


class Sources(Table):
    """Where a fact comes from."""

    source_id: str = column("Short name of the source.", key=True)
    title: str = column("Title of the paper, page, file or price list.")
    where_found: str = column("Publisher, repository and commit, or document number; enough to find it again.")
    retrieved_on: pd.Timestamp = column("Day on which the figure was read.")
    licence: str = column("Licence the source states.", default="not stated")


class Accelerators(Table):
    """A kind of accelerator."""

    accelerator: str = column("Name of the accelerator, as skus and speeds use it.", key=True)
    vendor: str = column("Who makes it.")
    memory_gib: float = column("Memory of one accelerator.", unit="GiB", gt=0)
    memory_bandwidth_gbps: float = column("Memory bandwidth.", unit="GB/s", gt=0)
    bf16_tflops: float = column("Peak dense bf16 rate, without sparsity.", unit="TFLOP/s", gt=0)
    fp8_tflops: float = column("Peak dense 8-bit floating point rate, where the accelerator has one.", unit="TFLOP/s", optional=True, gt=0)
    fp4_tflops: float = column("Peak dense 4-bit floating point rate, where the accelerator has one.", unit="TFLOP/s", optional=True, gt=0)
    power_w: float = column("Board power at full load; empty where its maker states none.", unit="W", optional=True, gt=0)
    link_gbps: float = column(
        "Bandwidth of the fast links to its neighbours, both directions together; empty where there are none.",
        unit="GB/s",
        optional=True,
        gt=0,
    )
    link_domain_accelerators: float = column("Accelerators that fast links join; empty = those of one machine.", optional=True, ge=1)
    as_of: pd.Timestamp = column("Day the figures held.")
    source_id: str = column("Source of the row.", refers="sources.source_id")


class Skus(Table):
    """A machine one can have."""

    sku: str = column("Name of the machine type.", key=True)
    provider: str = column("Who sells or makes it (aws, gcp, azure, lambda, ...; own for machines one buys).")
    accelerator: str = column("Accelerator in it.", refers="accelerators.accelerator")
    accelerator_count: int = column("Accelerators in one machine.", ge=1)
    vcpus: float = column("Virtual CPUs.", optional=True, gt=0)
    memory_gib: float = column("Main memory.", unit="GiB", optional=True, gt=0)
    local_ssd_gib: float = column("Local flash storage.", unit="GiB", optional=True, ge=0)
    network_gbps: float = column("Network bandwidth.", unit="Gbit/s", optional=True, gt=0)
    network_source_id: str = column(
        "Source of the network bandwidth, where it is not that of the row.", optional=True, refers="sources.source_id"
    )
    power_kw: float = column("Power of the whole machine at full load; needed for owned machines.", unit="kW", optional=True, gt=0)
    source_id: str = column("Source of the row.", refers="sources.source_id")


class Models(Table):
    """A model architecture."""

    model: str = column("Name of the model.", key=True)
    parameters_total: float = column("Parameters in all.", gt=0)
    parameters_active: float = column("Parameters that work on one token (fewer in mixture-of-experts models).", gt=0)
    layers: int = column("Transformer layers.", ge=1)
    hidden_size: int = column("Width of the model.", ge=1)
    attention_heads: int = column("Query heads.", ge=1)
    kv_heads: int = column("Key-value heads.", ge=1)
    head_size: int = column("Width of a head.", ge=1)
    vocabulary: int = column("Tokens in the vocabulary.", ge=1)
    cache_values_per_layer: float = column(
        "Values kept in the cache for a token in a layer, where it is not 2 x kv_heads x head_size (latent attention).", optional=True, gt=0
    )
    window_tokens: float = column(
        "Sliding window of the layers that do not look at the whole context; empty = all look at all.", unit="tokens", optional=True, ge=1
    )
    full_attention_layers: float = column(
        "Layers that look at the whole context, where the others have a window; empty = none.", optional=True, ge=0
    )
    experts: float = column("Routed experts of a layer in a mixture-of-experts model; empty = none.", optional=True, ge=1)
    experts_per_token: float = column("Routed experts that one token passes through.", optional=True, ge=1)
    as_of: pd.Timestamp = column("Day the figures were read.")
    source_id: str = column("Source of the row.", refers="sources.source_id")

    active = order_rule("parameters_active", "parameters_total")
    routed = order_rule("experts_per_token", "experts")
