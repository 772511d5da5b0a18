"""Tokens of a sentence in fewer forms: what one word says together with its neighbour, and one order of a clause for all.

The grammar knows a clause in the order in which it is mostly said, and in one order of its own, whom, what, which way, by how much, when,
in which every clause is tried that it does not know as it stands.
"""

import re
from collections.abc import Sequence
from dataclasses import replace

from capplan.answers.ask.names import FACTS, Ref
from capplan.answers.ask.tokens import Amount, Word

#: Tokens that say by how much.
AMOUNTS = ("PERCENT", "FRACTION", "NUMBER", "MONEY", "SPAN", "KW", "TIMES", "GB", "A_QUARTER", "SIGNED")
_WAYS = ("UP", "DOWN", "DROP", "DEARER", "CHEAPER", "TIGHTER", "SLOWER", "MOVE", "BACK", "OUT", "LONGER")
#: The one order: each token's place is that of its list; what is in none of them keeps a clause as it is.
_ORDER = (
    "SHOW REPORT WHY WHY_NOT PAYS NOTHING_NEW PLACE EVERYTHING BOTTLENECK BINDS",
    "NAME W_RUN W_EVENT W_OFFER W_CONTRACT W_TEAM W_WORKLOAD W_TASK W_PIPELINE ALL",
    "SPOT ON_DEMAND HYPERSCALER SPECIALIST",
    "SIGNING API DEMAND GPU BUDGET CAPEX ELECTRICITY POWER LATENCY NETWORK RATE_LIMIT LIMITS QUOTA LEAD_TIME DELIVERY ALL_PRICES PRICE"
    " NODES TOKENS PARAMETERS",
    "FIRST_TOKEN EACH_TOKEN",
    "NOT NO WITHOUT REMOVE NOT_TAKEN RENEW LAPSE EXTEND ONLY BUY ADD SHIFTS SELF_HOSTED API_ONLY WITHDRAW DELIVER TAKE CHANCE START FINISH",
    " ".join(_WAYS),
    "TO AT_MOST",
    " ".join((*AMOUNTS, "SCALE")),
    "AS_MUCH AS_FAST AS_SLOW AS_DEAR AS_LONG OF_TODAY PER_HOUR PER_KWH PER_YEAR A_YEAR AN_HOUR PER_GPU PER_MACHINE LOTS CERTAIN EVEN",
    "BEFORE FROM INTO RANGE QUARTER PERIOD DATE ONWARDS",
    "CHEAPLY QUICKLY",
)
_PLACES = {kind: place for place, kinds in enumerate(_ORDER) for kind in kinds.split()}
NAMED = frozenset((_ORDER[1] + " " + _ORDER[2]).split())
#: What a word means by the one after it: a token, the kinds that may follow, and what it is then and otherwise.
_BEFORE = {
    "BELOW": ((*AMOUNTS,), "AT_MOST", "DOWN"),
    "ABOVE": (("QUARTER", "DATE"), "FROM", "UP"),
    "PLUS": (AMOUNTS, "UP", "AND"),
    "ONLY": ((*AMOUNTS, *_WAYS, "SCALE", "TO", "TAKE", "DATE", "QUARTER", "DELIVER", "FINISH", "CHANCE", "START", "HAPPENS"), "", "ONLY"),
    "TO": ((*AMOUNTS, "SCALE", "QUARTER", "DATE", "AT_MOST"), "TO", ""),
    "ADD": (("SPAN", "PERCENT", "MONEY"), "", "ADD"),
    "THAN": ((*AMOUNTS, "NAME", "REPORT", "PRICE", "DEMAND", "BUDGET"), "THAN", ""),
    "SHOW": (("NAME", *AMOUNTS, "SPOT", "ON_DEMAND"), "", "SHOW"),
    "BUY": (("PERCENT", "FRACTION", "TIMES"), "", "BUY"),
    "BINDS": (AMOUNTS, "TO", "BINDS"),
    "REMOVE": (("PERCENT", "FRACTION", "MONEY"), "DOWN", "REMOVE"),
    "SSD": (("NAME",), "REMOVE", "SSD"),
    "NO_LATER": (("SPAN",), "AT_MOST", "FINISH"),
    "IF": (("PREPAID",), "", "IF"),
    "A_QUARTER": (("OF_TODAY",), "FRACTION", "A_QUARTER"),
}
#: What may stand between "to" and its amount.
_NEAR = re.compile(
    r"\W*(?:(?:the|a|an|just|only|about|around|roughly|some|exactly|nearly|almost|approximately|at|be|now|within|under|of|no|more|than|around|circa|ca|mere|its|their|less|usd)\W+)*",
    re.I,
)
#: What something is compared with, beside an amount.
_MEASURES = ("REPORT", "PRICE", "DEMAND", "BUDGET")
#: What runs high or low, and is no training run.
_RUN = ("DEMAND", "PRICE", "ALL_PRICES", "SPOT", "ON_DEMAND", "LATENCY", "BUDGET")
#: Words after which "run" is a verb.
_MODALS = (["should"], ["must"], ["will"], ["would"], ["can"], ["may"], ["shall"], ["to"])
#: Tokens that say no more where they come twice.
_TWICE = frozenset(
    (
        "UP",
        "DOWN",
        "TO",
        "DEMAND",
        "FINISH",
        "START",
        "REMOVE",
        "MOVE",
        "DEARER",
        "CHEAPER",
        "TIGHTER",
        "SLOWER",
        "ONLY",
        "BUY",
        "WHY",
        "NETWORK",
        "NOTHING_NEW",
    )
)
#: What "not" makes of the word it stands before.
_NOT = {"HAPPENS": "REMOVE", "W_RUN": "REMOVE", "RENEW": "LAPSE", "EXTEND": "LAPSE", "API_ONLY": "SELF_HOSTED", "BUY": "WITHOUT"}


