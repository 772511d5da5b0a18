"""A plan asked for its reasons: why, why not, what binds, what would make us wait; every figure is a cell of the plan's own tables."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import pandas as pd

from capplan.answers.finished_plan import Plan
from capplan.book.currencies import DOLLARS, Currency
from capplan.errors import CapplanError, nearest
from capplan.questions.procurement.explain.sentences import entry_words
from capplan.records import records
from capplan.text import noun_of, price

Question = Literal["why", "why-not", "what-binds", "wait"]
#: Columns by which a row of each table is named; the names are those of a report's files.
KEYS: dict[str, tuple[str, ...]] = {
    "purchases": ("offer_id", "quarter"),
    "departures": ("offer_id", "quarter"),
    "rejected_offers": ("offer_id",),
    "left_out_offers": ("offer_id",),
    "limits": ("limit_id", "quarter"),
    "limit_lots": ("limit_id", "offer_id", "quarter"),
    "alternatives": ("name",),
    "verdicts": ("offer_id", "quarter"),
    "information": ("name",),
    "branches": ("branch", "offer_id", "quarter"),
    "flips": ("assumption",),
}
#: Between the parts of a figure's id: table, row, column.
PART = ":"
#: Before the name of a contract, its renewal; and how the reason of an offer begins that a limit holds back.
RENEW, HELD = "renew ", "held back"
#: Rows of a table that are put into words; the rest stands in the table.
SHOWN = 6


@dataclass(frozen=True)
class Explained:
    """An answer in sentences."""

    headline: str  #: The first sentence.
    sentences: pd.DataFrame  #: about, words.
    #: sentence (its place), figure (id that `capplan trace` follows in a report of the plan; empty for a text), shown (as the sentence has
    #: it), value, table, column: every figure, date and name in the words.
    figures: pd.DataFrame

    @property
    def traces(self) -> list[str]:
        """Return for each sentence the ids of its figures, with commas."""
        ids = self.figures[self.figures["figure"] != ""].groupby("sentence")["figure"].agg(", ".join)
        return [str(each) for each in ids.reindex(range(len(self.sentences)), fill_value="")]


def tables_to_explain(plan: Plan, flips: pd.DataFrame | None = None) -> dict[str, pd.DataFrame]:
    """Return the tables that explain a plan, by the names of a report's files."""
    bought = plan.purchases
    found = {
        "purchases": bought.purchases,
        "departures": bought.departures,
        "rejected_offers": bought.rejected,
        "left_out_offers": bought.left_out,
        "limits": bought.binding,
        "limit_lots": bought.limit_lots,
        "alternatives": bought.alternatives,
        "verdicts": bought.verdicts,
        "information": bought.information,
        "branches": bought.branches,
    }
    return found if flips is None else found | {"flips": flips}


def row_names(table: pd.DataFrame, name: str) -> pd.Series:
    """Return what each row of a table is called in an id; a name that comes again carries its number.

    Examples:
        >>> limits = pd.DataFrame({"limit_id": ["quota"] * 3, "quarter": ["2027Q1", "2027Q1", "2027Q2"]})
        >>> row_names(limits, "limits").tolist()
        ['quota 2027Q1', 'quota 2027Q1 #2', 'quota 2027Q2']
    """
    if table.empty:
        return pd.Series(dtype=object)
    called = table[list(KEYS[name])].astype(str).agg(" ".join, axis=1)
    again = called.groupby(called).cumcount()
    return called + again.map(lambda count: f" #{count + 1}" if count else "")


