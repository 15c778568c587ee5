"""The pass of a policy that promises every job a start, for `booked` ones: keep the promises, give new ones, start.

    new = keep_promises(state, False)
    for each of them: promise_at(state, job, the start at which it was settled)
    start_promised(state)
    await_promises(state)

A policy of one's own has these among its verbs. Its memory begins with PROMISES.
"""

import numpy as np

from backfill.compiler.kernel import kernel
from backfill.core.errors import NONE
from backfill.core.plan.bookings import allow_until, forget_soonest, next_booked, next_due, renew_booking
from backfill.core.plan.profile import FUTURE
from backfill.core.plan.promises import GIVEN, NO_TIME
from backfill.core.queue.walk import following, rewind
from backfill.core.verbs import BACKFILL, MOVED_UP, reserve_because
from backfill.policies.conservative import KEPT, await_next, has_grown, keep_up, start_where_held

PROMISES = {**KEPT, "new": "jobs"}


@kernel()
def keep_promises(state, compress):
    """Keep the existing promises, and start the jobs that are due. Return the jobs without a promise, in queue order.

    compress: whether every end lets each waiting job, in queue order, move up.
    """
    batch, own = state.batch, state.own
    if batch.changes + batch.leaves > 0:
        rewind(state, 0)
        job = following(state, 0)
        while job >= 0:
            renew_booking(state, job)
            job = following(state, 0)
    overdue = keep_up(state, compress and has_grown(state))
    if overdue == 0 and own.any_late[0] > 0:
        rely_on_late(state)
    if overdue > 0 or compress or batch.changes + batch.leaves > 0 or ended_early(state):
        forget_soonest(state)
    start_booked(state)
    return without_promise(state)


@kernel()
def without_promise(state):
    """Return the jobs that just arrived, or all waiting jobs if one of them had no start before; in queue order."""
    batch, own, n = state.batch, state.own, 0
    if own.unpromised[0] == 0:
        return batch.arrived[: batch.arrivals].copy()
    own.unpromised[0] = 0
    new = np.empty(state.queue.waiting, np.int64)
    rewind(state, 0)
    job = following(state, 0)
    while job >= 0:
        if state.promises.reserved[job] == NO_TIME:
            new[n] = job
            n += 1
        job = following(state, 0)
    return new[:n]


@kernel()
def by_project(state, new):
    """Return the same jobs, one project after the other in the order of their first jobs."""
    found, n, own = np.empty(len(new), np.int64), 0, state.own
    for i in range(len(new)):
        own.new[new[i]] = 1
    for i in range(len(new)):
        job = np.int64(new[i] if own.new[new[i]] == 1 else NONE)
        while job >= 0:
            if own.new[job] == 1:
                own.new[job] = 0
                found[n] = job
                n += 1
            job = state.projects.next[job]
    return found


@kernel()
def end_of_project(state, new, first):
    """Return the index after the last job of a project in an array, given the index of its first job."""
    last = first
    while last < len(new) and state.projects.of[new[last]] == state.projects.of[new[first]]:
        last += 1
    return last


@kernel()
def ended_early(state):
    """Return whether a run that ended at this instant had booked more time."""
    early = False
    for i in range(state.batch.ends):
        early = early or state.runs.limit[state.batch.ended[i]] > state.now
    return early


@kernel()
def rely_on_late(state):
    """Let starts whose promises were broken come as they are reserved, now that no run is overdue."""
    own = state.own
    own.any_late[0] = 0
    rewind(state, 0)
    job = following(state, 0)
    while job >= 0:
        if own.late[job] == 1:
            own.late[job] = 0
            renew_booking(state, job)
        job = following(state, 0)


@kernel()
def start_booked(state):
    """Start the jobs whose reserved start is now, in queue order."""
    job = next_due(state)
    while job >= 0:
        start_where_held(state, job)
        job = next_due(state)


@kernel()
def start_promised(state):
    """Start the jobs that were just promised this instant, and those that were moved to it."""
    job = next_due(state)
    while job >= 0:
        if state.own.why[job] != BACKFILL:
            state.own.why[job] = MOVED_UP
        start_where_held(state, job)
        job = next_due(state)


@kernel()
def promise_at(state, job, t):
    """Promise a job the start at which it was booked. A job without one waits without a promise, and is tried again."""
    if t == FUTURE:
        state.own.unpromised[0] = 1
        return
    reserve_because(state, job, t, GIVEN, NONE)
    allow_until(state, job, t)
    if t == state.now:
        state.own.why[job] = BACKFILL


@kernel()
def await_promises(state):
    """Request a pass at the next reserved start; call this last in a pass."""
    state.own.next_due[0] = next_booked(state)
    await_next(state)
