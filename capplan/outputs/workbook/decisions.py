"""The sheets Purchases and Decisions: what is bought at which price, what must be signed, and what contracts cost over their lives."""

from typing import Any

import pandas as pd

from capplan.outputs.views.decision_tables import agreements, burn_down_by_quarter, commitment_desk, decisions, renewal_calendar, renewals
from capplan.outputs.workbook.assumptions import Draft
from capplan.outputs.workbook.columns import Columns, write_table
from capplan.outputs.workbook.money import CENT, Lines
from capplan.outputs.workbook.sheet import Formula, Sheet
from capplan.questions.ledger.revalue import DISCOUNTABLE, VIEWS
from capplan.records import records
from capplan.text import words

PURCHASES = Columns(
    (
        ("offer", "Offer", "text"),
        ("provider", "Provider", "text"),
        ("accelerator", "Accelerator", "text"),
        ("region", "Region", "text"),
        ("term", "Term", "text"),
        ("begins", "From", "text"),
        ("ends", "To", "text"),
        ("machines", "Machines", "number"),
        ("accelerators", "Accelerators", "number"),
        ("hours", "Hours", "number"),
        ("price", "USD per machine-hour", "price"),
        ("factor", "Price factor", "factor"),
        ("each", "USD per machine", "usd"),
        ("upfront_share", "At signing, %", "share"),
        ("upfront", "Paid at signing (USD)", "usd"),
        ("value", "Contract value (USD)", "usd"),
        ("later_share", "After horizon, %", "share"),
        ("later", "After horizon (USD)", "usd"),
        ("sign_by", "Sign by", "date"),
        ("status", "Firm", "text"),
        ("number", "Contract no.", "key"),
        ("booked", "In the ledger (USD)", "usd"),
    )
)
#: Columns that say what the plan's table of purchases says.
ABOUT = {
    "offer": "offer_id",
    "provider": "provider",
    "accelerator": "accelerator",
    "region": "region",
    "begins": "quarter",
    "ends": "end_quarter",
}
HEAD_ROW = 4
AGREEMENTS = Columns(
    (
        ("agreement", "Agreement", "text"),
        ("provider", "Provider", "text"),
        ("begins", "Counts from", "date"),
        ("ends", "To", "date"),
        ("share", "Discount", "share"),
        ("committed", "Committed (USD)", "usd"),
        ("rolled_in", "Rolled in (USD)", "usd"),
        ("drawn", "Drawn before (USD)", "usd"),
        ("discount", "Discount (USD)", "usd"),
        ("planned", "Planned (USD)", "usd"),
        ("rolled_out", "Rolled out (USD)", "usd"),
        ("shortfall", "Shortfall (USD)", "usd"),
    )
)
CONTRACTS = Columns(
    (
        ("contract", "Contract", "text"),
        ("provider", "Provider", "text"),
        ("status", "Status", "text"),
        ("number", "No.", "key"),
        ("between", "", "text"),
        ("cash", "Cash", "usd"),
        ("billed", "Billed", "usd"),
        ("p_and_l", "P&L", "usd"),
        ("alike", "Alike", "flag"),
    )
)


def purchase_rows(draft: Draft) -> dict[tuple[str, str], int]:
    """Return the row of each purchase on its sheet, by offer and quarter."""
    table = draft.plan.purchases.purchases
    return {(str(row["offer_id"]), str(row["quarter"])): HEAD_ROW + 1 + place for place, row in enumerate(records(table))}