def folded(words: Sequence[Word], text: str) -> list[Word]:
    """Return the tokens of a sentence with each word as its neighbours make it mean.

    Args:
        words: Tokens of a sentence without its fillers.
    """
    found: list[Word] = []
    words = _ranged([_described(word, words[place + 1 :], text) for place, word in enumerate(words)], text)
    why, skipped = any(word.kind.startswith("WHY") for word in words), -1
    for place, word in enumerate(words):
        after = words[place + 1].kind if place + 1 < len(words) else ""
        if after in AMOUNTS and (word.kind == "INSTEAD" or _is_corrected(words, place) or _is_left(words, place)):
            skipped = place + 1
        if place in (skipped, skipped - 1) or _is_actor(word, words[place + 1 :], text) or _says_no_more(word, after, found, text):
            continue
        meant = _by_neighbours(words, place, found, text)
        if meant.kind in ("AGAIN", "AT_END", "PAYS"):
            found, meant = _joined(found, meant, words[place + 1 :])
        if meant.kind:
            found = _with(found, meant, why, text)
    return found


def _ranged(words: list[Word], text: str) -> list[Word]:
    """Return a day that is said twice once, and a time with two ends as one token: between July and September 2027.

    From one to the other is such a time where it is said by how much. A first month or quarter without a year
    is of the year of the last one.
    """
    for place in range(len(words) - 2):
        one, joint, other = words[place : place + 3]
        if (one.kind, joint.kind, other.kind) == ("DATE", "COMMA", "DATE") and one.value.when.date() == other.value.when.date():
            # the same day said twice: by mid-May, 15 May 2027
            return _ranged([*words[: place + 1], *words[place + 3 :]], text)
    shares = any(word.kind in ("PERCENT", "FRACTION", "TIMES", "SCALE", "SIGNED") for word in words)
    for place in range(len(words) - 3):
        head, begin, joint, end = words[place : place + 4]
        pair = (head.kind, joint.kind)
        if pair not in (("BETWEEN", "AND"), ("FROM", "TO")) or not {begin.kind, end.kind} <= {"DATE", "QUARTER"} or not shares:
            continue
        years = [re.search(r"20\d\d", text[word.start : word.end]) for word in (begin, end)]
        if years[1] and not years[0]:
            year, said = years[1][0], begin.value
            begin = replace(
                begin, value=f"{year}{said[4:]}" if begin.kind == "QUARTER" else replace(said, when=said.when.replace(year=int(year)))
            )
        return [*words[:place], Word("RANGE", head.start, end.end, (begin, end)), *_ranged(words[place + 4 :], text)]
    return words


