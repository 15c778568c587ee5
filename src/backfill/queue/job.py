"""A job of the queue and its attempt, as values and as the row of a job in the store and on the wire.

Times are microseconds of the queue clock, memory is in bytes.
"""

from dataclasses import dataclass, field, fields
from operator import attrgetter
from typing import Any

from backfill.model.units import label_text
from backfill.queue.shapes import Record, Row
from backfill.queue.states import BY_ITSELF, COMPLETED, NEW

Facts = dict[str, Any]
REQUEUE = "requeue"  # reason of ending an attempt: the job is to run again
FOREIGN = "foreign-start"  # reason of a broken promise: a start that the policy did not decide
NEVER = "BadConstraints"  # reason of holding a job that the platform can never run, in Slurm's term
DECLINED = "StartsDeclined"  # reason of holding a job whose starts the book could not accept
UNCERTAIN = "Uncertain"  # reason of holding a job that may have run, as its batch system has forgotten it
PREEMPT = "preempt"  # reason of ending an attempt: the policy preempts it for another job
CHECKPOINT, SUSPEND = "checkpoint", "suspend"  # how a preempted job keeps its progress: it continues anywhere, or there


@dataclass(slots=True)
class Attempt:
    """One stay of a job on the machine, from its start until it is over; for a job that is over, its last one."""

    number: int  # within its job, from 1
    start: int
    why: str = ""  # reason of its start, in the policy's words
    slip: str = ""  # why it started later than promised
    nodes: list[list[Any]] = field(default_factory=list)  # its nodes, see nodes.Placement
    cpu_ids: list[int] = field(default_factory=list)
    gpu_ids: list[int] = field(default_factory=list)
    spawned: int | None = None  # when its processes were first seen
    processes: Record = field(default_factory=dict)
    suspended: bool = False  # its processes are stopped
    yields: bool = False  # the policy has preempted it, and it has not ended yet
    cause: str = ""  # why it is being ended
    exit: int | None = None
    signal: int | None = None
    maxrss: int | None = None
    cpu: int | None = None  # cpu time used
    instance: str = ""  # of the controller of a batch system when the start was decided

    @property
    def exit_code(self) -> int | None:
        """Its exit code; None if it was ended by a signal, or has not ended."""
        return None if self.signal else self.exit


@dataclass(frozen=True, slots=True)
class DueStart:
    """A decided start of a job whose resources are not released yet."""

    start: int  # when the policy decided it
    why: str
    nodes: list[list[Any]]  # its nodes, see nodes.Placement

    def facts(self) -> Row:
        """Return its facts in the row of its job."""
        return {"due": self.start, "why": self.why, "due_nodes": self.nodes}


