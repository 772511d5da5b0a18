"""Hostile and sloppy files to ingest, and words on the command line: an answer or one clear message, whatever they are."""

from __future__ import annotations

import gzip
import os
import shutil
from importlib import import_module

import pandas as pd
import pytest
import typer
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from capplan.book.scenario import Scenario
from capplan.cli import app
from capplan.errors import CapplanError
from capplan.ingest import FORMATS, ingest, options_of
from capplan.ingest.cells import Wanted
from tests.conftest import hourly
from tests.faults.test_fuzz import CASES, ODD, seeded

CALM = settings(max_examples=CASES // 5, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
GOOD = {"text": "chat", "number": "2", "money": "1.50", "dollars": "1.50", "time": "2026-03-01T00:00:00Z", "clock": "2026-03-01T00:00:00Z"}
#: Commands that answer at once, and those that are given no book that they could plan.
QUICK = ("check", "diff", "explain", "export", "ingest", "trace", "new")
SLOW = ("accept", "ask", "check-plan", "compare", "plan", "review", "sweep")
COMMANDS = typer.main.get_command(app).commands
VALUES = (
    "price_factor=1",
    "scenario=a.yaml",
    "changes=offers.a remove",
    "price_factor=1:2:3",
    "sobol:8",
    "saltelli:3",
    "why",
    "auto",
    "-1",
    "x" * 300,
)


def columns_of(form: str) -> list[Wanted]:
    """Columns that a format looks for."""
    lists = vars(import_module(f"capplan.ingest.{FORMATS[form].module}")).values()
    return [one for found in lists if isinstance(found, tuple | list) for one in found if isinstance(one, Wanted)]


@st.composite
def foreign(draw: st.DrawFn) -> tuple[str, str, bytes, dict[str, object]]:
    """A file of a format with a few cells wrong, perhaps cut off or of another kind than its name says, and options."""
    form = draw(st.sampled_from(sorted(FORMATS)))
    columns = [one for one in columns_of(form) if one.required or draw(st.booleans())]
    rows = []
    for _ in range(draw(st.integers(0, 3))):
        row = {one.name: GOOD[one.kind] for one in columns}
        for name in draw(st.lists(st.sampled_from(sorted(row)), max_size=2)) if row else ():
            row[name] = draw(st.one_of(st.sampled_from(ODD), st.text(max_size=8)))
        rows.append(row)
    names = draw(st.permutations([one.name for one in columns]))
    names = names[: draw(st.integers(0, len(names)))] if draw(st.integers(0, 4)) == 0 else names
    data = pd.DataFrame(rows, columns=names).to_csv(index=False, sep=draw(st.sampled_from(",;\t|"))).encode("utf-8", "surrogatepass")
    if draw(st.integers(0, 3)) == 0:
        cut = draw(st.integers(0, len(data)))
        data = data[:cut] + draw(st.sampled_from([b"", b'"', b"\r", b"\0", b"\xff\xfe", b"\n\n", b"x" * 2000]))
    kind = draw(st.sampled_from([".csv", ".csv", ".csv", ".csv.gz", ".gz", ".parquet", ".jsonl", ".zst", "", "[1].csv"]))
    data = gzip.compress(data) if kind.endswith(".gz") and draw(st.booleans()) else data
    known = st.sampled_from(sorted(options_of(form).model_fields))
    odd = st.one_of(st.sampled_from(ODD), st.integers(), st.floats(), st.booleans(), st.lists(st.text(max_size=3), max_size=2))
    options = draw(st.dictionaries(st.one_of(known, st.text(max_size=6)), odd, max_size=2)) if draw(st.booleans()) else {}
    return form, f"log{kind}", data, {name: value for name, value in options.items() if name not in ("format", "file", "into", "replace")}


@seeded
@CALM
@given(made=foreign())
def test_any_foreign_file_gives_tables_or_one_message(tmp_path, made):
    form, name, data, options = made
    (tmp_path / name).write_bytes(data)
    (tmp_path / "log1.csv").write_text("nobody asked for this one")
    said = "it is read"
    try:
        found = ingest(form, tmp_path / name, **options)
        assert found.headline
        assert "nobody asked" not in repr(found)
    except CapplanError as error:
        said = str(error)
    assert 10 <= len(said) < 12_000, said[:200]
    assert "Traceback" not in said


@st.composite
def words(draw: st.DrawFn) -> list[str]:
    """A command with arguments and options of its own, and values that are none."""
    name = draw(st.sampled_from((*QUICK, *SLOW)))
    value = st.one_of(st.sampled_from(ODD), st.sampled_from(VALUES), st.text(max_size=8))
    books = ["{nothing}", "{file}", "{empty}", *(["{whole}"] if name in QUICK else [])]
    line = [name]
    for part in COMMANDS[name].params:
        if part.param_type_name == "argument":
            place = part.name in ("book", "report", "before", "after", "place", "folder")
            line += draw(st.lists(st.sampled_from(books) if place else value, min_size=1, max_size=1 if part.nargs == 1 else 2))
        elif part.is_flag:
            line += [part.opts[-1]] if draw(st.integers(0, 3)) == 0 and part.name != "untrusted" else []
        elif part.name in ("out", "into"):
            line += [part.opts[-1], "{out}"]
        elif draw(st.integers(0, 2)) == 0:
            named = st.sampled_from(sorted(Scenario.model_fields))
            given = draw(value)
            line += [part.opts[-1], draw(st.one_of(st.just(given), named.map(lambda field, given=given: f"{field}={given}")))]
    return line


@pytest.fixture
def places(make_book, tmp_path):
    (tmp_path / "file").write_text("a,b\n1,2\n")
    (tmp_path / "empty").mkdir()
    return {"whole": make_book(usage=hourly())} | {name: tmp_path / name for name in ("file", "empty", "nothing", "out")}


@pytest.mark.parametrize("name", [*QUICK, *SLOW])
def test_a_place_whose_name_no_system_takes_is_said_by_every_command(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    line = [name, *("x" * 300 for part in COMMANDS[name].params if part.param_type_name == "argument")]
    line += {"sweep": ["--vary", "price_factor=1,2"], "accept": ["--reason", "r"]}.get(name, [])
    done = CliRunner().invoke(app, line)
    assert done.exit_code
    assert isinstance(done.exception, SystemExit | CapplanError), done.exception
    assert list(tmp_path.iterdir()) == []


@seeded
@CALM
@given(line=words())
def test_any_words_give_an_answer_or_one_message(places, monkeypatch, line):
    monkeypatch.chdir(places["empty"])
    for name in ("out", "nothing"):
        shutil.rmtree(places[name], ignore_errors=True)
    for left in places["empty"].iterdir():
        left.unlink()
    filled = [str(places[word[1:-1]]) if word[:1] == "{" and word[1:-1] in places else word for word in line]
    done = CliRunner().invoke(app, filled)
    assert isinstance(done.exception, SystemExit | CapplanError | None), (filled, done.exception)
    said = str(done.exception) if isinstance(done.exception, CapplanError) else done.output
    assert "Traceback" not in said
    assert len(said) < 40_000
    if done.exit_code:
        assert len(said) >= 10, filled
    # nothing was written but where it was to be
    assert [path for path in os.listdir(places["empty"]) if done.exit_code] == []
