"""Transitions: the closed list of changes to the State that do not come from a policy.

All events of one instant are applied, then the policy decides once. A simulated world generates the events, a live one
receives them; neither the policy nor a transition can tell which. Each records itself in the journal (journal.py).
"""

import numpy as np
from numba import int64

from backfill.compiler.kernel import apart, kernel
from backfill.compiler.loops import few_turns
from backfill.compiler.record import doubled_rows
from backfill.core.batch import (
    clear_batch,
    forget_arrival,
    note_arrival,
    note_begin,
    note_drop,
    note_end,
    note_leave,
    sort_arrivals,
)
from backfill.core.errors import NONE
from backfill.core.journal import (
    ANEW,
    ANNOUNCE,
    ASK,
    BEGIN,
    CAPACITY,
    CHANGE,
    CLOSE,
    COPIES,
    DECIDE,
    DROP,
    END,
    LEAVE,
    PROCEED,
    PROMISED,
    PUT,
    RELEASE,
    REVOKE,
    SUBMIT,
    TICK,
    VACATE,
    note,
    note_change,
)
from backfill.core.pace import keep_pace
from backfill.core.place.shapes import note_node
from backfill.core.plan.bookings import book_in, drop_booking, take_back
from backfill.core.plan.grown import note_unknown
from backfill.core.plan.plan import keep_place
from backfill.core.plan.promises import GIVEN, NO_TIME, note_promise, note_walltime
from backfill.core.plan.shadow import forget_reservation
from backfill.core.projects import join_project
from backfill.core.queue.heaps import pop_timer
from backfill.core.queue.walk import dequeue, enqueue
from backfill.core.runs import REQUEUE, RUNNING, add_by_limit, drop_by_limit, keep_progress, limit_of, open_run, take
from backfill.model import schedule

TIMEOUT = np.int8(schedule.TIMEOUT)  # the last of the ends that a policy expects
WALLTIME, PRIORITY = np.int64(0), np.int64(1)  # what `change` changes


@kernel(inline=True, from_python=True)
def tick(state, t):
    """Begin a new instant t, at which nothing has happened yet."""
    note(state, TICK, t)
    plan = state.plan
    plan.kept &= plan.live & (t > state.now)
    plan.live, plan.refused, state.placed.may = 0, NONE, NONE
    state.now = t
    clear_batch(state.batch)
    if state.shadow.job >= 0:
        forget_reservation(state)
    batch = state.batch
    while batch.timed > 0 and batch.timers[0] <= t:
        batch.timed = pop_timer(batch.timers, batch.timed)


@kernel(inline=True, from_python=True)
def submit(state):
    """Make the next row of the job table known. Return its number; `release` makes it eligible."""
    note(state, SUBMIT, state.jobs.count)
    jobs = state.jobs
    jobs.sets = max(jobs.sets, jobs.bound[jobs.count] + 1)
    jobs.count += 1
    join_project(state, jobs.count - 1)
    return jobs.count - 1


@kernel(inline=True, from_python=True)
def ask(state, job):
    """Count the resources that a known job requests as in play, since it may run one day."""
    note(state, ASK, job)
    machine = state.machine
    for k in range(machine.resources):
        few_turns()
        machine.in_play[k] |= machine.offered[k] & (state.jobs.need[job, k] > 0)


@kernel(inline=True, from_python=True)
def release(state, job):
    """Let a known job that does not run wait from now on."""
    note(state, RELEASE, job)
    state.promises.reserved[job] = NO_TIME
    enqueue(state, job)
    note_arrival(state.batch, job)


@kernel()
def proceed(state, job):
    """Record that all dependencies of a job are over; if it runs, it progresses from now on.

    For runs that may dangle.
    """
    note(state, PROCEED, job)
    runs, run = state.runs, state.runs.last[job]
    runs.ready[job] = 1
    if run != NONE and runs.how[run] == RUNNING:
        drop_by_limit(state, run)
        runs.since[run] = state.now
        add_by_limit(state, run, limit_of(state, run))
        state.batch.changes += 1