def _is_corrected(words: Sequence[Word], place: int) -> bool:
    """Tell whether an amount is set against the one before it: 6.2 million, not 6.8."""
    kinds = [word.kind for word in words[max(place - 2, 0) : place + 2]]
    return words[place].kind == "NOT" and len(kinds) == 4 and kinds[1] == "COMMA" and kinds[0] in AMOUNTS


def _is_left(words: Sequence[Word], place: int) -> bool:
    """Tell whether an amount is what another takes the place of: from 20,000 to 30,000."""
    kinds = [word.kind for word in words[place : place + 4]]
    return kinds[:1] == ["FROM"] and kinds[2:3] == ["TO"] and kinds[3:4] != [] and kinds[3] in AMOUNTS


def _says_no_more(word: Word, after: str, found: Sequence[Word], text: str) -> bool:
    """Tell whether a colon only stands between what is spoken of and what comes of it, and "only" behind an amount."""
    before = found[-1].kind if found else ""
    if word.kind == "COMMA" and text[word.start] == ":":
        named = (before == "NAME" and after not in NAMED) or (before.startswith("W_") and after == "NAME")
        return named or after in (*AMOUNTS, "DATE", "QUARTER", "TO")
    return word.kind == "ONLY" and before in AMOUNTS


def _by_neighbours(words: Sequence[Word], place: int, found: Sequence[Word], text: str) -> Word:
    """Return a word as those before and after it make it mean; its kind is empty where it says no more."""
    word, before = words[place], found[-1] if found else None
    after, said = words[place + 1].kind if place + 1 < len(words) else "", text[word.start : word.end].casefold()
    shares = any(each.kind == "PERCENT" for each in words)
    if said == "without" and after in ("", "COMMA", "AND"):
        # what is left out was no word of planning: sign it without asking
        return replace(word, kind="UNKNOWN")
    if word.kind == "START" and after in ("QUARTER", "PERIOD", "DATE") and (before is None or before.kind in ("COMMA", "AND")):
        return replace(word, kind="FROM")
    if word.kind in _BEFORE:
        kinds, then, otherwise = _BEFORE[word.kind]
        word = replace(word, kind=then if after in kinds else otherwise)
    if word.kind == "TO" and after in AMOUNTS and not _NEAR.fullmatch(text[word.end : words[place + 1].start]):
        # a verb stands between them: to find 10 %
        return replace(word, kind="")
    if word.kind == "MOVE" and said.startswith("sp") and shares:
        return replace(word, kind="TIGHTER", value=None)
    if (word.kind in _MEASURES and _is_compared(words, place)) or (
        word.kind == "THAN" and after in _MEASURES and _is_compared(words, place + 1)
    ):
        return replace(word, kind="")
    near = said[:2] != "sl" or "PERCENT" in [each.kind for each in words[place + 1 : place + 3]]
    if word.kind in ("MOVE", "BEFORE") and shares and near and not said.startswith("before"):
        # in amount and not in time: 20 % ahead of plan
        return replace(word, kind={"ah": "UP", "be": "DOWN", "sl": "DOWN"}.get(said[:2], word.kind))
    if word.kind == "DOWN" and after == "SPAN" and said.startswith("los"):
        return replace(word, kind="MOVE", value=1)
    if word.kind == "DOWN" and said == "off" and after in ("", "AND", "COMMA") and before and before.kind == "NAME":
        return replace(word, kind="REMOVE")
    if word.kind == "REMOVE" and before and before.kind in ("PERCENT", "FRACTION"):
        return replace(word, kind="DOWN")
    if word.kind == "TO" and after == "QUARTER" and before and before.kind in ("MONEY", "NUMBER"):
        # more to a budget, not a budget of so much
        return replace(word, kind="INTO")
    runs = before and (before.kind in _RUN or (before.kind == "NAME" and not {ref.kind for ref in before.value} & {"run", "event"}))
    does = before is None or before.kind in ("COMMA", "AND")
    named = words[place + 1].value if after == "NAME" and does and said == "run" else ()
    runs = (
        runs
        or (named and not {ref.kind for ref in named} & {"run", "event"})
        or (before and after in AMOUNTS and before.kind in ("QUARTER", "PERIOD", "DATE"))
    )
    verb = (
        word.kind == "W_RUN"
        and runs
        and (said == "runs" or named or after in AMOUNTS or text[: word.start].casefold().split()[-1:] in _MODALS)
    )
    return replace(word, kind="") if verb else word


