"""The view of a review: from what was planned to what was billed, and how well the forecast held."""

from pathlib import Path
from typing import Any

import pandas as pd

from capplan.answers.review import Knowing, knowing_of, review_of
from capplan.answers.spend_less import options_of
from capplan.book.accepted import find_accepted, read_accepted
from capplan.book.book import Book
from capplan.book.scenario import ReviewAssumptions, Scenario
from capplan.errors import CapplanError, ScenarioError, nearest
from capplan.outputs import charts
from capplan.outputs.views.view import View, once
from capplan.questions.review import Review
from capplan.questions.review.bridge import DRIVERS
from capplan.questions.review.portfolio_review import portfolio_verdicts
from capplan.questions.review.review_plan import span
from capplan.questions.review.scoreboard import feature_economics
from capplan.units import quarter_of

FIELDS = ("reviewed_driver", "reviewed_team", "reviewed_quarter", "worth_a_word_share", "forecast_error_share")


@once
def show_review(book: Book, scenario: Scenario) -> View:
    """Show what moved spend from the accepted plan to the bill, by driver, and how well the plan's forecast held."""
    book = book.with_changes(scenario.changes)
    plan = read_accepted(Path(scenario.reviewed_plan)) if scenario.reviewed_plan else find_accepted(book.name, places_of(book))
    if plan.book != book.name:
        raise CapplanError(f"{plan.folder} is a plan of {plan.book}, and the book is {book.name}: name a plan of this book")
    answer = review_of(book, scenario, plan)
    chosen = answer.variance.assign(quarter=answer.variance["month"].map(quarter_of))
    quarters = tuple(dict.fromkeys(map(quarter_of, answer.months)))
    names = {"team": sorted({*book.get("workloads")["team"], *chosen["team"]} - {""}), "driver": list(DRIVERS), "quarter": list(quarters)}
    for column, known in names.items():
        wanted = getattr(scenario, f"reviewed_{column}")
        if wanted and wanted not in known:
            raise ScenarioError(f"reviewed_{column}: {wanted[:80]!r} is none of the review's; {nearest(wanted, known)}")
        chosen = chosen[chosen[column] == wanted] if wanted else chosen
    knowing = knowing_of(book, plan, answer) if scenario.worth_of_knowing else Knowing()
    options, unasked = options_of(book, scenario) if scenario.ask_levers else ([], ())
    pictures = {"bridge": _bridge(answer, plan.currency), "months": _months(answer, plan.currency)}
    details = {
        "variance": chosen.drop(columns="quarter"),
        "by_workload": summed(chosen, ["workload", "team"]),
        "by_provider": summed(chosen, ["provider", "accelerator"]),
        "by_contract": summed(chosen[chosen["contract_id"] != ""], ["contract_id"]),
        "spend": answer.spend,
        "unit_economics": answer.economics,
        "feature_economics": feature_economics(answer.economics),
        "chargeback": answer.charged,
        "rate_card": answer.rates,
        "hour_rates": answer.hour_rates,
        "vendor_risks": answer.vendors,
        "capacity_requests": answer.requests,
        "forecast": answer.forecast,
        "accuracy": answer.accuracy,
        "knowing": knowing.table,
        "flags": answer.flags,
        "training_runs": answer.runs,
        "portfolio": portfolio_verdicts(answer.economics, answer.flags, options, len(answer.months), scenario.section(ReviewAssumptions)),
    }
    value = float(chosen["amount"].sum())
    teams = tuple(sorted(name for name in answer.variance["team"].unique() if name))
    return View(
        answer.headline,
        pictures,
        answer.bridge.drop(columns="driver").rename(columns={"meaning": "step"}),
        value,
        plan.currency,
        FIELDS,
        (
            *book.notes,
            f"Reviewed is the plan of {plan.as_of:%Y-%m-%d} in {plan.folder.name}: {plan.headline}",
            *answer.notes,
            *knowing.told,
            *unasked,
        ),
        details,
        {"reviewed_team": teams, "reviewed_quarter": quarters, "reviewed_driver": tuple(answer.bridge["driver"].iloc[1:-1])},
        telling=2 + (len(quarters) > 1),
    )


def places_of(book: Book) -> list[Path]:
    """Return the folders in which the accepted plan of a book is looked for: its own, then the accepted plan of where one works."""
    return [book.path / "accepted_plan", Path("reports/sample"), book.path.parent.parent / "reports" / "sample"]


def summed(variance: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    """Sum the variance up by some columns, a column a driver and their total, largest first."""
    wide = variance.pivot_table(index=keys, columns="driver", values="amount", aggfunc="sum", fill_value=0.0)
    wide = wide.reindex(columns=[driver for driver in DRIVERS if driver in wide])
    table = wide.add_suffix("_amount").assign(total_amount=wide.sum(axis=1)).reset_index().rename_axis(columns=None)
    return table.sort_values("total_amount", key=abs, ascending=False, ignore_index=True)


def _bridge(answer: Review, currency: str) -> Any:
    """Draw the bridge from planned to billed."""
    steps = answer.bridge.assign(kind="change")
    steps.loc[[steps.index[0], steps.index[-1]], "kind"] = "total"
    return charts.waterfall(
        steps,
        title="What moved spend from the plan to the bill",
        subtitle=f"P&L spend of {span(answer.months)}; commitments count as they are used up",
        axis=charts.Axis("Spend", currency, "amount"),
        label="meaning",
    )


def _months(answer: Review, currency: str) -> Any:
    """Draw by how much each month's bill differs from the plan."""
    sums = answer.spend.groupby("month", as_index=False)["difference"].sum()
    return charts.bars(
        sums.assign(label=sums["month"].dt.strftime("%Y-%m")),
        title="Billed less planned, by month",
        subtitle="All that was planned counts, also what stands in no bill",
        axis=charts.Axis("Difference", currency, "difference"),
    )
