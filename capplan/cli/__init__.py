"""The command line."""

import gc
import io
import os
import sys
import traceback

from capplan.cli import asking, checking, commands, servers
from capplan.cli.shared import app, overrides, say
from capplan.errors import CapplanError

#: New objects after which a run looks for what only refers to itself, and how many such looks come before a look at all there is: a run
#: ends soon, so the hundreds of looks that the interpreter would take while libraries load are not worth their time.
LOOKS = (50_000, 20, 50)

__all__ = ["app", "asking", "checking", "commands", "main", "overrides", "servers"]


def main() -> None:
    """Run the command line; every expected failure is one message and a non-zero exit."""
    gc.set_threshold(*LOOKS)
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
