"""Apply the events of the event file to the simulated world, one step at a time; called by address (far.py)."""

import numpy as np
from numba import int64

from backfill.compiler.kernel import apart, kernel
from backfill.compiler.loops import few_turns
from backfill.core.errors import NONE
from backfill.core.predict.predictor import revise
from backfill.core.runs import RUNNING, SUSPEND
from backfill.core.transitions import (
    PRIORITY,
    WALLTIME,
    announce,
    begin_anew,
    change,
    close_windows,
    drop,
    end,
    leave,
    release,
    revoke,
    set_capacity,
    set_copies,
)
from backfill.core.world import NOT_YET, TIMEOUT, close_job, finish, forget, set_end, write_off
from backfill.model import schedule

CANCELLED, NODE_FAIL = np.int8(schedule.CANCELLED), np.int8(schedule.NODE_FAIL)

# Steps of the event file: windows are announced, revoked, opened and closed.
CANCEL, NEW_WALLTIME, NEW_PRIORITY, DOWN, UP, CAPACITY, COPIES, ANNOUNCE, REVOKE, OPEN, CLOSE = range(11)
WHOLE = np.int64(-1)  # as a resource: the whole node


@apart()
def do_act(state, world):
    """Apply the next step of the event file."""
    row = world.act[world.acts]
    what, job, node, k, value = row[1], row[2], row[3], row[4], row[5]
    world.acts += 1
    world.acts_left -= 1
    if what <= NEW_PRIORITY:
        _change_job(state, world, what, job, value, world.act_priority[world.acts - 1])
    elif what == DOWN or what == UP:
        if world.down[node] != (what == DOWN):
            world.down[node] = what == DOWN
            _shut(state, world, node)
    elif what == CAPACITY:
        if world.base[node, k] != value:
            world.base[node, k] = value
            _fit(state, world, node, k)
            if state.runs.preempts:
                _lose_suspended(state, world, node, k)
    elif what == COPIES:
        if world.base_copies[k, 0] != value:
            world.base_copies[k, 0] = value
            _fit_licence(state, world, k)
    elif what == ANNOUNCE:
        announce(state, node, k, row[7], value, row[6])
    elif what == REVOKE:
        revoke(state, node, k, row[7], value, row[6])
    else:
        if what == CLOSE:
            close_windows(state)
        more = np.int64(1 if what == OPEN else -1)
        if node < 0:
            world.less_copies[-1 - node] += more * row[7]
            _fit_licence(state, world, -1 - node)
        elif k == WHOLE:
            world.shut[node] += more
            _shut(state, world, node)
        else:
            world.less[node, k] += more * row[7]
            _fit(state, world, node, k)
    return int64(0)


@kernel()
def _change_job(state, world, what, job, value, priority):
    """Cancel a job, or change its walltime or priority; do nothing if it has ended."""
    if world.outcome[job] != NOT_YET:
        return
    run = np.int64(state.runs.last[job])
    runs = run != NONE and state.runs.how[run] == RUNNING
    if what == CANCEL:
        if runs:
            finish(state, world, run, CANCELLED)
        else:
            if state.queue.waits[job]:
                leave(state, job)
            elif job < state.jobs.count:
                drop(state, job)
            close_job(state, world, job, CANCELLED)
        return
    if what == NEW_WALLTIME:
        world.kill[job] = value
        if world.foresee != 0:
            value = revise(state, world.predictor, job, value)
    change(state, job, WALLTIME if what == NEW_WALLTIME else PRIORITY, value, priority)
    if runs and what == NEW_WALLTIME:
        set_end(state, world, run)
        if world.due[run] <= state.now:
            finish(state, world, run, TIMEOUT)


@kernel()
def _shut(state, world, node):
    """Update a node that went down, was closed by a window, or came back. Its runs are lost with it."""
    if world.down[node] or world.shut[node] > 0:
        i = 0
        while i < state.runs.active:
            run = state.runs.by_limit[i]
            if _is_on(state, run, node):
                _lose(state, world, run)
                i = 0
            else:
                i += 1
        if state.runs.preempts:
            _lose_suspended(state, world, node, WHOLE)
    for k in range(state.machine.resources):
        few_turns()
        _fit(state, world, node, k)