@dataclass(slots=True)
class Job:
    """A job: its request, what it waits for, its attempt, and its history, in this order."""

    id: int
    native: str = ""  # its number in the batch system where it was submitted, if not in this queue
    native_submit: int = 0  # its submit by that system's clock: numbers are reused
    outside: bool = False  # the platform cannot run it, as far as the queue knows, but its batch system may
    token: str = ""
    spec: int = 0  # command, folder and environment: a row of the store
    name: str = ""
    user: str = ""
    group: str = ""
    project: str = ""
    priority: int = 0
    need: dict[str, int] = field(default_factory=dict)  # per task, except floating licences
    tasks: int = 1
    ntasks: int = 0  # requested tasks, equally many in each of `tasks`; 0: the same number
    spread: str = "any"  # over which nodes the tasks may be spread, see model.workload.SPREAD
    site: str = ""
    constraint: str = ""  # including the type of its gpus
    gpu_type: str = ""
    partition: str = ""
    qos: str = ""
    exclusive: bool = False  # it has its nodes exclusively
    reservation: str = ""  # the advance reservation in which it runs
    walltime: int = 0
    grace: int = 0  # between TERM and KILL at the walltime; included in the walltime of policies
    submit: int = 0
    begin: int | None = None
    deadline: int | None = None
    requeue: bool = False
    retry: int = 0  # number of restarts if it fails
    notify: str = ""  # a shell command that is run when it is over
    array: int = 0  # id of the first task of its array
    index: int | None = None  # its index in the array
    throttle: int = 0  # tasks of its array that may run at once; 0 for any number
    after: list[list[Any]] = field(default_factory=list)  # what it still waits for: [kind, job or array]
    any_of: bool = False  # one of these is sufficient
    singleton: bool = False
    never: bool = False  # its dependencies can never be satisfied
    held: str = ""  # the reason why it is held; empty if it is not
    state: str = NEW
    reason: str = ""  # why it is pending, or why it ended like this
    waits: bool = False  # it is in the policy's queue
    promise: int | None = None  # the first promised start
    promised: int = 0  # when that was promised
    expected: int | None = None  # the first start that its batch system expected
    advised: int | None = None  # when the policy would have started it, if only its batch system can start it
    due: DueStart | None = None
    attempt: Attempt | None = None  # None if a job is pending or never started
    attempts: int = 0  # number of the last attempt
    failures: int = 0  # attempts in a row that could not be launched
    withdrawn: int = 0  # attempts in a row that never began, for any reason
    restarts: int = 0
    retries: int = 0  # number of restarts after failures
    preemptions: int = 0  # number of preempted attempts
    preempted_for: int = 0  # the job for which the last of these was preempted
    done: int = 0  # used walltime: progress that was kept, less the overhead of continuing
    keeps: str = ""  # how its last preemption kept progress: CHECKPOINT, SUSPEND; empty if it did not
    stood: list[list[Any]] = field(default_factory=list)  # its nodes when it was suspended, see nodes.Placement
    ran: int = 0  # total run time of its earlier attempts
    end: int | None = None

    @property
    def label(self) -> str:
        """Its number for users: 118, or 112_3 for a task of an array; in a batch system its number there."""
        if self.native:
            return self.native
        return label_text(self.id, self.array, self.index)

    @property
    def left(self) -> int:
        """The walltime that is left when it starts."""
        return self.walltime - self.done

    @property
    def code(self) -> int:
        """The exit code of `wait`."""
        if self.state == COMPLETED:
            return 0
        if self.attempt is None:
            return 1
        return 128 + self.attempt.signal if self.attempt.signal else self.attempt.exit or 1

    @property
    def start(self) -> int | None:
        """The start of its attempt; None if it has none."""
        return None if self.attempt is None else self.attempt.start

    @property
    def says_how_long(self) -> bool:
        """Return whether its end reveals the run time of such jobs: it ended by itself, or at its walltime."""
        return self.start is not None and self.end is not None and self.state in BY_ITSELF

    @property
    def took(self) -> int:
        """The total run time of a job that is over; 0 if it never ran."""
        return 0 if self.start is None or self.end is None else self.end - self.start + self.done

    @property
    def why(self) -> str:
        """The reason of its start or due start, in the policy's words; empty if it has none."""
        decided = self.due or self.attempt
        return "" if decided is None else decided.why

    @property
    def yields(self) -> bool:
        """Return whether its attempt is preempted and has not ended yet."""
        return self.attempt is not None and self.attempt.yields

    @property
    def current(self) -> Attempt:
        """Its attempt. It must have one."""
        assert self.attempt is not None, f"job {self.label} has no attempt"
        return self.attempt

    def misses(self, start: int | None) -> bool | None:
        """Return whether a job that starts then may run beyond its deadline, by its walltime.

        start: by the calendar, in microseconds. None if there is no deadline, or the start is not known.
        """
        return None if self.deadline is None or start is None else start + self.walltime > self.deadline

    @property
    def run(self) -> "Run":
        """Its attempt, together with the job. It must have one."""
        return Run(self, self.current)

    @classmethod
    def read(cls, row: Row) -> "Job":
        """Return the job of a row, which may omit defaults. It shares lists with the row.

        A row of an earlier version may contain data of an attempt that is over and was not the last: that is left out.
        """
        if _APART.isdisjoint(row):
            return cls(**row)
        job = cls(**{key: value for key, value in row.items() if key not in _APART})
        job.attempts = row.get("attempt", 0)
        if row.get("start") is not None:
            job.attempt = Attempt(job.attempts, **{key: row[key] for key in _OF_ATTEMPT if key in row})
        if row.get("due") is not None:
            job.due = DueStart(row["due"], row.get("why", ""), row.get("due_nodes", []))
        return job

    def facts(self) -> Row:
        """Return the whole row, for `read`. It shares lists with the job: write it at once."""
        found = {**USUAL, **dict(zip(_OF_JOB, _of_job(self), strict=True))}
        if self.attempt is not None:
            found.update(zip(_OF_ATTEMPT, _of_attempt(self.attempt), strict=True))
        return found if self.due is None else found | self.due.facts()

    def brief(self) -> Row:
        """Return the row without defaults."""
        facts = {key: value for (key, usual), value in zip(_USUAL_OF_JOB, _of_job(self), strict=True) if value != usual}
        if self.attempt is not None:
            for (key, usual), value in zip(_USUAL_OF_ATTEMPT, _of_attempt(self.attempt), strict=True):
                if value != usual:
                    facts[key] = value
        return facts if self.due is None else facts | self.due.facts()


@dataclass(frozen=True, slots=True)
class Run:
    """An attempt and its job, which may have another attempt by now."""

    job: Job
    attempt: Attempt

    @property
    def there(self) -> bool:
        """Return whether it is still the attempt of its job."""
        return self.job.attempt is self.attempt

    @property
    def key(self) -> tuple[int, int]:
        """The numbers of both."""
        return self.job.id, self.attempt.number


# A row is flat: its keys are the fields of a job, of its attempt, and of its due start.
_OWN = [each.name for each in fields(Job) if each.name not in ("attempt", "due")]
_OF_JOB = ["attempt" if name == "attempts" else name for name in _OWN]
_OF_ATTEMPT = [each.name for each in fields(Attempt) if each.name != "number"]
_of_job, _of_attempt = attrgetter(*_OWN), attrgetter(*_OF_ATTEMPT)
_USUAL_OF_JOB = [*zip(_OF_JOB, _of_job(Job(0)), strict=True)]
_USUAL_OF_ATTEMPT = [*({**dict(zip(_OF_ATTEMPT, _of_attempt(Attempt(0, 0)), strict=True)), "start": None}).items()]
USUAL: Row = dict([*_USUAL_OF_JOB, *_USUAL_OF_ATTEMPT, ("due", None), ("due_nodes", [])])
_APART = USUAL.keys() - {name for name in _OWN if name != "attempt"}  # keys that are not fields of a job


def whole(brief: Row) -> Row:
    """Return the whole row of a job from one without defaults."""
    return {**USUAL, **brief}


@dataclass(frozen=True, slots=True)
class Task:
    """A task of an array that is over, with the fields that requests about the array need."""

    id: int
    array: int
    index: int
    state: str

    @property
    def label(self) -> str:
        """Its number for users."""
        return label_text(self.id, self.array, self.index)
