"""The sheets Lines, Cash, Billed and P&L: every amount as quantity times price, and its sums by month."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pandas as pd

from capplan.outputs.workbook.assumptions import Draft
from capplan.outputs.workbook.columns import Columns
from capplan.outputs.workbook.sheet import Formula, Sheet, address
from capplan.questions.ledger.revalue import VIEWS
from capplan.questions.ledger.work_costs import basis_of
from capplan.records import records
from capplan.text import words
from capplan.units import fiscal_year

VIEW_SHEETS = {"cash": "Cash", "billed": "Billed", "p_and_l": "P&L"}
OWN_WORDS = " in the book's currency, where its amount was agreed in it and stays the same at another rate."
VIEW_NOTES = {
    "cash": "Money that leaves or enters the bank, in the month of payment.",
    "billed": "Invoices, in the month they are dated.",
    "p_and_l": (
        "Expense, in the month the service is had; machines are written off in a straight line. The sums by team and account are the budget"
        " file's."
    ),
}
#: Columns of the sheet Lines: name, heading, style.
LINES = Columns(
    (
        ("date", "Date", "date"),
        ("view", "View", "text"),
        ("component", "Component", "text"),
        ("contract_id", "Contract or line", "text"),
        ("provider", "Provider", "text"),
        ("status", "Status", "text"),
        ("team", "Team", "text"),
        ("cost_center", "Cost centre", "text"),
        ("account", "Account", "text"),
        ("quantity", "Quantity", "decimal"),
        ("rate_usd", "Rate (USD)", "price"),
        ("usd", "Amount (USD)", "cents"),
        ("exchange", "USD per unit", "rate"),
        ("amount", "Amount", "money_cents"),
        ("present", "Present value", "money_cents"),
        ("component_key", "Component no.", "key"),
        ("contract_key", "Contract no.", "key"),
        ("team_key", "Team no.", "key"),
        ("account_key", "Account no.", "key"),
        ("provider_key", "Provider no.", "key"),
        ("basis_key", "Basis no.", "key"),
    )
)
TEXTS = ("view", "component", "contract_id", "provider", "status", "team", "cost_center", "account")
HEAD_ROW = 4
#: Lines that are printed: a sample, since all of them fill a hundred pages.
PRINTED_LINES = 55
#: Components whose names say too little; others are written in words.
NAMES = {
    "commitment": "Contracts signed",
    "purchase": "Purchases of this plan",
    "running": "Power and space of bought machines",
    "capex": "Machines bought",
    "residual": "Machines sold at the end of their life",
    "tokens": "Model APIs",
    "power": "Power of machines owned already",
    "space": "Space",
    "api": "Model APIs in place of machines",
    "agreement_discount": "Discount of spend agreements",
    "agreement_shortfall": "Shortfall of spend agreements",
}
#: Sums are equal where they differ by less than half a cent.
CENT = 0.005


@dataclass
class Lines:
    """Lines of the ledger with the numbers that sums select by: text of a book never is one, for spreadsheets read operators in it."""

    draft: Draft  #: The workbook that is being written.
    keys: dict[str, dict[Any, int]] = field(default_factory=dict)

    @cached_property
    def frame(self) -> pd.DataFrame:
        """Lines of the plan with their keys."""
        frame = self.draft.now.lines.copy()
        pools = self.draft.plan.ledger.pools
        about = zip(frame["component"], frame["contract_id"], frame["provider"], frame["status"], strict=True)
        frame["basis"] = [basis_of(str(part), str(name), str(maker), str(status), pools) for part, name, maker, status in about]
        frame["bearer"] = list(zip(frame["team"], frame["cost_center"], strict=True))
        frame["contract"] = list(zip(frame["contract_id"], frame["status"], strict=True))
        for key, column in (
            ("component_key", "component"),
            ("contract_key", "contract"),
            ("team_key", "bearer"),
            ("account_key", "account"),
            ("provider_key", "provider"),
            ("basis_key", "basis"),
        ):
            # What stands on no basis has the number 0.
            first = 0 if column == "basis" and (frame[column] == "").any() else 1
            self.keys[key] = {value: place for place, value in enumerate(sorted(set(frame[column])), first)}
            frame[key] = frame[column].map(self.keys[key])
        return frame

    @cached_property
    def _rows(self) -> dict[tuple[str, bool], tuple[int, int]]:
        """First and last row of each view, with and without shortfalls; an empty row below all lines where a view has none."""
        frame, found = self.frame, {}
        for view in VIEWS:
            for with_shortfall in (True, False):
                inside = frame.index[(frame["view"] == view) & (with_shortfall | (frame["agreement"] < 0))]
                first, last = (int(inside.min()), int(inside.max())) if len(inside) else (len(frame), len(frame))
                found[view, with_shortfall] = (HEAD_ROW + 1 + first, HEAD_ROW + 1 + last)
        return found

    def span(self, column: str, view: str, with_shortfall: bool = True) -> str:
        """Return a column of a view as a reference; shortfalls of agreements stand last and can be left out."""
        first, last = self._rows[view, with_shortfall]
        return self.draft.sheets["Lines"].span(first, last, LINES.at(column))

    def sum_where(self, amount: str, view: str, **criteria: str) -> str:
        """Return a SUMIFS over a view; criteria by column, each a reference, a number or a text of this program."""
        return self._sum(amount, view, True, criteria)

    def sum_of_bills(self, **criteria: str) -> str:
        """Return a SUMIFS over what is billed in USD, without shortfalls of agreements."""
        return self._sum("usd", "billed", False, criteria)

    def _sum(self, amount: str, view: str, with_shortfall: bool, criteria: dict[str, str]) -> str:
        parts = [self.span(amount, view, with_shortfall)]
        for column, criterion in criteria.items():
            parts += [self.span(column.removesuffix("_to"), view, with_shortfall), criterion]
        return f"SUMIFS({','.join(parts)})"


def component_name(component: str) -> str:
    """Return what a component is called on paper."""
    return NAMES.get(component) or words(component)


def write_lines(draft: Draft, lines: Lines) -> None:
    """Write all amounts of the ledger as quantity times price."""
    sheet, currency = draft.sheets["Lines"], draft.currency
    sheet.title(
        "Lines",
        "Every amount in this workbook: quantity x rate. Rates stand on Assumptions; a line without a rate is stated in dollars, or"
        + OWN_WORDS,
    )
    sheet.row = HEAD_ROW
    heads = [f"{text} ({currency})" if name in ("amount", "present") else text for name, text, _ in LINES.declared]
    sheet.head(heads, LINES.styles)
    as_of = pd.Timestamp(draft.plan.scenario.as_of)
    places, texts = ("date", "quantity", "rate_usd", "usd", "exchange", "amount"), lines.frame[list(TEXTS)].astype(str)
    said = texts.assign(view=texts["view"].map(words), component=texts["component"].map(component_name))
    for row in records(lines.frame.assign(paid=texts["view"] == "cash", **said)):
        here = {name: address(sheet.row, LINES.at(name), "c") for name in places}
        rate: Any = None
        if row["agreement"] >= 0:
            usd = Formula(f"={draft.shortfall[row['agreement']]}", row["usd"])
        elif row["price_id"]:
            rate = Formula(f"={draft.rate[row['price_id']]}", row["rate_usd"])
            usd = Formula(f"={here['quantity']}*{here['rate_usd']}", row["usd"])
        else:
            at_rate = f"*{here['exchange']}" if row["own"] else ""
            usd = Formula(f"={here['quantity']}{at_rate}", row["usd"])
        exchange = draft.exchange.get(row["month"])
        rate_of_month = Formula(f"={exchange}", draft.priced.rates[row["month"]]) if exchange else None
        amount = Formula(f"={here['usd']}/{here['exchange']}" if exchange else f"={here['usd']}", row["amount"])
        present: Any = None
        if row["paid"] and row["date"] >= as_of:
            present = Formula(f"={here['amount']}/(1+discount_rate)^(({here['date']}-as_of)/365.25)", row["present"])
        written = {**row, "rate_usd": rate, "usd": usd, "exchange": rate_of_month, "amount": amount, "present": present}
        sheet.rows([[written[name] for name, _, _ in LINES.declared]], LINES.styles)
    sheet.sheet.autofilter(HEAD_ROW, 0, sheet.row - 1, len(LINES.declared) - 1)
    sheet.finish(HEAD_ROW, wide=True)
    sheet.print_to(min(sheet.row, HEAD_ROW + PRINTED_LINES), LINES.at("present"))


@dataclass(frozen=True)
class ViewBlock:
    """Where the rows of a view's sums stand: rows by key and the row of the total."""

    head: int
    first: int
    last: int
    total: int
    labels: tuple[str, ...]
    values: pd.DataFrame
    columns: Columns


