"""Tables about what a user waits for: surfaces of a product with their latency targets, and the parts of a request's way."""

from __future__ import annotations

from capplan.inputs.columns import Table, column, order_rule


class Surfaces(Table):
    """A place where a user waits for a served model."""

    surface: str = column("Name of the surface (chat window, voice, search box, ...).", key=True)
    workload: str = column("Workload that answers there.", refers="workloads.workload")
    measure: str = column("What the user waits for.", isin=["first_token", "whole_answer"])
    target_seconds: float = column("Time within which it must be there, as the user sees it.", unit="s", gt=0)
    target_share: float = column("Share of requests that must meet the target.", optional=True, default=0.95, gt=0, lt=1)


class LatencyParts(Table):
    """One part of a request's way outside the model: network, gateway, retrieval, guardrails, ..."""

    surface: str = column("Surface the request comes from.", refers="surfaces.surface", key=True)
    part: str = column("Name of the part.", key=True)
    median_seconds: float = column("Half of the requests take no longer.", unit="s", gt=0)
    p95_seconds: float = column("95 of 100 requests take no longer.", unit="s", gt=0)
    source_id: str = column("Source of the row.", optional=True, refers="sources.source_id")

    spread = order_rule("median_seconds", "p95_seconds")
