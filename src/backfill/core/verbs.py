"""The verbs of a policy. Each takes the State first; a mistake is recorded for the Python side."""

import numpy as np
from numba import int64

from backfill.compiler.far import call
from backfill.compiler.kernel import apart, kernel
from backfill.compiler.loops import few_turns
from backfill.compiler.record import doubled
from backfill.compiler.wall import verb
from backfill.core.batch import note_pace, note_preemption, note_start
from backfill.core.errors import (
    BY_HELD_BACK,
    BY_IS_READY,
    BY_PLACE,
    BY_PLACE_ON,
    BY_PREDECESSOR,
    BY_RESERVE,
    BY_START,
    BY_WITHDRAW,
    DOES_NOT_FIT,
    IN_THE_PAST,
    JUST_PREEMPTED,
    JUST_STARTED,
    NEVER,
    NO_HOW,
    NO_LICENCE,
    NO_OVERHEAD,
    NO_PREEMPTION,
    NO_REASON,
    NO_SHARING,
    NO_SUCH_NODES,
    NO_SUCH_ROWS,
    NONE,
    NOT_PLACED,
    NOT_RUNNING,
    NOT_TURNING,
    OK,
    fail,
)
from backfill.core.journal import PREEMPT, RESERVE, RUN_IN, WAKE, WITHDRAW, note, note_run
from backfill.core.machine import least_there
from backfill.core.pace import keep_pace
from backfill.core.place.gangs import may_run_on
from backfill.core.place.placement import NODE, SITE, holds, licences_free, place_gang
from backfill.core.place.seating import POWER, seat_by_rule
from backfill.core.place.shapes import licences_are_free, sit
from backfill.core.plan.bookings import book_in, drop_booking, take_back
from backfill.core.plan.plan import book_run
from backfill.core.plan.profile import FUTURE, GIVE, least_over
from backfill.core.plan.promises import GIVEN, NO_TIME, OVERRUN, RENEWED, end_of, note_promise
from backfill.core.plan.search import span
from backfill.core.queue.heaps import push_timer
from backfill.core.queue.walk import dequeue, enqueue, head, is_held_back, is_waiting, take_in
from backfill.core.runs import (
    REQUEUE,
    RUNNING,
    SUSPEND,
    add_by_limit,
    drop_by_limit,
    goes_on,
    is_suspended,
    keep_progress,
    limit_of,
    open_run,
    place_as_before,
    take,
)
from backfill.model import schedule, units

PREEMPTED = np.int8(schedule.PREEMPTED)
LONGEST = np.int64(units.TIME_MAX)  # largest overhead of a preemption

# Why a job starts: the closed list of model.schedule.REASONS.
HEAD, BACKFILL, RESERVED, FIT, GANG, THREAD, MOVED_UP, RESUMED = (np.int64(i) for i in range(8))


@apart(room=int64[:, ::1], licence_room=int64[::1])
def place_in(state, job, room, licence_room):
    """Return whether a job fits into these amounts of nodes and licences; its placement goes to state.placed.pairs."""
    begin, end = state.jobs.licence_first[job], state.jobs.licence_first[job + 1]
    state.placed.count, state.placed.job = 0, job
    if is_suspended(state, job):
        return fits_as_before(state, job, room, licence_room)
    if not licences_free(licence_room, state.jobs.licence, state.jobs.licence_count, begin, end):
        return False
    if state.jobs.place[job] != POWER:
        return seat_by_rule(state, job, room)
    return place_by_power(state, job, room)


@kernel()
def place_by_power(state, job, room):
    """Return whether a job fits into these amounts of nodes; it is placed on the most powerful ones (state.placed)."""
    jobs, placed = state.jobs, state.placed
    placed.job = job
    placed.count = place_gang(
        room,
        jobs.demand,
        job,
        jobs.tasks[job],
        jobs.most[job],
        jobs.spread[job],
        state.machine,
        jobs.bound[job],
        jobs.licence,
        jobs.licence_first[job],
        jobs.limit_first[job],
        placed.pairs,
    )
    return placed.count > 0


