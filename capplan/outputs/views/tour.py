"""The tour: the four ideas that every plan rests on (band, contract, waiting, proof), each in a picture of the reader's own book."""

from collections.abc import Callable
from dataclasses import replace

import pandas as pd

from capplan.answers.placement import asked_book
from capplan.answers.plan import purchases_of, quarterly_plan
from capplan.book.book import Book
from capplan.book.scenario import Scenario
from capplan.errors import CapplanError
from capplan.outputs import charts
from capplan.outputs.views.capacity_charts import contract_chart
from capplan.outputs.views.demand import show_demand
from capplan.outputs.views.portfolio import show_portfolio
from capplan.outputs.views.view import View
from capplan.questions.procurement.explain.alternatives import shown_alternatives
from capplan.text import counted, money, whole_words, words

#: Bounds that make a rough plan, which is there in seconds.
AT_MOST = {"paths": 60, "plan_paths": 10, "horizon_quarters": 4, "load_blocks": 3}
AT_LEAST = {"gap_share": 0.02}
#: The verdict on all purchases that are due, as the plan names it.
TOGETHER = "all due now"


def rough(scenario: Scenario) -> Scenario:
    """Return a scenario whose plan takes seconds: few quarters and few paths, so that its figures are not those of the plan."""
    coarse = {name: min(getattr(scenario, name), most) for name, most in AT_MOST.items()}
    return scenario.replaced(**coarse, **{name: max(getattr(scenario, name), least) for name, least in AT_LEAST.items()})


def show_band(book: Book, scenario: Scenario) -> View:
    """Teach that demand is a band of paths: how wide it is, and how often such bands held."""
    return _taught(_band, book, scenario)


def show_contract(book: Book, scenario: Scenario) -> View:
    """Teach that a contract pays for what is always in use: from which use on, and how much of this book's work that is."""
    return _taught(_contract, book, scenario)


def show_waiting(book: Book, scenario: Scenario) -> View:
    """Teach that only what is due is signed: what signing each purchase now saves against waiting for the next review."""
    return _taught(_waiting, book, scenario)


def show_proof(book: Book, scenario: Scenario) -> View:
    """Teach that a plan comes with a bound that no plan undercuts: how near to it the plan and what else could be done are."""
    return _taught(_proof, book, scenario)


def _taught(teach: Callable[[Book, Scenario], View], book: Book, scenario: Scenario) -> View:
    """Show a lesson on a rough plan; a book that cannot be planned yet is told what it lacks, in the lesson's place."""
    try:
        return replace(teach(book, rough(scenario)), charts_in_view=1)
    except CapplanError as error:
        said = f"This book does not get so far yet: {error}"
        return View(said, {}, pd.DataFrame({"missing": [str(error)]}), 0.0, "", ())


def _band(book: Book, scenario: Scenario) -> View:
    shown = show_demand(book, scenario)
    pictures = {name: shown.charts[name] for name in ("demand", "coverage") if name in shown.charts}
    return View(shown.headline, pictures, shown.table, shown.value, shown.unit, ())


def _contract(book: Book, scenario: Scenario) -> View:
    shown = show_portfolio(book, scenario)
    pictures = {name: shown.charts[name] for name in ("screening", "duration")}
    return View(shown.headline, pictures, shown.table, shown.value, shown.unit, ())


def _waiting(book: Book, scenario: Scenario) -> View:
    bought, asked = purchases_of(asked_book(book, scenario), scenario), asked_book(book, scenario)
    due, verdicts = int(bought.purchases["firm"].sum()), bought.verdicts
    later = len(bought.purchases) - due
    dates = contract_chart(asked, quarterly_plan(book, scenario))
    if not due:
        said = f"Nothing is due before the next review; {counted(later, 'purchase')} of the plan can wait and will be decided anew."
        return View(said, dates, bought.purchases, 0.0, "USD", ())
    if verdicts.empty:
        usd = float(bought.alternatives.set_index("name").at["sign_nothing_yet", "regret_usd"])
        verdicts = pd.DataFrame({"offer_id": [TOGETHER], "quarter": [scenario.first_quarter], "saves_usd": [usd], "verdict": ["sign"]})
    alone = verdicts[verdicts["offer_id"] != TOGETHER]
    each = alone if len(alone) else verdicts
    together = float((each if len(alone) == 1 else verdicts[verdicts["offer_id"] == TOGETHER])["saves_usd"].iloc[0])
    saved = f"signing now saves {money(together)}" if together >= 0 else f"signing now costs {money(-together)} more"
    said = f"{counted(due, 'purchase')} cannot wait, {later} can: {saved} against waiting for the next review."
    picture = charts.bars(
        each.assign(
            label=each["offer_id"].map(whole_words) + ", " + each["quarter"], value=each["saves_usd"], says=each["verdict"].map(words)
        ),
        title=said.rstrip("."),
        axis=charts.Axis("Saved by signing now instead of at the next review", "USD"),
        part="says",
        subtitle="Each purchase alone, on paths of demand that the plan has not seen" if len(alone) else "On the paths of the plan",
    )
    return View(said, {"waiting": picture, **dates}, verdicts, together, "USD", ())


def _proof(book: Book, scenario: Scenario) -> View:
    bought = purchases_of(asked_book(book, scenario), scenario)
    proof, others = bought.proof, shown_alternatives(bought.alternatives).sort_values("objective_usd", kind="stable")
    said = str(bought.explanation.set_index("about").at["proof", "words"])
    picture = charts.bars(
        others.assign(label=others["name"].map(words), value=others["objective_usd"]),
        title=said.rstrip("."),
        axis=charts.Axis("Cost, with the bad cases weighed in", "USD"),
        subtitle="Discounted, from the day of the plan on; work left undone is counted at its price",
        reference=proof.lower_usd,
        reference_text="no plan costs less",
    )
    return View(said, {"proof": picture}, others, 100 * proof.gap_share, "%", ())