def place_agreements(draft: Draft) -> None:
    """Fix where the shortfall of each contract year of an agreement stands, before lines refer to it."""
    first = HEAD_ROW + len(draft.plan.purchases.purchases) + 5
    sheet = draft.sheets["Purchases"]
    draft.shortfall = [sheet.cell(first + place, AGREEMENTS.at("shortfall")) for place in range(len(draft.priced.agreements))]


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
    PURCHASES.head(sheet)
    booked = frame[(frame["view"] == "billed") & (frame["component"] != "residual")].groupby("contract_key")["usd"].sum()
    first, gap = sheet.row, 0.0
    for row in records(draft.plan.purchases.purchases):
        values = _purchase(draft, lines, sheet.row, row, booked)
        gap = max(gap, abs(values["value"].value - values["booked"].value))
        PURCHASES.write(sheet, **values)
    last = sheet.row - 1
    if last >= first:
        table = draft.plan.purchases.purchases
        for column, name in (("upfront", "upfront_usd"), ("value", "usd")):
            total = Formula(f"=SUM({PURCHASES.block(column, first, last, '')})", float(table[name].sum()))
            sheet.put(sheet.row, PURCHASES.at(column), total, "usd+total")
        sheet.put(sheet.row, 0, "Total", "text+total")
        values_at, booked_at = (sheet.span(first, last, PURCHASES.at(name)) for name in ("value", "booked"))
        draft.check(
            "Purchases: the value of each contract is what is billed for it",
            f"=SUMPRODUCT(ABS({values_at}-{booked_at}))<{CENT}",
            gap < CENT,
        )
    sheet.row = HEAD_ROW + len(draft.plan.purchases.purchases) + 3
    _write_agreements(draft, lines, sheet)
    _write_contracts(draft, lines, sheet)
    sheet.finish(HEAD_ROW, 1, wide=True, widths={PURCHASES.at("number"): 9})


def _purchase(draft: Draft, lines: Lines, at: int, row: dict[Any, Any], booked: pd.Series) -> dict[str, Any]:
    """Return the cells of one purchase, by column."""
    here, owned, factor = PURCHASES.here(at), row["term"] == "owned", draft.plan.scenario.price_factor
    status = "firm" if row["firm"] else "indicative"
    number = lines.keys["contract_key"].get((f"{row['offer_id']} {row['quarter']}", status))
    key = _price_key(draft, "running" if owned else "offer", row)
    running = row["usd"] - (row["upfront_usd"] if owned else 0.0)
    total = lines.sum_where("usd", "billed", contract_key=here["number"])
    residual = lines.keys["component_key"].get("residual")
    less = f"-{lines.sum_where('usd', 'billed', contract_key=here['number'], component_key=str(residual))}" if residual else ""
    cells: dict[str, Any] = {name: str(row[column]) for name, column in ABOUT.items()}
    cells |= {"term": words(str(row["term"])), "machines": row["machines"], "accelerators": row["accelerators"], "hours": row["hours"]}
    cells |= {"factor": Formula("=price_factor", factor), "sign_by": row["sign_by"], "status": status, "number": number}
    cells["booked"] = Formula(f"={total}{less}", float(booked.get(number, 0.0)))
    if owned:
        machine = _price_key(draft, "machine", row)
        rates = [draft.rate[name] for name in (key, _price_key(draft, "support", row)) if name in draft.rate]
        cells["price"] = Formula(f"={'+'.join(rates)}", row["usd_per_hour"]) if rates else 0.0
        cells["each"] = Formula(f"={draft.price[machine]}", row["upfront_usd"] / row["machines"] / factor)
        cells["upfront"] = Formula(f"={here['machines']}*{here['each']}*{here['factor']}", row["upfront_usd"])
        cells["value"] = Formula(f"={here['upfront']}+{here['machines']}*{here['hours']}*{here['price']}", row["usd"])
        cells["later_share"] = row["beyond_horizon_usd"] / running if running else 0.0
        cells["later"] = Formula(f"=({here['value']}-{here['upfront']})*{here['later_share']}", row["beyond_horizon_usd"])
        return cells
    cells["price"] = Formula(f"={draft.price[key]}", row["usd_per_hour"] / factor) if key in draft.price else 0.0
    cells["upfront_share"] = row["upfront_usd"] / row["usd"] if row["usd"] else 0.0
    cells["upfront"] = Formula(f"={here['value']}*{here['upfront_share']}", row["upfront_usd"])
    cells["value"] = Formula(f"={here['machines']}*{here['hours']}*{here['price']}*{here['factor']}", row["usd"])
    cells["later_share"] = row["beyond_horizon_usd"] / row["usd"] if row["usd"] else 0.0
    cells["later"] = Formula(f"={here['value']}*{here['later_share']}", row["beyond_horizon_usd"])
    return cells


