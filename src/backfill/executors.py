"""Executors of tasks: this process, several processes, or a cluster. The results are the same under each."""

import logging
import pickle
import re
import signal
import socket
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from multiprocessing import get_context
from queue import Empty, SimpleQueue
from typing import Any, Protocol, TypeVar

from backfill.model.errors import BackfillError, BadArgument, MissingExtra, UsageError

Task = TypeVar("Task")
Found = TypeVar("Found")
Progress = Callable[[float], None]  # is told how many tasks are done, with the shares of those under way
PATIENCE_S = 10  # with a cluster that does not answer
WORKER_S = 20  # for a first worker
TICK_S = 0.2  # seconds between two looks at what is done


class Executor(Protocol):
    """An object that runs tasks: a `concurrent.futures.Executor`, or anything with this method of one."""

    def submit(self, fn: Callable[..., Any], /, *arguments: Any) -> "Future[Any]": ...  # noqa: D102


@dataclass(frozen=True, slots=True)
class Processes:
    """A number of processes on this machine. They start with a list of tasks and end with it."""

    count: int


Where = Executor | Processes | None  # None: this process, one task after the other


@contextmanager
def executor(workers: int = 1, cluster: str | None = None) -> Iterator[Where]:
    """The executor of tasks: this process, several processes, or the Dask cluster at an address.

    Raises MissingExtra where Dask is not there, BackfillError where the cluster does not answer.
    """
    if workers < 1:
        raise BadArgument("workers", workers, "a whole number >= 1")
    if cluster is not None and workers > 1:
        raise UsageError("--cluster and --workers cannot be combined")
    if cluster is None:
        yield Processes(workers) if workers > 1 else None
    else:
        with _dask(cluster) as client:
            yield client


def carry_out(
    run: Callable[..., Found],
    tasks: Sequence[Task],
    executor: Where = None,
    progress: Progress | None = None,
    *,
    tells: bool = False,
    done: dict[int, Found] | None = None,
) -> list[Found]:
    """Run the tasks and return the results of `run`, in their order. Without an executor they run one after the other,
    here.

    `run` must be a function of a module, or a method of what can be pickled, and a task plain data, where the executor
    sends them elsewhere. Where a task fails, none is started any more.

    tells: `run` takes a second argument: what it may tell which share of its task is done, or None.
    done:  is filled with what each task returned, by its place; after Ctrl-C it has those that were done.
    """
    results = {} if done is None else done
    waiting: dict[Future[Found], int] = {}
    # Futures tell when they are done: to ask them takes locks that another thread needs as well, and a Ctrl-C between
    # the taking of one and the next step would have that thread, and then this one, wait for ever.
    ended: SimpleQueue[Future[Found]] = SimpleQueue()
    hold: Callable[[], AbstractContextManager[list[int]]] = (
        held_back if executor is not None else lambda: nullcontext([])
    )

    def take(patience_s: float) -> None:
        some = []
        try:
            some.append(ended.get(timeout=patience_s))
            while True:
                some.append(ended.get_nowait())
        except Empty:
            pass
        for future in some:
            results[waiting.pop(future)] = future.result()
        if progress is not None and (some or patience_s):
            progress(len(results) + sum(shares[place] for place in waiting.values()))

    def told_share(share: float) -> None:
        if progress is not None:
            progress(len(results) + share)

    try:
        with _opened(executor, run, len(tasks), tells, progress and told_share) as (submit, shares):
            for place, task in enumerate(tasks):
                # A process that has just started would be forgotten, and live on.
                with hold() as pressed:
                    future = submit(place, task)
                    waiting[future] = place
                    future.add_done_callback(ended.put)
                if pressed:
                    raise KeyboardInterrupt
                take(0)
            while waiting:
                take(TICK_S)
    except BrokenProcessPool:
        raise BackfillError("a worker process ended; memory may have run out: try fewer --workers") from None
    except CancelledError:
        raise BackfillError("the cluster cancelled the tasks: its scheduler is gone") from None
    finally:
        for future in waiting:
            future.cancel()
    return [results[place] for place in range(len(tasks))]


Submit = Callable[[int, Any], "Future[Any]"]  # (place of a task, the task)


