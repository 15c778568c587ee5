"""The events of a queue: one frozen class per kind, and their one encoding as the JSON of the log.

Times are microseconds of the queue clock, memory is in bytes.
"""

from collections.abc import Callable, Sequence
from dataclasses import MISSING, dataclass, fields
from operator import itemgetter
from typing import Any, ClassVar, NamedTuple, Self, TypeVar, dataclass_transform

from backfill.queue.nodes import Amounts, Placement
from backfill.queue.shapes import Basis, Change, Grant, Record, Row, Told

_KEYS = {"row": "job", "by": "for", "last": "job", "ahead": "by"}  # fields that have another name in the JSON


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened to the queue."""

    kind: ClassVar[str] = ""
    keys: ClassVar[dict[str, str]] = {}  # by the names of the fields: those in the JSON
    usual: ClassVar[Row] = {}  # by key: the value where the JSON has none
    omitted: ClassVar[Row] = {}  # by key: the value that is not written down
    values: ClassVar[Callable[[Row], Sequence[Any]]]  # of JSON in which no field is missing

    @property
    def column(self) -> int:
        """The job under which the log has it; 0 for none."""
        return 0

    def data(self) -> Row:
        """What the log has of it, as JSON."""
        found = {}
        for name, key in self.keys.items():
            value = getattr(self, name)
            if value != self.omitted.get(key, MISSING):
                found[key] = value
        return found

    @classmethod
    def read(cls, job: int, data: Row) -> Self:
        """The event that has this data. Raises KeyError for what is missing."""
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
    """Let a class be the events of a kind. written: keys that the JSON has even where their values are usual."""

    def made(cls: Class) -> Class:
        found: Class = dataclass(frozen=True, slots=True)(cls)  # type: ignore[assignment]
        own = [each for each in fields(found) if each.name != "job"]  # which has its own column
        found.kind, found.keys = name, {each.name: _KEYS.get(each.name, each.name) for each in own}
        found.usual = {found.keys[each.name]: each.default for each in own if each.default is not MISSING}
        found.omitted = {key: value for key, value in found.usual.items() if key not in written}
        keys = [*found.keys.values()]
        found.values = itemgetter(*keys) if len(keys) > 1 else lambda data: [data[key] for key in keys]
        KINDS[name] = found
        return found

    return made


class Entry(NamedTuple):
    """An event with its instant and its place in the log, once it is there."""

    event: Event
    t: int = 0
    seq: int = 0

    @property
    def job(self) -> int:
        """The open job to which it happened; 0 for the queue."""
        return self.event.column


@dataclass(frozen=True, slots=True)
class Other(JobEvent):
    """An event of a kind that this program does not know; job: 0 of one that happened to the queue."""

    name: str


def decoded(kind: str, job: int, data: Row) -> Event:
    """An event of the log. Raises KeyError for what is missing."""
    found = KINDS.get(kind)
    return Other(job, kind) if found is None else found.read(job, data)


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
    """The planner is gone, so nobody decides until another one is made."""


@_kind("clock")
class ClockSet(Event):
    """The machine has slept, or its calendar was set."""

    trouble: str = ""
    slept: int = 0
    skew: int | None = None


@_kind("capacity")
class Capacity(Event):
    """All that the nodes have from now on; nodes and platform: where the queue has a platform."""

    resources: Amounts
    cpu_ids: Sequence[int]
    gpu_ids: Sequence[int]
    nodes: dict[str, Amounts] | None = None
    platform: str | None = None


@_kind("node")
class NodeSet(Event):
    """What a node has from now on, or how many copies there are of floating licences."""

    node: str
    resources: Amounts
    reason: str = ""


@_kind("array")
class Array(Event):
    """An array whose tasks are about to be entered. row: what they have in common."""

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
    """The policy is asked."""

    now: int


@_kind("plan")
class Plan(Event):
    """The reserved starts with which a daemon stopped: job, start, placement."""

    plan: list[list[Any]]


@_kind("pause")
class Pause(Event):
    """Nothing is started from now on."""


@_kind("unpause")
class Unpause(Event):
    """Jobs are started again."""


@_kind("shown")
class Shown(Event):
    """Estimates that people were told, see answers.estimates."""

    estimates: list[list[Any]]


@_kind("restored", "first", "found", "ended", "closed", "lost", "counts")
class Restored(Event):
    """The log was older than what has happened. first: the next job number; of each list, its first jobs and how many
    there are."""

    first: int = 0
    found: Sequence[int] = ()
    ended: Sequence[int] = ()
    closed: Sequence[int] = ()
    lost: Sequence[int] = ()
    counts: dict[str, int] | None = None


@_kind("backup")
class Backup(Event):
    """The last event of a copy of a store."""


@_kind("project")
class ProjectQueued(Event):
    """A project is submitted as a whole. first: the number of its first job, which its others follow."""

    project: str
    user: str
    first: int
    count: int


@_kind("departure")
class Departure(Event):
    """The departure that the policy promises a project from now on; until: None for none, left: open jobs that do not
    count in it, last: the job that ends last (0 none), counts: jobs that count for the first time, ahead: the job for
    which the last one made way (0 none)."""

    project: str
    until: int | None
    left: int
    last: int
    counts: Sequence[int]
    cause: str
    ahead: int = 0


@_kind("departed")
class Departed(Event):
    """The last job of a project is over. slip: why that is later than promised."""

    project: str
    ended: int
    slip: str = ""


@_kind("reserve")
class Reserve(Event):
    """An advance reservation is made, from and until instants of the calendar; nodes: see shapes.Grant; token: of the
    request."""

    reservation: str
    begin: int
    until: int
    nodes: list[Any]
    user: str = ""
    group: str = ""
    project: str = ""
    token: str = ""

    def granted(self, skew: int) -> Grant:
        """The same by the queue clock. skew: what the calendar is ahead of it."""
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
    """An advance reservation is over. early: somebody has cancelled it."""

    reservation: str
    early: bool = False


# ---------------------------------------------------------------------- events of a job


@_kind("submit")
class Submit(JobEvent):
    """A job is submitted."""

    row: Row


@_kind("adopted")
class Adopted(JobEvent):
    """An attempt was found that the log does not know. row: of the job, with the attempt."""

    row: Row


@_kind("wait")
class Wait(JobEvent):
    """A job joins the queue of the policy. promised, nodes: the start that an earlier planner promised it."""

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
    """A job is changed. leaves: it leaves the queue of the policy; told: what the planner knows of it from now on."""

    to: Change
    leaves: bool | None = None
    told: Told | None = None


@_kind("promise")
class Promise(JobEvent):
    """The policy promises a start."""

    start: int


@_kind("advised")
class Advised(JobEvent):
    """The policy would have started a job that only its batch system starts, the first time that it would have."""

    nodes: Placement | None = None


@_kind("expected")
class Expected(JobEvent):
    """A batch system expects this start for a job, the first time that it does."""

    start: int


@_kind("due", "behind")
class Due(JobEvent):
    """The policy starts a job in the place of others (behind) that make way."""

    start: int
    why: str
    nodes: Placement | None = None
    behind: Sequence[int] = ()


@_kind("withdrawn")
class Withdrawn(JobEvent):
    """A job that was due does not start."""


@_kind("declined")
class Declined(Decided):
    """The policy started a job that cannot be started."""

    why: str
    nodes: Placement | None = None
    gone: bool = False


@_kind("spared")
class Spared(Decided):
    """The policy preempted a job that holds nothing any more. how, overhead: see Preempt."""

    by: int
    gone: bool = False
    how: str = ""
    overhead: int = 0


@_kind("preempt")
class Preempt(JobEvent):
    """The policy preempts a job for another one. leaves: it is not in the queue of the policy again; how: `suspend` or
    `checkpoint` if it keeps its progress, which costs it the overhead."""

    by: int
    leaves: bool = False
    how: str = ""
    overhead: int = 0


@_kind("preempted", "for")
class Preempted(JobEvent):
    """The attempt of a preempted job is over. found: the log has lost that the policy preempted it."""

    by: int = 0
    leaves: bool = False
    found: bool = False


@_kind("kept", "done")
class Kept(JobEvent):
    """How a pending job goes on (`suspend`, `checkpoint`, or anew where that is empty), and how much of its walltime is
    behind it by then."""

    done: int = 0
    how: str = ""


@_kind("start")
class Start(JobEvent):
    """An attempt is started. due: when the policy started it; slip: why that is later than promised; instance:
    of the controller of a batch system, as it was then."""

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
    """An attempt runs that somebody else started. row: of a job that the log does not know; told: what the planner is
    to know of the job from now on, if that is something else than before."""

    attempt: int
    start: int
    why: str
    nodes: Placement
    cpu_ids: Sequence[int]
    gpu_ids: Sequence[int]
    row: Row | None = None
    told: Told | None = None
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
    """The processes of an attempt stand still."""


@_kind("resume")
class Resume(JobEvent):
    """The processes of an attempt go on."""


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
    """A job is over. exit and what follows: of its attempt, whose signal is 0 if it got none; detail: why it could not
    run; ended: when, if that is known."""

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
