"""A book of unknown origin is checked behind limits, and gives one verdict."""

from __future__ import annotations

import os

import pytest
from typer.testing import CliRunner

from capplan.cli import app, untrusted
from capplan.errors import CapplanError
from tests.conftest import hourly

pytestmark = pytest.mark.skipif(os.name != "posix", reason="limits of processes are those of POSIX")


def checked(*words: object):
    return CliRunner().invoke(app, ["check", *map(str, words)])


@pytest.mark.slow
def test_the_verdict_is_that_of_the_check_itself(make_book):
    book = make_book(usage=hourly(), workloads="workload,kind,unit\nchat,inference,parsecs\n")
    with pytest.raises(CapplanError) as found:
        CliRunner().invoke(app, ["check", str(book)], catch_exceptions=False)
    done = checked(book, "--untrusted")
    assert done.exit_code == 1
    assert f"capplan: {found.value}" in done.stdout + done.stderr
    assert "fault" in str(found.value)


@pytest.mark.slow
def test_a_book_in_order_passes_and_sees_nothing_of_the_environment(make_book, monkeypatch):
    book = make_book(usage=hourly(), workloads="workload,unit\nchat,accelerator_hours\n", book="currency: USD\n")
    monkeypatch.setenv("CAPPLAN_DEBUG", "1")
    plain, behind = checked(book, "--json"), checked(book, "--untrusted", "--json")
    assert behind.exit_code == plain.exit_code
    assert behind.stdout == plain.stdout
    assert "Traceback" not in behind.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "most", "said"),
    [
        ("MOST_CPU_SECONDS", 1, "CPU seconds"),
        ("MOST_SECONDS", 0.5, "seconds"),
        ("MOST_MEMORY_MIB", 200, "memory"),
        ("MOST_OPEN_FILES", 3, "failed"),
    ],
)
def test_a_book_that_takes_too_much_is_refused_in_one_sentence(make_book, monkeypatch, name, most, said):
    monkeypatch.setattr(untrusted, name, most)
    # Thirty years of hours: more than a second of work on any machine.
    book = make_book(usage=hourly(days=11_000, start="1995-01-01"), workloads="workload,unit\nchat,accelerator_hours\n")
    with pytest.raises(CapplanError, match=f"the book is refused: .*{said}"):
        untrusted.check_untrusted([str(book)])
