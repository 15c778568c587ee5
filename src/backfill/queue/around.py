"""What the engine needs around it, beside a store and a pool: a clock, a planner, and whoever waits for jobs."""

from typing import Protocol

from backfill.queue import protocol
from backfill.queue.shapes import Basis, ClockFacts, Failure, Over, Record


class Clock(Protocol):
    """The queue clock, in microseconds; it never goes back. speed: how many of its seconds go by in one."""

    speed: float

    def now(self) -> int:
        """Now."""

    def wall(self) -> int:
        """What the wall clock says."""

    def slept(self) -> int:
        """How long the machine has slept."""

    def instant(self, record: Record) -> int | None:
        """When something happened that a supervisor wrote down; None where it did not say when."""

    @property
    def facts(self) -> ClockFacts:
        """What a later daemon needs to carry it on."""


class Waiter(Protocol):
    """Who waits for jobs."""

    def __call__(self, told: Over | Failure) -> None:
        """Be told how one of the jobs ended."""


class Link(Protocol):
    """A planner; it answers by `Engine.begun`, `Engine.decided` or `Engine.failed`."""

    def kept(self, epoch_seq: int, program: str) -> tuple[int, int]:
        """The place in the log, and the instant, of the last pass of a planner that was put aside; 0 for none."""

    def begin(self, epoch: Basis, history: list[protocol.Pass], since: int) -> None:
        """Be made anew: since the epoch, or from the one that was put aside, whose last pass is the first of these."""

    def ask(self, now: int, messages: list[protocol.Message]) -> None:
        """Decide."""
