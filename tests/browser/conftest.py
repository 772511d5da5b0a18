"""A JupyterLab server without network and a Chromium that reaches nothing but it."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import pytest

from tests.conftest import ROOT

SHOTS = ROOT / "test-output" / "browser"
CHROMIUM = ("/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome")
#: What a laptop or a projector shows.
SCREEN = {"width": 1440, "height": 900}
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    # No name but this machine's own resolves: a page that needs the network shows it by failing.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE localhost, EXCLUDE 127.0.0.1",
]
SETTINGS = {
    # Cells outside the window keep their output in the page, so that a test sees the whole notebook.
    "@jupyterlab/notebook-extension/tracker.jupyterlab-settings": {"windowingMode": "none"},
    "@jupyterlab/apputils-extension/notification.jupyterlab-settings": {
        "fetchNews": "false",
        "checkForUpdates": False,
        "doNotDisturbMode": True,
    },
}


def chromium() -> str:
    """Return Debian's Chromium; skip where it is absent, fail where a build server must have it."""
    return next((path for path in CHROMIUM if Path(path).exists()), "") or needed("Chromium (Debian package chromium)")


def needed(what: str) -> NoReturn:
    """Skip a test for want of a program; fail it where a build server must have it."""
    message = f"{what} is not on this machine; this test needs it"
    if os.environ.get("CI") == "true":
        pytest.fail(message)
    pytest.skip(message)


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Start Chromium once, with an empty profile."""
    path = chromium()
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=path, args=FLAGS, headless=True)
        yield found
        found.close()


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    """Open an empty page and note what it asks of hosts that are not this machine."""
    context = browser.new_context(viewport=SCREEN)
    found = context.new_page()
    found.foreign, found.faults = [], []
    found.on("pageerror", lambda error: found.faults.append(str(error)))
    found.on("request", lambda request: None if _is_local(request.url) else found.foreign.append(request.url))
    yield found
    context.close()


def _is_local(address: str) -> bool:
    return address.split(":", 1)[0] in ("data", "blob", "file", "about", "chrome-error") or address.split("//", 1)[-1].startswith(
        ("127.0.0.1", "localhost")
    )


@dataclass(frozen=True)
class Lab:
    """A running server.

    Parameters
    ----------
    address, token
        How to reach it.
    folder
        Its notebooks.
    """

    address: str
    token: str
    folder: Path

    def open(self, page: Any, notebook: str) -> None:
        """Open a notebook in a workspace of its own and wait until its kernel is ready."""
        workspace = f"test-{secrets.token_hex(4)}"
        page.goto(f"{self.address}/lab/workspaces/{workspace}/tree/{notebook}?token={self.token}&reset")
        page.wait_for_function(
            """name => { const app = window.jupyterapp; const widget = app && app.shell.currentWidget;
                return !!(widget && widget.context && widget.context.path.endsWith(name) && widget.context.isReady
                && widget.sessionContext.session?.kernel?.status === 'idle'); }""",
            arg=notebook.rsplit("/", maxsplit=1)[-1],
            timeout=90_000,
        )
        page.evaluate("() => window.jupyterapp.commands.execute('application:toggle-left-area')")

    def run_all(self, page: Any, seconds: int = 300) -> None:
        """Run every cell and wait until the last has run or one has failed."""
        page.evaluate(
            "() => { window.ran = false; window.jupyterapp.commands.execute('notebook:run-all-cells').then(() => { window.ran = true; }); }"
        )
        page.wait_for_function("() => window.ran", timeout=seconds * 1000)
        page.wait_for_function(
            "() => window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.status === 'idle'", timeout=seconds * 1000
        )

    def all_cells(self, page: Any) -> list[dict[str, Any]]:
        """Return every cell as the notebook's file would hold it."""
        return page.evaluate("() => window.jupyterapp.shell.currentWidget.content.model.toJSON().cells")

    def cells(self, page: Any) -> list[dict[str, Any]]:
        """Return source, number of run and outputs of every code cell."""
        return page.evaluate(
            """() => window.jupyterapp.shell.currentWidget.content.model.toJSON().cells.filter(cell => cell.cell_type === 'code')
                .map(cell => ({source: [].concat(cell.source).join(''), count: cell.execution_count, outputs: cell.outputs}))"""
        )


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory, book: Path) -> Iterator[Lab]:
    """Start JupyterLab on copies of the notebooks, with settings and folders of its own."""
    chromium()
    base = tmp_path_factory.mktemp("lab")
    folder = base / "notebooks"
    shutil.copytree(ROOT / "notebooks", folder)
    for name, values in SETTINGS.items():
        file = base / "settings" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(values))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    token = secrets.token_hex(16)
    own = {f"JUPYTER_{name}_DIR": str(base / name.lower()) for name in ("CONFIG", "DATA", "RUNTIME")}
    own |= {"JUPYTERLAB_SETTINGS_DIR": str(base / "settings"), "JUPYTERLAB_WORKSPACES_DIR": str(base / "workspaces"), "HOME": str(base)}
    own |= {"CAPPLAN_BOOK": str(book), "IPYTHONDIR": str(base / "ipython"), "PYDEVD_DISABLE_FILE_VALIDATION": "1"}
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("JUPYTER", "CAPPLAN_HEADLESS"))} | own
    command = [
        sys.executable,
        "-m",
        "jupyterlab",
        "--no-browser",
        "--allow-root",
        "--ip=127.0.0.1",
        f"--port={port}",
        "--ServerApp.port_retries=0",
    ]
    command += [f"--IdentityProvider.token={token}", f"--ServerApp.root_dir={folder}", "--LabApp.expose_app_in_browser=True"]
    with (base / "lab.log").open("w") as log:
        server = subprocess.Popen(command, env=environment, stdout=log, stderr=subprocess.STDOUT, cwd=folder)
        try:
            found = Lab(f"http://127.0.0.1:{port}", token, folder)
            _wait_for(found, server, base / "lab.log")
            yield found
        finally:
            server.terminate()
            try:
                server.wait(20)
            except subprocess.TimeoutExpired:
                server.kill()


