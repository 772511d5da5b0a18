"""The whole formulation: each constraint of the purchase program with the function that writes it and its golden programs."""

import inspect
import re
from collections.abc import Callable
from typing import Any

from capplan.questions.procurement.program import first_stage, leaving, limit_rows, spend_agreements
from capplan.questions.procurement.program.ways_to_serve import Sources
from capplan.questions.procurement.work.deferral import deferrals

#: Constraints of the first stage: what is decided now, or in a later quarter.
FIRST: tuple[tuple[Callable[..., Any], tuple[str, ...]], ...] = (
    (first_stage.none_or_minimum, ("whole_lots_with_a_minimum",)),
    (first_stage.one_tier, ("volume_tiers",)),
    (first_stage.decided_already, ("pinned_purchase", "renewal_that_can_no_longer_be_stopped", "booking_window")),
    (first_stage.no_more_than_before, ("renewal",)),
    (leaving.left_once, ("contract_left_or_exchanged",)),
    (leaving.exchanged_for_as_much, ("contract_left_or_exchanged",)),
    (limit_rows.quota, ("quota",)),
    (limit_rows.new_accelerators, ("new_accelerators",)),
    (limit_rows.power, ("power", "power_of_a_site")),
    (first_stage.drawn_within, ("power_that_is_paid_for",)),
    (limit_rows.provider_share, ("share_of_a_provider",)),
    (limit_rows.budget, ("cash_budget", "capital_budget", "soft_budget", "payment_schedule")),
    (first_stage.with_expected_use, ("hard_budget", "soft_budget")),
    (spend_agreements.agreement_rules, ("spend_agreement",)),
    (spend_agreements.agreement_rows, ("spend_agreement",)),
    (deferrals, ("deferral",)),
)
#: Constraints of the second stage, of one moment on one path.
SECOND: tuple[tuple[Callable[..., Any], tuple[str, ...]], ...] = (
    (Sources._add_work, ("speeds_and_residency", "egress", "branches", "price_states")),
    (Sources._add_committed, ("after_the_horizon", "capacity_block")),
    (Sources._add_replacement, ("after_the_horizon",)),
    (Sources._add_resale, ("after_the_horizon",)),
    (Sources._add_on_demand, ("discount_without_capacity", "reservation_without_discount")),
    (Sources._add_discount, ("discount_without_capacity", "savings_plan")),
    (Sources._add_draw, ("spend_agreement",)),
    (Sources._add_caps, ("on_demand_of_which_a_share_is_had", "cap_over_two_places")),
    (Sources._add_quotas, ("quota_over_all_use",)),
    (Sources._add_spot, ("spot", "spot_that_is_scarce_when_demand_is_high")),
    (Sources._add_shares, ("spot",)),
    (Sources._rate_limit, ("api_with_a_rate_limit",)),
    (Sources._add_late_delivery, ("late_delivery_in_states", "late_delivery_bridged")),
)


def line_of(function: Callable[..., Any], golden: tuple[str, ...]) -> str:
    """Return the line of a constraint: what it says and its equation, as its function's docstring has them, and where both stand."""
    text = inspect.getdoc(function) or ""
    equation = re.search(r":math:`([^`]+)`|\.\. math:: *(\S.*)", text)
    if equation is None:
        raise ValueError(f"{function.__qualname__} has no equation")
    says = re.split(r"[:.]", text, maxsplit=1)[0]
    shown = (equation.group(1) or equation.group(2)).replace("|", "\\vert ")
    files = ", ".join(f"[{name}](tests/golden/{name}.lp)" for name in golden)
    return f"| {says} | $`{shown}`$ | `{function.__module__.rsplit('.', 1)[1]}.{function.__qualname__}` | {files} |"


def formulation() -> str:
    """Return the page that shows the whole formulation, one line a constraint."""
    head = "| rule | equation | function | golden program |\n| --- | --- | --- | --- |\n"
    first, second = ("\n".join(line_of(*each) for each in part) for part in (FIRST, SECOND))
    return f"""# The purchase program

This page is generated (`python tools/formulation.py`) from the functions that write the program; a test keeps the two equal. Each rule is
one function, shown whole in a small program that a person can read.

$`\\min_x \\sum_j c_j x_j + \\rho\\big[\\min_y \\sum_t w_t\\, q^T y_t\\big]`$

with the lots x of each choice decided before demand is known, use y at each moment after it, and the risk measure
$`\\rho = (1 - \\lambda) E + \\lambda\\, CVaR_\\alpha`$ over paths.

## Decided before demand is known

{head}{first}

## Done once it is known

{head}{second}
"""
