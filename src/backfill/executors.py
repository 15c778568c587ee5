"""Who carries out tasks: this process, several, or a cluster. Whoever does, the results are the same."""

import logging
import re
import signal
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context
from typing import Any, Protocol, TypeVar

from backfill.model.errors import BackfillError, BadArgument, MissingExtra, UsageError

Task = TypeVar("Task")
Found = TypeVar("Found")
Progress = Callable[[int], None]  # is told how many tasks are done
PATIENCE_S = 10  # with a cluster that does not answer
TICK_S = 0.2  # so often those who wait are told


class Executor(Protocol):
    """What runs tasks: a `concurrent.futures.Executor`, or anything with this method of one."""

    def submit(self, fn: Callable[..., Any], /, *arguments: Any) -> "Future[Any]": ...  # noqa: D102


def carry_out(
    run: Callable[[Task], Found],
    tasks: Sequence[Task],
    executor: Executor | None = None,
    progress: Progress | None = None,
) -> list[Found]:
    """What `run` returns for each task, in their order. Without an executor one after the other, here.

    `run` must be a function of a module, and a task plain data, where the executor sends them elsewhere.
    """
    tell = progress or (lambda done: None)
    found: dict[int, Found] = {}
    if executor is None:
        for place, task in enumerate(tasks):
            found[place] = run(task)
            tell(len(found))
    else:
        gather({executor.submit(run, task): place for place, task in enumerate(tasks)}, found, lambda: tell(len(found)))
    return [found[place] for place in range(len(tasks))]


def gather(futures: "Mapping[Future[Found], Task]", found: dict[Task, Found], tell: Callable[[], None]) -> None:
    """Fill `found` with what the futures of tasks return, and tell now and then. Where one fails, none is started any
    more."""
    left = set(futures)
    try:
        while left:
            done, left = wait(left, TICK_S, FIRST_COMPLETED)
            for future in done:
                found[futures[future]] = future.result()
            tell()
    except BrokenProcessPool:
        raise BackfillError("a worker process ended; memory may have run out: try fewer --workers") from None
    except CancelledError:
        raise BackfillError("the cluster gave up its tasks: its scheduler is gone") from None
    finally:
        for future in left:
            future.cancel()


@contextmanager
def executor(workers: int = 1, cluster: str | None = None) -> Iterator[Executor | None]:
    """An executor of so many processes, or of the Dask cluster at an address; None for one process.

    Raises MissingExtra where Dask is not there, BackfillError where the cluster does not answer.
    """
    if workers < 1:
        raise BadArgument("workers", workers, "a whole number >= 1")
    if cluster is not None and workers > 1:
        raise UsageError("--cluster and --workers exclude each other")
    if cluster is not None:
        with _dask(cluster) as found:
            yield found
    elif workers == 1:
        yield None
    else:
        with processes(workers) as pool:
            yield pool


@contextmanager
def processes(workers: int, begin: Callable[..., None] | None = None, *shared: Any) -> Iterator[Executor]:
    """So many processes, each of which first calls `begin(*shared)`. They are ended at once where the block fails."""
    pool = ProcessPoolExecutor(workers, get_context("spawn"), _begin, (begin, shared))
    try:
        yield pool
    except BaseException:
        for process in list((getattr(pool, "_processes", None) or {}).values()):
            process.terminate()  # what they do is wanted no more
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _begin(begin: Callable[..., None] | None, shared: tuple[Any, ...]) -> None:
    """Ctrl-C is for the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if begin is not None:
        begin(*shared)


@contextmanager
def _dask(address: str) -> Iterator[Executor]:
    try:
        from distributed import Client
        from distributed.scheduler import KilledWorker
    except ImportError:
        raise MissingExtra("--cluster", "sweep") from None
    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # it tells at length what one line says here
    _check_answers(address)
    try:
        client: Any = Client(address, timeout=PATIENCE_S, set_as_default=False)  # type: ignore[no-untyped-call]
    except (OSError, ValueError, TimeoutError) as problem:
        raise BackfillError(f"the Dask cluster at {address} does not answer: {problem}") from problem
    try:
        if not client.scheduler_info()["workers"]:
            raise BackfillError(f"the Dask cluster at {address} has no worker: start one with `dask worker {address}`")
        yield client.get_executor(pure=False)
    except KilledWorker as problem:
        raise BackfillError(f"a task ended its worker again and again; memory may have run out: {problem}") from None
    finally:
        client.close()


def _check_answers(address: str) -> None:
    """Whether somebody listens there: Dask's own client complains at length where nobody does."""
    found = re.fullmatch(r"(?:tcp://|tls://)?\[?([^\[\]/]+?)\]?:(\d+)", address)
    if found is None and "://" in address:
        return  # another kind of address that Dask may know
    if found is None or int(found[2]) > 65_535:
        raise BadArgument("cluster", address, "the address of a Dask scheduler, such as tcp://127.0.0.1:8786")
    try:
        socket.create_connection((found[1], int(found[2])), PATIENCE_S).close()
    except OSError as problem:
        raise BackfillError(f"the Dask cluster at {address} does not answer: {problem}") from problem
