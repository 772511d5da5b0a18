"""Flips: at which value of an assumption the decision to sign changes."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from math import inf

import pandas as pd

from capplan.answers.plan import problem_of, purchases_of
from capplan.book.book import Book
from capplan.book.scenario import DemandAssumptions, ProcurementAssumptions, Scenario
from capplan.errors import CapplanError
from capplan.optimize.program import fingerprint
from capplan.optimize.two_stage import Warm
from capplan.questions.procurement import (
    OF_PROOF,
    Kept,
    Problem,
    Signed,
    Stated,
    decide,
    keep_decision,
    signed_now,
    state_problem,
    tell_kept,
)

#: A decision holds while keeping it costs no more than this share above the best.
FLIP_SHARE = 0.01
#: Paths that are enough to tell that, and the gap; an end of a search that is no further from the edge is judged to the fine gaps.
FLIP_PATHS = 10
FLIP_GAP_SHARE, FINE_GAP_SHARES = 0.0025, (0.0005, 0.0001)
#: Values that are tried in all, and on one side of an assumption after its end.
MOST_VALUES, STEPS = 16, 2
#: A value is tried no nearer to an end than this share of the interval.
NEAREST_SHARE = 0.15


@dataclass(frozen=True)
class Probe:
    """An assumption and how far it is moved."""

    field: str  #: Assumption of the scenario.
    #: low, high: Ends of the search, as factors on today's value, or as values where `absolute` is set.
    low: float
    high: float
    absolute: bool = False  #: Are the ends values?

    def ends(self, scenario: Scenario) -> tuple[float, float]:
        """Return the two values between which is searched, within the assumption's bounds."""
        now = float(getattr(scenario, self.field))
        low, high = (self.low, self.high) if self.absolute else (now * self.low, now * self.high)
        bounds = {name: value for rule in Scenario.model_fields[self.field].metadata for name, value in vars_of(rule).items()}
        return max(low, bounds.get("ge", low)), min(high, bounds.get("le", high))


def vars_of(rule: object) -> dict[str, float]:
    """Return a bound of an assumption by its name (ge, le)."""
    return {name: float(getattr(rule, name)) for name in ("ge", "le") if hasattr(rule, name)}


PROBES = (
    Probe("demand_factor", 0.6, 1.6),
    Probe("price_factor", 0.6, 1.6),
    Probe("on_demand_accelerators", 0.0, 4.0),
    Probe("risk_weight", 0.0, 1.0, absolute=True),
    Probe("discount_rate_per_year", 0.0, 0.25, absolute=True),
)


@dataclass
class Search:
    """The search from today's value of an assumption to one end: how far the decision holds, and from where on it does not."""

    field: str  #: The assumption.
    side: str  #: "flips_below" or "flips_above".
    #: holds, changed: The values nearest to each other at which it holds and at which it does not.
    holds: float
    changed: float
    #: low, high: By how much keeping the decision costs more there than is allowed.
    low: float
    high: float = 0.0
    other: Kept | None = None  #: The best plan at `changed`; None where there is none.
    moved: str = ""  #: The end that moved last.
    left_today: bool = False  #: Whether `holds` is another value than today's.
    reach: float = 1.0  #: How far the end of the search is from today's value.
    stuck: bool = False  #: Whether the same end moved twice: cost is convex, and a straight line then creeps.

    @property
    def flips(self) -> bool:
        """Whether the decision flips within the range."""
        return self.high > 0

    @property
    def open_share(self) -> float:
        """How much of the way from today's value to the end of the search lies between the two values."""
        return abs(self.changed - self.holds) / self.reach

    def middle(self) -> float:
        """Return the next value to try: half-way, or where a curve through the two would be at what is allowed.

        Keeping the decision costs nothing today, which is the least: from there its cost begins flat and rises as a square. Further on it
        is taken as straight.
        """
        share = 0.5 if self.stuck or self.high == inf else (-self.low / (self.high - self.low)) ** (1.0 if self.left_today else 0.5)
        return self.holds + min(max(share, NEAREST_SHARE), 1 - NEAREST_SHARE) * (self.changed - self.holds)

    def learn(self, value: float, kept: Kept | None, allowed: float) -> None:
        """Take in what keeping the decision costs at a value."""
        excess = inf if kept is None else kept.regret_share - allowed
        end = "holds" if excess <= 0 else "changed"
        self.moved, self.stuck = end, end == self.moved
        if end == "holds":
            self.holds, self.low, self.left_today = value, excess, True
        else:
            self.changed, self.high, self.other = value, excess, kept


