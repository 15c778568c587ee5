"""The cause that held back a job that fitted: a reservation, a window, or an earlier job of the queue."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from backfill.analysis.explain.room import Mask, Record, Stretch
from backfill.analysis.outages import Window
from backfill.model.promises import Promises
from backfill.model.schedule import NO_TIME
from backfill.model.workload import Ints

WINDOW, RESERVATION, ORDER, POLICY = "window", "reservation", "order", "policy"
KINDS = (POLICY, WINDOW, RESERVATION, ORDER)


@dataclass(frozen=True, slots=True)
class Rules:
    """Facts about a policy that its record of promises does not contain."""

    name: str
    in_order: bool = False  # no job overtakes the first of the queue, which is in order of submit


@dataclass(frozen=True, eq=False, slots=True)
class Holding:
    """The cause that held a job back from each time of a room, whenever it fitted."""

    kind: Ints  # shape (t,): index into KINDS
    who: Ints  # shape (t,): the job whose reservation or turn it was, or the index of the window; -1 none

    @classmethod
    def of(cls, room: Stretch, fits: Mask, rules: Rules, promises: Promises | None) -> "Holding":
        """Find the causes while the job fits. Without a record of promises, reservations are unknown."""
        kind, who = np.zeros(len(room.times), np.int64), np.full(len(room.times), -1)

        def found(what: str, those: Ints) -> None:
            some = fits & (kind == 0) & (those >= 0)
            kind[some], who[some] = KINDS.index(what), those[some]

        if room.record.outages is not None and room.record.outages.windows:
            found(WINDOW, _windows(room, fits))
        if promises is not None and len(promises):
            found(RESERVATION, _kept(room, fits & (kind == 0), promises) if promises.kept else _of_pass(room, promises))
        if rules.in_order:
            found(ORDER, _first_in_queue(room))
        return cls(kind, who)


def instants(record: Record, promises: Promises | None) -> Ints | None:
    """Return the instants of promises and of jobs that start or stop waiting or running, for the times of a room."""
    _, begin, until = record.waits
    return None if promises is None else np.unique(np.concatenate([promises.at, begin, until, record.runs.end]))


def _walltime(room: Stretch) -> int:
    """Return the run time that the policy plans for the job, at least 1 us: a plan has space even for an empty job."""
    return max(int(room.record.seen[room.row]), 1)


def _of_pass(room: Stretch, promises: Promises) -> Ints:
    """Return the job with the first reservation of a pass, if it precedes the end of the room's job."""
    there = (promises.at >= room.times[0]) & (promises.at < room.until) & (promises.start != NO_TIME)
    there &= (promises.job != room.row) & (promises.start < promises.at + _walltime(room))
    rows = np.flatnonzero(there)
    rows = rows[_waits_on(room, promises.job[rows], promises.at[rows])]
    rows = rows[np.lexsort((promises.start[rows], promises.at[rows]))]
    at, first = np.unique(promises.at[rows], return_index=True)
    of_pass = np.full(len(room.times), -1)
    of_pass[np.searchsorted(room.times, at)] = promises.job[rows[first]]
    return of_pass


def in_force(room: Stretch, promises: Promises | None, time: Ints) -> Ints:
    """Return the start promised to the room's job at each of these times; NO_TIME if it held no promise."""
    if promises is None:
        return np.full(len(time), NO_TIME)
    mine = promises.take(np.flatnonzero(promises.job == room.row))
    place = np.searchsorted(mine.at, time, side="right") - 1
    if not len(mine):
        return np.full(len(time), NO_TIME)
    holds = (place >= 0) & (promises.kept | (mine.at[place] == time))
    latest: Ints = np.where(holds, mine.start[place], NO_TIME)
    return latest


def reserved_by(room: Stretch, promises: Promises | None, time: Ints) -> Ints:
    """Return the earliest start that a pass at each of these times reserved for another job; NO_TIME if none."""
    starts = np.full(len(time), NO_TIME)
    if promises is None or promises.kept:
        return starts
    rows = np.flatnonzero((promises.start != NO_TIME) & (promises.job != room.row))
    rows = rows[np.lexsort((promises.start[rows], promises.at[rows]))]
    at, first = np.unique(promises.at[rows], return_index=True)
    place = np.minimum(np.searchsorted(at, time), len(at) - 1)
    if len(at):
        starts = np.where(at[place] == time, promises.start[rows[first[place]]], NO_TIME)
    return starts