def _with(found: list[Word], word: Word, why: bool, text: str) -> list[Word]:
    """Put a word behind those before it, or together with the last one where both say one thing."""
    before = found[-1] if found else None
    paid = any(each.kind in ("DEARER", "CHEAPER") and text[each.start : each.end].casefold().startswith("pa") for each in found)
    denied = before is not None and before.kind in ("NOT", "NO") and not why
    if (
        (before and text[before.start : before.end].casefold() == "again" and word.kind in _ON_TOP)
        or (word.kind in ("UP", "DOWN") and paid)
        or (word.kind == "HAPPENS" and not denied)
        or (word.kind == "DELIVER" and any(each.kind in ("FIRST_TOKEN", "EACH_TOKEN") for each in found))
    ):
        return found
    if before and (_same(before, word) or word.kind == before.kind == "TAKE"):
        return [*found[:-1], replace(before, end=word.end)]
    if before and before.kind == "REMOVE" and word.kind in ("RENEW", "EXTEND"):
        return [*found[:-1], replace(before, kind="LAPSE", end=word.end)]
    if before and (before.kind == "NOT" or (denied and word.kind == "HAPPENS")) and word.kind in _NOT and not why:
        return [*found[:-1], replace(before, kind=_NOT[word.kind], end=word.end)]
    if word.kind == "SPAN" and text[word.start] in "+-" and not (before and before.kind == "MOVE"):
        sign = -1 if text[word.start] == "-" else 1
        return [*found, replace(word, kind="MOVE", value=sign), replace(word, value=Amount(abs(word.value.number), word.value.unit))]
    return [*found, replace(word, kind="UP"), word] if word.kind == "NUMBER" and text[word.start] == "+" else [*found, word]


#: What is said of a share of what there is, when that much comes on top: half as expensive again.
_ON_TOP = {"AS_MUCH": "UP", "AS_DEAR": "DEARER", "AS_LONG": "LONGER", "AS_FAST": "TIGHTER"}


def _joined(found: list[Word], word: Word, after: Sequence[Word]) -> tuple[list[Word], Word]:
    """Return what a word makes of a clause: half as much again, given up when it expires, we pay 10 % more for it."""
    begin = max((place + 1 for place, each in enumerate(found) if each.kind in ("COMMA", "AND")), default=0)
    clause, rest = found[begin:], list(after[: next((place for place, each in enumerate(after) if each.kind == "COMMA"), len(after))])
    if word.kind == "AGAIN":
        if clause and clause[-1].kind in ("FRACTION", "PERCENT"):
            # half again as expensive
            return found, replace(word, kind=_ON_TOP.get(rest[0].kind, "UP") if rest else "UP")
        for at in range(begin + 1, len(found)):
            if found[at].kind in _ON_TOP and found[at - 1].kind in ("FRACTION", "PERCENT"):
                return [*found[:at], replace(found[at], kind=_ON_TOP[found[at].kind]), *found[at + 1 :]], replace(word, kind="")
        return found, replace(word, kind="")
    if word.kind == "AT_END":
        kept = [replace(each, kind="LAPSE") if each.kind in ("REMOVE", "WITHOUT") else each for each in clause]
        return [*found[:begin], *kept], replace(word, kind="")
    if {each.kind for each in rest} & {*AMOUNTS} and {each.kind for each in rest} & {"UP", "DOWN"} and not clause:
        way = "DEARER" if any(each.kind == "UP" for each in rest) else "CHEAPER"
        return found, replace(word, kind=way)
    return found, word


#: What a team does that wants something of another thing.
_WANTS = re.compile(
    r".*\b(?:wants?|wanted|asks?|asked|asking|insists?|plans?|decides?|decided|would like|wish(?:es)?|intends?|proposes?|tolerates?)\b.*",
    re.I,
)


def _is_actor(word: Word, after: Sequence[Word], text: str) -> bool:
    """Tell whether a team only wants something of what is named after it: research wants base-8b to start later."""
    clause = list(after[: next((place for place, each in enumerate(after) if each.kind in ("COMMA", "AND")), len(after))])
    if word.kind != "NAME" or not any(each.kind == "NAME" for each in clause) or not any(ref.kind == "team" for ref in word.value):
        return False
    return _WANTS.fullmatch(text[word.end : after[0].start]) is not None


