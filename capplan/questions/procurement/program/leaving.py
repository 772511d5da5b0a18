"""Rules of leaving contracts: no machine is left twice or renewed as well, and an exchange buys at least what it gives back."""

from typing import Any

import numpy as np

from capplan.contract_kinds import RENEWABLE_TERMS
from capplan.questions.procurement.supply.choices import Choices
from capplan.questions.procurement.supply.departures import DEPARTURE, EXCHANGE
from capplan.questions.procurement.supply.owned import KEEP


def departure_rules(choices: Choices, lots: list[Any]) -> list[tuple[Any, str]]:
    """Write the rules between departures, renewals and purchases."""
    if not (choices.table["kind"] == DEPARTURE).any():
        return []
    return [*left_once(choices, lots), *exchanged_for_as_much(choices, lots)]


def left_once(choices: Choices, lots: list[Any]) -> list[tuple[Any, str]]:
    r"""Leave machines of a contract in one quarter, or renew or keep them, not both: :math:`\sum_q d_{cq} + r_c \le M_c`."""
    from capplan.optimize import modelling

    table, rules = choices.table, []
    leaving = (table["kind"] == DEPARTURE).to_numpy()
    for contract, part in table[leaving].groupby("of_contract", sort=True):
        renewed = np.flatnonzero(
            (table["offer_id"].isin([f"renew {contract}", f"{KEEP} {contract}"]) & (table["follows"] == "")).to_numpy()
        )
        own = [*part.index.tolist(), *renewed.tolist()]
        rules.append((modelling.lpSum(lots[j] for j in own) <= float(part["maximum_lots"].iloc[0]), f"machines of {contract}"))
    return rules


def exchanged_for_as_much(choices: Choices, lots: list[Any]) -> list[tuple[Any, str]]:
    r"""Exchange no more worth than is bought of the provider in the quarter: :math:`\sum_c P_{cq} d_{cq} \le \sum_j P_j x_j`."""
    from capplan.optimize import modelling

    table, rules = choices.table, []
    leaving = (table["kind"] == DEPARTURE).to_numpy()
    worth = np.abs(choices.running_usd + choices.upfront_usd).sum(axis=1)
    bought = (table["kind"] == "offer") & table["term"].isin(RENEWABLE_TERMS)
    for (provider, quarter), part in table[leaving & (table["way"] == EXCHANGE)].groupby(["provider", "quarter"], sort=True):
        into = np.flatnonzero((bought & (table["provider"] == provider) & (table["quarter"] == quarter)).to_numpy())
        terms = {lots[j]: -float(worth[j]) for j in into.tolist()} | {lots[j]: float(worth[j]) for j in part.index.tolist()}
        rules.append((modelling.LpAffineExpression(terms) <= 0, f"exchange {provider} {quarter}"))
    return rules
