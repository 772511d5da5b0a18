"""Tables of money: exchange rates, costs beside machines, and what was billed."""

import pandas as pd

from capplan.book.tables.columns import Table, column
from capplan.units import CURRENCY_PATTERN


class Fx(Table):
    """An exchange rate."""

    currency: str = column("Currency, as three letters.", key=True, str_matches=CURRENCY_PATTERN)
    date: pd.Timestamp = column("Day from which the rate holds.", key=True)
    usd: float = column("US dollars for one unit of the currency.", unit="USD", gt=0)


class OtherCosts(Table):
    """What else is in the bill."""

    cost_id: str = column("Name of the cost line.", key=True)
    month: pd.Timestamp = column("First day of the month.", key=True)
    kind: str = column("Kind of cost.", isin=["storage", "egress", "network", "support", "people", "software", "evaluation", "other"])
    usd: float = column("Amount in dollars; empty where amount and currency are stated.", optional=True, unit="USD")
    amount: float = column("Amount in the currency of its own that it is agreed in, such as salaries in euros.", optional=True)
    currency: str = column(
        "Currency of amount, as three letters; the amount stays the same in it.", optional=True, str_matches=CURRENCY_PATTERN
    )
    team: str = column("Team that bears it.", default="shared")
    cost_center: str = column("Cost centre it is booked to.", default="shared")
    account: str = column("Account in the ledger.", default="other")
    provider: str = column("Provider that bills it, where it counts towards a spend agreement.", optional=True)


class AccountMap(Table):
    """The account of the company's books that a component of the ledger goes to."""

    component: str = column("Component of the ledger, such as on_demand, commitment, depreciation; or a kind of other costs.", key=True)
    account: str = column("Account in the company's books, such as 6300.")
    account_name: str = column("What the account is called.", default="")


class Billing(Table):
    """One month of one charge, from a FOCUS billing export."""

    month: pd.Timestamp = column("First day of the billing month.", key=True)
    provider: str = column("Provider that bills.", key=True)
    service: str = column("Service billed.", key=True)
    account: str = column("Sub-account billed.", key=True)
    region: str = column("Provider's region; none where the charge has no region.", key=True)
    sku: str = column("Provider's SKU; none where the charge has none.", key=True)
    charge_category: str = column("Usage, Purchase, Tax, Credit or Adjustment.", key=True)
    pricing_category: str = column("Standard, Committed, Dynamic or Other; none where not stated.", key=True)
    commitment_status: str = column("Used, Unused or none.", key=True)
    commitment: str = column("Provider's name of the commitment that pays for it; none where there is none.", default="none", key=True)
    machine: str = column("Machine or accelerator that the charge is for; none where it is for none.", default="none", key=True)
    bucket: str = column(
        "What the charge is: machine_hours, correction, unused_commitment, unused_reservation, fee_or_software, credit, tax,"
        " unknown_accelerator or not_a_machine; none where it was not judged.",
        default="none",
        key=True,
    )
    currency: str = column("Billing currency.", key=True, str_matches=CURRENCY_PATTERN)
    billed_cost: float = column("What the invoice says.", unit="billing currency")
    effective_cost: float = column("Cost with prepayments spread over use.", unit="billing currency")
    list_cost: float = column("Cost at list prices.", unit="billing currency", optional=True)
    quantity: float = column("Pricing quantity, where the rows share a unit.", optional=True)
    quantity_unit: str = column("Unit of the pricing quantity.", optional=True)
    charged_until: pd.Timestamp = column("Day on which the last charge starts (UTC); empty = not stated.", optional=True)
