"""Check a book of unknown origin in a process of its own, which can take no more than a stated share of the machine."""

import os
import subprocess
import sys
from collections.abc import Sequence

import typer

from capplan.cli.shared import say
from capplan.errors import CapplanError
from capplan.scratch import scratch

#: What reading a book may take: several times what the example's takes.
MOST_CPU_SECONDS = 60
MOST_MEMORY_MIB = 4096
MOST_FILE_MIB = 256
MOST_OPEN_FILES = 256
#: The process also ends when it only waits: a book on a share that does not answer.
MOST_SECONDS = 2 * MOST_CPU_SECONDS


def check_untrusted(arguments: Sequence[str]) -> None:
    """Carry out `capplan check` with these arguments behind limits, and end with its exit code.

    The process sees none of this one's environment but the way to programs and the language, and writes to a folder that goes with it.

    Args:
        arguments: What stands behind `capplan check`, without the switch itself.

    Raises:
        CapplanError: When the book cannot be read within the limits, or the system has none.
    """
    if os.name != "posix":
        raise CapplanError("--untrusted needs limits of processes, which this system does not have; read the book in a virtual machine")
    with scratch("capplan-untrusted-") as folder:
        kept = {name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL") if name in os.environ}
        threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
        environment = kept | threads | {"HOME": str(folder), "TMPDIR": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
        command = [sys.executable, "-c", _BEGIN, *map(str, (MOST_CPU_SECONDS, MOST_MEMORY_MIB, MOST_FILE_MIB, MOST_OPEN_FILES)), *arguments]
        try:
            done = subprocess.run(
                command,
                check=False,
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=MOST_SECONDS,
            )
        except subprocess.TimeoutExpired:
            raise CapplanError(f"{_REFUSED} it was not read within {MOST_SECONDS} seconds. {_REMEDY}") from None
    if done.returncode not in (0, 1, 2):
        raise CapplanError(f"{_REFUSED} reading it {_end_of(done)}. {_REMEDY}")
    typer.echo(done.stdout, nl=False)
    if done.stderr:
        say(done.stderr.rstrip("\n"))
    if done.returncode:
        raise typer.Exit(done.returncode)


_REFUSED = "the book is refused:"
_REMEDY = (
    f"A book may take {MOST_CPU_SECONDS} CPU seconds, {MOST_MEMORY_MIB} MiB of memory and {MOST_OPEN_FILES} open files; a larger one of an"
    " origin that you trust is checked without --untrusted"
)
#: The limits hold before anything but the standard library is there.
_BEGIN = """
import resource, sys
cpu, memory, size, files = map(int, sys.argv[1:5])
for name, most in (("CPU", cpu), ("AS", memory << 20), ("FSIZE", size << 20), ("NOFILE", files), ("CORE", 0)):
    resource.setrlimit(getattr(resource, "RLIMIT_" + name), (most, most))
sys.argv = ["capplan", "check", *sys.argv[5:]]
try:
    from capplan.cli import main
    main()
except Exception as error:
    print(f"{type(error).__name__}: {error}", file=sys.stderr)
    sys.exit(70)
"""


def _end_of(done: subprocess.CompletedProcess[str]) -> str:
    """Say how a process ended that gave no verdict."""
    said = (done.stderr.strip().splitlines() or [""])[-1][:300]
    if done.returncode < 0:
        return (
            f"took more than {MOST_CPU_SECONDS} CPU seconds" if -done.returncode in (9, 24) else f"was ended by signal {-done.returncode}"
        )
    if "MemoryError" in said or "memory" in said.lower():
        return f"took more than {MOST_MEMORY_MIB} MiB of memory"
    return f"failed ({said or f'exit code {done.returncode}'})"
