"""A saved planner: in memory, to explore many futures from one present, and on disk.

A planner that is loaded from disk and receives the later messages decides like the original. So a queue that has
processed a million jobs is ready again quickly. The file belongs to the planner alone: if it is unusable, the log still
has the history since the epoch.
"""

import copy
import gc
import json
import os
import pickle
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from backfill.core.entry import Room
from backfill.core.numbers import Remembers
from backfill.core.snapshot import Snapshot, values_of
from backfill.queue.shapes import Basis
from backfill.worlds.live import Planner

KEPT_S = float(os.environ.get("BACKFILL_KEPT_S", "0.25"))  # processor time until the planner is saved to disk again,
KEPT_SHARE = 20  # and at least this many times the duration of the last save


class Present:
    """The saved present of a planner: its State, and what its Python side has learned from messages."""

    def __init__(self, planner: Planner) -> None:
        self._planner = planner
        self._lived = {"state": planner.state, "view": planner.view, "room": planner.room}
        self._entry = copy.copy(planner.entry)
        self._state = Snapshot(planner.state)
        self._values = _copies(vars(planner))
        self._foresight = None if planner.foresight is None else planner.foresight.aside()

    def restore(self, informed: bool = True) -> None:
        """Restore the planner.

        informed: whether it received messages; otherwise only further jobs or a larger State were added.
        """
        self._state.restore()
        if self._foresight is not None:
            self._foresight.restore()
        vars(self._planner).update(self._lived, entry=copy.copy(self._entry))
        if informed:
            vars(self._planner).update(_copies(self._values))


def save(planner: Planner, file: Path, header: dict[str, Any]) -> None:
    """Save a planner to disk. header: identifies its epoch; see link.py."""
    new = file.with_suffix(".new")
    with open(new, "wb", opener=lambda path, flags: os.open(path, flags, 0o600)) as out:
        out.write(json.dumps(header).encode() + b"\n")
        foresight = [] if planner.foresight is None else planner.foresight.values()
        pickle.dump((_remembered(vars(planner)), values_of(planner.state), foresight), out, pickle.HIGHEST_PROTOCOL)
    os.replace(new, file)


def load(file: Path, epoch: Basis) -> Planner:
    """Return the planner that is saved on disk."""
    with file.open("rb") as kept_:
        kept_.readline()
        values, state, foresight = pickle.load(kept_)
    planner = Planner(epoch["policy"], epoch)
    planner.go_on(values, state, foresight)
    return planner


class Rest:
    """The idle work of a planner between two passes: free rows, save to disk, and collect garbage."""

    def __init__(self, file: Path, header: dict[str, Any]) -> None:
        """Save to `file`, under a header that identifies the epoch."""
        self._file, self._header = file, header
        self._due = time.process_time() + KEPT_S

    def take(self, planner: Planner, seq: int, now: int) -> bool:
        """Do the idle work after the pass with this number, at this instant. Return whether the planner was saved."""
        planner.rest()
        if (begun := time.process_time()) <= self._due:
            return False
        with suppress(OSError):  # a full disk: the log still has everything
            save(planner, self._file, {**self._header, "seq": seq, "now": now})
        gc.collect()
        rested = time.process_time()
        self._due = rested + max(KEPT_S, KEPT_SHARE * (rested - begun))
        return True


def leave_in_peace() -> None:
    """Disable garbage collection within passes, and exempt all present objects for good: `Rest` collects others."""
    gc.freeze()
    gc.disable()


def _remembered(values: dict[str, Any]) -> dict[str, Any]:
    """Return what a planner's Python side has learned from messages."""
    return {
        name: value for name, value in values.items() if isinstance(value, dict | list | bool | int | Room | Remembers)
    }


def _copies(values: dict[str, Any]) -> dict[str, Any]:
    return {name: copy.copy(value) for name, value in _remembered(values).items()}
