"""JupyterLab on a book: at once, with notebooks that belong to the reader."""

import hashlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from capplan.book.places import shipped
from capplan.errors import CapplanError, ReportError
from capplan.outputs.run.folders import refused

#: Remembers which of our notebooks were laid, to tell a reader's work from an old one of ours.
LAID = ".capplan.json"
FOLDER = "capplan-notebooks"
#: Nothing is looked up elsewhere: neither news nor newer versions, nor is a person asked whether to.
QUIET = {"--LabApp.news_url": "None", "--LabApp.check_for_updates_class": "jupyterlab.handlers.announcements.NeverCheckForUpdate"}


def open_lab(book_path: Path, port: int, more: Sequence[str] = (), say: Callable[[str], None] = print) -> None:
    """Lay the notebooks into the folder `capplan-notebooks` of the working directory, and open them in JupyterLab on a book.

    JupyterLab starts at once; the book is checked beside it, and what is wrong with it is said there and by every notebook.

    Args:
        more: Arguments for JupyterLab, such as --allow-root, --no-browser, --ip=0.0.0.0 or --ServerApp.base_url=/plans/.
        say: Called with what a person must know.

    Raises:
        CapplanError: Where there is no book, JupyterLab does not start, or ends with an error.
    """
    if not book_path.is_dir():
        raise CapplanError(f"{book_path} is not a folder; a book is a folder with book.yaml and CSV tables. `capplan new` makes one.")
    if hasattr(os, "geteuid") and os.geteuid() == 0 and "--allow-root" not in more:
        raise CapplanError(
            f"JupyterLab does not run as root unless it is told to, as in a container: capplan lab {book_path} -- --allow-root"
        )
    place = Path.cwd() / FOLDER
    with refused(place):
        for line in lay_notebooks(shipped("notebooks"), place):
            say(f"capplan: {line}")
    own = {"--ServerApp.port": str(port), "--ServerApp.root_dir": str(place), **QUIET}
    given = {word.partition("=")[0].replace("--port", "--ServerApp.port") for word in more}
    kept = [f"{name}={value}" for name, value in own.items() if name not in given]
    command = [sys.executable, "-m", "jupyterlab", *kept, *more]
    try:
        server = subprocess.Popen(command, env={**os.environ, "CAPPLAN_BOOK": str(book_path.resolve())})
    except OSError as error:
        raise ReportError(f"JupyterLab cannot be started: {error}") from error
    threading.Thread(target=check_beside, args=(book_path, port, say), daemon=True).start()
    code = wait_for_end(server)
    if code:
        raise CapplanError(f"JupyterLab ended with code {code}; see its messages above")


def wait_for_end(server: subprocess.Popen[bytes]) -> int:
    """Wait for the server; Ctrl-C is its own to answer, and it ends with us."""
    main = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGINT, signal.SIG_IGN) if main else None
    try:
        return server.wait()
    finally:
        if server.poll() is None:
            server.terminate()
            server.wait(10)
        if before is not None:
            signal.signal(signal.SIGINT, before)


def check_beside(book_path: Path, port: int, say: Callable[[str], None]) -> None:
    """Say what is wrong with the book, once the server has started (it comes first: both would share the processor)."""
    for _ in range(60):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                break
        time.sleep(0.5)
    from capplan.book.book import load_book

    try:
        load_book(book_path)
    except CapplanError as error:
        say(f"capplan: {error}\nNotebooks will say the same until it is mended; then run them again.")


def lay_notebooks(source: Path, place: Path) -> list[str]:
    """Lay notebooks into a folder that belongs to a reader: nothing of theirs is overwritten, and nothing old is kept in silence.

    A notebook that is missing is laid. One that stands as it was laid is renewed. One that was changed is kept, and ours goes
    beside it under a name that carries its digest.

    Args:
        source, place: Our notebooks; the folder they are laid into.

    Returns:
        list[str]: What the reader must know, one sentence for each kind.
    """
    place.mkdir(parents=True, exist_ok=True)
    record = place / LAID
    try:
        laid = dict(json.loads(record.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        laid = {}
    renewed, kept = [], []
    for ours in sorted(source.glob("*.ipynb")):
        theirs, digest = place / ours.name, _digest(ours)
        if theirs.exists() and _digest(theirs) not in (digest, laid.get(ours.name)):
            beside = place / f"{ours.stem}-{digest[:8]}.ipynb"
            if laid.get(ours.name) != digest:
                if not beside.exists():
                    shutil.copyfile(ours, beside)
                kept.append(f"{ours.name} (ours: {beside.name})")
            continue
        if not theirs.exists() or _digest(theirs) != digest:
            renewed += [ours.name] if theirs.exists() else []
            shutil.copyfile(ours, theirs)
        laid[ours.name] = digest
    record.write_text(json.dumps(laid, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    said = [f"notebooks are in {place}"]
    said += [f"renewed, since they stood as capplan had laid them: {', '.join(renewed)}"] if renewed else []
    return said + ([f"changed by you and kept, with the present one of capplan beside it: {', '.join(kept)}"] if kept else [])


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
