"""The sheet Unit economics: what an accelerator-hour and a unit of work cost, how well contracts are used, who spends."""

from __future__ import annotations

from typing import Any

import pandas as pd

from capplan.outputs.views.unit_tables import coverage, discounted_hours
from capplan.outputs.workbook.assumptions import Draft
from capplan.outputs.workbook.demand import units_of
from capplan.outputs.workbook.money import CENT, Lines
from capplan.outputs.workbook.sheet import Formula, Sheet, address
from capplan.text import words
from capplan.units import quarter_end, quarter_start

#: Components that are neither compute nor stated other costs.
TOKENS = "tokens"


def write_units(draft: Draft, lines: Lines) -> None:
    """Write what an accelerator-hour and a unit of work cost, and how well contracts are used; amounts follow Assumptions."""
    sheet = draft.sheets["Unit economics"]
    sheet.title(
        "Unit economics",
        f"P&L of compute in {draft.currency}: all but other costs and model APIs of work that is not hosted. What a class bears follows"
        " from the hours it uses; what no work bears is named. Both add up to the P&L.",
        across=8,
    )
    costs = draft.plan.ledger.work_costs
    api = draft.plan.ledger.api
    bearers = list(dict.fromkeys(zip(costs["class"], costs["about"], strict=True)))
    bearers.sort(key=lambda pair: (pair[0] == "", *pair))
    tokens = sorted(set(zip(api["workload"], api["provider"], strict=True)))
    # The tables above refer to rows below, so the places of all tables are fixed first.
    quarter_row = sheet.row + 2
    class_row = quarter_row + len(draft.quarters) + 3
    token_row = class_row + len(bearers) + 4
    team_row = token_row + (len(tokens) + 3 if tokens else 0)
    pool_row = team_row + len(lines.keys["team_key"]) + 3
    part_row = pool_row + len(draft.plan.ledger.idle) + 3
    run_row = part_row + len(costs) + 3
    _write_pools(draft, lines, sheet, pool_row)
    _write_parts(draft, lines, sheet, part_row, bearers)
    runs = _write_runs(draft, sheet, run_row)
    _write_quarters(draft, lines, sheet, quarter_row, (run_row, runs))
    _write_classes(draft, lines, sheet, class_row, bearers, part_row)
    if tokens:
        _write_tokens(draft, sheet, token_row, tokens)
    _write_teams(draft, lines, sheet, team_row)
    sheet.finish(None, wide=False, widths={0: 24})
    sheet.print_to(part_row - 3, 7)


def _begin(sheet: Sheet, row: int, title: str, heads: list[str], styles: list[str]) -> None:
    sheet.row = row - 2
    sheet.section(title)
    sheet.head(heads, styles)


def _window(quarter: str, last: str | None = None) -> dict[str, str]:
    first, after = quarter_start(quarter), quarter_end(last or quarter)
    return {"date": f'">="&DATE({first.year},{first.month},1)', "date_to": f'"<"&DATE({after.year},{after.month},1)'}


def _basis_sum(lines: Lines, basis: str, quarter: str) -> str:
    """Return the P&L of a quarter that stands on one basis, as a formula."""
    number = lines.keys["basis_key"].get(basis)
    return lines.sum_where("amount", "p_and_l", basis_key=str(number), **_window(quarter)) if number else "0"


def _write_pools(draft: Draft, lines: Lines, sheet: Sheet, row: int) -> None:
    """Write how well the hours of each pool are used that are paid for in any case."""
    heads = ["Quarter", "Provider", "Accelerator", "Hours held", "Hours used", "Used", "P&L", "Unused"]
    styles = ["text", "text", "text", "number", "number", "share", "money", "money"]
    _begin(sheet, row, f"Contracts and machines that hold capacity, pool by pool ({draft.currency})", heads, styles)
    costs = draft.plan.ledger.work_costs.groupby(["quarter", "basis"])["amount"].sum()
    for item in draft.plan.ledger.idle.to_dict("records"):
        basis, at = f"held {item['provider']} {item['accelerator']}", sheet.row
        held, used, share, paid = (address(at, col, "") for col in (3, 4, 5, 6))
        amount = float(costs.get((item["quarter"], basis), 0.0))
        values = [
            item["quarter"],
            str(item["provider"]),
            str(item["accelerator"]),
            item["held_accelerator_hours"],
            item["used_accelerator_hours"],
        ]
        values += [Formula(f"=MIN(1,{used}/{held})", item["used_share"]), Formula(f"={_basis_sum(lines, basis, item['quarter'])}", amount)]
        values += [Formula(f"={paid}*(1-{share})", amount * (1 - item["used_share"]))]
        sheet.rows([values], styles)


