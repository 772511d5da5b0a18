"""The main job: whole or not at all, the same twice, inert, and strict about what it is given."""

from __future__ import annotations

import html
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import openpyxl
import pandas as pd
import pytest

from capplan.book.book import load_book
from capplan.errors import CapplanError, ReportError, ScenarioError
from capplan.outputs.run.folders import replaced_whole
from capplan.outputs.run.notebooks import execute, notebook_of, notebook_parameters
from capplan.outputs.run.report import write_report
from capplan.outputs.views.plan import show_procurement
from capplan.questions.procurement.explain.alternatives import SHOWN
from capplan.text import words
from tests.conftest import CONTRACTS, ROOT, SKUS, SOURCES

OFFERS = (
    "offer_id,sku,region,geography,term,usd_per_hour,lead_time_days_p50,discounts,guarantees_capacity,as_of,source_id\n"
    "od,test.8x,us-1,us,on_demand,32,0,none,false,2026-12-01,s1\n"
    "one,test.8x,us-1,us,reserved_1y,20,30,units,true,2026-12-01,s1\n"
)
NASTY = "<script>alert(1)</script>"
FORMULA = "=HYPERLINK(1)"
STATED = "scenario,probability,workload,quarter,quantity\n" + "".join(
    f"{name},{p},{work},2027Q{q},{size * q}\n"
    for name, p, s in (("low", 0.5, 1.0), ("high", 0.5, 1.6))
    for work, size in ((NASTY, 60000 * s), (FORMULA, 20000 * s))
    for q in (1, 2, 3)
)
BOOK = "name: A <b>small</b> book\nas_of: 2026-12-01\nfirst_quarter: 2027Q1\nhorizon_quarters: 3\nproviders: [aws]\n"


@pytest.fixture
def small(make_book) -> Path:
    return make_book(
        demand_scenarios=STATED,
        commitments=CONTRACTS.replace("2026-12-31", "2027-06-30"),
        skus=SKUS,
        sources=SOURCES,
        offers=OFFERS,
        book=BOOK,
    )


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


#: A horizon on which a plan of the whole example takes seconds.
SHORT = {"horizon_quarters": 3, "paths": 20, "plan_paths": 10, "load_blocks": 2, "gap_share": 0.01}


def two_contracts_and_four_offers(small: Path) -> Path:
    for name, more in (("commitments", {"commitment_id": "a-second"}), ("offers", {"offer_id": "a-first"}), ("offers", {"offer_id": "z"})):
        frame = pd.read_csv(small / f"{name}.csv", dtype=str, keep_default_na=False)
        pd.concat([frame, frame.tail(1).assign(**more)]).to_csv(small / f"{name}.csv", index=False)
    return small


@pytest.mark.slow
@pytest.mark.parametrize(("of", "assumed"), [("small", {}), ("enterprise", SHORT)])
def test_rows_and_columns_of_a_book_in_another_order_make_the_same_tables(of, assumed, small, tmp_path, cold):
    """Every table of a report, byte for byte, also where several plans lie within the gap."""
    book = two_contracts_and_four_offers(small) if of == "small" else shutil.copytree(ROOT / "data" / of, tmp_path / of)
    first = write_report(book, assumed, tmp_path / "one", lambda _: None, "quick")
    for file in book.glob("*.csv"):
        frame = pd.read_csv(file, dtype=str, keep_default_na=False)
        frame.sample(frac=1, random_state=len(frame)).iloc[:, ::-1].to_csv(file, index=False)
    cold()
    again = write_report(book, assumed, tmp_path / "two", lambda _: None, "quick")
    tables, others = ({name: data for name, data in files(report.folder).items() if name.endswith(".csv")} for report in (first, again))
    assert len(tables) > 40
    assert [name for name in tables if tables[name] != others.get(name)] == []


