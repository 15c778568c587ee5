"""A planner that can be set back, to look into many futures from one present."""

import copy
from typing import Any

from backfill.core.snapshot import Snapshot
from backfill.queue.planner import Planner


class Present:
    """A planner as it is now: its State, and what it keeps in Python of what it was told."""

    def __init__(self, planner: Planner) -> None:
        self._planner = planner
        self._state = Snapshot(planner.state)
        self._values = _copies(vars(planner))

    def restore(self, told: bool = True) -> None:
        """Bring the planner back to what it was. told: it was told something, so that not its State alone is another
        one."""
        self._state.restore()
        if told:
            vars(self._planner).update(_copies(self._values))


def _copies(values: dict[str, Any]) -> dict[str, Any]:
    return {name: copy.copy(value) for name, value in values.items() if isinstance(value, dict | list | bool | int)}
