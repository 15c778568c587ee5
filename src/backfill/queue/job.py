"""A job of the queue and its attempt, as values and as the row of a job in the store and on the wire.

Times are microseconds of the queue clock, memory is in bytes.
"""

from dataclasses import dataclass, field, fields
from operator import attrgetter
from typing import Any

from backfill.queue.shapes import Record, Row
from backfill.queue.states import BY_ITSELF, COMPLETED, NEW

Facts = dict[str, Any]
REQUEUE = "requeue"  # why an attempt is ended: somebody wants the job to run again
FOREIGN = "foreign-start"  # why a promise was broken: somebody else started a job
NEVER = "BadConstraints"  # why a job is held that the platform can never run, in the word of Slurm
DECLINED = "StartsDeclined"  # why a job is held whose starts the book could not accept
UNCERTAIN = "Uncertain"  # why a job is held that may have run, as its batch system has forgotten it
PREEMPT = "preempt"  # why an attempt is ended: the policy takes back what it holds, for another job
CHECKPOINT, SUSPEND = "checkpoint", "suspend"  # how a preempted job keeps its progress: it goes on anywhere, or there


@dataclass(slots=True)
class Attempt:
    """One stay of a job on the machine: from its start until it is over, and of a job that is over its last one."""

    number: int  # of those of its job, from 1
    start: int
    why: str = ""  # why it was started, in the policy's words
    slip: str = ""  # why it started later than promised
    nodes: list[list[Any]] = field(default_factory=list)  # where it runs, see nodes.Placement
    cpu_ids: list[int] = field(default_factory=list)
    gpu_ids: list[int] = field(default_factory=list)
    spawned: int | None = None  # when its processes were seen
    processes: Record = field(default_factory=dict)
    suspended: bool = False  # its processes stand still
    yields: bool = False  # the policy has taken back what it holds: it makes way
    cause: str = ""  # why it is being ended
    exit: int | None = None
    signal: int | None = None
    maxrss: int | None = None
    cpu: int | None = None  # cpu time used
    instance: str = ""  # of the controller of a batch system by which it was decided

    @property
    def exit_code(self) -> int | None:
        """Its exit code; None if a signal ended it, or nothing yet."""
        return None if self.signal else self.exit


@dataclass(frozen=True, slots=True)
class DueStart:
    """A start that the policy has decided, while what the job needs is not free yet."""

    start: int  # when the policy decided it
    why: str
    nodes: list[list[Any]]  # where, see nodes.Placement

    def facts(self) -> Row:
        """What the row of its job has of it."""
        return {"due": self.start, "why": self.why, "due_nodes": self.nodes}


