"""The sheet Unit economics: what an accelerator-hour and a unit of work cost, how well contracts are used, who spends."""

from __future__ import annotations

from typing import Any

import pandas as pd

from capplan.outputs.workbook.assumptions import Draft
from capplan.outputs.workbook.demand import units_of
from capplan.outputs.workbook.money import Lines
from capplan.outputs.workbook.sheet import Formula, Sheet, address
from capplan.questions.ledger.costs import BY_USE
from capplan.text import words
from capplan.units import quarter_end, quarter_start


def write_units(draft: Draft, lines: Lines) -> None:
    """Write what an accelerator-hour and a unit of work cost, and how well contracts are used; amounts follow Assumptions."""
    sheet = draft.sheets["Unit economics"]
    sheet.title(
        "Unit economics",
        "P&L of compute in USD per accelerator-hour that did work and per unit of work. Contracts are borne by the hours they are used.",
        across=8,
    )
    runs = draft.plan.purchases.dispatch
    runs = runs[runs["source"] != "shortfall"].reset_index(drop=True)
    idle = draft.plan.ledger.idle
    classes = sorted(set(runs["class"]))
    api = draft.plan.ledger.api
    tokens = sorted(set(zip(api["workload"], api["provider"], strict=True)))
    # The tables above refer to rows below, so the places of all tables are fixed first.
    quarter_row = sheet.row + 2
    class_row = quarter_row + len(draft.quarters) + 3
    token_row = class_row + len(classes) + 3
    team_row = token_row + (len(tokens) + 3 if tokens else 0)
    pool_row = team_row + len(lines.keys["team_key"]) + 3
    run_row = pool_row + len(idle) + 3
    pools = _write_pools(lines, sheet, pool_row, idle)
    use = _write_runs(draft, sheet, run_row, runs, pools, classes)
    _write_quarters(draft, sheet, quarter_row, (pool_row, idle), (run_row, use))
    _write_classes(draft, sheet, class_row, classes, (run_row, use))
    if tokens:
        _write_tokens(draft, sheet, token_row, tokens)
    _write_teams(draft, lines, sheet, team_row)
    borne = float(use["usd"].sum())
    unused = idle["used_accelerator_hours"] <= 0
    whole = float(idle.loc[~unused, "p_and_l_usd"].sum() + use.loc[use["source"] != "committed", "usd"].sum())
    if len(use) and len(idle):
        spent = sheet.span(run_row, run_row + len(use) - 1, 8)
        flags = sheet.span(run_row, run_row + len(use) - 1, 10)
        paid, worked = sheet.span(pool_row, pool_row + len(idle) - 1, 6), sheet.span(pool_row, pool_row + len(idle) - 1, 4)
        formula = f'=ABS(SUM({spent})-SUMIFS({paid},{worked},">0")-SUMIFS({spent},{flags},1))<1'
        draft.check("Unit economics: classes bear all that is paid for hours that did work (to a dollar)", formula, abs(borne - whole) < 1)
    sheet.finish(None, wide=False, widths={0: 20})


def _begin(sheet: Sheet, row: int, title: str, heads: list[str], styles: list[str]) -> None:
    sheet.row = row - 2
    sheet.section(title)
    sheet.head(heads, styles)


def _window(quarter: str) -> dict[str, str]:
    first, after = quarter_start(quarter), quarter_end(quarter)
    return {
        "date": f'">="&DATE({first.year},{first.month},1)',
        "date_to": f'"<"&DATE({after.year},{after.month},1)',
    }


