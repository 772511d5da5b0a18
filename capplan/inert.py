"""Text of CSV cells that no spreadsheet runs: a live one stands behind an apostrophe, which reading takes off again."""

import re

#: Spreadsheets run a cell that starts with one of these signs as a formula; one that is guarded already is guarded once more.
_LIVE = re.compile(r"'* *[=+\-@\t\r\n]")


def inert(text: object) -> object:
    """Return text that no spreadsheet takes for a formula; other values pass.

    Examples:
        >>> inert("=HYPERLINK(1)"), inert("chat"), inert(-2.5)
        ("'=HYPERLINK(1)", 'chat', -2.5)
    """
    if isinstance(text, str) and _LIVE.match(text):
        return "'" + text
    return text


def active(text: object) -> object:
    """Return what an inert text stands for; other values pass.

    Examples:
        >>> active("'=HYPERLINK(1)"), active("'tis"), active("chat"), active(inert("'=1"))
        ('=HYPERLINK(1)', "'tis", 'chat', "'=1")
    """
    return text[1:] if isinstance(text, str) and text.startswith("'") and _LIVE.match(text) else text