@kernel()
def _lose_suspended(state, world, node, k):
    """End the suspended jobs of a node that is lost, or that never again has what they held of a resource."""
    for job in range(state.jobs.count):
        run = np.int64(state.runs.last[job])
        if not state.queue.waits[job] or state.runs.paused[job] != SUSPEND or not _is_on(state, run, node):
            continue
        if k == WHOLE or _held(state, run, node, k) > world.base[node, k]:
            begin_anew(state, job)
            forget(state, world, job)
            if not world.requeue:
                leave(state, job)
                close_job(state, world, job, NODE_FAIL)


@kernel()
def _is_on(state, run, node):
    if state.machine.pool:
        return True
    for pair in range(state.runs.first[run], state.runs.first[run] + state.runs.many[run]):
        if state.runs.held[pair, 0] == node:
            return True
    return False


@kernel()
def _held(state, run, node, k):
    """Return the amount of a resource of a node that a run holds."""
    job, runs = state.runs.job[run], state.runs
    if state.machine.pool:
        return state.jobs.need[job, k]
    found = np.int64(0)
    for pair in range(runs.first[run], runs.first[run] + runs.many[run]):
        if runs.held[pair, 0] == node:
            found += runs.held[pair, 1] * state.jobs.demand[job, k]
    return found


@kernel()
def _copies_held(state, run, licence):
    job, jobs = state.runs.job[run], state.jobs
    for item in range(jobs.licence_first[job], jobs.licence_first[job + 1]):
        if jobs.licence[item] == licence:
            return jobs.licence_count[item, 0]
    return np.int64(0)


@kernel()
def _later(state, world, run, other):
    """Return whether a run started after another; ties go to the job further down in the file."""
    if other == NONE or state.runs.start[run] != state.runs.start[other]:
        return other == NONE or state.runs.start[run] > state.runs.start[other]
    return world.row[state.runs.job[run]] > world.row[state.runs.job[other]]


@kernel()
def _fit(state, world, node, k):
    """Set the amount of a resource of a node; end runs, the last started first, until the rest fits."""
    base = np.int64(0) if world.down[node] else world.base[node, k]
    amount = np.int64(0) if world.shut[node] > 0 else max(base - world.less[node, k], 0)
    while state.machine.capacity[node, k] - state.free.nodes[node, k] > amount:
        last = NONE
        for i in range(state.runs.active):
            run = state.runs.by_limit[i]
            if _held(state, run, node, k) > 0 and _later(state, world, run, last):
                last = run
        _lose(state, world, last)
    world.book[node, k] += amount - state.machine.capacity[node, k]
    set_capacity(state, node, k, amount, base)


@kernel()
def _fit_licence(state, world, licence):
    base = world.base_copies[licence, 0]
    copies = max(base - world.less_copies[licence], 0)
    while state.machine.copies[licence] - state.free.licences[licence] > copies:
        last = NONE
        for i in range(state.runs.active):
            run = state.runs.by_limit[i]
            if _copies_held(state, run, licence) > 0 and _later(state, world, run, last):
                last = run
        _lose(state, world, last)
    world.book_licences[licence] += copies - state.machine.copies[licence]
    set_copies(state, licence, copies, base)


@kernel()
def _lose(state, world, run):
    """End a run because its resources are gone. Its job waits again, or has failed."""
    job = np.int64(state.runs.job[run])
    write_off(state, world, run)
    end(state, run, NODE_FAIL)
    if state.runs.preempts:
        begin_anew(state, job)
        forget(state, world, job)
    if world.requeue:
        release(state, job)
        if state.runs.dangles and world.linked:
            _lose_danglers(state, world, job)
    else:
        close_job(state, world, job, NODE_FAIL)


@kernel()
def _lose_danglers(state, world, job):
    """End the runs that wait for the end of this job. Otherwise the job might wait for ever for what they hold."""
    lost, high, each = np.empty(state.runs.active, np.int64), 0, job
    while each >= 0:
        for i in range(world.after_first[each], world.after_first[each + 1]):
            later = world.after_item[i]
            run = np.int64(state.runs.last[later])
            if run != NONE and state.runs.how[run] == RUNNING:
                write_off(state, world, run)
                end(state, run, NODE_FAIL)
                release(state, later)
                lost[high] = later
                high += 1
        high -= 1
        each = lost[high] if high >= 0 else NONE
