"""The plan: what nodes and licences will hold, and who has a place in it.

A plan has a lane per node and one per licence. Rooms are the places where availability grew; a waiting job whose start
can only come earlier through a room that opened since it was last placed need not be looked at otherwise.
"""

import numpy as np

from backfill.core.counters import LOOKS
from backfill.core.placement import may_host, place_gang
from backfill.core.profile import FUTURE, GIVE, TAKE, book, clear, earliest, least_over, most_over, next_change, trim
from backfill.core.record import doubled_rows, kernel
from backfill.core.verbs import keep_placement

ONLY = np.int64(0)  # the one lane of a pool
# Columns of state.rooms. CURRENT: version of the plan that MOST, one per resource, was computed from.
LANE, BEGIN, END, SERIAL, CURRENT, MOST = 0, 1, 2, 3, 4, 5


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
        _measure_room(state, state.rooms_open - 1)
        return
    first = state.held_first[job]
    for pair in range(first, first + state.held_count[job]):
        _open_room(state, state.held[pair, 0], begin, end)
    for item in range(state.licence_first[job], state.licence_first[job + 1]):
        _open_room(state, state.nodes + state.licence[item], begin, end)


@kernel()
def _open_room(state, lane, begin, end):
    if state.rooms_open == len(state.rooms):
        state.rooms = doubled_rows(state.rooms)
    i = state.rooms_open
    state.rooms[i, LANE], state.rooms[i, BEGIN], state.rooms[i, END] = lane, begin, end
    state.rooms[i, SERIAL] = state.rooms_serial
    state.rooms_open += 1
    state.rooms_serial += 1


@kernel()
def _measure_room(state, i):
    """The greatest availability in a room of a pool: no job that needs more can start earlier because of it."""
    most_over(
        state.plan, ONLY, max(state.rooms[i, BEGIN], state.now), state.rooms[i, END], state.rooms, i, np.int64(MOST)
    )
    state.rooms[i, CURRENT] = state.plan.taken


@kernel()
def begin_round(state):
    """Before each waiting job is looked at once: close the rooms that all of them have seen, are past, or full."""
    kept = 0
    for i in range(state.rooms_open):
        if (
            state.rooms[i, SERIAL] >= state.rooms_mark
            and state.rooms[i, END] > state.now
            and (state.rooms[i, MOST] > 0 or not state.pool)
        ):
            if kept < i:
                for c in range(state.rooms.shape[1]):
                    state.rooms[kept, c] = state.rooms[i, c]
            kept += 1
    state.rooms_open = kept
    state.rooms_mark = state.rooms_serial


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
    state.looked[job] = state.rooms_serial
    return t


@kernel()
def fits_now(state, job):
    """Whether the plan has room for a job from now on."""
    if state.pool:
        length = span(state, job)
        return earliest(state.plan, ONLY, state.need, job, TAKE, state.now, state.now + 1, FUTURE, length) == state.now
    return earliest_start(state, job, state.now) == state.now


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
    for i in range(state.rooms_open):
        if (
            state.rooms[i, SERIAL] >= state.looked[job]
            and state.rooms[i, BEGIN] < end
            and state.rooms[i, END] > state.now
        ):
            useful = True
    state.looked[job] = state.rooms_serial
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
def _may_help(state, i, job, held):
    """Whether a room of a pool could let a job start earlier than at `held`."""
    if state.rooms[i, BEGIN] >= held or state.rooms[i, END] <= state.now:
        return False
    for k in range(state.resources):
        if state.rooms[i, MOST + k] < state.need[job, k]:
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
    i = first = state.rooms_open
    while i > 0 and state.rooms[i - 1, SERIAL] >= state.looked[job]:
        i -= 1
        if _may_help(state, i, job, held):
            first = i
            begin = min(begin, state.rooms[i, BEGIN] - length + 1)
            before = max(before, state.rooms[i, END])
    state.looked[job] = state.rooms_serial
    if before == state.now:
        return held
    state.counters[LOOKS] += 1
    t = earliest(state.plan, ONLY, state.need, job, TAKE, max(begin, state.now), min(before, held), held, length)
    if t == FUTURE:
        for i in range(first, state.rooms_open):
            if state.rooms[i, CURRENT] < state.plan.taken and _may_help(state, i, job, held):
                _measure_room(state, i)
        return held
    left = max(held, t + length)  # it leaves [left, held + length) and takes what it did not hold already
    book(state.plan, ONLY, left, held + length, state.need, job, GIVE)
    book(state.plan, ONLY, t, min(held, t + length), state.need, job, TAKE)
    open_rooms(state, job, left, held + length)
    return t


@kernel()
def forget_past(state):
    """The plan before now will not be read again."""
    trim(state.plan, state.now)
    if not state.pool:
        trim(state.licence_plan, state.now)


@kernel()
def give_back(state):
    """What jobs that ended now had booked beyond now is free again."""
    for i in range(state.ended):
        job = state.ended_jobs[i]
        end = state.start_time[job] + span(state, job)
        if end > state.now:
            book_job(state, job, state.now, end, GIVE)
            open_rooms(state, job, state.now, end)


@kernel()
def block_overdue(state):
    """Book the running jobs that are at or beyond their limit for this instant: nobody knows when they end."""
    state.overdue = 0
    while state.overdue < state.active and state.limit[state.overdue] <= state.now:
        book_job(state, state.running[state.overdue], state.now, state.now + 1, TAKE)
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
    state.placements = state.held_count[job]
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
