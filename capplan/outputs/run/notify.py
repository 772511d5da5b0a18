"""Telling others how a run went, and whether the decision is another one than at the run before."""

import json
import os
import shlex
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

from capplan.errors import CapplanError
from capplan.inert import read_table

Event = Literal["success", "changed", "failure"]
#: A command that takes longer is left behind.
PATIENCE_SECONDS = 60


def signatures_in(report: Path) -> frozenset[tuple[str, str, float]] | None:
    """Return what a finished report says is signed before the next review (offer, quarter, machines); None where there is no report."""
    file = report / "tables" / "decisions.csv"
    if not file.is_file():
        return None
    try:
        table = read_table(file)
        firm = table[table["firm"].astype(bool)]
        return frozenset(zip(firm["offer_id"].astype(str), firm["quarter"].astype(str), firm["machines"].astype(float), strict=True))
    except (OSError, ValueError, KeyError):
        return None


def notify(told: str, event: Event, about: Mapping[str, Any], say: Callable[[str], None]) -> None:
    """Tell a command or an address of a person's how a run went; what goes wrong with it is said, and never changes how the run ended.

    A command gets what happened as JSON on its standard input, and the event's name in CAPPLAN_EVENT; it is split like a shell would, and
    no shell runs it: no text of a book becomes part of a command line. An address (http or https) gets the same JSON by POST.

    Args:
        told: Program with its arguments, or address.
        event, about: What happened, and what is told about it.

    Raises:
        CapplanError: Where there is neither (`check_told` says so before a run).
    """
    words = _words(told)
    text = json.dumps({"event": event, **about}, default=str)
    try:
        if words:
            given = {**os.environ, "CAPPLAN_EVENT": event}
            done = subprocess.run(words, input=text, text=True, timeout=PATIENCE_SECONDS, check=False, env=given)
            said = f"ended with {done.returncode}" if done.returncode else ""
        else:
            said = _post(told, text)
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        said = f"did not work: {error}"
    if said:
        say(f"note: {'the command' if words else 'the address'} of --notify {said}")


def check_told(told: str) -> None:
    """Refuse, before a run, what nobody could be told by: neither a command nor an address, or a program that is not there."""
    words = _words(told)
    if words and shutil.which(words[0]) is None:
        raise CapplanError(
            f"--notify: {words[0]} is no program that can be run from {Path.cwd()}; give its whole path, or an address (https://...)"
        )


def _words(told: str) -> list[str]:
    """Return the words of a command, or none for an address; an error where there is neither."""
    if told.startswith(("http://", "https://")):
        return []
    try:
        words = shlex.split(told)
    except ValueError as error:
        raise CapplanError(f"--notify {told!r}: {error}; quote it like a command line") from error
    if not words:
        raise CapplanError("--notify needs a command or an address")
    return words


def _post(address: str, text: str) -> str:
    """Send text to an address; return what went wrong, without the address, which may hold a secret."""
    import urllib.error
    import urllib.request

    headers = {"Content-Type": "application/json", "User-Agent": "capplan"}
    request = urllib.request.Request(address, text.encode(), headers)  # noqa: S310 - http or https, checked
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS):  # noqa: S310
            return ""
    except urllib.error.HTTPError as error:
        return f"answered {error.code}"
