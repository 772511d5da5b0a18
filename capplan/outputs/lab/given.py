"""What a notebook was given: parameters that papermill put into it, and whether a person is there to move anything."""

import ast
import base64
import html
import itertools
import os
from collections.abc import Sequence
from pathlib import Path

from capplan.book.scenario import Scenario
from capplan.errors import ScenarioError, nearest
from capplan.outputs.export.files import write_whole

#: How papermill begins the cell that it puts behind a notebook's parameters.
INJECTED = "# Parameters\n"


def check_parameters(cells: Sequence[str]) -> None:
    r"""Refuse a parameter that the notebook does not have: schedulers of notebooks take it in silence and run with the defaults.

    papermill marks the cell it puts behind a notebook's parameters; jupyter-scheduler does not, so where nobody is there, the cell that
    follows them and does nothing but set names is one.

    Args:
        cells: The cells that ran so far, as IPython keeps them in `In`; they are read, not run.

    Raises:
        ScenarioError: Naming every such parameter, and the way to pass an assumption that the notebook does not list.

    Examples:
        >>> check_parameters(["", "seed: int = None", "# Parameters\nseed = 3\n"])
        >>> check_parameters(["", "seed: int = None", "# Parameters\nsede = 3\n"])
        Traceback (most recent call last):
        ...
        capplan.errors.ScenarioError: sede is not a parameter of this notebook; did you mean seed?
    """
    faults: list[str] = []
    alone = not somebody_is_there()
    for before, cell in itertools.pairwise(cells):
        if not (cell.startswith(INJECTED) or (alone and _lists_parameters(before) and _only_sets(cell))):
            continue
        listed = _assigned(before)
        for name in _assigned(cell):
            if name in listed:
                continue
            if name in Scenario.model_fields:
                faults.append(
                    f"{name} is an assumption that this notebook does not list: pass it within more, as -y 'more: {{{name}: ...}}'"
                )
            else:
                faults.append(f"{name} is not a parameter of this notebook; {nearest(name, listed)}")
    if faults:
        raise ScenarioError("; ".join(faults))


def _lists_parameters(cell: str) -> bool:
    """Tell whether a cell is a notebook's list of parameters: names with their kinds, the book first."""
    return cell.startswith("book: str = None")


def _only_sets(cell: str) -> bool:
    """Tell whether a cell sets names to plain values, and nothing else."""
    try:
        body = ast.parse(cell).body
    except SyntaxError:
        return False
    return bool(body) and all(isinstance(statement, ast.Assign) for statement in body)


def _assigned(cell: str) -> list[str]:
    """Return the names that a cell of plain assignments sets, in order."""
    found = []
    for statement in ast.parse(cell).body:
        targets = (
            statement.targets if isinstance(statement, ast.Assign) else [statement.target] if isinstance(statement, ast.AnnAssign) else []
        )
        found += [target.id for target in targets if isinstance(target, ast.Name)]
    return found


def somebody_is_there() -> bool:
    """Tell whether a person can move what a cell shows: not in a headless run, nor where the client that runs the cells takes no input.

    Voila's client takes no input, either, but shows the widgets to people; it names itself in the environment.
    """
    if os.environ.get("CAPPLAN_HEADLESS"):
        return False
    if is_dashboard():
        return True
    try:
        from IPython import get_ipython
    except ImportError:
        return True
    kernel = getattr(get_ipython(), "kernel", None)
    request = kernel.get_parent("shell") if kernel is not None else {}
    return bool(request.get("content", {}).get("allow_stdin", True))


def is_dashboard() -> bool:
    """Tell whether the cells run for a dashboard: Voila names itself in the environment of its kernels."""
    return os.environ.get("SERVER_SOFTWARE", "").startswith("voila")


def hand_over(folder: Path, name: str, content: bytes) -> str:
    """Give a file to the person: in a notebook it lies in a folder; in a dashboard, whose folders nobody reads, it is a link to save it by.

    Returns:
        str: What to say about it, as HTML.
    """
    if is_dashboard():
        data = base64.b64encode(content).decode()
        return f'<a download="{html.escape(name)}" href="data:application/octet-stream;base64,{data}">Download {html.escape(name)}</a>'
    write_whole(folder / name, content)
    return f"Wrote {html.escape(name)}."
