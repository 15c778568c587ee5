"""Measurements of the daemon and its queue, for answers/metrics.py; each value has its labels beside it."""

import asyncio
import os
import time
import traceback
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any

from backfill.answers.metrics import Counted, exposition
from backfill.daemon.licences import Licence
from backfill.queue.book import Book
from backfill.queue.measured import Histogram
from backfill.queue.nodes import FLOATING, MACHINE, ON_NODES, Amounts
from backfill.queue.shapes import JsonObject
from backfill.queue.states import HOLDING, PENDING
from backfill.queue.store import Store, StoreError
from backfill.system.log import note

EVERY_S = 15.0  # between two versions of a metrics file
MODE = 0o644  # of it: another user's exporter reads it
Value = list[Any]  # labels, and a number or the facts of a histogram


def durations(**some: Histogram) -> dict[str, list[Value]]:
    """Return histograms of durations, by the name of what is timed."""
    return {f"{name}_duration_seconds": [[{}, each.facts()]] for name, each in some.items()}


def amounts(book: Book) -> dict[str, list[Value]]:
    """Return what there is of resources, what jobs hold, and what open reservations have."""
    nodes = book.nodes
    reserved: Amounts = {}
    for each in (book.reservations[name] for name in sorted(book.opened)):
        for node, has, whole in each.nodes:
            for name, amount in (nodes.there.get(node, {}) if whole else has).items():
                reserved[name] = reserved.get(name, 0) + amount
    out = sum(nodes.there.get(name) != nodes.stated.get(name) for name in nodes.names)
    over = sum(
        amount > max(nodes.stated[place].get(name, 0), nodes.there.get(place, {}).get(name, 0))
        for place, held in nodes.held.items() if place in nodes.stated
        for name, amount in held.items()
    )  # fmt: skip
    some = {"capacity": book.capacity, "used": book.held, "reserved": reserved}
    return {
        **{f"resource_{what}": [[{"resource": name}, each.get(name, 0)] for name in book.capacity]
           for what, each in some.items()},
        "nodes": [[{}, len(nodes.names)]],
        "nodes_out": [[{}, out]],
        "over_capacity": [[{}, over]],
    }  # fmt: skip


def licences(book: Book, synced: list[Licence]) -> dict[str, list[Value]]:
    """Return the copies of licences, and how their servers answer."""
    by_name = {one.name: one for one in synced}
    copies = book.nodes.there.get(FLOATING if book.platform else MACHINE, {})
    names = [name for name in copies if name not in ON_NODES]
    held = book.nodes.held.get(FLOATING if book.platform else MACHINE, {})
    total = {name: by_name[name].copies or copies[name] if name in by_name else copies[name] for name in names}
    others = {name: by_name[name].others if name in by_name else 0 for name in names}
    stale = {name: int(name in by_name and by_name[name].failures > 0) for name in names}
    ours = {name: held.get(name, 0) for name in names}
    return {
        f"licence_{what}": [[{"licence": name}, each[name]] for name in names]
        for what, each in (("copies", total), ("ours", ours), ("others", others), ("stale", stale))
    }


def states(book: Book) -> list[Value]:
    """Return the number of open jobs in each state."""
    counts = dict.fromkeys((PENDING, *HOLDING), 0)
    for job in book.jobs.values():
        counts[job.state] += 1
    return [[{"state": state}, count] for state, count in counts.items()]


def sizes(store: Path) -> dict[str, list[Value]]:
    """Return the sizes of a store and its write-ahead log."""
    log = store.with_name(f"{store.name}-wal")
    return {name: [[{}, path.stat().st_size if path.exists() else 0]]
            for name, path in (("store_bytes", store), ("wal_bytes", log))}  # fmt: skip


@cache
def version() -> str:
    """Return the version of this program."""
    from importlib import metadata

    return metadata.version("backfill")


def one(**some: float | None) -> JsonObject:
    """Return metrics without labels; those that are None are left out."""
    return {name: [[{}, value]] for name, value in some.items() if value is not None}


class MetricsFile:
    """A file with the metrics of the queue, which is replaced as a whole from time to time.

    measured: returns what the daemon measures. What the log tells is counted in a thread of its own.
    """

    def __init__(self, path: Path, store: Path, measured: Callable[[], Mapping[str, Any]]) -> None:
        self.path, self._store, self._measured = path, store, measured
        self._counted, self._said, self._goes_on = Counted(), "", True
        self._writing = Lock()  # held by the thread that counts and writes

    async def keep(self) -> None:
        """Write the file from time to time. What goes wrong is noted once; the queue goes on."""
        while True:
            try:
                await asyncio.to_thread(self._write, self._measured())
                self._said = ""
            except Exception as error:
                known = isinstance(error, OSError | StoreError)
                said = f"metrics: {error}" if known else "".join(traceback.format_exception(error))
                if said != self._said:
                    note(said)
                self._said = said
            await asyncio.sleep(EVERY_S)

    def close(self) -> None:
        """Let the file say that the daemon is down."""
        self._goes_on = False
        try:
            with self._writing:
                self._replace(one(up=0))
        except OSError as error:
            note(f"metrics: {error}")

    def _write(self, values: Mapping[str, Any]) -> None:
        with self._writing:
            if not self._goes_on:
                return
            store = Store(self._store, readonly=True)
            try:
                self._counted.read(store, lambda: self._goes_on)
            finally:
                store.close()
            if self._goes_on:
                self._replace(values)

    def _replace(self, measured: Mapping[str, Any]) -> None:
        values: Mapping[str, Any] = {**measured, **one(written_timestamp_seconds=time.time()), **self._counted.values()}
        text = exposition(values)
        half = self.path.with_name(f"{self.path.name}.tmp")
        half.unlink(missing_ok=True)
        # In a folder that is open to others, one of them may have put a link there.
        new = os.open(half, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, MODE)
        with open(new, "w") as file:
            os.fchmod(file.fileno(), MODE)  # the daemon's umask lets nobody else read
            file.write(text)
        half.replace(self.path)
