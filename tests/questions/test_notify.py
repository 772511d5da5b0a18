"""A run tells others how it went, and whether the decision changed, by a command of theirs and an exit code of its own."""

from __future__ import annotations

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import ClassVar

import pytest

from capplan.cli import main
from capplan.errors import CapplanError
from capplan.outputs.run.notify import notify, signatures_in

RECORD = "import os, sys; open(sys.argv[1], 'a').write(os.environ['CAPPLAN_EVENT'] + ' ' + sys.stdin.read() + chr(10))"


def decisions(folder, *rows):
    (folder / "tables").mkdir(parents=True, exist_ok=True)
    (folder / "tables" / "decisions.csv").write_text("firm,offer_id,quarter,machines\n" + "\n".join(rows) + "\n")
    return signatures_in(folder)


def test_only_what_is_signed_now_counts_as_the_decision(tmp_path):
    first = decisions(tmp_path, "True,a,2027Q1,4", "False,b,2027Q3,2")
    assert first == {("a", "2027Q1", 4.0)}
    assert decisions(tmp_path, "False,b,2027Q4,9", "True,a,2027Q1,4") == first
    assert decisions(tmp_path, "True,a,2027Q1,5") != first
    assert decisions(tmp_path, "True,a,2027Q2,4") != first
    assert signatures_in(tmp_path / "nowhere") is None
    (tmp_path / "tables" / "decisions.csv").write_text("not,a report\n1,2\n")
    assert signatures_in(tmp_path) is None


class Address(BaseHTTPRequestHandler):
    """Takes what is posted."""

    told: ClassVar[list[dict]] = []

    def do_POST(self):
        Address.told.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(500 if self.path == "/broken" else 204)
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.fixture
def address():
    server = HTTPServer(("127.0.0.1", 0), Address)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    Address.told.clear()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


def test_an_address_gets_the_same_and_its_secret_is_not_said(address):
    lines = []
    notify(f"{address}/hook/secret", "changed", {"headline": "Sign 1"}, lines.append)
    assert Address.told == [{"event": "changed", "headline": "Sign 1"}]
    assert lines == []
    notify(f"{address}/broken", "failure", {}, lines.append)
    assert lines == ["note: the address of --notify answered 500"]
    notify("http://127.0.0.1:1/hook/secret", "failure", {}, lines.append)
    assert "did not work" in lines[1]
    assert "secret" not in "".join(lines)


def test_a_failure_is_told_and_stays_one(tmp_path, monkeypatch, capsys):
    log = tmp_path / "log"
    monkeypatch.setattr(sys, "argv", ["capplan", "plan", str(tmp_path / "nowhere"), "--notify", f'{sys.executable} -c "{RECORD}" {log}'])
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 1
    assert log.read_text().startswith("failure ")
    assert "is not a folder" in json.loads(log.read_text().partition(" ")[2])["message"]


@pytest.mark.parametrize(("command", "said"), [("no-such-program-here", "did not work"), (f"{sys.executable} -c exit(3)", "ended with 3")])
def test_a_command_that_fails_is_said_and_changes_nothing(command, said):
    lines = []
    notify(command, "success", {}, lines.append)
    assert said in lines[0]


def test_no_shell_runs_the_command(tmp_path):
    lines = []
    notify(f"{sys.executable} -c pass ; touch {tmp_path / 'made'}", "success", {"headline": "$(touch x)"}, lines.append)
    assert not (tmp_path / "made").exists()
    with pytest.raises(CapplanError, match="quote it"):
        notify("'open", "success", {}, lines.append)
