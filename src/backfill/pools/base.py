"""The seam between a queue and whoever starts its jobs.

The engine decides, writes that down, and only then tells the pool to start or stop something. What becomes of it the
pool tells when it is read: one snapshot of what is true by now, from which the engine concludes what has happened. So a
pool has nothing to remember for the queue, and a daemon that is killed at any point learns the rest from the next
snapshot.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from backfill.queue.job import Job, Run
from backfill.queue.nodes import Amounts, Placement
from backfill.queue.shapes import Record, Row, Spec


@dataclass(frozen=True)
class Verdict:
    """What is true of an attempt.

    alive: it runs, or may; the record is that of its processes, or what else its pool knows of it, once it has begun
    ended: the record says how
    unstarted: it never ran and never will; the record says if the launch failed
    orphan: whoever watches over it is gone, and it runs; the record is that of its processes
    unknown: it may have run, and nobody knows how it ended; the record has its processes, if they are known, and says
    whether it was told to end while it was alive
    """

    kind: str
    record: Record = field(default_factory=dict)


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
    heard: its facts are those of job.Job, its spec is as in Decision. since: by the queue clock."""

    job: int
    nodes: Placement
    since: int
    facts: Row = field(default_factory=dict)
    spec: Spec = field(default_factory=lambda: Spec())


@dataclass(frozen=True, slots=True)
class NodeSeen:
    """What there is at a place by now, see nodes.Nodes. reason: why that is less than is stated, `down` for example."""

    name: str
    there: Amounts
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Seen:
    """A snapshot. Of an attempt or a node that is not in it nothing is concluded."""

    attempts: Sequence[Sighting] = ()
    nodes: Sequence[NodeSeen] = ()
    foreign: Sequence[Foreign] = ()


@dataclass(frozen=True, slots=True)
class Given:
    """What a pool may use of its queue: its folder; what each node has, see nodes.Nodes; what its clock says, in
    microseconds; the spec of a job; and whom to call when there is something to read, from the thread of the daemon."""

    home: Path
    nodes: Mapping[str, Amounts]
    now: Callable[[], int]
    spec_of: Callable[[Job], Spec]
    news: Callable[[], None]


class Pool(Protocol):
    """Who starts jobs. All instants are those of the queue clock."""

    name: str
    does: frozenset[str]  # which of `signal` and `suspend` it can do for the users of a job

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
