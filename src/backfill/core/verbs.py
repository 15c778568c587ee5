"""What a policy may do and ask. Every verb takes the State first; a misuse is written down for the Python side."""

import numpy as np

from backfill.core.errors import (
    DOES_NOT_FIT,
    IN_THE_PAST,
    NO_LICENCE,
    NO_REASON,
    NONE,
    NOT_PLACED,
    NOT_WAITING,
    OK,
    fail,
)
from backfill.core.events import push_timer
from backfill.core.placement import find_peak, licences_free, place_gang
from backfill.core.queue import dequeue, head
from backfill.core.record import doubled, doubled_rows, kernel
from backfill.core.state import NO_TIME

# Why a job starts: the closed list of model.schedule.REASONS.
HEAD, BACKFILL, RESERVED, FIT, GANG, THREAD, MOVED_UP, RESUMED = (np.int64(i) for i in range(8))


@kernel()
def place_in(state, job, room, peak, licence_room):
    """Whether a job fits in this much of nodes and licences; where, is left in state.placed.

    peak: what no node of a block exceeds; state.unknown_peak where nobody knows.
    """
    begin, end = state.licence_first[job], state.licence_first[job + 1]
    state.placements, state.placed_for = 0, job
    if licences_free(licence_room, state.licence, state.licence_count, begin, end):
        state.placements = place_gang(
            room,
            peak,
            state.demand,
            job,
            state.tasks[job],
            state.spread[job],
            state.site,
            state.bound[job],
            state.allowed,
            state.hosts,
            state.licence,
            begin,
            end,
            state.placed,
        )
    return state.placements > 0


@kernel(inline=True)
def place(state, job):
    """Whether a waiting job fits in what is free now; where, is left for `start`."""
    if not _waits(state, job):
        return False
    if state.pool:
        for k in range(state.resources):
            if state.need[job, k] > state.free[0, k]:
                return False
        return True
    return place_in(state, job, state.free, state.peak, state.licence_free)


@kernel(inline=True)
def _waits(state, job):
    """Whether a number is that of a waiting job; any other is a misuse."""
    if job < 0 or job >= state.jobs or state.waits[job] == 0:
        fail(state, NOT_WAITING, job, NONE, NONE, NONE)
        return False
    return True


@kernel(inline=True)
def start(state, job, reason):
    """Start a waiting job now, where the last `place` put it."""
    if state.error[0] != OK:
        return
    if not _waits(state, job):
        return
    if reason < HEAD or reason > RESUMED:
        fail(state, NO_REASON, job, NONE, reason, NONE)
        return
    if not _available(state, job):
        return
    if not state.pool:
        keep_placement(state, job)
    take(state, job, np.int64(1))
    _run(state, job)
    state.start_time[job] = state.now
    state.reason[job] = reason
    state.started[state.decisions] = job
    state.decisions += 1
    dequeue(state, job)


@kernel(inline=True)
def _available(state, job):
    if state.pool:
        for k in range(state.resources):
            if state.need[job, k] > state.free[0, k]:
                fail(state, DOES_NOT_FIT, job, k, state.need[job, k], state.free[0, k])
                return False
        return True
    for item in range(state.licence_first[job], state.licence_first[job + 1]):
        licence = state.licence[item]
        if state.licence_count[item, 0] > state.licence_free[licence]:
            fail(state, NO_LICENCE, job, licence, state.licence_count[item, 0], state.licence_free[licence])
            return False
    tasks = 0
    for pair in range(state.placements if state.placed_for == job else 0):
        node, here = state.placed[pair, 0], state.placed[pair, 1]
        tasks += here
        for k in range(state.resources):
            asked = here * state.demand[job, k]
            if asked > state.free[node, k]:
                fail(state, DOES_NOT_FIT, job, k, asked, state.free[node, k])
                return False
    if tasks != state.tasks[job]:
        fail(state, NOT_PLACED, job, NONE, state.tasks[job], tasks)
        return False
    return True


