"""The words of the twins, as plain data: jobs, nodes, what a policy sees, what it decides."""

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from backfill.model.units import NEVER

Time = int
Room = list[int]  # amounts: the resources of each node in turn, then the copies of each licence
Placement = tuple[tuple[int, int], ...]  # pairs (node, tasks), in node order


@dataclass(frozen=True, eq=False, kw_only=True)
class Job:
    """A gang of equal tasks that start together, each with a demand per resource."""

    row: int  # place in the file
    submit: Time
    runtime: Time  # the true one, on a node of speed 1: the world's alone, no policy looks at it
    walltime: Time  # the job is killed when it has run this long: the world's alone, too
    estimate: Time = None  # type: ignore[assignment]  # what policies go by; default: the walltime
    tasks: int = 1
    demand: tuple[int, ...] = (1,)  # per task; cpus first
    licences: tuple[int, ...] = ()  # one item per copy
    spread: str = "any"  # the gang sits on one "node", one "site", "any" nodes, or "distinct" ones
    exclusive: bool = False  # it has its nodes for itself; no twin knows that
    site: int | None = None  # pins the job to a site
    constraint: str = ""  # features of the nodes that it may run on: "a&b|!c"
    partition: int | None = None  # binds it to the nodes of that
    reservation: str = ""  # it runs in that alone, others not in it
    user: int | None = None
    place: str = "power"  # where it sits when it starts, among the places where it could
    after: tuple[int, ...] = ()  # rows of the jobs that must have ended
    priority: float = 0.0
    admin_priority: float = 0.0
    deadline: Time = NEVER
    project: str = ""  # "": it is a project of its own
    name: str = ""
    ready: bool = True  # all that it comes after is over; where not, its run would dangle

    def __post_init__(self):
        if self.estimate is None:
            object.__setattr__(self, "estimate", self.walltime)

    @property
    def procs(self) -> int:
        return self.tasks * self.demand[0]


@dataclass(frozen=True, eq=False)
class Node:
    capacity: tuple[int, ...]
    speed: float = 1.0
    site: int = 0
    hosts: frozenset[int] | None = None  # licences that may be used here; None = all
    features: tuple[str, ...] = ()  # its name, n0, n1, ..., is another one
    reservation: str = ""  # whose part of a node it is
    of: int | None = None  # of which node


@dataclass(frozen=True, eq=False)
class Platform:
    nodes: tuple[Node, ...]  # in order of power
    copies: tuple[int, ...] = ()  # of each floating licence
    partitions: tuple[frozenset[int], ...] = ()  # nodes of each; a job of none may run anywhere
    limits: tuple[Any, ...] = ()  # see limits.py
    accounts: int = 0  # so many of the last copies are accounts of limits

    @classmethod
    def pool(cls, *capacity: int) -> "Platform":
        return cls((Node(capacity),))


@dataclass(eq=False, kw_only=True)
class Event:
    """What happens besides submits and ends. What an event does not need stays at its default."""

    time: Time
    kind: str  # one of model.events.EVENTS
    job: int = -1  # its row
    nodes: tuple[int, ...] = ()
    resource: int | None = None
    licence: int | None = None
    value: Time | int | float = 0  # walltime, priority, amount; begin of a window
    until: Time = 0
    amount: int = 0
    begun: bool = False  # the world's note on a window
    revoked: Time = NEVER  # of a window: from when on it is known no more

    @property
    def whole_nodes(self) -> bool:
        return self.resource is None and self.licence is None


@dataclass(frozen=True, eq=False)
class Running:
    job: Job
    start: Time
    placement: Placement
    held: Room
    preemptible: bool = False
    since: Time | None = None  # when it began to make progress, where that is not its start
    made: Fraction = Fraction(0)  # its progress so far, where runs share processors
    latest: Time | None = None  # its end at the slowest pace since that changed last, likewise

    @property
    def limit(self) -> Time:
        """The latest end that a policy may count on."""
        if self.latest is not None:
            return self.latest
        return (self.start if self.since is None else self.since) + self.job.estimate


@dataclass(frozen=True)
class Reservation:
    start: Time
    placement: Placement
    late: bool = False  # made after an overdue job had broken the one before it


@dataclass(frozen=True, eq=False)
class View:
    """All that a policy may know in one pass."""

    now: Time
    platform: Platform
    capacity: list[
        tuple[Time, Room]
    ]  # what there is from now on, and from each instant at which a known window changes it
    free: Room
    queue: list[Job]  # by (submit, row)
    running: list[Running]  # in the order in which they started
    ended: bool  # at least one job ended since the last pass
    over: list[Running]  # the runs that completed since then, or were killed at their limit
    promises: dict[int, Reservation]  # row -> what the policy said of a job that still waits, in its last pass
    first_submit: Time  # of all jobs so far
    asked: frozenset[int]  # the resources that some job submitted so far asks for, those rejected left out
    memory: dict[str, Any] = field(default_factory=dict)  # what the policy wrote down in this run
    changed: bool = False  # in this instant there was something else than submits and ends
    unfinished: frozenset[int] = frozenset()  # rows of the jobs submitted so far that are not over
    submitted: list[Job] = field(default_factory=list)  # all so far, as they are now; also those that will never run
    dropped: frozenset[int] = frozenset()  # rows that never waited and never will: rejected, or cancelled before
    left: list[int] = field(default_factory=list)  # rows that were cancelled while they waited, since the last pass
    project_submits: dict[str, Time] = field(default_factory=dict)  # when the first job of a project was submitted
    paused: dict[int, Placement | None] = field(default_factory=dict)  # row -> where a preempted job that keeps its
    # progress must resume: where it was suspended, or anywhere (None)

    @property
    def windows(self) -> bool:
        """Will what there is change at a known time?"""
        return len(self.capacity) > 1


@dataclass(frozen=True)
class Start:
    job: Job
    placement: Placement
    reason: str
    preemptible: bool = False


@dataclass(frozen=True)
class Preempted:
    row: int
    how: str  # requeue, checkpoint or suspend
    overhead: Time = 0  # added to what is left of run time and walltime


@dataclass
class Decision:
    starts: list[Start] = field(default_factory=list)
    promises: dict[int, Reservation] = field(default_factory=dict)  # row -> reservation, also of jobs that start
    timers: set[Time] = field(default_factory=set)  # later instants at which the policy wants a pass
    preempted: list[Preempted] = field(default_factory=list)  # before the starts
    # row of a run -> the rows in which it has turns from now on, and how many there are
    turns: dict[int, tuple[frozenset[int], int]] = field(default_factory=dict)
    given: dict[int, Reservation] = field(default_factory=dict)  # row -> a promise of this pass that became another one


Policy = Callable[[View], Decision]
