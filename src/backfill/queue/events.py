"""The events of a queue: one frozen class per kind, and their one encoding as the JSON of the log.

Times are microseconds of the queue clock, memory is in bytes.
"""

from collections.abc import Callable, Sequence
from dataclasses import MISSING, dataclass, fields
from operator import itemgetter
from typing import Any, ClassVar, NamedTuple, Self, TypeVar, dataclass_transform

from backfill.queue.nodes import Amounts, Placement
from backfill.queue.shapes import Basis, Change, Grant, PlannerFacts, Record, Row

_KEYS = {"row": "job", "by": "for", "last": "job", "ahead": "by"}  # fields with another name in the JSON


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened to the queue."""

    kind: ClassVar[str] = ""
    keys: ClassVar[dict[str, str]] = {}  # names of fields -> names in the JSON
    usual: ClassVar[Row] = {}  # by key: the value if the JSON has none
    omitted: ClassVar[Row] = {}  # by key: the value that is not written
    values: ClassVar[Callable[[Row], Sequence[Any]]]  # of JSON in which no field is missing

    @property
    def column(self) -> int:
        """The number of the job in the log; 0 for none."""
        return 0

    def data(self) -> Row:
        """Return the JSON of the log."""
        found = {}
        for name, key in self.keys.items():
            value = getattr(self, name)
            if value != self.omitted.get(key, MISSING):
                found[key] = value
        return found

    @classmethod
    def read(cls, job: int, data: Row) -> Self:
        """Return the event with this data. Raises KeyError for a missing field."""
        return cls(*cls.values({**cls.usual, **data}))


@dataclass(frozen=True, slots=True)
class JobEvent(Event):
    """Something that happened to a job."""

    job: int

    @property
    def column(self) -> int:
        """See Event."""
        return self.job

    @classmethod
    def read(cls, job: int, data: Row) -> Self:
        """See Event."""
        return cls(job, *cls.values({**cls.usual, **data}))


class Decided(JobEvent):
    """A decision about a job that cannot be carried out. gone: the job is over, so it happened to the queue."""

    __slots__ = ()
    gone: bool

    @property
    def column(self) -> int:
        """See Event."""
        return 0 if self.gone else self.job

    def data(self) -> Row:
        """See Event."""
        found = JobEvent.data(self)
        return {"job": self.job, **found} if found.pop("gone", False) else found

    @classmethod
    def read(cls, job: int, data: Row) -> Self:
        """See Event."""
        return super().read(job or data["job"], data if job else {**data, "gone": True})


Class = TypeVar("Class", bound=type[Event])
KINDS: dict[str, type[Event]] = {}


@dataclass_transform(frozen_default=True)
def _kind(name: str, *written: str) -> Callable[[Class], Class]:
    """Return a decorator that makes a class the events of a kind. written: keys that the JSON always has."""

    def made(cls: Class) -> Class:
        event_class: Class = dataclass(frozen=True, slots=True)(cls)  # type: ignore[assignment]
        own = [each for each in fields(event_class) if each.name != "job"]  # `job` has its own column
        event_class.kind, event_class.keys = name, {each.name: _KEYS.get(each.name, each.name) for each in own}
        event_class.usual = {event_class.keys[each.name]: each.default for each in own if each.default is not MISSING}
        event_class.omitted = {key: value for key, value in event_class.usual.items() if key not in written}
        keys = [*event_class.keys.values()]
        event_class.values = itemgetter(*keys) if len(keys) > 1 else lambda data: [data[key] for key in keys]
        KINDS[name] = event_class
        return event_class

    return made


class Entry(NamedTuple):
    """An event with its instant and its position in the log, once it has one."""

    event: Event
    t: int = 0
    seq: int = 0

    @property
    def job(self) -> int:
        """The open job of the event; 0 for the queue."""
        return self.event.column


@dataclass(frozen=True, slots=True)
class Other(JobEvent):
    """An event of a kind that this version does not know; job: 0 if it happened to the queue."""

    name: str


def decoded(kind: str, job: int, data: Row) -> Event:
    """Return an event from the log. Raises KeyError for a missing field."""
    cls = KINDS.get(kind)
    return Other(job, kind) if cls is None else cls.read(job, data)


# ---------------------------------------------------------------------- events of the queue


@_kind("up", "last_job")
class Up(Event):
    """A daemon has begun to work. boot, anchor: of its clock."""

    pool: str = ""
    trouble: str = ""
    boot: str | None = None
    anchor: int | None = None
    skew: int | None = None
    last_job: int = 0


@_kind("planner")
class PlannerDown(Event):
    """The planner has ended, so no decisions are made until another one is ready."""


@_kind("clock")
class ClockSet(Event):
    """The machine has slept, or its calendar was set."""

    trouble: str = ""
    slept: int = 0
    skew: int | None = None


@_kind("capacity")
class Capacity(Event):
    """The capacity of all nodes from now on; nodes and platform: if the queue has a platform."""

    resources: Amounts
    cpu_ids: Sequence[int]
    gpu_ids: Sequence[int]
    nodes: dict[str, Amounts] | None = None
    platform: str | None = None


@_kind("node")
class NodeSet(Event):
    """The capacity of a node from now on, or the number of copies of floating licences."""

    node: str
    resources: Amounts
    reason: str = ""


@_kind("array")
class Array(Event):
    """An array whose tasks are about to be entered. row: their common facts."""

    row: Row
    indexes: Sequence[int | None]
    after: Sequence[Any]


@_kind("epoch")
class Epoch(Event):
    """A policy takes over."""

    basis: Basis

    def data(self) -> Row:
        """See Event."""
        return dict(self.basis)

    @classmethod
    def read(cls, job: int, data: Any) -> Self:
        """See Event."""
        return cls(data)


@_kind("pass")
class PassBegun(Event):
    """A pass of the policy begins."""

    now: int


@_kind("plan")
class Plan(Event):
    """The reserved starts when a daemon stopped: job, start, placement."""

    plan: list[list[Any]]


@_kind("pause")
class Pause(Event):
    """No jobs are started from now on."""


@_kind("unpause")
class Unpause(Event):
    """Jobs are started again."""


@_kind("shown")
class Shown(Event):
    """Estimates that were shown to users, see answers.estimates."""

    estimates: list[list[Any]]


@_kind("restored", "first", "found", "ended", "closed", "lost", "counts")
class Restored(Event):
    """The log was older than what had happened, and was restored from the witness.

    first: the next job number; each list gives its first jobs and their number.
    """

    first: int = 0
    found: Sequence[int] = ()
    ended: Sequence[int] = ()
    closed: Sequence[int] = ()
    lost: Sequence[int] = ()
    counts: dict[str, int] | None = None


@_kind("backup")
class Backup(Event):
    """The last event of a backup of a store."""


@_kind("project")
class ProjectQueued(Event):
    """A project is submitted as a whole. first: the number of its first job, the others have the next numbers."""

    project: str
    user: str
    first: int
    count: int


@_kind("departure")
class Departure(Event):
    """A new promise of a project's departure.

    until: None if there is none; left: open jobs that do not count in it; last: the job that ends last (0 for none);
    counts: jobs that count for the first time; ahead: the job for which the last one made way (0 for none).
    """

    project: str
    until: int | None
    left: int
    last: int
    counts: Sequence[int]
    cause: str
    ahead: int = 0


@_kind("departed")
class Departed(Event):
    """The last job of a project is over. slip: why it is later than promised."""

    project: str
    ended: int
    slip: str = ""


@_kind("reserve")
class Reserve(Event):
    """An advance reservation is created; from and until are instants of the calendar.

    nodes: see shapes.Grant; token: of the request.
    """

    reservation: str
    begin: int
    until: int
    nodes: list[Any]
    user: str = ""
    group: str = ""
    project: str = ""
    token: str = ""

    def granted(self, skew: int) -> Grant:
        """Return the reservation in instants of the queue clock. skew: calendar minus queue clock."""
        return {
            "reservation": self.reservation, "user": self.user, "group": self.group, "project": self.project,
            "begin": self.begin - skew, "until": self.until - skew, "nodes": self.nodes,
        }  # fmt: skip


@_kind("opened")
class Opened(Event):
    """An advance reservation has begun."""

    reservation: str


@_kind("unreserve")
class Unreserve(Event):
    """An advance reservation is over. early: it was cancelled."""

    reservation: str
    early: bool = False


# ---------------------------------------------------------------------- events of a job


@_kind("submit")
class Submit(JobEvent):
    """A job is submitted."""

    row: Row


@_kind("adopted")
class Adopted(JobEvent):
    """An attempt was found that is not in the log. row: of the job, with the attempt."""

    row: Row


@_kind("wait")
class Wait(JobEvent):
    """A job joins the queue of the policy. promised, nodes: the start that an earlier planner promised."""

    promised: int | None = None
    nodes: Placement = ()


@_kind("hold")
class Hold(JobEvent):
    """A job must not start until it is released."""

    why: str


@_kind("release")
class Release(JobEvent):
    """A held job may start again."""


@_kind("edit")
class Edit(JobEvent):
    """A job is changed. leaves: it leaves the queue of the policy; told: its new facts for the planner."""

    to: Change
    leaves: bool | None = None
    told: PlannerFacts | None = None


@_kind("promise")
class Promise(JobEvent):
    """The policy promises a start."""

    start: int


@_kind("advised")
class Advised(JobEvent):
    """The policy would have started, for the first time, a job that only its batch system can start."""

    nodes: Placement | None = None


@_kind("expected")
class Expected(JobEvent):
    """A batch system expects a start of a job for the first time."""

    start: int


@_kind("due", "behind")
class Due(JobEvent):
    """The policy starts a job that has to wait for preempted jobs (behind) to end."""

    start: int
    why: str
    nodes: Placement | None = None
    behind: Sequence[int] = ()


@_kind("withdrawn")
class Withdrawn(JobEvent):
    """The start of a due job is withdrawn."""


@_kind("declined")
class Declined(Decided):
    """The policy started a job that cannot be started."""

    why: str
    nodes: Placement | None = None
    gone: bool = False


@_kind("spared")
class Spared(Decided):
    """The policy preempted a job that no longer holds anything. how, overhead: see Preempt."""

    by: int
    gone: bool = False
    how: str = ""
    overhead: int = 0


@_kind("preempt")
class Preempt(JobEvent):
    """The policy preempts a job for another one.

    leaves: it is not in the queue of the policy again; how: `suspend` or `checkpoint` if it keeps its progress, at the
    cost of the overhead.
    """

    by: int
    leaves: bool = False
    how: str = ""
    overhead: int = 0


@_kind("preempted", "for")
class Preempted(JobEvent):
    """The attempt of a preempted job is over. found: the preemption itself is missing in the log."""

    by: int = 0
    leaves: bool = False
    found: bool = False


@_kind("kept", "done")
class Kept(JobEvent):
    """The kept progress of a pending job: used walltime, and how it goes on (`suspend`, `checkpoint`; empty: anew)."""

    done: int = 0
    how: str = ""


@_kind("start")
class Start(JobEvent):
    """An attempt is started.

    due: when the policy started it; slip: why it is later than promised; instance: of the controller of a batch system
    at that time.
    """

    attempt: int
    start: int
    why: str
    cpu_ids: Sequence[int]
    gpu_ids: Sequence[int]
    nodes: Placement | None = None
    due: int | None = None
    slip: str = ""
    instance: str = ""


@_kind("began")
class Began(JobEvent):
    """An attempt runs that the policy did not start.

    row: of a job that is not in the log; told: the new facts of the job for the planner, if they changed.
    """

    attempt: int
    start: int
    why: str
    nodes: Placement
    cpu_ids: Sequence[int]
    gpu_ids: Sequence[int]
    row: Row | None = None
    told: PlannerFacts | None = None
    processes: Record | None = None


@_kind("spawned", "processes")
class Spawned(JobEvent):
    """The processes of an attempt were seen."""

    processes: Record


@_kind("stop")
class Stop(JobEvent):
    """An attempt is asked to end. leaves: its job leaves the queue of the policy."""

    cause: str
    leaves: bool = False


@_kind("suspend")
class Suspend(JobEvent):
    """The processes of an attempt are stopped."""


@_kind("resume")
class Resume(JobEvent):
    """The processes of an attempt continue."""


@_kind("signal")
class Signal(JobEvent):
    """The processes of an attempt are sent a signal."""

    number: int


@_kind("unstarted", "launch")
class Unstarted(JobEvent):
    """An attempt never began. launch: it could not be launched. waited: why its batch system did not start it."""

    launch: bool = False
    waited: str = ""


@_kind("requeue")
class Requeue(JobEvent):
    """An attempt is over, and its job is pending again. retry: the number of the retry after a failure."""

    asked: bool = False
    retry: int = 0
    exit: int | None = None
    signal: int | None = None

    def data(self) -> Row:
        """See Event."""
        return Event.data(self) | ({} if self.signal is None else {"exit": self.exit})


@_kind("end", "reason")
class End(JobEvent):
    """A job is over.

    exit and the following fields: of its attempt, whose signal is 0 if it got none; detail: why it could not run;
    ended: when, if known.
    """

    state: str
    reason: str = ""
    exit: int | None = None
    signal: int | None = None
    maxrss: int | None = None
    cpu: int | None = None
    detail: str = ""
    ended: int | None = None

    def data(self) -> Row:
        """See Event."""
        measured = {"exit": self.exit, "maxrss": self.maxrss, "cpu": self.cpu}
        return Event.data(self) | ({} if self.signal is None else measured)
