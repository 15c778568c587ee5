"""The queue from Python: submit jobs, wait for them, ask when they start and why they wait."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from backfill.client import asking, calling
from backfill.client.options import VERBS, Option, parse
from backfill.client.requests import request_of
from backfill.model.errors import QueueError, UsageError, wrong_type
from backfill.model.names import did_you_mean
from backfill.queue.states import OVER, PENDING
from backfill.queue.words import Unreadable, parse_id
from backfill.system.home import home

Facts = dict[str, Any]
ELSEWHERE = ("wrap", "source", "test", "parsable", "wait", "json", "quiet")  # options that are no facts of a job
PAGE, AT_ONCE = 1000, 10_000  # tasks of an array, jobs of a queue, in one answer


class Queue:
    """A queue of jobs. Its daemon starts with the first request, as with the command line.

    folder: of the queue; by default $BACKFILL_HOME, else the user's own.

    Methods raise UsageError for invalid arguments, and QueueError for what the queue refuses or cannot do.

    >>> import backfill as bf
    >>> queue = bf.Queue()
    >>> job = queue.submit(["echo", "hello"], cpus=1, time="1.5h")
    >>> job.wait()
    0
    >>> job.output()
    'hello\\n'
    """

    def __init__(self, folder: str | os.PathLike[str] | None = None) -> None:
        self.folder = home() if folder is None else os.path.abspath(os.fspath(folder))

    def __repr__(self) -> str:
        return f"backfill.Queue({self.folder!r})"

    def submit(
        self, command: str | os.PathLike[str] | Sequence[str], *, after: Job | Iterable[Job] = (), **options: Any
    ) -> Job:
        """Queue a job and return it.

        command: a program and its arguments, or a text for /bin/sh -c.
        after:   jobs that have to end well before it starts.
        options: those of `backfill submit`, `-` written `_`: cpus=4, mem="16G", time="2h" or a timedelta,
                 licenses={"matlab": 1}, job_name="train", array="1-100%10", begin=a datetime, requeue=True.

        >>> import backfill as bf
        >>> queue = bf.Queue()
        >>> first = queue.submit("echo 1 > numbers", cpus=2)
        >>> then = queue.submit("cat numbers", after=first)
        >>> then.wait()
        0
        """
        if isinstance(command, os.PathLike):
            command = [os.fspath(command)]
        argv = ["/bin/sh", "-c", command] if isinstance(command, str) else [*map(str, command)]
        if not argv:
            raise UsageError("command is empty; expected a program and its arguments")
        words = [word for name, value in options.items() for word in _words(name, value)]
        if jobs := [after] if isinstance(after, Job) else [*after]:
            if "dependency" in options:
                raise UsageError("after and dependency cannot be combined; expected one of them")
            words += ["--dependency", ":".join(["afterok", *(job.label for job in jobs)])]
        with _as_errors():
            parsed, _, _ = parse("submit", words)
            answer = calling.persistent("submit", self.folder, **request_of(parsed, argv))
        return Job(self, str(answer["id"]))

    def job(self, label: int | str) -> Job:
        """Return the job of this number, or the task ARRAY_INDEX of an array. Raises QueueError if there is none.

        >>> import backfill as bf
        >>> queue = bf.Queue()
        >>> queue.job(queue.submit("true").label).wait()
        0
        """
        job = Job(self, str(label))
        job.facts()
        return job

    def jobs(self) -> list[Job]:
        """Return all jobs that have not ended, in the order of their numbers.

        >>> import backfill as bf
        >>> queue = bf.Queue()
        >>> job = queue.submit("true", hold=True)
        >>> job in queue.jobs()
        True
        >>> job.cancel()
        """
        return [Job(self, label) for label in self.states()]

    def states(self) -> dict[str, str]:
        """Return the state of each job that has not ended, by its label: {"12": "RUNNING", "13_1": "PENDING"}.

        >>> import backfill as bf
        >>> queue = bf.Queue()
        >>> job = queue.submit("true", hold=True)
        >>> queue.states()[job.label]
        'PENDING'
        >>> job.cancel()
        """
        states: dict[str, str] = {}
        after: Facts = {}
        while True:
            with _as_errors():
                answer = calling.persistent("queue", self.folder, limit=AT_ONCE, **after)
            states |= {row["label"]: row["state"] for row in answer["jobs"]}
            if not answer["more"]:
                return states
            after = {"after": answer["jobs"][-1]["id"]}

    def wait(self, jobs: Iterable[Job], timeout: float | None = None) -> int:
        """Wait until all of these jobs have ended; return the largest exit code, as `backfill wait` does.

        timeout: in seconds. Raises TimeoutError.

        >>> import backfill as bf
        >>> queue = bf.Queue()
        >>> queue.wait([queue.submit("exit 1"), queue.submit("exit 3")])
        3
        """
        labels = [job.label for job in jobs]
        if not labels:
            return 0
        with _as_errors():
            ended = calling.waited([parse_id(label) for label in labels], self.folder, timeout)
        return max((job["code"] for job in ended), default=0)

    def cancel(self, jobs: Iterable[Job]) -> None:
        """Cancel jobs: those that wait leave the queue, those that run are ended.

        >>> import backfill as bf
        >>> queue = bf.Queue()
        >>> queue.cancel([queue.submit("sleep 1000") for _ in range(2)])
        """
        if labels := [job.label for job in jobs]:
            self._ask("cancel", labels)

    def _ask(self, what: str, labels: Iterable[str], **more: Any) -> Facts:
        with _as_errors():
            return calling.persistent(what, self.folder, ids=[parse_id(label) for label in labels], **more)

    def _question(self, what: str, **more: Any) -> Facts:
        with _as_errors():
            return asking.question(what, folder=self.folder, **more)


@dataclass(frozen=True)
class Estimate:
    """When a pending job starts, in local time; None if it is not known."""

    guaranteed: datetime | None  # no later than this, if all jobs keep to their walltimes
    likely: datetime | None  # as likely before as after
    p90: datetime | None  # before this with a probability of 90 %
    basis: str  # of the run times that were expected, or why there is no estimate


@dataclass(frozen=True)
class Job:
    """A job of a queue: a handle that queries the queue each time. An array is one job here, and so is each task of it.

    >>> import backfill as bf
    >>> bf.Job(bf.Queue(), "112_3")
    <backfill.Job 112_3>
    """

    queue: Queue
    label: str  # as in `backfill queue`: its number, or ARRAY_INDEX

    def __repr__(self) -> str:
        return f"<backfill.Job {self.label}>"

    def facts(self) -> Facts:
        """Return all facts about the job, as `backfill show --json` prints it; of an array, of its first task.

        >>> import backfill as bf
        >>> bf.Queue().submit("true", mem="1M").facts()["need"]["memory"]
        1048576
        """
        return self._all(1, most=1)[0]

    @property
    def state(self) -> str:
        """PENDING, RUNNING, COMPLETED, FAILED, ...; an array that has not ended is RUNNING if one of its tasks runs,
        and one that has ended is COMPLETED if all of its tasks are.

        >>> import backfill as bf
        >>> job = bf.Queue().submit("false")
        >>> job.wait(), job.state
        (1, 'FAILED')
        """
        states: list[str] = [facts["state"] for facts in self._all()]
        goes_on = [state for state in states if state not in OVER]
        busy = [state for state in goes_on if state != PENDING]
        bad = [state for state in states if state != "COMPLETED"]
        return [*busy, *goes_on, *bad, *states][0]

    @property
    def exit_code(self) -> int | None:
        """The exit code of the job's program; None before it has ended, and if a signal ended it.

        >>> import backfill as bf
        >>> job = bf.Queue().submit("exit 3")
        >>> job.wait(), job.exit_code
        (3, 3)
        """
        code: int | None = self.facts()["exit_code"]
        return code

    @property
    def tasks(self) -> list[Job]:
        """The tasks of an array; of another job itself.

        >>> import backfill as bf
        >>> array = bf.Queue().submit("echo $BACKFILL_ARRAY_INDEX", array="0-2")
        >>> array.wait()
        0
        >>> [task.output() for task in array.tasks]
        ['0\\n', '1\\n', '2\\n']
        """
        return [Job(self.queue, facts["label"]) for facts in self._all()]

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end of the job; return its exit code, 128 + the signal if one ended it. Raises TimeoutError.

        timeout: in seconds.

        >>> import backfill as bf
        >>> bf.Queue().submit("exit 3").wait()
        3
        """
        return self.queue.wait([self], timeout)

    def cancel(self) -> None:
        """Cancel the job: it leaves the queue, or is ended.

        >>> import backfill as bf
        >>> job = bf.Queue().submit("sleep 1000", hold=True)
        >>> job.cancel()
        >>> job.state
        'CANCELLED'
        """
        self.queue.cancel([self])

    def eta(self) -> Estimate:
        """Estimate when the job starts. Raises QueueError if it does not wait.

        >>> import backfill as bf
        >>> job = bf.Queue().submit("true", begin="now+1h")
        >>> job.eta().likely is not None
        True
        >>> job.cancel()
        """
        number = self.facts()["id"]
        with _as_errors():
            (row,) = asking.estimates(self.queue.folder, [number])["jobs"]
        basis = asking.why_not(row) or asking.HISTORY[row["history"]].format(row["ended_jobs"])
        return Estimate(_local(row["guaranteed_s"]), _local(row["median_s"]), _local(row["p90_s"]), basis)

    def explain(self) -> str:
        """Explain why the job waits, as `backfill explain` does.

        >>> import backfill as bf
        >>> job = bf.Queue().submit("true", hold=True)
        >>> print(job.explain())  # doctest: +ELLIPSIS
        job ... is held...
        >>> job.cancel()
        """
        return "\n".join(asking.explained(self.queue._question("explain", ids=[parse_id(self.label)])))

    def output(self) -> str:
        """Return what the job has written to its output file; empty before it has written anything.

        >>> import backfill as bf
        >>> job = bf.Queue().submit("echo hello")
        >>> job.wait(), job.output()
        (0, 'hello\\n')
        """
        path = self.queue._ask("output", [self.label])["path"]
        try:
            with open(path, encoding="utf-8", errors="replace") as file:
                return file.read()
        except FileNotFoundError:
            return ""

    def _all(self, at_once: int = PAGE, most: int | None = None) -> list[Facts]:
        tasks: list[Facts] = []
        while True:
            page = self.queue._ask("show", [self.label], limit=at_once, **{"from": len(tasks)})["jobs"]
            tasks += page
            if len(page) < at_once or len(tasks) == most:
                return tasks


