"""All that can be had, whatever is needed of it: laid out once, and again only where something that it rests on has changed."""

from dataclasses import dataclass, replace

import pandas as pd

from capplan.questions.procurement.problem import BOOK_TABLES, Problem
from capplan.questions.procurement.program.limit_scope import known_limits
from capplan.questions.procurement.supply.choices import Choices, list_choices
from capplan.questions.procurement.supply.generations import Arrival, not_there_yet
from capplan.questions.procurement.supply.instalments import checked_instalments
from capplan.questions.procurement.supply.market import Market, build_market
from capplan.questions.procurement.supply.successors import with_generations
from capplan.questions.procurement.supply.tiers import checked_tiers
from capplan.questions.procurement.supply.windows import with_windows
from capplan.questions.procurement.work.load import named_places
from capplan.questions.procurement.work.states import States, known_states
from capplan.units import quarter_range

#: Assumptions that say how much is needed, how cautious a plan is and how closely it is proven: none of them moves what can be had.
OF_NEED = frozenset(
    {
        *("plan_paths", "seed", "risk_weight", "tail_share", "gap_share", "time_limit_seconds", "service_level_share"),
        *("on_demand_accelerators", "spot_accelerators"),
    }
)
#: Tables of the book that only what is needed rests on.
TABLES_OF_NEED = ("egress_prices", "limits", "other_costs", "spend_agreements")
#: How many are kept beside a problem: today's, and those of a question that moves prices.
_KEPT = 3


@dataclass(frozen=True)
class OnOffer:
    """What can be had.

    Args:
        problem: With machines that are expected, and without what windows leave out.
        caps: Limits with all their columns.
        market, choices, states: Pools and contracts; what can be decided; states of prices and deliveries.
    """

    problem: Problem
    caps: pd.DataFrame
    market: Market
    choices: Choices
    states: States


def on_offer(problem: Problem) -> OnOffer:
    """Return what can be had under a problem: as laid out for one from which this was made, where all that it rests on is the same."""
    for asked, known in problem.laid_out:
        if _alike(asked, problem):
            moved, caps, _ = _limited(problem)
            return replace(known, problem=moved, caps=caps)
    found = _laid_out(problem)
    problem.laid_out[:] = [(_slim(problem), replace(found, problem=_slim(found.problem))), *problem.laid_out[: _KEPT - 1]]
    return found


def _laid_out(problem: Problem) -> OnOffer:
    """Lay out what can be had."""
    problem, caps, arrivals = _limited(problem)
    a, demand = problem.assumptions, problem.demand
    runs = problem.speeds.loc[problem.speeds["class"].isin(demand["class"]), "accelerator"]
    market = build_market(problem, runs, named_places(demand, problem.classes, caps), arrivals)
    schedules = checked_instalments(problem.offer_payments, market.contracts, problem.offers)
    states = known_states(problem.price_states, problem.delivery_states)
    tiers = checked_tiers(problem.offer_tiers, market.contracts, problem.offers, a.price_factor)
    return OnOffer(problem, caps, market, list_choices(market, problem.sites, a, tiers, schedules, states), states)


def _limited(problem: Problem) -> tuple[Problem, pd.DataFrame, tuple[Arrival, ...]]:
    """Return the problem with machines that are expected and without what windows leave out, its limits, and those machines."""
    problem, arrivals = with_generations(problem)
    a = problem.assumptions
    quarters = quarter_range(a.first_quarter, a.horizon_quarters)
    caps = not_there_yet(known_limits(problem.limits, problem.sites, a), arrivals, quarters)
    return *with_windows(problem, caps, quarters), arrivals


def _alike(one: Problem, other: Problem) -> bool:
    """Tell whether the same can be had under two problems: tables, places and classes of work, and what is assumed of supply."""
    if _assumed(one) != _assumed(other):
        return False
    tables = [(getattr(one, name), getattr(other, name)) for name in (*BOOK_TABLES, "speeds") if name not in TABLES_OF_NEED]
    return all(first is second or (first is not None and first.equals(second)) for first, second in [*tables, *_places(one, other)])


def _assumed(problem: Problem) -> dict[str, object]:
    """Return what is assumed of supply."""
    return {name: value for name, value in problem.assumptions if name not in OF_NEED}


def _places(*problems: Problem) -> list[tuple[pd.DataFrame, ...]]:
    """Return which classes of work there are where, where they must or would best run, and which places limits name, of each problem."""
    demand = tuple(_slim(each).demand for each in problems)
    named = tuple(pd.DataFrame(each.limits).reindex(columns=["region"]).drop_duplicates(ignore_index=True) for each in problems)
    homes = tuple(each.classes.reindex(columns=["class", "residency", "home_region"]) for each in problems)
    return [demand, homes, named]


def _slim(problem: Problem) -> Problem:
    """Return a problem with which classes of work are where, and not how much of them on each path."""
    return problem.replaced(demand=problem.demand[["class", "region"]].drop_duplicates().reset_index(drop=True))
