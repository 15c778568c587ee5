"""The contents of a debug log of slurmctld: each pass of a loop, with the state before it and its decisions.

Times are microseconds since 1970 by the clock of the log, in its own time zone.
"""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Decided:
    """A start or a plan of a job on these nodes."""

    job: str
    at: int
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Charge:
    """A run was charged for so many seconds, or, without a job, all usage has decayed by a factor."""

    at: int
    job: str
    amount: float


@dataclass(frozen=True, slots=True)
class Aged:
    """The age factor of a waiting job when its priority was computed."""

    at: int
    job: str
    factor: float


@dataclass(slots=True)
class LoopPass:
    """One pass of the main loop or one cycle of the backfill loop."""

    backfill: bool
    full: bool  # of the main loop: without default_queue_depth
    at: int
    line: int
    waiting: dict[str, int]  # job -> priority
    pairs: dict[tuple[str, str], int]  # (job, partition) -> the same, where the log says it
    running: dict[str, Decided]
    completing: dict[str, Decided]  # over, but its nodes have not answered yet
    starts: list[Decided] = field(default_factory=list)
    plans: list[Decided] = field(default_factory=list)
    reasons: dict[str, str] = field(default_factory=dict)  # job behind a blocked one -> its reason code then
    ended: bool = False  # the log has its end


@dataclass(frozen=True, slots=True)
class SlurmctldLog:
    """The passes of a log, and the priority of each job at its submit."""

    file: str
    passes: tuple[LoopPass, ...]
    submits: dict[str, int]  # job -> when
    priorities: dict[str, int]  # job -> at its submit
    shares: dict[str, float]  # job -> its fair-share factor then, with DebugFlags=Priority
    charges: tuple[Charge, ...] = ()  # in their order, with DebugFlags=Priority
    ages: tuple[Aged, ...] = ()  # the same
