"""The jobs that held the resources that a job lacked, and the jobs that overtook it meanwhile."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from backfill.analysis.explain.asks import NODE, SITE, Asks
from backfill.analysis.explain.holding import POLICY, in_force, may_meet, reserved_by
from backfill.analysis.explain.lacks import LICENCE, LIMIT, Lack
from backfill.analysis.explain.room import Mask, Record, Stretch
from backfill.analysis.explain.spans import Cause, Short, Span
from backfill.model.promises import Promises
from backfill.model.schedule import HEAD, MOVED_UP, NO_TIME, RESERVED
from backfill.model.workload import Ints

SHOWN = 5  # named holders of a cause, and named jobs that overtook

# Why a later job was allowed to start earlier; a closed list, in the order of testing.
WHY = ("elsewhere", "in-time", "beside", "smaller", "first", "reserved", "in-time-ahead", "beside-ahead", "chosen")
ELSEWHERE, IN_TIME, BESIDE, SMALLER, FIRST, OWN, IN_TIME_AHEAD, BESIDE_AHEAD, CHOSEN = range(len(WHY))


@dataclass(frozen=True, slots=True)
class Holder:
    """A job that held resources that another one lacked."""

    job: int
    share: float  # of all that was held of these resources then
    amounts: tuple[int, ...]  # of each missing resource
    time: int  # how long it held them then
    end: int
    limit: int  # the end that policies could rely on


@dataclass(frozen=True, slots=True)
class Held:
    """The jobs that held the missing resources in all spans of one cause."""

    jobs: int
    largest: tuple[Holder, ...]
    users: tuple[tuple[str, float], ...]  # (name, share), the largest first; if the log names users


def held(record: Record, row: int, cause: Cause, spans: Sequence[Span]) -> Held:
    """Return the holdings of runs on a job's possible nodes, or of its licences, during these spans of one cause."""
    begin, until = (np.array([getattr(span, name) for span in spans], np.int64) for name in ("begin", "until"))
    run = np.flatnonzero(record.during(int(begin[0]), int(until[-1])))
    amount = _amounts(record, row, cause, run)
    time = _within(begin, until, record.runs.end[run]) - _within(begin, until, record.runs.start[run])
    holders = amount.any(axis=1) & (time > 0)
    run, amount, time = run[holders], amount[holders], time[holders]
    there = np.maximum([lack.there for lack in cause.lacks], 1)
    weight = (amount / there).sum(axis=1) * time
    whole = weight.sum()
    shares = weight / whole if whole else weight
    job = record.runs.job[run]
    largest = np.lexsort((job, -shares))[:SHOWN]
    return Held(
        jobs=len(np.unique(job)),
        largest=tuple(
            Holder(
                job=int(job[i]),
                share=float(shares[i]),
                amounts=tuple(amount[i].tolist()),
                time=int(time[i]),
                end=int(record.runs.end[run[i]]),
                limit=int(record.limit[run[i]]),
            )
            for i in largest.tolist()
        ),
        users=_users(record, job, shares),
    )


def _amounts(record: Record, row: int, cause: Cause, run: Ints) -> Ints:
    """Return the amount of the missing resources that each of these runs holds, shape (runs, lacks)."""
    number = np.full(len(record.runs), -1)
    number[run] = np.arange(len(run))
    seats = np.flatnonzero(number[record.owner] >= 0)
    where = number[record.owner[seats]], record.node[seats], record.tasks[seats]
    return amounts_held(record.asks, row, cause.lacks, record.runs.job[run], *where)


def amounts_held(
    asks: Asks, row: int, lacks: Sequence[Lack | Short], job: Ints, owner: Ints, node: Ints, tasks: Ints
) -> Ints:
    """Return the amounts that runs hold of the resources that a job lacks, shape (runs, lacks).

    Resources of nodes count only on nodes that the job may use.
    job: the row of each run. owner, node, tasks: for each seat the index of its run, the node, and the tasks
    there.
    """
    amounts = np.zeros((len(job), len(lacks)), np.int64)
    there = asks.nodes(row)[node]
    owner, tasks = owner[there], tasks[there]
    for column, lack in enumerate(lacks):
        if lack.kind in (LICENCE, LIMIT):
            amounts[:, column] = asks.copies_of(asks.platform.licences.index(lack.name))[job]
        else:
            k = asks.platform.resources.index(lack.name)
            np.add.at(amounts[:, column], owner, tasks * asks.demand[job[owner], k])
    return amounts