@pytest.mark.slow
def test_report_is_whole_repeatable_and_inert(small, tmp_path, cold):
    first = write_report(small, {}, tmp_path / "one", lambda _: None)
    names = set(files(first.folder))
    assert {
        "plan.html",
        "plan.xlsx",
        "budget.csv",
        "plan.ipynb",
        "run.json",
        "tables/purchases.csv",
        "tables/costs.csv",
        "charts/capacity.svg",
        "charts/capacity.png",
    } <= names
    assert first.folder == tmp_path / "one" / "tiny" / "2027Q1"
    cold()
    again = write_report(small, {}, tmp_path / "two", lambda _: None)
    tables = {name: data for name, data in files(first.folder).items() if name.startswith(("tables/", "charts/"))}
    assert tables == {name: data for name, data in files(again.folder).items() if name in tables}
    page = (first.folder / "plan.html").read_text()
    assert "<script" not in page
    assert "<b>small" not in page
    for name, data in files(first.folder).items():
        if name.endswith(".csv"):
            assert b"\n=" not in data, name
            assert b",=" not in data, name
    run = json.loads((first.folder / "run.json").read_text())
    assert run["parameters"]["horizon_quarters"] == 3
    assert run["solver"]["gap_share"] <= run["parameters"]["gap_share"] + 1e-12
    assert run["digests"]["demand_scenarios"]
    assert run["seconds"]
    notebook = json.loads((first.folder / "plan.ipynb").read_text())
    shown = "".join(
        "".join(output.get("data", {}).get("text/html", "")) for cell in notebook["cells"] for output in cell.get("outputs", [])
    )
    assert html.escape(run["headline"].split(":")[0]) in shown
    assert "data:image/svg+xml;base64," in shown
    assert "<script>alert" not in shown
    # what is left behind in the folder of reports is the report alone, and what leads to it
    assert sorted(path.name for path in first.folder.parent.iterdir()) == ["2027Q1", "latest"]


def test_a_reader_is_shown_what_one_would_really_do_instead(make_book, tmp_path):
    """On the page, in the workbook and in the notebook; what other numbers come from stands in the file alone."""
    usage = "time,workload,region,quantity\n" + "".join(
        f"{day:%Y-%m-%d},serving,us,4800\n" for day in pd.date_range("2026-08-01", "2026-11-30")
    )
    work = (
        "workload,stage,unit,host,interruptible,deferrable,shortfall_usd_per_unit\nserving,serving,accelerator_hours,self,false,false,20\n"
    )
    speeds = "workload,accelerator,work_per_accelerator_hour,basis,as_of,source_id\nserving,H100,1,measured,2026-11-01,s1\n"
    limits = "limit_id,kind,amount,measure,hard\nb,budget_usd,600000,p_and_l,false\n"
    signed = CONTRACTS.replace("2026-12-31", "2027-06-30")
    named = {"commitments": signed, "skus": SKUS, "sources": SOURCES, "offers": OFFERS, "book": BOOK, "limits": limits}
    folder = make_book("shown", **named, usage=usage, workloads=work, speeds=speeds)
    report = write_report(folder, {}, tmp_path / "out", lambda _: None, "quick")
    table = pd.read_csv(report.folder / "tables" / "alternatives.csv")["name"]
    wanted = [name for name in SHOWN if name in set(table)]
    assert {"plan", "renew_all", "do_nothing", "look_back_30_days"} <= set(wanted)
    page = (report.folder / "plan.html").read_text()
    block = page[page.index("Each alternative was run over the same futures") :]
    rows = re.findall(r"<tr[^>]*>\s*<t[dh][^>]*>(.*?)</t[dh]>", block[block.index("Regret") :], re.DOTALL)
    assert [html.unescape(re.sub("<[^>]*>", "", row)).strip() for row in rows[: len(wanted) + 1]][1:] == [words(name) for name in wanted]
    sheets = openpyxl.load_workbook(report.folder / "plan.xlsx", read_only=True)
    cells = {str(cell) for sheet in sheets for row in sheet.iter_rows(values_only=True) for cell in row}
    for name in set(table) - set(wanted):
        assert words(name) not in html.unescape(page), name
        assert not {name, words(name)} & cells, name
    book = load_book(folder)
    assert show_procurement(book, book.scenario).details["compared"]["name"].tolist() == [words(name) for name in wanted]


def test_a_failed_run_leaves_the_old_report(small, tmp_path, monkeypatch):
    target = tmp_path / "reports" / "tiny" / "2027Q1"
    target.mkdir(parents=True)
    (target / "plan.html").write_text("the old one")
    monkeypatch.setattr("capplan.outputs.run.report.quarterly_plan", lambda *_: (_ for _ in ()).throw(CapplanError("no plan today")))
    with pytest.raises(CapplanError, match="no plan today"):
        write_report(small, {}, tmp_path / "reports", lambda _: None)
    assert files(target) == {"plan.html": b"the old one"}
    assert [path.name for path in target.parent.iterdir()] == ["2027Q1"]


