"""Run a notebook without a person: strict about parameters and failures, and never leaving half a file."""

import difflib
import logging
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from capplan.book.places import shipped
from capplan.book.scenario import Scenario
from capplan.errors import CapplanError, ReportError, ScenarioError, nearest
from capplan.loading import quickly
from capplan.outputs.run.folders import made, refused
from capplan.scratch import environment, scratch

#: Parameters of every notebook that are no assumptions: where the book is, and assumptions the notebook does not list.
PLAIN_PARAMETERS = ("book", "more")
#: A socket's name with its folder has at most 104 bytes on macOS and 108 on Linux; the kernel's own take ten of them.
SOCKET_FOLDER_BYTES = 90


def notebooks() -> dict[str, Path]:
    """Return the notebooks by question: {"demand": .../01_demand.ipynb, ...}."""
    return {re.sub(r"^\d+_", "", path.stem): path for path in sorted(shipped("notebooks").glob("[0-9]*.ipynb"))}


def asked_by(path: Path) -> str:
    """Return what a notebook asks: its heading."""
    first = quickly("nbformat").read(path, as_version=4).cells[0].source
    return first.partition("\n")[0].lstrip("# ").strip()


def notebook_of(question: str) -> Path:
    """Return the notebook that answers a question, or name the nearest one."""
    known = notebooks()
    if question not in known:
        guess = difflib.get_close_matches(question, known, n=1, cutoff=0.5)
        hint = f"did you mean {guess[0]}? " if guess else ""
        raise CapplanError(f"there is no question {question!r}; {hint}The questions are {', '.join(known)}.")
    return known[question]


def notebook_parameters(path: Path, book: Path, values: Mapping[str, Any]) -> dict[str, Any]:
    """Sort assumptions into a notebook's own parameters and the rest, and refuse what is misspelt.

    papermill itself only logs an unknown parameter and goes on with the defaults, so it is checked here.

    Raises:
        ScenarioError: Where a name is neither a parameter of the notebook nor an assumption.
    """
    for name in values:
        if name not in Scenario.model_fields:
            raise ScenarioError(f"{name} is not an assumption; {nearest(name, Scenario.model_fields)}")
    listed = quickly("papermill").inspect_notebook(str(path))
    for name in listed:
        if name not in Scenario.model_fields and name not in PLAIN_PARAMETERS:
            raise ReportError(f"{path.name}: its parameter {name} is not an assumption; {nearest(name, Scenario.model_fields)}")
    own = {name: value for name, value in values.items() if name in listed}
    rest = {name: value for name, value in values.items() if name not in listed}
    return {"book": str(book.resolve()), **own, **({"more": rest} if rest else {})}


def execute(path: Path, parameters: Mapping[str, Any], out: Path, check: Callable[[], None] = lambda: None) -> Path:
    """Execute a notebook and keep it; the file appears whole or not at all.

    Its kernel reads what was answered already where `answers.store.shared_answers` is open around the call.

    Args:
        check: Called before the file appears; it keeps it away by raising.

    Raises:
        ReportError: With the failing cell's error, in one line.
    """
    papermill = quickly("papermill")
    from papermill.exceptions import PapermillExecutionError
    from traitlets.config import Config

    # papermill logs every cell through the root logger; errors come as exceptions, and progress is ours to show
    logging.getLogger("papermill").setLevel(logging.ERROR)
    # sockets as files in a private folder open no port; a folder whose name is longer than a system allows for them leaves the loopback
    try:
        with (
            refused(out),
            made(out.parent),
            scratch("capplan-kernel-") as sockets,
            scratch(".run-", out.parent) as folder,
            environment(CAPPLAN_HEADLESS="1", JUPYTER_RUNTIME_DIR=str(sockets), PYDEVD_DISABLE_FILE_VALIDATION="1"),
        ):
            short = os.name == "posix" and len(os.fsencode(sockets)) <= SOCKET_FOLDER_BYTES
            manager = {
                "connection_file": str(sockets / "kernel.json"),
                **({"transport": "ipc", "ip": str(sockets / "kernel")} if short else {}),
            }
            draft = folder / out.name
            papermill.execute_notebook(
                str(path),
                str(draft),
                parameters=dict(parameters),
                kernel_name="python3",
                progress_bar=False,
                cwd=str(folder),
                config=Config(KernelManager=manager),
                # a kernel at its end is interrupted first, and would say so as an error; errors of cells come as exceptions
                extra_arguments=["--log-level=CRITICAL"],
                request_save_on_cell_execute=False,
            )
            check()
            draft.replace(out)
    except PapermillExecutionError as error:
        raise ReportError(f"{path.name}, cell {error.exec_count}: {error.ename}: {error.evalue}") from error
    except RuntimeError as error:
        raise ReportError(f"{path.name}: the notebook's kernel did not start: {error}") from error
    return out
