"""The review of an accepted plan, asked of a book that has bills and usage since."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd

from capplan.answers.plan import PURCHASE_TABLES, problem_of
from capplan.answers.store import remembered
from capplan.book.accepted import AcceptedPlan
from capplan.book.book import Book
from capplan.book.scenario import ReviewAssumptions, Scenario
from capplan.errors import CapplanError
from capplan.questions.procurement import Problem, Signed, demand_that_came, worth_of_knowing
from capplan.questions.review import Came, Review, deliveries_that_came, review_plan
from capplan.records import records
from capplan.text import listed, money
from capplan.units import quarter_index, quarter_label, quarter_start

DAYS_PER_QUARTER = 365.25 / 4
#: What can be known, in the order in which it is told.
PLANNED, DEMAND, PRICES, DELIVERY, ALL = "nothing: as planned", "demand", "prices by the hour", "delivery", "all of it"


@dataclass(frozen=True)
class Knowing:
    """What it would have been worth to know what came, when the plan was signed."""

    #: See `worth_of_knowing`: one thing at a time, then all of it; the parts need not add up. No rows where it cannot be told.
    table: pd.DataFrame = field(default_factory=lambda: worth_of_knowing({}, {}))
    #: headline, notes: One sentence; what the answer rests on, or why there is none.
    headline: str = ""
    notes: tuple[str, ...] = ()

    @property
    def told(self) -> tuple[str, ...]:
        """The sentence, where there is one, and the notes."""
        return (self.headline, *self.notes) if self.headline else self.notes


def review_of(book: Book, scenario: Scenario, plan: AcceptedPlan) -> Review:
    """Hold an accepted plan against the bills and the usage of its book."""
    book.need("billing", "The review of a plan")
    came = Came(**{name: book.get(name) for name in Came.__dataclass_fields__})
    return review_plan(plan, came, scenario.section(ReviewAssumptions))


def knowing_of(book: Book, plan: AcceptedPlan, review: Review) -> Knowing:
    """Make the accepted plan again with what came, all at once and one thing at a time, and hold what was signed against it.

    The problem is the plan's own: its assumptions, its usage up to its day, and the book's other tables, which are named where they have
    changed since. Prices by the hour are taken to stay as billed, and demand after the measured months to be what the plan expected.
    """
    known = {name: value for name, value in plan.parameters.items() if name in Scenario.model_fields}
    then = book.scenario_with(known)
    offers = book.get("offers").set_index("offer_id")
    gone = sorted(set(plan.signed["offer_id"]) - set(offers.index))
    if gone:
        return Knowing(
            worth_of_knowing({}, {}),
            "",
            (f"What knowing would have been worth cannot be told: {listed(gone)} is no offer of the book any more.",),
        )
    day = pd.Timestamp(plan.as_of)
    late = deliveries_that_came(plan.signed, book.get("offers"), book.get("commitments"), day)
    before = book.with_rows("usage", book.get("usage")[lambda rows: rows["time"] < day]) if "usage" in book.tables else book
    held = book.get("commitments")
    before = before.with_rows("commitments", held[~held["commitment_id"].isin(late["commitment_id"].dropna())])
    before = before.with_changes(then.changes)
    lots = plan.signed["machines"] / plan.signed["offer_id"].map(offers["lot_machines"])
    signed = dict(zip(zip(plan.signed["offer_id"], plan.signed["quarter"], strict=True), lots.astype(float), strict=True))
    try:
        table = remembered(
            f"knowing-{_digest(review.work_came, review.prices_came, late)}-{sorted(signed.items())}",
            before,
            PURCHASE_TABLES,
            then,
            lambda: _worth(problem_of(before, then), signed, review, late),
        )
    except CapplanError as error:
        return Knowing(notes=(f"What knowing would have been worth cannot be told: {error}",))
    changed = [
        name
        for name in PURCHASE_TABLES
        if plan.digests.get(name) not in (None, book.digests.get(name)) and name not in ("usage", "billing")
    ]
    notes = (
        "Worth is risk-weighted and discounted like the plan's own cost: the best plan that knows, against what was signed, with later"
        " purchases and use as is best for each. The parts need not add up.",
        *((f"Tables that have changed since the plan stand as they are today: {', '.join(changed)}.",) if changed else ()),
    )
    return Knowing(table, _headline(table), notes)


def _digest(*frames: pd.DataFrame) -> str:
    return hashlib.sha256("".join(frame.to_csv(index=False) for frame in frames).encode()).hexdigest()[:24]


def _worth(planned: Problem, signed: Signed, review: Review, late: pd.DataFrame) -> pd.DataFrame:
    """Set what came into the plan's problem, one thing at a time and all at once; only what is known to differ is asked."""
    changes: dict[str, Problem] = {}
    whole, whole_signed = planned, signed
    if len(review.work_came):
        changes[DEMAND] = replace(planned, demand=demand_that_came(planned.demand, review.work_came))
        whole = replace(whole, demand=changes[DEMAND].demand)
    if len(review.prices_came):
        changes[PRICES] = replace(planned, offers=_priced(planned, review.prices_came))
        whole = replace(whole, offers=changes[PRICES].offers)
    parts = [worth_of_knowing(signed, {PLANNED: planned, **changes})]
    moved = {(row["offer_id"], row["quarter"]): _quarters_later(row["quarter"], row["late_days"]) for row in records(late.dropna())}
    if any(moved[key] != key[1] for key in moved):
        keys = [(offer, moved.get((offer, at), at)) for offer, at in signed]
        whole_signed = pd.Series(list(signed.values()), pd.MultiIndex.from_tuples(keys)).groupby(level=[0, 1]).sum().to_dict()
        whole = replace(whole, offers=_later(whole.offers, moved))
        parts.append(worth_of_knowing(whole_signed, {DELIVERY: replace(planned, offers=_later(planned.offers, moved))}))
    parts.append(worth_of_knowing(whole_signed, {ALL: whole}))
    return pd.concat(parts, ignore_index=True)


