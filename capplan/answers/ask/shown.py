"""What was understood of a question, for a person to approve."""

import pandas as pd

from capplan.answers.ask.reader import Reading
from capplan.book.book import Book
from capplan.book.scenario import Scenario


def understood(reading: Reading, book: Book, scenario: Scenario) -> pd.DataFrame:
    """Say what a sentence was read as.

    Returns:
        DataFrame: words, kind, what_if (as a line), meaning (as a sentence, on top of those before it).
    """
    rows = []
    for item in reading.what_ifs:
        rows.append((item.words, item.kind, str(item), item.sentence(book, scenario)))
        scenario = item.on(book, scenario)
    return pd.DataFrame(rows, columns=["words", "kind", "what_if", "meaning"])


def asked_back(reading: Reading) -> pd.DataFrame:
    """Say what was not understood.

    Returns:
        DataFrame: words, why, choices (what could be meant, with commas).
    """
    rows = [(doubt.words, doubt.why, ", ".join(doubt.choices)) for doubt in reading.doubts]
    return pd.DataFrame(rows, columns=["words", "why", "choices"])


def reading_text(reading: Reading, book: Book, scenario: Scenario) -> str:
    """Write what was understood, and what is asked back, for a person to approve."""
    lines = [f"Understood: {row.meaning} (from {row.words!r})" for row in understood(reading, book, scenario).itertuples()]
    lines += [f"Note: {note}" for note in reading.notes]
    lines += [f"Not understood: {doubt}" for doubt in reading.doubts]
    return "\n".join(lines)


def scenario_asked(reading: Reading, book: Book, scenario: Scenario) -> Scenario:
    """Return the scenario with all what-ifs of a reading, one on top of another."""
    for item in reading.what_ifs:
        scenario = item.on(book, scenario)
    return scenario
