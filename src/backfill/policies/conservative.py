"""Conservative backfilling: every waiting job holds a promise, and promises only improve.

Slow twin: tests/reference/conservative.py.
"""

import numpy as np

from backfill.compiler.kernel import kernel
from backfill.core.errors import NONE
from backfill.core.plan.first import first_chance
from backfill.core.plan.improve import improve
from backfill.core.plan.plan import (
    book_overdue,
    book_reserved,
    fits_where_held,
    forget_past,
    give_back,
    lift,
    place_where_held,
    settle,
)
from backfill.core.plan.profile import FUTURE, GIVE, TAKE
from backfill.core.plan.promises import CHANGED, GIVEN, NO_TIME, OVERRUN, UP
from backfill.core.plan.renewed import note_renewed, renew_running
from backfill.core.plan.rooms import begin_round
from backfill.core.plan.search import is_as_hard
from backfill.core.policy import Param, Policy, policy
from backfill.core.queue.walk import following, is_first, rewind
from backfill.core.verbs import BACKFILL, HEAD, MOVED_UP, RESERVED, reserve_because, start, wake, withdraw

# Memory: reason of a start (0: its promised time has come); whether a promise is broken, and whether any is; the time
# before which no start is reserved, and for which a pass was requested; number of waiting jobs without a promise.
KEPT = {"any_late": 1, "next_due": 1, "awaited": 1, "late": "jobs", "why": "jobs", "unpromised": 1}
# Whether capacity was freed that no job has been tried on; when that may be done next, and was requested for.
REFRESHED = {"stale": 1, "refresh": 1, "requested": 1}
EVERY = Param(0, 0, 1e9, "s", "shortest time between two instants at which jobs may move up")
SECOND = 1_000_000  # in microseconds


@policy(
    "conservative",
    reserve="every job at its submit; kept, and improved at every end",
    fill="jobs whose reserved start has come",
    source="Mu'alem and Feitelson, IEEE TPDS 12(6), 2001; Srinivasan et al., ICPPW 2002",
    binds=True,
    keeps=True,
    index=False,
    params={"every": EVERY},
    memory={**KEPT, **REFRESHED},
    forgets="all",
)
def conservative(state):
    """Give each job the earliest start beside all promises; at every end let each job, in queue order, move up.

    Promise: no start is later than the one promised at submit, if walltimes hold.
    Cost: O(q) per pass, and a search of the profile for each job that may move up.
    """
    keep_up(state, is_refreshed(state))
    if state.own.unpromised[0] > 0:
        promise_all(state)
    else:
        for i in range(state.batch.arrivals):
            promise(state, state.batch.arrived[i])
    if state.own.next_due[0] <= state.now:
        start_due(state)
    await_next(state)
    await_refresh(state)


@kernel()
def is_refreshed(state):
    """Return whether each waiting job may move up now: capacity was freed, and the last time is `every` ago."""
    own = state.own
    if has_grown(state):
        own.stale[0] = 1
    if state.queue.waiting == state.batch.arrivals:
        own.stale[0] = 0  # jobs that have just arrived get their earliest starts
    if own.stale[0] == 0 or state.now < own.refresh[0]:
        return False
    own.stale[0], own.refresh[0] = 0, state.now + np.int64(np.rint(own.every * SECOND))
    return True


@kernel()
def await_refresh(state):
    """Request a pass for the next time when jobs may move up, once, if capacity was freed since they last could."""
    own = state.own
    if own.stale[0] == 1 and own.requested[0] != own.refresh[0]:
        own.requested[0] = own.refresh[0]
        wake(state, own.refresh[0])


@kernel()
def has_grown(state):
    """Return whether capacity may have been freed at this instant."""
    return state.batch.ends + state.batch.changes + state.batch.leaves > 0


@kernel()
def keep_up(state, compresses):
    """Update the plan and the promises in it to the events of this instant; overdue jobs stay booked for it.

    compresses: whether each job, in queue order, may move up. Return the number of overdue jobs.
    """
    forget_past(state)
    changed = state.batch.changes + state.batch.leaves > 0
    if changed:
        renew_running(state)
    else:
        give_back(state)
    if state.queue.waiting == state.batch.arrivals:
        state.own.next_due[0] = FUTURE
    for i in range(state.batch.arrivals):
        job = state.batch.arrived[i]
        state.own.why[job] = state.own.late[job] = 0
    overdue = book_overdue(state, TAKE)
    if changed:
        renew(state)
    elif overdue > 0 or state.own.any_late[0] > 0:
        renew_due(state)
        state.own.next_due[0] = state.now
    if compresses and state.queue.waiting > state.batch.arrivals:
        compress(state)
    return overdue


@kernel()
def promise(state, job):
    """Promise a job its earliest start. Return whether there is one.

    A job without one waits without a promise, and is tried again at the next pass.
    """
    begin = state.now
    if state.own.any_late[0] == 0:  # a late job may have an earlier start than the one that it holds
        begin = first_chance(state, job)
    t = settle(state, job, begin)
    if t == FUTURE:
        state.own.unpromised[0] = 1
        return False
    hold(state, job, t, GIVEN)
    if t == state.now:
        state.own.why[job] = BACKFILL
    return True


