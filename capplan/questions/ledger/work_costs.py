"""What work bears of the compute P&L: every amount goes to a class of work, or is named as borne by none."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from capplan.questions.ledger.costs import MOVED
from capplan.questions.ledger.unit_prices import BY_USE

#: Components that pay for capacity or for a lower price, used or not.
HELD = ("commitment", "left_early", "exit_cost", "purchase", "depreciation", "running", "support")
ROOMS = ("space", "power")
#: Basis -> words for what no work bears.
UNBORNE = {
    "held": "held, but not used",
    "plan": "plans that no use drew on",
    "rooms": "rooms without work",
    "discount": "discounts without use",
}
KEYS = ["quarter", "basis"]


def basis_of(component: str, contract_id: str, provider: str, status: str, pools: Mapping[str, tuple[str, str, bool]]) -> str:
    """Say by what an amount is borne: by the hours on a pool, the use a plan discounts, own hours, use; empty where it is no compute.

    Compute is all P&L but stated other costs and the tokens of workloads that run on model APIs alone.

    Args:
        pools: Provider, accelerator and whether capacity is held, of each contract, machine and purchase.

    Examples:
        >>> pools = {"c": ("aws", "H100", True), "p": ("aws", "H100", False)}
        >>> lines = ("commitment", "c", "aws", "signed"), ("purchase", "p", "aws", "firm"), ("spot", "spot chat", "aws", "expected")
        >>> tuple(basis_of(*line, pools) for line in lines)
        ('held aws H100', 'plan aws H100', 'use chat')
        >>> basis_of("support", "cloud-support", "aws", "stated", pools), basis_of("power", "hall", "own", "signed", pools)
        ('', 'rooms own')
    """
    if status == "stated" or component in ("tokens", "use_before_plan", "tokens_before_plan"):
        return ""
    if component in (*BY_USE, *MOVED):
        return f"use {contract_id.removeprefix(component + ' ')}"
    if component in HELD and contract_id in pools:
        maker, accelerator, holds = pools[contract_id]
        return f"{'held' if holds else 'plan'} {maker} {accelerator}"
    if component in ROOMS:
        return f"rooms {provider}"
    return f"discount {provider}" if component == "agreement_discount" else component


def basis_shares(dispatch: pd.DataFrame) -> pd.DataFrame:
    """Say which classes bear each basis: by their hours on the pool, the hours a plan can discount, their own hours, or what they spend.

    Args:
        dispatch: quarter, class, source, provider, accelerator, expected_accelerator_hours, expected_usd.

    Returns:
        DataFrame: quarter, basis, class, share; shares of a basis sum to 1.
    """
    ran = dispatch[dispatch["source"] != "shortfall"].copy()
    ran["pool"] = ran["provider"].astype(str) + " " + ran["accelerator"].astype(str)
    committed, by_use = ran["source"] == "committed", ran["source"].isin(["on_demand", "spot"])
    paid = ran["source"].isin([*BY_USE, *MOVED])
    parts = [
        ("held " + ran["pool"], committed, "expected_accelerator_hours"),
        ("plan " + ran["pool"], ran["source"] == "on_demand", "expected_accelerator_hours"),
        ("rooms " + ran["provider"].astype(str), committed, "expected_accelerator_hours"),
        ("discount " + ran["provider"].astype(str), by_use, "expected_usd"),
        ("use " + ran["class"].astype(str), paid, "expected_usd"),
    ]
    rows = [
        ran[chosen & (ran[weight] > 0)].assign(
            basis=name[chosen & (ran[weight] > 0)], weight=lambda frame, weight=weight: frame[weight].astype(float)
        )
        for name, chosen, weight in parts
    ]
    frame = (
        pd.concat(rows, ignore_index=True)
        .astype({"quarter": object, "basis": object, "class": object})
        .groupby([*KEYS, "class"], as_index=False)["weight"]
        .sum()
    )
    frame["share"] = frame["weight"] / frame.groupby(KEYS)["weight"].transform("sum")
    return frame[[*KEYS, "class", "share"]]


def work_costs(
    frame: pd.DataFrame, pools: Mapping[str, tuple[str, str, bool]], dispatch: pd.DataFrame, quarters: list[str]
) -> pd.DataFrame:
    r"""Divide the compute P&L of the planned quarters among the classes of work.

    .. math:: \sum_c x_c + \sum_u x_u = \text{compute P\&L}

    with c the classes and u what no work bears.

    Args:
        frame: Ledger entries, with quarters.
        pools: See `basis_of`.
        dispatch: See `basis_shares`.

    Returns:
        DataFrame: quarter, basis, class (empty where no work bears it), about (what no work bears, in words), share, usd, amount.
    """
    rows = frame[(frame["view"] == "p_and_l") & frame["quarter"].isin(quarters)]
    about = zip(rows["component"].astype(str), rows["contract_id"].astype(str), rows["provider"].astype(str), rows["status"], strict=True)
    rows = rows.assign(
        basis=np.array(
            [basis_of(component, contract_id, provider, str(status), pools) for component, contract_id, provider, status in about],
            dtype=object,
        )
    )
    sums = rows[rows["basis"] != ""].groupby(KEYS, as_index=False)[["usd", "amount"]].sum()
    if sums.empty:
        texts = dict.fromkeys(["quarter", "basis", "class", "about"], "object")
        return pd.DataFrame(
            {name: pd.Series(dtype=kind) for name, kind in (texts | dict.fromkeys(["share", "usd", "amount"], "float64")).items()}
        )
    table = sums.merge(basis_shares(dispatch), how="left", on=KEYS)
    table["share"] = table["share"].fillna(1.0)
    for column in ("usd", "amount"):
        table[column] *= table["share"]
    table["class"] = table["class"].fillna("").astype(str)
    kinds = table["basis"].str.split(" ").str[0]
    rest = table["basis"].str.partition(" ")[2]
    table["about"] = (kinds.map(UNBORNE).fillna(kinds.str.replace("_", " ")) + rest.where(rest == "", ": " + rest)).where(
        table["class"] == "", ""
    )
    return table[[*KEYS, "class", "about", "share", "usd", "amount"]]
