"""The state of a batch system as seen by one look: nodes, jobs, and what has ended since the last look.

Readers (`slurm.py`, `htcondor.py`) make snapshots and know nothing of the queue; `conclude.py` compares a snapshot with
the queue's records. Times are microseconds since 1970 by the clock of the batch system, amounts those of `queue.nodes`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from backfill.pools.base import Identity
from backfill.queue.nodes import Amounts, Placement

UP, DRAIN, DOWN, UNKNOWN = "up", "drain", "down", "unknown"  # states of a node
WAITING, RUNNING, ENDING, OVER = "waiting", "running", "ending", "over"  # states of a job
# Reasons why a job is left to its batch system: it asks for something that policies do not know.
NAMES, EXCLUDES, RANGE, THROTTLE, PARTS = "ReqNodes", "ExcNodes", "NodeRange", "ArrayLimit", "HetJob"
REQUIREMENTS, PARALLEL = "Requirements", "ParallelUniverse"


class Down(Exception):
    """The batch system did not answer, so its state is not known."""


@dataclass(frozen=True, slots=True)
class NodeNow:
    """A node. state: `unknown` if it has not yet reported to its controller; then nothing is concluded about it.

    there: its resources. held: what is allocated now; empty if the batch system does not say.
    """

    name: str
    there: Amounts
    state: str = UP
    reason: str = ""
    held: Amounts = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Asked:
    """The request of a job, in the terms of the queue; see queue.job.Job."""

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

    native: its name there, such as `1234`, `12_3` or `7.0`. blocked: why it may not start even if everything is free,
    in the words of the batch system; empty if it may. begin: it may not start earlier. nodes: where it runs, if known.
    estimate: the start that the batch system expects. restarts: how often it was requeued. end, ended (see
    queue.states), exit, signal: of a job that is over. managed: it has the mark of a queue that starts it. held: only
    an operator can start it. own: why only its batch system can place it, one of the words above; empty if a queue can.
    comment: text by its user and by the queue. waits: why it waits, in the words of the batch system, whether or not it
    is blocked. returned: an operator has given it back to the scheduler of the batch system.
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
        """The key of a job; the submit time is part of it, since numbers are reused after a crash of a controller."""
        return self.native, self.submit


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state at one look.

    instance: changes when the controller is restarted. complete: if False, nothing follows from the absence of a job or
    a node. licences: the number of copies of each. took: duration of the look, in seconds; cpu: processor time of the
    look on this machine, in seconds, if known.
    """

    instance: str
    nodes: Sequence[NodeNow]
    jobs: Sequence[JobNow]
    licences: Mapping[str, int] = field(default_factory=dict)
    complete: bool = True
    took: float = 0.0
    cpu: float | None = None


class Hands(Protocol):
    """The actions of a queue in a batch system whose jobs it starts.

    Each action may be repeated, and counts as done only when a look shows it. Methods raise Down. forgets: whether a
    controller that dies may forget that it has started jobs.
    """

    forgets: bool

    def instance(self) -> str:
        """Return the controller's instance, as in a snapshot. Raises Down."""

    def adopt(self, some: Sequence[JobNow]) -> None:
        """Mark and hold waiting jobs: from now on only the queue starts them."""

    def start(self, some: Sequence[tuple[str, Sequence[str]]]) -> None:
        """Release held jobs, each on the given nodes."""

    def undo(self, some: Sequence[str]) -> None:
        """Hold jobs again that have not begun, and clear their nodes."""

    def stop(self, some: Sequence[tuple[str, bool]]) -> None:
        """End running jobs; the flag says whether the job is to wait again, held."""

    def comment(self, some: Sequence[tuple[str, str]]) -> None:
        """Write comments that the users of the jobs can read."""

    def release(self, some: Sequence[JobNow]) -> None:
        """Give waiting marked jobs back to the scheduler of the batch system."""


class Reader(Protocol):
    """Reads the state of a batch system, and never changes anything there."""

    name: str

    def platform(self) -> str:
        """Return its nodes and partitions as the text of a platform file. Raises Down."""

    def look(self) -> Snapshot:
        """Return the present state. Raises Down."""

    def recall(self, some: Sequence[Identity]) -> Sequence[JobNow]:
        """Return what is known of the ends of jobs that a look no longer shows. Raises Down."""

    def pulse(self) -> tuple[str, float] | None:
        """Return a text that changes whenever a job is submitted, begins or ends, and the processor time of the call in
        seconds; None if that is not to be had for much less than a look. Raises Down."""

    def close(self) -> None:
        """Release all resources."""
