"""Executors of tasks: this process, several processes, or a cluster. The results are the same with each."""

import logging
import os
import pickle
import re
import signal
import socket
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from importlib import import_module
from mmap import ACCESS_COPY, mmap
from multiprocessing import get_context
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Protocol, TypeVar

from backfill.model.errors import BackfillError, BadArgument, MissingExtra, UsageError

Task = TypeVar("Task")
Found = TypeVar("Found")
Progress = Callable[[float], None]  # takes the number of finished tasks, plus the fractions of running ones
PATIENCE_S = 10  # seconds to wait for a cluster to answer
WORKER_S = 20  # seconds to wait for a first worker
LARGE = 1 << 20  # bytes of arrays from which they are put into a file
ALIGNED = 64  # bytes
TICK_S = 0.2  # seconds between checks for finished tasks
EARLY = 1 << 14  # tasks that processes can get which start before their tasks are known


class Executor(Protocol):
    """An object that runs tasks: a `concurrent.futures.Executor`, or anything else with its `submit` method."""

    def submit(self, fn: Callable[..., Any], /, *arguments: Any) -> "Future[Any]": ...  # noqa: D102


@dataclass(frozen=True, slots=True)
class _Started:
    """Processes that wait for tasks, and what they share with this one."""

    pool: Any
    folder: Path  # of what they are told to run, and of their results
    shares: Any  # (tasks,): the finished fraction of each


@dataclass(frozen=True, slots=True)
class Processes:
    """A number of processes on this machine, started for one list of tasks and ended with it."""

    count: int
    # processes that have started before their tasks are known, and how to end them; the first list of tasks takes them
    early: list[tuple[_Started, ExitStack]] = field(default_factory=list, compare=False, repr=False)


Where = Executor | Processes | None  # None: this process, one task after the other


@contextmanager
def executor(workers: int = 1, cluster: str | None = None, imports: str = "", tasks: int = EARLY) -> Iterator[Where]:
    """Yield the executor of tasks: this process, several processes, or the Dask cluster at an address.

    imports: a module that the tasks need. Several processes start at once and import it, while the caller reads its
    input; no more than the first list has tasks. tasks: the most that it may have.

    Raises MissingExtra if Dask is not installed, BackfillError if the cluster does not answer.
    """
    if workers < 1:
        raise BadArgument("workers", workers, "a whole number >= 1")
    if cluster is not None and workers > 1:
        raise UsageError("--cluster and --workers cannot be combined")
    if cluster is None and workers > 1 and imports:
        with ExitStack() as stack:
            started = stack.enter_context(_started(min(workers, tasks), EARLY, imports))
            yield Processes(workers, [(started, stack)])
    elif cluster is None:
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
    before: Callable[[Task], object] | None = None,
    taken: Callable[[int, Found], None] | None = None,
) -> list[Found]:
    """Run the tasks and return the results of `run`, in their order.

    Without an executor they run here, one after another. If the executor runs tasks in other processes, `run` must be a
    function of a module or a method of a picklable object, and each task plain data. After a task fails, no further
    task is started.

    tells: `run` takes a second argument: a function to call with the finished fraction of its task, or None.
    done:  is filled with the result of each task, by its index; after Ctrl-C it has the results of the finished tasks.
    before: called here, in this process, with each task before it is submitted; earlier ones may run already.
    taken: called here, in this process, with the index and the result of each task as soon as it has finished.
    """
    results = {} if done is None else done
    waiting: dict[Future[Found], int] = {}
    # Futures announce their end through this queue. Polling them would take locks that another thread needs as well; a
    # Ctrl-C between two steps of taking them would leave that thread, and then this one, waiting for ever.
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
            place = waiting.pop(future)
            results[place] = future.result()
            if taken is not None:
                taken(place, results[place])
        if progress is not None and (some or patience_s):
            progress(len(results) + sum(shares[place] for place in waiting.values()))

    def report_share(share: float) -> None:
        if progress is not None:
            progress(len(results) + share)

    try:
        with _opened(executor, run, len(tasks), tells, progress and report_share) as (submit, shares):
            for place, task in enumerate(tasks):
                if before is not None:
                    before(task)
                # Without this, Ctrl-C could leave behind a process that has just started.
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