def _waits_on(room: Stretch, job: Ints, time: Ints) -> Mask:
    """Return whether each job still waits after the starts of an instant."""
    starts = np.unique(room.record.runs.start)
    wide = len(starts) + 1
    key = room.record.runs.job * wide + np.searchsorted(starts, room.record.runs.start)
    latest = np.searchsorted(key, job * wide + np.searchsorted(starts, time, side="right") - 1, side="right") - 1
    runs, own = room.record.runs, np.maximum(latest, 0)
    begun = (latest >= 0) & (runs.job[own] == job) & ((runs.start[own] == time) | (runs.end[own] > time))
    waiting: Mask = ~begun
    return waiting


def _first_in_queue(room: Stretch) -> Ints:
    """Return the first waiting job that was submitted before the room's job and that no limit holds back."""
    job, begin, until = room.record.waits
    rank, limits = room.record.rank, _Limits(room)
    some = np.flatnonzero((rank[job] < rank[room.row]) & (begin < room.until) & (until > room.times[0]))
    jobs = np.full(len(room.times), -1)
    for i in some[np.argsort(rank[job[some]], kind="stable")].tolist():
        there = slice(*np.searchsorted(room.times, [begin[i], until[i]]))
        first = (jobs[there] < 0) & limits.allow(int(job[i]))[there]
        jobs[there] = np.where(first, job[i], jobs[there])
        if (jobs >= 0).all():
            break
    return jobs


class _Limits:
    """The amounts that limits leave at the times of a room."""

    def __init__(self, room: Stretch) -> None:
        self.room, self.left = room, dict[int, Ints]()

    def allow(self, job: int) -> Mask:
        """Return the times at which no limit holds a job back, shape (t,)."""
        found, asks = np.ones(len(self.room.times), np.bool_), self.room.record.asks
        for account, copies in zip(*(column.tolist() for column in asks.licences_of(job)), strict=True):
            if asks.is_limit(account):
                if account not in self.left:
                    self.left[account] = self.room.copies_left(account)
                found &= self.left[account] >= copies
        return found


def _kept(room: Stretch, fits: Mask, promises: Promises) -> Ints:
    """Return the job whose reservation the room's job would collide with, among all reservations held at each time."""
    record, rows = room.record, np.full(len(room.times), -1)
    begin, until = int(room.times[0]), room.until
    job, start, since, to = _spells(room, promises)
    near = (job != room.row) & (since < until) & (to > begin) & may_meet(room, job)
    job, start, since, to = job[near], start[near], since[near], to[near]
    alone = len(record.asks.platform.nodes) == 1 and not len(room.licences) and record.outages is None
    runs = np.flatnonzero(record.during(begin, until)) if alone else np.zeros(0, np.int64)
    promised, running = _Sweep(since, to), _Sweep(record.runs.start[runs], record.runs.end[runs])
    span = _walltime(room)
    for place in np.flatnonzero(fits).tolist():
        now = int(room.times[place])
        held = promised.at(now)
        held = held[start[held] < now + span]
        if not len(held):
            continue
        if not alone:
            rows[place] = job[held[np.argmin(start[held])]]
            continue
        there = runs[running.at(now)]
        first = _collision(room, now, place, there, job[held], start[held])
        rows[place] = -1 if first < 0 else job[held[first]]
    return rows


def _spells(room: Stretch, promises: Promises) -> tuple[Ints, Ints, Ints, Ints]:
    """Return the (job, promised start, from, to) of each promise: valid to the next one of the job, or to its start."""
    order = np.lexsort((np.arange(len(promises)), promises.job))
    job, at, start = promises.job[order], promises.at[order], promises.start[order]
    last = np.append(np.diff(job) != 0, True)
    waiting, begin, until = room.record.waits
    times = np.unique(np.concatenate([begin, at]))
    wide = len(times)
    key = waiting * wide + np.searchsorted(times, begin)
    mine = np.searchsorted(key, job * wide + np.searchsorted(times, at), side="right") - 1
    to = np.minimum(np.where(last, until[mine], np.append(at[1:], 0)), until[mine])
    some = (start != NO_TIME) & (to > at)
    return job[some], start[some], at[some], to[some]


def may_meet(room: Stretch, jobs: Ints) -> Mask:
    """Return whether each of these jobs could take resources that the room's job requests."""
    asks = room.record.asks
    each, place = np.unique(jobs, return_inverse=True)
    meets = np.asarray((asks.need(each)[:, room.resources] > 0).any(axis=1))
    labels = asks.jobs
    if labels.constraint.names or labels.site.names or labels.partition.names:
        pairs = np.stack([labels.constraint.codes[each], labels.site.codes[each], labels.partition.codes[each]])
        _, first, same = np.unique(pairs, axis=1, return_index=True, return_inverse=True)
        there = np.array([asks.bound(int(row))[room.nodes].any() for row in each[first].tolist()], np.bool_)
        meets &= there[same.ravel()]
    for licence in room.licences.tolist():
        meets |= asks.copies_of(licence)[each] > 0
    found: Mask = meets[place]
    return found


