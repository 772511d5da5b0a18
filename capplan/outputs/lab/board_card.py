"""A card of the board: a button, a number, and what can be picked."""

import html
from collections.abc import Callable
from typing import Any

import ipywidgets

from capplan.answers.card import Card, Entry
from capplan.book.book import Book

Row = tuple[ipywidgets.Widget, ipywidgets.Widget | None, ipywidgets.Widget | None]


def card_row(book: Book, card: Card, ask: Callable[..., None], pressed: Callable[[Callable[[], Any]], None]) -> Row:
    """Build a card.

    Args:
        book, card: What is asked of which book.
        ask: Asks the question, with the card's name, its number, what is picked, and its further entries.
        pressed: Does what a click says, and shows what goes wrong.

    Returns:
        tuple: The row, its number and what can be picked, where the card has them.
    """
    button = ipywidgets.Button(description=card.name, tooltip=f"Ask: {card.name}", layout=ipywidgets.Layout(width="210px"))
    number = (
        ipywidgets.FloatText(value=card.start, layout=ipywidgets.Layout(width="70px"), tooltip=f"{card.name} ({card.unit})")
        if card.unit
        else None
    )
    picks = card.picks(book) if card.picks else ()
    look = ipywidgets.Layout(width="auto", flex="1 1 150px", min_width="0")
    pick = ipywidgets.Dropdown(options=picks, layout=look, tooltip=card.name) if card.picks else None
    more = {entry.name: _entry(book, card, entry) for entry in card.more}
    button.disabled = bool(card.picks and not picks)
    if number is not None and pick is not None and card.now and picks:
        now = card.now

        def priced(_: object) -> None:
            number.value = round(now(book, str(pick.value)), 4) or card.start

        pick.observe(priced, "value")
        priced(None)

    def asked() -> None:
        given = {name: part.value for name, part in more.items()}
        ask(card.name, number.value if number else 0.0, str(pick.value) if pick else "", given)

    button.on_click(lambda _: pressed(asked))
    unit = ipywidgets.HTML(html.escape(card.unit))
    said = [
        (ipywidgets.HTML(html.escape(f"{entry.name} {entry.unit}" if "%" in entry.unit else entry.name)), more[entry.name])
        for entry in card.more
    ]
    parts = [button, number, unit if card.unit else None, pick, *(part for pair in said for part in pair)]
    row = ipywidgets.HBox([part for part in parts if part is not None], layout=ipywidgets.Layout(flex_flow="row wrap"))
    row.layout.flex = "0 0 auto"
    return row, number, pick


def _entry(book: Book, card: Card, entry: Entry) -> ipywidgets.Widget:
    """Build what one more entry of a card is put into."""
    look = {
        "tooltip": f"{card.name} {entry.name} {entry.unit}".strip(),
        "layout": ipywidgets.Layout(width="100px" if entry.options else "55px"),
    }
    if entry.options:
        return ipywidgets.Dropdown(options=entry.options(book), value=entry.first(book), **look)
    return ipywidgets.FloatText(value=entry.start, **look)
