"""The house rules that a machine can check."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from graphlib import TopologicalSorter

import grimp
import pytest

from tests.conftest import ROOT, some

MODULES = sorted((ROOT / "capplan").rglob("*.py"))


def test_import_is_quick_and_light():
    code = (
        "import sys, capplan; print([m for m in ('altair', 'highspy', 'ortools', 'pulp', 'statsforecast', 'pandas', 'duckdb', 'papermill')"
        " if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"


def test_views_load_neither_what_only_some_answers_need_nor_what_no_chart_needs():
    code = (
        "import sys, capplan.outputs.views.all_questions; print([m for m in ('altair', 'numba', 'scipy.optimize', 'jsonschema', 'dask',"
        " 'scipy.stats', 'statsforecast', 'sklearn', 'duckdb', 'papermill', 'vl_convert') if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"


def test_forecasts_load_nothing_that_no_forecast_here_needs():
    code = (
        "import sys, numpy; from capplan.questions.demand.growth import _theta; assert _theta(numpy.arange(1.0, {}.0), 12, 12) is not None;"
        " from capplan.questions.demand.candidates import level_candidates; level_candidates(3)['arima'](numpy.sin(numpy.arange(30.0)), 3);"
        " print([m for m in ('statsforecast', 'scipy.stats', 'statsmodels.api', 'numba', 'dask.dataframe', 'formulaic')"
        " if m in sys.modules])"
    )
    # months that show no season need no test of one
    for periods, loaded in ((19, "['statsforecast']"), (49, "['statsforecast', 'scipy.stats']")):
        ran = subprocess.run([sys.executable, "-c", code.format(periods)], capture_output=True, text=True, check=True)
        assert ran.stdout.strip() == loaded


def test_what_is_loaded_later_is_what_it_stands_for():
    code = (
        "import numpy; from capplan.loading import quickly; m = quickly('statsforecast.models'); import scipy.stats, statsmodels.api as sm;"
        " from statsforecast.arima import norm; from statsforecast.theta import acf; from statsforecast.arima import sm as theirs;"
        " assert norm.ppf(0.9) == scipy.stats.norm.ppf(0.9);"
        " y = numpy.random.default_rng(0).normal(size=30); assert (acf(y, nlags=3) == sm.tsa.acf(y, nlags=3)).all();"
        " assert (theirs.OLS(y, sm.add_constant(y[::-1])).fit().params == sm.OLS(y, sm.add_constant(y[::-1])).fit().params).all()"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_headless_notebook_loads_no_widgets():
    code = (
        "import sys; from capplan import check_parameters, explore, meeting, open_book, show_plan; assert meeting(None, None) is None;"
        " print([m for m in ('ipywidgets', 'lark', 'openai', 'altair', 'scipy', 'capplan.questions', 'capplan.optimize')"
        " if m in sys.modules])"
    )
    headless = {**os.environ, "CAPPLAN_HEADLESS": "1"}
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=headless)
    assert ran.stdout.strip() == "[]"


def test_what_checks_json_is_loaded_without_the_grammar_of_addresses():
    code = (
        "import sys, capplan.outputs.charts as charts; from capplan.outputs.run.notebooks import asked_by, notebook_of;"
        " from capplan.outputs.charts.altair_quickly import alt; alt.Chart; asked_by(notebook_of('plan'));"
        " print([m for m in ('altair', 'nbformat', 'jsonschema', 'rfc3987_syntax', 'rfc3986_validator') if m in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    assert found == "['altair', 'nbformat', 'jsonschema']"


def test_public_names_exist():
    import capplan

    for name in dir(capplan):
        assert getattr(capplan, name) is not None
    with pytest.raises(AttributeError):
        capplan.no_such_name  # noqa: B018


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_module_has_one_subject(path):
    text = path.read_text(encoding="utf-8")
    assert text.count("\n") <= 400, "a module above 400 lines holds two subjects"
    assert "TYPE_CHECKING" not in text
    assert not re.search(r"\b(TODO|FIXME|XXX|HACK)\b", text)


#: Parameters and lines of code (docstring aside) that a function may have.
MOST_PARAMETERS, MOST_LINES = 7, 60


def test_functions_are_narrow_and_short():
    wide, long = set(), set()
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.FunctionDef):
                continue
            name = f"{path.relative_to(ROOT / 'capplan').as_posix()}:{node.name}"
            given = [one for one in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs) if one.arg not in ("self", "cls")]
            told = (ast.get_docstring(node, clean=False) or "").count("\n") + 1
            wide |= {name} if len(given) > MOST_PARAMETERS else set()
            long |= {name} if (node.end_lineno or 0) - node.lineno + 1 - told > MOST_LINES else set()
    assert not wide, f"take what belongs together as one: {sorted(wide)}"
    assert not long, f"give a part of it a name: {sorted(long)}"


def test_no_module_needs_one_that_needs_it():
    graph = grimp.build_graph("capplan", cache_dir=None)
    needs = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    TopologicalSorter(needs).prepare()  # names a circle, if there is one


def test_questions_have_no_back_doors_and_no_module_takes_anothers_private_name():
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("capplan"):
                private = [one.name for one in node.names if one.name.startswith("_") and not one.name.startswith("__")]
                assert not private or path.parent.name == "cluster", f"{path.name}: {private}"
            if isinstance(node, ast.FunctionDef) and "questions" in path.parts and not node.name.startswith("_"):
                assert not (node.args.vararg and node.args.vararg.arg in ("args", "rest", "tables")), f"{path.name}:{node.name}"
                assert not (node.args.kwarg and node.args.kwarg.arg in ("kwargs", "more", "tables")), f"{path.name}:{node.name}"


def _calls(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
            yield name, node


def test_nothing_executes_text():
    for path in MODULES:
        for name, node in _calls(path):
            plain = isinstance(node.func, ast.Name)
            assert not (plain and name in ("eval", "exec", "compile", "__import__")), f"{path.name}:{node.lineno}"
            assert not (name == "load" and isinstance(node.func, ast.Attribute) and getattr(node.func.value, "id", "") == "yaml"), path.name
            assert name not in ("unsafe_load", "full_load"), path.name


def test_questions_read_no_clock_and_no_files():
    for path in (ROOT / "capplan" / "questions").rglob("*.py"):
        for name, node in _calls(path):
            owner = getattr(getattr(node.func, "value", None), "id", "")
            assert name not in ("today", "now", "utcnow", "read_csv", "read_parquet", "open"), f"{path.name}:{node.lineno}"
            assert owner != "time" or name == "perf_counter", f"{path.name}:{node.lineno}"


def test_tables_that_were_written_are_read_where_their_texts_become_what_they_were():
    own = {"inert.py", "reader.py"}
    for path in MODULES:
        for name, node in _calls(path):
            assert name != "read_csv" or path.name in own or "ingest" in path.parts, (
                f"{path.name}:{node.lineno}: take capplan.inert.read_table"
            )


def test_rows_are_read_by_records_alone():
    """What pandas does for it takes up to fifty times as long on the small tables of a book."""
    for path in MODULES:
        for name, node in _calls(path):
            given = [getattr(each, "value", "") for each in (*node.args, *(keyword.value for keyword in node.keywords))]
            assert name != "to_dict" or "records" not in given, f"{path.name}:{node.lineno}: take capplan.records"


def test_only_widgets_imports_ipywidgets():
    for path in MODULES:
        if path.parent.name == "lab":
            continue
        assert "ipywidgets" not in path.read_text(encoding="utf-8"), path.name


@pytest.mark.parametrize("path", sorted((ROOT / "notebooks").glob("*.ipynb")), ids=lambda path: path.stem)
def test_notebooks_are_thin(path):
    from capplan.book.scenario import Scenario

    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    tagged = [cell for cell in code if "parameters" in cell["metadata"].get("tags", [])]
    assert len(tagged) == 1
    assert "".join(cells[0]["source"]).startswith("# ")
    assert "?" in "".join(cells[0]["source"]).splitlines()[0], "the title is the question"
    appendix = next(place for place, cell in enumerate(cells) if "".join(cell["source"]).startswith("## Appendix"))
    moved = [place for place, cell in enumerate(cells) if "".join(cell["source"]).startswith(("explore(", "meeting("))]
    assert moved[0] < appendix or path.stem == "00_start_here", "what can be moved stands before what can be looked up"
    for cell in code:
        source = "".join(cell["source"])
        assert cell["outputs"] == []
        assert cell["execution_count"] is None
        assert source.count("\n") < 8
        for node in ast.walk(ast.parse(source)):
            assert not isinstance(node, (ast.FunctionDef, ast.Lambda, ast.For, ast.While, ast.If, ast.BinOp, ast.ListComp, ast.With)), (
                source
            )
    for line in "".join(tagged[0]["source"]).splitlines():
        name, unit = re.match(r"(\w+): \w+ = None  # (\[[^\]]+\] .+|further assumptions by name)", line).groups()
        assert name in Scenario.model_fields or name in ("book", "more"), name
        assert unit


@pytest.mark.parametrize("path", sorted((ROOT / "notebooks").glob("*.ipynb")), ids=lambda path: path.stem)
def test_papermill_sees_every_parameter_with_type_and_help(path):
    import papermill

    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    source = next("".join(cell["source"]) for cell in cells if "parameters" in cell["metadata"].get("tags", []))
    found = papermill.inspect_notebook(str(path))
    # papermill drops a line with a second equals sign, help text included
    assert list(found) == [line.split(":")[0] for line in source.splitlines()]
    assert all(entry["inferred_type_name"] and entry["help"] for entry in found.values())


def test_the_lock_holds_names_and_versions_only():
    for line in (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines():
        assert re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.!+-]+( ; .+)?", line), line


def test_no_download_address_and_no_machine_path_in_any_committed_file():
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("this is not a git checkout")
    for name in some(listed.stdout.split()):
        if name.endswith((".png", ".svg", ".csv", ".ipynb")):
            continue
        text = (ROOT / name).read_text(encoding="utf-8", errors="replace")
        assert not re.search(r"https?://[^\s)\"']*(pypi|pythonhosted|npmjs|cdn|jsdelivr|unpkg)", text), name
        assert not re.search(r"[\s\"'(=](/work|/tmp|/root|/home|/Users)/\w", text), name


def test_what_is_nearest_goes_on_behind_a_semicolon_or_is_a_sentence_of_its_own():
    """`nearest` is part of a sentence and ends with its question mark; behind a full stop stands `suggestion`."""
    for path in (ROOT / "capplan").rglob("*.py"):
        for node in (each for each in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(each, ast.JoinedStr)):
            before = ""
            for part in node.values:
                called = part.value.func if isinstance(part, ast.FormattedValue) and isinstance(part.value, ast.Call) else None
                if isinstance(called, ast.Name) and called.id in ("nearest", "suggestion"):
                    assert before.endswith("; ") is (called.id == "nearest"), (path.name, node.lineno, before)
                before = str(part.value) if isinstance(part, ast.Constant) else ""