@dataclass
class Words:
    """Sentences under construction: what varies in them comes from `of`, which keeps where it stands."""

    tables: Mapping[str, pd.DataFrame]
    currency: Currency = DOLLARS
    sentences: list[tuple[str, str]] = field(default_factory=list)
    figures: list[tuple[int, str, str, Any, str, str]] = field(default_factory=list)

    def table(self, name: str) -> pd.DataFrame:
        """Return a table with the names of its rows as `row`; empty where the plan has none."""
        found = self.tables.get(name, pd.DataFrame(columns=list(KEYS[name])))
        return found.assign(row=row_names(found, name))

    def of(self, table: str, row: Mapping[str, Any], column: str) -> str:
        """Return a cell as a sentence shows it, an amount without its sign and in the book's currency."""
        value = row[column]
        shown = self._shown(column, value)
        named = not isinstance(value, (int, float)) or isinstance(value, bool)
        figure = "" if named else PART.join((table, str(row["row"]), column))
        self.figures.append((len(self.sentences), figure, shown, value, table, column))
        return shown

    def _shown(self, column: str, value: Any) -> str:
        if isinstance(value, pd.Timestamp):
            return f"{value:%Y-%m-%d}"
        if isinstance(value, (str, bool)):
            return str(value)
        if column.endswith("usd_per_hour"):
            return price(self.currency.amount(abs(value)), self.currency.name)
        if column.endswith("usd") or "usd_per_unit" in column:
            return self.currency.said(abs(value))
        if column.endswith("_share") or column == "probability":
            return f"{100 * value:.3g} %"
        return f"{value:,.6g}"

    def say(self, about: str, text: str) -> None:
        """End a sentence."""
        self.sentences.append((about, text))

    def done(self) -> Explained:
        """Return the answer."""
        sentences = pd.DataFrame(self.sentences, columns=["about", "words"])
        figures = pd.DataFrame(self.figures, columns=["sentence", "figure", "shown", "value", "table", "column"])
        return Explained(str(sentences["words"].iloc[0]), sentences, figures)


def explain_plan(tables: Mapping[str, pd.DataFrame], question: Question, name: str = "", currency: Currency = DOLLARS) -> Explained:
    """Answer a question about a plan from its own tables.

    Args:
        tables: As `tables_to_explain` returns them, or as a report has them.
        question: "why" or "why-not" (an offer, a contract, an accelerator or an alternative), "what-binds" or "wait" (what would make us
            wait). Why of what is not taken is answered as why not.
        name: What is asked about: an offer, a contract (renewals are called `renew CONTRACT`), an accelerator, or an alternative.
        currency: In what its amounts are said; the tables have them in dollars.

    Raises:
        CapplanError: Where the plan's tables know nothing of that name; the nearest are named.
    """
    said = Words(tables, currency)
    if question == "what-binds":
        _what_binds(said)
    elif question == "wait":
        _wait(said)
    elif question == "why-not" or not _why(said, name.strip()):
        _why_not(said, name)
    return said.done()


# --- why ------------------------------------------------------------------------------------------------------------------------------