def _within(begin: Ints, until: Ints, time: Ints) -> Ints:
    """Return the total length of these disjoint, sorted intervals before each time."""
    before = np.concatenate([[0], np.cumsum(until - begin)])
    place = np.searchsorted(begin, time, side="right") - 1
    part = np.clip(time - begin[place], 0, (until - begin)[place])
    within: Ints = np.where(place >= 0, before[place] + part, 0)
    return within


def _users(record: Record, job: Ints, shares: Ints) -> tuple[tuple[str, float], ...]:
    labels = record.asks.workload.jobs.user
    codes = labels.codes[job]
    sums = np.bincount(codes[codes >= 0], shares[codes >= 0], len(labels.names))
    most = np.argsort(-sums, kind="stable")[:SHOWN]
    return tuple((labels.names[code], float(sums[code])) for code in most.tolist() if sums[code] > 0)


@dataclass(frozen=True, slots=True)
class Ahead:
    """The jobs that waited beside a job that the policy kept back, and started no later."""

    jobs: int = 0
    first: tuple[tuple[int, int], ...] = ()  # (job, for how long both waited), the longest first


def ahead(rooms: Sequence[Stretch], cause: Cause, spans: Sequence[Span]) -> Ahead:
    """Return the jobs that went ahead of one job in these spans of one cause; none unless the policy is the cause.

    Only jobs count that could use the same nodes or licences.
    """
    if cause.kind != POLICY:
        return Ahead()
    record, beside = rooms[0].record, dict[int, int]()
    begin, until = (np.array([getattr(span, name) for span in spans], np.int64) for name in ("begin", "until"))
    job, since, to = record.waits
    for room in rooms:
        some = np.flatnonzero((job != room.row) & (since < room.until) & (to > room.times[0]) & (to <= room.until))
        time = _within(begin, until, to[some]) - _within(begin, until, np.maximum(since[some], room.times[0]))
        there = (time > 0) & may_meet(room, job[some]) & _starts(record, job[some], to[some])
        for one, length in zip(job[some[there]].tolist(), time[there].tolist(), strict=True):
            beside[one] = beside.get(one, 0) + length
    longest = sorted(beside.items(), key=lambda each: (-each[1], record.rank[each[0]]))
    return Ahead(len(beside), tuple(longest[:SHOWN]))


def _starts(record: Record, job: Ints, time: Ints) -> Mask:
    """Return whether each of these jobs starts at this time; a wait may also end with a cancellation, or never."""
    times = np.unique(record.runs.start)
    wide, place = len(times) + 1, np.searchsorted(times, time)
    known = record.runs.job * wide + np.searchsorted(times, record.runs.start)
    exact = np.append(times, -1)[place] == time
    starts: Mask = exact & np.isin(job * wide + place, known)
    return starts


@dataclass(frozen=True, slots=True)
class Passer:
    """A job that was submitted later and started earlier."""

    job: int
    start: int
    end: int
    limit: int
    why: str  # one of WHY


@dataclass(frozen=True, slots=True)
class Passed:
    """The later jobs that started while a job waited, and why they were allowed to."""

    jobs: int = 0
    why: dict[str, int] = field(default_factory=dict)  # of WHY -> number of jobs
    largest: tuple[Passer, ...] = ()  # those that held most of the job's requested resources for the longest time