def _write_agreements(draft: Draft, lines: Lines, sheet: Sheet) -> None:
    """Write the burn-down of agreements to spend as formulas on what is billed."""
    table, down = draft.priced.agreements, draft.now.agreements
    if table.empty:
        return
    sheet.section("Agreements to spend")
    AGREEMENTS.head(sheet)
    components, as_of = lines.keys["component_key"], pd.Timestamp(draft.plan.scenario.as_of)
    open_from = as_of.replace(day=1)
    for place, (year, drawn) in enumerate(zip(records(table), records(down), strict=True)):
        here = AGREEMENTS.here(sheet.row)
        number = lines.keys["provider_key"].get(str(year["provider"]), 0)
        window = {"provider_key": str(number), "date": f'">="&{here["begins"]}', "date_to": f'"<="&{here["ends"]}'}

        def billed(*names: str, window: dict[str, str] = window) -> str:
            sums = [lines.sum_of_bills(component_key=str(components[name]), **window) for name in names if name in components]
            return "+".join(sums) or "0"

        whole = lines.sum_of_bills(**window)
        before = place and table["agreement_id"][place - 1] == year["agreement_id"]
        rolls = place + 1 < len(table) and table["agreement_id"][place + 1] == year["agreement_id"] and bool(year["rolls_over"])
        short = f"MAX(0,{here['committed']}+{here['rolled_in']}-{here['drawn']}-{here['planned']})"
        over = year["end"] < as_of
        above = AGREEMENTS.here(sheet.row - 1)["rolled_out"]
        AGREEMENTS.write(
            sheet,
            agreement=str(year["agreement_id"]),
            provider=str(year["provider"]),
            begins=max(year["start"].replace(day=1), open_from),
            ends=year["end"],
            share=year["discount_share"],
            committed=year["committed_usd"],
            rolled_in=Formula(f"={above}", drawn["rolled_in_usd"]) if before else 0.0,
            drawn=year["drawn_usd"],
            discount=Formula(f"={here['share']}*({billed(*DISCOUNTABLE)})", drawn["discount_usd"]),
            planned=Formula(f"={whole}-({billed('agreement_discount')})-{here['discount']}", drawn["planned_usd"]),
            rolled_out=Formula(f"={short}", drawn["rolled_out_usd"]) if rolls else 0.0,
            shortfall=0.0 if rolls or over else Formula(f"={short}", drawn["shortfall_usd"]),
        )
    sheet.row += 1


def _write_contracts(draft: Draft, lines: Lines, sheet: Sheet) -> None:
    """Write what each contract costs over its whole life, alike in all views."""
    frame = lines.frame
    bound = frame[frame["status"].isin(["signed", "firm", "indicative"])]
    if bound.empty:
        return
    sheet.section("Contracts, machines and sites over their whole lives (USD)")
    CONTRACTS.head(sheet)
    sums = bound.pivot_table(index="contract_key", columns="view", values="usd", aggfunc="sum", fill_value=0.0).reindex(
        columns=list(VIEWS), fill_value=0.0
    )
    about = bound.drop_duplicates("contract_key").set_index("contract_key")
    first = sheet.row
    for number, views in sums.iterrows():
        here, info = CONTRACTS.here(sheet.row), about.loc[number]
        key = CONTRACTS.here(sheet.row, "c")["number"]
        amounts = {view: Formula(f"={lines.sum_where('usd', view, contract_key=key)}", float(views[view])) for view in VIEWS}
        alike = max(abs(views["cash"] - views["billed"]), abs(views["billed"] - views["p_and_l"])) < CENT
        same = f"=AND(ABS({here['cash']}-{here['billed']})<{CENT},ABS({here['billed']}-{here['p_and_l']})<{CENT})"
        CONTRACTS.write(
            sheet,
            contract=str(info["contract_id"]),
            provider=str(info["provider"]),
            status=str(info["status"]),
            number=number,
            alike=Formula(same, bool(alike)),
            **amounts,
        )
    flags = sheet.span(first, sheet.row - 1, CONTRACTS.at("alike"))
    every = all(abs(row["cash"] - row["billed"]) < CENT and abs(row["billed"] - row["p_and_l"]) < CENT for _, row in sums.iterrows())
    draft.check("Contracts: over a whole life cash = billed = P&L, in USD", f"=AND({flags})", every)


