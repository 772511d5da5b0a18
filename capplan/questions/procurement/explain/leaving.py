"""Signed contracts that the plan leaves before their end: what, when, by when to say so, and what it saves."""

import numpy as np
import pandas as pd

from capplan.book.scenario import ProcurementAssumptions
from capplan.optimize.evaluation import Evaluator
from capplan.optimize.program import Solution
from capplan.questions.procurement.explain.dispatch import risk_weighted
from capplan.questions.procurement.program.purchase_model import Model
from capplan.questions.procurement.supply.choices import Choices
from capplan.questions.procurement.supply.departures import DEPARTURE, EXCHANGE, LEAVE
from capplan.records import records
from capplan.text import money

COLUMNS = (
    "contract_id what provider accelerator quarter day machines of_machines accelerators not_owed_usd exit_usd saves_usd submit_by sign_by"
    " firm offer_id lots"
).split()


def departure_table(choices: Choices, model: Model, solution: Solution, evaluator: Evaluator, a: ProcurementAssumptions) -> pd.DataFrame:
    """List what the plan leaves, and what each of it saves against keeping it beside all else that the plan does, risk-weighted.

    Args:
        a: Risk weight and tail share.

    Returns:
        DataFrame: Columns as in `answer.Purchases.departures`, the first day first.
    """
    lots = model.lots(solution.x).round()
    gone = np.flatnonzero((choices.table["kind"] == DEPARTURE).to_numpy() & (lots > 0))
    if not len(gone):
        return pd.DataFrame(columns=COLUMNS)

    def cost(x: np.ndarray) -> float:
        paths = evaluator.costs(x)
        return risk_weighted(x, paths, model.program, a)

    plan, rows = cost(solution.x), []
    for j, row in zip(gone.tolist(), records(choices.table.iloc[gone]), strict=True):
        kept = solution.x.copy()
        kept[model.position[j]] = 0.0
        rows.append(
            (
                row["of_contract"],
                row["way"],
                row["provider"],
                row["accelerator"],
                row["quarter"],
                row["start"],
                lots[j] * row["lot_machines"],
                row["maximum_lots"] * row["lot_machines"],
                -lots[j] * row["lot_accelerators"],
                -float(choices.recurring_usd[j].sum()) * lots[j],
                float(choices.upfront_usd[j].sum()) * lots[j],
                cost(kept) - plan,
                row["submit_by"],
                row["sign_by"],
                bool(row["firm"]),
                row["offer_id"],
                int(lots[j]),
            )
        )
    return pd.DataFrame(rows, columns=COLUMNS).sort_values(["day", "contract_id", "what"], ignore_index=True)


def departure_notes(table: pd.DataFrame) -> list[str]:
    """Say what is left, and what that saves."""
    notes = []
    for row in records(table):
        verb = {LEAVE: "Leaving", EXCHANGE: "Exchanging"}.get(row["what"], "Selling")
        notice = f", with notice by {row['sign_by']:%Y-%m-%d}" if row["sign_by"] < row["day"] else ""
        paid = (
            f"its exit cost of {money(row['exit_usd'])} paid"
            if row["exit_usd"] >= 0
            else f"{money(-row['exit_usd'])} of it paid back at once"
        )
        notes.append(
            f"{verb} {row['machines']:g} of {row['of_machines']:g} machines of {row['contract_id']} on {row['day']:%Y-%m-%d}{notice} saves"
            f" {money(row['saves_usd'])}, {paid}."
        )
    return notes
