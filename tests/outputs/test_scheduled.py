"""Runs that nobody watches: where their report goes, what is told, what is kept of them, and what a later run finds."""

from __future__ import annotations

import csv
import json
import math
import os
import sys
from types import SimpleNamespace

import fsspec
import pandas as pd
import pytest

from capplan.cli import main
from capplan.errors import CapplanError, ReportError
from capplan.outputs.page.difference_page import difference_page, signed_apart, spend_apart
from capplan.outputs.run import scheduled
from capplan.outputs.run.report import seconds_of
from capplan.outputs.run.run_history import COLUMNS, latest_report, point_to, record_run
from capplan.outputs.run.scheduled import scheduled_plan
from capplan.outputs.run.stopping import Stopped
from capplan.outputs.run.stores import reports_in
from tests.questions.test_board import TABLES

RECORD = "import os, sys; open(sys.argv[1], 'a').write(os.environ['CAPPLAN_EVENT'] + ' ' + sys.stdin.read() + chr(10))"


def lay(folder, machines=4.0, usd=100.0, headline="Sign $1 <b>now</b>", **parameters):
    """Write what a report holds at least."""
    (folder / "tables").mkdir(parents=True, exist_ok=True)
    (folder / "tables" / "decisions.csv").write_text(f"firm,offer_id,quarter,machines\nTrue,a,2027Q1,{machines}\nFalse,b,2027Q2,9\n")
    (folder / "tables" / "spend.csv").write_text(f"quarter,expected_usd,kind\n2027Q1,{usd},x\n2027Q2,50,x\n")
    run = {"book": "tiny", "headline": headline, "parameters": {"seed": 1, **parameters}, "digests": {"usage": str(usd)}}
    (folder / "run.json").write_text(json.dumps(run))
    return folder


def plan_of(headline):
    """Stand for a plan of one contract that is to be signed."""
    bought = SimpleNamespace(
        alternatives=pd.DataFrame({"name": ["plan"], "expected_usd": [1234.5]}),
        verdicts=pd.DataFrame([{"offer_id": "a", "saves_usd": math.inf}]),
        proof=SimpleNamespace(gap_share=0.001),
    )
    return SimpleNamespace(headline=headline, purchases=bought, scenario=SimpleNamespace(currency="USD", as_of="2026-12-01"))


def made(book, values, place, say, depth, *, changed=False):
    """Stand for `write_report`: a report of one contract."""
    target = lay(place / "tiny" / "2027Q1")
    if changed:
        (target / "changed.html").write_text("changed")
    point_to(target)
    plan = plan_of("Sign $1; rm -rf `x`")
    return SimpleNamespace(plan=plan, scenario={"as_of": "2026-12-01"}, tables={}, warnings=(), folder=target, changed=changed)


def rows_of(file):
    return list(csv.DictReader(file.read_text().splitlines()))


@pytest.mark.parametrize(("changed", "event", "code"), [(False, "success", 0), (True, "changed", 9)])
def test_success_and_a_changed_decision_are_told_and_kept(tmp_path, monkeypatch, capsys, changed, event, code):
    monkeypatch.setattr(scheduled, "write_report", lambda *given: made(*given, changed=changed))
    log, words = tmp_path / "log", ["capplan", "plan", "tiny", "--out", str(tmp_path / "out"), "--changed-code", "9"]
    monkeypatch.setattr(sys, "argv", [*words, "--notify", f'{sys.executable} -c "{RECORD}" {log}'])
    with pytest.raises(SystemExit) as stop:
        main()
    assert int(stop.value.code or 0) == code
    assert "a: Sign: without it there is no plan that keeps all limits." in capsys.readouterr().out
    name, _, told = log.read_text().partition(" ")
    assert name == event
    report = f"{tmp_path}/out/tiny/2027Q1"
    more = {"difference": f"{report}/changed.html"} if changed else {}
    assert json.loads(told) == {"event": event, "book": "tiny", "headline": "Sign $1; rm -rf `x`", "report": report, **more}
    (line,) = rows_of(tmp_path / "out" / "tiny" / "history.csv")
    assert (line["event"], line["report"], line["expected_usd"], line["said"]) == (event, "2027Q1", "1234.50", "Sign $1; rm -rf `x`")
    assert os.readlink(tmp_path / "out" / "tiny" / "latest") == "2027Q1"


