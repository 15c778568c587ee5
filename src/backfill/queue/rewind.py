"""A planner that is put aside: in memory, to look into many futures from one present, and on the disk.

One that is made anew from what is on the disk, and told what came since, decides as the one that lived. So a queue
through which a million jobs have gone is there again as soon as a new one. The file is the planner's own: whatever is
wrong with it, the history since the epoch is in the log.
"""

import copy
import json
import os
import pickle
from pathlib import Path
from typing import Any

from backfill.core.entry import Room
from backfill.core.numbers import Remembers
from backfill.core.snapshot import Snapshot, values_of
from backfill.queue.planner import Planner


class Present:
    """A planner as it is now: its State, and what it keeps in Python of what it was told."""

    def __init__(self, planner: Planner) -> None:
        self._planner = planner
        self._lived = {"state": planner.state, "view": planner.view}  # a larger State may take its place
        self._state = Snapshot(planner.state)
        self._values = _copies(vars(planner))

    def restore(self, told: bool = True) -> None:
        """Bring the planner back to what it was. told: it was told something, so that not its State alone is another
        one."""
        self._state.restore()
        vars(self._planner).update(self._lived | (_copies(self._values) if told else {}))


def save(planner: Planner, file: Path, header: dict[str, Any]) -> None:
    """Put a planner on the disk. header: says of which epoch it is; see link.py."""
    new = file.with_suffix(".new")
    with new.open("wb") as out:
        out.write(json.dumps(header).encode() + b"\n")
        pickle.dump((_copies(vars(planner)), values_of(planner.state)), out, pickle.HIGHEST_PROTOCOL)
    os.replace(new, file)


def load(file: Path, epoch: dict[str, Any]) -> Planner:
    """The planner on the disk."""
    with file.open("rb") as kept_:
        kept_.readline()
        values, state = pickle.load(kept_)
    planner = Planner(epoch["policy"], epoch)
    planner.go_on(values, state)
    return planner


def _copies(values: dict[str, Any]) -> dict[str, Any]:
    return {
        name: copy.copy(value)
        for name, value in values.items()
        if isinstance(value, dict | list | bool | int | Room | Remembers)
    }
