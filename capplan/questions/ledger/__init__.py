"""Say what a plan is in cash, billed, P&L and economic terms, by month, team and cost centre."""

from capplan.questions.ledger.build_ledger import Ledger, LedgerTables, build_ledger
from capplan.questions.ledger.finance import (
    annuity_factor,
    depreciation_convention,
    internal_rate_of_return,
    loan_payment,
    loan_periods,
    macrs,
    modified_rate_of_return,
    net_present_value,
    straight_line,
    tax_depreciation,
)
from capplan.questions.ledger.hourly_commitments import PlanDraw, burn_down, commitment_charges, draw_dollar_plan
from capplan.questions.ledger.reconcile import against_budgets, reconcile
from capplan.questions.ledger.request_prices import Request, api_spend, rate_limit_notes, request_usd, withdrawal_notes
from capplan.questions.ledger.schedules import Bearer, Contract, Entry, machine_entries
from capplan.questions.ledger.teams import expected_work
