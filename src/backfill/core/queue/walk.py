"""The waiting jobs, and the walk over them that every policy uses.

A walk stands behind the last job that it returned, wherever that job is now. A dynamic order is sorted before each pass
and is always one dense stretch (places.py); a deep queue in static orders is stored in blocks (deep.py).
Slow twin: tests/reference/queue.py.
"""

import numpy as np
from numba import float64

from backfill.compiler.kernel import apart, kernel
from backfill.compiler.loops import few_turns
from backfill.compiler.record import doubled, shift_back
from backfill.compiler.wall import verb
from backfill.core.errors import BY_IS_FIRST, NO_KEYS, NO_ORDER, NONE, NOT_WAITING, fail
from backfill.core.place.shapes import limits_allow
from backfill.core.queue.deep import gather, insert_deep, lay_out, next_deep, remove_deep, search, set_limits_of_shapes
from backfill.core.queue.order import rank_changes, score_stretch
from backfill.core.queue.places import (
    BLOCK,
    DEEP,
    END,
    SHALLOW,
    first_by_rank,
    first_by_rank_that_may,
    first_that_may,
    insert,
    key_of,
    knows_submits,
    lies_before,
    open_place,
    remove,
    write_place,
)
from backfill.core.trace import LOOKS

EXACT = np.int64(2**53)  # from here on not every whole number is a float
OFTEN = 12  # candidates of a pass, from which on sorting a loose order costs less than looking through it


@kernel(inline=True)
def enqueue(state, job):
    """Let an eligible job wait; `take_in` inserts it into the orders before the next pass."""
    q = state.queue
    if q.fresh_count == len(q.fresh):
        q.fresh = doubled(q.fresh)
    q.fresh[q.fresh_count] = job
    q.fresh_count += 1
    q.waiting += 1
    q.waits[job] = 1


@kernel()
def dequeue(state, job):
    """Remove a job from every order: it starts, or leaves."""
    q = state.queue
    q.waiting -= 1
    q.waits[job] = 0
    for i in range(q.fresh_count):
        if q.fresh[i] == job:
            q.fresh_count -= 1
            q.fresh[i] = q.fresh[q.fresh_count]
            return
    for slot in range(q.slots):
        if q.deep:
            remove_deep(state, slot, job)
        else:
            remove(state, slot, job)


@kernel()
def take_in(state):
    """Insert the jobs that have become eligible into every order, and choose the layout by the queue's length.

    The loop does this before each pass. All rare and long code is here, so that no policy has to compile it.
    """
    q = state.queue
    if q.deep and (q.waiting < SHALLOW or 16 * q.waiting < q.places):
        lay_out(state, 2 * q.waiting, q.waiting >= SHALLOW)
    if q.fresh_count == 0:
        return
    if q.deep or (q.indexed and q.waiting >= DEEP):
        if not q.deep or 2 * q.waiting > q.places:
            lay_out(state, 2 * q.waiting, True)
    else:
        for slot in range(q.slots):
            if q.back[slot] + q.fresh_count > (slot + 1) * q.places:
                for each in range(q.slots):
                    put_in_order(state, each)
                lay_out(state, 2 * q.waiting, False)
    for i in range(q.fresh_count):
        job = q.fresh[i]
        for slot in range(q.slots):
            if q.deep:
                insert_deep(state, slot, job, key_of(state, slot, job))
            else:
                insert(state, slot, job, key_of(state, slot, job))
    q.fresh_count = 0


@kernel(inline=True)
def _set_limits(state, slot, span):
    """Set the largest need of a candidate: given the free resources, and given that it does not end in time."""
    q = state.queue
    if q.deep:
        q.most[0, 0] = span
    if not state.machine.pool:
        if q.deep:
            set_limits_of_shapes(state, slot, span)
        return
    for k in range(state.machine.resources):
        few_turns()
        q.limits[0, k] = max(state.free.nodes[0, k], 0)
        q.limits[1, k] = max(min(state.free.nodes[0, k], state.shadow.extra[0, k]), 0)
        if q.deep:
            q.most[1, k], q.most[2, k] = q.limits[0, k], q.limits[1, k]


@kernel(inline=True)
def _is_order(state, slot):
    """Return whether this is the number of an order of the policy; any other is a mistake of the policy."""
    if slot < 0 or slot >= state.queue.slots:
        fail(state, NO_ORDER, NONE, NONE, slot, state.queue.slots)
        return False
    return True


