"""The command line."""

import io
import os
import sys
import traceback

from capplan.cli import asking, checking, commands, servers
from capplan.cli.shared import app, overrides, say
from capplan.errors import CapplanError
from capplan.loading import look_rarely

__all__ = ["app", "asking", "checking", "commands", "main", "overrides", "servers"]


def main() -> None:
    """Run the command line; every expected failure is one message and a non-zero exit."""
    look_rarely()
    from capplan.outputs.run.stopping import stoppable

    for stream in (sys.stdout, sys.stderr):
        # where no locale is set, or one of few letters, names of other letters are written by their numbers
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="backslashreplace")
    try:
        with stoppable(say):
            app()
    except CapplanError as error:
        say(f"capplan: {error}")
        sys.exit(1)
    except BrokenPipeError:
        sys.exit(1)
    except Exception as error:
        if os.environ.get("CAPPLAN_DEBUG"):
            traceback.print_exc()
        say(f"capplan: internal error ({type(error).__name__}: {error}). Set CAPPLAN_DEBUG=1 to see where, and report it.")
        sys.exit(70)
