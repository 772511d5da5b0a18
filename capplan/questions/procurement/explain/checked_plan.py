"""A plan from anywhere, checked and not trusted: what it breaks and by how much, what it costs, and how far it is from the proven plan."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from capplan.book.currencies import DOLLARS, Currency
from capplan.optimize.solver import InfeasibleError, arrays
from capplan.questions.procurement.answer_tables import purchase_table
from capplan.questions.procurement.decide import Decided
from capplan.questions.procurement.explain.alternatives import BESIDE, Excess, Served, costed, served, stretched
from capplan.questions.procurement.explain.dispatch import Court, lifted, risk_weighted
from capplan.questions.procurement.explain.leaving import departure_table
from capplan.questions.procurement.explain.proposed import Matched, match_rows
from capplan.questions.procurement.first_answer import tabulated
from capplan.questions.procurement.program.agreement_proof import best_plan
from capplan.questions.procurement.program.limit_scope import named_in
from capplan.questions.procurement.program.purchase_model import Model
from capplan.records import word_list
from capplan.text import counted, listed

#: In which unit a limit of each kind is exceeded.
UNITS = {
    "quota_accelerators": "accelerators",
    "new_accelerators": "accelerators",
    "power_kw": "kW",
    "provider_share": "accelerators",
    "budget_usd": "USD",
    "team_budget_usd": "USD",
}
BROKEN = ["constraint", "name", "quarter", "limit", "over", "unit", "forbids", "words", "file", "row"]
ROWS = ["file", "row", "offer_id", "quarter", "lots", "machines", "accelerators", "usd", "sign_by", "submit_by", "counted", "in_order"]
#: Measures of cost that are held against the proven plan's.
MEASURES = word_list("expected_usd cvar_usd p10_usd p90_usd worst_usd objective_usd spend_usd shortfall_usd beyond_horizon_usd")


@dataclass(frozen=True)
class CheckedPlan:
    """What is wrong with a proposed plan, and what it costs beside the proven one.

    Args:
        rows: file, row, offer_id, quarter, lots, machines, accelerators, usd (whole contract), sign_by, submit_by, counted (whether it is
            part of the cost: what cannot begin when it is wanted is not), in_order: one row of the proposal each.
        broken: constraint (kind of limit, lead time, offer ended, minimum lots, price and so on), name (limit or offer), quarter, limit
            (the amount allowed; empty where a day or a word is), over, unit, forbids (false: it is paid for, or late, and may be signed),
            words, file, row (empty where all rows together break it).
        costs: measure (as in `answer.Purchases.alternatives`), checked_usd, plan_usd, difference_usd; in another currency than dollars
            also checked_amount, plan_amount and difference_amount in it, as limits in money are.
        lots: offer_id, quarter, checked_lots, plan_lots, difference_lots: where the two differ.
        lower_usd: What no plan that keeps all limits costs less than, risk-weighted (the measure objective_usd).
        headline, notes: One sentence; what must be known.
    """

    rows: pd.DataFrame
    broken: pd.DataFrame
    costs: pd.DataFrame
    lots: pd.DataFrame
    lower_usd: float
    headline: str
    notes: tuple[str, ...]

    @property
    def in_order(self) -> bool:
        """Whether nothing forbids to sign it."""
        return not self.broken["forbids"].any()

    @property
    def tables(self) -> dict[str, pd.DataFrame]:
        """The tables by their names."""
        return {"rows": self.rows, "broken": self.broken, "costs": self.costs, "lots": self.lots}


#: What holds purchases, departures, dispatch, capacity and costs of a plan against budgets that no program holds: those of teams.
Beside = Callable[[Mapping[str, pd.DataFrame]], list[Excess]]


def check_plan(found: Decided, proposed: pd.DataFrame, currency: Currency = DOLLARS, beside: Beside | None = None) -> CheckedPlan:
    """Say which constraints proposed purchases break, and value them by the dispatch that the plan's alternatives get.

    What cannot begin when it is wanted is not valued. What exceeds a limit is valued as if it could be had: only then may it cost less
    than any plan that keeps the limits.

    Args:
        proposed: Rows of `book.proposed.Proposed`.
        beside: Holds what is taken against the budgets that the program does not have; the tables are those of `answer.Purchases`.

    Raises:
        BookError: Every row that cannot be understood, at once.
    """
    matched, model, a = match_rows(found, proposed), found.model, found.problem.assumptions
    lots, notes = _with_what_is_forced(matched, found)
    taken, excesses = _valued(lots, found)
    if beside is not None:
        excesses = [*excesses, *beside(_booked(lots, taken, found))]
    parts = (found.choices, found.recourse, model, found.work, a)
    checked, plan = costed(("checked", ""), taken, *parts), costed(("plan", ""), served(found.solution), *parts)
    costs = pd.DataFrame([(name, checked[name], plan[name]) for name in MEASURES], columns=["measure", "checked_usd", "plan_usd"])
    costs["difference_usd"] = costs["checked_usd"] - costs["plan_usd"]
    if currency.name != "USD":
        for name in ("checked", "plan", "difference"):
            costs[f"{name}_amount"] = costs[f"{name}_usd"].map(currency.amount)
    broken = _broken_table(matched, [*excesses, *_rules(lots, model)], currency)
    rows = _row_table(matched, found, broken)
    apart = _apart(found, lots)
    notes = [*notes, *_notes(rows, broken, apart)]
    lower = found.solution.lower
    return CheckedPlan(rows, broken, costs, apart, lower, _headline(rows, broken, costs, apart, currency), (*notes, *found.notes))


def _with_what_is_forced(matched: Matched, found: Decided) -> tuple[np.ndarray, list[str]]:
    """Return the lots with renewals that can no longer be stopped, and say where the proposal leaves one out."""
    lower, table = found.model.program.lower[found.model.position], found.choices.table
    forced = table["forced"].to_numpy(bool) & (matched.lots < lower)
    notes = [
        f"{row.offer_id} renews by itself in {row.quarter}, since its notice is past: {counted(low, 'lot')} are counted, also where the"
        f" proposal has {lots:g}."
        for row, low, lots in zip(table[forced].itertuples(), lower[forced], matched.lots[forced], strict=True)
    ]
    return np.where(forced, lower, matched.lots), notes


def _valued(lots: np.ndarray, found: Decided) -> tuple[Served, list[Excess]]:
    """Return a first stage of these lots with its best use, and what of the limits it exceeds."""
    model, solution, a = found.model, found.solution, found.problem.assumptions
    if np.array_equal(lots, found.lots):
        return served(solution), stretched(solution.x, solution.recourse, model)[1]
    first = model.first_stage(lots)
    raised = replace(model, program=lifted(model, first))
    court = Court(raised, raised.program, solution, a)
    ways = [court.dispatch(first)]
    x, excesses = stretched(ways[0][0], ways[0][2], model)
    ways[0] = (x, *ways[0][1:])
    if len(model.deferred) or any(excess.hard and excess.kind == "budget_usd" for excess in excesses):
        kept = _held(raised, first, found)
        if kept is not None:
            paid, others = stretched(kept[0], kept[2], model)
            better = sum(excess.hard for excess in others) < sum(excess.hard for excess in excesses)
            if better or risk_weighted(paid, kept[1], model.program, a) < risk_weighted(*ways[0][:2], model.program, a):
                return (paid, *kept[1:]), others
    return ways[0], excesses


def _booked(lots: np.ndarray, taken: Served, found: Decided) -> dict[str, pd.DataFrame]:
    """Return what is taken as the tables that a ledger is made from."""
    x, costs, decisions = taken
    own, model = purchase_table(found.choices, lots), found.model
    said = tabulated(found, own, lots, x, (costs, decisions), ())
    court = Court(model, model.program, found.solution, found.assumptions)
    gone = departure_table(found.choices, model, replace(found.solution, x=x), court.free, found.assumptions)
    return {"purchases": own, "departures": gone, "dispatch": said.dispatch, "capacity": said.capacity, "costs": said.costs}


def _held(model: Model, x: np.ndarray, found: Decided) -> Served | None:
    """Return the best use of a first stage's lots that keeps budgets and may put work off; None where there is none."""
    program, a = model.program, found.problem.assumptions
    lower, upper, integer = program.lower.copy(), program.upper.copy(), program.integer.copy()
    lower[model.position] = upper[model.position] = model.lots(x)
    integer[model.position] = False
    held = replace(model, program=replace(program, lower=lower, upper=upper, integer=integer))
    beside = a.model_copy(update={"gap_share": BESIDE * a.gap_share})
    try:
        return served(best_plan(held, beside, found.solution.warm, False, exact=False)[1])
    except InfeasibleError:
        return None


