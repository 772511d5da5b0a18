"""Providers, geographies and offers that a scenario names: whether the book has them."""

from capplan.book.book import Book
from capplan.book.scenario import Scenario
from capplan.errors import CapplanError, nearest


def named_in_offers(book: Book, scenario: Scenario) -> None:
    """Refuse providers and geographies that no offer has."""
    found = unknown_names(book, scenario)
    if found:
        raise CapplanError("; ".join(found))


def unknown_names(book: Book, scenario: Scenario) -> list[str]:
    """Name providers, geographies and excluded offers that no table has."""
    found = []
    for field, table, column in (
        ("providers", "skus", "provider"),
        ("geographies", "offers", "geography"),
        ("excluded_offers", "offers", "offer_id"),
    ):
        known = set(book.get(table)[column].dropna())
        found += [
            f"{field} names {name!r}, which no offer has; {nearest(name, known)}" for name in getattr(scenario, field) if name not in known
        ]
    return found