def passed(rooms: Sequence[Stretch], promises: Promises | None) -> Passed:
    """Return the jobs that overtook one job while it waited."""
    counts, runs, whys, weights = dict.fromkeys(WHY, 0), list[Ints](), list[Ints](), list[Ints]()
    for room in rooms:
        run, why, weight = _passed(room, promises)
        runs.append(run)
        whys.append(why)
        weights.append(weight)
    run, why, weight = (np.concatenate([np.zeros(0, np.int64), *each]) for each in (runs, whys, weights))
    for code, count in zip(*np.unique(why, return_counts=True), strict=True):
        counts[WHY[code]] = int(count)
    if not len(run):
        return Passed()
    record = rooms[0].record
    largest = np.lexsort((run, -weight))[:SHOWN]
    return Passed(
        jobs=len(np.unique(record.runs.job[run])),
        why={name: count for name, count in counts.items() if count},
        largest=tuple(
            Passer(
                job=int(record.runs.job[run[i]]),
                start=int(record.runs.start[run[i]]),
                end=int(record.runs.end[run[i]]),
                limit=int(record.limit[run[i]]),
                why=WHY[why[i]],
            )
            for i in largest.tolist()
            if weight[i] > 0
        ),
    )


def _passed(room: Stretch, promises: Promises | None) -> tuple[Ints, Ints, Ints]:
    """Return the runs that overtook the job, with the reason (index into WHY), time and share of its nodes."""
    record, runs = room.record, room.record.runs
    passes = (runs.start >= room.times[0]) & (runs.start < room.until)
    run = np.flatnonzero(passes & (record.rank[runs.job] > record.rank[room.row]))
    number = np.full(len(runs), -1)
    number[run] = np.arange(len(run))
    lane = np.full(len(record.asks.platform.nodes), -1)
    lane[room.nodes] = np.arange(len(room.nodes))
    seats = np.flatnonzero((number[record.owner] >= 0) & (lane[record.node] >= 0))
    owner, lane = number[record.owner[seats]], lane[record.node[seats]]
    amount = record.tasks[seats, None] * record.asks.demand[runs.job[record.owner[seats]]][:, room.resources]
    copies = np.zeros((len(run), len(room.licences)), np.int64)
    for column, licence in enumerate(room.licences.tolist()):
        copies[:, column] = record.asks.copies_of(licence)[runs.job[run]]
    why = np.full(len(run), CHOSEN)
    limit, reason, start = record.limit[run], runs.reason[run], runs.start[run]
    other = reserved_by(room, promises, start)
    why[other != NO_TIME] = BESIDE_AHEAD
    why[(other != NO_TIME) & (limit <= other)] = IN_TIME_AHEAD
    why[(reason == RESERVED) | (reason == MOVED_UP)] = OWN
    why[reason == HEAD] = FIRST
    why[~_would_fit(room, start, owner, lane, amount, copies)] = SMALLER
    own = in_force(room, promises, start)
    why[own != NO_TIME] = BESIDE
    why[(own != NO_TIME) & (limit <= own)] = IN_TIME
    touched = np.zeros(len(run), np.bool_)
    touched[owner[(amount > 0).any(axis=1)]] = True
    why[~touched & ~(copies > 0).any(axis=1)] = ELSEWHERE
    there = np.maximum(room.record.asks.platform.capacity[:, room.resources].sum(axis=0), 1)
    weight = np.bincount(owner, (amount / there).sum(axis=1), len(run)) if len(run) else np.zeros(0)
    return run, why, weight * (runs.end[run] - start)


def _would_fit(room: Stretch, start: Ints, owner: Ints, lane: Ints, amount: Ints, copies: Ints) -> Mask:
    """Return whether the job would have fitted at the start of each run if only that run had not been there."""
    place = np.searchsorted(room.times, start, side="right") - 1
    free = room.free[room.at(lane, place[owner])]
    with_, without = room.tasks_at(free, room.demand), room.tasks_at(free + amount, room.demand)
    fit = room.tasks_at(room.free, room.demand)
    spread = room.record.asks.spread(room.row)
    if spread == NODE:
        fits = room.seats(fit)[place]
        fits[owner[without == room.tasks]] = True
    else:
        site = room.record.asks.platform.site[room.nodes] if spread == SITE else np.zeros(len(room.nodes), np.int64)
        fits = np.zeros(len(start), np.bool_)
        for one in np.unique(site).tolist():
            mine = site[lane] == one
            more = np.bincount(owner[mine], (without - with_)[mine], len(start)).astype(np.int64)
            fits |= room.total(np.where(site[room.lane] == one, fit, 0))[place] + more >= room.tasks
    enough: Mask = fits & (room.copies_free[place] + copies >= room.copies).all(axis=1)
    return enough