def _rules(lots: np.ndarray, model: Model) -> list[tuple[str, float]]:
    """Return the other rules between decisions that some lots break, by name, and by how much."""
    names = arrays(model.problem).row_names
    # minima are said of their row already
    return [
        (names[i].replace("_", " "), over)
        for i, over in model.broken_rules(model.first_stage(lots)).items()
        if "minimum" not in names[i].split("_")
    ]


def _broken_table(matched: Matched, excesses: list[Any], currency: Currency) -> pd.DataFrame:
    """List all that is broken: rows of the proposal first, then limits on all of them together, then rules between them."""
    rows: list[tuple[object, ...]] = []
    for place, hindrance, hard in matched.broken:
        row = matched.rows[place]
        about = (row["offer_id"], row["quarter"], np.nan, hindrance.over, hindrance.unit)
        rows.append((hindrance.what, *about, hard, f"{row['offer_id']} from {row['quarter']}: {hindrance.words}", row["file"], row["row"]))
    limits = [excess for excess in excesses if isinstance(excess, Excess)]
    for key in dict.fromkeys((each.limit_id, each.quarter) for each in limits):
        own = [each for each in limits if (each.limit_id, each.quarter) == key]
        first, hard = own[0], any(each.hard for each in own)
        # what is committed is part of what is expected; a soft budget is paid for once for each part
        over = max(each.over for each in own) if hard else sum(each.over for each in own)
        unit, limit, quarter = UNITS.get(first.kind, ""), first.limit, str(first.quarter)
        amount = counted(float(f"{over:.6g}"), "accelerator") if unit == "accelerators" else f"{over:,.6g} {unit}"
        allowed = f"{100 * limit:,.6g} %" if first.kind == "provider_share" else f"{limit:,.6g}"
        if unit == "USD":
            amount, allowed, unit = currency.said(over, quarter), currency.said(limit, quarter), currency.name
            over, limit = currency.amount(over, quarter), currency.amount(limit, quarter)
        soft = ", which nothing prices, since it is soft" if first.kind == "team_budget_usd" else ", which a soft budget prices"
        words = f"{named_in(*key)}: {amount} more than the {allowed} allowed{'' if hard else soft}"
        rows.append((first.kind, first.limit_id, first.quarter, limit, over, unit, hard, words, "", np.nan))
    for name, over in (each for each in excesses if not isinstance(each, Excess)):
        rows.append(("rule", name, "", np.nan, over, "", True, f"the rule '{name}' is exceeded by {over:,.6g}", "", np.nan))
    return pd.DataFrame(rows, columns=BROKEN).astype({"forbids": bool, "over": float, "limit": float, "row": float})


