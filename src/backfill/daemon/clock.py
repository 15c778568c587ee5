"""The queue clock: wall time at boot, continued by a clock that counts suspends and never steps.

Spans are differences of this clock, whatever the calendar does. `wall` is the calendar, for instants that users state
and see.
"""

import time

from backfill.queue.shapes import ClockFacts, Record
from backfill.system.processes import boot_id, boot_us, wall_us


class QueueClock:
    """The clock of a queue.

    It continues the clock of an earlier daemon in the same boot (its `facts`). Otherwise it starts at the wall clock,
    or after the last instant of the log if that is later.
    """

    speed = 1.0  # seconds of this clock per second

    def __init__(self, last: int, earlier: Record) -> None:
        self.boot = boot_id()
        same = self.boot != "" and earlier.get("boot") == self.boot
        first = earlier["anchor"] + boot_us() if same else wall_us()
        self._anchor = max(first, last + 1) - boot_us()

    @property
    def facts(self) -> ClockFacts:
        """Return what a later daemon needs to continue this clock."""
        return {"boot": self.boot, "anchor": self._anchor}

    def now(self) -> int:
        """Return the present instant, in microseconds."""
        return self._anchor + boot_us()

    def wall(self) -> int:
        """Return the time of the wall clock."""
        return wall_us()

    def slept(self) -> int:
        """Return how long the machine has slept since its boot."""
        return boot_us() - time.monotonic_ns() // 1000

    def instant(self, record: Record) -> int | None:
        """Return when something in a supervisor's record happened; None if the record does not say when."""
        if "wall" not in record:
            return None
        same = self.boot != "" and record["boot"] == self.boot
        return int(self._anchor + record["boottime"] if same else record["wall"])