@kernel(from_python=True)
def put(state, job, pair, node, tasks):
    """Place tasks of a job on a node, as its pair number `pair` from 0. Part of `begin` and `promised`."""
    note(state, PUT, job, pair, node, tasks)
    placed = state.placed
    placed.job, placed.count = job, pair + 1
    placed.pairs[pair, 0], placed.pairs[pair, 1] = node, tasks


@kernel(from_python=True)
def begin(state, job, since, reason):
    """Begin the run of a known job where it was put, since an instant not after now, without a decision of the policy.

    It may hold more than was free: the pool decides what runs, not this State.
    """
    note(state, BEGIN, job, since, reason)
    if state.queue.waits[job]:
        dequeue(state, job)
        forget_arrival(state.batch, job)
        if state.bookings.kept:
            drop_booking(state, job)
    note_begin(state.batch, open_run(state, job, since, reason))
    state.batch.changes += 1


@kernel()
def promised(state, job, t):
    """Let a known job wait from now on with the start t where it was put, as promised by another State.

    The policy does not see it arrive; in its next pass the job keeps its start if that still fits.
    """
    note(state, PROMISED, job, t)
    enqueue(state, job)
    if not state.machine.pool:
        keep_place(state, job)
    state.promises.first[job] = t
    note_promise(state, job, t, GIVEN, NONE)
    state.promises.reserved[job] = t
    if state.bookings.kept:
        book_in(state, job, t, np.int64(1))
    note_unknown(state.plan.grown, state.now)
    state.batch.changes += 1


@kernel(inline=True)
def vacate(state, run):
    """Release what a run holds. Part of `end`; comes earlier if a job at its limit counts as gone (--ties step)."""
    note(state, VACATE, run)
    take(state, run, np.int64(-1))
    drop_by_limit(state, run)


@kernel(inline=True)
def end(state, run, how):
    """End a run: completed, killed at its limit, cancelled, or lost with its node. Its resources are released."""
    vacate(state, run)
    end_vacated(state, run, how)


@kernel(inline=True)
def end_vacated(state, run, how):
    """End a run that has already released its resources."""
    note(state, END, run, how)
    if state.runs.rows > 1:
        keep_pace(state, run)
    state.runs.end[run] = state.now
    state.runs.how[run] = how
    if how > TIMEOUT:
        state.batch.changes += 1
    note_end(state.batch, run)


@kernel()
def leave(state, job):
    """Remove a waiting job that has not started."""
    note(state, LEAVE, job)
    dequeue(state, job)
    take_back(state, job)
    note_leave(state.batch, job)


@kernel()
def drop(state, job):
    """Record that a known job which never waited will never run: it was rejected, or cancelled."""
    note(state, DROP, job)
    note_drop(state.batch, job)


@kernel()
def begin_anew(state, job):
    """Reset the progress of a job: what it did before it was preempted, and where it would continue."""
    note(state, ANEW, job)
    waits = state.queue.waits[job]
    if waits:
        dequeue(state, job)
    keep_progress(state, job, REQUEUE, np.int64(0))
    if waits:
        enqueue(state, job)
        note_unknown(state.plan.grown, state.now)
        state.batch.changes += 1


@kernel()
def change(state, job, what, walltime, priority):
    """Change the walltime of a job that has not ended, and with it the limit of its run, or its priority.

    For a job that neither waits nor runs yet, only its row changes.
    """
    note_change(state, job, what, walltime, priority)
    run, waits = state.runs.last[job], state.queue.waits[job]
    runs = not waits and run != NONE and state.runs.how[run] == RUNNING
    if waits:
        dequeue(state, job)
    if what == WALLTIME:
        state.jobs.walltime[job] = walltime
        if state.runs.preempts:
            state.runs.whole[job] = walltime
            state.jobs.walltime[job] = max(walltime - state.runs.used[job], 0)
        if runs:
            drop_by_limit(state, run)
            add_by_limit(state, run, limit_of(state, run))
        if waits or runs:
            note_walltime(state, job)
    else:
        state.jobs.priority[job] = priority
    if waits:
        enqueue(state, job)
        if what == WALLTIME:
            note_unknown(state.plan.grown, state.now)
    if waits or runs:
        state.batch.changes += 1


