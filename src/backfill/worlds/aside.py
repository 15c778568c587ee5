"""A planner that is put aside: in memory, to look into many futures from one present, and on the disk.

One that is made anew from what is on the disk, and told what came since, decides as the one that lived. So a queue
through which a million jobs have gone is there again as soon as a new one. The file is the planner's own: whatever is
wrong with it, the history since the epoch is in the log.
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

KEPT_S = float(os.environ.get("BACKFILL_KEPT_S", "0.25"))  # processor time until the planner is put on the disk again,
KEPT_SHARE = 20  # and as many times what that took last


class Present:
    """A planner as it is now: its State, and what it keeps in Python of what it was told."""

    def __init__(self, planner: Planner) -> None:
        self._planner = planner
        self._lived = {"state": planner.state, "view": planner.view, "room": planner.room}
        self._entry = copy.copy(planner.entry)
        self._state = Snapshot(planner.state)
        self._values = _copies(vars(planner))
        self._foresight = None if planner.foresight is None else planner.foresight.aside()

    def restore(self, told: bool = True) -> None:
        """Bring the planner back to what it was.

        told: whether it was told something; else only other jobs entered its State, or a larger one.
        """
        self._state.restore()
        if self._foresight is not None:
            self._foresight.restore()
        vars(self._planner).update(self._lived, entry=copy.copy(self._entry))
        if told:
            vars(self._planner).update(_copies(self._values))


def save(planner: Planner, file: Path, header: dict[str, Any]) -> None:
    """Put a planner on the disk. header: says of which epoch it is; see link.py."""
    new = file.with_suffix(".new")
    with open(new, "wb", opener=lambda path, flags: os.open(path, flags, 0o600)) as out:
        out.write(json.dumps(header).encode() + b"\n")
        foresight = [] if planner.foresight is None else planner.foresight.values()
        pickle.dump((_remembered(vars(planner)), values_of(planner.state), foresight), out, pickle.HIGHEST_PROTOCOL)
    os.replace(new, file)


def load(file: Path, epoch: Basis) -> Planner:
    """The planner on the disk."""
    with file.open("rb") as kept_:
        kept_.readline()
        values, state, foresight = pickle.load(kept_)
    planner = Planner(epoch["policy"], epoch)
    planner.go_on(values, state, foresight)
    return planner


class Rest:
    """What a planner does between two passes: it makes room, is put on the disk, and gives back what nobody holds."""

    def __init__(self, file: Path, header: dict[str, Any]) -> None:
        """file: where it is put, under a header that says of which epoch it is."""
        self._file, self._header = file, header
        self._due = time.process_time() + KEPT_S

    def take(self, planner: Planner, seq: int, now: int) -> bool:
        """Rest after the pass with this number, at this instant. Returns whether it was put on the disk."""
        planner.rest()
        if (begun := time.process_time()) <= self._due:
            return False
        with suppress(OSError):  # a full disk: the log has it all
            save(planner, self._file, {**self._header, "seq": seq, "now": now})
        gc.collect()
        rested = time.process_time()
        self._due = rested + max(KEPT_S, KEPT_SHARE * (rested - begun))
        return True


def leave_in_peace() -> None:
    """Let nothing be collected within a pass, and what is there by now never be looked at: `Rest` collects the rest."""
    gc.freeze()
    gc.disable()


def _remembered(values: dict[str, Any]) -> dict[str, Any]:
    """What a planner keeps in Python of what it was told."""
    return {
        name: value for name, value in values.items() if isinstance(value, dict | list | bool | int | Room | Remembers)
    }


def _copies(values: dict[str, Any]) -> dict[str, Any]:
    return {name: copy.copy(value) for name, value in _remembered(values).items()}
