"""The sheets Purchases and Decisions: what is bought at which price, what must be signed, and what contracts cost over their lives."""

from __future__ import annotations

from typing import Any

import pandas as pd

from capplan.outputs.views.decision_tables import agreements, burn_down_by_quarter, commitment_desk, decisions, renewal_calendar, renewals
from capplan.outputs.workbook.assumptions import Draft
from capplan.outputs.workbook.money import CENT, Lines
from capplan.outputs.workbook.sheet import Formula, Sheet, address
from capplan.questions.ledger.quantity_times_price import VIEWS
from capplan.questions.ledger.revalue import DISCOUNTABLE
from capplan.text import words

PURCHASES = (
    ("Offer", "text"),
    ("Provider", "text"),
    ("Accelerator", "text"),
    ("Region", "text"),
    ("Term", "text"),
    ("From", "text"),
    ("To", "text"),
    ("Machines", "number"),
    ("Accelerators", "number"),
    ("Hours", "number"),
    ("USD per machine-hour", "price"),
    ("Price factor", "factor"),
    ("USD per machine", "usd"),
    ("At signing, %", "share"),
    ("Paid at signing (USD)", "usd"),
    ("Contract value (USD)", "usd"),
    ("After horizon, %", "share"),
    ("After horizon (USD)", "usd"),
    ("Sign by", "date"),
    ("Firm", "text"),
    ("Contract no.", "key"),
    ("In the ledger (USD)", "usd"),
)
MACHINES, HOURS, PRICE, FACTOR, EACH, SHARE, UPFRONT, VALUE, LATER, NUMBER, BOOKED = 7, 9, 10, 11, 12, 13, 14, 15, 16, 20, 21
HEAD_ROW = 4
AGREEMENTS = (
    ("Agreement", "text"),
    ("Provider", "text"),
    ("Counts from", "date"),
    ("To", "date"),
    ("Discount", "share"),
    ("Committed (USD)", "usd"),
    ("Rolled in (USD)", "usd"),
    ("Drawn before (USD)", "usd"),
    ("Discount (USD)", "usd"),
    ("Planned (USD)", "usd"),
    ("Rolled out (USD)", "usd"),
    ("Shortfall (USD)", "usd"),
)


def purchase_rows(draft: Draft) -> dict[tuple[str, str], int]:
    """Return the row of each purchase on its sheet, by offer and quarter."""
    table = draft.plan.purchases.purchases
    return {(str(row["offer_id"]), str(row["quarter"])): HEAD_ROW + 1 + place for place, row in enumerate(table.to_dict("records"))}


def place_agreements(draft: Draft) -> None:
    """Fix where the shortfall of each contract year of an agreement stands, before lines refer to it."""
    first = HEAD_ROW + len(draft.plan.purchases.purchases) + 5
    sheet = draft.sheets["Purchases"]
    draft.shortfall = [sheet.cell(first + place, len(AGREEMENTS) - 1) for place in range(len(draft.priced.agreements))]


def _price_key(draft: Draft, kind: str, row: dict[Any, Any]) -> str:
    """Return the price of a purchase: its own where an offer's price changes between quarters."""
    own = f"{kind} {row['offer_id']} {row['quarter']}"
    return own if own in draft.rate else f"{kind} {row['offer_id']}"


