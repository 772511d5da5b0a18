"""Why this plan: what else could be done, what binds, what was rejected, and what knowing more would be worth."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from capplan.book.scenario import ProcurementAssumptions
from capplan.dollars import said_on
from capplan.notes import ToDo
from capplan.optimize.program import Solution, expected_use_of_rows, slack_columns
from capplan.questions.procurement.decide import Decided
from capplan.questions.procurement.explain.alternatives import compare_alternatives, value_information
from capplan.questions.procurement.explain.dispatch import Court
from capplan.questions.procurement.explain.endings import other_endings
from capplan.questions.procurement.explain.leaving import departure_notes, departure_table
from capplan.questions.procurement.explain.sentences import within
from capplan.questions.procurement.explain.whole_lots import Neighbours, limits_in_lots, rejected_offers
from capplan.questions.procurement.program.purchase_model import Model
from capplan.questions.procurement.program.second_stage import Recourse
from capplan.questions.procurement.program.spend_agreements import agreement_table
from capplan.questions.procurement.supply.choices import Choices
from capplan.questions.procurement.work.spot_scarcity import scarcity_notes
from capplan.records import records
from capplan.text import counted, money

#: A value of one more unit below this is rounding.
NOTICEABLE_USD = 0.01
#: A slack below this share of its limit is rounding.
ROUNDING_SHARE = 1e-9


@dataclass(frozen=True)
class Reasons:
    """Tables and sentences that explain a plan; columns as in `answer.Purchases`."""

    binding: pd.DataFrame
    limit_lots: pd.DataFrame
    rejected: pd.DataFrame
    alternatives: pd.DataFrame
    information: pd.DataFrame
    agreements: pd.DataFrame
    headline: str
    notes: tuple[str, ...]
    departures: pd.DataFrame
    endings: pd.DataFrame


def explain(found: Decided, further: Sequence[tuple[str, np.ndarray, str]] = ()) -> Reasons:
    r"""Explain a plan from the exact recourse at its first stage.

    What more of a limit on purchases is worth, and what a rejected offer would add, comes from the plan's neighbours in whole lots; the
    value of one more accelerator by the hour from the duals of all points at the plan, :math:`-\sum_p \omega_p \pi_p`.

    Args:
        further: Other first stages to hold against the plan: name, first stage, meaning.
    """
    work, choices, recourse, model, solution, a = found.work, found.choices, found.recourse, found.model, found.solution, found.assumptions
    program, bought = model.program, found.purchases
    court = Court(model, program, solution, a)
    exact = court.free.evaluate(solution.x)
    slope = (1 - a.risk_weight) * exact.mean.slope + a.risk_weight * exact.tail.slope
    neighbours = Neighbours(choices, model, solution, slope, court, a)
    lots = neighbours.lots
    alternatives = compare_alternatives(found, further)
    information = value_information(model, solution, alternatives, a)
    if not bought["firm"].any():
        information.loc[len(information)] = (
            "waiting",
            0.0,
            "nothing has to be signed before the next review, so waiting for it costs nothing",
        )
    agreements = agreement_table(model.years, lots, work, recourse, found.market, solution.recourse)
    planned = np.flatnonzero(recourse.planned)
    weight = work.paths["probability"].to_numpy(float)[work.points["path"]] * work.points["hours"].to_numpy(float)
    scarce = scarcity_notes(recourse.scarcity, program.h[planned], program.W, weight, solution.recourse[planned])
    departures = departure_table(choices, model, solution, court.free, a)
    ends, endings = other_endings(choices, recourse, model, solution, a)
    notes = (
        *scarce,
        *_site_notes(choices, lots),
        *_notes(choices, bought, solution, a, found.stopped_by, agreed=bool(model.years)),
        *_agreement_notes(agreements),
        *ends,
        *departure_notes(departures),
    )
    return Reasons(
        _binding(choices, recourse, model, solution, recourse.by_stage(slope)),
        limits_in_lots(neighbours),
        rejected_offers(neighbours, solution.marginals.reduced_costs[model.position], found),
        alternatives,
        information,
        agreements,
        _headline(bought, alternatives, a) + _unproven(solution, found.stopped_by),
        notes,
        departures,
        endings,
    )


def _binding(choices: Choices, recourse: Recourse, model: Model, solution: Solution, slope: np.ndarray) -> pd.DataFrame:
    """Slack of every limit by quarter, below zero where a soft one is exceeded; what one more unit saves where it caps use by the hour."""
    program, quarters = model.program, choices.timeline.quarters
    x, rows = solution.x.copy(), []
    for entries in (*(program.A[[int(row)]].toarray().ravel() for row in model.rows["row"]), *(row.a for row in program.expected)):
        x[slack_columns(program, entries)] = 0.0
    for about in records(model.rows):
        index = int(about["row"])
        slack = float(program.b[index] - (program.A[[index]] @ x)[0])
        rows.append(
            {
                **{key: about[key] for key in ("limit_id", "kind", "quarter", "limit")},
                "used": about["limit"] - slack,
                "slack": slack,
                "usd_per_unit": np.nan,
            }
        )
    caps = recourse.rows["kind"].isin(["on_demand_accelerators", "spot_accelerators", "spot_share", "api_rate"]).to_numpy()
    use = (recourse.W[np.flatnonzero(caps)] @ solution.recourse.T).toarray()
    for place, i in enumerate(np.flatnonzero(caps)):
        about = recourse.rows.loc[i]
        for q in range(choices.timeline.planned):
            points = np.flatnonzero(recourse.planned & (recourse.stage == q))
            left = program.h[points, i] - use[place, points]
            value = float(-slope[q, i])
            rows.append(
                {
                    "limit_id": about["limit_id"],
                    "kind": about["kind"],
                    "quarter": quarters[q],
                    "limit": float(program.h[points, i].max()),
                    "used": float(use[place, points].max()),
                    "slack": float(left.min()),
                    "usd_per_unit": max(value, 0.0),
                }
            )
    spent = expected_use_of_rows(program, x, solution.recourse)
    for about, row, used, dual in zip(records(model.budgets), program.expected, spent, solution.marginals.expected, strict=True):
        slack = float(row.limit - used)
        rows.append(
            {
                "limit_id": f"{about['limit_id']} with expected usage",
                "kind": "budget_usd",
                "quarter": about["quarter"],
                "limit": about["limit"],
                "used": about["limit"] - slack,
                "slack": slack,
                "usd_per_unit": max(-float(dual), 0.0),
            }
        )
    table = pd.DataFrame(rows, columns=["limit_id", "kind", "quarter", "limit", "used", "slack", "usd_per_unit"])
    table.loc[table["usd_per_unit"] < NOTICEABLE_USD, "usd_per_unit"] = 0.0
    table.loc[table["slack"].abs() <= ROUNDING_SHARE * table["limit"].abs().clip(lower=1.0), "slack"] = 0.0
    return table.sort_values(["limit_id", "quarter"], kind="stable").reset_index(drop=True)


def _notes(
    choices: Choices, bought: pd.DataFrame, solution: Solution, a: ProcurementAssumptions, stopped_by: str, *, agreed: bool
) -> tuple[str, ...]:
    """State what a reader must know before signing."""
    notes = []
    beyond = float(bought["beyond_horizon_usd"].sum())
    if beyond > 0:
        hidden = (
            f", and the plan's cost of {money(solution.upper)} leaves them out: truncating hides them"
            if a.horizon_end == "truncate"
            else ""
        )
        notes.append(f"Payments of {money(beyond)} fall after the last planned quarter, {choices.timeline.horizon[-1]}{hidden}.")
    late = bought[bought["late"]]
    if len(late):
        notes.append(
            ToDo(
                f"{counted(len(late), 'purchase')} should have been submitted already ({', '.join(late['offer_id'].head(3))}): hasten the"
                " approval, or expect them late."
            )
        )
    assumed = sorted(choices.table.loc[choices.table["renewal_assumed"], "offer_id"].str.removeprefix("renew "))
    if assumed:
        notes.append(
            ToDo(
                f"{', '.join(assumed)}: no renewal price is stated, so a renewal is taken to cost what the contract costs today; "
                "state renewal_usd_per_hour in commitments.csv, or set renewal_without_price to not_offered."
            )
        )
    bridge = float(bought["bridge_usd"].sum())
    if bridge >= 1:
        notes.append(
            f"{money(bridge)} of the cost is what deliveries that slip beyond the day they are wanted are expected to cost until they"
            " arrive, bridged on demand or missed."
        )
    again = int(bought["requoted"].sum())
    if again:
        notes.append(
            ToDo(
                f"{again} later purchase{'s rest' if again > 1 else ' rests'} on quotes that will have expired and must be given again; at"
                " list prices set later_quotes to list_price."
            )
        )
    if solution.status == "limit":
        why = (
            "a spend agreement counts use by the hour, which ties all hours together"
            if agreed
            else "the search met a limit, or a budget that binds ties all hours together"
        )
        why = "the time limit ended the search" if stopped_by == "time limit" else why
        notes.append(
            f"This plan is not proven to be optimal ({within(solution.gap_share)}): {why}, so that what no plan can undercut is known less"
            " closely."
        )
    notes.append(
        "Each purchase must be signed by the start of its quarter less the 90th percentile of its lead time (the median where that is not"
        f" known), and submitted {a.approval_days} days of approval before; firm are those to be submitted before the next review in"
        f" {counted(a.review_interval_quarters, 'quarter')}."
    )
    return tuple(notes)


def _site_notes(choices: Choices, lots: np.ndarray) -> list[str]:
    """Name machines that would stand longer than the contract of their site runs."""
    table = choices.table[(lots > 0) & (choices.table["end"] > choices.table["site_end"]).to_numpy()].sort_values("end")
    return [
        ToDo(
            f"{row.offer_id} would stand in {row.region} until {row.end - pd.Timedelta(days=1):%Y-%m-%d}, and the contract of the site ends"
            f" on {row.site_end - pd.Timedelta(days=1):%Y-%m-%d}: extend it, or plan the move."
        )
        for row in table.drop_duplicates("offer_id", keep="last").itertuples()
    ]


def _agreement_notes(table: pd.DataFrame) -> list[str]:
    """Say what is planned to be paid for spend agreements that are not used up."""
    return [
        ToDo(
            f"{row.agreement_id}: {money(row.shortfall_usd)} of the {money(row.committed_usd)} to be spent with {row.provider} until"
            f" {row.end:%Y-%m-%d} stay unspent in expectation and are paid all the same; what would use them up costs more."
        )
        for row in table[table["shortfall_usd"] >= 1].itertuples()
    ]


def _unproven(solution: Solution, stopped_by: str) -> str:
    """Label a plan whose wanted gap was not proven."""
    if solution.status != "limit":
        return ""
    start = "Stopped by the time limit, not proven" if stopped_by == "time limit" else "Not proven"
    return f" {start} to be the best: {within(solution.gap_share)}."


def _headline(bought: pd.DataFrame, alternatives: pd.DataFrame, a: ProcurementAssumptions) -> str:
    """Say in one sentence what to do and what it costs."""
    costs = alternatives.set_index("name")
    plan, nothing = costs.loc["plan"], costs.loc["do_nothing"]
    firm = bought[bought["firm"]]
    price = (
        f"the plan costs {money(plan['expected_usd'])} in expectation and {money(plan['cvar_usd'])} in the worst {100 * a.tail_share:g} %"
        " of cases"
    )
    spared, served = (float(nothing[name] - plan[name]) for name in ("spend_usd", "shortfall_usd"))
    saved = f"against doing nothing it spends {money(abs(spared))} {'less' if spared >= 0 else 'more'}"
    if served >= 1:
        saved += f" and serves work that would cost {money(served)} undone"
    if len(bought) == 0:
        return f"Buy nothing and renew nothing: {price}."
    if len(firm):
        when = "at once" if firm["late"].any() else f"by {firm['sign_by'].min():%Y-%m-%d} (submitted by {firm['submit_by'].min():%Y-%m-%d})"
        start = f"Sign {counted(len(firm), 'contract')} worth {money(*said_on(firm['usd'], firm['signed_on']))}, the first {when}"
    else:
        later = f"the first of {len(bought)} later contracts" if len(bought) > 1 else "one later contract"
        start = f"Nothing must be signed before the next review; {later} is to be submitted by {bought['submit_by'].min():%Y-%m-%d}"
    return f"{start}: {price}; {saved}."
