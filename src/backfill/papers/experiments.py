"""Experiments as tasks: whatever runs them, here, in processes or on a cluster, the results are the same."""

import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context
from typing import Any, Protocol, TypeVar

from backfill.model.errors import BackfillError, BadArgument, MissingExtra

Task = TypeVar("Task")
Found = TypeVar("Found")
Progress = Callable[[int], None]  # is told how many tasks are done
PATIENCE_S = 10  # with a cluster that does not answer


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
    if executor is None:
        found = []
        for task in tasks:
            found.append(run(task))
            tell(len(found))
        return found
    futures = [executor.submit(run, task) for task in tasks]
    try:
        for done, future in enumerate(as_completed(futures), 1):
            future.result()
            tell(done)
    except BrokenProcessPool:
        raise BackfillError("a worker process ended; memory may have run out: try fewer --workers") from None
    finally:
        for future in futures:
            future.cancel()
    return [future.result() for future in futures]


@contextmanager
def executor(workers: int = 1, cluster: str | None = None) -> Iterator[Executor | None]:
    """An executor of so many processes, or of the Dask cluster at an address; None for one process.

    Raises MissingExtra where Dask is not there, BackfillError where the cluster does not answer.
    """
    if workers < 1:
        raise BadArgument("workers", workers, "a whole number >= 1")
    if cluster is not None:
        with _dask(cluster) as found:
            yield found
        return
    if workers == 1:
        yield None
        return
    pool = ProcessPoolExecutor(workers, get_context("spawn"), _leave_interrupts_to_the_parent)
    try:
        yield pool
    except BaseException:
        for process in list((getattr(pool, "_processes", None) or {}).values()):
            process.terminate()  # what they do is wanted no more
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _leave_interrupts_to_the_parent() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextmanager
def _dask(address: str) -> Iterator[Executor]:
    try:
        from distributed import Client
    except ImportError:
        raise MissingExtra("--cluster", "sweep") from None
    try:
        client: Any = Client(address, timeout=PATIENCE_S, set_as_default=False)  # type: ignore[no-untyped-call]
    except (OSError, ValueError, TimeoutError) as problem:
        raise BackfillError(f"the Dask cluster at {address} does not answer: {problem}") from problem
    try:
        yield client.get_executor(pure=False)
    finally:
        client.close()