def _write_parts(draft: Draft, lines: Lines, sheet: Sheet, row: int, bearers: list[tuple[str, str]]) -> None:
    """Write which class bears which share of what, quarter by quarter."""
    heads = ["Quarter", "What", "Class of work", "No.", "Share", "P&L borne"]
    styles = ["text", "text", "text", "key", "share", "money"]
    _begin(sheet, row, f"Who bears the P&L of compute ({draft.currency})", heads, styles)
    for item in draft.plan.ledger.work_costs.to_dict("records"):
        place = bearers.index((item["class"], item["about"])) + 1
        amount = Formula(f"={address(sheet.row, 4, '')}*{_basis_sum(lines, item['basis'], item['quarter'])}", float(item["amount"]))
        sheet.rows(
            [[item["quarter"], words(str(item["basis"])), str(item["class"] or item["about"]), place, item["share"], amount]], styles
        )


def _write_runs(draft: Draft, sheet: Sheet, row: int) -> pd.DataFrame:
    """Write what runs where."""
    heads = ["Quarter", "Class", "Region", "Source", "Provider", "Accelerator", "Hours", "Work"]
    styles = ["text"] * 6 + ["number", "number"]
    _begin(sheet, row, "What runs where (expected)", heads, styles)
    runs = draft.plan.purchases.dispatch
    runs = runs[runs["source"].isin(["committed", "on_demand", "spot", "api"])].reset_index(drop=True)
    for item in runs.to_dict("records"):
        values = [
            item["quarter"],
            str(item["class"]),
            str(item["region"]),
            words(item["source"]),
            str(item["provider"]),
            str(item["accelerator"]),
        ]
        sheet.rows([[*values, item["expected_accelerator_hours"], item["expected_work"]]], styles)
    return runs


def _write_quarters(draft: Draft, lines: Lines, sheet: Sheet, row: int, runs: tuple[int, pd.DataFrame]) -> None:
    """Write coverage, use and effective price by quarter."""
    heads = [
        "Quarter",
        "Hours that did work",
        "Covered by commitments",
        "On contracts",
        "Contracts used",
        "P&L of compute",
        "Per hour that did work",
    ]
    styles = ["text", "number", "share", "share", "share", "money", "decimal"]
    _begin(sheet, row, f"Coverage, use and effective price ({draft.currency})", heads, styles)
    run_row, use = runs
    last = run_row + len(use) - 1
    discounted = discounted_hours(draft.plan).groupby("quarter")["discounted_accelerator_hours"].sum()
    for item in coverage(draft.plan).to_dict("records"):
        at, quarter = sheet.row, item["quarter"]
        hours, paid = address(at, 1, ""), address(at, 5, "")
        block = f"{address(run_row, 6)}:{address(last, 6)},{address(run_row, 0)}:{address(last, 0)},{address(at, 0, '')}"
        on_contract = f'SUMIFS({block},{address(run_row, 3)}:{address(last, 3)},"Committed")' if len(use) else "0"
        plans = float(discounted.get(quarter, 0.0))
        values: list[Any] = [quarter, Formula(f"=SUMIFS({block})" if len(use) else "=0", item["accelerator_hours"])]
        for extra, share in ((f"+{plans!r}", item["coverage_share"]), ("", item["capacity_share"])):
            values.append(Formula(f"=IF({hours}>0,({on_contract}{extra})/{hours},0)", float(share) if pd.notna(share) else 0.0))
        values.append(float(item["used_share"]) if pd.notna(item["used_share"]) else None)
        spent = lines.sum_where("amount", "p_and_l", basis_key='">0"', **_window(quarter))
        values.append(Formula(f"={spent}", item["compute_amount"]))
        each = item["amount_per_accelerator_hour"]
        values.append(Formula(f"=IF({hours}>0,{paid}/{hours},0)", float(each) if pd.notna(each) else 0.0))
        sheet.rows([values], styles)


def per_unit(unit: str) -> tuple[str, int]:
    """Return in how many units the cost of work is told.

    Examples
    --------
    >>> per_unit("requests"), per_unit("accelerator_hours"), per_unit("tokens")
    (('1,000 requests', 1000), ('accelerator-hour', 1), ('1,000,000 tokens', 1000000))
    """
    if unit == "tokens":
        return "1,000,000 tokens", 1_000_000
    if unit == "requests":
        return "1,000 requests", 1000
    return unit.removesuffix("s").replace("_", "-"), 1


