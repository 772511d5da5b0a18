"""Work beside the kernel: a person can go on while an answer is computed."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Protocol

Done = Callable[[Any, BaseException | None], None]


class Runs(Protocol):
    """Where work is done."""

    def __call__(self, lane: str, work: Callable[[], Any], done: Done) -> None:
        """Do the work in a lane, then call `done` with the answer or the error."""


class Background:
    """Does work in threads, one at a time in each lane, and hands answers back on the kernel's event loop.

    The solver and compiled code leave the interpreter to others while they run, so cells run and clicks count meanwhile.
    """

    def __init__(self) -> None:
        self._lanes: dict[str, ThreadPoolExecutor] = {}

    def __call__(self, lane: str, work: Callable[[], Any], done: Done) -> None:
        """Queue work."""
        if lane not in self._lanes:
            self._lanes[lane] = ThreadPoolExecutor(1, thread_name_prefix=f"capplan-{lane}")
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            loop = None

        def finished(future: Future[Any]) -> None:
            error = future.exception()
            answer = None if error else future.result()
            if loop is None or loop.is_closed():
                done(answer, error)
            else:
                loop.call_soon_threadsafe(done, answer, error)

        self._lanes[lane].submit(work).add_done_callback(finished)


def at_once(_: str, work: Callable[[], Any], done: Done) -> None:
    """Do work where it is asked for: without an event loop, and in tests."""
    try:
        answer = work()
    except Exception as error:
        done(None, error)
    else:
        done(answer, None)
