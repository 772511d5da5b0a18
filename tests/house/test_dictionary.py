"""The dictionary says what the classes check, and is committed as they say it."""

from __future__ import annotations

import pytest

from capplan.book.dictionary import SECTIONS, dictionary, main, table_lines
from capplan.book.places import shipped
from capplan.book.scenario import Scenario
from capplan.book.tables.registry import TABLES, columns_of


def test_committed_dictionary_is_up_to_date():
    committed = (shipped("data") / "README.md").read_text(encoding="utf-8")
    assert committed == dictionary(), "run `python -m capplan.book.dictionary`"


def test_main_writes_it(tmp_path, capsys):
    main(tmp_path / "README.md")
    assert (tmp_path / "README.md").read_text(encoding="utf-8") == dictionary()
    assert "README.md" in capsys.readouterr().out


@pytest.mark.parametrize("table", TABLES)
def test_every_column_has_a_row(table):
    lines = table_lines(table)
    for column in columns_of(table):
        assert sum(line.startswith(f"| `{column.name}` |") for line in lines) == 1
        assert column.meaning[-1] in ".?"


def test_every_assumption_has_a_row_with_meaning_and_source():
    text = dictionary()
    for name, field in Scenario.model_fields.items():
        rows = [line for line in text.split("## Assumptions")[1].splitlines() if line.startswith(f"| `{name}` |")]
        assert len(rows) == 1, name
        source = field.json_schema_extra["source"]
        assert source.endswith("."), name
        assert field.description, name
        assert source in rows[0], name


def test_sections_cover_the_scenario():
    assert set(Scenario.model_fields) == set().union(*(kind.model_fields for kind, _ in SECTIONS))


def test_pipes_cannot_break_a_row():
    for line in dictionary().splitlines():
        if line.startswith("| `"):
            assert line.replace("\\|", "").count("|") in (5, 6)


def test_a_row_reads_as_intended():
    assert (
        "| `upfront_share` | Share of the contract's price that is paid at signing. | a number at least 0 and at most 1 | optional, empty"
        " = 0 |" in table_lines("offers")
    )