@kernel()
def promise_all(state):
    """Promise every job without a promise its earliest start, in queue order."""
    state.own.unpromised[0] = 0
    without = NONE
    rewind(state, 0)
    job = following(state, 0)
    while job >= 0:
        without = promise_next(state, job, without)
        job = following(state, 0)


@kernel()
def promise_next(state, job, without):
    """Promise a job its earliest start, if it has none and is not as hard to place as the last one without a start.

    Return the last one without a start, -1 for none.
    """
    if state.promises.reserved[job] != NO_TIME:
        return without
    if without != NONE and is_as_hard(state, job, without):
        state.own.unpromised[0] = 1
        return without
    return without if promise(state, job) else job


@kernel()
def renew(state):
    """Renew all promises after a change of capacity, walltimes or runs; the plan holds nothing but runs.

    In queue order each job keeps its promised placement if it still fits; then each of the others gets its earliest
    start.
    """
    own, reserved = state.own, state.promises.reserved
    own.next_due[0], own.any_late[0] = state.now, 0
    rewind(state, 0)
    job = following(state, 0)
    while job >= 0:
        if reserved[job] != NO_TIME:
            own.late[job] = not (reserved[job] >= state.now and fits_where_held(state, job, reserved[job]))
            if own.late[job] == 0:
                book_reserved(state, job)
        job = following(state, 0)
    note_renewed(state)
    rewind(state, 0)
    job = following(state, 0)
    while job >= 0:
        if reserved[job] != NO_TIME and own.late[job] == 1:
            own.late[job] = 0
            t = settle(state, job, state.now)
            if t == FUTURE:
                withdraw(state, job)
                own.unpromised[0] = 1
            else:
                if t == state.now < reserved[job]:
                    own.why[job] = MOVED_UP
                hold(state, job, t, CHANGED)
        job = following(state, 0)


@kernel()
def hold(state, job, t, cause):
    """Promise a job the start t."""
    reserve_because(state, job, t, cause, NONE)
    state.own.next_due[0] = min(state.own.next_due[0], t)


@kernel()
def renew_due(state):
    """Keep the promises that are due if they still fit beside overdue jobs; break the others, in queue order.

    A broken promise requests no pass of its own: its job is tried at every pass.
    """
    rewind(state, 0)
    job = following(state, 0)
    while job >= 0:
        if is_due(state, job):
            lift(state, job)
        job = following(state, 0)
    rewind(state, 0)
    job = following(state, 0)
    while job >= 0:
        if is_due(state, job):
            state.own.late[job] = 1
            if fits_where_held(state, job, state.now):
                state.own.late[job] = 0
                reserve_because(state, job, state.now, OVERRUN, NONE)
                book_reserved(state, job)
        job = following(state, 0)
    state.own.any_late[0] = 0
    rewind(state, 0)
    job = following(state, 0)
    while job >= 0:
        if state.own.late[job] == 1:
            state.own.any_late[0] = 1
            if is_due(state, job):
                t = settle(state, job, state.now + 1)
                if t == FUTURE:
                    withdraw(state, job)
                    state.own.late[job] = 0
                    state.own.unpromised[0] = 1
                else:
                    reserve_because(state, job, t, OVERRUN, NONE)
        job = following(state, 0)


@kernel()
def is_due(state, job):
    """Return whether the reserved start of a job has come; a job that arrives now has none yet."""
    return state.promises.reserved[job] != NO_TIME and state.promises.reserved[job] <= state.now


@kernel()
def compress(state):
    """Run one round: book each waiting job again at its earliest start, never later than before."""
    begin_round(state)
    rewind(state, 0)
    job = following(state, 0)
    while job >= 0:
        # On a pool a job that is due cannot gain; among nodes it may still move to a more powerful one.
        if state.promises.reserved[job] > state.now or (
            state.promises.reserved[job] == state.now and not state.machine.pool
        ):
            t = improve(state, job)
            if t < state.promises.reserved[job]:
                hold(state, job, t, UP)
                state.own.late[job] = 0
                if t == state.now:
                    state.own.why[job] = MOVED_UP
        job = following(state, 0)


@kernel()
def start_due(state):
    """Start the jobs whose reserved start is now, in queue order."""
    next_due = FUTURE
    rewind(state, 0)
    job = following(state, 0)
    while job >= 0:
        if state.promises.reserved[job] == state.now:
            start_where_held(state, job)
        elif state.own.late[job] == 0 and state.promises.reserved[job] != NO_TIME:
            next_due = min(next_due, state.promises.reserved[job])
        job = following(state, 0)
    state.own.next_due[0] = next_due


@kernel()
def await_next(state):
    """Request a pass at the next reserved start, once. Overdue jobs stay booked no longer; call this last in a pass."""
    next_due = state.own.next_due[0]
    if state.now < next_due < FUTURE and next_due != state.own.awaited[0]:
        state.own.awaited[0] = next_due
        wake(state, next_due)
    book_overdue(state, GIVE)


@kernel()
def start_where_held(state, job):
    """Start a job whose reserved start is now, with its reason."""
    reason = state.own.why[job]
    if reason == 0:
        reason = RESERVED
    if reason != MOVED_UP and is_first(state, job):
        reason = HEAD
    place_where_held(state, job)
    start(state, job, reason)


def family() -> dict[str, Policy]:
    """Return the only member."""
    return {conservative.name: conservative}
