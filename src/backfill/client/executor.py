"""A concurrent.futures.Executor whose tasks are jobs of a queue."""

import os
import pickle
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any, TypeVar

from backfill.client.calling import UNREACHABLE, token
from backfill.client.handles import Job, Queue
from backfill.client.task import RESULT, TASK, RemoteTraceback, keep
from backfill.model.errors import MissingExtra, QueueError, UsageError
from backfill.queue.states import OVER, PENDING
from backfill.system.home import python_path

T = TypeVar("T")
LOOK_S = 0.1  # between two checks for new results
ASK_S = 2.0  # between two queries about jobs without a result
JOBS = "jobs"  # a line for each array: its number, its first index, its tasks


class _Future(Future[Any]):
    """The result of a job. Cancelling it cancels the job, unless the job is running."""

    def __init__(self, job: Job, lock: threading.Lock) -> None:
        super().__init__()
        self.job, self._lock = job, lock  # the lock that guards the state of the future

    def cancel(self) -> bool:
        if self.done() or self.running() or self.job.state != PENDING:
            return self.cancelled()
        self.job.cancel()
        with self._lock:
            return super().cancel() and not self.set_running_or_notify_cancel()

    def begins(self) -> bool:
        """Mark it as running; False if it was cancelled."""
        with self._lock:
            return not self.done() and (self.running() or self.set_running_or_notify_cancel())