@kernel()
def fits_as_before(state, job, room, licence_room):
    """Return whether a suspended job fits where it was."""
    place_as_before(state, job)
    begin, end = state.jobs.licence_first[job], state.jobs.licence_first[job + 1]
    fits = licences_free(licence_room, state.jobs.licence, state.jobs.licence_count, begin, end)
    for pair in range(state.placed.count):
        fits = fits and holds(room, state.placed.pairs[pair, 0], state.jobs.demand, job, state.placed.pairs[pair, 1])
    if not fits:
        state.placed.count = 0
    return fits


@verb(inline=True)
def place(state, job):
    """Return whether a waiting job fits into what is free now; its placement is left for `start`.

    A job that was preempted in this pass does not fit, and one that was suspended fits only where it was.
    """
    if not is_waiting(state, job, BY_PLACE):
        return False
    if state.batch.preemptions > 0 and was_preempted(state, job):
        return False
    if state.machine.windows > 0:
        return call(state.plan.fits, state, job) == 1
    if state.machine.pool:
        for k in range(state.machine.resources):
            few_turns()
            if state.jobs.need[job, k] > max(state.free.nodes[0, k], 0):
                return False
        return True
    if is_suspended(state, job):
        return fits_as_before(state, job, state.free.nodes, state.free.licences)
    return sit(state, job, False)


@verb(within=True, nodes=int64[::1])
def place_on(state, job, nodes):
    """Return whether a waiting job fits into what is free now with a task on each of these nodes, for `start`.

    nodes: int64, one for each task in ascending order; the same node may occur several times. Like `place`, it respects
    the nodes where the job may run, its licences and limits, and windows.
    """
    if not is_waiting(state, job, BY_PLACE_ON) or not _note_pairs(state, job, nodes):
        return False
    fits = _fits_on_pairs(state, job)
    if state.machine.windows > 0 and fits:
        fits = _ends_before_windows(state, job) == 1
        state.placed.may = job if fits else NONE
    if not fits:
        state.placed.count = 0
    return fits


@kernel()
def _note_pairs(state, job, nodes):
    """Write these nodes to state.placed; return False for nodes that do not exist."""
    placed, most = state.placed, state.machine.nodes - 1
    placed.count, placed.job = 0, job
    right = len(nodes) == state.jobs.tasks[job]
    for i in range(len(nodes)):
        right = right and 0 <= nodes[i] <= most and (i == 0 or nodes[i - 1] <= nodes[i])
        if right and placed.count > 0 and placed.pairs[placed.count - 1, 0] == nodes[i]:
            placed.pairs[placed.count - 1, 1] += 1
        elif right:
            placed.pairs[placed.count, 0], placed.pairs[placed.count, 1] = nodes[i], 1
            placed.count += 1
    if not right:
        fail(state, NO_SUCH_NODES, job, NONE, np.int64(len(nodes)), most)
    return right


@kernel()
def _fits_on_pairs(state, job):
    """Return whether a job may start now with the placement in state.placed."""
    placed, machine = state.placed, state.machine
    if is_suspended(state, job) or (state.batch.preemptions > 0 and was_preempted(state, job)):
        return False
    if placed.count > 1 and state.jobs.spread[job] == NODE:
        return False
    for pair in range(placed.count):
        node, tasks = placed.pairs[pair, 0], placed.pairs[pair, 1]
        if tasks > state.jobs.most[job]:
            return False
        if state.jobs.spread[job] == SITE and machine.site[node] != machine.site[placed.pairs[0, 0]]:
            return False
        if not may_run_on(state, job, node) or not holds(state.free.nodes, node, state.jobs.demand, job, tasks):
            return False
    return machine.pool == 1 or licences_are_free(state, job, False)


