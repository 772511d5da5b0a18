"""View of what it costs to be safer."""

from capplan.answers.placement import asked_book
from capplan.answers.plan import frontier_of
from capplan.book.book import Book
from capplan.book.scenario import Scenario
from capplan.outputs import charts
from capplan.outputs.views.view import View
from capplan.text import money


def show_frontier(book: Book, scenario: Scenario) -> View:
    """Show the best plan at each weight of the bad cases: expected cost against CVaR."""
    book = asked_book(book, scenario)
    found = frontier_of(book, scenario)
    table = found.table
    points = table.assign(label=[f"Weight {weight:.2g}" for weight in table["risk_weight"]])
    own = table[table["chosen"]].iloc[0]
    points.loc[points["chosen"], "label"] = f"The plan, weight {own['risk_weight']:.2g}"
    picture = charts.frontier(
        points,
        title=_title(float(own["expected_usd"] - table["expected_usd"].iloc[0]), float(table["cvar_usd"].iloc[0] - own["cvar_usd"])),
        across=charts.Axis("Expected cost", "USD", "expected_usd"),
        up=charts.Axis(f"Cost in the worst {100 * scenario.tail_share:g} % of cases (CVaR)", "USD", "cvar_usd"),
        subtitle=(
            f"The best plan at each weight of the bad cases, each proven within {100 * float(table['gap_share'].max()):.2g} %; no plan lies"
            " below and to the left"
        ),
        chosen=str(points.loc[points["chosen"], "label"].iloc[0]),
        connect=True,
    )
    fields = ("risk_weight", "tail_share", "service_level_share", "price_factor", "quota_factor", "budget_factor", "frontier_points")
    details = {"purchases": found.purchases}
    return View(found.headline, {"frontier": picture}, table, float(own["objective_usd"]), "USD", fields, found.notes, details)


def _title(more_usd: float, less_usd: float) -> str:
    """Say what the plan's own weight costs and brings against looking at the average only."""
    if less_usd < 1:
        return "The plan is the cheapest on average"
    return f"The plan's caution costs {money(max(more_usd, 0.0))} on average and takes {money(less_usd)} off the bad cases"
