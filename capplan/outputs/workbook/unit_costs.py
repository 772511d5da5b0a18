"""The sheet Unit economics: what an accelerator-hour and a unit of work cost, how well contracts are used, who spends."""

from typing import Any

import pandas as pd

from capplan.outputs.views.unit_tables import coverage, discounted_hours
from capplan.outputs.workbook.assumptions import Draft
from capplan.outputs.workbook.columns import Columns
from capplan.outputs.workbook.demand import units_of
from capplan.outputs.workbook.money import CENT, Lines
from capplan.outputs.workbook.sheet import Formula, Sheet
from capplan.records import records
from capplan.text import words
from capplan.units import quarter_end, quarter_start

POOLS = Columns(
    (
        ("quarter", "Quarter", "text"),
        ("provider", "Provider", "text"),
        ("accelerator", "Accelerator", "text"),
        ("held", "Hours held", "number"),
        ("used", "Hours used", "number"),
        ("share", "Used", "share"),
        ("paid", "P&L", "money"),
        ("unused", "Unused", "money"),
    )
)
PARTS = Columns(
    (
        ("quarter", "Quarter", "text"),
        ("what", "What", "text"),
        ("bearer", "Class of work", "text"),
        ("number", "No.", "key"),
        ("share", "Share", "share"),
        ("borne", "P&L borne", "money"),
    )
)
RUNS = Columns(
    (
        ("quarter", "Quarter", "text"),
        ("class", "Class", "text"),
        ("region", "Region", "text"),
        ("source", "Source", "text"),
        ("provider", "Provider", "text"),
        ("accelerator", "Accelerator", "text"),
        ("hours", "Hours", "number"),
        ("work", "Work", "number"),
    )
)
QUARTERS = Columns(
    (
        ("quarter", "Quarter", "text"),
        ("hours", "Hours that did work", "number"),
        ("coverage", "Covered by commitments", "share"),
        ("capacity", "On contracts", "share"),
        ("used", "Contracts used", "share"),
        ("paid", "P&L of compute", "money"),
        ("each", "Per hour that did work", "decimal"),
    )
)
CLASSES = Columns(
    (
        ("name", "Class of work", "text"),
        ("number", "No.", "key"),
        ("work", "Work", "number"),
        ("hours", "Hours", "number"),
        ("borne", "P&L borne", "money"),
        ("per_hour", "Per hour", "decimal"),
        ("unit", "Unit", "text"),
        ("per_unit", "Per unit", "decimal"),
    )
)
TEAMS = Columns(
    (
        ("team", "Team", "text"),
        ("number", "No.", "key"),
        ("center", "Cost centre", "text"),
        ("between", "", "text"),
        ("spent", "P&L", "money"),
        ("share", "Share", "share"),
    )
)
APIS = Columns(
    (
        ("workload", "Workload", "text"),
        ("provider", "Provider", "text"),
        ("requests", "Requests", "number"),
        ("first_gap", "", "text"),
        ("cost", "Cost (USD)", "usd"),
        ("second_gap", "", "text"),
        ("unit", "Unit", "text"),
        ("each", "USD per unit", "price"),
    )
)
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


def _begin(sheet: Sheet, row: int, title: str, columns: Columns) -> None:
    sheet.row = row - 2
    sheet.section(title)
    columns.head(sheet)


def _window(quarter: str, last: str | None = None) -> dict[str, str]:
    first, after = quarter_start(quarter), quarter_end(last or quarter)
    return {"date": f'">="&DATE({first.year},{first.month},1)', "date_to": f'"<"&DATE({after.year},{after.month},1)'}


def _basis_sum(lines: Lines, basis: str, quarter: str) -> str:
    """Return the P&L of a quarter that stands on one basis, as a formula."""
    number = lines.keys["basis_key"].get(basis)
    return lines.sum_where("amount", "p_and_l", basis_key=str(number), **_window(quarter)) if number else "0"


