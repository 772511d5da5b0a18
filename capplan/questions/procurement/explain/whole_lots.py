"""What limits and rejected offers stand for in whole lots: the plan's neighbours, each valued by the dispatch that the plan gets."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import NamedTuple

import numpy as np
import pandas as pd

from capplan.book.scenario import ProcurementAssumptions
from capplan.optimize.program import Solution
from capplan.questions.procurement.decide import Decided
from capplan.questions.procurement.explain.alternatives import Excess, stretched
from capplan.questions.procurement.explain.dispatch import Court, lifted, risk_weighted
from capplan.questions.procurement.explain.entry_bounds import EntryBounds
from capplan.questions.procurement.explain.entry_prices import Entry, entry_price, hourly_usd, is_exact
from capplan.questions.procurement.program.agreement_proof import rented
from capplan.questions.procurement.program.purchase_model import Model
from capplan.questions.procurement.supply.choices import Choices
from capplan.questions.procurement.supply.departures import DEPARTURE
from capplan.units import quarter_of

#: Limits, and rejected offers, that are valued; neighbours looked at for the limits; starts of one offer among them.
VALUED, LOOKED_AT, STARTS = 10, 10, 2
#: Neighbours of each kind that a rejected offer is roughly counted in.
ALIKE = 12
#: Why an offer is not taken.
DEARER, HELD = "costs more than what it would replace", "held back by a limit, its maximum or whole lots"
AS_GOOD = "would do as well, within the plan's proven gap"
#: How an offer is judged: by the best plan of whole lots, the plan's neighbours in whole lots, or the relaxation.
OPTIMUM, NEIGHBOURS, PARTS = "all plans", "whole lots", "parts of lots"
#: What a lot adds is nothing below this share of its cost.
NOTICEABLE_SHARE = 1e-7
REJECTED = [
    "offer_id",
    "accelerator",
    "term",
    "quarter",
    "usd_per_hour",
    "reduced_cost_usd",
    "entry_usd_per_hour",
    "none_from_usd_per_hour",
    "judged_by",
    "why",
]
LIMIT_LOTS = "limit_id kind more from_quarter to_quarter besides offer_id quarter machines instead_of saves_usd".split()


class Move(NamedTuple):
    """Lots of one choice added, and lots of another given up for them."""

    adds_usd: float  #: What it adds at least.
    added: int  #: Place among the choices.
    lots: float
    removed: int | None = None  #: Place among the choices; None where nothing is given up.
    given_up: float = 0.0


@dataclass(frozen=True)
class Neighbour:
    """The plan with lots more of one choice, and perhaps lots less of another."""

    move: Move
    adds_usd: float  #: What it costs more than the plan, risk-weighted.
    over: tuple[Excess, ...]  #: Limits that it exceeds and that cannot be paid for.
    beyond: np.ndarray  #: (years,): What it spends beyond each contract year of an agreement.


class Neighbours:
    r"""Values what lies a lot away from the plan.

    The cost of recourse is convex, so a lot adds at least what the plan's own duals say of it,
    :math:`d_j = c_j - \sum_t \pi_t^\top T_{t,j}`; where spend agreements run that is a guide and no bound. Neighbours are looked at in
    the order of it.

    Args:
        choices, model: The problem.
        solution: The plan.
        slope (G, m): Risk-weighted duals of the recourse at the plan, by technology.
        court: What values a first stage.
        a: Risk weight and tail share.
    """

    def __init__(
        self, choices: Choices, model: Model, solution: Solution, slope: np.ndarray, court: Court, a: ProcurementAssumptions
    ) -> None:
        self.choices, self.model, self.solution, self.court, self.a = choices, model, solution, court, a
        self.lots = model.lots(solution.x).round()
        program, table = model.program, choices.table
        bought = program.c - sum(np.asarray(part.T @ slope[t]).ravel() for t, part in enumerate(program.T))
        self.adds = bought[model.position]
        most = table["maximum_lots"].to_numpy(float)
        self.step = np.where(self.lots > 0, 1.0, np.fmax(table["minimum_lots"].to_numpy(float), 1.0))
        open_to_choice = (table["kind"] != DEPARTURE).to_numpy() & (program.lower < program.upper)[model.position]
        self.addable = open_to_choice & (self.lots + self.step <= np.where(np.isnan(most), np.inf, most))
        self.removable = open_to_choice & (self.lots >= program.lower[model.position] + 1)
        self.cost, excesses, _ = self._value(solution.x, court)
        #: A plan that keeps a hard budget by using less by the hour than would pay is no measure for neighbours that use what pays.
        self.sound = not any(each.hard for each in excesses)

    def _value(self, first: np.ndarray, court: Court) -> tuple[float, list[Excess], np.ndarray]:
        """Return what a first stage costs with its best use, the limits that it exceeds, and what it spends beyond each contract year."""
        x, cost, decisions = court.dispatch(first)
        x, excesses = stretched(x, decisions, self.model)
        beyond = np.array([row.limit - float(row.a @ x) for row in self.model.agreed])
        if self.model.years:
            beyond = np.maximum(beyond + rented(self.model, decisions), 0.0)
        return risk_weighted(x, cost, self.model.program, self.a), excesses, beyond

    def value(self, move: Move) -> Neighbour | None:
        """Value a neighbour; None where rules between decisions forbid it, or no use of it is possible."""
        first = self._moved(move)
        if self.model.broken_rules(first):
            return None
        cost, excesses, beyond = self._value(first, self.court)
        over = tuple(each for each in excesses if each.hard)
        if not np.isfinite(cost) and over:  # a quota that counts what is rented, too, leaves that less than nothing
            raised = replace(self.model, program=lifted(self.model, first))
            cost, _, beyond = self._value(first, Court(raised, raised.program, self.solution, self.a))
        return Neighbour(move, cost - self.cost, over, beyond) if np.isfinite(cost) else None

    def _moved(self, move: Move) -> np.ndarray:
        """Return the first stage of a neighbour."""
        lots = self.lots.copy()
        lots[move.added] += move.lots
        if move.removed is not None:
            lots[move.removed] -= move.given_up
        first = self.model.first_stage(lots)
        first[self.model.deferred_columns] = self.solution.x[self.model.deferred_columns]
        return first

    def roughly(self, move: Move) -> float:
        """Return what a neighbour costs more than the plan, risk-weighted, whatever limits and agreements say."""
        x = self._moved(move)
        return risk_weighted(x, self.court.free.costs(x), self.model.program, self.a) - self.solution.upper

    def near(self, among: np.ndarray) -> list[Move]:
        """Return neighbours that add one of some choices, the best first: a lot more, alone or for lots like it, or as many as replace all.

        Given up are lots of the same accelerator that start while the one added is there.
        """
        table = self.choices.table
        accelerator, ends = table["accelerator"].to_numpy(), pd.to_datetime(table["end"]).to_numpy()
        starts, size = pd.to_datetime(table["start"]).to_numpy(), table["lot_accelerators"].to_numpy(float)
        most = np.nan_to_num(table["maximum_lots"].to_numpy(float), nan=np.inf)
        found: list[Move] = []
        for j in np.flatnonzero(among & self.addable).tolist():
            found.append(Move(float(self.adds[j] * self.step[j]), j, self.step[j]))
            alike = self.removable & (accelerator == accelerator[j]) & (starts >= starts[j]) & (starts < ends[j])
            alike[j] = False
            if not alike.any() or size[j] <= 0:
                continue
            # what begins on the same day leaves the limits of all quarters as they are
            alike = alike & (starts == starts[j]) if (alike & (starts == starts[j])).any() else alike
            given = int(np.flatnonzero(alike)[np.argmax(self.adds[alike])])
            held, like = self.lots[given], size[j] / size[given]
            for lots in {self.step[j], float(np.clip(np.round(held / like), self.step[j], most[j] - self.lots[j]))}:
                away = float(np.clip(np.round(lots * like), 1.0, held))
                found.append(Move(float(self.adds[j] * lots - self.adds[given] * away), j, lots, given, away))
        return sorted(found, key=lambda each: (each.adds_usd / each.lots, each.added, each.lots))


def limits_in_lots(neighbours: Neighbours) -> pd.DataFrame:
    """Say how much more of a limit would let in another whole lot, and what that would save; the most first.

    Returns:
        DataFrame: limit_id, kind, more (in the limit's unit, in each quarter from from_quarter to to_quarter), besides (what else has to
            give, in the same form), offer_id, quarter, machines (that it lets in), instead_of (offer and quarter of a lot given up for it),
            saves_usd (risk-weighted, with certainty: the plan with them costs so much less); at most ten.
    """
    table, best = neighbours.choices.table, dict[frozenset[str], Neighbour]()
    for found in islice(_promising(neighbours), LOOKED_AT if neighbours.sound else 0):
        near = neighbours.value(found)
        if near is None or not near.over or near.adds_usd >= -1.0:
            continue
        key = frozenset(each.limit_id.removesuffix(f" {each.quarter}") for each in near.over)
        if key not in best or near.adds_usd < best[key].adds_usd:
            best[key] = near
    rows = []
    for near in sorted(best.values(), key=lambda each: each.adds_usd)[:VALUED]:
        row, move = table.iloc[near.move.added], near.move
        needs = _needs(
            near.over,
            neighbours.choices.timeline.quarters[neighbours.choices.timeline.planned - 1],
            quarter_of(row["end"] - pd.Timedelta(days=1)),
        )
        (limit_id, kind), (more, first, last) = next(iter(needs.items()))
        given = "" if move.removed is None else " ".join(table[["offer_id", "quarter"]].iloc[move.removed])
        besides = "; ".join(f"{each[0]}: {much:,.6g}, {begin} to {end}" for each, (much, begin, end) in list(needs.items())[1:])
        machines = float(move.lots * row["lot_machines"])
        rows.append((limit_id, kind, more, first, last, besides, row["offer_id"], row["quarter"], machines, given, -near.adds_usd))
    return pd.DataFrame(rows, columns=LIMIT_LOTS)


def _promising(neighbours: Neighbours) -> Iterator[Move]:
    """Yield neighbours that may save, at most a few starts of one offer."""
    offers, seen = neighbours.choices.table["offer_id"].to_numpy(), dict[tuple[str, bool], int]()
    for move in neighbours.near(np.ones(len(offers), dtype=bool)):
        key = offers[move.added], move.removed is None
        if move.adds_usd < 0 and move.lots == neighbours.step[move.added] and move.given_up <= 1:
            seen[key] = seen.get(key, 0) + 1
            if seen[key] <= STARTS:
                yield move


def _needs(over: Sequence[Excess], horizon: str, ends: str) -> Mapping[tuple[str, str], tuple[float, str, str]]:
    """Return how much more of each limit is needed, and from when to when: what outlasts the horizon needs it to its own end."""
    found: dict[tuple[str, str], tuple[float, str, str]] = {}
    for each in sorted(over, key=lambda excess: excess.quarter):
        key = each.limit_id.removesuffix(f" {each.quarter}"), each.kind
        more, first, _ = found.get(key, (0.0, each.quarter, ""))
        last = ends if each.quarter == horizon and each.kind != "budget_usd" else each.quarter
        found[key] = max(more, each.over), first, last
    return found


def rejected_offers(neighbours: Neighbours, reduced_costs: np.ndarray, found: Decided) -> pd.DataFrame:
    """For each offer that is never bought: the start nearest to being taken, what one lot would add, and the price at which it pays.

    The ten nearest are judged by whole lots. In a small problem the price is that at which the best plan takes it
    (`entry_prices.entry_price`). In a large one its lots are held against the plan, alone or for lots like them: at the price named, and
    below it, a plan with it costs no more than the plan; from another price on none does, where the plan's cuts prove that
    (`entry_bounds.EntryBounds`). One that a limit holds back has neither price nor cost, since its own is not what stands against it. The
    others are judged in the relaxation in which parts of lots can be bought, and have no price.

    Args:
        reduced_costs (choices,): What a lot of each choice would add in that relaxation.
        found: The plan.

    Returns:
        DataFrame: As in `answer.Purchases.rejected`, the nearest first.
    """
    table, cost = neighbours.choices.table, neighbours.model.program.c[neighbours.model.position]
    prices, exact = hourly_usd(found), is_exact(found)
    frame = table[["offer_id", "accelerator", "term", "quarter"]].assign(
        reduced_cost_usd=reduced_costs, judged_by=PARTS, why=np.where(reduced_costs > 0, DEARER, HELD), place=np.arange(len(table))
    )
    frame["share"] = np.divide(reduced_costs, cost, out=np.zeros(len(cost)), where=cost > 0)
    frame = frame[~frame["offer_id"].isin(set(table["offer_id"][neighbours.lots > 0])) & (table["kind"] != DEPARTURE)]
    frame = frame.sort_values(["share", "quarter", "offer_id"]).drop_duplicates("offer_id").reset_index(drop=True)
    frame[["entry_usd_per_hour", "none_from_usd_per_hour"]] = np.nan
    bounds = EntryBounds(found, frame["offer_id"].head(VALUED).tolist()) if not exact and found.solution.warm is not None else None
    for where, offer_id in enumerate(frame["offer_id"].head(VALUED)):
        entry = entry_price(found, offer_id) if exact else None
        if entry is None and neighbours.sound:
            entry = _nearby(neighbours, offer_id, prices)
        if entry is None:
            continue
        entry = entry if bounds is None else bounds.above(entry, offer_id)
        held = np.isnan(entry.adds_usd)
        why = HELD if held else DEARER if entry.adds_usd > NOTICEABLE_SHARE * abs(cost[entry.choice]) else AS_GOOD
        frame.loc[where, ["quarter", "place"]] = table["quarter"].iloc[entry.choice], entry.choice
        frame.loc[where, ["reduced_cost_usd", "share"]] = entry.adds_usd, np.nan if held else 1 - np.nan_to_num(entry.share)
        frame.loc[where, ["judged_by", "why"]] = OPTIMUM if entry.exact else NEIGHBOURS, why
        frame.loc[where, ["entry_usd_per_hour", "none_from_usd_per_hour"]] = entry.usd_per_hour, np.nan if held else entry.none_from_usd
    frame["usd_per_hour"] = prices[frame["place"].to_numpy(int)]
    return frame.sort_values(["share", "quarter", "offer_id"], na_position="first", ignore_index=True)[REJECTED]


def _nearby(neighbours: Neighbours, offer_id: str, prices: np.ndarray) -> Entry | None:
    """Return the price at which a neighbour of the plan that takes an offer costs as much as the plan; None where there is no neighbour."""
    table = neighbours.choices.table
    moves = neighbours.near((table["offer_id"] == offer_id).to_numpy())
    ways = [[move for move in moves if (move.removed is None) == alone] for alone in (True, False)]
    # where hours are on their own a quick count tells the best; where agreements tie them the duals say which to value
    if neighbours.model.years:
        near = [move for way in ways for move in way[:1]]
    else:
        near = sorted((move for way in ways for move in way[:ALIKE]), key=lambda move: neighbours.roughly(move) / move.lots)[:STARTS]
    known = sorted((each for each in map(neighbours.value, near) if each is not None), key=lambda each: each.adds_usd / each.move.lots)
    if any(each.over and each.adds_usd < 0 for each in known):
        return Entry(np.nan, np.nan, known[0].move.added, np.nan, np.nan)
    best = next((each for each in known if not each.over), None)
    if best is None:
        return None
    adds, at = best.adds_usd / best.move.lots, best.move.added
    share = _pays_at(neighbours, best)
    # of a reservation only what it costs beyond its hours on demand is in that share
    return Entry(adds, share, at, np.nan if table["role"].iloc[at] == "reserve" else prices[at] * share, np.nan)


def _pays_at(neighbours: Neighbours, near: Neighbour) -> float:
    """Return the share of its price at which what a neighbour adds is paid for; what then counts less towards agreements is made up for."""
    model, move = neighbours.model, near.move
    column, unspent = model.position[move.added], model.program.c[model.unspent]
    counted = move.lots * np.array([max(-float(row.a[column]), 0.0) for row in model.agreed])
    enough = near.beyond[counted > 0] / counted[counted > 0]
    less = np.unique(np.concatenate([[0.0, 1.0], enough[enough < 1]]))
    over = np.maximum(np.outer(less, counted) - near.beyond, 0.0) @ unspent
    adds = near.adds_usd - less * move.lots * model.program.c[column] + over
    if adds[0] <= 0:
        return 1.0 - min(adds[0], 0.0) / max(move.lots * model.program.c[column], 1e-9)
    if not (adds <= 0).any():
        return float("nan")
    at = int(np.argmax(adds <= 0))
    return 1 - float(np.interp(0.0, [adds[at], adds[at - 1]], [less[at], less[at - 1]]))
