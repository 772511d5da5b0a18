"""The content of the plan's page: the memo that is signed, and the appendices behind it."""

from typing import Any

import pandas as pd

from capplan.answers.finished_plan import Plan
from capplan.answers.flips import FLIP_GAP_SHARE, FLIP_PATHS, FLIP_SHARE
from capplan.answers.sums import cash, obligations, spend
from capplan.book.book import Book
from capplan.book.scenario import Scenario
from capplan.book.tables.registry import TABLES
from capplan.outputs.page.html import MemoPart, PageSection, TableBlock, render_page
from capplan.outputs.views import decision_tables, plan_tables, unit_tables
from capplan.outputs.views.all_questions import show_demand, show_pricing
from capplan.outputs.views.bridges import NO_PLAN, LastPlan, budget_bridge, cost_bridge, driver_bridge, plan_bridge
from capplan.outputs.views.memo import memo_blocks
from capplan.outputs.views.traced import figures_of_page_one, words_of
from capplan.outputs.views.view import View
from capplan.questions.procurement.explain.alternatives import shown_alternatives
from capplan.text import counted, money, words

#: What the table of verdicts says.
GROWTH_TABLES = {
    "growth": (
        "Kinds of growth found in each workload, what each would mean in the last quarter, and how often 90 % bands held in its own past."
        " Above 95 % of cases below, the plan's band does not hold that kind."
    ),
    "planner": "The planner's past forecasts beside those made here on the same days.",
}
#: Tables of the book that are named on page one.
OWN_SHOWN = 8
LOTS_CAPTION = (
    "What more of a limit would let in, in whole lots, and what the plan with it would cost less; besides is what else has to give."
)
VERDICT_CAPTION = (
    "Each purchase that is due now against waiting for it, on demand that the plan has not seen: what signing now saves, with its 95 %"
    " interval. Sign or wait where the interval lies on one side of nothing, else too close to call."
)


def plan_page(
    plan: Plan, book: Book, view: View, gaps: pd.DataFrame, flips: pd.DataFrame | None, warnings: tuple[str, ...], last: LastPlan = NO_PLAN
) -> str:
    """Render the page of a plan.

    Args:
        book: The book it was made from.
        view: The plan's view, whose charts and tables are shown.
        gaps: Missing tables and what they could change (see `gaps.rank_gaps`).
        flips: Values at which the decision flips (see `flips.find_flips`); None where they were not searched.
        warnings: What the reader must know, in sentences.
        last: The plan before this one, where there is one.

    Returns:
        str: HTML that needs nothing else.
    """
    scenario = plan.scenario
    pictures = {name: chart.svg for name, chart in view.charts.items()}
    traced = words_of(figures_of_page_one(plan, book))
    linked = frozenset(traced["figure"])
    memo = [
        MemoPart(
            f"memo_{part.key}",
            part.title,
            part.sentences,
            TableBlock(part.table, currency=scenario.currency, linked=linked) if len(part.table) else None,
            part.half,
        )
        for part in memo_blocks(plan, book, flips, last)
    ]
    sections = [
        _decisions(plan),
        _money(plan, pictures),
        PageSection(
            "Bridges",
            "Each adds up to the cent.",
            tables=[_block(plan, frame, caption) for caption, frame in bridges_of(plan, last) if len(frame)],
        ),
        _desk(plan, book, pictures),
        _capacity(plan, pictures),
        PageSection(
            "What the work costs, and who bears it",
            "Compute over the planned quarters by class of work, and what no work bears: together the compute P&L. Then the whole P&L by"
            " team.",
            tables=[_block(plan, unit_tables.unit_costs(plan)), _block(plan, plan_tables.teams(plan))],
        ),
        *_demand_and_prices(plan, book),
        _how_decided(plan, pictures, gaps, flips),
        PageSection(
            "Where the figures of page one come from",
            "Each by its id, which is also the name of its cell in plan.xlsx; `capplan trace` shows its lines, prices and sources.",
            tables=[TableBlock(traced, shown=len(traced), anchors=[f"from_{name}" for name in traced["figure"]])] * bool(len(traced)),
        ),
        PageSection(
            "Assumptions and notes",
            "",
            tables=[TableBlock(_assumptions(scenario), "All assumptions of this plan", folded=True, shown=100)],
            notes=warnings,
        ),
    ]
    subtitle = (
        f"{book.description} Made as of {scenario.as_of}; {scenario.first_quarter} and"
        f" {counted(scenario.horizon_quarters - 1, 'more quarter')}; all money in {scenario.currency} unless it says otherwise."
        f" {whose_facts(book)}"
    )
    return render_page(f"{book.name}: capacity plan {scenario.first_quarter}", subtitle.strip(), plan.headline, [], sections, memo)