class QueueExecutor(Executor):
    """Run calls as jobs of a queue: `submit` makes a job of a call, `map` an array of all its calls.

    A function, its arguments and its result travel by cloudpickle through files in the queue's folder, so functions of
    a script or notebook may be used; what they import has to be importable for the job. Results and exceptions come
    back as futures. They outlive this process: `QueueExecutor.resume(name)` has the futures of an executor again.

    queue:   a Queue, or the folder of one; by default the user's own.
    options: those of each job, as `Queue.submit` takes them: cpus=4, mem="8G", licenses={"matlab": 1}, time="1h".

    >>> import backfill as bf
    >>> with bf.QueueExecutor(cpus=1, time="10m") as jobs:
    ...     list(jobs.map(pow, [2, 3, 4], [5, 5, 5]))
    [32, 243, 1024]
    """

    def __init__(self, queue: Queue | str | os.PathLike[str] | None = None, **options: Any) -> None:
        _pickled(None)  # reports missing packages before anything is queued
        if "array" in options:
            raise UsageError("array is no option of an executor; expected calls of map, which make one")
        self._begin(queue, token(), options)

    def _begin(self, queue: Queue | str | os.PathLike[str] | None, name: str, options: dict[str, Any]) -> None:
        self.queue = queue if isinstance(queue, Queue) else Queue(queue)
        self.name = name  # by which `resume` finds the calls again
        self.futures: list[_Future] = []  # in the order of their submits
        self._options, self._folder = options, Path(self.queue.folder) / "tasks" / name
        self._open: dict[int, _Future] = {}  # those without a result, by index
        self._count = 0
        self._lock = threading.Lock()
        self._collector: threading.Thread | None = None
        self._closed = False

    @classmethod
    def resume(cls, name: str, queue: Queue | str | os.PathLike[str] | None = None) -> "QueueExecutor":
        """Return an executor with the futures of an earlier one, whose process may have died.

        name: `QueueExecutor.name` of that one. Raises UsageError if nothing of it is stored.

        >>> import backfill as bf
        >>> jobs = bf.QueueExecutor()
        >>> _ = jobs.submit(pow, 2, 10)
        >>> jobs.shutdown(wait=False)
        >>> bf.QueueExecutor.resume(jobs.name).futures[0].result()
        1024
        """
        executor = cls.__new__(cls)
        executor._begin(queue, name, {})
        try:
            lines = (executor._folder / JOBS).read_text().split("\n")[:-1]
        except OSError:
            raise UsageError(f"no tasks of an executor {name!r} are kept in {executor._folder.parent}") from None
        for line in lines:
            number, first, count = line.split()
            for index in range(int(first), int(first) + int(count)):
                executor._expect(index, f"{number}_{index}")
        executor._count = 1 + max(int(path.stem) for path in executor._folder.glob("*.task"))
        executor._collect()
        return executor

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> "Future[T]":
        """Queue a call as a job and return its future. Raises UsageError, QueueError.

        >>> import backfill as bf
        >>> with bf.QueueExecutor(cpus=2) as jobs:
        ...     jobs.submit(sum, [1, 2, 3]).result()
        6
        """
        return self._queue([(fn, args, kwargs)])[0]

    def map(
        self, fn: Callable[..., T], *iterables: Iterable[Any], timeout: float | None = None, chunksize: int = 1
    ) -> Iterator[T]:
        """Queue one array with a task for each call, and yield their results in order, like `Executor.map`.

        chunksize: calls of one task; several share its start-up.

        >>> import backfill as bf
        >>> with bf.QueueExecutor() as jobs:
        ...     list(jobs.map(abs, range(-3, 1), chunksize=2))
        [3, 2, 1, 0]
        """
        if chunksize < 1:
            raise ValueError("chunksize must be >= 1.")
        end = None if timeout is None else time.monotonic() + timeout
        calls = [*zip(*iterables, strict=False)]
        chunks = [calls[place : place + chunksize] for place in range(0, len(calls), chunksize)]
        futures = self._queue([(_call_each, (fn, chunk), {}) for chunk in chunks])

        def results() -> Iterator[T]:
            try:
                for future in futures:
                    yield from future.result(None if end is None else max(end - time.monotonic(), 0))
            finally:
                for future in futures:
                    future.cancel()

        return results()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Accept no more calls. wait: until all calls have ended; then the files of finished calls are removed.

        cancel_futures: cancel the jobs that have not started. Without `wait`, jobs continue, and `resume` finds them.

        >>> import backfill as bf
        >>> jobs = bf.QueueExecutor()
        >>> jobs.submit(abs, -1).result()
        1
        >>> jobs.shutdown()
        """
        self._closed = True
        if cancel_futures:
            for future in self.futures:
                future.cancel()
        if wait:
            if (collector := self._collector) is not None:
                collector.join()
            if all(future.done() for future in self.futures):
                shutil.rmtree(self._folder, ignore_errors=True)

    def _queue(self, calls: Sequence[tuple[Callable[..., Any], Any, dict[str, Any]]]) -> list[_Future]:
        if self._closed:
            raise RuntimeError("cannot schedule new futures after shutdown")
        if not calls:
            return []
        with self._lock:  # an index is used once, whatever happens to the submit
            first, self._count = self._count, self._count + len(calls)
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for place, call in enumerate(calls):
            keep(self._folder / TASK.format(first + place), _pickled(call))
        options = {"job_name": _name_of(calls[0][0], calls[0][1]), "output": os.devnull, **self._options}
        if not {"chdir", "cwd"} & options.keys():
            options["chdir"] = os.getcwd()
        command = ["/usr/bin/env", f"PYTHONPATH={os.pathsep.join([python_path(), *filter(None, sys.path)])}"]
        command += [sys.executable, "-m", "backfill.client.task", str(self._folder)]
        # An array even for one task: its index identifies the call.
        job = self.queue.submit(command, array=f"{first}-{first + len(calls) - 1}", **options)
        with open(self._folder / JOBS, "a", encoding="utf-8") as file:
            file.write(f"{job.label} {first} {len(calls)}\n")
        futures = [self._expect(index, f"{job.label}_{index}") for index in range(first, first + len(calls))]
        self._collect()
        return futures

    def _expect(self, index: int, label: str) -> _Future:
        future = _Future(Job(self.queue, label), self._lock)
        with self._lock:
            self.futures.append(future)
            self._open[index] = future
        return future

    def _collect(self) -> None:
        """Let a thread deliver results until all have arrived."""
        with self._lock:
            if self._collector is None:
                self._collector = threading.Thread(target=self._hand_out, name="backfill-results", daemon=True)
                self._collector.start()

    def _hand_out(self) -> None:
        asked = time.monotonic()
        while True:
            with self._lock:
                left = {index: future for index, future in self._open.items() if not future.done()}
                self._open = dict(left)
                if not left:
                    self._collector = None
                    return
            begin = time.monotonic()
            try:
                names = {*os.listdir(self._folder)}
                for index in [index for index in left if RESULT.format(index) in names]:
                    self._settle(index, left.pop(index))
                if begin - asked > ASK_S:
                    self._look_for_lost(left)
                    asked = time.monotonic()
            except Exception as error:
                for index, future in left.items():
                    self._end(index, future, QueueError(f"the results in {self._folder} cannot be read: {error}"))
            time.sleep(max(LOOK_S, 10 * (time.monotonic() - begin)))

    def _end(self, index: int, future: _Future, error: BaseException | None, value: Any = None) -> None:
        """Give a future its result, or its exception, unless it was cancelled."""
        with self._lock:
            self._open.pop(index, None)
        if future.begins():
            if error is None:
                future.set_result(value)
            else:
                future.set_exception(error)

    def _settle(self, index: int, future: _Future) -> None:
        """Process a result that has arrived.

        One of a run that failed counts only when its job is over: it may run again.
        """
        try:
            well, value = self._read(index)
            if not well:
                if future.job.state not in OVER:
                    return
                well, value = self._read(index)  # the last one
        except QueueError:
            return  # the daemon does not answer now
        except Exception as error:
            self._end(index, future, QueueError(f"the result of job {future.job.label} cannot be read: {error}"))
            return
        if well:
            self._end(index, future, None, value)
        else:
            raised, text = value
            raised.__cause__ = RemoteTraceback(f"\n{text}")
            self._end(index, future, raised)

    def _read(self, index: int) -> tuple[bool, Any]:
        result: tuple[bool, Any] = pickle.loads((self._folder / RESULT.format(index)).read_bytes())
        return result

    def _look_for_lost(self, left: dict[int, _Future]) -> None:
        """Mark running calls, and fail those whose job ended without a result, for example because it was killed."""
        try:
            states = self.queue.states()
            for index, future in left.items():
                state = states.get(future.job.label, "")
                if state and state != PENDING:
                    future.begins()
                elif not state and not future.done():
                    self._lost(index, future)
        except QueueError:
            return  # the daemon does not answer now

    def _lost(self, index: int, future: _Future) -> None:
        try:
            facts = future.job.facts()
        except QueueError as error:
            if error.exit_code == UNREACHABLE:
                raise
            self._end(index, future, error)  # the queue does not know the job, for instance after a restore
            return
        if facts["state"] in OVER and not (self._folder / RESULT.format(index)).exists():
            how = f"signal {facts['signal']}" if facts["signal"] else f"exit code {facts['exit_code']}"
            message = f"job {future.job.label} ended without a result: {facts['state']}, {how}"
            self._end(index, future, QueueError(message))


def _call_each(function: Callable[..., T], calls: Sequence[Sequence[Any]]) -> list[T]:
    return [function(*arguments) for arguments in calls]


def _name_of(function: Callable[..., Any], arguments: Any) -> str:
    if function is _call_each:
        function = arguments[0]
    return getattr(function, "__name__", type(function).__name__)[:64].strip("<>")


def _pickled(call: Any) -> bytes:
    try:
        import cloudpickle
    except ImportError:
        raise MissingExtra("QueueExecutor", "queue") from None
    data: bytes = cloudpickle.dumps(call)
    return data