@apart()
def _ends_before_windows(state, job):
    """Return 1 if announced windows leave a job what it needs at its placement for its whole walltime, else 0."""
    machine, placed = state.machine, state.placed
    for pair in range(placed.count):
        node, tasks = placed.pairs[pair, 0], placed.pairs[pair, 1]
        for k in range(machine.resources):
            few_turns()
            held = machine.capacity[node, k] - state.free.nodes[node, k]
            there = least_there(state, node, k, state.now, state.now + span(state, job))
            if there - held < tasks * state.jobs.demand[job, k]:
                return np.int64(0)
    return np.int64(1)


@verb(within=True)
def is_open(state, job, node, begin, end):
    """Return whether announced windows leave enough of a node for a task of a job on [begin, end).

    Other runs there are not considered.
    """
    machine = state.machine
    if machine.windows == 0:
        return True
    for k in range(machine.resources):
        few_turns()
        if least_there(state, node, k, begin, end) < state.jobs.demand[job, k]:
            return False
    return True


@verb(inline=True)
def held_back(state, job):
    """Return whether a limit on running jobs, of its user for instance, keeps a waiting job from starting now.

    Then it waits aside: `head` skips it, and a policy makes no reservation for it, but keeps one that it has.
    """
    return is_waiting(state, job, BY_HELD_BACK) and is_held_back(state, job)


@verb(inline=True)
def predecessor(state, job, n):
    """Return the n-th dependency, from 0, of a waiting job; -1 behind the last one. Some of them may be over.

    All of them are known if the policy `dangles`; otherwise all are over.
    """
    if n < 0 or not is_waiting(state, job, BY_PREDECESSOR):
        return NONE
    item = state.jobs.after_first[job] + n
    return state.jobs.after[item] if item < state.jobs.after_first[job + 1] else NONE


@verb(inline=True)
def is_ready(state, job):
    """Return whether all dependencies of a waiting job are over, so that it would progress: only then it has a limit.

    This is true of every waiting job, unless the policy `dangles`.
    """
    return is_waiting(state, job, BY_IS_READY) and (state.runs.dangles == 0 or state.runs.ready[job] == 1)


@verb()
def place_in_both(state, job):
    """Like `place`, for a job that must also fit in the other plan for its whole walltime."""
    if not place(state, job):
        return False
    machine, scratch, other = state.machine, state.scratch, state.other
    end = state.now + span(state, job)
    for node in range(machine.nodes):
        least_over(other.nodes, node, state.now, end, scratch.room, node)
    for licence in range(len(machine.copies)):
        least_over(other.licences, licence, state.now, end, scratch.least, np.int64(0))
        scratch.licences[licence] = scratch.least[0, 0]
    if machine.windows > 0:
        _cap_by_plan(state, end)
    else:
        for node in range(machine.nodes):
            for k in range(machine.resources):
                few_turns()
                scratch.room[node, k] = min(scratch.room[node, k], state.free.nodes[node, k])
        for licence in range(len(machine.copies)):
            scratch.licences[licence] = min(scratch.licences[licence], state.free.licences[licence])
    if machine.pool:
        for k in range(machine.resources):
            few_turns()
            if state.jobs.need[job, k] > max(scratch.room[0, k], 0):
                return False
        return True
    return place_in(state, job, scratch.room, scratch.licences)


@apart()
def _cap_by_plan(state, end):
    """Limit the amounts for a search to what the plan has from now until `end`."""
    plan, scratch, least = state.plan, state.scratch, np.empty((1, state.machine.resources), np.int64)
    for node in range(state.machine.nodes):
        least_over(plan.nodes, node, state.now, end, least, np.int64(0))
        for k in range(state.machine.resources):
            few_turns()
            scratch.room[node, k] = min(scratch.room[node, k], least[0, k])
    for licence in range(len(state.machine.copies)):
        least_over(plan.licences, licence, state.now, end, least, np.int64(0))
        scratch.licences[licence] = min(scratch.licences[licence], least[0, 0])


