"""Where many independent pieces of work are done: the cores of this machine, or a Dask cluster by address; the numbers are the same."""

import asyncio
import contextlib
import itertools
import logging
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError
from contextvars import ContextVar
from dataclasses import dataclass
from queue import Empty, Queue
from threading import Thread
from typing import Any, TypeVar

from capplan.errors import CapplanError

Piece = TypeVar("Piece")
Answer = TypeVar("Answer")
Given = TypeVar("Given")
#: A scheduler that is there answers in much less, and its first worker is there in three times as long.
ANSWER_SECONDS = 10.0
#: A scheduler is asked so often whether it is still there, and has three times as long to say so.
WATCH_SECONDS = 10.0
#: Who logs, with traces of their code, that a cluster is gone: it is said once, as an error.
TALKATIVE = ("distributed", "distributed.client", "tornado.application")
#: Sets of pieces that stay on a cluster at once.
KEPT = 2
#: What Dask says where the worker that keeps a piece is gone.
LOST = ("Unable to contact Actor", "Worker holding Actor was lost")


@contextlib.contextmanager
def workers(address: str | None, cores: int = -1) -> Iterator[None]:
    """Send the parallel work of the block to all cores of this machine, or to a Dask cluster.

    Args:
        address: Scheduler of a Dask cluster, like "tcp://scheduler:8786", on whose workers capplan is installed; None for this machine.
        cores: Processes on this machine; -1 for all cores, 1 to stay in this process.

    Raises:
        CapplanError: If dask.distributed is not installed, or nobody answers at the address.

    Source: joblib, "Embarrassingly parallel for loops", backends loky and dask.

    Examples:
        >>> with workers(None, cores=1):
        ...     spread(abs, [-1, 2, -3])
        [1, 2, 3]
    """
    import joblib

    if address is None:
        with joblib.parallel_config(n_jobs=cores):
            yield
        return
    try:
        import distributed
    except ImportError as error:
        raise CapplanError(f"workers: {address} is a Dask cluster, but dask.distributed is not installed; install capplan[dask]") from error
    try:
        # a client waits for ever for the greeting of somebody who listens and never says a word
        within(ANSWER_SECONDS, lambda: asyncio.run(_greeted(address)))
        client: Any = distributed.Client(address, timeout=ANSWER_SECONDS, set_as_default=False)
    except Exception as error:
        raise CapplanError(
            f"workers: no Dask scheduler answers at {address[:80]} ({type(error).__name__}); give an address like tcp://host:8786, or leave"
            " workers empty"
        ) from error
    entered = _cluster.set(_Cluster(client, []))
    watch = asyncio.run_coroutine_threadsafe(_watched(client), client.loop.asyncio_loop)
    try:
        with _quiet(), joblib.parallel_config(backend="dask", client=client, wait_for_workers_timeout=3 * ANSWER_SECONDS):
            yield
    except TimeoutError as error:
        raise CapplanError(f"workers: the Dask scheduler at {address} has no worker; start some, or leave workers empty") from error
    finally:
        watch.cancel()
        _cluster.reset(entered)
        with _quiet():
            client.close()


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Let those who say everything with a trace say nothing below what is critical."""
    levels = {logger: logger.level for logger in map(logging.getLogger, TALKATIVE)}
    for logger in levels:
        logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for logger, level in levels.items():
            logger.setLevel(level)


def within(seconds: float, call: Callable[[], Answer]) -> Answer:
    """Return what a call returns, or raise TimeoutError where that takes longer in all, also where a server sends a letter at a time."""
    done: Queue[tuple[list[Answer], Exception | None]] = Queue()

    def work() -> None:
        try:
            done.put(([call()], None))
        except Exception as error:
            done.put(([], error))

    Thread(target=work, daemon=True).start()
    try:
        found, error = done.get(timeout=seconds)
    except Empty:
        raise TimeoutError from None
    if error is not None:
        raise error
    return found[0]


async def _greeted(address: str) -> None:
    """Exchange greetings with a scheduler."""
    from distributed import Security
    from distributed.comm import connect

    given = Security().get_connection_args("client")
    comm = await asyncio.wait_for(connect(address, timeout=ANSWER_SECONDS / 2, **given), ANSWER_SECONDS / 2)
    comm.abort()


async def _watched(client: Any) -> None:
    """Give a scheduler up that is there and answers no more; a client would wait for it for ever."""
    while True:
        await asyncio.sleep(WATCH_SECONDS)
        try:
            await asyncio.wait_for(client.scheduler.identity(), 3 * WATCH_SECONDS)
        except (OSError, TimeoutError):
            await client._close(fast=True)
            return


def spread(work: Callable[[Piece], Answer], pieces: Iterable[Piece]) -> list[Answer]:
    """Do a piece of work for every piece, wherever the surrounding `workers` block says; answers keep the order of the pieces.

    Args:
        work: Function of one piece, importable by name.

    Raises:
        CapplanError: If whoever does the work is gone before it is done.
    """
    import joblib

    with _there_to_the_end():
        return list(joblib.Parallel()(joblib.delayed(work)(piece) for piece in pieces))


def spread_as_done(work: Callable[[Piece], Answer], pieces: Iterable[Piece]) -> Iterator[Answer]:
    """Do a piece of work for every piece as `spread` does, and give each answer as soon as it is there, in no order.

    Raises:
        CapplanError: If whoever does the work is gone before it is done.
    """
    import joblib

    with _there_to_the_end():
        yield from joblib.Parallel(return_as="generator_unordered")(joblib.delayed(work)(piece) for piece in pieces)


class Held:
    """Pieces that lie with the workers of a cluster and are changed there by one call after another.

    Where a worker dies, all pieces are laid out anew, as they were at first, with the workers that are left.
    """

    def __init__(self, client: Any, cut: Callable[[int], list[Any]]) -> None:
        client.wait_for_workers(1, timeout=3 * ANSWER_SECONDS)
        self._client, self._cut = client, cut
        self.count = len(self._places())  #: How many pieces there are.
        self._lay_out()

    def _lay_out(self) -> None:
        """Send each piece to a worker."""
        # a keeper finds its way through the client that is current when it is first seen
        with self._client.as_current():
            sent = [
                self._client.submit(_Keeper, piece, actor=True, pure=False, workers=[place], allow_other_workers=True)
                for piece, place in zip(self._cut(self.count), itertools.cycle(self._places()), strict=False)
            ]
            self._keepers = [self._there(one) for one in sent]

    def each(self, work: Callable[[Any, Given], Answer], given: Iterable[Given]) -> list[Answer]:
        """Do a piece of work on every piece, with what is given for it; answers keep the order of the pieces.

        Raises:
            CapplanError: If no worker is left, or one after another dies.
        """
        given = list(given)
        for _ in range(self.count + 1):
            try:
                with self._client.as_current():
                    return [self._there(one) for one in [keeper.do(work, more) for keeper, more in zip(self._keepers, given, strict=True)]]
            except (OSError, RuntimeError) as error:
                if not any(words in str(error) for words in LOST):
                    raise
                self._lay_out()
        raise CapplanError("workers of the Dask cluster end one after another, most often for lack of memory; start more of them")

    def _there(self, asked: Any) -> Any:
        """Return what was asked for, as long as there is a worker to answer."""
        while True:
            with _there_to_the_end():
                try:
                    return asked.result(timeout=ANSWER_SECONDS)
                except TimeoutError:
                    self._places()

    def _places(self) -> list[str]:
        """Return the addresses of the workers there are."""
        places = sorted(self._client.ncores())
        if not places:
            raise CapplanError("the Dask cluster has no worker left; start some, or leave workers empty")
        return places


@dataclass
class _Cluster:
    """What the surrounding `workers` block names, and the pieces that lie there."""

    client: Any
    held: list[tuple[tuple[object, ...], Held]]


#: None on this machine.
_cluster: ContextVar[_Cluster | None] = ContextVar("cluster", default=None)


class _Keeper:
    """Keeps a piece where it is worked on."""

    def __init__(self, piece: Any) -> None:
        self.piece = piece

    def do(self, work: Callable[[Any, Any], Any], given: Any) -> Any:
        """Return what comes of a piece of work."""
        return work(self.piece, given)


def held_by_workers(cut: Callable[[int], list[Any]], of: tuple[object, ...]) -> Held | None:
    """Lay pieces out on the cluster of the surrounding `workers` block; None where it names none.

    Args:
        cut: Makes as many pieces as there are workers.
        of: What they are cut from: pieces of the very same objects that lie there already are not sent again.
    """
    cluster = _cluster.get()
    if cluster is None:
        return None
    for known, held in cluster.held:
        if all(one is other for one, other in zip(known, of, strict=True)):
            return held
    cluster.held = [(of, Held(cluster.client, cut)), *cluster.held[: KEPT - 1]]
    return cluster.held[0][1]


@contextlib.contextmanager
def _there_to_the_end() -> Iterator[None]:
    """Turn the end of workers, or of the cluster's scheduler, within the block into one message."""
    from joblib.externals.loky.process_executor import TerminatedWorkerError

    dask = sys.modules.get("distributed")
    ended, away = [TerminatedWorkerError], [CancelledError]
    if dask is not None:
        ended, away = [*ended, dask.KilledWorker], [*away, dask.comm.CommClosedError]
    try:
        yield
    except tuple(ended) as error:
        raise CapplanError(
            "a worker process ended before its work was done, most often for lack of memory; take fewer cores, or smaller pieces"
        ) from error
    except tuple(away) as error:
        raise CapplanError(
            "the Dask scheduler went away before the work was done; start it again with its workers, or leave workers empty"
        ) from error