@kernel()
def keep_placement(state, job):
    """Write what was placed to the job's own list of (node, tasks)."""
    if state.held_count[job] < state.placements:
        while state.held_used + state.placements > len(state.held):
            state.held = doubled_rows(state.held)
        state.held_first[job] = state.held_used
        state.held_used += state.placements
    state.held_count[job] = state.placements
    for pair in range(state.placements):
        state.held[state.held_first[job] + pair, 0] = state.placed[pair, 0]
        state.held[state.held_first[job] + pair, 1] = state.placed[pair, 1]


@kernel(inline=True)
def _run(state, job):
    """Put a job among the running ones, behind those with the same limit."""
    limit = state.now + state.walltime[job]
    i = state.active
    while i > 0 and state.limit[i - 1] > limit:
        state.limit[i] = state.limit[i - 1]
        state.running[i] = state.running[i - 1]
        i -= 1
    state.limit[i] = limit
    state.running[i] = job
    state.active += 1


@kernel(inline=True)
def take(state, job, sign):
    """Take (sign 1) or give back (-1) what a job holds, from nodes and licences."""
    if state.pool:
        for k in range(state.resources):
            state.free[0, k] -= sign * state.need[job, k]
        return
    first = state.held_first[job]
    for pair in range(first, first + state.held_count[job]):
        node, tasks = state.held[pair, 0], sign * state.held[pair, 1]
        for k in range(state.resources):
            state.free[node, k] -= tasks * state.demand[job, k]
            state.total[k] -= tasks * state.demand[job, k]
        find_peak(state.peak, state.free, node)
    for item in range(state.licence_first[job], state.licence_first[job + 1]):
        state.licence_free[state.licence[item]] -= sign * state.licence_count[item, 0]


@kernel(inline=True)
def release(state, job):
    """Take a running job off the books: its resources are free. For the loop only."""
    take(state, job, np.int64(-1))
    limit = state.start_time[job] + state.walltime[job]
    low, high = 0, state.active
    while low < high:
        middle = (low + high) >> 1
        if state.limit[middle] < limit:
            low = middle + 1
        else:
            high = middle
    while state.running[low] != job:
        low += 1
    state.active -= 1
    for i in range(low, state.active):
        state.running[i] = state.running[i + 1]
        state.limit[i] = state.limit[i + 1]


@kernel(inline=True)
def reserve(state, job, t):
    """Promise a waiting job the start t. The first promise stays on record, and every change for the job watched."""
    if not _waits(state, job):
        return
    if t < state.now:
        fail(state, IN_THE_PAST, job, NONE, t, state.now)
        return
    if state.promise[job] == NO_TIME:
        state.promise[job] = t
    if job == state.watched and (state.entries == 0 or state.history[state.entries - 1, 1] != t):
        if state.entries == len(state.history):
            state.history = doubled_rows(state.history)
        state.history[state.entries, 0], state.history[state.entries, 1] = state.now, t
        state.entries += 1
    state.reserved[job] = t


@kernel()
def wake(state, t):
    """Ask for a pass at t, even if nothing else happens then."""
    if t <= state.now:
        fail(state, IN_THE_PAST, NONE, NONE, t, state.now)
        return
    if state.timed > 0 and state.timers[0] == t:
        return
    if state.timed == len(state.timers):
        state.timers = doubled(state.timers)
    state.timed = push_timer(state.timers, state.timed, t)


@kernel()
def fit_empty(state, out):
    """Whether each job fits on the empty platform, 1 or 0, into out (n,)."""
    for job in range(state.jobs):
        out[job] = 1 if place_in(state, job, state.capacity, state.unknown_peak, state.copies) else 0
    state.placed_for = NONE


@kernel()
def start_heads(state):
    """Start the first job in order while it fits. Returns the first that does not; -1 when nobody waits."""
    job = head(state)
    while job >= 0 and place(state, job):
        start(state, job, HEAD)
        job = head(state)
    return job