def write_decisions(draft: Draft) -> None:
    """Write what must be signed, by when and by whom; which contracts end; how agreements are used up; every commitment."""
    sheet, rows = draft.sheets["Decisions"], purchase_rows(draft)
    sheet.title("Decisions", "Firm: to be submitted before the next review. Indicative: can wait, and will be decided anew.", across=12)
    columns = _decision_columns(draft.currency)
    head = sheet.row
    columns.head(sheet)
    for row in records(decisions(draft.plan)):
        columns.write(
            sheet,
            **{name: str(row[name]) for name in ("approver", "provider", "accelerator", "price", "because")},
            **{name: row[name] for name in ("submit_by", "sign_by", "starts", "ends", "machines", "accelerators")},
            **_decision_amounts(draft, row, rows[str(row["offer_id"]), str(row["quarter"])]),
            status="firm" if row["firm"] else "indicative",
            offer=str(row["offer_id"]),
            term=words(str(row["term"])),
        )
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
            sheet.section(f"{title} (as made: values, which follow no change)")
            write_table(sheet, table, draft.currency)
            sheet.row += 1
    sheet.finish(head, 0, wide=True)


def _decision_columns(currency: str) -> Columns:
    """Return the columns of what must be signed."""
    return Columns(
        (
            ("status", "Status", "text"),
            ("submit_by", "Submit by", "date"),
            ("sign_by", "Sign by", "date"),
            ("approver", "Who signs", "text"),
            ("offer", "Offer", "text"),
            ("provider", "Provider", "text"),
            ("accelerator", "Accelerator", "text"),
            ("term", "Term", "text"),
            ("starts", "Starts", "date"),
            ("ends", "Ends", "date"),
            ("machines", "Machines", "number"),
            ("accelerators", "Accelerators", "number"),
            ("upfront", f"Paid at signing ({currency})", "money"),
            ("value", f"Contract value ({currency})", "money"),
            ("exit", f"Exit cost ({currency})", "money"),
            ("price", "Price", "text"),
            ("because", "Because", "text"),
        )
    )


def _decision_amounts(draft: Draft, row: dict[Any, Any], place: int) -> dict[str, Formula]:
    """Return what is paid at signing, the whole value, and the exit cost, as formulas on Purchases and the signature month's rate."""
    purchases, month = draft.sheets["Purchases"], pd.Timestamp(row["sign_by"]).to_period("M").to_timestamp()
    rates = draft.priced.rates
    known = [stamp for stamp in rates.index if stamp <= month] or [rates.index[0]]
    rate = draft.exchange.get(known[-1])
    by = f"/{rate}" if rate else ""
    upfront, value = (purchases.cell(place, PURCHASES.at(name)) for name in ("upfront", "value"))
    kept = 1.0 - draft.plan.scenario.residual_share
    leaving = f"={upfront}*{kept!r}{by}" if row["term"] == "owned" else f"={value}{by}"
    return {
        "upfront": Formula(f"={upfront}{by}", row["upfront_amount"]),
        "value": Formula(f"={value}{by}", row["value_amount"]),
        "exit": Formula(leaving, row["exit_amount"]),
    }
