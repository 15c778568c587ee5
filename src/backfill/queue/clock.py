"""The queue clock: wall time when the daemon started, carried on by a clock that counts suspends and never steps."""

import time


def boot_us() -> int:
    """Microseconds since the boot, suspends included."""
    which = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return time.clock_gettime_ns(which) // 1000


def wall_us() -> int:
    """Microseconds since 1970, as the machine believes now."""
    return time.time_ns() // 1000


class QueueClock:
    """Starts at the wall clock, or behind the last instant of the log if that is later."""

    def __init__(self, last: int) -> None:
        self._anchor = max(wall_us(), last + 1) - boot_us()

    def now(self) -> int:
        """Now, in microseconds."""
        return self._anchor + boot_us()

    def wall(self) -> int:
        """What the wall clock says."""
        return wall_us()
