"""Tests run in forks of one process that has loaded what takes long to load; each line asked is answered by one line.

A process of its own, started in a copy of the project (`run.Runner`): what it forks sees the copy as it then is.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import resource
import select
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from types import FrameType
from typing import Any

import pytest

#: Slow to load, and never changed.
LOADED = (
    "pandas",
    "pandera.pandas",
    "scipy.optimize",
    "scipy.stats",
    "highspy",
    "altair",
    "numba",
    "duckdb",
    "hypothesis",
    "_pytest.assertion.rewrite",
)
PLAIN = ("-x", "-q", "-p", "no:cacheprovider", "-m", "not slow and not browser and not office")


class Watch:
    """Runs some tests first, and notes how long each takes and which of the watched lines it reaches.

    Args:
        lines: Watched lines by file.
        first, last: Names of tests, in the order in which they are run before and after all others.
    """

    def __init__(self, lines: Mapping[str, Sequence[int]], first: Sequence[str], last: Sequence[str]) -> None:
        self._lines = {name: set(numbers) for name, numbers in lines.items()}
        self._order = {name: place for place, name in enumerate(first, start=-len(first))} | dict.fromkeys(last, 1)
        self.failed = ""
        self._reached: set[tuple[str, int]] = set()
        self.found: dict[str, tuple[float, list[tuple[str, int]]]] = {}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Put the first tests first."""
        items.sort(key=lambda item: self._order.get(item.nodeid, 0))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note which test failed."""
        if report.failed:
            self.failed = report.nodeid

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Note what a test takes and reaches."""
        if item.nodeid in self._order or not self._lines:
            # following lines takes its time, and it is known of this test
            return (yield)
        self._reached, began = set(), time.perf_counter()
        sys.settrace(self._called)
        try:
            return (yield)
        finally:
            sys.settrace(None)
            self.found[item.nodeid] = (time.perf_counter() - began, sorted(self._reached))

    def _called(self, frame: FrameType, _event: str, _about: object) -> Any:
        """Follow the lines of watched files alone."""
        return self._line if frame.f_code.co_filename in self._lines else None

    def _line(self, frame: FrameType, _event: str, _about: object) -> Any:
        """Note a watched line."""
        name, number = frame.f_code.co_filename, frame.f_lineno
        if number in self._lines[name]:
            self._reached.add((name, number))
        return self._line


def forked(
    tests: Sequence[str], lines: Mapping[str, Sequence[int]], first: Sequence[str], last: Sequence[str], most_seconds: int
) -> dict[str, Any]:
    """Run tests in a fork; return its exit code, or None where it took too long, what failed, and what was found of each test.

    Processor seconds are counted, and ten times as many on the clock.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        code = 3
        with contextlib.suppress(BaseException):
            os.setsid()
            resource.setrlimit(resource.RLIMIT_CPU, (most_seconds, most_seconds))
            nowhere = os.open(os.devnull, os.O_RDWR)
            for stream in (0, 1, 2):
                os.dup2(nowhere, stream)
            watch = Watch(lines, first, last)
            code = int(pytest.main([*PLAIN, *tests], plugins=[watch]))
            with os.fdopen(writing, "w") as file:
                json.dump({"code": code, "failed": watch.failed, "found": watch.found}, file)
        os._exit(code)
    os.close(writing)
    text, until = b"", time.monotonic() + 10 * most_seconds
    with os.fdopen(reading, "rb", buffering=0) as file:
        while select.select([file], [], [], max(0.0, until - time.monotonic()))[0] and (part := file.read(1 << 16)):
            text += part
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    late = time.monotonic() >= until or code in {-signal.SIGXCPU, -signal.SIGKILL}
    answer: dict[str, Any] = {"code": None if late else code, "failed": "", "found": {}}
    with contextlib.suppress(ValueError):
        answer |= json.loads(text)
    return answer


if __name__ == "__main__":
    for module in LOADED:
        importlib.import_module(module)
    for asked in sys.stdin:
        sys.stdout.write(json.dumps(forked(**json.loads(asked))) + "\n")
        sys.stdout.flush()