def whose_facts(book: Book) -> str:
    """Say which facts are the book's own, and which come with capplan: in a book that says little, most prices are public list prices.

    Args:
        book: The book, with reference facts joined.
    """
    own = [name for name in TABLES if name in book.own and name not in ("sources", "account_map")]
    named = ", ".join(own[:OWN_SHOWN]) + (f" and {counted(len(own) - OWN_SHOWN, 'more table')}" if len(own) > OWN_SHOWN else "")
    dates = book.get("offers")["as_of"].dropna()
    priced = f"list prices ({dates.min():%Y-%m} to {dates.max():%Y-%m})" if len(dates) else "list prices"
    whose = {"offers": f"{priced}, where yours name none" if "offers" in own else f"all {priced}", "skus": "machine types"}
    rest = [text for name, text in {**whose, "accelerators": "accelerators"}.items() if name in book.tables]
    return f"Facts of yours: {named or 'none'}. Facts that come with capplan: {', '.join(rest)}."


def bridges_of(plan: Plan, last: LastPlan) -> list[tuple[str, pd.DataFrame]]:
    """Return the bridges with their captions."""
    return [
        ("From the P&L budget to this plan.", budget_bridge(plan)),
        ("From the last plan to this one.", plan_bridge(plan, last.spend)),
        ("From the last plan to this one, by what moved it.", driver_bridge(last.moved_by)),
        ("From the cost that the decision makes small to spend, P&L and cash.", cost_bridge(plan)),
    ]


def _block(plan: Plan, frame: pd.DataFrame, caption: str = "", file: str = "", **more: Any) -> TableBlock:
    return TableBlock(frame, caption, file, currency=plan.scenario.currency, **more)


def _decisions(plan: Plan) -> PageSection:
    table = decision_tables.decisions(plan)
    firm, later = table[table["firm"]].drop(columns="firm"), table[~table["firm"]].drop(columns="firm")
    tables = [_block(plan, firm, "Firm: to be submitted before the next review.", "tables/decisions.csv")] * bool(len(firm))
    tables += [_block(plan, later, "Indicative: can wait, and will be decided anew.", "tables/decisions.csv")] * bool(len(later))
    text = (
        f"{counted(len(firm), 'contract')} to sign now for {money(float(firm['value_amount'].sum()), plan.scenario.currency)} in all;"
        f" {counted(len(later), 'later purchase')} can wait."
    )
    return PageSection("Decisions", text, tables=tables)


def _money(plan: Plan, pictures: dict[str, str]) -> PageSection:
    currency, bill = plan.scenario.currency, plan.ledger.reconciliation
    return PageSection(
        "Spend, budget, cash and what is owed",
        f"P&L in {currency}: contracts over their service, whether used or not, owned machines in a straight line, usage, APIs, power,"
        " people and the rest. Half of the futures lie above P50, one in ten above P90. Work left undone is no expense and is not in it.",
        [pictures[name] for name in ("spend",) if name in pictures],
        [
            _block(plan, spend(plan)),
            _block(plan, cash(plan), "What leaves the bank from the day of the plan on; later is what is paid after the planned quarters."),
            _block(
                plan,
                obligations(plan),
                "Owed under contracts, by fiscal year: signed already, and under the firm decisions; the last column is the part after the"
                " planned quarters.",
            ),
            *[_block(plan, bill, "The last billed month: what the ledger says of it, and what the bill says.", folded=True)]
            * bool(len(bill)),
        ],
    )


def _desk(plan: Plan, book: Book, pictures: dict[str, str]) -> PageSection:
    tables = (
        ("Signed contracts that end or want a notice, the first date first.", decision_tables.renewals(plan, book)),
        ("Spend agreements: how far each contract year is used up.", decision_tables.agreements(plan)),
        ("Spend agreements by quarter.", decision_tables.burn_down_by_quarter(plan)),
        (
            "Every commitment, and the share that is used of what contracts like it hold or can discount.",
            decision_tables.commitment_desk(plan, book),
        ),
        ("Capacity that ends.", decision_tables.renewal_calendar(plan, book)),
    )
    return PageSection(
        "Commitment desk",
        "",
        [pictures["contracts"]] if "contracts" in pictures else [],
        [_block(plan, frame, caption) for caption, frame in tables if len(frame)],
    )