@kernel()
def was_preempted(state, job):
    """Return whether the policy preempted a job in this pass."""
    for i in range(state.batch.preemptions):
        if state.runs.job[state.batch.preempted[i, 0]] == job:
            return True
    return False


@verb()
def start(state, job, reason):
    """Start a waiting job now, at the placement found by the last `place`."""
    if state.trace.error[0] != OK:
        return
    if not is_waiting(state, job, BY_START):
        return
    if reason < HEAD or reason > RESUMED:
        fail(state, NO_REASON, job, NONE, reason, NONE)
        return
    if state.batch.preemptions > 0 and was_preempted(state, job):
        fail(state, JUST_PREEMPTED, job, NONE, NONE, NONE)
        return
    if not _available(state, job):
        return
    run = open_run(state, job, state.now, reason)
    note_start(state.batch, run)
    note_run(state, run)
    if state.plan.live:
        call(state.plan.book_start, state, run)
    state.placed.may = NONE
    dequeue(state, job)
    if state.bookings.kept:
        drop_booking(state, job)


@kernel()
def _available(state, job):
    if state.machine.windows > 0 and state.placed.may != job:
        fail(state, NOT_PLACED, job, NONE, state.jobs.tasks[job], 0)
        return False
    if state.machine.pool:
        for k in range(state.machine.resources):
            few_turns()
            if state.jobs.need[job, k] > max(state.free.nodes[0, k], 0):
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
            few_turns()
            asked = here * state.jobs.demand[job, k]
            if asked > max(state.free.nodes[node, k], 0):
                fail(state, DOES_NOT_FIT, job, k, asked, state.free.nodes[node, k])
                return False
    if tasks != state.jobs.tasks[job]:
        fail(state, NOT_PLACED, job, NONE, state.jobs.tasks[job], tasks)
        return False
    return True


@verb()
def reserve(state, job, t):
    """Promise a waiting job the start t. The first promise is recorded, and for the watched job every change."""
    anew = 0 <= job < state.jobs.count and state.promises.reserved[job] != NO_TIME
    promise_start(state, job, t, RENEWED if anew else GIVEN, NONE)


@verb()
def reserve_because(state, job, t, cause, by):
    """Like `reserve`, with the cause (promises.py) to record, and the job on whose behalf this one moved, else -1."""
    promise_start(state, job, t, cause, by)


@kernel()
def promise_start(state, job, t, cause, by):
    """Promise a waiting job the start t."""
    if not is_waiting(state, job, BY_RESERVE):
        return
    if t < state.now:
        fail(state, IN_THE_PAST, job, NONE, t, state.now)
        return
    note(state, RESERVE, job, t, cause, by, end_of(state, job, t))
    if state.promises.first[job] == NO_TIME:
        state.promises.first[job] = t
    note_promise(state, job, t, cause, by)
    state.promises.reserved[job] = t
    if state.bookings.kept:
        book_in(state, job, t, np.int64(cause != OVERRUN))


@verb()
def wake(state, t):
    """Request a pass at t, even if nothing else happens then."""
    if t <= state.now:
        fail(state, IN_THE_PAST, NONE, NONE, t, state.now)
        return
    if t >= FUTURE:
        fail(state, NEVER, NONE, NONE, NONE, NONE)
        return
    note(state, WAKE, t)
    if state.batch.timed > 0 and state.batch.timers[0] == t:
        return
    if state.batch.timed == len(state.batch.timers):
        state.batch.timers = doubled(state.batch.timers)
    state.batch.timed = push_timer(state.batch.timers, state.batch.timed, t)


