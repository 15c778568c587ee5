"""A planner that can be set back, to look into many futures from one present."""

import copy
from typing import Any

from backfill.core.entry import Room
from backfill.core.numbers import Remembers
from backfill.core.snapshot import Snapshot
from backfill.queue.planner import Planner


class Present:
    """A planner as it is now: its State, and what it keeps in Python of what it was told."""

    def __init__(self, planner: Planner) -> None:
        self._planner = planner
        self._lived = {"state": planner.state, "view": planner.view}  # a larger State may take its place
        self._state = Snapshot(planner.state)
        self._values = _copies(vars(planner))

    def restore(self) -> None:
        """Bring the planner back to what it was."""
        self._state.restore()
        vars(self._planner).update(self._lived | _copies(self._values))


def _copies(values: dict[str, Any]) -> dict[str, Any]:
    return {
        name: copy.copy(value)
        for name, value in values.items()
        if isinstance(value, dict | list | bool | int | Room | Remembers)
    }