def write_purchases(draft: Draft, lines: Lines) -> None:
    """Write purchases as machines x hours x price, agreements to spend, and contracts over their lives."""
    sheet, frame = draft.sheets["Purchases"], lines.frame
    sheet.title(
        "Purchases",
        "Contract value = machines x hours x price x price factor; of owned machines the purchase price and their power, space and upkeep.",
        across=12,
    )
    sheet.row = HEAD_ROW
    sheet.head([name for name, _ in PURCHASES], [style for _, style in PURCHASES])
    booked = frame[(frame["view"] == "billed") & (frame["component"] != "residual")].groupby("contract_key")["usd"].sum()
    first, gap = sheet.row, 0.0
    for row in draft.plan.purchases.purchases.to_dict("records"):
        values = _purchase(draft, lines, sheet.row, row, booked)
        gap = max(gap, abs(values[VALUE].value - values[BOOKED].value))
        sheet.rows([values], [style for _, style in PURCHASES])
    last = sheet.row - 1
    if last >= first:
        block = [f"{address(first, col, '')}:{address(last, col, '')}" for col in (UPFRONT, VALUE)]
        table = draft.plan.purchases.purchases
        for col, cells, name in ((UPFRONT, block[0], "upfront_usd"), (VALUE, block[1], "usd")):
            sheet.put(sheet.row, col, Formula(f"=SUM({cells})", float(table[name].sum())), "usd+total")
        sheet.put(sheet.row, 0, "Total", "text+total")
        values_at, booked_at = sheet.span(first, last, VALUE), sheet.span(first, last, BOOKED)
        draft.check(
            "Purchases: the value of each contract is what is billed for it",
            f"=SUMPRODUCT(ABS({values_at}-{booked_at}))<{CENT}",
            gap < CENT,
        )
    sheet.row = HEAD_ROW + len(draft.plan.purchases.purchases) + 3
    _write_agreements(draft, lines, sheet)
    _write_contracts(draft, lines, sheet)
    sheet.finish(HEAD_ROW, 1, wide=True, widths={NUMBER: 9})


def _purchase(draft: Draft, lines: Lines, at: int, row: dict[Any, Any], booked: pd.Series) -> list[Any]:
    """Return the cells of one purchase."""

    def here(col: int) -> str:
        return address(at, col, "")

    owned, factor = row["term"] == "owned", draft.plan.scenario.price_factor
    status = "firm" if row["firm"] else "indicative"
    number = lines.keys["contract_key"].get((f"{row['offer_id']} {row['quarter']}", status))
    key = _price_key(draft, "running" if owned else "offer", row)
    running = row["usd"] - (row["upfront_usd"] if owned else 0.0)
    hours = running / (row["machines"] * row["usd_per_hour"]) if row["usd_per_hour"] else 0.0
    cells: list[Any] = [str(row["offer_id"]), str(row["provider"]), str(row["accelerator"]), str(row["region"]), words(str(row["term"]))]
    cells += [str(row["quarter"]), str(row["end_quarter"]), row["machines"], row["accelerators"], hours]
    if owned:
        machine = _price_key(draft, "machine", row)
        cells += [Formula(f"={draft.rate[key]}", row["usd_per_hour"]) if key in draft.rate else 0.0, Formula("=price_factor", factor)]
        cells += [Formula(f"={draft.price[machine]}", row["upfront_usd"] / row["machines"] / factor), None]
        cells += [Formula(f"={here(MACHINES)}*{here(EACH)}*{here(FACTOR)}", row["upfront_usd"])]
        cells += [Formula(f"={here(UPFRONT)}+{here(MACHINES)}*{here(HOURS)}*{here(PRICE)}", row["usd"])]
        cells += [row["beyond_horizon_usd"] / running if running else 0.0]
        cells += [Formula(f"=({here(VALUE)}-{here(UPFRONT)})*{here(LATER)}", row["beyond_horizon_usd"])]
    else:
        price = Formula(f"={draft.price[key]}", row["usd_per_hour"] / factor) if key in draft.price else 0.0
        cells += [price, Formula("=price_factor", factor), None, row["upfront_usd"] / row["usd"] if row["usd"] else 0.0]
        cells += [Formula(f"={here(VALUE)}*{here(SHARE)}", row["upfront_usd"])]
        cells += [Formula(f"={here(MACHINES)}*{here(HOURS)}*{here(PRICE)}*{here(FACTOR)}", row["usd"])]
        cells += [row["beyond_horizon_usd"] / row["usd"] if row["usd"] else 0.0]
        cells += [Formula(f"={here(VALUE)}*{here(LATER)}", row["beyond_horizon_usd"])]
    cells += [row["sign_by"], "firm" if row["firm"] else "indicative", number]
    total = lines.sum_where("usd", "billed", contract_key=here(NUMBER))
    residual = lines.keys["component_key"].get("residual")
    less = f"-{lines.sum_where('usd', 'billed', contract_key=here(NUMBER), component_key=str(residual))}" if residual else ""
    return [*cells, Formula(f"={total}{less}", float(booked.get(number, 0.0)))]