@kernel()
def fit_empty(state, capacity, copies, out):
    """Write to out (n,) whether each job fits on the empty platform of this capacity (m, k) and copies (l,), 1 or 0."""
    for job in range(state.jobs.rows):
        out[job] = 1 if place_in(state, job, capacity, copies) else 0
    placed = state.placed  # reset afterwards, so that no trace of later jobs is left
    placed.count, placed.job = 0, NONE
    for pair in range(len(placed.pairs)):
        placed.pairs[pair, 0] = placed.pairs[pair, 1] = 0


@verb(within=True)
def start_heads(state):
    """Start the first job in order as long as it fits. Return the first that does not; -1 if none waits."""
    job = head(state)
    while job >= 0 and place(state, job):
        start(state, job, HEAD)
        job = head(state)
    return job


@verb()
def withdraw(state, job):
    """Withdraw the promised start of a waiting job, since capacity is missing."""
    if is_waiting(state, job, BY_WITHDRAW):
        note(state, WITHDRAW, job)
        take_back(state, job)


@verb()
def preempt(state, job, how, overhead):
    """End the run of a job now; the job waits again at its position, and does not start again in this pass.

    REQUEUE: it starts over. CHECKPOINT: it continues anywhere; SUSPEND: where it was; the rest of its run time and of
    its walltime grows by the overhead. In all three cases its resources, including memory, are free at once.
    """
    if state.trace.error[0] != OK:
        return
    runs = state.runs
    run = np.int64(runs.last[job]) if 0 <= job < state.jobs.count else NONE
    if not runs.preempts:
        fail(state, NO_PREEMPTION, job, NONE, NONE, NONE)
    elif run == NONE or runs.how[run] != RUNNING or not goes_on(state, run):
        fail(state, NOT_RUNNING, job, NONE, NONE, NONE)
    elif run >= runs.count - state.batch.starts:
        fail(state, JUST_STARTED, job, NONE, NONE, NONE)
    elif how < REQUEUE or how > SUSPEND:
        fail(state, NO_HOW, job, NONE, how, NONE)
    elif overhead < 0 or overhead > LONGEST:
        fail(state, NO_OVERHEAD, job, NONE, overhead, NONE)
    else:
        _end_preempted(state, job, run, how, overhead)


@kernel()
def _end_preempted(state, job, run, how, overhead):
    note(state, PREEMPT, job, how, overhead)
    runs = state.runs
    if state.plan.live:
        book_run(state, run, state.now, max(runs.limit[run], state.now + 1), GIVE)
    take(state, run, np.int64(-1))
    drop_by_limit(state, run)
    runs.end[run], runs.how[run] = state.now, PREEMPTED
    keep_progress(state, job, how, 0 if how == REQUEUE else runs.used[job] + state.now - runs.start[run] - overhead)
    state.promises.reserved[job] = NO_TIME
    enqueue(state, job)
    take_in(state)
    note_preemption(state.batch, run, how, overhead)


@verb()
def run_in(state, job, rows, of):
    """Give a running job turns in these rows out of all `of` rows that take turns on the processors.

    rows: a bit for each row, the first one 1. A job starts in row 1 of one. It progresses only in its turns, less the
    time of a switch between rows; its walltime counts progress.
    """
    if state.trace.error[0] != OK:
        return
    runs = state.runs
    run = np.int64(runs.last[job]) if 0 <= job < state.jobs.count else NONE
    if runs.rows == 1:
        fail(state, NO_SHARING, job, NONE, NONE, NONE)
    elif run == NONE or runs.how[run] != RUNNING or not goes_on(state, run):
        fail(state, NOT_TURNING, job, NONE, NONE, NONE)
    elif of < 1 or of > runs.rows or rows < 1 or rows >= (1 << of):
        fail(state, NO_SUCH_ROWS, job, NONE, rows, of)
    elif runs.turns[run] != rows or runs.of[run] != of:
        note(state, RUN_IN, job, rows, of)
        keep_pace(state, run)
        drop_by_limit(state, run)
        runs.turns[run], runs.of[run] = rows, of
        add_by_limit(state, run, limit_of(state, run))
        note_pace(state.batch, run)