@dataclass(slots=True)
class Job:
    """What was asked for, what it waits for, its attempt, and its history, in this order."""

    id: int
    native: str = ""  # its number in the batch system to which it was submitted, if not to this queue
    native_submit: int = 0  # when, by the clock of that: numbers come back
    outside: bool = False  # the platform cannot run it, as far as the queue knows; yet its batch system may
    token: str = ""
    spec: int = 0  # what to run, where, in which environment: a row of the store
    name: str = ""
    user: str = ""
    group: str = ""
    project: str = ""
    priority: int = 0
    need: dict[str, int] = field(default_factory=dict)  # per task, but for floating licences
    tasks: int = 1
    ntasks: int = 0  # those that its submitter asked for, of which each of these has equally many; 0 as many
    spread: str = "any"  # over which nodes the tasks may be spread, see model.workload.SPREAD
    site: str = ""
    constraint: str = ""  # the type of its gpus included
    gpu_type: str = ""
    partition: str = ""
    qos: str = ""
    exclusive: bool = False  # it has its nodes for itself
    reservation: str = ""  # the advance reservation in which it runs
    walltime: int = 0
    grace: int = 0  # between TERM and KILL at the walltime; policies count it in
    submit: int = 0
    begin: int | None = None
    deadline: int | None = None
    requeue: bool = False
    retry: int = 0  # how often it is started again if it fails
    notify: str = ""  # a command for the shell, to be run once it is over
    array: int = 0  # id of the first task of its array
    index: int | None = None  # its number in the array
    throttle: int = 0  # tasks of its array that may run at once; 0 any number
    after: list[list[Any]] = field(default_factory=list)  # what it still waits for: [kind, job or array]
    any_of: bool = False  # one of these is enough
    singleton: bool = False
    never: bool = False  # what it waits for can never come
    held: str = ""  # the reason, for one that is held
    state: str = NEW
    reason: str = ""  # why it is pending, or why it ended so
    waits: bool = False  # the policy has it in its queue
    promise: int | None = None  # the first start that the policy promised
    promised: int = 0  # when it did
    expected: int | None = None  # the first start that its batch system expected
    advised: int | None = None  # when the policy would have started it, if only its batch system starts jobs
    due: DueStart | None = None
    attempt: Attempt | None = None  # none of a job that is pending, or that never started
    attempts: int = 0  # the number of the last one
    failures: int = 0  # attempts in a row that could not be launched
    withdrawn: int = 0  # attempts in a row that never began, for whatever reason
    restarts: int = 0
    retries: int = 0  # how often it was started again since it had failed
    preemptions: int = 0  # attempts that made way
    preempted_for: int = 0  # the job for which the last one did
    done: int = 0  # how much of its walltime is behind it: progress that was kept, less what it costs to go on
    keeps: str = ""  # how its last preemption kept that: CHECKPOINT, SUSPEND, or not at all
    stood: list[list[Any]] = field(default_factory=list)  # where it was suspended, see nodes.Placement
    ran: int = 0  # for how long its earlier attempts ran
    end: int | None = None

    @property
    def label(self) -> str:
        """How people call it: 118, or 112_3 for a task of an array; in a batch system as there."""
        if self.native:
            return self.native
        return str(self.id) if self.index is None else f"{self.array}_{self.index}"

    @property
    def left(self) -> int:
        """How much of its walltime is left to it when it starts."""
        return self.walltime - self.done

    @property
    def code(self) -> int:
        """The exit code that `wait` returns."""
        if self.state == COMPLETED:
            return 0
        if self.attempt is None:
            return 1
        return 128 + self.attempt.signal if self.attempt.signal else self.attempt.exit or 1

    @property
    def start(self) -> int | None:
        """When its attempt was started; None if it has none."""
        return None if self.attempt is None else self.attempt.start

    @property
    def says_how_long(self) -> bool:
        """Whether it is over, and says how long such jobs run: it ended by itself, or at its walltime."""
        return self.start is not None and self.end is not None and self.state in BY_ITSELF

    @property
    def took(self) -> int:
        """How long a job that is over ran in all; 0 if it never did."""
        return 0 if self.start is None or self.end is None else self.end - self.start + self.done

    @property
    def why(self) -> str:
        """Why it was started, or is due, in the policy's words; empty if it is neither."""
        decided = self.due or self.attempt
        return "" if decided is None else decided.why

    @property
    def yields(self) -> bool:
        """Whether its attempt makes way."""
        return self.attempt is not None and self.attempt.yields

    @property
    def current(self) -> Attempt:
        """Its attempt; it must have one."""
        assert self.attempt is not None, f"job {self.label} has no attempt"
        return self.attempt

    @property
    def run(self) -> "Run":
        """Its attempt, with the job; it must have one."""
        return Run(self, self.current)

    @classmethod
    def read(cls, row: Row) -> "Job":
        """The job of a row, which may be brief. It shares lists with the row.

        A row of an earlier version may say something of an attempt that is over and was not the last: that is left out.
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
        """The whole row, which `read` reads. It shares lists with the job: write it down at once."""
        found = {**USUAL, **dict(zip(_OF_JOB, _of_job(self), strict=True))}
        if self.attempt is not None:
            found.update(zip(_OF_ATTEMPT, _of_attempt(self.attempt), strict=True))
        return found if self.due is None else found | self.due.facts()

    def brief(self) -> Row:
        """The row without what is usual."""
        found = {key: value for (key, usual), value in zip(_USUAL_OF_JOB, _of_job(self), strict=True) if value != usual}
        if self.attempt is not None:
            for (key, usual), value in zip(_USUAL_OF_ATTEMPT, _of_attempt(self.attempt), strict=True):
                if value != usual:
                    found[key] = value
        return found if self.due is None else found | self.due.facts()


@dataclass(frozen=True, slots=True)
class Run:
    """An attempt, with its job, which may have another one by now."""

    job: Job
    attempt: Attempt

    @property
    def there(self) -> bool:
        """Whether it is still that of its job."""
        return self.job.attempt is self.attempt

    @property
    def key(self) -> tuple[int, int]:
        """The numbers of both."""
        return self.job.id, self.attempt.number


# A row is flat: its keys are the fields of a job, of its attempt, and of the start that is due.
_OWN = [each.name for each in fields(Job) if each.name not in ("attempt", "due")]
_OF_JOB = ["attempt" if name == "attempts" else name for name in _OWN]
_OF_ATTEMPT = [each.name for each in fields(Attempt) if each.name != "number"]
_of_job, _of_attempt = attrgetter(*_OWN), attrgetter(*_OF_ATTEMPT)
_USUAL_OF_JOB = [*zip(_OF_JOB, _of_job(Job(0)), strict=True)]
_USUAL_OF_ATTEMPT = [*({**dict(zip(_OF_ATTEMPT, _of_attempt(Attempt(0, 0)), strict=True)), "start": None}).items()]
USUAL: Row = dict([*_USUAL_OF_JOB, *_USUAL_OF_ATTEMPT, ("due", None), ("due_nodes", [])])
_APART = USUAL.keys() - {name for name in _OWN if name != "attempt"}  # keys that are not fields of a job


def whole(brief: Row) -> Row:
    """All facts of a job that is written down without what is usual."""
    return {**USUAL, **brief}


@dataclass(frozen=True, slots=True)
class Task:
    """A task of an array that is over, as far as requests about the array need it."""

    id: int
    array: int
    index: int
    state: str

    @property
    def label(self) -> str:
        """How people call it."""
        return f"{self.array}_{self.index}"