def _why(said: Words, asked: str) -> bool:
    """Say what speaks for what the plan takes: what signing saves against waiting, its price, and the offers it was chosen over."""
    bought, rejected, verdicts = (said.table(name) for name in ("purchases", "rejected_offers", "verdicts"))
    wanted, _ = _named(asked, bought.reindex(columns=["offer_id", "accelerator"]))
    taken = records(bought[bought["offer_id"].isin(wanted)].head(SHOWN))
    for row in taken:
        _taken(said, row)
        judged = (
            verdicts[(verdicts["offer_id"] == row["offer_id"]) & (verdicts["quarter"] == row["quarter"])] if len(verdicts) else verdicts
        )
        for verdict in records(judged):
            _verdict(said, verdict)
        of = _cells(said, "purchases", row)
        if not len(judged):
            due = "is due before the next review; what waiting for it would cost was not compared"
            later = "is decided at a later review: nothing is signed for it before then"
            said.say(str(row["offer_id"]), f"{of('offer_id')} {due if row.get('firm') else later}.")
    for row in {row["offer_id"]: row for row in reversed(taken) if row.get("usd_per_hour", 0) > 0}.values():
        of = _cells(said, "purchases", row)
        others = rejected[rejected["accelerator"] == row["accelerator"]] if len(rejected) else rejected
        text = f"{of('offer_id')} costs {of('usd_per_hour')} an hour a machine"
        said.say(str(row["offer_id"]), f"{text}; of {of('accelerator')} the plan does not take:" if len(others) else f"{text}.")
        for other in records(others.head(SHOWN // 2)):
            _not_taken(said, other)
    return bool(taken)


# --- why not --------------------------------------------------------------------------------------------------------------------------


def _why_not(said: Words, name: str) -> None:
    """Say what stands against an offer, a renewal or an alternative; or that it is taken."""
    asked = name.strip()
    parts = {table: said.table(table) for table in ("purchases", "rejected_offers", "left_out_offers")}
    gone, others = said.table("departures"), said.table("alternatives")
    known = pd.concat([part.reindex(columns=["offer_id", "accelerator"]) for part in parts.values()], ignore_index=True).dropna()
    wanted, one = _named(asked, known)
    for table, tell in (("purchases", _taken), ("rejected_offers", _not_taken), ("left_out_offers", _left_out)):
        # of all offers of an accelerator, those that could be bought
        if one or table != "left_out_offers" or not said.sentences:
            for row in records(parts[table][parts[table]["offer_id"].isin(wanted)].head(SHOWN)):
                tell(said, row)
    contracts = gone.get("contract_id", pd.Series(dtype=object))
    for row in records(gone[(gone["offer_id"] == asked) | contracts.isin({asked, asked.removeprefix(RENEW)})].head(SHOWN)):
        _given_back(said, row)
    for row in records(others[(others["name"] == asked) & (asked != "plan")]):
        _alternative(said, row)
    if not said.sentences:
        names = {*known["offer_id"], *known["accelerator"], *contracts, *others["name"]} - {"plan", ""}
        names |= {each.removeprefix(RENEW) for each in known["offer_id"]}
        raise CapplanError(f"the plan's tables know nothing of {asked[:80]!r}; {nearest(asked[:200], names)}")
    rejected = parts["rejected_offers"]
    if "why" in rejected and rejected.loc[rejected["offer_id"].isin(wanted), "why"].str.startswith(HELD).any():
        _what_binds(said)


def _named(asked: str, known: pd.DataFrame) -> tuple[set[str], bool]:
    """Return the offers that somebody asks about, and whether that is one by its name.

    Examples:
        >>> known = pd.DataFrame({"offer_id": ["year", "renew old", "two"], "accelerator": ["H100", "H100", "B200"]})
        >>> [sorted(_named(asked, known)[0]) for asked in ("two", "old", "h100s", "renew H100", "tpu")]
        [['two'], ['renew old'], ['renew old', 'year'], ['renew old'], []]
    """
    names = set(known["offer_id"])
    for name in (asked, f"{RENEW}{asked}"):
        if name in names:
            return {name}, True
    renewals = asked.startswith(RENEW)
    kind = asked.removeprefix(RENEW).casefold()
    mine = known["accelerator"].str.casefold().map(lambda name: bool(name) and kind in (name, f"{name}s"))
    return {name for name in known.loc[mine.astype(bool), "offer_id"] if name.startswith(RENEW) or not renewals}, False


def _taken(said: Words, row: dict[str, Any]) -> None:
    of = _cells(said, "purchases", row)
    verb = "renews" if str(row["offer_id"]).startswith(RENEW) else "takes"
    noun = noun_of(row["accelerators"], "accelerator")
    text = f"The plan {verb} {of('offer_id')} from {of('quarter')}: {of('accelerators')} {noun}, worth {of('usd')}, to be signed by"
    said.say(str(row["offer_id"]), f"{text} {of('sign_by')}.")


def _not_taken(said: Words, row: dict[str, Any]) -> None:
    of = _cells(said, "rejected_offers", row)
    text = f"{of('offer_id')} is not taken: offered at {of('usd_per_hour')} an hour for {of('quarter')}, it {_reason(row)}"
    if row["reduced_cost_usd"] > 0:
        text += f"; one lot of it would add {of('reduced_cost_usd')} to the plan's cost"
    text += "."
    said.say(str(row["offer_id"]), text + entry_words(row, of))


def _reason(row: dict[str, Any]) -> str:
    why = str(row["why"])
    return f"is {why}" if why.startswith(HELD) else why


def _left_out(said: Words, row: dict[str, Any]) -> None:
    of = _cells(said, "left_out_offers", row)
    said.say(str(row["offer_id"]), f"{of('offer_id')} cannot be signed for in the planned quarters: {of('words')}.")


def _given_back(said: Words, row: dict[str, Any]) -> None:
    of = _cells(said, "departures", row)
    text = (
        f"The plan gives back {of('machines')} {noun_of(row['machines'], 'machine')} of {of('contract_id')} on {of('day')} ({of('what')})"
    )
    said.say(str(row["offer_id"]), f"{text}: against keeping them that {_less(row['saves_usd'], 'saves', 'costs')} {of('saves_usd')}.")


def _alternative(said: Words, row: dict[str, Any]) -> None:
    of = _cells(said, "alternatives", row)
    more = _less(row["regret_usd"], "more", "less")
    said.say(str(row["name"]), f"{of('name')} ({of('meaning')}): {of('regret_usd')} {more} than the plan, risk-weighted.")


def _cells(said: Words, table: str, row: dict[str, Any]) -> Any:
    """Return what shows a cell of a row."""
    return lambda column: said.of(table, row, column)


def _less(value: float, above: str, below: str) -> str:
    return above if value >= 0 else below


# --- what binds, and what would make us wait ------------------------------------------------------------------------------------------


def _what_binds(said: Words) -> None:
    """Name the limits of which more is worth something, the most first: what a whole lot needs, then what is used by the hour."""
    lots = said.table("limit_lots")
    for row in records(lots):
        of = _cells(said, "limit_lots", row)
        text = f"{of('limit_id')} binds: {of('more')} more of it from {of('from_quarter')} to {of('to_quarter')}"
        text += f" (and {of('besides')})" if row["besides"] else ""
        text += f" would let in {of('machines')} {noun_of(row['machines'], 'more machine')} of {of('offer_id')} from {of('quarter')}"
        text += f" instead of one of {of('instead_of')}" if row["instead_of"] else ""
        said.say(str(row["limit_id"]), f"{text}, and save {of('saves_usd')}.")
    limits = said.table("limits")
    held = limits[limits["usd_per_unit"] > 0].sort_values("usd_per_unit", ascending=False, kind="stable") if len(limits) else limits
    for row in records(held.head(SHOWN)):
        of = _cells(said, "limits", row)
        text = f"{of('limit_id')} binds in {of('quarter')}: {of('used')} of {of('limit')} are used, and one more unit would save"
        said.say(str(row["limit_id"]), f"{text} {of('usd_per_unit')}.")
    if held.empty and lots.empty:
        said.say("limits", "No limit holds the plan back: one more unit of none of them would save anything.")
    elif len(held) > SHOWN:
        said.say("limits", "The others that bind stand in the table of limits.")


def _verdict(said: Words, row: dict[str, Any]) -> None:
    """Say what signing a purchase now saves against waiting for it."""
    of = _cells(said, "verdicts", row)
    text = f"{of('offer_id')} from {of('quarter')}: {of('verdict')}"
    if abs(row["saves_usd"]) == float("inf"):
        said.say(str(row["offer_id"]), f"{text}, since without it no plan keeps all limits.")
        return
    verb = _less(row["saves_usd"], "saves", "costs")
    low, high = (f"{_less(row[side], '', '-')}{of(side)}" for side in ("saves_low_usd", "saves_high_usd"))
    said.say(str(row["offer_id"]), f"{text}; signing now {verb} {of('saves_usd')} against waiting ({low} to {high}).")


def _wait(said: Words) -> None:
    """Say what signing now saves, which verdicts say wait, and at which values of an assumption the decision becomes another one."""
    for row in records(said.table("information").query("name == 'waiting'")):
        of = _cells(said, "information", row)
        said.say("waiting", f"Waiting ({of('meaning')}): {_less(row['usd'], '', '-')}{of('usd')}.")
    for row in records(said.table("verdicts")):
        _verdict(said, row)
    flips = said.table("flips")
    for row in records(flips):
        of = _cells(said, "flips", row)
        sides = [f"{side.removeprefix('flips_')} {of(side)}" for side in ("flips_below", "flips_above") if pd.notna(row[side])]
        if sides:
            text = f"The decision is another one where {of('assumption')}, now {of('now')}, is {' or '.join(sides)}"
            said.say(str(row["assumption"]), f"{text}: {of('then')}.")
    if "flips" not in said.tables:
        said.say("flips", "At which values of an assumption the decision flips was not searched (flip_search).")
    elif not flips[["flips_below", "flips_above"]].notna().any(axis=None):
        said.say("flips", "No assumption flips the decision within the range that was searched.")
    for row in records(said.table("branches").query("branch != 'now'").head(SHOWN)):
        of = _cells(said, "branches", row)
        demand = f"Where demand up to the review is {of('demand_share')} of its mean (a chance of {of('probability')})"
        size, verb = noun_of(row["accelerators"], "accelerator"), noun_of(row["accelerators"], "follows", "follow")
        said.say(f"branch {row['branch']}", f"{demand}, {of('accelerators')} {size} of {of('offer_id')} {verb} from {of('quarter')}.")
    if not said.sentences:
        said.say("waiting", "Nothing is due before the next review, so there is nothing to wait for.")
