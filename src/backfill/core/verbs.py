"""What a policy may do and ask. Every verb takes the State first; a misuse is written down for the Python side."""

import numpy as np

from backfill.core.batch import note_start
from backfill.core.errors import (
    BY_PLACE,
    BY_RESERVE,
    BY_START,
    BY_WITHDRAW,
    DOES_NOT_FIT,
    IN_THE_PAST,
    NEVER,
    NO_LICENCE,
    NO_REASON,
    NONE,
    NOT_PLACED,
    OK,
    fail,
)
from backfill.core.far import call
from backfill.core.heaps import push_timer
from backfill.core.placement import licences_free, place_gang
from backfill.core.profile import FUTURE
from backfill.core.promises import NO_TIME
from backfill.core.queue import dequeue, head, is_waiting
from backfill.core.record import doubled, doubled_rows, kernel
from backfill.core.runs import open_run
from backfill.core.wall import verb

# Why a job starts: the closed list of model.schedule.REASONS.
HEAD, BACKFILL, RESERVED, FIT, GANG, THREAD, MOVED_UP, RESUMED = (np.int64(i) for i in range(8))


@kernel()
def place_in(state, job, room, peak, licence_room):
    """Whether a job fits in this much of nodes and licences; where, is left in state.placed.pairs.

    peak: what no node of a block exceeds; state.machine.unknown_peak where nobody knows.
    """
    begin, end = state.jobs.licence_first[job], state.jobs.licence_first[job + 1]
    state.placed.count, state.placed.job = 0, job
    if licences_free(licence_room, state.jobs.licence, state.jobs.licence_count, begin, end):
        state.placed.count = place_gang(
            room,
            peak,
            state.jobs.demand,
            job,
            state.jobs.tasks[job],
            state.jobs.spread[job],
            state.machine.site,
            state.jobs.bound[job],
            state.machine.allowed,
            state.machine.hosts,
            state.jobs.licence,
            begin,
            end,
            state.placed.pairs,
        )
    return state.placed.count > 0


@verb(inline=True)
def place(state, job):
    """Whether a waiting job fits in what is free now; where, is left for `start`."""
    if not is_waiting(state, job, BY_PLACE):
        return False
    if state.machine.windows > 0:
        return call(state.plan.fits, state, job) == 1
    if state.machine.pool:
        for k in range(state.machine.resources):
            if state.jobs.need[job, k] > state.free.nodes[0, k]:
                return False
        return True
    return place_in(state, job, state.free.nodes, state.free.peak, state.free.licences)


@verb()
def start(state, job, reason):
    """Start a waiting job now, where the last `place` put it."""
    if state.trace.error[0] != OK:
        return
    if not is_waiting(state, job, BY_START):
        return
    if reason < HEAD or reason > RESUMED:
        fail(state, NO_REASON, job, NONE, reason, NONE)
        return
    if not _available(state, job):
        return
    run = open_run(state, job, reason)
    note_start(state.batch, run)
    if state.plan.live:
        call(state.plan.book_start, state, run)
    dequeue(state, job)


@kernel()
def _available(state, job):
    if state.machine.pool:
        for k in range(state.machine.resources):
            if state.jobs.need[job, k] > state.free.nodes[0, k]:
                fail(state, DOES_NOT_FIT, job, k, state.jobs.need[job, k], state.free.nodes[0, k])
                return False
        return True
    for item in range(state.jobs.licence_first[job], state.jobs.licence_first[job + 1]):
        licence = state.jobs.licence[item]
        if state.jobs.licence_count[item, 0] > state.free.licences[licence]:
            fail(state, NO_LICENCE, job, licence, state.jobs.licence_count[item, 0], state.free.licences[licence])
            return False
    tasks = 0
    for pair in range(state.placed.count if state.placed.job == job else 0):
        node, here = state.placed.pairs[pair, 0], state.placed.pairs[pair, 1]
        tasks += here
        for k in range(state.machine.resources):
            asked = here * state.jobs.demand[job, k]
            if asked > state.free.nodes[node, k]:
                fail(state, DOES_NOT_FIT, job, k, asked, state.free.nodes[node, k])
                return False
    if tasks != state.jobs.tasks[job]:
        fail(state, NOT_PLACED, job, NONE, state.jobs.tasks[job], tasks)
        return False
    return True


@verb()
def reserve(state, job, t):
    """Promise a waiting job the start t. The first promise stays on record, and every change for the job watched."""
    if not is_waiting(state, job, BY_RESERVE):
        return
    if t < state.now:
        fail(state, IN_THE_PAST, job, NONE, t, state.now)
        return
    if state.promises.first[job] == NO_TIME:
        state.promises.first[job] = t
    if job == state.promises.watched and (
        state.promises.entries == 0 or state.promises.history[state.promises.entries - 1, 1] != t
    ):
        if state.promises.entries == len(state.promises.history):
            state.promises.history = doubled_rows(state.promises.history)
        state.promises.history[state.promises.entries, 0], state.promises.history[state.promises.entries, 1] = (
            state.now,
            t,
        )
        state.promises.entries += 1
    state.promises.reserved[job] = t


@verb()
def wake(state, t):
    """Ask for a pass at t, even if nothing else happens then."""
    if t <= state.now:
        fail(state, IN_THE_PAST, NONE, NONE, t, state.now)
        return
    if t >= FUTURE:
        fail(state, NEVER, NONE, NONE, NONE, NONE)
        return
    if state.batch.timed > 0 and state.batch.timers[0] == t:
        return
    if state.batch.timed == len(state.batch.timers):
        state.batch.timers = doubled(state.batch.timers)
    state.batch.timed = push_timer(state.batch.timers, state.batch.timed, t)


@kernel()
def fit_empty(state, capacity, copies, out):
    """Whether each job fits on the empty platform of this capacity (m, k) and copies (l,), 1 or 0, into out (n,)."""
    for job in range(state.jobs.rows):
        out[job] = 1 if place_in(state, job, capacity, state.machine.unknown_peak, copies) else 0
    state.placed.job = NONE


@verb()
def start_heads(state):
    """Start the first job in order while it fits. Returns the first that does not; -1 when nobody waits."""
    job = head(state)
    while job >= 0 and place(state, job):
        start(state, job, HEAD)
        job = head(state)
    return job


@verb()
def withdraw(state, job):
    """Take back the start that a waiting job was promised, for want of capacity."""
    if is_waiting(state, job, BY_WITHDRAW):
        state.promises.reserved[job] = NO_TIME
