"""Whether a waiting job fits now on the nodes of a queue, by the daemon's own account of them.

It needs numpy, which a queue of one node does not load; see Book.might_fit.
"""

from typing import Any

import numpy as np

from backfill.analysis.explain.asks import Asks
from backfill.analysis.explain.lacks import LIMIT, Lacking, limits
from backfill.analysis.explain.room import Room
from backfill.model.platform import Platform
from backfill.model.workload import Ints
from backfill.queue.book import Book
from backfill.queue.job import Job
from backfill.queue.nodes import FLOATING
from backfill.queue.protocol import FACTS
from backfill.worlds.adapt import as_run
from backfill.worlds.workload import parsed, table

ASKED = [name for name in FACTS if name not in ("walltime", "grace", "priority", "deadline")]  # what decides the matter
FITS, RESOURCES, LIMITED = "", "resources", "limit"


class Fitting:
    """The free amounts of a queue's nodes at one moment, and which waiting jobs fit there."""

    def __init__(self, book: Book) -> None:
        self.book, self.platform = book, parsed(book.platform)
        self._known: dict[str, str] = {}  # by what a job asks for
        self._free: dict[str, tuple[Ints, Ints]] = {}  # by reservation: what is there, and what is taken
        running = [book.jobs[number] for number in sorted(book.holding)]
        self._counted: dict[str, int] = {}  # by account of a limit: the copies that running jobs hold
        if self.platform.limits and running:
            asks = _asked(running, self.platform)
            for row in range(len(running)):
                for account, copies in zip(*asks.licences_of(row), strict=True):
                    if asks.is_limit(account):
                        name = asks.platform.licences[account]
                        self._counted[name] = self._counted.get(name, 0) + int(copies)

    def lacks(self, job: Job) -> str:
        """Return RESOURCES or FITS, or LIMITED if a job lacks no amount but what a limit on running jobs leaves."""
        asked = repr([getattr(job, name) for name in ASKED])
        if asked not in self._known:
            self._known[asked] = self._lacks(job)
        return self._known[asked]

    def limited_by(self, job: Job) -> list[str]:
        """Return the limits on running jobs that leave too little for a job."""
        return [lack.name for lack in limits(self._room(job)) if lack.short.any()]

    def _lacks(self, job: Job) -> str:
        lacks = Lacking.of(self._room(job))
        kinds = {lack.kind for lack, short in zip(lacks.lacks, lacks.short[0].tolist(), strict=True) if short}
        return FITS if not kinds else LIMITED if kinds == {LIMIT} else RESOURCES

    def _room(self, job: Job) -> Room:
        """Return the room of a job now, see analysis/explain."""
        book, asks = self.book, _asked([job], self.platform)
        nodes, resources = np.flatnonzero(asks.nodes(0)), np.flatnonzero(asks.demand[0] > 0)
        there, held = (amounts[np.ix_(nodes, resources)] for amounts in self._amounts(job.reservation))
        licences, copies = asks.licences_of(0)
        names = [asks.platform.licences[each] for each in licences.tolist()]
        copies_there = asks.platform.copies[licences].copy()
        used = np.array([self._counted.get(name, 0) for name in names], np.int64)
        for i, name in enumerate(names):
            if not asks.is_limit(licences[i]):
                copies_there[i] = book.nodes.there.get(FLOATING, {}).get(name, 0)
                used[i] = book.nodes.held.get(FLOATING, {}).get(name, 0)
        lanes = np.arange(len(nodes))
        return Room(
            asks=asks, row=0, times=np.zeros(1, np.int64), until=1, resources=resources, licences=licences,
            copies=copies, nodes=nodes, lane=lanes, place=np.zeros_like(lanes), there=there, held=held,
            copies_there=copies_there[None, :], copies_free=(copies_there - used)[None, :],
        )  # fmt: skip

    def _amounts(self, reservation: str) -> tuple[Ints, Ints]:
        """Return what the nodes have, and what of it is taken, for jobs of a reservation, or of none."""
        if reservation not in self._free:
            names, nodes = self.platform.resources, self.platform.nodes
            free = self.book.free_in(reservation)
            there = [[self.book.nodes.there.get(node, {}).get(name, 0) for name in names] for node in nodes]
            left = [[free[node].get(name, 0) for name in names] for node in nodes]
            capacity = np.array(there, np.int64)
            self._free[reservation] = capacity, capacity - np.array(left, np.int64)
        return self._free[reservation]


def _asked(jobs: list[Job], platform: Platform) -> Asks:
    """Return the requests of jobs in terms of the platform."""
    workload = table([(job.id, {**job.facts(), "grace": 0}) for job in jobs], platform)
    those, machine, whole, _ = as_run(workload, platform)
    return Asks(workload, those, machine, len(platform.licences), whole.per_node > 0)


_LAST: list[Any] = [(), None]  # the state of a queue, and its Fitting


def fitting(book: Book) -> Fitting:
    """Return the Fitting of a queue as it is now; the last one, if nothing has happened since."""
    state = id(book), book.applied
    if _LAST[0] != state:
        _LAST[:] = [state, Fitting(book)]
    found: Fitting = _LAST[1]
    return found