@pytest.fixture(scope="session")
def steady(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a book of steady work, whose plan takes a second."""
    from tests.questions.test_board import TABLES

    folder = tmp_path_factory.mktemp("books") / "steady"
    folder.mkdir()
    for name, text in TABLES.items():
        (folder / (f"{name}.yaml" if name == "book" else f"{name}.csv")).write_text(text)
    return folder


@pytest.fixture(scope="session")
def dashboard(tmp_path_factory: pytest.TempPathFactory, steady: Path) -> Iterator[Lab]:
    """Serve the small book of steady work behind a path, with `capplan app`."""
    chromium()
    base, token = tmp_path_factory.mktemp("app"), secrets.token_hex(16)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "capplan.cli", "app", str(steady), f"--port={port}", "--base-url=/plans/"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("JUPYTER", "CAPPLAN_HEADLESS"))}
    environment |= {
        "JUPYTER_TOKEN": token,
        "HOME": str(base),
        "IPYTHONDIR": str(base),
        "TMPDIR": str(base),
        "JUPYTER_CONFIG_DIR": str(base),
    }
    with (base / "app.log").open("w") as log:
        server = subprocess.Popen(command, env=environment, stdout=log, stderr=subprocess.STDOUT)
        try:
            found = Lab(f"http://127.0.0.1:{port}/plans", token, base)
            _wait_for(found, server, base / "app.log", path="/")
            yield found
        finally:
            server.terminate()
            try:
                server.wait(20)
            except subprocess.TimeoutExpired:
                server.kill()


@pytest.fixture(scope="session")
def report(tmp_path_factory: pytest.TempPathFactory, book: Path) -> Path:
    """Make the report of the small book."""
    from capplan.outputs.run.report import write_report

    chromium()
    return write_report(book, {}, tmp_path_factory.mktemp("reports"), lambda _: None).folder


def _wait_for(lab: Lab, server: subprocess.Popen[bytes], log: Path, seconds: float = 90, path: str = "/api/status") -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if server.poll() is not None:
            break
        try:
            with urllib.request.urlopen(f"{lab.address}{path}?token={lab.token}", timeout=2):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.3)
    pytest.fail(f"the server did not start:\n{log.read_text()[-2000:]}")


@pytest.fixture(scope="session")
def book(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copy the example book with a short horizon and few paths, so that a plan takes seconds."""
    import yaml

    book = tmp_path_factory.mktemp("books") / "small"
    shutil.copytree(ROOT / "data" / "enterprise", book)
    entries = yaml.safe_load((book / "book.yaml").read_text(encoding="utf-8"))
    entries |= {"horizon_quarters": 2, "paths": 20, "plan_paths": 10, "load_blocks": 2, "gap_share": 0.02, "flip_search": False}
    (book / "book.yaml").write_text(yaml.safe_dump(entries), encoding="utf-8")
    return book


@pytest.fixture
def shot(request: pytest.FixtureRequest) -> Any:
    """Return a function that keeps a picture of the page, of a part of it, or of all of a notebook."""
    SHOTS.mkdir(parents=True, exist_ok=True)

    def keep(page: Any, name: str, *, tall: bool = False, part: str = "") -> Path:
        path = SHOTS / f"{name}.png"
        if tall:
            height = page.evaluate(
                "() => Math.max(...[...document.querySelectorAll('.jp-Notebook .jp-WindowedPanel-outer, .jp-Notebook')].map(part =>"
                " part.scrollHeight), 0)"
            )
            page.set_viewport_size({"width": SCREEN["width"], "height": int(min(height + 160, 12_000))})
            page.wait_for_timeout(500)
        if part:
            height = page.evaluate("part => document.querySelector(part).scrollHeight", part)
            page.set_viewport_size({"width": SCREEN["width"], "height": int(min(height + 200, 12_000))})
            page.wait_for_timeout(500)
            page.locator(part).first.screenshot(path=str(path))
        else:
            page.screenshot(path=str(path), full_page=True)
        page.set_viewport_size(SCREEN)
        return path

    return keep