@dataclass
class Asking:
    """Asks what keeping the decision costs under other values, each question from what the nearest value that was asked about has left."""

    #: book, scenario: As for the plan.
    book: Book
    scenario: Scenario
    signed: Signed  #: The decision.
    #: stated, left: What was stated, and what was left, by the assumption that is moved and its value; None is today.
    stated: dict[tuple[str, float] | None, Stated] = field(default_factory=dict)
    left: dict[tuple[str, float] | None, Warm] = field(default_factory=dict)
    problems: dict[str, Problem] = field(default_factory=dict)  #: What is to be bought, by the digest of what is assumed of demand.
    known: Kept | None = None  #: What keeping the decision costs today, and wherever nothing that is moved counts.

    def today(self) -> Kept | None:
        """Return what keeping the decision costs today, as few paths judge it; None without a plan."""
        return self._asked(None, lambda stated, warm: keep_decision(stated.problem, self.signed, warm, stated))

    def __call__(self, moved: str, value: float, allowed: float, finer: tuple[float, ...] = ()) -> Kept | None:
        """Return what keeping the decision costs at a value, no more closely than telling it from what is allowed takes.

        Args:
            finer: Gaps to which it is judged after that, one after another, as long as it is no further from what is allowed.

        Returns:
            Kept, or None where there is no plan.
        """
        return self._asked((moved, value), lambda stated, warm: tell_kept(stated, self.signed, allowed, warm, finer))

    def best(self, moved: str, value: float) -> Kept | None:
        """Return the best plan at a value at which the decision cannot be kept; None without a plan."""

        def found(stated: Stated, warm: Warm | None) -> Kept:
            best = decide(stated.problem, warm=warm, proof=False, stated=stated)
            return Kept(inf, signed_now(best.purchases), best.solution.warm)

        return self._asked((moved, value), found)

    def problem(self, scenario: Scenario) -> Problem:
        """Return what is to be bought; what demand there is, and what is booked beside it, is stated once for all supply and all prices."""
        work = scenario.section(DemandAssumptions).digest()
        if work not in self.problems:
            self.problems[work] = problem_of(self.book, scenario)
        return self.problems[work].replaced(assumptions=scenario.section(ProcurementAssumptions))

    def _asked(self, place: tuple[str, float] | None, question: Callable[[Stated, Warm | None], Kept]) -> Kept | None:
        """Return the answer to a question where an assumption is moved; None without a plan."""
        moved, gap = {} if place is None else dict([place]), max(self.scenario.gap_share, FLIP_GAP_SHARE)
        quick = self.scenario.replaced(plan_paths=min(self.scenario.plan_paths, FLIP_PATHS), gap_share=gap, time_limit_seconds=0.0, **moved)
        try:
            # assumptions of the proof alone state today's program
            at = None if OF_PROOF.issuperset(moved) else place
            if at not in self.stated:
                self.stated[at] = state_problem(self.problem(quick))
            known, today = self.stated[at], self.stated.get(None)
            if at and today and self.known and fingerprint(known.model.program) == fingerprint(today.model.program):
                return self.known
            stated = replace(known, problem=known.problem.replaced(assumptions=quick.section(ProcurementAssumptions)))
            kept = question(stated, self._near(place))
        except CapplanError:
            return None
        if kept.warm is not None:
            self.left[place] = kept.warm
        self.known = kept if place is None else self.known
        return kept

    def _near(self, place: tuple[str, float] | None) -> Warm | None:
        """Return what the nearest value of the same assumption has left, today's among them."""
        if place is None or not self.left:
            return None
        moved, value = place
        distance = {
            key: abs((getattr(self.scenario, moved) if key is None else key[1]) - value)
            for key in self.left
            if key is None or key[0] == moved
        }
        return self.left[min(distance, key=distance.__getitem__)] if distance else None