def _local(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds).astimezone()


def _words(name: str, value: Any) -> Iterator[str]:
    """Return an option and its value as words of a command line."""
    table: dict[str, Option] = {}
    for option in VERBS["submit"].options:
        if option.key not in ELSEWHERE:
            names = [each.lstrip("-").replace("-", "_") for each in (*option.each, option.key)]
            table |= {each: option for each in names if len(each) > 1}
    if name not in table:
        raise UsageError(f"unknown option {name!r}; {did_you_mean(name, table)}")
    option = table[name]
    if option.read is None:
        if not isinstance(value, bool):
            raise wrong_type(name, value, "True or False")
        yield from [option.shown] * value
    elif value is not None:
        yield from (option.shown, _text(name, value))


def _text(name: str, value: Any) -> str:
    if isinstance(value, bool):
        raise wrong_type(name, value, "text or a number")
    if isinstance(value, timedelta):
        return f"{value.total_seconds():.0f}s"
    if isinstance(value, datetime):
        return f"{value.timestamp():.0f}"
    if isinstance(value, Mapping):
        return ",".join(f"{key}:{count}" for key, count in value.items())
    if isinstance(value, range):
        return ",".join(map(str, value))
    return str(value)


@contextmanager
def _as_errors() -> Iterator[None]:
    """Convert errors of the client's functions into errors of the package."""
    try:
        yield
    except Unreadable as error:
        raise UsageError(str(error)) from None
    except calling.Problem as problem:
        if problem.code == calling.INTERRUPTED:
            raise KeyboardInterrupt from None
        raise QueueError(str(problem), problem.code) from None
