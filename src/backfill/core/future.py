"""The plan: what nodes and licences will hold, and who has a place in it.

A plan has a lane per node and one per licence. A waiting job can start earlier than promised only through room that
appeared since its last turn, and mostly none did that would do. So rooms are kept as a table: `rooms[RECENT, level, b]`
says for how long, at most, the need of a level is free up to an instant of bucket b of the future, in a place where
room appeared since the last round began; `rooms[FRESH]` the same since this round began. Levels are the most frequent
needs of the workload. Bookings do not lower the table, searches in vain do.

A job whose walltime is longer than what its level shows up to its start cannot end before that start. It can then only
slide, and whether it can is seen at the instant before its start: no search is needed.

Where few wait on a pool, a search costs less than the table, so there is none.
"""

from typing import Any

import numpy as np
from numba import int8, int32, int64

from backfill.core.errors import BY_EARLIEST_START, BY_FITS_NOW, BY_SETTLE, IN_THE_PAST, fail
from backfill.core.kernel import apart, kernel
from backfill.core.placement import may_use, place_gang
from backfill.core.profile import (
    FUTURE,
    GIVE,
    NONE,
    PAST,
    TAKE,
    ProfileT,
    available,
    book,
    clear,
    earliest,
    entry_after,
    entry_before,
    find,
    free_since,
    least_over,
    new_profile,
    next_change,
    trim,
)
from backfill.core.queue import following, is_waiting, rewind
from backfill.core.record import SMALL, column, doubled_rows, record, zeros
from backfill.core.runs import is_suspended, place_as_before
from backfill.core.trace import LOOKS
from backfill.core.wall import verb
from backfill.model.platform import Platform
from backfill.model.workload import Ints, Jobs

ONLY = np.int64(0)  # the one lane of a pool
ANY_LEVEL = np.int64(0)  # the one level where a need has several lanes
RECENT, FRESH = 0, 1
LEVELS = 16  # at most
BUCKETS, FEW = 64, 8  # of time: at most, and at least
SHORT = 128  # a queue for which rooms are not kept
FINEST = 20  # the shortest bucket is 2**FINEST microseconds

PLAN = [
    ("nodes", ProfileT),  # availability of nodes, kept by the policies that plan
    ("licences", ProfileT),
    # where windows are announced (planned.py)
    ("live", int64),  # 1: it holds what runs and what is announced, and each start is booked as it is made
    ("fits", int64),  # address of `fits`
    ("hold_place", int64),  # of `hold_place`
    ("book_start", int64),  # of `book_start`
    # where jobs have a place in the plan: pairs (node, tasks), job j has `many[j]` from `first[j]`; unused on a pool
    ("first", int64[::1]),  # (n,)
    ("many", int32[::1]),  # (n,)
    ("pairs", int64[:, ::1]),
    ("pairs_used", int64),
    # where availability grew, for two rounds
    ("rooms_until", int64[::1]),  # (2,): no room appeared beyond
    ("rooms_kept", int64),
    ("rooms", int64[:, :, ::1]),  # (2, levels, buckets): for how long a level is free up to an instant of a bucket
    ("rooms_need", int64[::1]),  # (levels,): the need that makes a level, of the first resource
    ("rooms_since", int64[::1]),  # (levels,): scratch
    ("rooms_level", int8[::1]),  # (n,): level of a job that has a place in the plan
    ("rooms_low", int64),  # no such job waits at a lower level,
    ("rooms_high", int64),  # nor at a higher one
    ("rooms_origin", int64),  # where bucket 0 begins
    ("rooms_shift", int64),  # a bucket is 2**rooms_shift microseconds long
    ("rooms_last", int64),  # number of the last bucket, which has no end
]
Plan, PlanT = record("Plan", PLAN, globals())