def _write_pools(lines: Lines, sheet: Sheet, row: int, idle: pd.DataFrame) -> dict[tuple[str, str, str], tuple[str, float]]:
    """Write use and cost of what is paid for in any case; return the cell and value of each pool's cost per used hour."""
    heads = ["Quarter", "Provider", "Accelerator", "Hours held", "Hours used", "Used", "P&L (USD)", "Unused (USD)", "USD per hour used"]
    styles = ["text", "text", "text", "number", "number", "share", "usd", "usd", "cents"]
    _begin(sheet, row, "Contracts and owned machines: how well they are used", heads, styles)
    found = {}
    for item in idle.to_dict("records"):
        at = sheet.row
        held, used, share, paid = (address(at, col, "") for col in (3, 4, 5, 6))
        number = lines.keys["pool_key"].get((str(item["provider"]), str(item["accelerator"])))
        spent = lines.sum_where("usd", "p_and_l", pool_key=str(number), **_window(item["quarter"])) if number else "0"
        each = item["p_and_l_usd"] / item["used_accelerator_hours"] if item["used_accelerator_hours"] > 0 else 0.0
        found[item["quarter"], str(item["provider"]), str(item["accelerator"])] = (address(at, 8), each)
        values = [
            item["quarter"],
            str(item["provider"]),
            str(item["accelerator"]),
            item["held_accelerator_hours"],
            item["used_accelerator_hours"],
        ]
        values += [Formula(f"=MIN(1,{used}/{held})", item["used_share"]), Formula(f"={spent}", item["p_and_l_usd"])]
        values += [Formula(f"={paid}*(1-{share})", item["unused_usd"]), Formula(f"=IF({used}>0,{paid}/{used},0)", each)]
        sheet.rows([values], styles)
    return found


def _write_runs(
    draft: Draft,
    sheet: Sheet,
    row: int,
    runs: pd.DataFrame,
    pools: dict[tuple[str, str, str], tuple[str, float]],
    classes: list[str],
) -> pd.DataFrame:
    """Write what runs where, with its cost."""
    heads = [
        "Quarter",
        "Class",
        "Region",
        "Source",
        "Provider",
        "Accelerator",
        "Hours",
        "Work",
        "Cost (USD)",
        "Class no.",
        "By use",
        "Hours or work at the rate",
    ]
    styles = ["text"] * 6 + ["number", "number", "usd", "key", "key", "number"]
    _begin(sheet, row, "What runs where (expected)", heads, styles)
    rates = dict(zip(draft.now.prices["price_id"], draft.now.prices["rate_usd"], strict=True))
    costs = []
    for item in runs.to_dict("records"):
        provider, accelerator = str(item["provider"]), str(item["accelerator"])
        cost: Any
        rated: float | None = None
        if item["source"] in BY_USE:
            key = f"{item['source']} {provider} {item['class'] if item['source'] == 'api' else accelerator}"
            usd = item["expected_usd"]
            rated = usd / rates[key] if rates.get(key) else None
            cost = usd if rated is None else Formula(f"={address(sheet.row, 11, '')}*{draft.rate[key]}", usd)
        else:
            where, each = pools.get((item["quarter"], provider, accelerator), ("0", 0.0))
            usd = each * item["expected_accelerator_hours"]
            cost = Formula(f"={address(sheet.row, 6, '')}*{where}", usd)
        costs.append(usd)
        values = [item["quarter"], str(item["class"]), str(item["region"]), words(item["source"]), provider, accelerator]
        values += [
            item["expected_accelerator_hours"],
            item["expected_work"],
            cost,
            classes.index(item["class"]) + 1,
            int(item["source"] in BY_USE),
            rated,
        ]
        sheet.rows([values], styles)
    return runs.assign(usd=costs)


def _write_quarters(draft: Draft, sheet: Sheet, row: int, pools: tuple[int, pd.DataFrame], runs: tuple[int, pd.DataFrame]) -> None:
    """Write coverage, use and effective price by quarter."""
    heads = ["Quarter", "Hours that did work", "On contracts", "Contracts used", "Cost (USD)", "USD per hour that did work"]
    styles = ["text", "number", "share", "share", "usd", "cents"]
    _begin(sheet, row, "Coverage, use and effective price", heads, styles)
    (pool_row, idle), (run_row, use) = pools, runs
    sources = use["source"].to_numpy()
    for quarter in draft.quarters:
        at = sheet.row
        here = [address(at, col, "") for col in range(6)]
        mine, held = use[use["quarter"] == quarter], idle[idle["quarter"] == quarter]
        hours = float(mine["expected_accelerator_hours"].sum())
        covered = float(mine.loc[mine["source"] == "committed", "expected_accelerator_hours"].sum())
        kept, worked = float(held["held_accelerator_hours"].sum()), float(held["used_accelerator_hours"].sum())
        spent = float(held["p_and_l_usd"].sum() + mine.loc[mine["source"] != "committed", "usd"].sum())

        def block(col: int, run: bool) -> str:
            first, count = (run_row, len(sources)) if run else (pool_row, len(idle))
            return f"{address(first, col)}:{address(first + count - 1, col)}"

        by_quarter = f"{block(0, True)},{here[0]}"
        all_hours = f"=SUMIFS({block(6, True)},{by_quarter})" if len(use) else "=0"
        on_contract = f"SUMIFS({block(6, True)},{by_quarter},{block(10, True)},0)" if len(use) else "0"
        used = f"SUMIFS({block(4, False)},{block(0, False)},{here[0]})" if len(idle) else "0"
        there = f"SUMIFS({block(3, False)},{block(0, False)},{here[0]})" if len(idle) else "0"
        paid = f"SUMIFS({block(6, False)},{block(0, False)},{here[0]})" if len(idle) else "0"
        use_paid = f"SUMIFS({block(8, True)},{by_quarter},{block(10, True)},1)" if len(use) else "0"
        values = [
            quarter,
            Formula(all_hours, hours),
            Formula(f"=IF({here[1]}>0,{on_contract}/{here[1]},0)", covered / hours if hours else 0.0),
            Formula(f"=IF({there}>0,{used}/{there},0)", worked / kept if kept else 0.0),
            Formula(f"={paid}+{use_paid}", spent),
            Formula(f"=IF({here[1]}>0,{here[4]}/{here[1]},0)", spent / hours if hours else 0.0),
        ]
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


