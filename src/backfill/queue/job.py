"""A job of the queue, as a value and as the row that is in the store and on the wire.

Times are microseconds of the queue clock, memory is in bytes.
"""

from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

from backfill.queue.shapes import Record, Row
from backfill.queue.states import COMPLETED, NEW

Facts = dict[str, Any]
REQUEUE = "requeue"  # why an attempt is ended: somebody wants the job to run again
FOREIGN = "foreign-start"  # why a promise was broken: somebody else started a job
PREEMPT = "preempt"  # why an attempt is ended: the policy takes back what it holds, for another job


@dataclass(slots=True)
class Job:
    """All that is known of a job, what happened to it included."""

    id: int
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
    walltime: int = 0
    grace: int = 0  # between TERM and KILL at the walltime; policies count it in
    submit: int = 0
    begin: int | None = None
    deadline: int | None = None
    requeue: bool = False
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
    due: int | None = None  # when the policy started it, while what it needs is not free yet
    yields: bool = False  # the policy has taken back what its attempt holds: it makes way
    preemptions: int = 0  # attempts that made way
    preempted_for: int = 0  # the job for which the last one did
    attempt: int = 0
    failures: int = 0  # attempts in a row that could not be launched
    withdrawn: int = 0  # attempts in a row that never began, for whatever reason
    restarts: int = 0
    retry: int = 0  # how often it is started again if it fails
    retries: int = 0  # how often it was
    notify: str = ""  # a command for the shell, to be run once it is over
    suspended: bool = False  # its processes stand still
    why: str = ""  # why it was started, in the policy's words
    promise: int | None = None  # the first start that the policy promised
    promised: int = 0  # when it did
    start: int | None = None
    ran: int = 0  # for how long its earlier attempts ran
    spawned: int | None = None
    processes: Record = field(default_factory=dict)  # of the attempt, once they were seen
    end: int | None = None
    nodes: list[list[Any]] = field(default_factory=list)  # where its attempt runs, see nodes.Placement
    due_nodes: list[list[Any]] = field(default_factory=list)  # where it is due
    cpu_ids: list[int] = field(default_factory=list)
    gpu_ids: list[int] = field(default_factory=list)
    cause: str = ""  # why it is being ended
    exit: int | None = None
    signal: int | None = None
    maxrss: int | None = None
    cpu: int | None = None  # cpu time used
    slip: str = ""  # why it started later than promised

    @property
    def label(self) -> str:
        """How people call it: 118, or 112_3 for a task of an array."""
        return str(self.id) if self.index is None else f"{self.array}_{self.index}"

    @property
    def code(self) -> int:
        """The exit code that `wait` returns."""
        if self.state == COMPLETED:
            return 0
        if self.signal:
            return 128 + self.signal
        return self.exit or 1

    @classmethod
    def read(cls, row: Row) -> "Job":
        """The job of a row, which may be brief. It shares lists with the row."""
        return cls(**row)

    def facts(self) -> Row:
        """The whole row, which `read` reads. It shares lists with the job: write it down at once."""
        return {name: getattr(self, name) for name in self.__slots__}

    def brief(self) -> Row:
        """The row without what is usual."""
        return {name: value for (name, usual), value in zip(_USUAL, _values(self), strict=True) if value != usual}


USUAL = Job(0).facts()
_USUAL = [*USUAL.items()]
_values = attrgetter(*USUAL)  # of a job, all at once


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
