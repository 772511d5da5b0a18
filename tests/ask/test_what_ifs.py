"""Typed what-ifs: written and read, checked like a person's input, and every right answer of the questions fits the book."""

from __future__ import annotations

import pytest

from capplan.answers.ask.what_ifs import read_what_if, what_if_from
from capplan.errors import CapplanError
from tests.ask.conftest import lines, questions

QUESTIONS = questions()


@pytest.mark.slow
def test_every_right_answer_is_read_back_and_fits_the_book(books):
    for row in {(row["what_ifs"], row["book"]): row for row in QUESTIONS}.values():
        book = books[row["book"]]
        scenario = book.scenario
        for line in lines(row):
            found = read_what_if(what_if_from(line), book, scenario)
            assert str(what_if_from(str(found))) == str(found), line
            assert found.sentence(book, scenario), line
            scenario = found.on(book, scenario)
        assert lines(row) or row["asked_back"], row["question"]


def test_a_sentence_says_what_a_cell_was(book):
    moved = what_if_from("shift training_runs.base-8b +2 quarters")
    assert moved.sentence(book, book.scenario).startswith("training_runs.base-8b: start is 2027-07-18 instead of 2027-01-18, deadline is")
    assert what_if_from("risk_weight=0.4").sentence(book, book.scenario) == "risk_weight is 0.4 instead of 0.2."


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"kind": "change", "line": "remove everything"}, "no such table"),
        ({"kind": "change", "line": "remove training_runs.base-9b"}, "did you mean base-8b"),
        ({"kind": "assumption", "name": "risk_weight", "value": 7}, "must be at most 1"),
        ({"kind": "assumption", "name": "changes", "value": "remove offers"}, "no assumption"),
        ({"kind": "card", "card": "Demand changes by", "pick": "chat", "number": 100000}, "give -90 to 900"),
        ({"kind": "card", "card": "Demand goes by"}, "Demand changes by"),
        ({"kind": "report", "report": "lottery"}, "report"),
        ({"kind": "explain", "about": "why_not", "subjects": ["nothing-like-it"]}, "no offer or contract"),
        ({"kind": "order", "machines": 5}, "kind"),
        ({"kind": "report", "report": "plan", "run": "rm"}, "Extra inputs"),
        ("buy", "what-if"),
    ],
)
def test_what_does_not_fit_is_refused(book, given, said):
    with pytest.raises(CapplanError, match=said):
        read_what_if(given, book, book.scenario)