@kernel(inline=True)
def is_waiting(state, job, by):
    """Return whether this is a waiting job; anything else is a mistake of the policy. by: the verb, see errors.py."""
    if job < 0 or job >= state.jobs.count or state.queue.waits[job] == 0:
        fail(state, NOT_WAITING, job, by, NONE, NONE)
        return False
    return True


@verb(inline=True)
def rewind(state, slot):
    """Start a walk at the first job of an order."""
    if not _is_order(state, slot):
        return
    q = state.queue
    q.cursor[slot] = q.front[slot]
    q.passed_key[slot], q.passed_job[slot] = -np.inf, NONE


@kernel(inline=True)
def standing(state):
    """Return the position of the walk over the first order, for `resume`; valid while the queue is unchanged."""
    q = state.queue
    if q.loose[0]:
        put_in_order(state, 0)
    return q.cursor[0], q.passed_key[0], q.passed_job[0]


@kernel(inline=True)
def resume(state, stand):
    """Move the walk over the first order back to a position from `standing`."""
    q = state.queue
    q.cursor[0], q.passed_key[0], q.passed_job[0] = stand


@kernel(inline=True)
def _give(state, slot, place):
    """Return the job at a position, -1 for none, and let the walk stand behind it."""
    q = state.queue
    if place < 0:
        q.cursor[slot] = (slot + 1) * q.places if q.deep else q.back[slot]
        q.passed_key[slot], q.passed_job[slot] = np.inf, END
        return NONE
    q.cursor[slot] = place + 1
    q.passed_key[slot], q.passed_job[slot] = q.rank[place] if q.loose[slot] else q.key[place], q.line[place]
    return q.line[place]


@verb(inline=True)
def following(state, slot):
    """Return the next waiting job of the walk; -1 at the end."""
    if not _is_order(state, slot):
        return NONE
    q = state.queue
    if q.deep:
        return _give(state, slot, next_deep(state, slot))
    if q.loose[slot]:
        put_in_order(state, slot)
    return _give(state, slot, q.cursor[slot] if q.cursor[slot] < q.back[slot] else NONE)


@verb(inline=True)
def candidate(state, slot, span):
    """Return the next waiting job of the walk that may start now; -1 at the end.

    It fits into the free resources, and its walltime is at most `span` or it fits in the extra as well. On one node
    without licences that is sufficient; elsewhere the job may still not fit, and `place` decides.
    """
    if not _is_order(state, slot):
        return NONE
    q = state.queue
    _set_limits(state, slot, span)
    if q.deep:
        return _give(state, slot, search(state, slot, span))
    if q.loose[slot]:
        return _give(state, slot, _candidate_of_loose(state, slot, span))
    return _give(state, slot, _candidate_in_line(state, slot, span))


@kernel(inline=True)
def is_held_back(state, job):
    """Return whether a limit on running jobs keeps a job from starting now."""
    return len(state.machine.copies) > state.machine.licences and not limits_allow(state, job, False)


