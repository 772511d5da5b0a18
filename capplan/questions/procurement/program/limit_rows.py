"""Limits on what is signed, as rows of the first stage: one function a kind of limit, with its equation."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from capplan.book.scenario import ProcurementAssumptions
from capplan.questions.procurement.program.limit_scope import holds_in, in_scope, stated
from capplan.questions.procurement.supply.choices import Choices
from capplan.questions.procurement.supply.market import Market, held
from capplan.records import records

Limit = dict[Any, Any]


@dataclass
class LimitRows:
    """The first-stage rows of all limits under construction."""

    problem: Any  #: The first stage; excesses over soft budgets are added to it.
    #: choices, market: Decisions, and what is signed or owned already.
    choices: Choices
    market: Market
    lots: list[Any]  #: Variable of each choice.
    #: Variable of each amount of power that is paid for in any case and taken over by what is bought (`Choices.paid_power`).
    saving: list[Any]
    a: ProcurementAssumptions  #: Penalty of soft budgets.
    #: Rule, name, and what it is about: limit_id, kind, quarter, limit, already (by how much what is signed exceeds it).
    rows: list[tuple[Any, str, dict[str, Any]]] = field(default_factory=list)
    soft: dict[Any, float] = field(default_factory=dict)  #: Price of each excess.
    #: What is to be joined with expected use by the hour, and the coefficients of what is signed.
    budgets: list[tuple[dict[str, Any], dict[Any, float]]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)  #: What must be said.

    def __post_init__(self) -> None:
        """Say which machines are there at each moment, by choice and by holding."""
        table, spans, holdings = self.choices.table, self.choices.moments, self.market.holdings
        self.there = (spans.covered(table["start"], table["end"])[:, : spans.planned] > 0) * 1.0
        self.bought = self.choices.sure_accelerators[:, None] * self.there
        full = (holdings["role"] == "full").to_numpy()[:, None] if len(holdings) else np.zeros((0, 1))
        self.signed = held(self.market, spans)[:, : spans.planned] * full

    def add(self, limit: Limit, quarter: str, coefficients: np.ndarray, room: float, since: str = "") -> None:
        """Write one row: what the choices take of a limit in a quarter is at most the room that is left of it; nothing where none is."""
        from capplan.optimize import modelling

        used = {self.lots[j]: float(coefficients[j]) for j in np.flatnonzero(coefficients)}
        if used:
            about = {"limit_id": limit["limit_id"], "kind": limit["kind"], "quarter": quarter, "limit": float(limit["amount"])}
            about["already"] = max(-room, 0.0)
            self.rows.append((modelling.LpAffineExpression(used) <= max(room, 0.0), f"{limit['limit_id']} {quarter}{since}", about))

    def add_moments(self, limit: Limit, coefficients: np.ndarray, room: np.ndarray) -> None:
        """Write a limit for every part of the quarters in which it holds, (n, spans) and (spans,), once where parts do not differ."""
        spans, timeline = self.choices.moments, self.choices.timeline
        seen: set[tuple[int, bytes, float]] = set()
        for k in np.flatnonzero(holds_in(limit, timeline.horizon)[spans.quarter[: spans.planned]]).tolist():
            q = int(spans.quarter[k])
            left = float(room[k]) if room[k] >= 0 else float(room[spans.quarter[: len(room)] == q].min())
            key = (q, coefficients[:, k].tobytes(), left)
            if key not in seen:
                since = f" from {spans.starts[k]:%Y-%m-%d}" if k != spans.first[q] and any(before[0] == q for before in seen) else ""
                seen.add(key)
                self.add(limit, timeline.quarters[q], coefficients[:, k], left, since)


def quota(limit: Limit, given: LimitRows) -> None:
    r"""Accelerators under contract stay within a quota: :math:`\sum_j a_j \phi_{jt} x_j \le Q - K_t` at every moment t, with K signed.

    Nothing is added where K exceeds Q.
    """
    spans = given.choices.moments
    mine, theirs = in_scope(limit, given.choices.table), in_scope(limit, given.market.holdings)
    taken, amount = given.signed[theirs].sum(axis=0), float(limit["amount"])
    counts = holds_in(limit, given.choices.timeline.horizon)[spans.quarter[: spans.planned]]
    if (taken[counts] > amount).any():
        given.notes.append(
            f"{limit['limit_id']}: contracts already signed exceed the quota of {amount:g} accelerators, so nothing is added while they do."
        )
    given.add_moments(limit, given.bought * mine[:, None], amount - taken)


def new_accelerators(limit: Limit, given: LimitRows) -> None:
    r"""Accelerators of offers that begin in a quarter: :math:`\sum_{j: q_j = q} a_j x_j \le N`."""
    table, timeline = given.choices.table, given.choices.timeline
    fresh = in_scope(limit, table) & (table["kind"] == "offer").to_numpy()
    for q in np.flatnonzero(holds_in(limit, timeline.horizon)):
        begins = (table["quarter"] == timeline.quarters[q]).to_numpy()
        given.add(limit, timeline.quarters[q], table["lot_accelerators"].to_numpy() * fresh * begins, float(limit["amount"]))


def power(limit: Limit, given: LimitRows) -> None:
    r"""Kilowatts that own machines draw: :math:`\sum_j k_j \phi_{jt} x_j \le P - D_t` at every moment, with D what those there draw."""
    table, holdings, spans = given.choices.table, given.market.holdings, given.choices.moments
    running = spans.covered(holdings["start"], holdings["end"])[:, : spans.planned] if len(holdings) else given.signed
    drawn = ((running > 0) * holdings["power_kw"].to_numpy(float)[:, None])[in_scope(limit, holdings)].sum(axis=0)
    own = table["lot_kw"].to_numpy(float) * in_scope(limit, table) * (table["term"] == "owned").to_numpy()
    given.add_moments(limit, own[:, None] * given.there, float(limit["amount"]) - drawn)


def provider_share(limit: Limit, given: LimitRows) -> None:
    r"""Share of accelerators at a provider: :math:`\sum_{j \in p} a_j \phi_{jt} x_j - s \sum_j a_j \phi_{jt} x_j \le s K_t - K_{pt}`."""
    table, holdings, share = given.choices.table, given.market.holdings, float(limit["amount"])
    providers = [limit["provider"]] if stated(limit["provider"]) else sorted(set(table["provider"]))
    anywhere = {**limit, "provider": None}
    mine, theirs = in_scope(anywhere, table), in_scope(anywhere, holdings)
    for provider in providers:
        own = mine & (table["provider"] == provider).to_numpy()
        total = given.signed[theirs].sum(axis=0)
        has = given.signed[theirs & (holdings["provider"] == provider).to_numpy()].sum(axis=0)
        slope = given.bought * (own * 1.0 - share * mine)[:, None]
        given.add_moments({**limit, "limit_id": f"{limit['limit_id']} {provider}"}, slope, share * total - has)


def budget(limit: Limit, given: LimitRows) -> None:
    r"""Dollars signed stay within a quarter's budget, :math:`\sum_j p_{jq} x_j - \sum_s v_{sq} r_{sq} - o \le B - S_q`.

    S is what no purchase changes: the limit's `taken_usd` where it is stated, else what is signed, without the electricity of machines
    that are there (in cash without their support, too), which is then not saved where they are sold. It holds the power r, at v dollars,
    that is paid for in any case and that machines bought take over. Capex counts in the quarter in which it is paid, also where that lies
    before the planned ones, and no use by the hour is capex.
    """
    if stated(limit["team"]):
        given.notes.append(f"{limit['limit_id']}: a budget of one team is reported in the ledger but does not steer shared purchases.")
    elif limit["measure"] == "capex":
        _capex(limit, given)
    else:
        choices, lag, counted = given.choices, int(limit.get("paid_months_later", 0)), bool(pd.notna(limit.get("taken_usd")))
        if limit["measure"] == "cash":
            spend = choices.cash_usd(lag, pd.Timestamp(given.a.as_of), machines_there=counted)
        else:
            spend = choices.expense_usd + (0.0 if counted else choices.sold_power_usd)
        paid = choices.timeline.paid_share(lag)
        for q in np.flatnonzero(holds_in(limit, choices.timeline.horizon)).tolist():
            _budget(limit, q, spend[:, q], paid[: choices.timeline.planned, q], given)


#: The function that writes each kind of limit on what is signed; what caps use by the hour stands in the second stage.
LIMITS: dict[str, Callable[[Limit, LimitRows], None]] = {
    "quota_accelerators": quota,
    "new_accelerators": new_accelerators,
    "power_kw": power,
    "provider_share": provider_share,
    "budget_usd": budget,
}


def limit_rows(
    problem: Any, choices: Choices, market: Market, limits: pd.DataFrame, lots: list[Any], saving: list[Any], a: ProcurementAssumptions
) -> LimitRows:
    """Write the first-stage rows of all limits, in the order of the table."""
    given = LimitRows(problem, choices, market, lots, saving, a)
    for limit in records(limits):
        if limit["kind"] in LIMITS:
            LIMITS[limit["kind"]](limit, given)
    return given


def _capex(limit: Limit, given: LimitRows) -> None:
    """Write a limit on capex for every quarter in which machines may be paid: on the day they are signed for."""
    table, quarters = given.choices.table, given.choices.timeline.quarters
    own = (table["term"] == "owned").to_numpy() & in_scope(limit, table)
    paid = given.choices.paid_in(pd.Timestamp(given.a.as_of))
    for quarter in sorted(set(paid[own])):
        if not stated(limit["quarter"]) or limit["quarter"] == quarter:
            place = quarters.index(quarter) if quarter in quarters else 0
            _within(limit, quarter, place, given.choices.upfront_usd.sum(axis=1) * own * (paid == quarter), 0.0, given)


def _budget(limit: Limit, q: int, spend: np.ndarray, paid: np.ndarray, given: LimitRows) -> None:
    """Write one quarter of a budget: committed spend within it for sure, and committed plus expected usage within it.

    `spend` is what one lot of each choice takes of it, and `paid` the share of each planned quarter's use that does.
    """
    choices, timeline, holdings = given.choices, given.choices.timeline, given.market.holdings
    mine, theirs = in_scope(limit, choices.table), in_scope(limit, holdings)
    cash, lag = limit["measure"] == "cash", int(limit.get("paid_months_later", 0))
    if pd.notna(limit.get("taken_usd")):
        taken = float(limit["taken_usd"])
    else:
        running = timeline.covered(holdings["start"], holdings["end"])[:, q] if len(holdings) else np.zeros(0)
        counted = theirs & (holdings["kind"] == "contract").to_numpy() if cash else theirs
        taken = float((running * holdings["usd_per_hour"].to_numpy(float) * counted).sum() * timeline.days[q] * 24)
    # Compute is what machines and contracts cost by themselves: neither rooms nor what they take over of them.
    in_quarter = (np.arange(3 * timeline.planned).reshape(-1, 3) + lag) // 3 == q
    saved = {} if limit["measure"] == "compute" else _power_taken_over(in_quarter.mean(axis=1), mine, given)
    about, used, room = _within(limit, timeline.quarters[q], q, spend * mine, taken, given, saved)
    everything = not any(stated(limit[key]) for key in ("provider", "region", "accelerator"))
    scope = {
        "paid": paid,
        "late": in_quarter[:, 0] * 1.0,
        "room": room,
        "soft": not limit["hard"],
        "scope": in_scope(limit, given.market.pools),
    }
    given.budgets.append((about | scope | {"everything": everything}, used))


def _power_taken_over(paid: np.ndarray, mine: np.ndarray, given: LimitRows) -> dict[Any, float]:
    """Return what a kilowatt that is paid for in any case takes off again, where all that may draw it counts: it is in `taken` already.

    `paid` is the share of each planned quarter's months that is paid in the budget's quarter.
    """
    power = given.choices.paid_power
    return {
        amount: extra.billed_usd * float(paid[extra.quarter])
        for amount, extra, draws in zip(given.saving, power.extras, power.draws, strict=True)
        if extra.quarter < len(paid) and paid[extra.quarter] > 0 and mine[draws > 0].all()
    }


def _within(
    limit: Limit, quarter: str, q: int, spend: np.ndarray, taken: float, given: LimitRows, saved: dict[Any, float] | None = None
) -> tuple[dict[str, Any], dict[Any, float], float]:
    """Hold what the choices spend, less what they save, within what is left of a limit, softly where it is soft."""
    from capplan.optimize import modelling

    used = {given.lots[j]: float(spend[j]) for j in np.flatnonzero(spend)} | (saved or {})
    name, room = f"{limit['limit_id']} {quarter}", float(limit["amount"]) - taken
    if not limit["hard"]:
        over = given.problem.add_variable(f"over {name}", 0)
        used[over] = -1.0
        given.soft[over] = float(given.a.soft_limit_penalty_share * given.choices.timeline.discount[q])
    about = {"limit_id": limit["limit_id"], "kind": "budget_usd", "quarter": quarter, "limit": float(limit["amount"]), "already": 0.0}
    given.rows.append((modelling.LpAffineExpression(used) <= room, name, about))
    return about, used, room
