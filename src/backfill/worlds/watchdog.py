"""Limits on the time of a policy: the kernel ends the process, since compiled code cannot be interrupted.

Compile time is not limited: while the compiler runs, all limits are suspended.
"""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from numba.core import event

CPU, WALL = signal.ITIMER_PROF, signal.ITIMER_REAL


class Watchdog(event.Listener):  # type: ignore[misc]
    """The time limits of this process; the only instance is WATCHDOG.

    cpu_s: limit of the CPU time to load a policy, or for one decision; 0 for no limit. on_compile: called with True
    when the compiler starts, and with False when it has finished.
    """

    def __init__(self) -> None:
        self.cpu_s = 0.0
        self.on_compile: Callable[[bool], None] = lambda compiles: None
        self._compiling = 0
        self._left: dict[int, float] = {}
        event.register("numba:compile", self)

    @contextmanager
    def policy(self) -> Iterator[None]:
        """Limit the code in this block to `cpu_s`."""
        if not self.cpu_s:
            yield
            return
        signal.setitimer(CPU, self.cpu_s)
        try:
            yield
        finally:
            signal.setitimer(CPU, 0)

    def bound(self, cpu_s: float, wall_s: float) -> None:
        """Limit the rest of this process to these times, instead of each decision."""
        self.cpu_s, self.on_compile = 0.0, lambda compiles: None
        signal.setitimer(CPU, cpu_s)
        signal.setitimer(WALL, wall_s)

    def on_start(self, event: Any) -> None:
        """Suspend the limits when the compiler starts; compilations may be nested."""
        self._compiling += 1
        if self._compiling == 1:
            self._left = {timer: signal.setitimer(timer, 0)[0] for timer in (CPU, WALL)}
            self.on_compile(True)

    def on_end(self, event: Any) -> None:
        """Resume the limits when the compiler has finished."""
        self._compiling -= 1
        if not self._compiling:
            for timer, left in self._left.items():
                signal.setitimer(timer, left)
            self.on_compile(False)


WATCHDOG = Watchdog()