def find_flips(book: Book, scenario: Scenario, progress: Callable[[str], None] = lambda _: None) -> pd.DataFrame:
    """Move one assumption at a time, and find where what the plan signs now is not worth keeping.

    The decision holds while signing it, with the best use and the best later purchases, costs at most `FLIP_SHARE` more than the best plan
    (more than it does today, where few paths judge it otherwise than all).

    Returns:
        DataFrame: [assumption, now, flips_below, flips_above, then]: the nearest values that were found to flip the decision (missing: none
            up to the end of the search, which `then` states).
    """
    ask = Asking(book, scenario, signed_now(purchases_of(book, scenario).purchases))
    progress("asking which assumptions flip the decision")
    today = ask.today()
    regret = today.regret_share if today is not None and today.regret_share < inf else 0.0
    allowed = FLIP_SHARE + regret
    searches = []
    for probe in PROBES:
        for side, end in zip(("flips_below", "flips_above"), probe.ends(scenario), strict=True):
            now = float(getattr(scenario, probe.field))
            if end != now:
                searches.append(Search(probe.field, side, now, end, regret - allowed, reach=abs(end - now)))
                searches[-1].learn(end, ask(probe.field, end, allowed, FINE_GAP_SHARES), allowed)
    progress("asking where they flip it")
    asked = 1 + len(searches)
    for _ in range(STEPS):
        # first where least is known
        for search in sorted((search for search in searches if search.flips), key=lambda search: -search.open_share):
            if asked < MOST_VALUES:
                value, asked = search.middle(), asked + 1
                search.learn(value, ask(search.field, value, allowed), allowed)
    for search in searches:
        if search.flips and (search.other is None or search.other.signed is None):
            best = ask.best(search.field, search.changed)
            search.other = best and (replace(search.other, signed=best.signed) if search.other else best)
    rows = []
    for probe in PROBES:
        own = [search for search in searches if search.field == probe.field]
        found = {search.side: search.changed for search in own if search.flips}
        words = [
            f"holds to {search.holds:.3g}"
            + (f", and from {search.changed:.3g} on: {_difference(ask.signed, search.other)}" if search.flips else "")
            for search in own
        ]
        rows.append(
            (probe.field, float(getattr(scenario, probe.field)), found.get("flips_below"), found.get("flips_above"), "; ".join(words))
        )
    frame = pd.DataFrame(rows, columns=["assumption", "now", "flips_below", "flips_above", "then"])
    return frame.astype({"flips_below": float, "flips_above": float})


def _difference(signed: Signed, other: Kept | None) -> str:
    """Say which offers would be signed for more or fewer lots."""
    if other is None or other.signed is None:
        return "no plan exists"
    offers = sorted({offer for offer, _ in (*signed, *other.signed)})
    before, after = (
        {offer: sum(n for (name, _), n in lots.items() if name == offer) for offer in offers} for lots in (signed, other.signed)
    )
    parts = []
    for offer in offers:
        if after[offer] == before[offer]:
            continue
        if before[offer] == 0:
            parts.append(f"sign {offer}")
        elif after[offer] == 0:
            parts.append(f"do not sign {offer}")
        else:
            parts.append(f"{after[offer]:g} of {offer} instead of {before[offer]:g}")
    start = "what is signed now breaks a limit, and the best plan is: " if other.regret_share == inf else ""
    return start + (", ".join(parts) or "the same offers at other times")