@contextmanager
def _opened(
    where: Where, run: Callable[..., Any], count: int, tells: bool, told: Progress | None
) -> Iterator[tuple[Submit, Sequence[float]]]:
    """What takes a task, and which share of each is done as far as that can be seen from here.

    told: what a task in this process tells its share.
    """
    more = (None,) if tells else ()
    if where is None:
        yield lambda _, task: _ended(run(task, *((told,) if tells else ()))), [0.0] * count
    elif isinstance(where, Processes):
        with _processes(where.count, run, count, tells) as found:
            yield found
    else:
        yield lambda _, task: where.submit(_guarded, run, task, *more), [0.0] * count


def _ended(result: Found) -> "Future[Found]":
    future: Future[Found] = Future()
    future.set_result(result)
    return future


@contextmanager
def held_back() -> Iterator[list[int]]:
    """Let a first Ctrl-C wait until what is under way is whole, and note it; a second one ends it."""
    pressed: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield pressed
        return
    before = signal.getsignal(signal.SIGINT)

    def note(number: int, frame: object) -> None:
        pressed.append(number)
        signal.signal(signal.SIGINT, before)

    signal.signal(signal.SIGINT, note)
    try:
        yield pressed
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _processes(
    workers: int, run: Callable[..., Any], count: int, tells: bool
) -> Iterator[tuple[Submit, Sequence[float]]]:
    """Processes that get `run` once, and memory that they share. They are ended at once where the block fails."""
    context = get_context("spawn")
    shares: Any = context.Array("d", max(count, 1), lock=False)
    shared = (pickle.dumps(run), shares if tells else None)
    pool: Any = ProcessPoolExecutor(max(1, min(workers, count)), context, _begin, shared)

    try:
        yield lambda place, task: pool.submit(_one, place, task), shares
    except BaseException:
        for process in list((getattr(pool, "_processes", None) or {}).values()):
            process.terminate()  # their results are no longer needed
        # One that is ended while it sends a result leaves a part of it; with this end open here, too, the rest would be
        # waited for.
        pool._result_queue._writer.close()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


_HERE: list[Any] = []  # in one process of several: what it runs, pickled, and the shares of the tasks that are done


def _begin(pickled: bytes, shares: Any) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, also while `run` is imported
    warnings.simplefilter("ignore")
    _HERE[:] = [pickled, shares]


def _one(place: int, task: Any) -> Any:
    more = () if _HERE[1] is None else (lambda share: _HERE[1].__setitem__(place, share),)
    return _guarded(_run_here, task, *more)


def _run_here(*arguments: Any) -> Any:
    if isinstance(_HERE[0], bytes):
        _HERE[0] = pickle.loads(_HERE[0])
    return _HERE[0](*arguments)


def _guarded(run: Callable[..., Any], *arguments: Any) -> Any:
    """A task in another process. Only errors that can be sent back as they are leave it."""
    try:
        return run(*arguments)
    except (BackfillError, MemoryError):
        raise
    except Exception as error:
        raise BackfillError(f"{type(error).__name__}: {error}") from None


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
        try:
            client.wait_for_workers(1, timeout=WORKER_S)  # it may have been started only just now
        except TimeoutError:
            message = f"the Dask cluster at {address} has no worker: start one with `dask worker {address}`"
            raise BackfillError(message) from None
        yield client.get_executor(pure=False)
    except KilledWorker as problem:
        raise BackfillError(f"a task repeatedly ended its worker; memory may have run out: {problem}") from None
    finally:
        client.close()


def _check_answers(address: str) -> None:
    """Whether somebody listens there: Dask's own client complains at length where nobody does."""
    parts = re.fullmatch(r"(?:tcp://|tls://)?\[?([^\[\]/]+?)\]?:(\d+)", address)
    if parts is None and "://" in address:
        return  # another kind of address that Dask may know
    if parts is None or int(parts[2]) > 65_535:
        raise BadArgument("cluster", address, "the address of a Dask scheduler, such as tcp://127.0.0.1:8786")
    try:
        socket.create_connection((parts[1], int(parts[2])), PATIENCE_S).close()
    except OSError as problem:
        raise BackfillError(f"the Dask cluster at {address} does not answer: {problem}") from problem
