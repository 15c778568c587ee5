"""Limits on the time that a policy may take: the kernel ends the process, since compiled code cannot be interrupted.

The compiler may take as long as it needs: while it is at work, all limits stand still.
"""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from numba.core import event

CPU, WALL = signal.ITIMER_PROF, signal.ITIMER_REAL


class Watchdog(event.Listener):  # type: ignore[misc]
    """The limits of this process; there is one, WATCHDOG.

    cpu_s: CPU time that a policy may take to be loaded, or for one decision; 0 for no limit. told: is called with True
    when the compiler begins, and with False when it has finished.
    """

    def __init__(self) -> None:
        self.cpu_s = 0.0
        self.told: Callable[[bool], None] = lambda compiles: None
        self._compiling = 0
        self._left: dict[int, float] = {}
        event.register("numba:compile", self)

    @contextmanager
    def policy(self) -> Iterator[None]:
        """Code of the policy runs in this block, for `cpu_s` at most."""
        if not self.cpu_s:
            yield
            return
        signal.setitimer(CPU, self.cpu_s)
        try:
            yield
        finally:
            signal.setitimer(CPU, 0)

    def bound(self, cpu_s: float, wall_s: float) -> None:
        """From here on this process may take so long in all, in place of a limit on each decision."""
        self.cpu_s, self.told = 0.0, lambda compiles: None
        signal.setitimer(CPU, cpu_s)
        signal.setitimer(WALL, wall_s)

    def on_start(self, event: Any) -> None:
        """The compiler begins, maybe on behalf of itself."""
        self._compiling += 1
        if self._compiling == 1:
            self._left = {timer: signal.setitimer(timer, 0)[0] for timer in (CPU, WALL)}
            self.told(True)

    def on_end(self, event: Any) -> None:
        """The compiler has finished."""
        self._compiling -= 1
        if not self._compiling:
            for timer, left in self._left.items():
                signal.setitimer(timer, left)
            self.told(False)


WATCHDOG = Watchdog()
