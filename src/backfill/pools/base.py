"""The seam between a queue and whoever starts its jobs.

The engine decides, writes that down, and only then tells the pool to start or stop something. What becomes of it the
pool tells when it is read: one snapshot of what is true by now, from which the engine concludes what has happened. So a
pool has nothing to remember for the queue, and a daemon that is killed at any point learns the rest from the next
snapshot.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from backfill.queue.job import CHECKPOINT, REQUEUE, SUSPEND, Job, Run
from backfill.queue.nodes import Amounts, Placement
from backfill.queue.shapes import Change, Record, Row, Spec

Identity = tuple[str, int]  # a job by its number in a batch system and its submit there, see job.Job.native

if TYPE_CHECKING:  # which imports this module
    from backfill.queue.engine import Engine

ELSEWHERE = "elsewhere"  # what a pool `does` whose jobs are submitted and changed there, not here
WAITED = "waited"  # what is in the record of an attempt that its batch system did not start: why, in its words
WATCHES = "watch"  # and one in which others start the jobs, and which is never told to do anything
PREEMPTS = {CHECKPOINT: "preempt-checkpoint", SUSPEND: "preempt-suspend"}  # what a pool `does` that can do that


@dataclass(frozen=True)
class Verdict:
    """What is true of an attempt.

    alive: it runs, or may; the record is that of its processes, or what else its pool knows of it, once it has begun
    ended: the record says how
    unstarted: it never ran and never will; the record says if the launch failed, or what it WAITED for
    orphan: whoever watches over it is gone, and it runs; the record is that of its processes
    unknown: it may have run, and nobody knows how it ended; the record has its processes, if they are known, and says
    whether it was told to end while it was alive
    requeued: it is over, and its batch system lets its job wait again
    uncertain: its batch system has forgotten that it was started, so it may have run
    """

    kind: str
    record: Record = field(default_factory=dict)

    @property
    def over(self) -> bool:
        """Whether the attempt is over, however it ended."""
        return self.kind in ("ended", "unknown", "unstarted")


@dataclass(frozen=True, slots=True)
class Decision(Run):
    """An attempt that starts, on `attempt.nodes`. spec: what to run, where, in which environment."""

    spec: Spec


@dataclass(frozen=True, slots=True)
class Sighting:
    """What was found of an attempt."""

    job: int
    attempt: int
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Foreign:
    """A job that runs and that the queue did not start. job: its number, or 0 for one of which the queue has never
    heard: its facts are those of job.Job, its spec is as in Decision. since: by the queue clock. record: as of a
    verdict that it is alive."""

    job: int
    nodes: Placement
    since: int
    facts: Row = field(default_factory=dict)
    spec: Spec = field(default_factory=lambda: Spec())
    record: Record = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NodeSeen:
    """What there is at a place by now, see nodes.Nodes. reason: why that is less than is stated, `down` for example."""

    name: str
    there: Amounts
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Arrived:
    """A job was submitted to a batch system. facts: those of job.Job. blocked: why it may not start, if it may not."""

    facts: Row
    blocked: str = ""


@dataclass(frozen=True, slots=True)
class Edited:
    """A job of a batch system asks for something else now."""

    job: int
    to: Change


@dataclass(frozen=True, slots=True)
class Blocked:
    """Why a job of a batch system may not start; empty: it may from now on."""

    job: int
    why: str


@dataclass(frozen=True, slots=True)
class Expected:
    """The start that a batch system expects for a job by now."""

    job: int | Identity
    start: int


@dataclass(frozen=True, slots=True)
class Settled:
    """What became of an attempt in a batch system."""

    job: int | Identity
    attempt: int
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Gone:
    """A job of a batch system is over that never ran."""

    job: int | Identity
    state: str
    reason: str = ""
    ended: int | None = None


News = Settled | Foreign | Arrived | Edited | Blocked | Expected | Gone


@dataclass(frozen=True, slots=True)
class Seen:
    """A snapshot. Of an attempt or a node that is not in it nothing is concluded.

    news: of a batch system in which jobs are submitted, what happened to them, in this order.
    """

    attempts: Sequence[Sighting] = ()
    nodes: Sequence[NodeSeen] = ()
    foreign: Sequence[Foreign] = ()
    news: Sequence[News] = ()


@dataclass(frozen=True, slots=True)
class Given:
    """What a pool may use of its queue, from the thread of the daemon alone."""

    home: Path  # its folder
    nodes: Mapping[str, Amounts]  # what each node has, see nodes.Nodes
    now: Callable[[], int]  # what its clock says, in microseconds
    spec_of: Callable[[Job], Spec]
    news: Callable[[], None]  # to be called when there is something to read
    jobs: Callable[[], Mapping[int, Job]] = dict  # the open ones
    quiet: Callable[[], bool] = lambda: True  # no decision of the policy is under way, so that news can be entered
    ended: Callable[[Identity, int], bool] = lambda identity, t: False  # whether a job of a batch system that is over
    # since then is known, or older than the queue
    skew: Callable[[], int] = lambda: 0  # what the calendar is ahead of the clock
    promises: Callable[[], Mapping[int, int]] = dict  # the starts that the policy promises to waiting jobs by now


class Pool(Protocol):
    """Who starts jobs. All instants are those of the queue clock.

    does: `signal`, `suspend` (what the users of a job may ask for), and of PREEMPTS by what a policy may preempt a job;
    or ELSEWHERE, with WATCHES or not. With one of PREEMPTS, `stop` with the cause PREEMPT has the job stand still, or
    write down how far it is, and all that it held is free, its memory too; its next attempt goes on from there.
    `job.done` says how much of its walltime is behind it.
    """

    name: str
    does: frozenset[str]

    def read(self, some: Iterable[Run]) -> Seen:
        """Look at these attempts, and tell what else is new since the last time."""

    def start(self, some: Sequence[Decision]) -> None:
        """Start attempts; what becomes of each is told by `read`. Again is harmless."""

    def stop(self, some: Sequence[Run]) -> None:
        """End attempts, whose `cause` says why; again is harmless."""

    def signal(self, run: Run, number: int) -> None:
        """Send a signal to the processes of an attempt."""

    def freeze(self, run: Run) -> None:
        """Have the processes of an attempt stand still or go on, as its `suspended` says; again is harmless."""

    def news_at(self) -> int | None:
        """When there will be something to read, if that is known beforehand."""

    def hear(self, text: str) -> None:
        """Learn what somebody has sent to the hint socket of the queue."""

    def close(self) -> None:
        """Let go of everything; jobs go on."""


class Evidence(Protocol):
    """What is kept of a pool's attempts beside the store, by which a daemon goes on if the log has lost its end.

    Methods that write raise OSError.
    """

    def number(self, last: int) -> None:
        """Write down that job numbers up to this one are used, before jobs get them."""

    def behind(self) -> bool:
        """Whether the log lacks something that has happened; asked before the engine opens."""

    def last_number(self) -> int:
        """The last number that a job may have got; 0 if that is not known."""

    def recover(self, engine: "Engine", behind: bool) -> list[tuple[int, int]]:
        """Bring the log of an engine that has been opened up to date. Returns the attempts that may be forgotten."""

    def tell(self) -> bool:
        """Write down what the log has got since the last time; return whether that was all."""

    def tell_all(self) -> None:
        """The same, until that was all, and have it on the disk."""

    def forget(self, some: Sequence[tuple[int, int]]) -> None:
        """Drop what is kept of attempts whose ends are in the store itself, but for that they were."""

    def files(self, job: Job, spec: Spec) -> dict[str, str | None]:
        """The paths of a job's input, output and errors; None for no input, and for errors that go with the output."""


def preempts(pool: Pool) -> list[str]:
    """By what a policy may preempt the jobs of a pool; each that starts jobs can end them, and they run anew."""
    if WATCHES in pool.does:
        return []
    return [REQUEUE, *(how for how, name in PREEMPTS.items() if name in pool.does)]


def refusal(pool: Pool, policy: str, how: str) -> str:
    """Why a pool cannot carry out a policy that preempts so; empty if it can."""
    if how in ("", *preempts(pool)):
        return ""
    if not preempts(pool):
        told = f"the queue only watches pool {pool.name}, in which no job can be preempted"
        return f"policy {policy} preempts jobs by {how}; {told}; expected a policy that does not preempt"
    told = f"pool {pool.name} can only end a job that is preempted, which then runs anew from its beginning"
    return f"policy {policy} preempts jobs by {how}; {told}; expected preemptive:how=requeue"