def _collision(room: Stretch, now: int, place: int, runs: Ints, jobs: Ints, starts: Ints) -> int:
    """Return the reservation on a pool that the room's job, started now, would collide with first; -1 none."""
    record, k = room.record, room.resources
    need = [record.asks.need(those)[:, k] for those in (record.runs.job[runs], jobs)]
    end = now + _walltime(room)
    begins, ends = starts, starts + np.maximum(record.seen[jobs], 1)
    time = np.concatenate([np.maximum(record.limit[runs], now + 1), ends, begins])
    change = np.concatenate([*need, -need[1]])
    order = np.argsort(time, kind="stable")  # at equal times, ends come first
    left = room.free_total[place] - room.need + change[order].cumsum(axis=0)
    lacking = np.flatnonzero((left < 0).any(axis=1) & (time[order] < end))
    return int(order[lacking[0]]) - len(runs) - len(jobs) if len(lacking) else -1


class _Sweep:
    """Finds the intervals [begin, until) that contain an instant, for instants in ascending order."""

    def __init__(self, begin: Ints, until: Ints) -> None:
        self.begin, self.until = begin, until
        self.coming = np.argsort(begin, kind="stable")
        self.sorted = begin[self.coming]
        self.next, self.there = 0, np.zeros(0, np.int64)

    def at(self, now: int) -> Ints:
        """Return the indices of the intervals that contain this instant."""
        come = int(np.searchsorted(self.sorted, now, side="right"))
        there = np.concatenate([self.there, self.coming[self.next : come]])
        self.next, self.there = come, there[self.until[there] > now]
        return self.there


def _windows(room: Stretch, fits: Mask) -> Ints:
    """Return the first announced window during which the job, started now, would lack what the window takes."""
    record, places, span = room.record, np.full(len(room.times), -1), _walltime(room)
    assert record.outages is not None
    windows = record.outages.windows
    for place in np.flatnonzero(fits).tolist():
        now = int(room.times[place])
        ahead = [i for i, each in enumerate(windows) if each.is_known(now) and now < each.begin < now + span]
        for i in sorted(ahead, key=lambda i: windows[i].begin):
            known = [each for each in windows if each.is_known(now)]
            if not _fits_until(room, place, now, known, windows[i].begin):
                places[place] = i
                break
    return places


def _fits_until(room: Stretch, place: int, now: int, windows: Sequence[Window], then: int) -> bool:
    """Return whether the job fits now and at `then`, beside the running jobs and the announced windows."""
    record, asks = room.record, room.record.asks
    assert record.replay is not None
    runs = np.flatnonzero((record.runs.start <= now) & (record.runs.end > now))
    stay = runs[record.limit[runs] > then]
    lanes = room.at(np.arange(len(room.nodes)), np.full(len(room.nodes), place))
    then_free = np.array([record.replay.without_windows(node, now, False) for node in room.nodes.tolist()], np.int64)
    then_free = then_free.reshape(len(room.nodes), -1)[:, room.resources]
    seats = np.flatnonzero(np.isin(record.owner, stay))
    lane = np.searchsorted(room.nodes, record.node[seats])
    mine = (lane < len(room.nodes)) & (room.nodes[np.minimum(lane, len(room.nodes) - 1)] == record.node[seats])
    seats, lane = seats[mine], lane[mine]
    amount = record.tasks[seats, None] * asks.demand[record.runs.job[record.owner[seats]]][:, room.resources]
    np.subtract.at(then_free, lane, amount)
    copies = np.array([record.replay.without_windows(each, now, True)[0] for each in room.licences.tolist()], np.int64)
    for i, licence in enumerate(room.licences.tolist()):
        copies[i] -= asks.copies_of(licence)[record.runs.job[stay]].sum()
    for each in windows:
        if not each.begin <= then < each.until:
            continue
        if each.licence:
            copies[room.licences == each.lanes[0]] -= each.amount
        elif each.resource < 0:
            then_free[np.isin(room.nodes, each.lanes)] = 0
        else:
            then_free[np.ix_(np.isin(room.nodes, each.lanes), room.resources == each.resource)] -= each.amount
    return bool((copies >= room.copies).all()) and room.holds(np.minimum(room.free[lanes], then_free))
