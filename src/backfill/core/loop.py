"""The loop: events of one instant, one pass of the policy, what it decided. The world supplies what is going to happen.

`advance` handles at most `budget` passes and returns, so that Python can draw a bar, honour Ctrl-C or take a snapshot.
The stepping form for plain Python policies is the same two kernels with the policy called between them.
"""

import numpy as np
from numba import float64, int8, int64, types

from backfill.core.errors import ENDLESS, NONE, OK, TOO_LATE, fail
from backfill.core.events import pop_end, pop_timer, push_end
from backfill.core.profile import FUTURE
from backfill.core.queue import enqueue
from backfill.core.record import kernel, record
from backfill.core.state import PolicyT, StateT
from backfill.core.verbs import release

# So many passes in a row that a policy asked for, and at which nothing happened, are no end.
IDLE = np.int64(10_000_000)

LATEST = FUTURE >> 2  # no job may end as late as that

WORLD = [  # all that a policy must not see
    ("stepping", int64),  # --ties step: one pass per event
    ("overrun", int64),  # --overrun extend: a job stays beyond its walltime, and its limit is an event
    ("runtime", int64[::1]),  # how long a job will hold its nodes at speed 1
    ("kill", int64[::1]),  # how long it may hold them
    ("speed", float64[::1]),  # of each node
    ("idle", int64),  # passes in a row at which nothing ended, came or started
    ("rejected", int8[::1]),  # jobs that never enter
    ("linked", int64),  # 1: some jobs come after others
    ("before", int64[::1]),  # jobs that must end before this one may wait
    ("after_first", int64[::1]),  # the jobs that wait for job j are after_item[after_first[j]:after_first[j + 1]]
    ("after_item", int64[::1]),
    ("eligible", int64[::1]),
    ("end", int64[::1]),
    ("timeout", int8[::1]),  # 1: it was killed at its walltime
    ("starts", int64),
    # heap of ends: time, start number, job
    ("end_time", int64[::1]),
    ("end_serial", int64[::1]),
    ("end_job", int64[::1]),
    ("ends", int64),
    # heap of limits of jobs that will outlive them
    ("over_time", int64[::1]),
    ("over_serial", int64[::1]),
    ("over_job", int64[::1]),
    ("overs", int64),
    ("gone", int8[::1]),  # ended for the books, its end event is still to come (stepping)
]
World, WorldT = record("World", WORLD, globals())


@kernel(inline=True)
def next_instant(state, world):
    """When something happens next; FUTURE when nothing will."""
    t = FUTURE
    if state.jobs.count < state.jobs.rows:
        t = state.jobs.submit[state.jobs.count]
    if world.ends > 0:
        t = min(t, world.end_time[0])
    if world.overs > 0:
        t = min(t, world.over_time[0])
    if state.batch.timed > 0 and (t < FUTURE or state.queue.waiting > 0):
        t = min(t, state.batch.timers[0])
    return max(t, state.now)


@kernel(inline=True)
def _finish(state, world, job):
    """A running job ends now."""
    if not world.stepping or world.gone[job] == 0:
        release(state, job)
    state.batch.ended[state.batch.ends] = job
    state.batch.ends += 1
    if world.linked:
        _let_follow(state, world, job)


@kernel()
def _let_follow(state, world, job):
    """Jobs that had to wait for this one are a step nearer to the queue."""
    for i in range(world.after_first[job], world.after_first[job + 1]):
        later = world.after_item[i]
        world.before[later] -= 1
        if world.before[later] == 0 and later < state.jobs.count:
            _admit(state, world, later)


@kernel(inline=True)
def _admit(state, world, job):
    """A job joins the queue, unless it is rejected or others must end first."""
    if world.rejected[job] or (world.linked and world.before[job] > 0):
        return
    world.eligible[job] = state.now
    enqueue(state, job)
    i = state.batch.arrivals
    while i > 0 and state.batch.arrived[i - 1] > job:
        state.batch.arrived[i] = state.batch.arrived[i - 1]
        i -= 1
    state.batch.arrived[i] = job
    state.batch.arrivals += 1


@kernel(inline=True)
def _end_first(state, world):
    job = world.end_job[0]
    world.ends = pop_end(world.end_time, world.end_serial, world.end_job, world.ends)
    _finish(state, world, job)