def _write_agreements(draft: Draft, lines: Lines, sheet: Sheet) -> None:
    """Write the burn-down of agreements to spend as formulas on what is billed."""
    table, down = draft.priced.agreements, draft.now.agreements
    if table.empty:
        return
    sheet.section("Agreements to spend")
    sheet.head([name for name, _ in AGREEMENTS], [style for _, style in AGREEMENTS])
    components, as_of = lines.keys["component_key"], pd.Timestamp(draft.plan.scenario.as_of)
    open_from = as_of.replace(day=1)
    for place, (year, drawn) in enumerate(zip(table.to_dict("records"), down.to_dict("records"), strict=True)):
        at = sheet.row

        def here(col: int, at: int = at) -> str:
            return address(at, col, "")

        number = lines.keys["provider_key"].get(str(year["provider"]), 0)
        window = {"provider_key": str(number), "date": f'">="&{here(2)}', "date_to": f'"<="&{here(3)}'}

        def billed(*names: str, window: dict[str, str] = window) -> str:
            sums = [lines.sum_of_bills(component_key=str(components[name]), **window) for name in names if name in components]
            return "+".join(sums) or "0"

        whole = lines.sum_of_bills(**window)
        before = place and table["agreement_id"][place - 1] == year["agreement_id"]
        rolls = place + 1 < len(table) and table["agreement_id"][place + 1] == year["agreement_id"] and bool(year["rolls_over"])
        short = f"MAX(0,{here(5)}+{here(6)}-{here(7)}-{here(9)})"
        over = year["end"] < as_of
        values = [
            str(year["agreement_id"]),
            str(year["provider"]),
            max(year["start"].replace(day=1), open_from),
            year["end"],
            year["discount_share"],
            year["committed_usd"],
            Formula(f"={address(at - 1, 10, '')}", drawn["rolled_in_usd"]) if before else 0.0,
            year["drawn_usd"],
            Formula(f"={here(4)}*({billed(*DISCOUNTABLE)})", drawn["discount_usd"]),
            Formula(f"={whole}-({billed('agreement_discount')})-{here(8)}", drawn["planned_usd"]),
            Formula(f"={short}", drawn["rolled_out_usd"]) if rolls else 0.0,
            0.0 if rolls or over else Formula(f"={short}", drawn["shortfall_usd"]),
        ]
        sheet.rows([values], [style for _, style in AGREEMENTS])
    sheet.row += 1


def _write_contracts(draft: Draft, lines: Lines, sheet: Sheet) -> None:
    """Write what each contract costs over its whole life, alike in all views."""
    frame = lines.frame
    bound = frame[frame["status"].isin(["signed", "firm", "indicative"])]
    if bound.empty:
        return
    sheet.section("Contracts, machines and sites over their whole lives (USD)")
    styles = ["text", "text", "text", "key", "text", "usd", "usd", "usd", "flag"]
    sheet.head(["Contract", "Provider", "Status", "No.", "", "Cash", "Billed", "P&L", "Alike"], styles)
    sums = bound.pivot_table(index="contract_key", columns="view", values="usd", aggfunc="sum", fill_value=0.0).reindex(
        columns=list(VIEWS), fill_value=0.0
    )
    about = bound.drop_duplicates("contract_key").set_index("contract_key")
    first = sheet.row
    for number, views in sums.iterrows():
        at, info = sheet.row, about.loc[number]
        values: list[Any] = [str(info["contract_id"]), str(info["provider"]), str(info["status"]), number, None]
        for view in VIEWS:
            values.append(Formula(f"={lines.sum_where('usd', view, contract_key=address(at, 3, 'c'))}", float(views[view])))
        cells = [address(at, col, "") for col in (5, 6, 7)]
        alike = max(abs(views["cash"] - views["billed"]), abs(views["billed"] - views["p_and_l"])) < CENT
        values.append(Formula(f"=AND(ABS({cells[0]}-{cells[1]})<{CENT},ABS({cells[1]}-{cells[2]})<{CENT})", bool(alike)))
        sheet.rows([values], styles)
    flags = sheet.span(first, sheet.row - 1, 8)
    every = all(abs(row["cash"] - row["billed"]) < CENT and abs(row["billed"] - row["p_and_l"]) < CENT for _, row in sums.iterrows())
    draft.check("Contracts: over a whole life cash = billed = P&L, in USD", f"=AND({flags})", every)


