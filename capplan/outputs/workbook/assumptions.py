"""The sheets Assumptions and Sources: what may be changed, what needs a new run, and where figures come from."""

import datetime as dt
import math
import re
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from capplan.answers.finished_plan import Plan
from capplan.book.book import Book
from capplan.book.scenario import Scenario
from capplan.outputs.views.bridges import NO_PLAN, LastPlan
from capplan.outputs.views.plan_tables import stale_prices
from capplan.outputs.workbook.columns import Columns
from capplan.outputs.workbook.sheet import Formula, Sheet, Styles
from capplan.questions.ledger.revalue import Priced, Revalued
from capplan.records import records
from capplan.text import words
from capplan.units import HOURS_PER_YEAR, quarter_end, quarter_range, quarter_start

SHEETS = (
    "Summary",
    "Memo",
    "Decisions",
    "Bridges",
    "Purchases",
    "Cash",
    "Billed",
    "P&L",
    "Demand",
    "Unit economics",
    "Assumptions",
    "Sources",
    "Checks",
    "Lines",
)
#: Assumptions that formulas use: field of the scenario, name of the cell, unit.
LIVE = (
    ("price_factor", "price_factor", "factor", "factor+input"),
    ("discount_rate_per_year", "discount_rate", "share a year", "share+input"),
    ("upkeep_share_per_year", "upkeep_share", "share a year", "share+input"),
)
#: Characters of a meaning that fit into a line.
MEANING = 68
REVALUES = (
    "Cells with blue figures on a yellow ground may be changed: every amount in this file follows. Changed assumptions revalue the"
    " decisions shown; they do not decide anew. For another decision, make the plan again with the changed assumption."
)


@dataclass
class Draft:
    """A workbook that is being written: the plan, its ledger as quantity times price, and where the cells of assumptions stand."""

    plan: Plan
    book: Book
    priced: Priced
    now: Revalued
    workbook: Any
    styles: Styles
    sheets: dict[str, Sheet]
    rate: dict[str, str] = field(default_factory=dict)
    price: dict[str, str] = field(default_factory=dict)
    exchange: dict[pd.Timestamp, str] = field(default_factory=dict)
    shortfall: list[str] = field(default_factory=list)
    checks: list[tuple[str, Formula]] = field(default_factory=list)
    last: LastPlan = NO_PLAN

    @property
    def currency(self) -> str:
        """Currency of the book."""
        return self.plan.scenario.currency

    @property
    def quarters(self) -> list[str]:
        """Planned quarters."""
        return quarter_range(self.plan.scenario.first_quarter, self.plan.scenario.horizon_quarters)

    @property
    def months(self) -> list[pd.Timestamp]:
        """Months from the day of the plan to the horizon's end."""
        first = pd.Timestamp(self.plan.scenario.as_of).replace(day=1)
        return list(pd.date_range(first, quarter_end(self.quarters[-1]), freq="MS", inclusive="left"))

    def quarter_columns(self, quarter: str) -> tuple[int, int]:
        """Return the places of a quarter's first and last month in `months`."""
        place = self.months.index(quarter_start(quarter))
        return place, place + 2

    def check(self, text: str, formula: str, value: bool) -> None:
        """Add a line to the sheet Checks."""
        self.checks.append((text, Formula(formula, value)))


RATES = Columns(
    (
        ("name", "Assumption", "text"),
        ("planned", "In the plan", "factor"),
        ("value", "Value", "factor+input"),
        ("unit", "Unit", "text"),
        ("meaning", "Meaning", "text"),
    )
)
FACTS = Columns(
    (
        ("name", "Assumption", "text"),
        ("value", "Value", "text"),
        ("more", "", "text"),
        ("unit", "Unit", "text"),
        ("meaning", "Meaning", "text"),
    )
)
PRICES = Columns(
    (
        ("name", "Price of", "text"),
        ("planned", "In the plan", "price"),
        ("price", "Price", "price+input"),
        ("unit", "Unit", "text"),
        ("kind", "Kind", "text"),
        ("provider", "Provider", "text"),
        ("by_factor", "By factor", "text"),
        ("rate", "Rate applied", "price"),
    )
)
EXCHANGE = Columns(
    (("month", "Month", "month"), ("planned", "In the plan", "rate"), ("rate", "Rate", "rate+input"), ("unit", "Unit", "text"))
)
STALE = Columns(
    (
        ("offer", "Offer", "text"),
        ("of", "Provider and accelerator", "text"),
        ("term", "Term", "text"),
        ("price", "USD per accelerator-hour", "price"),
    )
)
SOURCES = Columns(
    (
        ("source", "Source", "text"),
        ("title", "Title", "text+wrap"),
        ("found", "Where it was found", "text+wrap"),
        ("read", "Read on", "date"),
    )
)
DIGESTS = Columns((("table", "Table", "text"), ("digest", "Digest", "text")))