@contextmanager
def in_threads(where: Where) -> Iterator[Callable[..., Iterable[Any]]]:
    """Yield a `map` that uses as many threads as there are worker processes, for work that numpy does without Python's
    lock; the builtin one without worker processes.
    """
    if isinstance(where, Processes):
        with ThreadPoolExecutor(where.count) as pool:
            yield pool.map
    else:
        yield map


Submit = Callable[[int, Any], "Future[Any]"]  # (index of a task, the task)


@contextmanager
def _opened(
    where: Where, run: Callable[..., Any], count: int, tells: bool, report: Progress | None
) -> Iterator[tuple[Submit, Sequence[float]]]:
    """Yield a submit function and the progress (0 to 1) of each task, if it can be observed.

    report: the function that a task in this process calls with its progress.
    """
    more = (None,) if tells else ()
    if where is None:
        yield lambda _, task: _ended(run(task, *((report,) if tells else ()))), [0.0] * count
    elif isinstance(where, Processes):
        with _processes(where, run, count, tells) as found:
            yield found
    else:
        yield lambda _, task: where.submit(_guarded, run, task, *more), [0.0] * count


def _ended(result: Found) -> "Future[Found]":
    future: Future[Found] = Future()
    future.set_result(result)
    return future


@contextmanager
def held_back() -> Iterator[list[int]]:
    """Hold back a first Ctrl-C until the end of the block, and record it; a second one interrupts at once."""
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
    where: Processes, run: Callable[..., Any], count: int, tells: bool
) -> Iterator[tuple[Submit, Sequence[float]]]:
    """Give tasks to processes, which get `run` once. If the block fails, they are ended.

    Arrays in `run`, and in the results, are in files that all processes map: there is one copy of a log.
    """
    with ExitStack() as stack:
        if where.early and count <= EARLY:
            started, end = where.early.pop()
            stack.enter_context(end.pop_all())
        else:
            started = stack.enter_context(_started(min(where.count, count), count))
        work = started.folder / "work"
        work.write_bytes(pickle.dumps(_stored(run, started.folder / "run")))
        yield lambda place, task: _unpacked(started.pool.submit(_one, place, task, str(work), tells)), started.shares


@contextmanager
def _started(workers: int, count: int, imports: str = "") -> Iterator[_Started]:
    """Start processes for at most so many tasks: with the first of them or, if they import a module, at once."""
    context = get_context("spawn")
    shares: Any = context.Array("d", max(count, 1), lock=False)
    with tempfile.TemporaryDirectory(prefix="backfill-", ignore_cleanup_errors=True) as folder:
        pool: Any = ProcessPoolExecutor(max(1, workers), context, _begin, (folder, shares, imports))
        with _ended_with(pool):
            if imports:
                with held_back() as pressed:
                    for _ in range(workers):
                        pool.submit(int)  # starts a process, as none is idle yet
                if pressed:
                    raise KeyboardInterrupt
            yield _Started(pool, Path(folder), shares)


@contextmanager
def _ended_with(pool: Any) -> Iterator[None]:
    """End the processes of a pool: at once if the block fails."""
    try:
        yield
    except BaseException:
        for process in list((getattr(pool, "_processes", None) or {}).values()):
            process.terminate()  # their results are no longer needed
        # A process ended while it sends a result leaves a partial message; while this end of the pipe is open here too,
        # a reader would wait for the rest.
        pool._result_queue._writer.close()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


@dataclass(frozen=True, slots=True)
class _Stored:
    """A pickled value whose arrays are in a file."""

    pickled: bytes
    file: Path
    arrays: tuple[tuple[int, int], ...]  # begin and length of each in the file

    def load(self) -> Any:
        """Return the value. Its arrays are views of the file, private as soon as they are written to."""
        if not self.arrays:
            return pickle.loads(self.pickled)
        with open(self.file, "rb") as there:
            if os.name == "posix":
                every = memoryview(mmap(there.fileno(), 0, access=ACCESS_COPY))
            else:  # a file that is mapped could not be removed
                every = memoryview(bytearray(there.read()))
        return pickle.loads(self.pickled, buffers=[every[begin : begin + size] for begin, size in self.arrays])