def _priced(problem: Problem, came: pd.DataFrame) -> pd.DataFrame:
    """Return the offers with prices by the hour as they were billed."""
    about = problem.offers[["sku", "term"]].merge(problem.skus[["sku", "provider", "accelerator"]], on="sku", how="left")
    factor = about.merge(came, on=["provider", "accelerator", "term"], how="left")["factor"].fillna(1.0).to_numpy()
    columns = ["usd_per_hour", "negotiated_usd_per_hour"]
    return problem.offers.assign(**{name: problem.offers[name] * factor for name in columns})


def _quarters_later(quarter: str, late_days: float) -> str:
    """Return the quarter that begins nearest to so many days after another."""
    return quarter_label(quarter_index(quarter) + round(late_days / DAYS_PER_QUARTER))


def _later(offers: pd.DataFrame, moved: Mapping[tuple[str, str], str]) -> pd.DataFrame:
    """Return the offers with the lead times that their deliveries took, in whole quarters; of several deliveries the latest."""
    longest: dict[str, int] = {}
    for (offer, planned), came in moved.items():
        days = (quarter_start(came) - quarter_start(planned)).days
        longest[offer] = max(longest.get(offer, days), days)
    days = offers["offer_id"].map(longest).fillna(0).to_numpy()
    return offers.assign(**{name: np.maximum(offers[name] + days, 0.0) for name in ("lead_time_days_p50", "lead_time_days_p90")})


def _headline(table: pd.DataFrame) -> str:
    """Say what it would have been worth to know all of it, and which part most."""
    told = table.set_index("known")
    if not told.at[ALL, "beyond_gap"]:
        worth, gap = told.at[ALL, "worth_usd"], told.at[ALL, "gap_usd"]
        return (
            "What was signed could not have been signed in the world that came."
            if pd.isna(worth)
            else f"Knowing what came would have been worth no more than is proven: {money(worth)}, within a gap of {money(gap)}."
        )
    alone = told.drop(index=[ALL, PLANNED])
    alone = alone[alone["beyond_gap"]].sort_values("worth_usd", ascending=False)
    parts = listed([f"{name} alone {money(row['worth_usd'])}" for name, row in alone.iterrows()])
    return f"Knowing what came would have been worth {money(told.at[ALL, 'worth_usd'])}" + (f": {parts}." if parts else ".")