@apart()
def _first_let_go(state):
    """Return the `head` if there are limits."""
    q = state.queue
    holder = holder_of_turn(state)
    for stretch in range(q.places // BLOCK if q.deep else 1):
        first = stretch * BLOCK if q.deep else q.front[0]
        for place in range(first, first + q.count[stretch] if q.deep else q.back[0]):
            job = q.line[place]
            state.trace.counters[LOOKS] += 1
            if job == holder or ((holder == NONE or q.aside[job] != holder) and not is_held_back(state, job)):
                return job
    return NONE


@kernel()
def holder_of_turn(state):
    """Return the waiting job that keeps its turn because the last reservation was made for it; -1 if there is none."""
    holder = state.queue.holder
    return holder if holder >= 0 and state.queue.waits[holder] else NONE


@verb(inline=True)
def keep_turn(state, job):
    """Let a job with a reservation keep its turn: earlier jobs held back by a limit do not overtake it until it starts.

    Otherwise it would lose its promised start to each of them, as soon as the limit allows that job.
    """
    if len(state.machine.copies) > state.machine.licences:
        _let_step_aside(state, job)


@apart()
def _let_step_aside(state, job):
    q = state.queue
    q.holder = job
    for stretch in range(q.places // BLOCK if q.deep else 1):
        first = stretch * BLOCK if q.deep else q.front[0]
        for place in range(first, first + q.count[stretch] if q.deep else q.back[0]):
            if q.line[place] == job:
                return
            if is_held_back(state, q.line[place]):
                q.aside[q.line[place]] = job


@verb(inline=True)
def head(state):
    """Return the first waiting job in the policy's order, -1 if there is none.

    A job that a limit holds back is skipped, and does not overtake a job that got a reservation meanwhile.
    """
    q = state.queue
    if q.waiting == 0:
        return NONE
    if len(state.machine.copies) > state.machine.licences:
        return _first_let_go(state)
    if q.deep:
        while q.count[q.front[0] // BLOCK] == 0:
            q.front[0] += BLOCK
    return q.line[_first_of_loose(state, 0) if q.loose[0] else q.front[0]]


@verb(inline=True)
def is_first(state, job):
    """Return whether no job waits before this one in the policy's order, except those that `head` skips."""
    return is_waiting(state, job, BY_IS_FIRST) and head(state) == job


@apart()
def _first_of_loose(state, slot):
    """Return the position of the first job of an order that is loose and not empty."""
    return first_by_rank(state, slot)


@apart()
def _candidate_of_loose(state, slot, span):
    """Return the position of the next job of a walk over a loose order that could start now; -1 if there is none.

    If this was asked too often in a pass, the jobs are put in order.
    """
    q = state.queue
    q.loose[slot] += 1
    if q.loose[slot] <= OFTEN:
        state.trace.counters[LOOKS] += q.back[slot] - q.front[slot]
        return first_by_rank_that_may(state, slot, span)
    put_in_order(state, slot)
    return _candidate_in_line(state, slot, span)


@kernel(inline=True)
def _candidate_in_line(state, slot, span):
    """Return the same of an order that is one stretch."""
    q = state.queue
    cursor, back = q.cursor[slot], q.back[slot]
    place = first_that_may(state, cursor, back, span)
    found = place < back
    state.trace.counters[LOOKS] += place - cursor + found
    return place if found else NONE


@apart()
def put_in_order(state, slot):
    """Put the jobs of an order that is loose to their places, and a walk over it to where it was."""
    q = state.queue
    if q.loose[slot] == 0:
        return
    front, back = q.front[slot], q.back[slot]
    passed = 0
    for place in range(front, back):
        passed += not lies_before(q.passed_key[slot], q.passed_job[slot], q.rank[place], q.line[place])
    _mend(state, slot, q.rank[front:back].copy())
    q.cursor[slot], q.loose[slot] = front + passed, 0


@kernel(inline=True)
def _use_ranks(state, slot):
    """Use the ranks as the order of this pass: on a pool without limits they may do alone."""
    q = state.queue
    q.loose[slot] = 1
    if not state.machine.pool or len(state.machine.copies) > state.machine.licences:
        put_in_order(state, slot)


@kernel()
def arrange(state):
    """Sort the queue in every order that changes with time."""
    q = state.queue
    for slot in range(q.slots):
        if rank_changes(q.order[slot]):
            front, back = q.front[slot], q.back[slot]
            wait, cpus = waiting_times(state, slot), _cpus_of_places(state, slot)
            score_stretch(q.order[slot], wait, q.walltime[front:back], cpus, q.rank[front:back])
            _use_ranks(state, slot)


@kernel()
def _cpus_of_places(state, slot):
    """Return the cpus of the jobs of an order in their places, (q,): on a pool they lie there side by side."""
    q = state.queue
    front, back = q.front[slot], q.back[slot]
    if state.machine.pool:
        return q.need[0, front:back]
    cpus, line = np.empty(back - front, np.int64), q.line[front:back]
    for i in range(len(cpus)):
        cpus[i] = state.jobs.need[line[i], 0]
    return cpus


@verb(within=True)
def waiting_jobs(state, slot):
    """Return an array of the jobs that wait in an order, (q,), as they lie: for a policy that looks at all of them."""
    q = state.queue
    if not _is_order(state, slot):
        return np.empty(0, np.int64)
    if not q.deep:
        return q.line[q.front[slot] : q.back[slot]].copy()
    n = q.waiting - q.fresh_count
    jobs = np.empty(n, np.int64)
    gather(state, slot, slot * q.places, (slot + 1) * q.places, jobs, np.empty(n))
    return jobs


@verb(within=True)
def waiting_times(state, slot):
    """Return the waits of the jobs of `waiting_jobs` so far, (q,), in microseconds.

    The submits lie side by side in the places of the queue, but with rounding if they are too long ago.
    """
    q, since = state.queue, state.now - state.jobs.origin
    if not _is_order(state, slot):
        return np.empty(0)
    if not q.deep and knows_submits(state, slot) and since < EXACT:
        key = q.key[q.front[slot] : q.back[slot]]
        wait = np.empty(len(key))
        for i in range(len(key)):
            wait[i] = since - key[i]
        return wait
    submit = taken(state.jobs.submit, waiting_jobs(state, slot))
    wait = np.empty(len(submit))
    for i in range(len(submit)):
        wait[i] = state.now - submit[i]
    return wait


@verb(within=True)
def waiting_walltimes(state, slot):
    """Return the walltimes of the jobs of `waiting_jobs`, (q,), in microseconds."""
    q = state.queue
    if not _is_order(state, slot):
        return np.empty(0, np.int64)
    if not q.deep:
        return q.walltime[q.front[slot] : q.back[slot]].copy()
    return taken(state.jobs.walltime, waiting_jobs(state, slot))


@kernel()
def taken(array, rows):
    """Return the items of a 1-d array at these rows, side by side: a loop over them can then be made of vectors."""
    found = np.empty(len(rows), array.dtype)
    for i in range(len(rows)):
        found[i] = array[rows[i]]
    return found


@verb(within=True, keys=float64[::1])
def arrange_by(state, slot, keys):
    """Sort the waiting jobs by ascending keys[job]; ties go by submit, then file order; no number comes last.

    For policies that declare `sorts`.
    Cost: a look at each job; if the order is walked, that of repairing the order of the last pass, at most a sort.
    """
    if not _is_order(state, slot):
        return
    if len(keys) < state.jobs.count:
        fail(state, NO_KEYS, NONE, NONE, len(keys), state.jobs.count)
        return
    q = state.queue
    arrange_waiting(state, slot, taken(keys, q.line[q.front[slot] : q.back[slot]]))


@verb(within=True, keys=float64[::1])
def arrange_waiting(state, slot, keys):
    """Like `arrange_by`, with a key for each job of `waiting_jobs`, (q,): its keys need not be looked up."""
    if not _is_order(state, slot):
        return
    q = state.queue
    rank = q.rank[q.front[slot] : q.back[slot]]
    if len(keys) != len(rank):
        fail(state, NO_KEYS, NONE, NONE, len(keys), len(rank))
        return
    for i in range(len(rank)):
        rank[i] = keys[i] if keys[i] == keys[i] else np.inf
    _use_ranks(state, slot)


@kernel()
def _mend(state, slot, keys):
    """Sort the queue of a slot by ascending keys, which are in step with it; ties go by submit.

    From one pass to the next it hardly changes: a job that comes too late moves to its position. If many have to move
    far, all are sorted.
    """
    q = state.queue
    front, n = q.front[slot], len(keys)
    moves, most = 0, 8 * n
    for i in range(1, n):
        key = keys[i]
        if keys[i - 1] < key or (keys[i - 1] == key and q.line[front + i - 1] < q.line[front + i]):
            continue
        job, place = q.line[front + i], i
        while place > 0 and lies_before(key, job, keys[place - 1], q.line[front + place - 1]):
            place -= 1
        moves += i - place
        if moves > most:
            _sort(state, slot, keys)
            return
        kept = q.key[front + i]
        shift_back(keys, place, i)
        open_place(state, front + place, front + i)
        keys[place] = key
        write_place(state, front + place, job, kept)


@kernel()
def _sort(state, slot, keys):
    """Sort the whole queue of a slot, as `_mend` would."""
    q = state.queue
    front, n = q.front[slot], len(keys)
    of_jobs, of_line = np.empty(n), np.empty(n)
    jobs = np.sort(q.line[front : front + n])
    for i in range(n):
        rank = np.searchsorted(jobs, q.line[front + i])
        of_jobs[rank], of_line[rank] = keys[i], q.key[front + i]
    by = np.argsort(of_jobs, kind="mergesort")
    for i in range(n):
        write_place(state, front + i, jobs[by[i]], of_line[by[i]])
