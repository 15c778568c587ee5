"""The queue clock: wall time when the machine was booted, carried on by a clock that counts suspends and never steps.

Spans are its differences, whatever the calendar does. `wall` is the calendar, for what people ask for and are shown.
"""

import time

from backfill.queue.shapes import ClockFacts, Record
from backfill.system.processes import boot_id, boot_us, wall_us


class QueueClock:
    """Carries on the clock of an earlier daemon in the same boot (`facts` of that), else starts at the wall clock, or
    behind the last instant of the log if that is later."""

    speed = 1.0  # seconds of it in a second

    def __init__(self, last: int, earlier: Record) -> None:
        self.boot = boot_id()
        same = self.boot != "" and earlier.get("boot") == self.boot
        first = earlier["anchor"] + boot_us() if same else wall_us()
        self._anchor = max(first, last + 1) - boot_us()

    @property
    def facts(self) -> ClockFacts:
        """What a later daemon needs to carry it on."""
        return {"boot": self.boot, "anchor": self._anchor}

    def now(self) -> int:
        """Now, in microseconds."""
        return self._anchor + boot_us()

    def wall(self) -> int:
        """What the wall clock says."""
        return wall_us()

    def slept(self) -> int:
        """How long the machine has slept since its boot."""
        return boot_us() - time.monotonic_ns() // 1000

    def instant(self, record: Record) -> int | None:
        """When something happened that a supervisor wrote down; None where it did not say when."""
        if "wall" not in record:
            return None
        same = self.boot != "" and record["boot"] == self.boot
        return int(self._anchor + record["boottime"] if same else record["wall"])
