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

import numpy as np

from backfill.core.counters import LOOKS
from backfill.core.placement import may_use, place_gang
from backfill.core.profile import (
    FUTURE,
    GIVE,
    NONE,
    PAST,
    TAKE,
    available,
    book,
    clear,
    earliest,
    entry_after,
    entry_before,
    find,
    free_since,
    least_over,
    next_change,
    trim,
)
from backfill.core.queue import following, rewind
from backfill.core.record import kernel
from backfill.core.verbs import keep_placement

ONLY = np.int64(0)  # the one lane of a pool
ANY_LEVEL = np.int64(0)  # the one level where a need has several lanes
RECENT, FRESH = 0, 1
LEVELS = 16  # at most
BUCKETS, FEW = 64, 8  # of time: at most, and at least
SHORT = 128  # a queue for which rooms are not kept
FINEST = 20  # the shortest bucket is 2**FINEST microseconds


@kernel()
def span(state, job):
    """How long a job is booked: its walltime, and one microsecond where that is 0, so that its promise can be kept."""
    return max(state.walltime[job], 1)


@kernel()
def book_job(state, job, begin, end, sign):
    """Book (sign 1) or give back (-1) what a job holds in the plan, on [begin, end)."""
    if state.pool:
        book(state.plan, ONLY, begin, end, state.need, job, sign)
        return
    first = state.held_first[job]
    for pair in range(first, first + state.held_count[job]):
        book(state.plan, state.held[pair, 0], begin, end, state.demand, job, sign * state.held[pair, 1])
    for item in range(state.licence_first[job], state.licence_first[job + 1]):
        book(state.licence_plan, state.licence[item], begin, end, state.licence_count, item, sign)


@kernel()
def open_rooms(state, job, begin, end):
    """Write down that what a job held on [begin, end) is free, for those who wait since an earlier pass."""
    if state.waiting == state.arrivals:
        return
    state.rooms_until[RECENT] = max(state.rooms_until[RECENT], end)
    state.rooms_until[FRESH] = max(state.rooms_until[FRESH], end)
    if not state.rooms_kept:
        return
    if state.pool:
        _measure_room(state, max(begin, state.now), end)
    else:
        _mark(state, ANY_LEVEL, max(begin, state.now), end)


@kernel(once=True)
def _measure_room(state, begin, end):
    """Write down, level by level, the times on which a pool is free for its need and that touch [begin, end)."""
    plan, need, since = state.plan, state.rooms_need, state.rooms_since
    d, e = find(plan, ONLY, begin)
    level = _look_back(state, d, e)
    while True:
        d, e = entry_after(plan, ONLY, d, e)
        t = FUTURE if e == NONE else plan.time[e]
        free = NONE if e == NONE else available(plan, ONLY, d, e, ONLY)
        while level >= state.rooms_low and need[level] > free:
            _mark(state, level, since[level], t)
            level -= 1
        if t < end:
            while level < state.rooms_high and need[level + 1] <= free:
                level += 1
                since[level] = t
        elif level < state.rooms_low:
            return


@kernel(once=True)
def _look_back(state, d, e):
    """Find since when, up to an entry, a pool is free for each level. Returns the highest for which it is."""
    plan, need, since = state.plan, state.rooms_need, state.rooms_since
    free = available(plan, ONLY, d, e, ONLY)
    highest = state.rooms_low - 1
    while highest < state.rooms_high and need[highest + 1] <= free:
        highest += 1
    level = highest
    while level >= state.rooms_low:
        t = max(plan.time[e], state.now)
        if t > state.now:
            d, e = entry_before(plan, ONLY, d, e)
            free = available(plan, ONLY, d, e, ONLY)
        while level >= state.rooms_low and (t == state.now or need[level] > free):
            since[level] = t
            level -= 1
    return highest


@kernel()
def _mark(state, level, begin, end):
    """Write down that a level is free on [begin, end)."""
    rooms = state.rooms
    last = _bucket(state, end)
    for b in range(_bucket(state, begin), last + 1):
        length = (end if b == last else min(end, _border(state, b + 1))) - begin
        rooms[RECENT, level, b] = max(rooms[RECENT, level, b], length)
        rooms[FRESH, level, b] = max(rooms[FRESH, level, b], length)


@kernel(inline=True)
def _bucket(state, t):
    """The bucket of an instant; the last one has no end."""
    return min((t - state.rooms_origin) >> state.rooms_shift, state.rooms_last)


