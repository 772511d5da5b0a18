"""Telling others how a run went, and whether the decision is another one than at the run before."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from capplan.errors import CapplanError

Event = Literal["success", "changed", "failure"]
#: A command that takes longer is left behind.
PATIENCE_SECONDS = 60


def signatures_in(report: Path) -> frozenset[tuple[str, str, float]] | None:
    """Return what a finished report says is signed before the next review (offer, quarter, machines); None where there is no report."""
    file = report / "tables" / "decisions.csv"
    if not file.is_file():
        return None
    try:
        table = pd.read_csv(file)
        firm = table[table["firm"].astype(bool)]
        return frozenset(zip(firm["offer_id"].astype(str), firm["quarter"].astype(str), firm["machines"].astype(float), strict=True))
    except (OSError, ValueError, KeyError):
        return None


def notify(command: str, event: Event, about: Mapping[str, Any], say: Callable[[str], None]) -> None:
    """Run a person's command after a run; it gets what happened as JSON on its standard input, and the event's name in CAPPLAN_EVENT.

    The command is split like a shell would, and no shell runs it: no text of a book becomes part of a command line. What goes wrong with
    it is said,
    and never changes how the run ended.

    Parameters
    ----------
    command
        Program with its arguments.
    event, about
        What happened, and what is told about it.
    say
        Called with what went wrong.

    Raises
    ------
    CapplanError
        Where the command cannot be split into words.
    """
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise CapplanError(f"--notify {command!r}: {error}; quote it like a command line") from error
    if not words:
        raise CapplanError("--notify needs a command")
    text = json.dumps({"event": event, **about}, default=str)
    try:
        done = subprocess.run(
            words, input=text, text=True, timeout=PATIENCE_SECONDS, check=False, env={**os.environ, "CAPPLAN_EVENT": event}
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        say(f"note: the command of --notify did not work: {error}")
    else:
        if done.returncode:
            say(f"note: the command of --notify ended with {done.returncode}")
