"""The controls of every question: in the order of what they do to the answer, as it was measured on the example."""

from __future__ import annotations

import pytest

from capplan.outputs.lab.differences import TECHNICAL
from capplan.outputs.views.all_questions import VIEWS
from capplan.outputs.views.view import MOST_CONTROLS
from tests.conftest import example_book
from tools import control_effects

MEASURED = control_effects.read()
#: A share below this is rounding.
ROUNDING = 1e-9
#: Questions whose controls are all moved again in a minute.
QUICK = ("pricing", "review", "scaling", "training")


def measured(question):
    return {row["field"]: float(row["effect_share"]) for row in MEASURED if row["question"] == question}


@pytest.mark.parametrize("question", sorted({row["question"] for row in MEASURED}))
def test_controls_stand_in_the_order_of_what_they_move_and_the_first_one_moves_the_answer(question):
    effects = measured(question)
    assert not set(effects) & TECHNICAL
    assert list(effects.values()) == sorted(effects.values(), reverse=True)
    assert max(effects.values()) > ROUNDING, "the deciding number is one that a slider moves"


@pytest.fixture(scope="module")
def book():
    return example_book()


@pytest.mark.slow
@pytest.mark.parametrize("question", QUICK)
def test_what_was_measured_is_what_is_measured_and_the_view_lists_its_fields_so(question, book):
    """Every control is moved to the ends of its range: each end gives an answer, or one clear error."""
    found = {name: effect for _, name, _, effect in control_effects.effects(question, book)}
    assert found == pytest.approx(measured(question), rel=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("question", sorted({row["question"] for row in MEASURED}))
def test_a_view_lists_its_fields_as_they_were_measured_and_shows_none_that_moves_nothing(question, book):
    view, effects = VIEWS[question](book, control_effects.rough(book.scenario)), measured(question)
    assert [name for name in view.fields if name not in TECHNICAL] == list(effects)
    assert min(view.telling, len(effects)) == min(MOST_CONTROLS, sum(effect > ROUNDING for effect in effects.values()))
