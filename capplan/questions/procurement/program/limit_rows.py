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

    table, timeline = choices.table, choices.timeline
    owned = held(market, timeline)[:, : timeline.planned]
    holdings = market.holdings
    full_signed = (holdings["role"] == "full").to_numpy()[:, None] if len(holdings) else np.zeros((0, 1))
    bought = table["lot_accelerators"].to_numpy(float)[:, None] * choices.covered[:, : timeline.planned]
    bought = bought * np.isin(table["role"], ["full", "reserve"])[:, None]
    rows: list[tuple[Any, str, dict[str, Any]]] = []
    soft: dict[Any, float] = {}
    budgets: list[tuple[dict[str, Any], dict[Any, float]]] = []
    notes: list[str] = []

    def add(limit: dict[Any, Any], quarter: str, coefficients: np.ndarray, room: float) -> None:
        used = {lots[j]: float(coefficients[j]) for j in np.flatnonzero(coefficients)}
        if used:
            about = {"limit_id": limit["limit_id"], "kind": limit["kind"], "quarter": quarter, "limit": float(limit["amount"])}
            rows.append((modelling.LpAffineExpression(used) <= room, f"{limit['limit_id']} {quarter}", about))

    for limit in limits.to_dict("records"):
        kind, amount = limit["kind"], float(limit["amount"])
        mine, theirs = in_scope(limit, table), in_scope(limit, holdings)
        when = np.flatnonzero(holds_in(limit, timeline.horizon))
        if kind == "quota_accelerators":
            taken = (owned * full_signed)[theirs].sum(axis=0)
            if (taken[when] > amount).any():
                notes.append(
                    f"{limit['limit_id']}: contracts already signed exceed the quota of {amount:g} accelerators, so nothing is added while they do."
                )
            for q in when:
                add(limit, timeline.quarters[q], bought[:, q] * mine, max(amount - float(taken[q]), 0.0))
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
            running = timeline.covered(holdings["start"], holdings["end"])[:, : timeline.planned] if len(holdings) else owned
            drawn = (running * holdings["power_kw"].to_numpy(float)[:, None])[theirs].sum(axis=0)
            power = table["lot_kw"].to_numpy(float) * mine * (table["term"] == "owned").to_numpy()
            for q in when:
                add(limit, timeline.quarters[q], power * (choices.covered[:, q] > 0), max(amount - float(drawn[q]), 0.0))
        elif kind == "provider_share":
            providers = [limit["provider"]] if stated(limit["provider"]) else sorted(set(table["provider"]))
            anywhere_mine, anywhere_theirs = in_scope({**limit, "provider": None}, table), in_scope({**limit, "provider": None}, holdings)
            for provider in providers:
                own = anywhere_mine & (table["provider"] == provider).to_numpy()
                signed = owned * full_signed
                for q in when:
                    total = float(signed[anywhere_theirs, q].sum())
                    has = float(signed[anywhere_theirs & (holdings["provider"] == provider).to_numpy(), q].sum())
                    slope = bought[:, q] * (own * 1.0 - amount * anywhere_mine)
                    add(
                        {**limit, "limit_id": f"{limit['limit_id']} {provider}"},
                        timeline.quarters[q],
                        slope,
                        max(amount * total - has, 0.0),
                    )
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