@kernel()
def set_capacity(state, node, k, amount, base):
    """Set the capacity of a resource of a node; base: without open windows.

    Runs may hold more than that, as on a node that is drained: the free amount is then negative, and released amounts
    do not become available until the capacity covers what is held.
    """
    note(state, CAPACITY, node, k, amount, base)
    machine, free = state.machine, state.free
    gained = amount - machine.capacity[node, k]
    machine.capacity[node, k], machine.base[node, k] = amount, base
    free.nodes[node, k] += gained
    free.total[k] += gained
    note_node(state, node, gained > 0)
    state.later.live = 0
    state.batch.changes += 1


@kernel()
def set_copies(state, licence, copies, base):
    """Set the number of copies of a licence, perhaps fewer than runs hold; base: without open windows."""
    note(state, COPIES, licence, copies, base)
    state.free.licences[licence] += copies - state.machine.copies[licence]
    state.later.live = 0
    state.machine.copies[licence], state.machine.base_copies[licence, 0] = copies, base
    state.batch.changes += 1


@kernel(from_python=True)
def announce(state, lane, k, amount, begin, until):
    """Announce that a node (or, counted down from -1, a licence) has this much less on [begin, until)."""
    note(state, ANNOUNCE, lane, k, amount, begin, until)
    machine = state.machine
    if machine.windows == len(machine.window):
        machine.window = doubled_rows(machine.window)
    row = machine.window[machine.windows]
    row[0], row[1], row[2], row[3], row[4] = lane, k, amount, begin, until
    machine.windows += 1
    state.batch.changes += 1


@kernel()
def revoke(state, lane, k, amount, begin, until):
    """Revoke an announced window: it will not happen, or is over before its time."""
    note(state, REVOKE, lane, k, amount, begin, until)
    machine = state.machine
    for i in range(machine.windows):
        row = machine.window[i]
        if row[0] == lane and row[1] == k and row[2] == amount and row[3] == begin and row[4] == until:
            machine.windows -= 1
            for c in range(5):
                row[c] = machine.window[machine.windows, c]
            break
    state.batch.changes += 1


@kernel()
def close_windows(state):
    """Forget the windows whose time is over."""
    note(state, CLOSE)
    machine, kept = state.machine, 0
    for i in range(machine.windows):
        if machine.window[i, 4] > state.now:
            for c in range(5):
                machine.window[kept, c] = machine.window[i, c]
            kept += 1
    machine.windows = kept
    state.batch.changes += 1


@kernel(inline=True)
def ask_policy(state):
    """Begin the decision: all events of this instant have been applied."""
    note(state, DECIDE)
    if state.batch.mixed:
        sort_arrivals(state)


@apart(row=int64[::1])
def do_again(state, row):
    """Repeat a row of a journal, if it is a transition."""
    code, a, b = row[0], row[1], row[2]
    if code == TICK:
        tick(state, a)
    elif code == SUBMIT:
        submit(state)
    elif code == ASK:
        ask(state, a)
    elif code == RELEASE:
        release(state, a)
    elif code == PROCEED:
        proceed(state, a)
    elif code == PUT:
        put(state, a, b, row[3], row[4])
    elif code == BEGIN:
        begin(state, a, b, row[3])
    elif code == PROMISED:
        promised(state, a, b)
    elif code == VACATE:
        vacate(state, a)
    elif code == END:
        end_vacated(state, a, np.int8(b))
    elif code == LEAVE:
        leave(state, a)
    elif code == DROP:
        drop(state, a)
    elif code == ANEW:
        begin_anew(state, a)
    elif code == CHANGE:
        change(state, a, b, row[3], row.view(np.float64)[4])
    elif code == CAPACITY:
        set_capacity(state, a, b, row[3], row[4])
    elif code == COPIES:
        set_copies(state, a, b, row[3])
    elif code == ANNOUNCE:
        announce(state, a, b, row[3], row[4], row[5])
    elif code == REVOKE:
        revoke(state, a, b, row[3], row[4], row[5])
    elif code == CLOSE:
        close_windows(state)
    elif code == DECIDE:
        ask_policy(state)