BLOCKS = (("Component", "component_key"), ("Account", "account_key"), ("Team and cost centre", "team_key"))


def month_name(month: pd.Timestamp) -> str:
    """Return the name of a month's column."""
    return f"{month:%Y-%m}"


def month_columns(title: str, months: Sequence[pd.Timestamp]) -> Columns:
    """Declare a table of sums by month, with what lies before and after them."""
    before, after = ("before", f"Before {months[0]:%b %Y}", "money"), ("after", f"After {months[-1]:%b %Y}", "money")
    inside = ((month_name(month), month, "money") for month in months)
    return Columns((("label", title, "text"), ("number", "No.", "key+key"), before, *inside, after, ("total", "Total", "money")))


def write_view(draft: Draft, lines: Lines, view: str) -> dict[str, ViewBlock]:
    """Write the sums of a view by month: by component, account, and team and cost centre."""
    sheet, months = draft.sheets[VIEW_SHEETS[view]], draft.months
    sheet.title(f"{VIEW_SHEETS[view]} in {draft.currency}", VIEW_NOTES[view], across=10)
    columns = month_columns("", months)
    years = [fiscal_year(month, draft.plan.scenario.fiscal_year_first_month) for month in months]
    for place, year in enumerate(years):
        if place == 0 or year != years[place - 1]:
            sheet.put(sheet.row, columns.at(month_name(months[place])), year, "section")
    sheet.row += 1
    head = sheet.row
    part = lines.frame[lines.frame["view"] == view]
    found: dict[str, ViewBlock] = {}
    for title, key in BLOCKS:
        found[key] = _write_block(draft, lines, view, sheet, (title, key), part, head)
        sheet.row += 1
    base = found["component_key"]
    one = sheet.cell(base.total, columns.at("total"))
    for title, key in BLOCKS[1:]:
        block = found[key]
        other = sheet.cell(block.total, columns.at("total"))
        equal = abs(float(base.values.to_numpy().sum()) - float(block.values.to_numpy().sum())) < CENT
        draft.check(f"{VIEW_SHEETS[view]}: the sums by {title.lower()} add up to the total", f"=ABS({one}-{other})<{CENT}", equal)
    whole = f"SUM({lines.span('amount', view)})"
    equal = abs(float(part["amount"].sum()) - float(base.values.to_numpy().sum())) < CENT
    draft.check(f"{VIEW_SHEETS[view]}: the total is the sum of all lines", f"=ABS({one}-{whole})<{CENT}", equal)
    # Half a page for a year of months can be read; all months on one page cannot.
    sheet.finish(head, 2, wide=True, pages=max(1, round(len(months) / 12)))
    return found


