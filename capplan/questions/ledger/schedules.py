"""When a contract is paid, invoiced and expensed: the same total in three views, spread over other months."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import pandas as pd

from capplan.errors import CapplanError
from capplan.questions.contracts import life_end
from capplan.questions.ledger.unit_prices import OWN, STATED, Price

HOURS_PER_DAY = 24
#: Days of payment terms that make a month.
DAYS_OF_TERMS = 30
#: A schedule and a contract's value may differ by this for cents that were rounded.
ROUNDING_USD = 0.05
VIEWS = ("cash", "billed", "p_and_l", "economic")
ACCOUNTS = {
    "commitment": "cloud commitments",
    "purchase": "cloud commitments",
    "left_early": "cloud commitments",
    "exit_cost": "cloud commitments",
    "on_demand": "cloud usage",
    "spot": "cloud usage",
    "use_before_plan": "cloud usage",
    "tokens_before_plan": "model APIs",
    "api": "model APIs",
    "egress": "network",
    "tokens": "model APIs",
    "agreement_discount": "cloud usage",
    "agreement_shortfall": "cloud commitments",
    "capex": "property and equipment",
    "depreciation": "depreciation",
    "residual": "property and equipment",
    "support": "maintenance",
    "running": "power and space",
    "space": "power and space",
    "power": "power and space",
}


@dataclass(frozen=True)
class Bearer:
    """Who bears a cost: team and cost centre."""

    team: str = "shared"
    cost_center: str = "shared"


@dataclass(frozen=True)
class Entry:
    """One amount in one view on one day.

    Args:
        date: Day; a ledger shows its month.
        view: cash, billed or p_and_l.
        component: What it is for (a key of ACCOUNTS, or the kind of another cost).
        contract_id: Contract, asset, site or cost line.
        quantity: In the unit of the price; costs are positive.
        status: signed, firm, indicative, expected (usage) or stated.
        provider: Who is paid, where that is known.
        account: Account in the ledger; empty = the one of the component.
        bearer: Team and cost centre.
        price: What a unit costs; `STATED` = the quantity is the amount.
        factor: What the price is multiplied by beside: the exchange rate of an amount agreed in another currency, otherwise 1.
    """

    date: pd.Timestamp
    view: str
    component: str
    contract_id: str
    quantity: float
    status: str
    provider: str = ""
    account: str = ""
    bearer: Bearer = Bearer()
    price: Price = STATED
    factor: float = 1.0

    @property
    def usd(self) -> float:
        r"""Amount, :math:`x = q \, p \, f`."""
        return self.quantity * self.price.rate_usd * self.factor


def month_shares(first: pd.Timestamp, last: pd.Timestamp) -> list[tuple[pd.Timestamp, float]]:
    """Split a span of whole days into its calendar months, with the share of the days in each.

    Args:
        first, last: First and last day, both included.

    Examples:
        >>> shares = month_shares(pd.Timestamp("2027-01-17"), pd.Timestamp("2027-02-15"))
        >>> [(month.strftime("%Y-%m"), round(share, 4)) for month, share in shares]
        [('2027-01', 0.5), ('2027-02', 0.5)]
    """
    after, found = last.normalize() + pd.Timedelta(days=1), []
    start = first.normalize()
    days = (after - start).days
    if days <= 0:
        raise CapplanError(f"a span must not end before it starts: {first:%Y-%m-%d} to {last:%Y-%m-%d}")
    while start < after:
        month = start.replace(day=1)
        stop = min(month + pd.DateOffset(months=1), after)
        found.append((month, (stop - start).days / days))
        start = stop
    return found


def month_end(month: pd.Timestamp) -> pd.Timestamp:
    """Return the last day of a month, on which its invoice is dated."""
    return month + pd.offsets.MonthEnd(0)


def paid_on(invoiced: pd.Timestamp, payment_terms_days: int) -> pd.Timestamp:
    """Return the day an invoice dated at a month's end is paid, so that every month pays exactly one month's invoices.

    Thirty days of payment terms are a month: what is dated at the end of January on 30 days is paid at the end of February, not on 2 March
    together
    with February's. What is left of the terms is a day of the month after.

    Examples:
        >>> bills = ("2027-01-31", 30), ("2027-02-28", 30), ("2027-01-31", 45)
        >>> [str(paid_on(pd.Timestamp(end), days).date()) for end, days in bills]
        ['2027-02-28', '2027-03-31', '2027-03-15']
    """
    days = payment_terms_days % DAYS_OF_TERMS
    month = invoiced.replace(day=1) + pd.DateOffset(months=months_of_terms(payment_terms_days))
    return month_end(month) if days == 0 else month + pd.Timedelta(days=min(days, month.days_in_month) - 1)


def months_of_terms(payment_terms_days: int) -> int:
    """Return the months from that of an invoice to that of its payment (see `paid_on`)."""
    return -(-payment_terms_days // DAYS_OF_TERMS)


@dataclass(frozen=True)
class Contract:
    """A contract as finance sees it.

    Args:
        contract_id, component, provider, status, bearer: See `Entry`.
        first, last: First and last day of service, both included.
        usd: Value of the whole contract.
        upfront_usd, upfront_on: Paid at signing, and when.
        payments: Further payments by the day they are due; empty = monthly in arrears.
    """

    contract_id: str
    component: str
    provider: str
    first: pd.Timestamp
    last: pd.Timestamp
    usd: float
    upfront_usd: float = 0.0
    upfront_on: pd.Timestamp | None = None
    payments: tuple[tuple[pd.Timestamp, float], ...] = ()
    status: str = "signed"
    bearer: Bearer = Bearer()
    price: Price = STATED  #: As of `Entry`.

    def fault(self) -> str | None:
        """Say why the contract cannot be booked, or None."""
        if self.last < self.first:
            return f"{self.contract_id} ends on {self.last:%Y-%m-%d}, before it starts on {self.first:%Y-%m-%d}"
        paid = self.upfront_usd + sum(usd for _, usd in self.payments)
        if self.payments and abs(paid - self.usd) > ROUNDING_USD:
            return (
                f"{self.contract_id}: the payments add up to {paid:,.2f} USD (upfront {self.upfront_usd:,.2f}), and the contract is worth"
                f" {self.usd:,.2f} USD (machines x usd_per_hour x hours of service); correct payments.csv or upfront_paid_usd"
            )
        if not self.payments and self.upfront_usd > self.usd + ROUNDING_USD:
            return (
                f"{self.contract_id}: {self.upfront_usd:,.2f} USD were paid upfront, more than the contract's {self.usd:,.2f} USD; correct"
                " upfront_paid_usd"
            )
        return None

    def entries(self, payment_terms_days: int) -> list[Entry]:
        r"""Book the contract over its whole life.

        .. math:: \sum \text{cash} = \sum \text{billed} = \sum \text{P\&L}

        Upfront payments are billed and paid on their day, scheduled ones on the day they are due; the rest is invoiced at the end of each
        month of
        service and paid after the payment terms (see `paid_on`). The P&L takes the whole value evenly over the days of service, used or
        not.
        """
        settled = self.upfront_usd + sum(usd for _, usd in self.payments)
        rounded = bool(self.payments) or abs(self.usd - settled) <= ROUNDING_USD
        usd = settled if rounded else self.usd
        about = self.component, self.contract_id, 0.0, self.status, self.provider
        blank = Entry(self.first, "", *about, bearer=self.bearer, price=self.price)
        units = self.price.units
        dated = [(self.upfront_on or self.first, self.upfront_usd), *self.payments]
        found = [
            replace(blank, date=date, view=view, quantity=units(amount)) for date, amount in dated if amount for view in ("billed", "cash")
        ]
        for month, share in month_shares(self.first, self.last):
            found.append(replace(blank, date=month, view="p_and_l", quantity=units(usd * share)))
            if not rounded:
                fee, invoiced = units((usd - self.upfront_usd) * share), month_end(month)
                found.append(replace(blank, date=invoiced, view="billed", quantity=fee))
                found.append(replace(blank, date=paid_on(invoiced, payment_terms_days), view="cash", quantity=fee))
        return found


def as_incurred(entry: Entry, payment_terms_days: int) -> list[Entry]:
    """Book a cost of one month: expensed and invoiced in it, paid after the payment terms."""
    month = entry.date.replace(day=1).normalize()
    paid = paid_on(month_end(month), payment_terms_days)
    return [replace(entry, date=month, view="p_and_l"), replace(entry, date=month, view="billed"), replace(entry, date=paid, view="cash")]


def machine_entries(blank: Entry, first: pd.Timestamp, life_years: float, residual_share: float) -> list[Entry]:
    r"""Book owned machines: bought, written off in a straight line, sold for the residual value at the end of their life.

    .. math:: D = \frac{X - \rho X}{L}

    Args:
        blank (X): Purchase price on the day of payment, in no view yet.
        first: First day of service.
        life_years (L): Useful life.
        residual_share (rho): Share of the price that is left at the end.

    Returns:
        list of Entry: Over the whole life cash = billed = P&L = X - rho X.
    """
    last = life_end(first, life_years) - pd.Timedelta(days=1)
    found = [replace(blank, view=view) for view in ("billed", "cash")]
    residual = blank.quantity * residual_share
    if residual:
        found += [replace(blank, date=last, view=view, component="residual", quantity=-residual) for view in ("billed", "cash")]
    for month, share in month_shares(first, last):
        found.append(replace(blank, date=month, view="p_and_l", component="depreciation", quantity=(blank.quantity - residual) * share))
    return found


#: What tells an entry from another, date, view and amount aside.
KEYS = ["component", "contract_id", "provider", "status", "team", "cost_center", "account"]


def framed(entries: Iterable[Entry]) -> pd.DataFrame:
    """Put entries into a frame: date, view, KEYS, price_id, own (agreed in the book's currency?), quantity, usd."""
    rows = [
        (
            *(e.date, e.view, e.component, e.contract_id, e.provider, e.status, e.bearer.team, e.bearer.cost_center, account_of(e)),
            *(e.price.price_id, e.price is OWN, e.quantity * (1.0 if e.price is OWN else e.factor), e.usd),
        )
        for e in entries
    ]
    frame = pd.DataFrame(rows, columns=["date", "view", *KEYS, "price_id", "own", "quantity", "usd"])
    return frame.astype({"date": "datetime64[ns]", "own": bool, "quantity": "float64", "usd": "float64"})


def account_of(entry: Entry) -> str:
    """Return the account an entry is booked to."""
    return entry.account or ACCOUNTS.get(entry.component, "other")


def payments_by_day(booked: pd.DataFrame) -> pd.DataFrame:
    """List all payments by day, which is what discounting at another rate needs, and a month's sum has lost.

    Args:
        booked: Entries of any views, `framed`; those of the cash view are kept.

    Returns:
        DataFrame: date, component, contract_id, provider, status, team, cost_center, account, usd.
    """
    frame = booked[booked["view"] == "cash"]
    frame = frame.assign(date=frame["date"].dt.normalize())
    return frame.groupby(["date", *KEYS], as_index=False, sort=True)["usd"].sum()


def priced_lines(booked: pd.DataFrame) -> pd.DataFrame:
    """Sum entries, `framed`, up by what tells them apart and the price they are paid at.

    Returns:
        DataFrame: date (day of payment in the view cash, first of the month otherwise), view, component, contract_id, provider, status,
            team, cost_center, account, price_id (empty = stated), own (agreed in the book's currency, which is not the dollar?),
            quantity (in the price's unit; without a price in dollars, or in the book's currency where own).
    """
    months = booked["date"].to_numpy().astype("datetime64[M]").astype("datetime64[ns]")
    frame = booked.assign(date=booked["date"].dt.normalize().where(booked["view"] == "cash", months))
    return frame.groupby(["date", "view", *KEYS, "price_id", "own"], as_index=False, sort=True)["quantity"].sum()


def entry_frame(booked: pd.DataFrame, as_of: pd.Timestamp, discount_rate_per_year: float) -> pd.DataFrame:
    r"""Put entries into a frame by month, and add the economic view: cash from `as_of` on, discounted to it.

    .. math:: \text{economic} = \text{cash} \times (1+r)^{-t}

    Args:
        booked: Entries of the views cash, billed and P&L, `framed`.
        as_of: Day to which cash is discounted; what was paid before is sunk and not in the economic view.
        discount_rate_per_year (r): Cost of capital.

    Returns:
        DataFrame: month, view, component, contract_id, provider, status, team, cost_center, account, usd.
    """
    cash = booked[(booked["view"] == "cash") & (booked["date"] >= as_of)]
    years = (cash["date"] - as_of).dt.days / 365.25
    economic = cash.assign(view="economic", usd=cash["usd"] * (1 + discount_rate_per_year) ** -years)
    frame = pd.concat([booked, economic], ignore_index=True)
    frame.insert(0, "month", frame["date"].to_numpy().astype("datetime64[M]").astype("datetime64[ns]"))
    return frame.groupby(["month", "view", *KEYS], as_index=False, sort=True)["usd"].sum()
