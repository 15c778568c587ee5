"""The starts that a job was promised: the time of each promise, and the events that may have moved it."""

from dataclasses import dataclass

import numpy as np

from backfill.analysis.explain.room import Record
from backfill.model.events import CANCEL, CAPACITY, DOWN, EVENTS, UP, WALLTIME, WINDOW
from backfill.model.promises import MOVED, Promises
from backfill.model.schedule import NO_TIME
from backfill.model.workload import Ints

SHOWN = 3  # jobs named for each change
SUBMITTED, ENDED_EARLY, OVERRAN, STARTED = "submitted", "ended-early", "overran", "started"
EVENT, PROMISED, MADE_WAY = "event", "promised", "made-way"


@dataclass(frozen=True, slots=True)
class Mover:
    """An event at the instant of a promise that may have caused it."""

    what: str  # submitted, ended-early, overran, started, event, promised or made-way
    jobs: tuple[int, ...] = ()  # the first few of the jobs concerned
    count: int = 0  # number of jobs concerned
    by: int = 0  # microseconds by which the first of them ended before its limit
    event: str = ""  # its kind, as in a file of events


@dataclass(frozen=True, slots=True)
class Change:
    """A new promise to a job, or a changed one."""

    at: int
    start: int  # NO_TIME: the promise was withdrawn
    before: int  # the previously promised start; NO_TIME: none
    movers: tuple[Mover, ...]
    behind: int  # a running job whose limit is the promised start; -1 none


def promised(record: Record, row: int, promises: Promises) -> list[Change]:
    """Return the promises of a job in order, without repetitions."""
    mine = promises.of(row)
    meets = _meets(record, row)
    changes, before = [], NO_TIME
    for at, _, start, cause, by in mine.rows():
        movers = (Mover(MADE_WAY, (by,), 1),) if cause == MOVED else _movers(record, row, promises, meets, at)
        changes.append(Change(at, start, before, movers, _behind(record, meets, at, start)))
        before = start
    return changes


def _meets(record: Record, row: int) -> Ints:
    """Return the runs that held resources that a job requests, on nodes that it may use."""
    asks = record.asks
    resources = asks.demand[row] > 0
    on = asks.nodes(row)[record.node]
    some = np.zeros(len(record.runs), np.bool_)
    some[record.owner[on]] = True
    some &= (asks.need(record.runs.job)[:, resources] > 0).any(axis=1)
    for licence in asks.licences_of(row)[0].tolist():
        some |= asks.copies_of(licence)[record.runs.job] > 0
    return np.flatnonzero(some)


def _movers(record: Record, row: int, promises: Promises, meets: Ints, at: int) -> tuple[Mover, ...]:
    """Return the events at an instant, the likeliest cause of a moved promise first."""
    runs, movers = record.runs, []
    if at == record.schedule.eligible[row]:
        movers.append(Mover(SUBMITTED))
    start, end, limit = runs.start[meets], runs.end[meets], record.limit[meets]
    early = meets[(end == at) & (limit > at)]
    early = early[np.argsort(-(record.limit[early] - at), kind="stable")]
    if len(early):
        jobs = runs.job[early]
        movers.append(Mover(ENDED_EARLY, _few(jobs), len(early), by=int(record.limit[early[0]]) - at))
    starts = (start == at) & (not promises.kept)  # a start does not move reservations that are kept
    for kind, which in ((OVERRAN, (limit == at) & (end > at)), (STARTED, starts)):
        if which.any():
            jobs = runs.job[meets[which]]
            movers.append(Mover(kind, _few(jobs), len(jobs)))
    movers += _events(record, at)
    if not movers:
        others = np.unique(promises.job[(promises.at == at) & (promises.job != row)])
        movers.append(Mover(PROMISED, _few(others), len(others)))
    return tuple(movers)


def _few(jobs: Ints) -> tuple[int, ...]:
    return tuple(jobs[:SHOWN].tolist())


def _events(record: Record, at: int) -> list[Mover]:
    """Return the events of an instant on capacities, walltimes or the queue; a window when announced or ended."""
    if record.outages is None:
        return []
    events = record.outages.events
    now = (events.time == at) & np.isin(events.kind, (CANCEL, WALLTIME, DOWN, UP, CAPACITY, WINDOW))
    now |= (events.kind == WINDOW) & ((events.value == at) | (events.until == at))
    now[[row for row in events.made_for if events.kind[row] != WINDOW]] = False  # effects on a reservation's parts
    movers = []
    for kind in np.unique(events.kind[now]).tolist():
        jobs = events.job[now & (events.kind == kind) & (events.job >= 0)]
        own = [row for row in np.flatnonzero(now & (events.kind == kind)).tolist() if row not in events.made_for]
        name = EVENTS[kind] if own or kind != WINDOW else "reserve"
        movers.append(Mover(EVENT, _few(jobs), int((now & (events.kind == kind)).sum()), event=name))
    return movers


def _behind(record: Record, meets: Ints, at: int, start: int) -> int:
    """Return the running job whose limit is a promised start; of several the one with the most cpus."""
    runs = meets[(record.limit[meets] == start) & (record.runs.start[meets] <= at) & (record.runs.end[meets] > at)]
    if not len(runs):
        return -1
    job = record.runs.job[runs]
    return int(job[np.argmax(record.asks.need(job)[:, 0])])
