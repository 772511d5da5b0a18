"""A run that is ended from outside says so once and leaves nothing behind."""

import os
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import psutil

from capplan.scratch import drop_all

#: Seconds that a run has to unwind by itself, before it is cleared away from outside: the optimiser answers no signal while it solves.
PATIENCE_SECONDS = 4.0
SIGNALS = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGINT", "SIGHUP") if hasattr(signal, name))

_leaving = ["nothing was left behind, and what was there before is untouched"]


class Stopped(SystemExit):
    """The run was ended from outside; its code is 128 plus the signal's number, as a shell reports it."""

    def __init__(self, number: int) -> None:
        super().__init__(128 + number)
        self.said = f"stopped by {signal.Signals(number).name}; {_leaving[-1]}"


@contextmanager
def leaving(said: str) -> Iterator[None]:
    """Say what a run that is stopped within the block leaves; without it, nothing is left.

    Args:
        said: End of the message.
    """
    _leaving.append(said)
    try:
        yield
    finally:
        _leaving.pop()


@contextmanager
def stoppable(say: Callable[[str], None]) -> Iterator[None]:
    """Turn the signals that end a program into one message, one exit code, and no leftovers.

    The signal unwinds the run like an error. Where that takes too long, because compiled code does not listen, a thread removes the
    run's temporary folders and ends the process.

    Args:
        say: Called with the message when the process is ended from the thread; `Stopped.said` holds it otherwise.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    asked: list[Stopped] = []

    def stop(number: int, _: Any) -> None:
        for each in SIGNALS:
            # not SIG_IGN: of one that came at the same moment the interpreter would complain, with a trace
            signal.signal(each, lambda *_: None)
        # What a kernel was still to answer is not waited for any more, and Python would say so after the last word.
        warnings.simplefilter("ignore", RuntimeWarning)
        asked.append(Stopped(number))
        _end_children()
        raise asked[0]

    before = {each: signal.signal(each, stop) for each in SIGNALS}
    wakeup = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    finished = threading.Event()
    threading.Thread(target=_end, args=(reading, finished, asked, say), daemon=True).start()
    try:
        yield
    except BaseException:
        # What unwinds may fail on its way, a kernel that is gone for one: the run was stopped all the same.
        if not asked:
            raise
        say(f"capplan: {asked[0].said}")
        finished.set()
        raise asked[0] from None
    finally:
        signal.set_wakeup_fd(wakeup)
        for each, handler in before.items():
            signal.signal(each, handler)


def _end_children() -> None:
    """Ask the kernel and the workers of this run to end; they need not see their folders vanish."""
    # One that ends by itself while they are listed is no reason not to stop.
    with suppress(psutil.Error, OSError):
        for child in psutil.Process().children(recursive=True):
            with suppress(psutil.Error):
                child.terminate()


def _end(reading: int, finished: threading.Event, asked: list[Stopped], say: Callable[[str], None]) -> None:
    """Wait for a signal that ends the program; then for the program's end, and no longer than that."""
    while True:
        number = int.from_bytes(os.read(reading, 1), "big")
        if number in SIGNALS:
            break
    if not finished.wait(PATIENCE_SECONDS):
        _end_children()
        drop_all()
        say(f"capplan: {(asked or [Stopped(number)])[0].said}")
        os._exit(128 + number)
    time.sleep(PATIENCE_SECONDS)
    os._exit(128 + number)
