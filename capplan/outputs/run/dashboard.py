"""The dashboard: the views of the notebooks on a book, without code, for people with a browser."""

import html
import json
import os
import re
import secrets
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from capplan.answers.store import shared_answers
from capplan.errors import CapplanError, ReportError
from capplan.outputs.run.notebooks import asked_by, notebooks
from capplan.outputs.run.open_lab import check_beside, wait_for_end
from capplan.scratch import scratch

#: Where the token may come from; a command line would show it to everybody on the machine.
TOKEN = "JUPYTER_TOKEN"  # noqa: S105 - the name of a variable, no secret
#: Seconds after which the kernel of a page that is gone is ended.
FORGOTTEN_SECONDS = 600
#: Voila's own page with nothing in it that another host would have to send.
PAGE = """{% extends 'voila/templates/lab/index.html.j2' %}
{% block notebook_css %}{{ super() | replace('href="https:', 'data-left-out="') }}{% endblock %}"""
#: The first page: the questions as links.
FIRST_PAGE = """<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>capplan</title>
<link rel="icon" href="data:;base64,="><meta name="viewport" content="width=device-width, initial-scale=1">
<style>body{font:16px/1.5 system-ui,sans-serif;max-width:46em;margin:3em auto;padding:0 1em;color:#1b1f24;background:#fff}
li{margin:.4em 0}a{color:#0045a5}</style></head><body><main><h1>BOOK</h1>
<p>Each question opens in a page of its own; what you move there nobody else sees.</p><ol>LINKS</ol></main></body></html>"""


def open_dashboard(book_path: Path, port: int, base_url: str = "/", more: Sequence[str] = (), say: Callable[[str], None] = print) -> None:
    """Serve the notebooks of a book without their code: on this machine's own address, to those who have the token.

    Each page has a kernel of its own, so what one person moves nobody else sees; what one kernel has answered the others read. A page
    can send no code: the server lets only messages of widgets through.

    Args:
        base_url: Path under which a proxy passes requests on, such as /plans/.
        more: Arguments for Voila, such as --Voila.ip=0.0.0.0 in a container.
        say: Called with the address and what a person must know.

    Raises:
        CapplanError: Where there is no book, the path is none, or the server ends with an error.
    """
    if not book_path.is_dir():
        raise CapplanError(f"{book_path} is not a folder; a book is a folder with book.yaml and CSV tables. `capplan new` makes one.")
    if not re.fullmatch(r"(/[A-Za-z0-9._~-]+)*/?", base_url):
        raise CapplanError(f"--base-url {base_url!r}: write the path behind the host's name, such as /plans/")
    prefix = base_url.rstrip("/") + "/"
    token = os.environ.get(TOKEN) or secrets.token_urlsafe(24)
    with shared_answers() as answers, scratch("capplan-app-") as folder:
        lay_pages(folder, book_path.resolve().name)
        command = [
            *(sys.executable, "-m", "voila", str(folder / "notebooks"), "--no-browser", "--classic-tree", "--template=capplan"),
            "--Voila.ip=127.0.0.1",
            f"--Voila.connection_dir_root={folder / 'kernels'}",
            "--Voila.auto_token=True",
            f"--port={port}",
            "--Voila.port_retries=0",
            f"--base_url={prefix}",
            "--show_tracebacks=True",
            f"--MappingKernelManager.cull_idle_timeout={FORGOTTEN_SECONDS}",
            "--MappingKernelManager.cull_interval=60",
            "--Application.log_level=WARN",
            *more,
        ]
        found = os.pathsep.join(filter(None, (str(folder / "jupyter"), os.environ.get("JUPYTER_PATH"))))
        own = {"JUPYTER_PATH": found, "CAPPLAN_BOOK": str(book_path.resolve()), TOKEN: token, "CAPPLAN_ANSWERS": str(answers)}
        try:
            server = subprocess.Popen(command, env={**os.environ, **own})
        except OSError as error:
            raise ReportError(f"the dashboard cannot be started: {error}") from error
        say(f"capplan: the dashboard of {book_path} is at http://127.0.0.1:{port}{prefix}?token={token}")
        threading.Thread(target=check_beside, args=(book_path, port, say), daemon=True).start()
        code = wait_for_end(server)
    if code:
        raise CapplanError(f"the dashboard ended with code {code}; see its messages above")


def lay_pages(folder: Path, title: str) -> None:
    """Lay what the server shows into a folder: the notebooks, a place for the kernels' files, and pages that need no other host.

    Examples:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as place:
        ...     lay_pages(Path(place), "<b>")
        ...     page = next(Path(place).rglob("tree.html")).read_text()
        >>> "<h1>&lt;b&gt;</h1>" in page, "14_plan.ipynb?{{ query }}" in page
        (True, True)
    """
    pages = folder / "jupyter" / "voila" / "templates" / "capplan"
    for place in (folder / "notebooks", folder / "kernels", pages):
        place.mkdir(parents=True)
    links = []
    for notebook in notebooks().values():
        shutil.copyfile(notebook, folder / "notebooks" / notebook.name)
        address = f"{{{{ base_url }}}}voila/render/{notebook.name}?{{{{ query }}}}"
        links.append(f'<li><a href="{address}">{html.escape(asked_by(notebook))}</a></li>')
    shown = html.escape(title).replace("{", "&#123;").replace("%", "&#37;")
    (pages / "conf.json").write_text(json.dumps({"base_template": "lab"}), encoding="utf-8")
    (pages / "index.html.j2").write_text(PAGE, encoding="utf-8")
    (pages / "tree.html").write_text(FIRST_PAGE.replace("BOOK", shown).replace("LINKS", "".join(links)), encoding="utf-8")
