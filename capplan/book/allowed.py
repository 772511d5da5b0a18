"""What may be given, in words: no reader of a message, a table or the dictionary meets a regular expression or a type's name."""

from collections.abc import Mapping
from typing import Any

from capplan.units import CLUSTER_PATTERN, CURRENCY_PATTERN, QUARTER_PATTERN

#: What a text of a form looks like.
FORMS = {
    QUARTER_PATTERN: "a quarter such as 2027Q1, of Q1 to Q4",
    CURRENCY_PATTERN: "three capital letters such as USD",
    CLUSTER_PATTERN: "an address such as tcp://scheduler:8786",
}
_BOUNDS = {"gt": "above", "ge": "at least", "lt": "below", "le": "at most"}
#: Beginning of the type of a fault, longest first, with what is allowed instead.
_KINDS = {
    "datetime_": "a day such as 2027-01-31, with a time as in 2027-01-31T08:00 or without",
    "string_too_short": "text that is not empty",
    "finite_": "a number",
    "string_": "text",
    "float_": "a number",
    "tuple_": "a list such as [a, b]",
    "bool_": "true or false",
    "date_": "a day such as 2027-01-31",
    "int_": "a whole number",
}


def form_words(pattern: Any) -> str:
    """Say what a text of a form looks like, in words that follow "must be".

    Args:
        pattern: The form, as it is written in a column or an assumption.

    Examples:
        >>> form_words("^[A-Z]{3}$")
        'three capital letters such as USD'
    """
    return FORMS[getattr(pattern, "pattern", pattern)]


def fault_words(item: Mapping[str, Any]) -> str:
    """Say what pydantic found wrong with a value: what is allowed.

    Args:
        item: One of the errors of a `ValidationError`.

    Examples:
        >>> fault_words({"type": "less_than_equal", "ctx": {"le": 1.0}, "msg": "Input should be less than or equal to 1"})
        'must be at most 1'
        >>> fault_words({"type": "string_pattern_mismatch", "ctx": {"pattern": "^[A-Z]{3}$"}, "msg": ""})
        'must be three capital letters such as USD'
    """
    kind, given = str(item["type"]), item.get("ctx", {})
    if "pattern" in given:
        return f"must be {form_words(given['pattern'])}"
    for name, words in _BOUNDS.items():
        if name in given:
            return f"must be {words} {given[name]:g}" if isinstance(given[name], int | float) else f"must be {words} {given[name]}"
    allowed = next((words for start, words in _KINDS.items() if kind.startswith(start)), None)
    return f"must be {allowed}" if allowed else str(item["msg"]).removeprefix("Value error, ").replace("Input should be", "must be")