def new_plan(platform: Platform, jobs: Jobs, need: Ints) -> Any:
    """All of a platform is free for ever. need: of whole jobs, of the first resource."""
    simple = platform.is_pool
    levels = _levels(need) if simple else zeros(1)
    return Plan(
        nodes=new_profile(column(platform.capacity)),
        licences=new_profile(column(platform.copies.reshape(-1, 1))),
        live=0,
        fits=0,
        hold_place=0,
        book_start=0,
        first=zeros(1 if simple else len(jobs)),
        many=np.zeros(1 if simple else len(jobs), np.int32),
        pairs=zeros(SMALL, 2),
        pairs_used=0,
        rooms_until=np.full(2, PAST),
        rooms_kept=1,
        rooms=zeros(2, len(levels), BUCKETS),
        rooms_need=levels,
        rooms_since=zeros(len(levels)),
        rooms_level=np.zeros(len(jobs), np.int8),
        rooms_low=0,
        rooms_high=len(levels) - 1,
        rooms_origin=int(jobs.submit.min(initial=FUTURE)),
        rooms_shift=FINEST,
        rooms_last=FEW - 1,
    )


def _levels(need: Ints) -> Ints:
    """The needs of most jobs and the least of all, ascending, at most LEVELS."""
    if not len(need):
        return np.zeros(1, np.int64)
    values, counts = np.unique(need[:: max(len(need) // 4096, 1)], return_counts=True)
    often = values[np.argsort(-counts, kind="stable")[: LEVELS - 1]]
    found: Ints = np.unique(np.append(often, need.min()))
    return found


@kernel()
def span(state, job):
    """How long a job is booked: its walltime, and one microsecond where that is 0, so that its promise can be kept."""
    return max(state.jobs.walltime[job], 1)


@kernel()
def book_job(state, job, begin, end, sign):
    """Book (sign 1) or give back (-1) what a waiting job holds in the plan, on [begin, end)."""
    if state.machine.pool:
        book(state.plan.nodes, ONLY, begin, end, state.jobs.need, job, sign)
        return
    _book_pairs(state, job, state.plan.pairs, state.plan.first[job], np.int64(state.plan.many[job]), begin, end, sign)


@kernel()
def book_run(state, run, begin, end, sign):
    """Book (sign 1) or give back (-1) what a run holds, on [begin, end)."""
    job = np.int64(state.runs.job[run])
    if state.machine.pool:
        book(state.plan.nodes, ONLY, begin, end, state.jobs.need, job, sign)
        return
    _book_pairs(state, job, state.runs.held, state.runs.first[run], np.int64(state.runs.many[run]), begin, end, sign)


@kernel()
def _book_pairs(state, job, pairs, first, many, begin, end, sign):
    for pair in range(first, first + many):
        book(state.plan.nodes, pairs[pair, 0], begin, end, state.jobs.demand, job, sign * pairs[pair, 1])
    for item in range(state.jobs.licence_first[job], state.jobs.licence_first[job + 1]):
        book(state.plan.licences, state.jobs.licence[item], begin, end, state.jobs.licence_count, item, sign)


@kernel()
def _keep_place(state, job):
    """Write what was placed to the job's own list of (node, tasks) in the plan."""
    plan, placed = state.plan, state.placed
    if plan.many[job] < placed.count:
        while plan.pairs_used + placed.count > len(plan.pairs):
            plan.pairs = doubled_rows(plan.pairs)
        plan.first[job] = plan.pairs_used
        plan.pairs_used += placed.count
    plan.many[job] = placed.count
    for pair in range(placed.count):
        plan.pairs[plan.first[job] + pair, 0] = placed.pairs[pair, 0]
        plan.pairs[plan.first[job] + pair, 1] = placed.pairs[pair, 1]


@kernel()
def open_rooms(state, begin, end):
    """Write down that what was held on [begin, end) is free, for those who wait since an earlier pass."""
    if state.queue.waiting == state.batch.arrivals:
        return
    end = min(end, FUTURE)
    state.plan.rooms_until[RECENT] = max(state.plan.rooms_until[RECENT], end)
    state.plan.rooms_until[FRESH] = max(state.plan.rooms_until[FRESH], end)
    if not state.plan.rooms_kept:
        return
    if state.machine.pool:
        _measure_room(state, max(begin, state.now), end)
    else:
        _mark(state, ANY_LEVEL, max(begin, state.now), end)


@apart()
def _measure_room(state, begin, end):
    """Write down, level by level, the times on which a pool is free for its need and that touch [begin, end)."""
    plan, need, since = state.plan.nodes, state.plan.rooms_need, state.plan.rooms_since
    d, e = find(plan, ONLY, begin)
    level = _look_back(state, d, e)
    while True:
        d, e = entry_after(plan, ONLY, d, e)
        t = FUTURE if e == NONE else plan.time[e]
        free = NONE if e == NONE else available(plan, ONLY, d, e, ONLY)
        while level >= state.plan.rooms_low and need[level] > free:
            _mark(state, level, since[level], t)
            level -= 1
        if t < end:
            while level < state.plan.rooms_high and need[level + 1] <= free:
                level += 1
                since[level] = t
        elif level < state.plan.rooms_low:
            return


@kernel()
def _look_back(state, d, e):
    """Find since when, up to an entry, a pool is free for each level. Returns the highest for which it is."""
    plan, need, since = state.plan.nodes, state.plan.rooms_need, state.plan.rooms_since
    free = available(plan, ONLY, d, e, ONLY)
    highest = state.plan.rooms_low - 1
    while highest < state.plan.rooms_high and need[highest + 1] <= free:
        highest += 1
    level = highest
    while level >= state.plan.rooms_low:
        t = max(plan.time[e], state.now)
        if t > state.now:
            d, e = entry_before(plan, ONLY, d, e)
            free = available(plan, ONLY, d, e, ONLY)
        while level >= state.plan.rooms_low and (t == state.now or need[level] > free):
            since[level] = t
            level -= 1
    return highest


@kernel()
def _mark(state, level, begin, end):
    """Write down that a level is free on [begin, end)."""
    rooms = state.plan.rooms
    last = _bucket(state, end)
    for b in range(_bucket(state, begin), last + 1):
        length = (end if b == last else min(end, _border(state, b + 1))) - begin
        if end == FUTURE and b == last:
            length = FUTURE  # there it has no end
        rooms[RECENT, level, b] = max(rooms[RECENT, level, b], length)
        rooms[FRESH, level, b] = max(rooms[FRESH, level, b], length)


@kernel(inline=True)
def _bucket(state, t):
    """The bucket of an instant; the last one has no end."""
    return min((t - state.plan.rooms_origin) >> state.plan.rooms_shift, state.plan.rooms_last)


@kernel(inline=True)
def _border(state, b):
    """Where bucket b begins."""
    return state.plan.rooms_origin + (b << state.plan.rooms_shift)


@verb()
def begin_round(state):
    """Before each waiting job has a turn: forget the rooms of which all had one, and fit the table to the queue."""
    state.plan.rooms_until[RECENT], state.plan.rooms_until[FRESH] = state.plan.rooms_until[FRESH], PAST
    if state.machine.pool and state.queue.waiting < SHORT:
        state.plan.rooms_kept = 0
        return
    if not state.plan.rooms_kept:
        state.plan.rooms_kept = 1
        state.plan.rooms[FRESH] = FUTURE  # nothing is known
        rewind(state, 0)
        for _ in range(state.queue.waiting):
            _join_level(state, following(state, 0))
    latest = _survey(state)
    last = min(max(state.queue.waiting // 4, FEW), BUCKETS) - 1
    used = (latest - state.plan.rooms_origin) >> state.plan.rooms_shift
    if last != state.plan.rooms_last or used > last or used < last // 8:
        _fit_buckets(state, last, latest)
    rooms = state.plan.rooms
    for level in range(len(state.plan.rooms_need)):
        for b in range(last + 1):
            rooms[RECENT, level, b] = rooms[FRESH, level, b]
            rooms[FRESH, level, b] = 0


@kernel()
def _survey(state):
    """Note the least and the greatest level at which a job waits. Returns the latest reserved start."""
    latest, low, high = state.now, len(state.plan.rooms_need) - 1, 0
    rewind(state, 0)
    job = following(state, 0)
    while job >= 0:
        latest = max(latest, state.promises.reserved[job])
        low = min(low, state.plan.rooms_level[job])
        high = max(high, state.plan.rooms_level[job])
        job = following(state, 0)
    state.plan.rooms_low, state.plan.rooms_high = low, high
    return latest


@apart()
def _fit_buckets(state, last, latest):
    """Part the time from now to the latest start into buckets anew, half as many as there are, and move the marks."""
    rooms = state.plan.rooms
    shift = FINEST
    while (latest - state.now) >> shift > last // 2:
        shift += 1
    for level in range(len(state.plan.rooms_need)):
        for b in range(BUCKETS):
            rooms[RECENT, level, b] = rooms[FRESH, level, b]
            rooms[FRESH, level, b] = 0
        for b in range(last + 1):
            first = _bucket(state, _later(state, b, shift))
            end = state.plan.rooms_last if b == last else _bucket(state, _later(state, b + 1, shift))
            for i in range(first, end + 1):
                rooms[FRESH, level, b] = max(rooms[FRESH, level, b], rooms[RECENT, level, i])
    state.plan.rooms_origin, state.plan.rooms_shift, state.plan.rooms_last = state.now, shift, last


@kernel(inline=True)
def _later(state, b, shift):
    """The instant b * 2^shift from now, or FUTURE before it."""
    return FUTURE if b > (FUTURE - state.now) >> shift else state.now + (b << shift)


@verb()
def earliest_start(state, job, begin):
    """The first instant from `begin` at which the whole plan has room for a job; where, is left in `placed`."""
    if not is_waiting(state, job, BY_EARLIEST_START):
        return FUTURE
    if begin < state.now:
        fail(state, IN_THE_PAST, job, NONE, begin, state.now)
        return FUTURE
    if begin >= FUTURE:
        return FUTURE
    t = _earliest(state, job, begin)
    state.placed.may = job if t == state.now else NONE
    return t


@kernel()
def _earliest(state, job, begin):
    if state.machine.pool:
        return earliest(state.plan.nodes, ONLY, state.jobs.need, job, TAKE, begin, FUTURE, FUTURE, span(state, job))
    if is_suspended(state, job):
        return _earliest_as_before(state, job, begin)
    if state.jobs.alone[job]:
        return _earliest_on_one_node(state, job, begin)
    return _earliest_spread(state, job, begin)


@apart()
def _earliest_on_one_node(state, job, begin):
    """The least over nodes, in order of power, of the first instant at which node and licences agree."""
    best = FUTURE
    first, last = state.jobs.licence_first[job], state.jobs.licence_first[job + 1]
    length = span(state, job)
    for node in range(state.machine.nodes):
        if not may_use(
            node, state.jobs.bound[job], state.machine.allowed, state.machine.hosts, state.jobs.licence, first, last
        ):
            continue
        t, agreed = begin, False
        while not agreed and t < best:
            agreed = True
            t = earliest(state.plan.nodes, node, state.jobs.demand, job, state.jobs.tasks[job], t, best, FUTURE, length)
            for item in range(first, last):
                lane = state.jobs.licence[item]
                later = earliest(
                    state.plan.licences, lane, state.jobs.licence_count, item, TAKE, t, best, FUTURE, length
                )
                if later > t:
                    t, agreed = later, False
        if agreed and t < best:
            best = t
            state.placed.pairs[0, 0], state.placed.pairs[0, 1] = node, state.jobs.tasks[job]
            state.placed.count, state.placed.job = 1, job
    return best


@apart()
def _earliest_spread(state, job, begin):
    """The first instant at which the least availability over the window of each node places the whole gang."""
    first, last = state.jobs.licence_first[job], state.jobs.licence_first[job + 1]
    t = begin
    while t < FUTURE:
        end = t + span(state, job)
        there = True
        for item in range(first, last):
            lane = state.jobs.licence[item]
            least_over(state.plan.licences, lane, t, end, state.scratch.least, 0)
            if state.scratch.least[0, 0] < state.jobs.licence_count[item, 0]:
                there = False
        if there:
            for node in range(state.machine.nodes):
                least_over(state.plan.nodes, node, t, end, state.scratch.room, node)
            state.placed.count = place_gang(
                state.scratch.room,
                state.jobs.demand,
                job,
                state.jobs.tasks[job],
                state.jobs.spread[job],
                state.machine,
                state.jobs.bound[job],
                state.jobs.licence,
                first,
                last,
                state.placed.pairs,
            )
            if state.placed.count > 0:
                state.placed.job = job
                return t
        later = FUTURE
        for node in range(state.machine.nodes):
            later = min(later, next_change(state.plan.nodes, node, t))
        for item in range(first, last):
            later = min(later, next_change(state.plan.licences, state.jobs.licence[item], t))
        t = later
    return FUTURE


@apart()
def _earliest_as_before(state, job, begin):
    """The first instant from which what a suspended job held stays free for as long as it may run."""
    place_as_before(state, job)
    first, last = state.jobs.licence_first[job], state.jobs.licence_first[job + 1]
    plan, jobs, placed, length = state.plan, state.jobs, state.placed, span(state, job)
    t, agreed = begin, 0
    while agreed < placed.count + last - first and t < FUTURE:
        agreed = 0
        for lane in range(placed.count + last - first):
            if lane < placed.count:
                node, tasks = placed.pairs[lane, 0], placed.pairs[lane, 1]
                later = earliest(plan.nodes, node, jobs.demand, job, tasks, t, FUTURE, FUTURE, length)
            else:
                item = first + lane - placed.count
                later = earliest(
                    plan.licences, jobs.licence[item], jobs.licence_count, item, TAKE, t, FUTURE, FUTURE, length
                )
            agreed += later == t
            t = later
            if t == FUTURE:
                break
    return t


@verb()
def settle(state, job, begin):
    """Book a job at its earliest start from `begin`; returns that start, FUTURE where it has none."""
    if not is_waiting(state, job, BY_SETTLE):
        return FUTURE
    t = earliest_start(state, job, begin)
    if t == FUTURE:
        return t
    if not state.machine.pool:
        _keep_place(state, job)
    book_job(state, job, t, t + span(state, job), TAKE)
    if state.plan.rooms_kept:
        _join_level(state, job)
    return t


@kernel()
def _join_level(state, job):
    """Let rooms be measured for the level of a job: the highest whose need is not above its own."""
    level = len(state.plan.rooms_need) - 1
    while level > 0 and state.plan.rooms_need[level] > state.jobs.need[job, 0]:
        level -= 1
    state.plan.rooms_level[job] = level
    state.plan.rooms_low = min(state.plan.rooms_low, level)
    state.plan.rooms_high = max(state.plan.rooms_high, level)


@verb()
def fits_now(state, job):
    """Whether the plan has room for a job from now on."""
    if not is_waiting(state, job, BY_FITS_NOW):
        return False
    if not state.machine.pool:
        return earliest_start(state, job, state.now) == state.now
    now, length = state.now, span(state, job)
    fits = earliest(state.plan.nodes, ONLY, state.jobs.need, job, TAKE, now, now + 1, FUTURE, length) == now
    state.placed.may = job if fits else NONE
    return fits


@verb()
def improve(state, job):
    """Put a booked job at its earliest start, never later than it is. Returns that start."""
    if state.machine.pool:
        return _improve_on_pool(state, job)
    held = state.promises.reserved[job]
    end = held + span(state, job)
    if not _any_room(state, end):
        return held
    state.trace.counters[LOOKS] += 1
    book_job(state, job, held, end, GIVE)
    t = earliest_start(state, job, state.now)
    if t == held and _placed_where_held(state, job):
        book_job(state, job, held, end, TAKE)
        return held
    open_rooms(state, held, end)
    _keep_place(state, job)
    book_job(state, job, t, t + span(state, job), TAKE)
    return t


@kernel()
def _any_room(state, end):
    """Whether room appeared before `end` on any lane."""
    for b in range(_bucket(state, end) + 1):
        if state.plan.rooms[RECENT, ANY_LEVEL, b] > 0:
            return True
    return False


@kernel()
def _placed_where_held(state, job):
    if state.plan.many[job] != state.placed.count:
        return False
    for pair in range(state.placed.count):
        i = state.plan.first[job] + pair
        if (
            state.plan.pairs[i, 0] != state.placed.pairs[pair, 0]
            or state.plan.pairs[i, 1] != state.placed.pairs[pair, 1]
        ):
            return False
    return True


@apart()
def _improve_on_pool(state, job):
    """On one lane the time from its own start on lies under its own booking, so it can stay booked for the look."""
    held = state.promises.reserved[job]
    length = span(state, job)
    if not state.plan.rooms_kept:
        state.trace.counters[LOOKS] += 1
        before = min(held, state.plan.rooms_until[RECENT])
        t = min(earliest(state.plan.nodes, ONLY, state.jobs.need, job, TAKE, state.now, before, held, length), held)
    else:
        t = _earlier_window(state, job, held, length)
        if t == FUTURE:
            t = _slide(state, job, held)
    if t == held:
        return held
    left = max(held, t + length)  # it leaves [left, held + length) and takes what it did not hold already
    book(state.plan.nodes, ONLY, left, held + length, state.jobs.need, job, GIVE)
    book(state.plan.nodes, ONLY, t, min(held, t + length), state.jobs.need, job, TAKE)
    open_rooms(state, left, held + length)
    return t


@kernel()
def _earlier_window(state, job, held, length):
    """The first start of a job on a pool from which it ends by `held`; FUTURE where there is none.

    A window that ends in bucket b lies in room of at least its length there: all other buckets are passed over.
    """
    rooms, level, last = state.plan.rooms, state.plan.rooms_level[job], _bucket(state, held)
    b = 0
    while True:
        while b <= last and rooms[RECENT, level, b] < length:
            b += 1
        if b > last:
            return FUTURE
        first = b
        while b <= last and rooms[RECENT, level, b] >= length:
            b += 1
        begin = max(state.now, _border(state, first) - length)
        before = (held if b > last else _border(state, b)) - length + 1
        if begin < before:
            state.trace.counters[LOOKS] += 1
            t = earliest(state.plan.nodes, ONLY, state.jobs.need, job, TAKE, begin, before, FUTURE, length)
            if t < FUTURE:
                return t
        if state.machine.resources == 1:
            _cap(state, job, first, min(b, last), length - 1)


@kernel()
def _cap(state, job, first, last, length):
    """Nowhere in buckets first to last (exclusive) is the need of a job free for longer than this."""
    rooms, level = state.plan.rooms, state.plan.rooms_level[job]
    if state.plan.rooms_need[level] < state.jobs.need[job, 0]:
        level += 1
    while level <= state.plan.rooms_high:
        for b in range(first, last):
            rooms[RECENT, level, b] = min(rooms[RECENT, level, b], length)
            rooms[FRESH, level, b] = min(rooms[FRESH, level, b], length)
        level += 1


@kernel()
def _slide(state, job, held):
    """The first start from which a job on a pool can run into the time that it holds from `held` on."""
    if state.plan.rooms[RECENT, state.plan.rooms_level[job], _bucket(state, held - 1)] == 0:
        return held
    state.trace.counters[LOOKS] += 1
    return max(state.now, free_since(state.plan.nodes, ONLY, state.jobs.need, job, TAKE, held))


@verb()
def forget_past(state):
    """The plan before now will not be read again."""
    trim(state.plan.nodes, state.now)
    if not state.machine.pool:
        trim(state.plan.licences, state.now)


@verb()
def give_back(state):
    """What jobs that ended now had booked beyond now is free again; at least this instant, if they were overdue."""
    for i in range(state.batch.ends):
        run = state.batch.ended[i]
        end = state.runs.limit[run]
        book_run(state, run, state.now, end, GIVE)
        open_rooms(state, state.now, max(end, state.now + 1))


@verb()
def book_overdue(state, sign):
    """Book the running jobs at or beyond their limit for this instant, as nobody knows when they end; or give it back.

    Those of walltime 0 that start in this pass are among them when it ends. Returns how many they are.
    """
    overdue = 0
    while overdue < state.runs.active and state.runs.limits[overdue] <= state.now:
        book_run(state, state.runs.by_limit[overdue], state.now, state.now + 1, sign)
        overdue += 1
    return overdue


@verb()
def lift(state, job):
    """Take the reservation of a job out of the plan."""
    book_job(state, job, state.promises.reserved[job], state.promises.reserved[job] + span(state, job), GIVE)
    open_rooms(state, state.promises.reserved[job], state.promises.reserved[job] + span(state, job))


@verb()
def book_reserved(state, job):
    """Put the reservation of a job back into the plan."""
    book_job(state, job, state.promises.reserved[job], state.promises.reserved[job] + span(state, job), TAKE)


@verb()
def fits_where_held(state, job, t):
    """Whether the plan has room for a job at t on the nodes that its reservation names."""
    end = t + span(state, job)
    if state.machine.pool:
        least_over(state.plan.nodes, ONLY, t, end, state.scratch.room, ONLY)
        for k in range(state.machine.resources):
            if state.scratch.room[0, k] < state.jobs.need[job, k]:
                return False
        return True
    for pair in range(state.plan.first[job], state.plan.first[job] + state.plan.many[job]):
        node = state.plan.pairs[pair, 0]
        least_over(state.plan.nodes, node, t, end, state.scratch.room, node)
        for k in range(state.machine.resources):
            if state.scratch.room[node, k] < state.plan.pairs[pair, 1] * state.jobs.demand[job, k]:
                return False
    for item in range(state.jobs.licence_first[job], state.jobs.licence_first[job + 1]):
        least_over(state.plan.licences, state.jobs.licence[item], t, end, state.scratch.least, ONLY)
        if state.scratch.least[0, 0] < state.jobs.licence_count[item, 0]:
            return False
    return True


@verb()
def place_where_held(state, job):
    """Place a job on the nodes that its reservation names, for `start`."""
    if state.promises.reserved[job] == state.now:
        state.placed.may = job
    if state.machine.pool:
        return
    state.placed.count, state.placed.job = state.plan.many[job], job
    for pair in range(state.placed.count):
        state.placed.pairs[pair, 0] = state.plan.pairs[state.plan.first[job] + pair, 0]
        state.placed.pairs[pair, 1] = state.plan.pairs[state.plan.first[job] + pair, 1]


@verb()
def rebuild(state):
    """Make the plan anew from what runs and what is announced."""
    book_running(state)
    book_overdue(state, TAKE)


@verb()
def book_running(state):
    """Like `rebuild`, without the runs that are overdue."""
    state.plan.live = 0
    state.plan.rooms_kept, state.plan.rooms_until[FRESH] = 0, FUTURE  # nothing is known of where room appeared
    clear(state.plan.nodes, state.machine.base)
    clear(state.plan.licences, state.machine.base_copies)
    for i in range(state.runs.active):
        book_run(state, state.runs.by_limit[i], state.now, state.runs.limits[i], TAKE)
    if state.machine.windows > 0:
        _book_windows(state)


@apart()
def _book_windows(state):
    """Take out of the plan what announced windows take, lane by lane: less than nothing is nothing."""
    machine = state.machine
    by_lane = np.argsort(machine.window[: machine.windows, 0], kind="mergesort")
    first = 0
    while first < machine.windows:
        last = first
        while last < machine.windows and machine.window[by_lane[last], 0] == machine.window[by_lane[first], 0]:
            last += 1
        _book_lane(state, machine.window[by_lane[first:last]])
        first = last


@kernel()
def _book_lane(state, window):
    """window: those of one lane, a node or, counted down from -1, a licence."""
    machine = state.machine
    instants = np.empty(2 * len(window), np.int64)
    for i in range(len(window)):
        instants[2 * i], instants[2 * i + 1] = max(window[i, 3], state.now), max(window[i, 4], state.now)
    instants.sort()
    lane, columns = window[0, 0], machine.resources if window[0, 0] >= 0 else 1
    gone = np.empty((1, columns), np.int64)
    for i in range(len(instants) - 1):
        begin, until = instants[i], instants[i + 1]
        if begin == until:
            continue
        for k in range(columns):
            base = machine.base[lane, k] if lane >= 0 else machine.base_copies[-1 - lane, 0]
            less = np.int64(0)
            for row in range(len(window)):
                if window[row, 3] <= begin < window[row, 4]:
                    if window[row, 1] < 0:
                        less = base
                    elif window[row, 1] == k:
                        less += window[row, 2]
            gone[0, k] = min(less, base)
        if lane >= 0:
            book(state.plan.nodes, lane, begin, until, gone, ONLY, TAKE)
        else:
            book(state.plan.licences, -1 - lane, begin, until, gone, ONLY, TAKE)


@verb()
def swap_plans(state):
    """Work with the other plan from here on. There are two where the policy may preempt; `start` books in this one."""
    state.plan, state.other = state.other, state.plan


@verb()
def book_until_limit(state, run, sign):
    """Book (sign 1) or give back (-1) what a run holds from now until its limit, one microsecond where that is over."""
    book_run(state, run, state.now, max(state.runs.limit[run], state.now + 1), sign)
