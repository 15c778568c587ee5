"""A batch system as one look at it shows it: its nodes, its jobs, and what has ended since the last look.

Readers (`slurm.py`, `htcondor.py`) make snapshots and know nothing of the queue; `conclude.py` compares a snapshot with
the book. Times are microseconds since 1970 by the clock of the batch system, amounts those of `queue.nodes`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from backfill.pools.base import Identity
from backfill.queue.nodes import Amounts, Placement

UP, DRAIN, DOWN, UNKNOWN = "up", "drain", "down", "unknown"  # of a node
WAITING, RUNNING, ENDING, OVER = "waiting", "running", "ending", "over"  # of a job
# Why a job is left to its batch system: it asks for something that policies know nothing of.
NAMES, EXCLUDES, RANGE, THROTTLE, PARTS = "ReqNodes", "ExcNodes", "NodeRange", "ArrayLimit", "HetJob"
REQUIREMENTS, PARALLEL = "Requirements", "ParallelUniverse"


class Down(Exception):
    """The batch system did not answer; what it would have said is not known."""


@dataclass(frozen=True, slots=True)
class NodeNow:
    """A node. state: `unknown` of one that its controller has not heard of yet; that is no news of it.

    there: what it has. held: what is allocated there by now; empty if the batch system does not say.
    """

    name: str
    there: Amounts
    state: str = UP
    reason: str = ""
    held: Amounts = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Asked:
    """What a job asks for, in the terms of a request of the queue; see queue.job.Job."""

    need: Amounts
    walltime: int
    tasks: int = 1
    ntasks: int = 0
    spread: str = "any"
    constraint: str = ""
    partition: str = ""
    qos: str = ""
    exclusive: bool = False
    priority: int = 0


@dataclass(frozen=True, slots=True)
class JobNow:
    """A job.

    native: how people call it there, as `1234`, `12_3` or `7.0`. blocked: why it may not start whatever is free, in the
    words of the batch system; empty if it may. begin: before which it may not start. nodes: where it runs, as far as
    that is known. estimate: when it starts as the batch system expects. restarts: how often it was put back.
    end, state of the end (see queue.states), exit, signal: of one that is over. managed: it has the mark of a queue
    that starts it. held: nobody but an operator can start it. own: why only its batch system can place it, one of the
    words above; empty if a queue can. comment: what its user, and the queue, have written there for people to read.
    waits: what it waits for in the words of the batch system, blocked or not. returned: an operator has given it back
    to the scheduler of the batch system.
    """

    native: str
    submit: int
    asked: Asked
    name: str = ""
    user: str = ""
    group: str = ""
    state: str = WAITING
    blocked: str = ""
    begin: int | None = None
    start: int | None = None
    estimate: int | None = None
    nodes: Placement = ()
    restarts: int = 0
    end: int | None = None
    ended: str = ""
    exit: int | None = None
    signal: int | None = None
    managed: bool = False
    held: bool = False
    own: str = ""
    comment: str = ""
    waits: str = ""
    returned: bool = False

    @property
    def identity(self) -> Identity:
        """By which a job is known: numbers come back after a crash of a controller."""
        return self.native, self.submit


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One look. instance: changes when the controller was started anew. complete: if not, nothing follows from the
    absence of a job or a node. licences: the copies that there are of each. took: seconds that the look took; cpu:
    seconds of processor time on this machine, if that is known."""

    instance: str
    nodes: Sequence[NodeNow]
    jobs: Sequence[JobNow]
    licences: Mapping[str, int] = field(default_factory=dict)
    complete: bool = True
    took: float = 0.0
    cpu: float | None = None


class Hands(Protocol):
    """What a queue does in a batch system whose jobs it starts.

    All of it is harmless when it is done again, and believed when a look shows it. Raises Down. forgets: whether a
    controller that dies may forget that it has started jobs.
    """

    forgets: bool

    def instance(self) -> str:
        """That of the controller, as in a snapshot. Raises Down."""

    def adopt(self, some: Sequence[JobNow]) -> None:
        """Mark jobs that wait, and hold them: from now on only the queue starts them."""

    def start(self, some: Sequence[tuple[str, Sequence[str]]]) -> None:
        """Let held jobs run, each on these nodes."""

    def undo(self, some: Sequence[str]) -> None:
        """Hold jobs again that have not begun, on whatever nodes."""

    def stop(self, some: Sequence[tuple[str, bool]]) -> None:
        """End jobs that run. Each with whether it is to wait again, held."""

    def comment(self, some: Sequence[tuple[str, str]]) -> None:
        """Write comments that the users of jobs can read, each of a job."""

    def release(self, some: Sequence[JobNow]) -> None:
        """Give marked jobs that wait back to the scheduler of the batch system."""


class Reader(Protocol):
    """Looks at a batch system, and never changes anything there."""

    name: str

    def platform(self) -> str:
        """Its nodes and partitions as the text of a platform file. Raises Down."""

    def look(self) -> Snapshot:
        """What is true by now. Raises Down."""

    def recall(self, some: Sequence[Identity]) -> Sequence[JobNow]:
        """What is known of the ends of jobs that a look does not show any more. Raises Down."""

    def close(self) -> None:
        """Let go of what it holds."""
