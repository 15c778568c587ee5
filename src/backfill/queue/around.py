"""Interfaces that the engine needs besides a store and a pool: a clock, a planner, and clients waiting for jobs."""

from typing import Protocol

from backfill.queue import protocol
from backfill.queue.shapes import Basis, ClockFacts, Failure, Over, Record


class Clock(Protocol):
    """The queue clock, in microseconds; it never goes back.

    speed: seconds of the queue clock per second of real time.
    """

    speed: float

    def now(self) -> int:
        """Return the present instant."""

    def wall(self) -> int:
        """Return the time of the wall clock."""

    def slept(self) -> int:
        """Return how long the machine has slept."""

    def instant(self, record: Record) -> int | None:
        """Return when something in a supervisor's record happened; None if the record does not say when."""

    @property
    def facts(self) -> ClockFacts:
        """Return what a later daemon needs to continue this clock."""


class Waiter(Protocol):
    """A client that waits for jobs."""

    def __call__(self, answer: Over | Failure) -> None:
        """Receive how one of the jobs ended."""


class Link(Protocol):
    """A planner; it answers by `Engine.begun`, `Engine.decided` or `Engine.failed`."""

    def kept(self, epoch_seq: int, program: str) -> tuple[int, int]:
        """Return the log position and the instant of the last pass of a saved planner; 0 if there is none."""

    def begin(self, epoch: Basis, history: list[protocol.Pass], since: int) -> None:
        """Start a planner and replay this epoch into it.

        history: the passes since the epoch, or, from a saved planner on, those from its last pass.
        """

    def ask(self, now: int, messages: list[protocol.Message]) -> None:
        """Request the decisions of a pass."""