def cell_name(text: str, taken: set[str]) -> str:
    """Turn text into a name for a cell that is not taken yet.

    Examples:
        >>> cell_name("price offer =HYPERLINK(1)", {"price_offer_HYPERLINK_1"})
        'price_offer_HYPERLINK_1_2'
    """
    stem = re.sub(r"[^A-Za-z0-9_]+", "_", text).strip("_")[:200]
    name, step = stem, 2
    while name.lower() in {other.lower() for other in taken}:
        name, step = f"{stem}_{step}", step + 1
    return name


def write_assumptions(draft: Draft) -> None:
    """Write prices, rates and exchange rates as inputs, and all other assumptions as facts."""
    sheet, scenario = draft.sheets["Assumptions"], draft.plan.scenario
    sheet.title("Assumptions", REVALUES)
    taken: set[str] = set()
    head = sheet.row + 1
    sheet.section("Rates")
    RATES.head(sheet)
    at, meaning = RATES.at("value"), RATES.at("meaning")
    for name, cell, unit, style in LIVE:
        plain = style.removesuffix("+input")
        info = Scenario.model_fields[name]
        value = getattr(scenario, name)
        for col, (item, form) in enumerate([(_label(name), "text"), (value, plain), (value, style), (unit, "text")]):
            sheet.put(sheet.row, col, item, form)
        sheet.wrapped(sheet.row, meaning, 7, str(info.description), MEANING)
        sheet.named(cell, sheet.row, at)
        taken.add(cell)
        sheet.row += 1
    sheet.not_negative(sheet.row - len(LIVE), sheet.row - 1, at)
    sheet.put(sheet.row, 0, "Day of the plan")
    sheet.put(sheet.row, at, scenario.as_of, "date")
    sheet.wrapped(sheet.row, meaning, 7, "Cash is discounted to this day; it is a fact of the plan, not to be changed here.", MEANING)
    sheet.named("as_of", sheet.row, at)
    sheet.row += 2
    _write_prices(draft, sheet, taken | {"as_of"})
    _write_exchange(draft, sheet)
    printed = sheet.row - 2
    sheet.section("All other assumptions (facts of this plan: a change needs a new run)")
    FACTS.head(sheet)
    at = FACTS.at("value")
    for name, info in Scenario.model_fields.items():
        if name in {item[0] for item in LIVE}:
            continue
        extra: Any = info.json_schema_extra or {}
        value = getattr(scenario, name)
        sheet.put(sheet.row, 0, _label(name))
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        sheet.put(sheet.row, at, value if number else _shown(value), "plain" if number else "text")
        sheet.put(sheet.row, FACTS.at("unit"), str(extra.get("unit", "")))
        sheet.wrapped(sheet.row, FACTS.at("meaning"), 7, str(info.description), MEANING)
        sheet.row += 1
    sheet.finish(head, 1, widths={0: 44, 1: 13, 2: 13, 3: 38, 4: 22, 5: 12, 6: 12, 7: 14})
    sheet.print_to(printed, 7)


def _label(name: str) -> str:
    """Write the name of an assumption in words."""
    return {"pue": "PUE", "usd_per_kwh": "USD per kWh"}.get(
        name, (name[:1].upper() + name[1:]).replace("_", " ").replace("usd", "USD").replace(" kw ", " kW ")
    )


def _shown(value: object) -> str:
    """Write a value that is no number."""
    if value is None:
        return "not set"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        items = [item if isinstance(item, tuple) else (item,) for item in value]
        return "; ".join(" ".join(f"{part:,.10g}" if isinstance(part, float) else str(part) for part in item) for item in items) or "none"
    return str(value) if isinstance(value, dt.date) else words(str(value))


