"""Rules of leaving contracts: no machine is left twice or renewed as well, and an exchange buys at least what it gives back."""

from __future__ import annotations

from typing import Any

import numpy as np

from capplan.contract_kinds import RENEWABLE_TERMS
from capplan.questions.procurement.supply.choices import Choices
from capplan.questions.procurement.supply.departures import DEPARTURE, EXCHANGE


def departure_rules(choices: Choices, lots: list[Any]) -> list[tuple[Any, str]]:
    r"""Write the rules between departures, renewals and purchases.

    .. math::

        & \textstyle\sum_{q} d_{cq} + r_c \le M_c && \text{machines of } c \text{ left in any quarter, and renewed at first} \\
        & \textstyle\sum_{c} P_{cq} d_{cq} \le \sum_j P_j x_j && \text{worth of what is exchanged and bought, by provider and quarter}
    """
    from capplan.optimize import modelling

    table = choices.table
    leaving = (table["kind"] == DEPARTURE).to_numpy()
    if not leaving.any():
        return []
    rules: list[tuple[Any, str]] = []
    for contract, part in table[leaving].groupby("of_contract", sort=True):
        renewed = np.flatnonzero(((table["offer_id"] == f"renew {contract}") & (table["follows"] == "")).to_numpy())
        own = [*part.index.tolist(), *renewed.tolist()]
        rules.append((modelling.lpSum(lots[j] for j in own) <= float(part["maximum_lots"].iloc[0]), f"machines of {contract}"))
    worth = np.abs(choices.running_usd + choices.upfront_usd).sum(axis=1)
    bought = (table["kind"] == "offer") & table["term"].isin(RENEWABLE_TERMS)
    for (provider, quarter), part in table[leaving & (table["way"] == EXCHANGE)].groupby(["provider", "quarter"], sort=True):
        into = np.flatnonzero((bought & (table["provider"] == provider) & (table["quarter"] == quarter)).to_numpy())
        terms = {lots[j]: -float(worth[j]) for j in into.tolist()} | {lots[j]: float(worth[j]) for j in part.index.tolist()}
        rules.append((modelling.LpAffineExpression(terms) <= 0, f"exchange {provider} {quarter}"))
    return rules