def _stored(value: Any, file: Path) -> _Stored:
    """Write the arrays of a value to a file, if they are large."""
    arrays: list[pickle.PickleBuffer] = []
    pickled = pickle.dumps(value, protocol=5, buffer_callback=arrays.append)
    several = [array.raw() for array in arrays]
    if sum(each.nbytes for each in several) < LARGE:
        return _Stored(pickle.dumps(value), file, ())
    places = []
    try:
        with open(file, "wb") as out:
            for each in several:
                out.write(bytes(-out.tell() % ALIGNED))
                places.append((out.tell(), each.nbytes))
                out.write(each)
    except OSError as problem:
        raise BackfillError(f"{file}: cannot be written: {problem.strerror or problem}") from None
    return _Stored(pickled, file, tuple(places))


def _unpacked(future: "Future[_Stored]") -> "Future[Any]":
    """Return a future of the value that another one stores. The file is removed; what is mapped of it stays."""
    found: Future[Any] = Future()

    def take(done: "Future[_Stored]") -> None:
        if done.cancelled():
            found.cancel()
        if not found.set_running_or_notify_cancel():  # nobody waits for it any more
            return
        try:
            stored = done.result()
            value = stored.load()
            stored.file.unlink(missing_ok=True)
        except BaseException as error:
            found.set_exception(error)
        else:
            found.set_result(value)

    future.add_done_callback(take)
    return found


# in a worker process: the folder of its results; the shared array of progress; then what it runs, once it has a task
_HERE: list[Any] = []


def _begin(folder: str, shares: Any, imports: str) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, also while `run` is imported
    warnings.simplefilter("ignore")
    _HERE[:] = [folder, shares]
    if imports:
        import_module(imports)


def _one(place: int, task: Any, work: str, tells: bool) -> _Stored:
    folder, shares = _HERE[:2]
    more = (lambda share: shares.__setitem__(place, share),) if tells else ()
    return _stored(_guarded(_run_here, work, task, *more), Path(folder) / str(place))


def _run_here(work: str, *arguments: Any) -> Any:
    if len(_HERE) == 2:
        stored: _Stored = pickle.loads(Path(work).read_bytes())
        _HERE.append(stored.load())
    return _HERE[2](*arguments)


def _guarded(run: Callable[..., Any], *arguments: Any) -> Any:
    """Run a task in another process. Only errors that can be pickled are raised; others become a BackfillError."""
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
    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # one line here replaces its long output
    _check_answers(address)
    try:
        client: Any = Client(address, timeout=PATIENCE_S, set_as_default=False)  # type: ignore[no-untyped-call]
    except (OSError, ValueError, TimeoutError) as problem:
        raise BackfillError(f"the Dask cluster at {address} does not answer: {problem}") from problem
    try:
        try:
            client.wait_for_workers(1, timeout=WORKER_S)  # workers may have been started only just now
        except TimeoutError:
            message = f"the Dask cluster at {address} has no worker: start one with `dask worker {address}`"
            raise BackfillError(message) from None
        yield client.get_executor(pure=False)
    except KilledWorker as problem:
        raise BackfillError(f"a task repeatedly ended its worker; memory may have run out: {problem}") from None
    finally:
        try:
            client.close()
        except RuntimeError:
            # If the scheduler goes away while tasks are submitted, Dask changes a dict while its thread iterates over
            # it; each `close` raises that error of the thread again.
            client.status = "closed"


def _check_answers(address: str) -> None:
    """Check that a scheduler listens at the address: Dask's own client prints long errors if none does. Raises
    BackfillError."""
    parts = re.fullmatch(r"(?:tcp://|tls://)?\[?([^\[\]/]+?)\]?:(\d+)", address)
    if parts is None and "://" in address:
        return  # another kind of address, which Dask may know
    if parts is None or int(parts[2]) > 65_535:
        raise BadArgument("cluster", address, "the address of a Dask scheduler, such as tcp://127.0.0.1:8786")
    try:
        socket.create_connection((parts[1], int(parts[2])), PATIENCE_S).close()
    except OSError as problem:
        raise BackfillError(f"the Dask cluster at {address} does not answer: {problem}") from problem