@pytest.mark.parametrize("raised", [CapplanError("no price"), ZeroDivisionError("division by zero"), Stopped(15)])
def test_every_kind_of_end_is_told_and_kept(tmp_path, monkeypatch, raised):
    def fail(*_):
        raise raised

    monkeypatch.setattr(scheduled, "write_report", fail)
    log = tmp_path / "log"
    for _ in range(2):
        with pytest.raises(type(raised)):
            scheduled_plan(tmp_path / "tiny", {}, str(tmp_path), "quick", told=f'{sys.executable} -c "{RECORD}" {log}', say=lambda _: None)
        (tmp_path / "tiny").mkdir(exist_ok=True)
    said = [json.loads(line.partition(" ")[2])["message"] for line in log.read_text().splitlines()]
    assert len(said) == 2
    assert said[0] in ("no price", "internal error (ZeroDivisionError: division by zero)", raised.said if hasattr(raised, "said") else "")
    # the first failure made no folder for itself
    assert [line["event"] for line in rows_of(tmp_path / "tiny" / "history.csv")] == ["failure"]


def test_who_is_told_is_known_before_anything_is_computed(tmp_path, monkeypatch):
    monkeypatch.setattr(scheduled, "write_report", lambda *_: pytest.fail("it was computed"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "not-to-be-run").touch(0o644)
    for told, said in (
        ("'open", "quote it"),
        ("tell-the-tean --loud", "tell-the-tean is no program"),
        ("./not-to-be-run", "is no program"),
    ):
        with pytest.raises(CapplanError, match=said):
            scheduled_plan(tmp_path, {}, str(tmp_path), "quick", told=told, say=print)


def test_a_history_is_one_inert_line_a_run(tmp_path):
    record_run(tmp_path / "nowhere", {"event": "failure"})
    assert not (tmp_path / "nowhere").exists()
    record_run(tmp_path, {"event": "failure", "said": "=HYPERLINK(1)\nand more, of it"})
    record_run(tmp_path, {"event": "success"})
    lines = (tmp_path / "history.csv").read_text().splitlines()
    assert lines[0] == ",".join(COLUMNS)
    first, second = rows_of(tmp_path / "history.csv")
    assert first["said"] == "'=HYPERLINK(1) and more, of it"
    assert second["event"] == "success"


def test_the_pointer_leads_to_the_report_that_was_finished_last(tmp_path, monkeypatch):
    assert latest_report(tmp_path) is None
    for quarter in ("2027Q1", "2027Q2"):
        point_to(lay(tmp_path / quarter))
        assert latest_report(tmp_path) == tmp_path / quarter
        assert (tmp_path / "latest" / "run.json").is_file()
    monkeypatch.setattr("pathlib.Path.symlink_to", lambda *_, **__: (_ for _ in ()).throw(OSError("no links here")))
    point_to(tmp_path / "2027Q1")
    assert (tmp_path / "latest").read_text() == "2027Q1"
    assert latest_report(tmp_path) == tmp_path / "2027Q1"
    (tmp_path / "latest").write_text("../../etc")
    assert latest_report(tmp_path) is None


def test_the_page_of_differences_by_hand(tmp_path):
    before, after = lay(tmp_path / "a"), lay(tmp_path / "b", machines=6.0, usd=130.0, headline="Sign <script>", seed=2)
    signed = signed_apart(*(pd.read_csv(each / "tables" / "decisions.csv") for each in (before, after)))
    assert signed.to_numpy().tolist() == [["a", "2027Q1", 4.0, 6.0]]
    spent = spend_apart(*(pd.read_csv(each / "tables" / "spend.csv") for each in (before, after)))
    assert spent.to_numpy().tolist() == [["2027Q1", "expected_usd", 100.0, 130.0]]
    page = difference_page(before, after)
    assert "Tables that changed: usage." in page
    assert "Sign $1 &lt;b&gt;now&lt;/b&gt;" in page
    assert "<script>" not in page
    same = difference_page(before, before)
    assert "No table changed." in same
    assert "differ" not in same


@pytest.mark.parametrize("kind", ["memory", "file"])
def test_a_report_goes_to_any_store_and_a_later_run_reads_it_there(tmp_path, monkeypatch, kind):
    out = f"memory://{tmp_path.name}" if kind == "memory" else f"file://{tmp_path}/store"
    seen = []

    def write(book, values, place, say, depth):
        found = latest_report(place / "tiny")
        seen.append(found and json.loads((found / "run.json").read_text())["book"])
        return made(book, values, place, say, depth)

    monkeypatch.setattr(scheduled, "write_report", write)
    for _ in range(2):
        _, where = scheduled_plan(tmp_path / "tiny", {}, out, "quick", say=lambda _: None)
    assert seen == [None, "tiny"]
    assert where == f"{out}/tiny/2027Q1" if kind == "memory" else where.endswith("/store/tiny/2027Q1")
    store, root = fsspec.core.url_to_fs(out)
    assert len(store.cat_file(f"{root}/tiny/history.csv").decode().splitlines()) == 3
    assert store.exists(f"{root}/tiny/2027Q1/tables/decisions.csv")
    assert not [name for name in store.find(root) if ".probe-" in name]


def test_what_an_old_report_had_more_is_gone_and_its_seal_comes_last(tmp_path, monkeypatch):
    store = fsspec.filesystem("memory")
    root = f"/{tmp_path.name}"
    for name in ("run.json", "old.csv"):
        store.pipe_file(f"{root}/tiny/2027Q1/{name}", b"{}")
    order, pipe = [], store.pipe_file
    monkeypatch.setattr(store, "pipe_file", lambda path, value: (order.append(path), pipe(path, value)))
    with reports_in(f"memory:/{root}", "tiny") as place:
        lay(place / "tiny" / "2027Q1")
    assert not store.exists(f"{root}/tiny/2027Q1/old.csv")
    assert order[-1].endswith("2027Q1/run.json")


@pytest.mark.parametrize(("out", "said"), [("nosuch://a/b", "Protocol not known"), ("memory://full", "cannot be used .*no room")])
def test_a_store_that_cannot_be_used_is_one_message_before_anything_is_computed(tmp_path, monkeypatch, out, said):
    def refuse(*_, **__):
        raise OSError("no room")

    monkeypatch.setattr(fsspec.filesystem("memory"), "pipe_file", refuse)
    monkeypatch.setattr(scheduled, "write_report", lambda *_: pytest.fail("it was computed"))
    with pytest.raises(ReportError, match=said):
        scheduled_plan(tmp_path / "tiny", {}, out, "quick", say=lambda _: None)


def test_how_long_it_takes_comes_from_a_run_of_the_same_depth(tmp_path):
    (tmp_path / "run.json").write_text(json.dumps({"seconds": {"deciding": 60}, "depth": "quick"}))
    assert seconds_of(tmp_path, "quick") == {"deciding": 60.0}
    assert seconds_of(tmp_path, "usual") == {}
    (tmp_path / "run.json").write_text("[]")
    assert seconds_of(tmp_path, "quick") == {}
    assert seconds_of(tmp_path / "nowhere", "quick") == {}


@pytest.mark.slow
def test_a_plan_in_a_store_is_the_plan_in_a_folder(tmp_path):
    folder = tmp_path / "steady"
    folder.mkdir()
    for name, text in TABLES.items():
        (folder / (f"{name}.yaml" if name == "book" else f"{name}.csv")).write_text(text)
    scheduled_plan(folder, {}, str(tmp_path / "out"), "quick", say=lambda _: None)
    report, where = scheduled_plan(folder, {}, f"memory://{tmp_path.name}", "quick", say=lambda _: None)
    assert not report.changed
    store = fsspec.filesystem("memory")
    local = tmp_path / "out" / "steady" / "2027Q1"
    tables = sorted(path.name for path in (local / "tables").iterdir())
    assert tables == sorted(name.rsplit("/", 1)[1] for name in store.find(f"{where.removeprefix('memory:/')}/tables"))
    for name in tables:
        assert store.cat_file(f"{where.removeprefix('memory:/')}/tables/{name}") == (local / "tables" / name).read_bytes(), name
    again, _ = scheduled_plan(folder, {"demand_factor": 2.0}, f"memory://{tmp_path.name}", "quick", say=lambda _: None)
    assert again.changed
    assert b"demand_factor" in store.cat_file(f"{where.removeprefix('memory:/')}/changed.html")


def test_a_signature_in_several_parts_counts_as_their_sum():
    def signed(*rows):
        return pd.DataFrame(
            [("year", "2027Q1", machines, firm) for machines, firm in rows], columns=["offer_id", "quarter", "machines", "firm"]
        )

    assert signed_apart(signed((2.0, True), (3.0, True)), signed((5.0, True), (9.0, False))).empty
    (row,) = signed_apart(signed((2.0, True), (3.0, True)), signed((4.0, True))).to_dict("records")
    assert (row["machines_before"], row["machines_after"]) == (5.0, 4.0)