def _capacity(plan: Plan, pictures: dict[str, str]) -> PageSection:
    drawn = [pictures["capacity"]] if "capacity" in pictures else []
    text = "" if drawn else "No contract that is held or planned guarantees capacity: all work runs on what can be had by the hour."
    caption = (
        "How much of the work commitments cover, how well what is held is used, and what an hour of work costs: compute P&L of the ledger"
        " over the hours."
    )
    return PageSection("Capacity against demand", text, drawn, [_block(plan, unit_tables.coverage(plan), caption)])


def _demand_and_prices(plan: Plan, book: Book) -> list[PageSection]:
    scenario = plan.scenario
    demand, pricing = show_demand(book, scenario.replaced(backtest_origins=0)), show_pricing(book, scenario)
    stale = plan_tables.stale_prices(plan)
    old = [TableBlock(stale, f"Prices this plan rests on that are older than {scenario.stale_after_days} days: ask for new ones.")] * bool(
        len(stale)
    )
    rows = [TableBlock(demand.table, "Work by quarter", "tables/demand_quantiles.csv", folded=True)]
    rows += [
        TableBlock(demand.details[name], caption, f"tables/demand_{name}.csv", folded=True)
        for name, caption in GROWTH_TABLES.items()
        if len(demand.details[name])
    ]
    return [
        PageSection("Demand", demand.headline, [chart.svg for chart in demand.charts.values()], rows),
        PageSection("Prices", pricing.headline, [chart.svg for chart in pricing.charts.values()], old),
    ]


def _how_decided(plan: Plan, pictures: dict[str, str], gaps: pd.DataFrame, flips: pd.DataFrame | None) -> PageSection:
    bought = plan.purchases
    binding = bought.binding[bought.binding["usd_per_unit"].abs() > 0.005].sort_values("usd_per_unit", ascending=False)
    return PageSection(
        "How it was decided",
        f"{bought.headline} Each alternative was run over the same futures, in US dollars. The bad cases are the average of the worst"
        f" {100 * plan.scenario.tail_share:.0f} % of them. Regret is what an alternative costs more than this plan, the average and the bad"
        f" cases weighed {1 - plan.scenario.risk_weight:g} to {plan.scenario.risk_weight:g}; unserved work is counted at its price. Then"
        " the limits that hold the plan back, and the offers that were not taken.",
        [pictures[name] for name in ("costs", "alternatives") if name in pictures],
        [
            TableBlock(plan_tables.in_plain_words(shown_alternatives(bought.alternatives)), file="tables/alternatives.csv"),
            TableBlock(bought.explanation, "The same in plain words, a line for each number.", shown=60),
            *[TableBlock(bought.verdicts, VERDICT_CAPTION, file="tables/verdicts.csv")] * bool(len(bought.verdicts)),
            *_flip_tables(flips),
            *[TableBlock(bought.limit_lots, LOTS_CAPTION, file="tables/limit_lots.csv")] * bool(len(bought.limit_lots)),
            TableBlock(plan_tables.in_plain_words(binding), file="tables/limits.csv", shown=12),
            TableBlock(plan_tables.in_plain_words(bought.rejected), file="tables/rejected_offers.csv", shown=12),
            *[TableBlock(gaps, "Tables the book does not have, and what the plan's cost would move by if they said what is supposed here.")]
            * bool(len(gaps)),
        ],
    )


def _flip_tables(flips: pd.DataFrame | None) -> list[TableBlock]:
    if flips is None:
        return []
    caption = (
        f"One assumption at a time: where signing what this plan signs now would cost {FLIP_SHARE:.0%} more than the best plan, with"
        f" everything later free to adapt. Judged on {FLIP_PATHS} of the plan's paths, each value within {FLIP_GAP_SHARE:.2%} of the best;"
        " between the two values named the decision may go either way."
    )
    return [TableBlock(flips.assign(assumption=flips["assumption"].map(words)), caption)]


def _assumptions(scenario: Scenario) -> pd.DataFrame:
    """List all assumptions with unit, meaning and source."""
    rows = []
    for name, info in Scenario.model_fields.items():
        extra = info.json_schema_extra if isinstance(info.json_schema_extra, dict) else {}
        value = getattr(scenario, name)
        shown = (
            "estimated from the history"
            if value is None
            else ", ".join(map(str, value)) or "none"
            if isinstance(value, tuple)
            else str(value)
        )
        rows.append(
            {
                "assumption": name,
                "value": shown,
                "unit": extra.get("unit", ""),
                "meaning": info.description,
                "source_of_the_default": extra.get("source", ""),
            }
        )
    return pd.DataFrame(rows)