def write_decisions(draft: Draft) -> None:
    """Write what must be signed, by when and by whom; which contracts end; how agreements are used up; every commitment."""
    sheet, rows = draft.sheets["Decisions"], purchase_rows(draft)
    sheet.title("Decisions", "Firm: to be submitted before the next review. Indicative: can wait, and will be decided anew.", across=12)
    heads = [
        "Status",
        "Submit by",
        "Sign by",
        "Who signs",
        "Offer",
        "Provider",
        "Accelerator",
        "Term",
        "Starts",
        "Ends",
        "Machines",
        "Accelerators",
    ]
    heads += [f"{name} ({draft.currency})" for name in ("Paid at signing", "Contract value", "Exit cost")] + ["Price", "Because"]
    styles = [
        "text",
        "date",
        "date",
        "text",
        "text",
        "text",
        "text",
        "text",
        "date",
        "date",
        "number",
        "number",
        "money",
        "money",
        "money",
        "text",
        "text",
    ]
    head = sheet.row
    sheet.head(heads, styles)
    for row in decisions(draft.plan).to_dict("records"):
        place = rows[str(row["offer_id"]), str(row["quarter"])]
        values: list[Any] = [
            "firm" if row["firm"] else "indicative",
            row["submit_by"],
            row["sign_by"],
            str(row["approver"]),
            str(row["offer_id"]),
        ]
        values += [str(row[name]) for name in ("provider", "accelerator")] + [words(str(row["term"])), row["starts"], row["ends"]]
        values += [row["machines"], row["accelerators"], *_decision_amounts(draft, row, place), str(row["price"]), str(row["because"])]
        sheet.rows([values], styles)
    if not rows:
        sheet.note("Nothing is bought: contracts that are signed and use by the hour carry the work.", 12)
    sheet.row += 1
    for title, table in (
        ("Signed contracts that end or want a notice", renewals(draft.plan, draft.book)),
        ("Spend agreements: how far each contract year is used up", agreements(draft.plan)),
        ("Spend agreements by quarter", burn_down_by_quarter(draft.plan)),
        ("Every commitment: dates, what is owed, and the share that is used", commitment_desk(draft.plan, draft.book)),
        ("Capacity that ends", renewal_calendar(draft.plan, draft.book)),
    ):
        if len(table):
            sheet.section(title)
            sheet.table(table, draft.currency)
            sheet.row += 1
    sheet.finish(head, 0, wide=True, widths={0: 24, 3: 24, 4: 30})


def _decision_amounts(draft: Draft, row: dict[Any, Any], place: int) -> list[Any]:
    """Return what is paid at signing, the whole value, and the exit cost, as formulas on Purchases and the signature month's rate."""
    purchases, month = draft.sheets["Purchases"], pd.Timestamp(row["sign_by"]).to_period("M").to_timestamp()
    rates = draft.priced.rates
    known = [stamp for stamp in rates.index if stamp <= month] or [rates.index[0]]
    rate = draft.exchange.get(known[-1])
    by = f"/{rate}" if rate else ""
    upfront, value = purchases.cell(place, UPFRONT), purchases.cell(place, VALUE)
    kept = 1.0 - draft.plan.scenario.residual_share
    leaving = f"={upfront}*{kept!r}{by}" if row["term"] == "owned" else f"={value}{by}"
    return [
        Formula(f"={upfront}{by}", row["upfront_amount"]),
        Formula(f"={value}{by}", row["value_amount"]),
        Formula(leaving, row["exit_amount"]),
    ]