def _described(word: Word, after: Sequence[Word], text: str) -> Word:
    """Return the years of an offer or a contract that is described and not named, as a name: the three-year Nebius quote."""
    if word.kind != "SPAN" or word.value.unit != "year" or word.value.number not in (1, 3) or not after:
        return word
    kind = next((each for each in after if each.kind != "NAME"), after[-1]).kind
    facts = all(ref.kind in (*FACTS, "geography") for each in after[:1] if each.kind == "NAME" for ref in each.value)
    joined = facts and after[0].kind in ("NAME", "W_OFFER", "W_CONTRACT") and not text[word.end : after[0].start].strip(" -").count(" ")
    said = after[0].kind == "NAME" or kind in ("W_OFFER", "W_CONTRACT")
    return replace(word, kind="NAME", value=(Ref("years", f"{word.value.number:g}y"),)) if joined and said else word


def _is_compared(words: Sequence[Word], place: int) -> bool:
    """Tell whether the rest of a clause, from a place on, only says what something is compared with: than we forecast."""
    end = next((at for at in range(place, len(words)) if words[at].kind in ("AND", "COMMA")), len(words))
    begin = place
    while begin and words[begin - 1].kind in _MEASURES:
        begin -= 1
    return begin > 0 and words[begin - 1].kind in ("THAN", "OF_TODAY") and all(word.kind in _MEASURES for word in words[place:end])


#: Tokens that a clause may do without, where no rule has it with them: what somebody does with what changes anyway.
_WEAK = frozenset(("BUY", "TAKE", "SHIFTS", "TO", "SHOW", "FROM", "DELIVER", "ADD"))
#: Tokens that say no more beside others: whose demand, where a price is meant; everything, beside what is named.
_BESIDE = (
    (frozenset(("PRICE", "ALL_PRICES", "DEARER", "CHEAPER")), frozenset(("DEMAND", "GPU", "DELIVERY"))),
    (frozenset(("NAME", "PRICE", "ALL_PRICES", "LATENCY")), frozenset(("EVERYTHING",))),
    (frozenset(AMOUNTS), frozenset(("REPORT", "LIMITS"))),
    (frozenset(("PERCENT", "FRACTION", "A_QUARTER", "TIMES", "SCALE")), frozenset(("PER_HOUR",))),
)


def ways(words: Sequence[Word]) -> list[Sequence[Word]]:
    """Return the tokens of a clause in the orders in which it is tried: as said, in the one order, and without what it can do without."""
    kinds = {word.kind for word in words}
    weak = _WEAK.union(*(more for beside, more in _BESIDE if kinds & beside))
    found: list[Sequence[Word]] = [words, ordered(words)]
    for fewer in (weak - {"TO", "ADD"}, weak):
        strong = [word for word in words if word.kind not in fewer]
        found += [strong, ordered(strong)] if 0 < len(strong) < len(words) else []
    return found


def ordered(words: Sequence[Word]) -> list[Word]:
    """Return the tokens of a clause in the one order; as they are where one of them has no place there, or what it takes is left out.

    An "and" between two names stays between them; any other keeps the clause as it is.
    """
    keyed: list[tuple[int, int, Word]] = []
    for number, word in enumerate(words):
        around = [words[place].kind for place in (number - 1, number + 1) if 0 <= place < len(words)]
        joins = word.kind in ("AND", "COMMA") and len(around) == 2 and set(around) <= NAMED
        if word.kind == "COMMA" and around[0] in ("QUARTER", "DATE", "ONWARDS"):
            continue
        place = _PLACES[around[0]] if joins else _PLACES.get(word.kind)
        if place is None:
            return list(words)
        if word.kind != "TAKE":
            keyed.append((place, number, word))
    found = [word for _, _, word in sorted(keyed, key=lambda each: each[:2])]
    # one verb and its particle may say the same thing twice: knock 20 % off
    return [word for before, word in zip([None, *found], found, strict=False) if before is None or not _same(before, word)]


def _same(before: Word, word: Word) -> bool:
    return word.kind in _TWICE and before.kind == word.kind and before.value == word.value
