"""Whether another end of the horizon would change the plan, and which of the contracts that are signed now."""

from dataclasses import replace

import numpy as np
import pandas as pd

from capplan.book.scenario import ProcurementAssumptions
from capplan.optimize.program import Solution, point_costs
from capplan.questions.procurement.program.budget_proof import solve_within_budgets
from capplan.questions.procurement.program.purchase_model import Model
from capplan.questions.procurement.program.second_stage import Recourse
from capplan.questions.procurement.supply.choices import Choices
from capplan.text import counted, money

#: Other treatments than serving demand on, in words.
ENDINGS = {"truncate": "cut off at the horizon", "count_in_full": "counted in full, with no use after the horizon"}
#: A share by which contracts must differ under another treatment of the horizon's end to be reported.
NOTICEABLE_SHARE = 0.1
#: Contracts longer than this many months are long.
LONG_MONTHS = 13
#: Parts of lots are allowed under another end; less than so much of a lot is no other purchase.
NOTICEABLE_LOTS = 0.5


def other_endings(
    choices: Choices, recourse: Recourse, model: Model, solution: Solution, a: ProcurementAssumptions
) -> tuple[list[str], pd.DataFrame]:
    """Say what the plan would hold if contracts were cut off at the horizon, or counted in full, and what would not be signed now.

    Returns:
        list of str, DataFrame: Sentences; and of each purchase that is signed now: offer_id, quarter, lots, and the lots under each other
            end (truncate, count_in_full; parts of lots are allowed there).
    """
    lots, table = model.lots(solution.x).round(), choices.table
    found = {ending: _lots_under(ending, choices, recourse, model, solution, a) for ending in ENDINGS if ending != a.horizon_end}
    long = (table["end"] - table["start"]).dt.days.to_numpy() / 30 > LONG_MONTHS
    size = table["lot_accelerators"].to_numpy(float)
    held = float((lots * size)[long].sum())
    notes = []
    for ending, other in found.items():
        amount = float((other * size)[long].sum())
        if abs(amount - held) > NOTICEABLE_SHARE * max(held, amount, 1.0):
            notes.append(
                f"The treatment of the horizon's end matters: with contracts {ENDINGS[ending]}, the plan would take {amount:,.0f}"
                f" accelerators on terms above a year, not {held:,.0f}."
            )
    later = ~recourse.planned
    if later.any():
        share = model.program.weight * model.program.probability[model.program.scenario] * later
        usd = float(share @ point_costs(model.program, solution.recourse))
        notes.insert(
            0,
            f"Of the plan's cost {money(usd)} is use beside its contracts in the {counted(a.years_after_horizon, 'year')} after the"
            " horizon, in which the last quarter's demand is served on.",
        )
    firm = np.flatnonzero((lots > 0) & table["firm"].to_numpy(bool))
    moved = {
        j: [
            f"{round(other[j], 1):g} with contracts {ENDINGS[ending]}"
            for ending, other in found.items()
            if abs(other[j] - lots[j]) > NOTICEABLE_LOTS
        ]
        for j in firm.tolist()
    }
    said = [
        f"{table['offer_id'].iloc[j]} from {table['quarter'].iloc[j]}: {lots[j]:.0f} lots, {' and '.join(words)}"
        for j, words in moved.items()
        if words
    ]
    if said:
        notes.append(f"Another end of the horizon would change what is signed now: {'; '.join(said)}.")
    elif len(firm):
        notes.append("What is signed now would be signed under every treatment of the horizon's end.")
    rows = [
        {"offer_id": table["offer_id"].iloc[j], "quarter": table["quarter"].iloc[j], "lots": lots[j]}
        | {ending: float(other[j]) for ending, other in found.items()}
        for j in firm.tolist()
    ]
    return notes, pd.DataFrame(rows, columns=["offer_id", "quarter", "lots", *found])


def _lots_under(
    ending: str, choices: Choices, recourse: Recourse, model: Model, solution: Solution, a: ProcurementAssumptions
) -> np.ndarray:
    """Return the lots that would be taken under another treatment of the horizon's end; parts of lots are allowed."""
    program, planned = model.program, np.flatnonzero(recourse.planned)
    expected = tuple(replace(row, points=row.points[planned], weight=row.weight[planned]) for row in program.expected)
    cost, until = program.c.copy(), choices.timeline.planned if ending == "truncate" else len(choices.timeline.quarters)
    cost[model.position] = choices.present_cost_usd(ending)
    cost[model.power_columns] = [extra.usd if extra.quarter < until else 0.0 for extra in model.power.extras]
    near = replace(
        program,
        c=cost,
        h=program.h[planned],
        technology=program.technology[planned],
        weight=program.weight[planned],
        scenario=program.scenario[planned],
        integer=np.zeros_like(program.integer),
        expected=expected,
    )
    begun = solution.warm and solution.warm.at_points(planned)
    return model.lots(solve_within_budgets(near, model.soft, a.risk_weight, a.tail_share, max(a.gap_share, 1e-3), begun, exact=False).x)
