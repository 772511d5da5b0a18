"""The assumptions of the ledger."""

from capplan.book.assumptions.base import assumption
from capplan.book.assumptions.pricing import PricingAssumptions
from capplan.units import CURRENCY_PATTERN


class LedgerAssumptions(PricingAssumptions):
    """How money is booked."""

    currency: str = assumption("USD", "Currency of all money shown.", "Set by the book.", pattern=CURRENCY_PATTERN)
    fiscal_year_first_month: int = assumption(1, "First month of the fiscal year.", "The calendar year.", "1 to 12 by 1")
    payment_terms_days: int = assumption(
        30, "Days from invoice to payment.", "Net 30, the usual terms of cloud invoices.", "0 to 180 by 5 days"
    )
    hold_other_costs: bool = assumption(
        True,
        "Do other costs go on at their last stated month's amount until the horizon's end?",
        "Storage, support and people do not end with the last month in the table; false counts stated months only.",
    )
    entity: str = assumption(
        "main",
        "Legal entity that the budget file and the accounting pack are for.",
        "A name of ours; set your company's own.",
        min_length=1,
        max_length=60,
    )
    budget_version: str = assumption(
        "plan",
        "Version that the budget file is loaded as.",
        "A name of ours; set the version your planning system expects.",
        min_length=1,
        max_length=60,
    )
    approvers: tuple[tuple[str, float], ...] = assumption(
        (("head of infrastructure", 250_000.0), ("chief financial officer", 5_000_000.0), ("board", 1e12)),
        "Who signs: role, and up to which value of a whole contract (USD), smallest first.",
        "A judgement: set your company's own limits of authority.",
    )