def _write_pools(draft: Draft, lines: Lines, sheet: Sheet, row: int) -> None:
    """Write how well the hours of each pool are used that are paid for in any case."""
    _begin(sheet, row, f"Contracts and machines that hold capacity, pool by pool ({draft.currency})", POOLS)
    costs = draft.plan.ledger.work_costs.groupby(["quarter", "basis"])["amount"].sum()
    for item in records(draft.plan.ledger.idle):
        basis, here = f"held {item['provider']} {item['accelerator']}", POOLS.here(sheet.row)
        amount = float(costs.get((item["quarter"], basis), 0.0))
        POOLS.write(
            sheet,
            quarter=item["quarter"],
            provider=str(item["provider"]),
            accelerator=str(item["accelerator"]),
            held=item["held_accelerator_hours"],
            used=item["used_accelerator_hours"],
            share=Formula(f"=MIN(1,{here['used']}/{here['held']})", item["used_share"]),
            paid=Formula(f"={_basis_sum(lines, basis, item['quarter'])}", amount),
            unused=Formula(f"={here['paid']}*(1-{here['share']})", amount * (1 - item["used_share"])),
        )


def _write_parts(draft: Draft, lines: Lines, sheet: Sheet, row: int, bearers: list[tuple[str, str]]) -> None:
    """Write which class bears which share of what, quarter by quarter."""
    _begin(sheet, row, f"Who bears the P&L of compute ({draft.currency})", PARTS)
    for item in records(draft.plan.ledger.work_costs):
        place = bearers.index((item["class"], item["about"])) + 1
        share = PARTS.here(sheet.row)["share"]
        PARTS.write(
            sheet,
            quarter=item["quarter"],
            what=words(str(item["basis"])),
            bearer=str(item["class"] or item["about"]),
            number=place,
            share=item["share"],
            borne=Formula(f"={share}*{_basis_sum(lines, item['basis'], item['quarter'])}", float(item["amount"])),
        )


def _write_runs(draft: Draft, sheet: Sheet, row: int) -> pd.DataFrame:
    """Write what runs where."""
    _begin(sheet, row, "What runs where (expected)", RUNS)
    runs = draft.plan.purchases.dispatch
    runs = runs[runs["source"].isin(["committed", "on_demand", "spot", "api"])].reset_index(drop=True)
    for item in records(runs):
        RUNS.write(
            sheet,
            quarter=item["quarter"],
            source=words(item["source"]),
            hours=item["expected_accelerator_hours"],
            work=item["expected_work"],
            **{name: str(item[name]) for name in ("class", "region", "provider", "accelerator")},
        )
    return runs


def _write_quarters(draft: Draft, lines: Lines, sheet: Sheet, row: int, runs: tuple[int, pd.DataFrame]) -> None:
    """Write coverage, use and effective price by quarter."""
    _begin(sheet, row, f"Coverage, use and effective price ({draft.currency})", QUARTERS)
    run_row, use = runs
    last = run_row + len(use) - 1
    discounted = discounted_hours(draft.plan).groupby("quarter")["discounted_accelerator_hours"].sum()
    for item in records(coverage(draft.plan)):
        here, quarter = QUARTERS.here(sheet.row), item["quarter"]
        hours, plans = here["hours"], float(discounted.get(quarter, 0.0))
        block = f"{RUNS.block('hours', run_row, last)},{RUNS.block('quarter', run_row, last)},{here['quarter']}"
        on_contract = f'SUMIFS({block},{RUNS.block("source", run_row, last)},"Committed")' if len(use) else "0"
        shares = {
            name: Formula(f"=IF({hours}>0,({on_contract}{extra})/{hours},0)", float(share) if pd.notna(share) else 0.0)
            for name, extra, share in (("coverage", f"+{plans!r}", item["coverage_share"]), ("capacity", "", item["capacity_share"]))
        }
        spent, each = lines.sum_where("amount", "p_and_l", basis_key='">0"', **_window(quarter)), item["amount_per_accelerator_hour"]
        QUARTERS.write(
            sheet,
            quarter=quarter,
            hours=Formula(f"=SUMIFS({block})" if len(use) else "=0", item["accelerator_hours"]),
            used=float(item["used_share"]) if pd.notna(item["used_share"]) else None,
            paid=Formula(f"={spent}", item["compute_amount"]),
            each=Formula(f"=IF({hours}>0,{here['paid']}/{hours},0)", float(each) if pd.notna(each) else 0.0),
            **shares,
        )


