"""The plan: what nodes and licences will hold, and who has a place in it.

A plan has a lane per node and one per licence. Rooms are the places where availability grew; a waiting job whose start
can only come earlier through a room that opened since it was last placed need not be looked at otherwise.
"""

import numpy as np

from backfill.core.placement import may_host, place_gang
from backfill.core.profile import FUTURE, GIVE, TAKE, book, clear, earliest, least_over, most_over, next_change, trim
from backfill.core.queue import LOOKS
from backfill.core.record import kernel
from backfill.core.verbs import keep_placement

ONLY = np.int64(0)  # the one lane of a pool
LANE, BEGIN, END, MOST = 0, 1, 2, 3  # columns of state.rooms


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
    """Write down that what a job held on [begin, end) is free."""
    if state.pool:
        _open_room(state, ONLY, begin, end)
        most_over(state.plan, ONLY, begin, end, state.rooms, (state.rooms_end - 1) % len(state.rooms), MOST)
        return
    first = state.held_first[job]
    for pair in range(first, first + state.held_count[job]):
        _open_room(state, state.held[pair, 0], begin, end)
    for item in range(state.licence_first[job], state.licence_first[job + 1]):
        _open_room(state, state.nodes + state.licence[item], begin, end)


@kernel()
def _open_room(state, lane, begin, end):
    size = len(state.rooms)
    if state.rooms_end - state.rooms_begin == size:
        bigger = np.empty((2 * size, state.rooms.shape[1]), np.int64)
        for i in range(state.rooms_begin, state.rooms_end):
            for c in range(state.rooms.shape[1]):
                bigger[i % (2 * size), c] = state.rooms[i % size, c]
        state.rooms = bigger
        size *= 2
    i = state.rooms_end % size
    state.rooms[i, LANE], state.rooms[i, BEGIN], state.rooms[i, END] = lane, begin, end
    state.rooms_end += 1


@kernel()
def earliest_start(state, job, begin):
    """The first instant from `begin` at which the whole plan has room for a job; where, is left in state.placed."""
    if state.pool:
        return earliest(state.plan, ONLY, state.need, job, TAKE, begin, FUTURE, FUTURE, span(state, job))
    if state.tasks[job] == 1 or state.spread[job] == 0:
        return _earliest_on_one_node(state, job, begin)
    return _earliest_spread(state, job, begin)


@kernel()
def _earliest_on_one_node(state, job, begin):
    """The least over nodes, in order of power, of the first instant at which node and licences agree."""
    best = FUTURE
    first, last = state.licence_first[job], state.licence_first[job + 1]
    length = span(state, job)
    for node in range(state.nodes):
        if state.pin[job] >= 0 and state.site[node] != state.pin[job]:
            continue
        if not may_host(state.hosts, node, state.licence, first, last):
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
            state.placements = 1
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
                state.demand,
                job,
                state.tasks[job],
                state.spread[job],
                state.pin[job],
                state.site,
                state.hosts,
                state.licence,
                first,
                last,
                state.placed,
            )
            if state.placements > 0:
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
    state.looked[job] = state.rooms_end
    return t


@kernel()
def improve(state, job):
    """Lift a booked job out and put it back at its earliest start, never later. Returns that start.

    It is only looked at where a room opened since it was last placed that could let it start earlier.
    """
    if state.pool:
        return _improve_on_pool(state, job)
    held = state.reserved[job]
    end = held + span(state, job)
    useful = False
    for r in range(max(state.looked[job], state.rooms_begin), state.rooms_end):
        i = r % len(state.rooms)
        if state.rooms[i, BEGIN] < end and state.rooms[i, END] > state.now:
            useful = True
    state.looked[job] = state.rooms_end
    if not useful:
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
def _placed_where_held(state, job):
    if state.held_count[job] != state.placements:
        return False
    for pair in range(state.placements):
        i = state.held_first[job] + pair
        if state.held[i, 0] != state.placed[pair, 0] or state.held[i, 1] != state.placed[pair, 1]:
            return False
    return True


@kernel()
def _improve_on_pool(state, job):
    """On one lane the time from its own start on lies under its own booking, so it can stay booked for the look.

    A better start needs a window that touches one of the new rooms: this bounds the search on both sides.
    """
    held = state.reserved[job]
    length = span(state, job)
    begin, before = held, state.now
    for r in range(max(state.looked[job], state.rooms_begin), state.rooms_end):
        i = r % len(state.rooms)
        if state.rooms[i, BEGIN] < held and state.rooms[i, END] > state.now:
            enough = True
            for k in range(state.resources):
                enough = enough and state.rooms[i, MOST + k] >= state.need[job, k]
            if enough:
                begin = min(begin, state.rooms[i, BEGIN] - length + 1)
                before = max(before, state.rooms[i, END])
    state.looked[job] = state.rooms_end
    if before == state.now:
        return held
    state.counters[LOOKS] += 1
    t = earliest(state.plan, ONLY, state.need, job, TAKE, max(begin, state.now), min(before, held), held, length)
    if t == FUTURE:
        return held
    left = max(held, t + length)  # it leaves [left, held + length) and takes what it did not hold already
    book(state.plan, ONLY, left, held + length, state.need, job, GIVE)
    book(state.plan, ONLY, t, min(held, t + length), state.need, job, TAKE)
    open_rooms(state, job, left, held + length)
    return t


@kernel()
def block_overdue(state):
    """Book every running job that is at or beyond its limit for this instant: nobody knows when it ends."""
    state.overdue = 0
    while state.overdue < state.active and state.limit[state.overdue] <= state.now:
        book_job(state, state.running[state.overdue], state.now, state.now + 1, TAKE)
        state.overdue += 1


@kernel()
def rebuild(state):
    """Make the plan anew from the running jobs and their limits alone."""
    clear(state.plan, state.capacity)
    clear(state.licence_plan, state.licence_capacity)
    trim(state.plan, state.now)
    trim(state.licence_plan, state.now)
    for i in range(state.active):
        book_job(state, state.running[i], state.now, max(state.limit[i], state.now + 1), TAKE)


@kernel()
def give_back(state):
    """What jobs that ended now had booked beyond now is free again."""
    for i in range(state.ended):
        job = state.ended_jobs[i]
        end = state.start_time[job] + span(state, job)
        if end > state.now:
            book_job(state, job, state.now, end, GIVE)
            open_rooms(state, job, state.now, end)