@kernel(inline=True)
def _border(state, b):
    """Where bucket b begins."""
    return state.rooms_origin + (b << state.rooms_shift)


@kernel(once=True)
def begin_round(state):
    """Before each waiting job has a turn: forget the rooms of which all had one, and fit the table to the queue."""
    state.rooms_until[RECENT], state.rooms_until[FRESH] = state.rooms_until[FRESH], PAST
    if state.pool and state.waiting < SHORT:
        state.rooms_kept = 0
        return
    if not state.rooms_kept:
        state.rooms_kept = 1
        state.rooms[FRESH] = FUTURE  # nothing is known
        rewind(state, 0)
        for _ in range(state.waiting):
            _join_level(state, following(state, 0))
    latest = _survey(state)
    last = min(max(state.waiting // 4, FEW), BUCKETS) - 1
    used = (latest - state.rooms_origin) >> state.rooms_shift
    if last != state.rooms_last or used > last or used < last // 8:
        _fit_buckets(state, last, latest)
    rooms = state.rooms
    for level in range(len(state.rooms_need)):
        for b in range(last + 1):
            rooms[RECENT, level, b] = rooms[FRESH, level, b]
            rooms[FRESH, level, b] = 0


@kernel(once=True)
def _survey(state):
    """Note the least and the greatest level at which a job waits. Returns the latest reserved start."""
    latest, low, high = state.now, len(state.rooms_need) - 1, 0
    rewind(state, 0)
    job = following(state, 0)
    while job >= 0:
        latest = max(latest, state.reserved[job])
        low = min(low, state.rooms_level[job])
        high = max(high, state.rooms_level[job])
        job = following(state, 0)
    state.rooms_low, state.rooms_high = low, high
    return latest


@kernel(once=True)
def _fit_buckets(state, last, latest):
    """Part the time from now to the latest start into buckets anew, half as many as there are, and move the marks."""
    rooms = state.rooms
    shift = FINEST
    while (latest - state.now) >> shift > last // 2:
        shift += 1
    for level in range(len(state.rooms_need)):
        for b in range(BUCKETS):
            rooms[RECENT, level, b] = rooms[FRESH, level, b]
            rooms[FRESH, level, b] = 0
        for b in range(last + 1):
            first = _bucket(state, state.now + (b << shift))
            end = state.rooms_last if b == last else _bucket(state, state.now + ((b + 1) << shift))
            for i in range(first, end + 1):
                rooms[FRESH, level, b] = max(rooms[FRESH, level, b], rooms[RECENT, level, i])
    state.rooms_origin, state.rooms_shift, state.rooms_last = state.now, shift, last


@kernel()
def earliest_start(state, job, begin):
    """The first instant from `begin` at which the whole plan has room for a job; where, is left in state.placed."""
    if state.pool:
        return earliest(state.plan, ONLY, state.need, job, TAKE, begin, FUTURE, FUTURE, span(state, job))
    if state.alone[job]:
        return _earliest_on_one_node(state, job, begin)
    return _earliest_spread(state, job, begin)


@kernel()
def _earliest_on_one_node(state, job, begin):
    """The least over nodes, in order of power, of the first instant at which node and licences agree."""
    best = FUTURE
    first, last = state.licence_first[job], state.licence_first[job + 1]
    length = span(state, job)
    for node in range(state.nodes):
        if not may_use(node, state.bound[job], state.allowed, state.hosts, state.licence, first, last):
            continue
        t, agreed = begin, False
        while not agreed and t < best:
            agreed = True
            t = earliest(state.plan, node, state.demand, job, state.tasks[job], t, best, FUTURE, length)
            for item in range(first, last):
                lane = state.licence[item]
                later = earliest(state.licence_plan, lane, state.licence_count, item, TAKE, t, best, FUTURE, length)
                if later > t:
                    t, agreed = later, False
        if agreed and t < best:
            best = t
            state.placed[0, 0], state.placed[0, 1] = node, state.tasks[job]
            state.placements, state.placed_for = 1, job
    return best


@kernel()
def _earliest_spread(state, job, begin):
    """The first instant at which the least availability over the window of each node places the whole gang."""
    first, last = state.licence_first[job], state.licence_first[job + 1]
    t = begin
    while t < FUTURE:
        end = t + span(state, job)
        there = True
        for item in range(first, last):
            lane = state.licence[item]
            least_over(state.licence_plan, lane, t, end, state.licence_least, 0)
            if state.licence_least[0, 0] < state.licence_count[item, 0]:
                there = False
        if there:
            for node in range(state.nodes):
                least_over(state.plan, node, t, end, state.room, node)
            state.placements = place_gang(
                state.room,
                state.unknown_peak,
                state.demand,
                job,
                state.tasks[job],
                state.spread[job],
                state.site,
                state.bound[job],
                state.allowed,
                state.hosts,
                state.licence,
                first,
                last,
                state.placed,
            )
            if state.placements > 0:
                state.placed_for = job
                return t
        later = FUTURE
        for node in range(state.nodes):
            later = min(later, next_change(state.plan, node, t))
        for item in range(first, last):
            later = min(later, next_change(state.licence_plan, state.licence[item], t))
        t = later
    return FUTURE


@kernel()
def settle(state, job, begin):
    """Book a job at its earliest start from `begin`; returns that start."""
    t = earliest_start(state, job, begin)
    if not state.pool:
        keep_placement(state, job)
    book_job(state, job, t, t + span(state, job), TAKE)
    if state.rooms_kept:
        _join_level(state, job)
    return t


@kernel()
def _join_level(state, job):
    """Let rooms be measured for the level of a job: the highest whose need is not above its own."""
    level = len(state.rooms_need) - 1
    while level > 0 and state.rooms_need[level] > state.need[job, 0]:
        level -= 1
    state.rooms_level[job] = level
    state.rooms_low = min(state.rooms_low, level)
    state.rooms_high = max(state.rooms_high, level)


@kernel()
def fits_now(state, job):
    """Whether the plan has room for a job from now on."""
    if state.pool:
        length = span(state, job)
        return earliest(state.plan, ONLY, state.need, job, TAKE, state.now, state.now + 1, FUTURE, length) == state.now
    return earliest_start(state, job, state.now) == state.now


@kernel()
def improve(state, job):
    """Put a booked job at its earliest start, never later than it is. Returns that start."""
    if state.pool:
        return _improve_on_pool(state, job)
    held = state.reserved[job]
    end = held + span(state, job)
    if not _any_room(state, end):
        return held
    state.counters[LOOKS] += 1
    book_job(state, job, held, end, GIVE)
    t = earliest_start(state, job, state.now)
    if t == held and _placed_where_held(state, job):
        book_job(state, job, held, end, TAKE)
        return held
    open_rooms(state, job, held, end)
    keep_placement(state, job)
    book_job(state, job, t, t + span(state, job), TAKE)
    return t


@kernel()
def _any_room(state, end):
    """Whether room appeared before `end` on any lane."""
    for b in range(_bucket(state, end) + 1):
        if state.rooms[RECENT, ANY_LEVEL, b] > 0:
            return True
    return False


@kernel()
def _placed_where_held(state, job):
    if state.held_count[job] != state.placements:
        return False
    for pair in range(state.placements):
        i = state.held_first[job] + pair
        if state.held[i, 0] != state.placed[pair, 0] or state.held[i, 1] != state.placed[pair, 1]:
            return False
    return True


@kernel(once=True)
def _improve_on_pool(state, job):
    """On one lane the time from its own start on lies under its own booking, so it can stay booked for the look."""
    held = state.reserved[job]
    length = span(state, job)
    if not state.rooms_kept:
        state.counters[LOOKS] += 1
        before = min(held, state.rooms_until[RECENT])
        t = min(earliest(state.plan, ONLY, state.need, job, TAKE, state.now, before, held, length), held)
    else:
        t = _earlier_window(state, job, held, length)
        if t == FUTURE:
            t = _slide(state, job, held)
    if t == held:
        return held
    left = max(held, t + length)  # it leaves [left, held + length) and takes what it did not hold already
    book(state.plan, ONLY, left, held + length, state.need, job, GIVE)
    book(state.plan, ONLY, t, min(held, t + length), state.need, job, TAKE)
    open_rooms(state, job, left, held + length)
    return t


@kernel(once=True)
def _earlier_window(state, job, held, length):
    """The first start of a job on a pool from which it ends by `held`; FUTURE where there is none.

    A window that ends in bucket b lies in room of at least its length there: all other buckets are passed over.
    """
    rooms, level, last = state.rooms, state.rooms_level[job], _bucket(state, held)
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
            state.counters[LOOKS] += 1
            t = earliest(state.plan, ONLY, state.need, job, TAKE, begin, before, FUTURE, length)
            if t < FUTURE:
                return t
        if state.resources == 1:
            _cap(state, job, first, min(b, last), length - 1)


@kernel(once=True)
def _cap(state, job, first, last, length):
    """Nowhere in buckets first to last (exclusive) is the need of a job free for longer than this."""
    rooms, level = state.rooms, state.rooms_level[job]
    if state.rooms_need[level] < state.need[job, 0]:
        level += 1
    while level <= state.rooms_high:
        for b in range(first, last):
            rooms[RECENT, level, b] = min(rooms[RECENT, level, b], length)
            rooms[FRESH, level, b] = min(rooms[FRESH, level, b], length)
        level += 1


@kernel(once=True)
def _slide(state, job, held):
    """The first start from which a job on a pool can run into the time that it holds from `held` on."""
    if state.rooms[RECENT, state.rooms_level[job], _bucket(state, held - 1)] == 0:
        return held
    state.counters[LOOKS] += 1
    return max(state.now, free_since(state.plan, ONLY, state.need, job, TAKE, held))


@kernel()
def forget_past(state):
    """The plan before now will not be read again."""
    trim(state.plan, state.now)
    if not state.pool:
        trim(state.licence_plan, state.now)


@kernel(once=True)
def give_back(state):
    """What jobs that ended now had booked beyond now is free again; at least this instant, if they were overdue."""
    for i in range(state.ended):
        job = state.ended_jobs[i]
        end = state.start_time[job] + state.walltime[job]
        book_job(state, job, state.now, end, GIVE)
        open_rooms(state, job, state.now, max(end, state.now + 1))


@kernel()
def book_overdue(state, sign):
    """Book the running jobs at or beyond their limit for this instant, as nobody knows when they end; or give it back.

    Those of walltime 0 that start in this pass are among them when it ends.
    """
    state.overdue = 0
    while state.overdue < state.active and state.limit[state.overdue] <= state.now:
        book_job(state, state.running[state.overdue], state.now, state.now + 1, sign)
        state.overdue += 1


@kernel()
def lift(state, job):
    """Take the reservation of a job out of the plan."""
    book_job(state, job, state.reserved[job], state.reserved[job] + span(state, job), GIVE)
    open_rooms(state, job, state.reserved[job], state.reserved[job] + span(state, job))


@kernel()
def book_reserved(state, job):
    """Put the reservation of a job back into the plan."""
    book_job(state, job, state.reserved[job], state.reserved[job] + span(state, job), TAKE)


@kernel()
def fits_where_held(state, job, t):
    """Whether the plan has room for a job at t on the nodes that its reservation names."""
    end = t + span(state, job)
    if state.pool:
        least_over(state.plan, ONLY, t, end, state.room, ONLY)
        for k in range(state.resources):
            if state.room[0, k] < state.need[job, k]:
                return False
        return True
    for pair in range(state.held_first[job], state.held_first[job] + state.held_count[job]):
        node = state.held[pair, 0]
        least_over(state.plan, node, t, end, state.room, node)
        for k in range(state.resources):
            if state.room[node, k] < state.held[pair, 1] * state.demand[job, k]:
                return False
    for item in range(state.licence_first[job], state.licence_first[job + 1]):
        least_over(state.licence_plan, state.licence[item], t, end, state.licence_least, ONLY)
        if state.licence_least[0, 0] < state.licence_count[item, 0]:
            return False
    return True


@kernel()
def place_where_held(state, job):
    """Place a job on the nodes that its reservation names, for `start`."""
    if state.pool:
        return
    state.placements, state.placed_for = state.held_count[job], job
    for pair in range(state.placements):
        state.placed[pair, 0] = state.held[state.held_first[job] + pair, 0]
        state.placed[pair, 1] = state.held[state.held_first[job] + pair, 1]


@kernel()
def rebuild(state):
    """Make the plan anew from the running jobs and their limits alone."""
    clear(state.plan, state.capacity)
    clear(state.licence_plan, state.licence_capacity)
    for i in range(state.active):
        book_job(state, state.running[i], state.now, max(state.limit[i], state.now + 1), TAKE)