def per_unit(unit: str) -> tuple[str, int]:
    """Return in how many units the cost of work is told.

    Examples:
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
    _begin(sheet, row, f"Who bears the P&L of compute, all planned quarters ({draft.currency})", CLASSES)
    costs, runs, units = draft.plan.ledger.work_costs, draft.plan.purchases.dispatch, units_of(draft)
    runs = runs[runs["source"].isin(["committed", "on_demand", "spot", "api"])]
    done = runs.groupby("class")[["expected_work", "expected_accelerator_hours"]].sum()
    last = part_row + len(costs) - 1
    for number, (name, about) in enumerate(bearers, 1):
        here = CLASSES.here(sheet.row)
        amount = float(costs.loc[(costs["class"] == name) & (costs["about"] == about), "amount"].sum())
        of_parts = f"{PARTS.block('borne', part_row, last)},{PARTS.block('number', part_row, last)}"
        borne = Formula(f"=SUMIFS({of_parts},{here['number']})", amount)
        if not name:
            CLASSES.write(sheet, name=f"No work: {about}", number=number, borne=borne, unit="")
            continue
        work, hours = (float(done[column].get(name, 0.0)) for column in done)
        label, many = per_unit(units.get(name, ""))
        each = f"=IF({here['hours']}>0,{here['borne']}/{here['hours']},0)"
        of_unit = f"=IF({here['work']}>0,{many}*{here['borne']}/{here['work']},0)"
        CLASSES.write(
            sheet,
            name=name,
            number=number,
            work=work,
            hours=hours,
            borne=borne,
            per_hour=Formula(each, amount / hours if hours > 0 else 0.0),
            unit=label,
            per_unit=Formula(of_unit, many * amount / work if work > 0 else 0.0),
        )
    whole = float(costs["amount"].sum())
    sums = f"SUM({CLASSES.block('borne', row, row + len(bearers) - 1, '')})" if bearers else "0"
    CLASSES.write_total(sheet, name="P&L of compute", borne=Formula(f"={sums}", whole), unit="")
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
        f"=ABS({sheet.cell(sheet.row - 1, CLASSES.at('borne'))}-({independent}))<{CENT}",
        abs(whole - float(rows["amount"].sum())) < CENT,
    )


def _write_teams(draft: Draft, lines: Lines, sheet: Sheet, row: int) -> None:
    """Write the P&L of each team over the planned quarters, all costs included."""
    _begin(sheet, row, f"P&L by team, all planned quarters ({draft.currency})", TEAMS)
    frame = lines.frame
    first, after = quarter_start(draft.quarters[0]), quarter_end(draft.quarters[-1])
    inside = frame[(frame["view"] == "p_and_l") & (frame["month"] >= first) & (frame["month"] < after)]
    spent = inside.groupby("team_key")["amount"].sum()
    window = _window(draft.quarters[0], draft.quarters[-1])
    total, last = float(spent.sum()), row + len(lines.keys["team_key"]) - 1
    for (team, center), number in lines.keys["team_key"].items():
        amount, at = float(spent.get(number, 0.0)), TEAMS.here(sheet.row)["spent"]
        whole, key = f"SUM({TEAMS.block('spent', row, last)})", TEAMS.here(sheet.row, "c")["number"]
        cost = Formula(f"={lines.sum_where('amount', 'p_and_l', team_key=key, **window)}", amount)
        share = Formula(f"=IF({whole}>0,{at}/{whole},0)", amount / total if total > 0 else 0.0)
        TEAMS.write(sheet, team=str(team), number=number, center=str(center), spent=cost, share=share)


def _write_tokens(draft: Draft, sheet: Sheet, row: int, tokens: list[tuple[str, str]]) -> None:
    """Write what workloads on model APIs cost."""
    _begin(sheet, row, "Work on model APIs, all planned quarters", APIS)
    api = draft.plan.ledger.api
    rates = dict(zip(draft.now.prices["price_id"], draft.now.prices["rate_usd"], strict=True))
    for workload, provider in tokens:
        here, mine = APIS.here(sheet.row), api[(api["workload"] == workload) & (api["provider"] == provider)]
        requests, usd = float(mine["quantity"].sum()), float(mine["usd"].sum())
        key, count = f"tokens {workload} {provider}", here["requests"]
        cost: Any = Formula(f"={count}*{draft.rate[key]}", usd) if rates.get(key) else usd
        each = Formula(f"=IF({count}>0,1000*{here['cost']}/{count},0)", 1000 * usd / requests if requests > 0 else 0.0)
        APIS.write(sheet, workload=workload, provider=provider, requests=requests, cost=cost, unit="1,000 requests", each=each)