def test_a_killed_run_leaves_the_old_report(small, tmp_path):
    target = tmp_path / "reports" / "tiny" / "2027Q1"
    target.mkdir(parents=True)
    (target / "plan.html").write_text("the old one")
    code = (
        "import sys, time, capplan.outputs.run.report as r\n"
        "def stuck(*_):\n"
        "    print('deep inside', flush=True); time.sleep(600)\n"
        "r.quarterly_plan = stuck\n"
        "r.write_report(__import__('pathlib').Path(sys.argv[1]), {}, __import__('pathlib').Path(sys.argv[2]), lambda _: None)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(small), str(tmp_path / "reports")], stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    assert process.stdout is not None
    assert process.stdout.readline().strip() == "deep inside"
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert files(target) == {"plan.html": b"the old one"}


def test_a_swap_that_was_cut_off_is_mended(tmp_path):
    target = tmp_path / "2027Q1"
    aside = tmp_path / ".2027Q1.before"
    aside.mkdir()
    (aside / "plan.html").write_text("the old one")
    with pytest.raises(RuntimeError), replaced_whole(target):
        raise RuntimeError("cut off again")
    assert files(target) == {"plan.html": b"the old one"}
    with replaced_whole(target) as draft:
        (draft / "plan.html").write_text("the new one")
    assert files(target) == {"plan.html": b"the new one"}
    assert [path.name for path in tmp_path.iterdir()] == ["2027Q1"]


def test_a_misspelt_parameter_fails_before_anything_runs(small, tmp_path):
    began = time.perf_counter()
    with pytest.raises(ScenarioError, match=r"risk_wieght is not an assumption; did you mean risk_weight\?"):
        write_report(small, {"risk_wieght": 1}, tmp_path / "reports", lambda _: None)
    assert not (tmp_path / "reports").exists()
    assert time.perf_counter() - began < 30


def test_a_parameter_that_is_no_assumption_is_refused(tmp_path):
    import nbformat

    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell("horizon_quartes: int = None  # [quarters] x", metadata={"tags": ["parameters"]})]
    )
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    path = tmp_path / "x.ipynb"
    nbformat.write(notebook, path)
    with pytest.raises(ReportError, match=r"horizon_quartes is not an assumption; did you mean horizon_quarters"):
        notebook_parameters(path, tmp_path, {})


def written(path: Path, *cells: str) -> Path:
    """Write a notebook of a parameter and these cells."""
    import nbformat

    parameters = nbformat.v4.new_code_cell("book: str = None", metadata={"tags": ["parameters"]})
    notebook = nbformat.v4.new_notebook(cells=[parameters, *map(nbformat.v4.new_code_cell, cells)])
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(notebook, path)
    return path


def test_a_failing_cell_is_one_line_and_leaves_no_file(tmp_path):
    out = tmp_path / "out" / "x.ipynb"
    with pytest.raises(ReportError, match="ZeroDivisionError: division by zero"):
        execute(written(tmp_path / "x.ipynb", "1 / 0"), {"book": "b"}, out)
    assert not out.parent.exists()


#: The interrupt that comes before a kernel's end, while the last answer to papermill is still on its way.
INTERRUPTED = """
import os, signal, time
handlers = get_ipython().kernel.shell_handlers
answer = handlers["kernel_info_request"]
async def interrupted(*words):
    await answer(*words)
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(5)
handlers["kernel_info_request"] = interrupted
"""


@pytest.mark.skipif(os.name != "posix", reason="signals are those of POSIX")
def test_a_run_that_succeeds_ends_without_an_error_of_its_kernel(tmp_path, capfd):
    assert execute(written(tmp_path / "x.ipynb", INTERRUPTED), {"book": "b"}, tmp_path / "out" / "x.ipynb").is_file()
    assert "ERROR" not in capfd.readouterr().err


def test_unlisted_assumptions_travel_in_more(tmp_path):
    found = notebook_parameters(notebook_of("plan"), tmp_path, {"risk_weight": 0.5, "pue": 1.2})
    assert found == {"book": str(tmp_path), "risk_weight": 0.5, "more": {"pue": 1.2}}
    with pytest.raises(CapplanError, match="did you mean plan"):
        notebook_of("plans")


@pytest.mark.parametrize(
    "values",
    [
        {"first_quarter": "CODE"},
        {"excluded_offers": ["CODE"]},
        {"more": "CODE"},
        {"changes": [{"table": "CODE", "key": "*", "column": "x", "set": 1}]},
    ],
)
def test_text_given_as_a_parameter_is_never_run(small, tmp_path, values):
    code = "__import__('pathlib').Path('pwned').touch()"
    with pytest.raises(CapplanError):
        write_report(small, json.loads(json.dumps(values).replace("CODE", code)), tmp_path / "reports", lambda _: None)
    assert not any(Path(folder, "pwned").exists() for folder in (Path.cwd(), tmp_path, ROOT))
    assert not (tmp_path / "reports" / "tiny" / "2027Q1").exists()
