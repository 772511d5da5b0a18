"""Kinds of contract: all that the library knows of each, in one table; everything else asks it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Kind:
    """What is known of a kind of contract."""

    #: shown, colour: How tables, charts and sentences name and colour it.
    shown: str
    colour: str
    stack: int  #: Its place in a stack, from the ground up: what is owned and signed, then what can be left.
    months: float | None = None  #: How long it runs, where its name says so.
    states_months: bool = False  #: Must its offers say how long they run?
    by_the_hour: bool = False  #: Is it paid by the hour, for as long as one likes?
    physical: bool = False  #: Does it put a machine there, whatever its discount says?
    renewable: bool = False  #: Can it be renewed, or entered by an exchange?
    steady: bool = True  #: Does it run on from its start, so that steady work may rest on it?
    listed: bool = True  #: Do price sheets of providers list it?
    no_dearer_than: str = ""  #: The kind whose price it never exceeds, for one machine in one region.
    #: Identified asset, control of its use (yes, no, to be confirmed), and what it is proposed to be in the accounts.
    lease: tuple[str, str, str] = ("to be confirmed", "to be confirmed", "read the contract")


_RESERVED = ("to be confirmed", "to be confirmed", "service unless the contract names machines that the provider may not put others in for")
_PRICE_ONLY = ("no", "no", "service: only a price is agreed, no machine")
_BOOKED = ("no", "no", "service: the provider may put any machine in, for a booked time")
_OWN = ("yes", "yes", "no lease: the machines are one's own, property and equipment")
_LEASED = ("yes", "yes", "lease: machines are named and the customer directs their use")
KINDS = {
    "on_demand": Kind("On demand", "#ffca69", 90, by_the_hour=True),
    "spot": Kind("Spot", "#fae439", 100, by_the_hour=True, steady=False, no_dearer_than="on_demand"),
    "reserved_1y": Kind("Reserved, 1 year", "#638dff", 40, 12.0, renewable=True, no_dearer_than="on_demand", lease=_RESERVED),
    "reserved_3y": Kind("Reserved, 3 years", "#0045a5", 30, 36.0, renewable=True, no_dearer_than="reserved_1y", lease=_RESERVED),
    "savings_plan_1y": Kind("Savings plan, 1 year", "#85d2ab", 70, 12.0, renewable=True, no_dearer_than="on_demand", lease=_PRICE_ONLY),
    "savings_plan_3y": Kind(
        "Savings plan, 3 years", "#578d86", 60, 36.0, renewable=True, no_dearer_than="savings_plan_1y", lease=_PRICE_ONLY
    ),
    "capacity_block": Kind("Capacity block", "#7db066", 80, states_months=True, steady=False, lease=_BOOKED, physical=True, listed=False),
    "owned": Kind("Owned", "#421d65", 10, lease=_OWN, physical=True, listed=False),
    "lease": Kind("Leased", "#6b4d7a", 20, states_months=True, renewable=True, lease=_LEASED, physical=True, listed=False),
}


def _those(quality: str) -> tuple[str, ...]:
    """Return the kinds of which a quality holds."""
    return tuple(name for name, kind in KINDS.items() if getattr(kind, quality))


#: Length of those whose name states it.
TERM_MONTHS = {name: kind.months for name, kind in KINDS.items() if kind.months is not None}
STATED_LENGTH = _those("states_months")
USAGE_TERMS = _those("by_the_hour")
PHYSICAL_TERMS = _those("physical")
RENEWABLE_TERMS = _those("renewable")
SHEET_TERMS = _those("listed")
#: Not there at all times: taken away, or booked for some weeks.
UNSTEADY_TERMS = tuple(name for name, kind in KINDS.items() if not kind.steady)
#: The left is no dearer than the right.
NO_DEARER = tuple((name, kind.no_dearer_than) for name, kind in KINDS.items() if kind.no_dearer_than)
