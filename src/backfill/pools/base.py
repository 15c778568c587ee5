"""The interface between a queue and the pool that starts its jobs.

The engine decides, records the decision, and only then asks the pool to start or stop a job. The pool reports the
result when it is read: as one snapshot of the present state, from which the engine concludes what has happened. So a
pool keeps no state for the queue, and a daemon that is killed at any point learns the rest from the next snapshot.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

from backfill.queue.job import CHECKPOINT, REQUEUE, SUSPEND, Job, Run
from backfill.queue.nodes import Amounts, Placement
from backfill.queue.shapes import Change, Record, Row, Spec

Identity = tuple[str, int]  # a job by its number in a batch system and its submit time there, see job.Job.native

if TYPE_CHECKING:  # the engine imports this module
    from backfill.queue.engine import Engine

ELSEWHERE = "elsewhere"  # in `does` of a pool whose jobs are submitted and changed in its batch system
WAITED = "waited"  # in the record of an unstarted attempt: the batch system's reason
WATCHES = "watch"  # with ELSEWHERE: the batch system also starts the jobs, and the queue only watches
# In `does`: supported ways to preempt.
PREEMPTS = {CHECKPOINT: "preempt-checkpoint", SUSPEND: "preempt-suspend"}


@dataclass(frozen=True)
class Verdict:
    """The state of an attempt.

    alive: it runs, or may; once it has begun, the record has its processes, or what else its pool knows of it
    ended: the record says how
    unstarted: it never ran and never will; the record says if the launch failed, or what it WAITED for
    orphan: it runs, but its supervisor is gone; the record has its processes
    unknown: it may have run, and how it ended is not known; the record has its processes, if they are known, and
    whether it was signalled to end while it was alive
    requeued: it is over, and its batch system has put its job back into the queue
    uncertain: its batch system has forgotten that it was started, so it may have run
    """

    kind: str
    record: Record = field(default_factory=dict)

    @property
    def over(self) -> bool:
        """Return whether the attempt is over, in whatever way it ended."""
        return self.kind in ("ended", "unknown", "unstarted")


@dataclass(frozen=True, slots=True)
class Decision(Run):
    """An attempt to be started on `attempt.nodes`. spec: command, working folder, environment."""

    spec: Spec


@dataclass(frozen=True, slots=True)
class Sighting:
    """The state of one attempt, as found by its pool."""

    job: int
    attempt: int
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Foreign:
    """A running job that the queue did not start.

    job: its number, or 0 for a job unknown to the queue: then facts are those of job.Job, and spec is as in Decision.
    since: its start by the queue clock. record: as in a verdict `alive`.
    """

    job: int
    nodes: Placement
    since: int
    facts: Row = field(default_factory=dict)
    spec: Spec = field(default_factory=lambda: Spec())
    record: Record = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NodeSeen:
    """The present resources of a node, see nodes.Nodes. reason: why they are less than stated, `down` for example."""

    name: str
    there: Amounts
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Arrived:
    """A job was submitted to a batch system. facts: those of job.Job. blocked: why it may not start, or empty."""

    facts: Row
    blocked: str = ""


@dataclass(frozen=True, slots=True)
class Edited:
    """The request of a job in a batch system was changed."""

    job: int
    to: Change


@dataclass(frozen=True, slots=True)
class Blocked:
    """A job of a batch system may not start, with the reason; an empty reason means that it may from now on."""

    job: int
    why: str


@dataclass(frozen=True, slots=True)
class Expected:
    """The start time that a batch system now expects for a job."""

    job: int | Identity
    start: int


@dataclass(frozen=True, slots=True)
class Settled:
    """The state of an attempt in a batch system has been determined."""

    job: int | Identity
    attempt: int
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Gone:
    """A job of a batch system ended, and when or where it ran, if it did, is not known."""

    job: int | Identity
    state: str
    reason: str = ""
    ended: int | None = None


News = Settled | Foreign | Arrived | Edited | Blocked | Expected | Gone


@dataclass(frozen=True, slots=True)
class Seen:
    """A snapshot. Nothing is concluded about attempts and nodes that are not in it.

    news: what happened to the jobs of a batch system in which users submit, in this order.
    """

    attempts: Sequence[Sighting] = ()
    nodes: Sequence[NodeSeen] = ()
    foreign: Sequence[Foreign] = ()
    news: Sequence[News] = ()


@dataclass(frozen=True, slots=True)
class Given:
    """The parts of a queue that its pool may use, in the thread of the daemon only."""

    home: Path  # the folder of the queue
    nodes: Mapping[str, Amounts]  # resources of each node, see nodes.Nodes
    now: Callable[[], int]  # the queue clock, in microseconds
    spec_of: Callable[[Job], Spec]
    news: Callable[[], None]  # to be called when there is something to read
    jobs: Callable[[], Mapping[int, Job]] = dict  # open jobs by number
    quiet: Callable[[], bool] = lambda: True  # whether no decision is under way, so that news can be entered
    # whether the end of a job of a batch system at this time is known already, or is older than the queue
    ended: Callable[[Identity, int], bool] = lambda identity, t: False
    skew: Callable[[], int] = lambda: 0  # calendar time minus queue clock
    promises: Callable[[], Mapping[int, int]] = dict  # the start times that the policy now promises to waiting jobs


class Pool(Protocol):
    """Starts jobs. All times are those of the queue clock.

    does: `signal`, `suspend` (available to the users of a job), and the values of PREEMPTS for the ways in which a
    policy may preempt a job; or ELSEWHERE, with or without WATCHES. With one of PREEMPTS, `stop` with the cause PREEMPT
    suspends or checkpoints the job and frees everything that it held, including memory; its next attempt continues from
    there. `job.done` is the part of its walltime that it has used.
    """

    name: str
    does: frozenset[str]

    def read(self, some: Iterable[Run]) -> Seen:
        """Look at these attempts, and return their states and all other news since the last call."""

    def start(self, some: Sequence[Decision]) -> None:
        """Start attempts; `read` reports the result of each. Repeating is harmless."""

    def stop(self, some: Sequence[Run]) -> None:
        """End attempts for the reason in their `cause`. Repeating is harmless."""

    def signal(self, run: Run, number: int) -> None:
        """Send a signal to the processes of an attempt."""

    def freeze(self, run: Run) -> None:
        """Stop or continue the processes of an attempt, as its `suspended` says. Repeating is harmless."""

    def news_at(self) -> int | None:
        """Return when there will be something to read, if that is known in advance."""

    def hear(self, text: str) -> None:
        """Handle a message that arrived at the hint socket of the queue."""

    def close(self) -> None:
        """Release all resources; jobs keep running."""


class BatchSystem(Pool, Protocol):
    """A pool with ELSEWHERE in `does`: a batch system in which users submit."""

    problem: str  # why its state is not known; empty once it is

    @property
    def instance(self) -> str:
        """Return the controller as last seen; another one may have forgotten what was started."""


class Evidence(Protocol):
    """Evidence of a pool's attempts kept outside the store, which lets a daemon continue if the log has lost its end.

    Methods that write raise OSError.
    """

    def number(self, last: int) -> None:
        """Record that job numbers up to this one are used, before jobs get them."""

    def behind(self) -> bool:
        """Return whether the log lacks something that has happened; called before the engine opens."""

    def last_number(self) -> int:
        """Return the last number that a job may have got; 0 if that is not known."""

    def recover(self, engine: "Engine", behind: bool) -> list[tuple[int, int]]:
        """Bring the log of an engine that has been opened up to date. Returns the attempts that may be forgotten."""

    def tell(self) -> bool:
        """Record the new events of the log; return whether that was all of them."""

    def tell_all(self) -> None:
        """Record all new events of the log, and flush them to the disk."""

    def forget(self, some: Sequence[tuple[int, int]]) -> None:
        """Drop the evidence of attempts whose ends are in the store; only the fact that they existed is kept."""

    def files(self, job: Job, spec: Spec) -> dict[str, str | None]:
        """Return the paths of a job's input, output and errors; None for no input, and for errors that go with the
        output."""


def batch_system(pool: Pool) -> BatchSystem | None:
    """Return a pool as the batch system that it is; None for any other."""
    return cast("BatchSystem", pool) if ELSEWHERE in pool.does else None


def preempts(pool: Pool) -> list[str]:
    """Return the ways in which a policy may preempt the jobs of a pool; a pool that starts jobs can always requeue
    them."""
    if WATCHES in pool.does:
        return []
    return [REQUEUE, *(how for how, name in PREEMPTS.items() if name in pool.does)]


def refusal(pool: Pool, policy: str, how: str) -> str:
    """Return why a pool cannot carry out a policy that preempts in this way; empty if it can."""
    if how in ("", *preempts(pool)):
        return ""
    if not preempts(pool):
        problem = f"the queue only watches pool {pool.name} and cannot preempt its jobs"
        return f"policy {policy} preempts jobs by {how}; {problem}; expected a policy that does not preempt"
    problem = f"pool {pool.name} can only end a preempted job, which later starts again from the beginning"
    return f"policy {policy} preempts jobs by {how}; {problem}; expected preemptive:how=requeue"