@kernel(inline=True)
def open_instant(state, world):
    """Take in the next batch of events (stepping: the next event). False when nothing will happen any more."""
    t = next_instant(state, world)
    if t == FUTURE or state.trace.error[0] != OK:
        return False
    state.now = t
    state.batch.ends = 0
    state.batch.arrivals = 0
    state.batch.starts = 0
    if world.stepping:
        _step(state, world)
    else:
        while world.ends > 0 and world.end_time[0] <= t:
            _end_first(state, world)
        while world.overs > 0 and world.over_time[0] <= t:
            world.overs = pop_end(world.over_time, world.over_serial, world.over_job, world.overs)
        while state.batch.timed > 0 and state.batch.timers[0] <= t:
            state.batch.timed = pop_timer(state.batch.timers, state.batch.timed)
        while state.jobs.count < state.jobs.rows and state.jobs.submit[state.jobs.count] <= t:
            state.jobs.count += 1
            _admit(state, world, state.jobs.count - 1)
    return True


@kernel()
def _step(state, world):
    """One event: submits of an instant come before its ends; jobs that end at their limit are gone from the books."""
    _leave_books(state, world)
    while state.batch.timed > 0 and state.batch.timers[0] <= state.now:
        state.batch.timed = pop_timer(state.batch.timers, state.batch.timed)
    if state.jobs.count < state.jobs.rows and state.jobs.submit[state.jobs.count] <= state.now:
        state.jobs.count += 1
        _admit(state, world, state.jobs.count - 1)
    elif world.ends > 0 and world.end_time[0] <= state.now:
        _end_first(state, world)


@kernel()
def _leave_books(state, world):
    i = 0
    while i < state.runs.active and state.runs.limit[i] <= state.now:
        job = state.runs.running[i]
        if world.end[job] <= state.now:
            world.gone[job] = 1
            release(state, job)
        else:
            i += 1


@kernel(inline=True)
def at_speed(runtime, speed):
    """How long a job of this run time takes on a node of this speed, in whole microseconds, rounded up."""
    return np.int64(min(np.ceil(runtime / speed), float(LATEST)))


@kernel(inline=True)
def close_instant(state, world):
    """Find out when the jobs that the policy started will end."""
    if state.batch.ends + state.batch.arrivals + state.batch.starts > 0:
        world.idle = 0
    else:
        world.idle += 1
        if world.idle > IDLE:
            fail(state, ENDLESS, NONE, NONE, IDLE, state.queue.waiting)
    for i in range(state.batch.starts):
        job = state.batch.started[i]
        hold = world.runtime[job]
        if not state.machine.pool:
            slowest = world.speed[state.runs.held[state.runs.held_first[job], 0]]
            for pair in range(state.runs.held_first[job], state.runs.held_first[job] + state.runs.held_count[job]):
                slowest = min(slowest, world.speed[state.runs.held[pair, 0]])
            hold = at_speed(hold, slowest)
        elif world.speed[0] != 1.0:
            hold = at_speed(hold, world.speed[0])
        if not world.overrun:
            if hold > world.kill[job]:
                hold = world.kill[job]
                world.timeout[job] = 1
        elif hold > state.jobs.walltime[job]:
            world.overs = push_end(
                world.over_time,
                world.over_serial,
                world.over_job,
                world.overs,
                state.now + state.jobs.walltime[job],
                world.starts,
                job,
            )
        if state.now + hold >= LATEST:
            fail(state, TOO_LATE, job, NONE, NONE, NONE)
        world.end[job] = state.now + hold
        world.ends = push_end(
            world.end_time, world.end_serial, world.end_job, world.ends, state.now + hold, world.starts, job
        )
        world.starts += 1


@kernel(types.void, StateT)
def keep(state):
    """What `arrange` is where no order changes with time."""


@kernel(int64, PolicyT, PolicyT, StateT, WorldT, int64)
def advance(arrange, decide, state, world, budget):
    """At most `budget` passes. Returns how many; fewer than asked for means that nothing will happen any more.

    arrange: what sorts a queue whose order changes with time, before each pass (queue.py).
    """
    done = 0
    while done < budget and open_instant(state, world):
        arrange(state)
        decide(state)
        close_instant(state, world)
        done += 1
    return done