def _write_prices(draft: Draft, sheet: Sheet, taken: set[str]) -> None:
    sheet.section("Prices in USD")
    PRICES.head(sheet)
    for row in records(draft.now.prices):
        key, at = str(row["price_id"]), sheet.row
        text = f"={PRICES.here(at)['price']}" + ("*price_factor" if row["by_factor"] else "")
        if row["upkeep_on"]:
            text += f"+{draft.rate[row['upkeep_on']].partition('!')[2]}*upkeep_share/{HOURS_PER_YEAR}"
        PRICES.write(
            sheet,
            name=str(row["name"]),
            planned=row["price"],
            price=row["price"],
            unit=str(row["unit"]),
            kind=words(str(row["kind"])),
            provider=str(row["provider"]),
            by_factor="yes" if row["by_factor"] else "no",
            rate=Formula(text, row["rate_usd"]),
        )
        name = cell_name(f"price {key}", taken)
        sheet.named(name, at, PRICES.at("price"))
        taken.add(name)
        draft.price[key], draft.rate[key] = sheet.cell(at, PRICES.at("price")), sheet.cell(at, PRICES.at("rate"))
    if draft.rate:
        sheet.not_negative(sheet.row - len(draft.rate), sheet.row - 1, PRICES.at("price"))
    sheet.note(
        "What is paid by use has one price for each accelerator of a provider: the average of all hours, also of those a savings plan pays"
        " for in part. The upkeep of a machine is a share of its price. By factor: the price factor multiplies the"
        " price, since it is not signed.",
        8,
    )
    sheet.row += 1


def _write_exchange(draft: Draft, sheet: Sheet) -> None:
    if draft.currency == "USD":
        return
    sheet.section(f"Exchange rates: USD for one {draft.currency}")
    EXCHANGE.head(sheet)
    at = EXCHANGE.at("rate")
    for month, rate in draft.priced.rates.items():
        EXCHANGE.write(sheet, month=month, planned=rate, rate=rate, unit=f"USD for one {draft.currency}")
        stamp = pd.Timestamp(str(month))
        sheet.named(f"usd_rate_{stamp:%Y_%m}", sheet.row - 1, at)
        draft.exchange[stamp] = sheet.cell(sheet.row - 1, at)
    sheet.not_negative(sheet.row - len(draft.exchange), sheet.row - 1, at)
    sheet.row += 1


def write_sources(draft: Draft) -> None:
    """Write what the reader must know, prices that are old, sources, and which inputs the plan was made from."""
    sheet, plan, book = draft.sheets["Sources"], draft.plan, draft.book
    sheet.title("Sources", "Where the figures come from, what was assumed, and which inputs the plan was made from.", across=4)
    sheet.section("What the reader must know")
    for text in plan.warnings:
        sheet.note(f"– {text}", 4, "text+wrap", 175)
    sheet.row += 1
    stale = stale_prices(plan)
    if len(stale):
        sheet.section("Prices that should be asked for again")
        STALE.head(sheet)
        for row in records(stale):
            STALE.write(
                sheet,
                offer=str(row["offer_id"]),
                of=f"{row['provider']} {row['accelerator']}",
                term=words(str(row["term"])),
                price=row["effective_usd_per_accelerator_hour"],
            )
        sheet.row += 1
    sheet.section("Sources")
    head = sheet.row
    SOURCES.head(sheet)
    sources = book.get("sources").sort_values("source_id")
    for row in records(sources):
        title, found = str(row["title"]), str(row["where_found"])
        sheet.sheet.set_row(sheet.row, 15 * max(math.ceil(len(title) / 62), math.ceil(len(found) / 74), 1))
        SOURCES.write(sheet, source=str(row["source_id"]), title=title, found=found, read=row["retrieved_on"])
    sheet.row += 1
    sheet.section("Inputs (digest of each table)")
    DIGESTS.head(sheet)
    for name, digest in sorted(book.digests.items()):
        DIGESTS.write(sheet, table=words(name), digest=digest)
    sheet.finish(None, widths={0: 36, 1: 62, 2: 74, 3: 14})
    sheet.sheet.repeat_rows(head)