def _write_classes(draft: Draft, lines: Lines, sheet: Sheet, row: int, bearers: list[tuple[str, str]], part_row: int) -> None:
    """Write what the work of each class costs, what no work bears, and that both are the P&L of compute."""
    heads = ["Class of work", "No.", "Work", "Hours", "P&L borne", "Per hour", "Unit", "Per unit"]
    styles = ["text", "key", "number", "number", "money", "decimal", "text", "decimal"]
    _begin(sheet, row, f"Who bears the P&L of compute, all planned quarters ({draft.currency})", heads, styles)
    costs, runs, units = draft.plan.ledger.work_costs, draft.plan.purchases.dispatch, units_of(draft)
    runs = runs[runs["source"].isin(["committed", "on_demand", "spot", "api"])]
    done = runs.groupby("class")[["expected_work", "expected_accelerator_hours"]].sum()
    last = part_row + len(costs) - 1
    for number, (name, about) in enumerate(bearers, 1):
        at = sheet.row
        amount = float(costs.loc[(costs["class"] == name) & (costs["about"] == about), "amount"].sum())
        borne = f"=SUMIFS({address(part_row, 5)}:{address(last, 5)},{address(part_row, 3)}:{address(last, 3)},{address(at, 1, '')})"
        if not name:
            sheet.rows([[f"No work: {about}", number, None, None, Formula(borne, amount), None, "", None]], styles)
            continue
        work, hours = (float(done[column].get(name, 0.0)) for column in done)
        label, many = per_unit(units.get(name, ""))
        at_work, at_hours, at_amount = (address(at, col, "") for col in (2, 3, 4))
        values = [
            name,
            number,
            work,
            hours,
            Formula(borne, amount),
            Formula(f"=IF({at_hours}>0,{at_amount}/{at_hours},0)", amount / hours if hours > 0 else 0.0),
        ]
        values += [label, Formula(f"=IF({at_work}>0,{many}*{at_amount}/{at_work},0)", many * amount / work if work > 0 else 0.0)]
        sheet.rows([values], styles)
    whole = float(costs["amount"].sum())
    sums = f"SUM({address(row, 4, '')}:{address(row + len(bearers) - 1, 4, '')})" if bearers else "0"
    sheet.rows(
        [["P&L of compute", None, None, None, Formula(f"={sums}", whole), None, "", None]],
        ["text+total", "key+total", "number+total", "number+total", "money+total", "decimal+total", "text+total", "decimal+total"],
    )
    window = _window(draft.quarters[0], draft.quarters[-1])
    independent = lines.sum_where("amount", "p_and_l", **window) + "-" + lines.sum_where("amount", "p_and_l", status='"stated"', **window)
    number_of = lines.keys["component_key"].get(TOKENS)
    independent += "-" + lines.sum_where("amount", "p_and_l", component_key=str(number_of), **window) if number_of else ""
    rows = draft.plan.ledger.entries
    rows = rows[
        (rows["view"] == "p_and_l") & rows["quarter"].isin(draft.quarters) & (rows["status"] != "stated") & (rows["component"] != TOKENS)
    ]
    draft.check(
        "Unit economics: what work bears and what none bears are the P&L without other costs and model APIs",
        f"=ABS({sheet.cell(sheet.row - 1, 4)}-({independent}))<{CENT}",
        abs(whole - float(rows["amount"].sum())) < CENT,
    )


def _write_teams(draft: Draft, lines: Lines, sheet: Sheet, row: int) -> None:
    """Write the P&L of each team over the planned quarters, all costs included."""
    heads = ["Team", "No.", "Cost centre", "", "P&L", "Share"]
    styles = ["text", "key", "text", "text", "money", "share"]
    _begin(sheet, row, f"P&L by team, all planned quarters ({draft.currency})", heads, styles)
    frame = lines.frame
    first, after = quarter_start(draft.quarters[0]), quarter_end(draft.quarters[-1])
    inside = frame[(frame["view"] == "p_and_l") & (frame["month"] >= first) & (frame["month"] < after)]
    spent = inside.groupby("team_key")["amount"].sum()
    window = _window(draft.quarters[0], draft.quarters[-1])
    total, last = float(spent.sum()), row + len(lines.keys["team_key"]) - 1
    for (team, center), number in lines.keys["team_key"].items():
        amount, at = float(spent.get(number, 0.0)), address(sheet.row, 4, "")
        whole = f"SUM({address(row, 4)}:{address(last, 4)})"
        cost = Formula(f"={lines.sum_where('amount', 'p_and_l', team_key=address(sheet.row, 1, 'c'), **window)}", amount)
        share = Formula(f"=IF({whole}>0,{at}/{whole},0)", amount / total if total > 0 else 0.0)
        sheet.rows([[str(team), number, str(center), None, cost, share]], styles)


def _write_tokens(draft: Draft, sheet: Sheet, row: int, tokens: list[tuple[str, str]]) -> None:
    """Write what workloads on model APIs cost."""
    heads = ["Workload", "Provider", "Requests", "", "Cost (USD)", "", "Unit", "USD per unit"]
    styles = ["text", "text", "number", "text", "usd", "text", "text", "price"]
    _begin(sheet, row, "Work on model APIs, all planned quarters", heads, styles)
    api = draft.plan.ledger.api
    rates = dict(zip(draft.now.prices["price_id"], draft.now.prices["rate_usd"], strict=True))
    for workload, provider in tokens:
        at, mine = sheet.row, api[(api["workload"] == workload) & (api["provider"] == provider)]
        requests, usd = float(mine["quantity"].sum()), float(mine["usd"].sum())
        key, count = f"tokens {workload} {provider}", address(at, 2, "")
        cost: Any = Formula(f"={count}*{draft.rate[key]}", usd) if rates.get(key) else usd
        each = Formula(f"=IF({count}>0,1000*{address(at, 4, '')}/{count},0)", 1000 * usd / requests if requests > 0 else 0.0)
        sheet.rows([[workload, provider, requests, None, cost, None, "1,000 requests", each]], styles)
