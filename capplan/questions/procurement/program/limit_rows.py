"""Limits on what is signed, as rows of the first stage."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from capplan.book.scenario import ProcurementAssumptions
from capplan.questions.procurement.program.limit_scope import holds_in, in_scope, stated
from capplan.questions.procurement.supply.choices import Choices
from capplan.questions.procurement.supply.market import Market, held


def limit_rows(
    problem: Any, choices: Choices, market: Market, limits: pd.DataFrame, lots: list[Any], a: ProcurementAssumptions
) -> tuple[list[tuple[Any, str, dict[str, Any]]], dict[Any, float], list[tuple[dict[str, Any], dict[Any, float]]], list[str]]:
    """Write the first-stage rows of all limits; return them, the price of soft ones, the budgets to be joined with usage, and notes.

    Parameters
    ----------
    problem
        The first stage; excesses over soft budgets are added to it.
    choices, market
        Decisions, and what is signed or owned already.
    limits
        Quotas, new accelerators, power, provider shares and budgets.
    lots
        Variable of each choice.
    a
        Penalty of soft budgets.
    """
    from capplan.optimize import modelling

    table, timeline, spans = choices.table, choices.timeline, choices.moments
    there = (spans.covered(table["start"], table["end"])[:, : spans.planned] > 0) * 1.0
    owned = held(market, spans)[:, : spans.planned]
    holdings = market.holdings
    full_signed = (holdings["role"] == "full").to_numpy()[:, None] if len(holdings) else np.zeros((0, 1))
    bought = table["lot_accelerators"].to_numpy(float)[:, None] * there
    bought = bought * np.isin(table["role"], ["full", "reserve"])[:, None]
    rows: list[tuple[Any, str, dict[str, Any]]] = []
    soft: dict[Any, float] = {}
    budgets: list[tuple[dict[str, Any], dict[Any, float]]] = []
    notes: list[str] = []

    def add(limit: dict[Any, Any], quarter: str, coefficients: np.ndarray, room: float, since: str = "") -> None:
        used = {lots[j]: float(coefficients[j]) for j in np.flatnonzero(coefficients)}
        if used:
            about = {"limit_id": limit["limit_id"], "kind": limit["kind"], "quarter": quarter, "limit": float(limit["amount"])}
            rows.append((modelling.LpAffineExpression(used) <= room, f"{limit['limit_id']} {quarter}{since}", about))

    def add_spans(limit: dict[Any, Any], coefficients: np.ndarray, room: np.ndarray) -> None:
        """Write a limit for every part of the quarters in which it holds, (n, spans) and (spans,), once where parts of a quarter do not differ."""
        seen: set[tuple[int, bytes, float]] = set()
        for k in np.flatnonzero(holds_in(limit, timeline.horizon)[spans.quarter[: spans.planned]]).tolist():
            q = int(spans.quarter[k])
            key = (q, coefficients[:, k].tobytes(), float(room[k]))
            if key not in seen:
                since = f" from {spans.starts[k]:%Y-%m-%d}" if k != spans.first[q] and any(before[0] == q for before in seen) else ""
                seen.add(key)
                add(limit, timeline.quarters[q], coefficients[:, k], float(room[k]), since)

    for limit in limits.to_dict("records"):
        kind, amount = limit["kind"], float(limit["amount"])
        mine, theirs = in_scope(limit, table), in_scope(limit, holdings)
        when = np.flatnonzero(holds_in(limit, timeline.horizon))
        if kind == "quota_accelerators":
            taken = (owned * full_signed)[theirs].sum(axis=0)
            if (taken[np.isin(spans.quarter[: spans.planned], when)] > amount).any():
                notes.append(
                    f"{limit['limit_id']}: contracts already signed exceed the quota of {amount:g} accelerators, so nothing is added while they do."
                )
            add_spans(limit, bought * mine[:, None], np.maximum(amount - taken, 0.0))
        elif kind == "new_accelerators":
            fresh = mine & (table["kind"] == "offer").to_numpy()
            for q in when:
                add(
                    limit,
                    timeline.quarters[q],
                    table["lot_accelerators"].to_numpy() * fresh * (table["quarter"] == timeline.quarters[q]).to_numpy(),
                    amount,
                )
        elif kind == "power_kw":
            running = spans.covered(holdings["start"], holdings["end"])[:, : spans.planned] if len(holdings) else owned
            drawn = ((running > 0) * holdings["power_kw"].to_numpy(float)[:, None])[theirs].sum(axis=0)
            power = table["lot_kw"].to_numpy(float) * mine * (table["term"] == "owned").to_numpy()
            add_spans(limit, power[:, None] * there, np.maximum(amount - drawn, 0.0))
        elif kind == "provider_share":
            providers = [limit["provider"]] if stated(limit["provider"]) else sorted(set(table["provider"]))
            anywhere_mine, anywhere_theirs = in_scope({**limit, "provider": None}, table), in_scope({**limit, "provider": None}, holdings)
            signed = owned * full_signed
            for provider in providers:
                own = anywhere_mine & (table["provider"] == provider).to_numpy()
                total = signed[anywhere_theirs].sum(axis=0)
                has = signed[anywhere_theirs & (holdings["provider"] == provider).to_numpy()].sum(axis=0)
                slope = bought * (own * 1.0 - amount * anywhere_mine)[:, None]
                add_spans({**limit, "limit_id": f"{limit['limit_id']} {provider}"}, slope, np.maximum(amount * total - has, 0.0))
        elif kind == "budget_usd":
            if stated(limit["team"]):
                notes.append(f"{limit['limit_id']}: a budget of one team is reported in the ledger but does not steer shared purchases.")
                continue
            for q in when:
                _budget(problem, limit, int(q), choices, market, lots, mine, theirs, a, rows, soft, budgets)
    return rows, soft, budgets, notes


def _budget(
    problem: Any, limit: dict[Any, Any], q: int, choices: Choices, market: Market, lots: list[Any], mine: np.ndarray, theirs: np.ndarray,
    a: ProcurementAssumptions, rows: list[tuple[Any, str, dict[str, Any]]], soft: dict[Any, float], budgets: list[tuple[dict[str, Any], dict[Any, float]]],
) -> None:  # fmt: skip
    """Write one quarter of a budget: committed spend within it for sure, and committed plus expected usage within it."""
    from capplan.optimize import modelling

    timeline, holdings = choices.timeline, market.holdings
    quarter = timeline.quarters[q]
    measure = limit["measure"] if stated(limit["measure"]) else "p_and_l"
    if measure == "capex":
        spend = choices.upfront_usd[:, q] * (choices.table["term"] == "owned").to_numpy()
        signed = 0.0
    else:
        spend = choices.expense_usd[:, q] if measure == "p_and_l" else choices.running_usd[:, q] + choices.upfront_usd[:, q]
        running = timeline.covered(holdings["start"], holdings["end"])[:, q] if len(holdings) else np.zeros(0)
        counted = theirs if measure == "p_and_l" else theirs & (holdings["kind"] == "contract").to_numpy()
        signed = float((running * holdings["usd_per_hour"].to_numpy(float) * counted).sum() * timeline.hours[q])
    used = {lots[j]: float(spend[j]) for j in np.flatnonzero(spend * mine)}
    name = f"{limit['limit_id']} {quarter}"
    if not limit["hard"]:
        over = problem.add_variable(f"over {name}", 0)
        used[over] = -1.0
        soft[over] = float(a.soft_limit_penalty_share * timeline.discount[q])
    room = float(limit["amount"]) - signed
    about = {"limit_id": limit["limit_id"], "kind": "budget_usd", "quarter": quarter, "limit": float(limit["amount"])}
    rows.append((modelling.LpAffineExpression(used) <= room, name, about))
    if measure != "capex":
        everything = not any(stated(limit[key]) for key in ("provider", "region", "accelerator"))
        scope = {"q": q, "room": room, "soft": not limit["hard"], "scope": in_scope(limit, market.pools), "everything": everything}
        budgets.append((about | scope, used))