def _row_table(matched: Matched, found: Decided, broken: pd.DataFrame) -> pd.DataFrame:
    """List the proposal's rows as they were understood, each with its contract's worth and days."""
    table = purchase_table(found.choices, matched.lots)
    known = table.groupby(["offer_id", "quarter"])[["usd", "sign_by", "submit_by"]].first()
    frame = pd.DataFrame(matched.rows, columns=[name for name in ROWS if name not in ("usd", "sign_by", "submit_by", "in_order")])
    frame = frame.join(known, on=["offer_id", "quarter"])
    wrong = set(zip(*(broken.loc[broken["forbids"], name] for name in ("file", "row")), strict=True))
    frame["in_order"] = [key not in wrong for key in zip(frame["file"], frame["row"].astype(float), strict=True)]
    return frame[ROWS]


def _apart(found: Decided, lots: np.ndarray) -> pd.DataFrame:
    """List the decisions in which two plans differ."""
    table = found.choices.table[["offer_id", "quarter"]].assign(checked_lots=lots, plan_lots=found.lots)
    both = table.groupby(["offer_id", "quarter"], as_index=False, sort=True).sum()
    both["difference_lots"] = both["checked_lots"] - both["plan_lots"]
    return both[both["difference_lots"] != 0].reset_index(drop=True)


def _notes(rows: pd.DataFrame, broken: pd.DataFrame, apart: pd.DataFrame) -> list[str]:
    """Say what the cost stands for."""
    notes = []
    left = rows[~rows["counted"]]
    if len(left):
        notes.append(
            f"Not valued, since it cannot begin when it is wanted: {listed((left['offer_id'] + ' from ' + left['quarter']).tolist())}."
        )
    if (broken["forbids"] & (broken["file"] == "")).any():
        notes.append("What exceeds a limit is valued as if it could be had, so it may cost less than any plan that keeps all limits.")
    gone = apart[(apart["checked_lots"] == 0) & apart["offer_id"].str.startswith(("leave ", "sell ", "exchange "))]
    if len(gone):
        notes.append(f"The proven plan also decides {listed(sorted(set(gone['offer_id'])))}: its departures.csv can be given beside it.")
    return notes


def _headline(rows: pd.DataFrame, broken: pd.DataFrame, costs: pd.DataFrame, apart: pd.DataFrame, currency: Currency) -> str:
    """Say whether it can be signed, what it costs, and how far that is from the proven plan."""
    bad = broken[broken["forbids"]]
    usd = costs.set_index("measure").loc["expected_usd"]
    if len(bad):
        more = f", and {counted(len(bad) - 3, 'more')}" if len(bad) > 3 else ""
        start = f"The proposal breaks {counted(len(bad), 'constraint')}: {'; '.join(bad['words'].head(3))}{more}."
    else:
        start = f"The proposal of {counted(len(rows), 'row')} keeps all constraints."
    if apart.empty and not len(bad):
        return f"{start} It is the proven plan: {currency.said(usd['plan_usd'])} in expectation."
    gap = float(usd["difference_usd"])
    beside = "as much as" if abs(gap) < 1 else f"{currency.said(abs(gap))} {'more' if gap > 0 else 'less'} than"
    valued = "Valued as far as it can be had, it" if not rows["counted"].all() else "It"
    return f"{start} {valued} costs {currency.said(usd['checked_usd'])} in expectation, {beside} the proven plan."