def _write_block(draft: Draft, lines: Lines, view: str, sheet: Sheet, block: tuple[str, str], part: pd.DataFrame, head: int) -> ViewBlock:
    """Write one table of sums; all tables of a sheet share the months of its first heading."""
    (title, key), months = block, draft.months
    columns = month_columns(title, months)
    columns.head(sheet)
    place = pd.Series(range(1, len(months) + 1), index=pd.DatetimeIndex(months))
    bucket = part["month"].map(place).fillna(pd.Series((part["month"] > months[-1]) * (len(months) + 1.0), index=part.index))
    table = part.groupby([key, bucket.rename("bucket")])["amount"].sum().unstack(fill_value=0.0)
    table = table.reindex(columns=range(len(months) + 2), fill_value=0.0)
    names = {number: value for value, number in lines.keys[key].items()}
    within, first, labels = _within(columns, head, months), sheet.row, []
    for number, sums in table.iterrows():
        name, here = names[int(str(number))], columns.here(sheet.row)
        label = (
            component_name(str(name))
            if key == "component_key"
            else " · ".join(dict.fromkeys(name))
            if key == "team_key"
            else str(name)[:1].upper() + str(name)[1:]
        )
        labels.append(label)
        mine = {key: address(sheet.row, columns.at("number"), "c")}
        cells = {
            column: Formula(f"={lines.sum_where('amount', view, **mine, **dates)}", float(value))
            for (column, dates), value in zip(within.items(), sums, strict=True)
        }
        total = Formula(f"=SUM({here['before']}:{here['after']})", float(sums.sum()))
        columns.write(sheet, label=label, number=int(str(number)), **cells, total=total)
    last, total_row = sheet.row - 1, sheet.row
    sums = zip([*within, "total"], [*table.sum(), float(table.to_numpy().sum())], strict=True)
    columns.write_total(
        sheet,
        label="Total",
        **{
            column: Formula(f"=SUM({columns.block(column, first, last, '')})", float(value)) if last >= first else 0.0
            for column, value in sums
        },
    )
    return ViewBlock(head, first, last, total_row, tuple(labels), table, columns)


def _within(columns: Columns, head: int, months: Sequence[pd.Timestamp]) -> dict[str, dict[str, str]]:
    """Return between which dates the lines of each column lie: before the months, in one of them, or after them."""
    fixed, moving = columns.here(head, "rc"), columns.here(head, "r")
    first, last = fixed[month_name(months[0])], fixed[month_name(months[-1])]
    inside = {name: moving[name] for name in map(month_name, months)}
    return {
        "before": {"date": f'"<"&{first}'},
        **{name: {"date": f'">="&{month}', "date_to": f'"<"&EDATE({month},1)'} for name, month in inside.items()},
        "after": {"date": f'">="&EDATE({last},1)'},
    }


def write_views(draft: Draft, lines: Lines) -> dict[str, dict[str, ViewBlock]]:
    """Write the three views."""
    return {view: write_view(draft, lines, view) for view in VIEWS}