def _write_classes(draft: Draft, sheet: Sheet, row: int, classes: list[str], runs: tuple[int, pd.DataFrame]) -> None:
    """Write what the work of each class costs."""
    heads = ["Class of work", "No.", "Work", "Hours", "Cost (USD)", "USD per hour", "Unit", "USD per unit"]
    styles = ["text", "key", "number", "number", "usd", "cents", "text", "price"]
    _begin(sheet, row, "Work on accelerators, all planned quarters", heads, styles)
    (first, use), units = runs, units_of(draft)
    last = first + len(use) - 1
    for number, name in enumerate(classes, 1):
        at = sheet.row
        mine = use[use["class"] == name]
        work, hours, usd = (float(mine[column].sum()) for column in ("expected_work", "expected_accelerator_hours", "usd"))
        label, many = per_unit(units.get(name, ""))
        keys = f"{address(first, 9)}:{address(last, 9)},{address(at, 1, '')}"
        sums = [f"=SUMIFS({address(first, col)}:{address(last, col)},{keys})" for col in (7, 6, 8)]
        at_work, at_hours, at_usd = (address(at, col, "") for col in (2, 3, 4))
        values = [name, number, Formula(sums[0], work), Formula(sums[1], hours), Formula(sums[2], usd)]
        values += [Formula(f"=IF({at_hours}>0,{at_usd}/{at_hours},0)", usd / hours if hours > 0 else 0.0), label]
        values += [Formula(f"=IF({at_work}>0,{many}*{at_usd}/{at_work},0)", many * usd / work if work > 0 else 0.0)]
        sheet.rows([values], styles)


def _write_teams(draft: Draft, lines: Lines, sheet: Sheet, row: int) -> None:
    """Write the P&L of each team over the planned quarters, all costs included."""
    heads = ["Team", "No.", "Cost centre", "", "P&L (USD)", "Share"]
    styles = ["text", "key", "text", "text", "usd", "share"]
    _begin(sheet, row, "P&L by team, all planned quarters", heads, styles)
    frame = lines.frame
    first, after = quarter_start(draft.quarters[0]), quarter_end(draft.quarters[-1])
    inside = frame[(frame["view"] == "p_and_l") & (frame["month"] >= first) & (frame["month"] < after)]
    spent = inside.groupby("team_key")["usd"].sum()
    window = {**_window(draft.quarters[0]), "date_to": _window(draft.quarters[-1])["date_to"]}
    total, last = float(spent.sum()), row + len(lines.keys["team_key"]) - 1
    for (team, center), number in lines.keys["team_key"].items():
        usd, at = float(spent.get(number, 0.0)), address(sheet.row, 4, "")
        whole = f"SUM({address(row, 4)}:{address(last, 4)})"
        cost = Formula(f"={lines.sum_where('usd', 'p_and_l', team_key=address(sheet.row, 1, 'c'), **window)}", usd)
        share = Formula(f"=IF({whole}>0,{at}/{whole},0)", usd / total if total > 0 else 0.0)
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
