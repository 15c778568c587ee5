"""A plan of the whole queue of a pool, made anew by each pass: only as much of it as decides anything.

Three things spare work, and change no start and no first promise. A pass at which jobs only arrive leaves the plan as
it is. One at which none arrives plans no further than to the last job that could still start now. And a job starts no
sooner than one that was settled before, and asks for no more processors and no more time.
"""

import numpy as np

from backfill.compiler.kernel import kernel
from backfill.core.plan.plan import fits_now, rebuild, settle
from backfill.core.plan.profile import FUTURE, PAST
from backfill.core.plan.readers import are_promises_read
from backfill.core.queue.walk import following, is_first, rewind
from backfill.core.verbs import BACKFILL, HEAD, reserve, start

SIZES, LENGTHS = 64, 256  # classes: of processors, one for each power of two; of walltimes, four

# Memory: what is known of the plan (below); the waiting jobs in their order; the latest start of a job settled in this
# plan, of all up to a class of sizes and one of lengths (a Fenwick tree of two dimensions).
WHOLE_PLAN = {"known": 4, "line": "jobs", "settled": SIZES * LENGTHS}

# Whether the plan holds every waiting job, how many of them, until when it holds if nothing happens, and whether each
# job has had a reservation.
WHOLE, MANY, UNTIL, PROMISED = (np.int64(i) for i in range(4))


@kernel()
def may_cut_short(state):
    """Return whether the plan decides nothing but starts and first promises: on a pool, if nobody reads it."""
    return state.machine.pool == 1 and state.machine.windows == 0 and not are_promises_read(state)


@kernel()
def forget_plan(state):
    """Begin anew at the next pass: another plan has been made."""
    state.own.known[WHOLE] = state.own.known[PROMISED] = 0


@kernel()
def plan_whole(state):
    """Reserve for all jobs of a pool, whose reservations nobody reads: only as far as it decides anything.

    A pass at which jobs only arrive leaves the plan as it is, and adds them behind. In another one, the first promise
    of a new job needs the whole plan; else the plan ends with the last job that could still start now.
    """
    known, line = state.own.known, state.own.line
    n = write_line(state)
    if known[WHOLE] == 1:
        settle_from(state, known[MANY], n)
        return
    rebuild(state)
    known[UNTIL] = FUTURE
    state.own.settled[:] = PAST
    if state.batch.arrivals > 0 or known[PROMISED] == 0:
        known[PROMISED] = 1
        settle_from(state, 0, n)
        known[WHOLE] = 1
        return
    known[WHOLE] = 0
    first, last = 0, n - 1
    while first <= last:
        while last >= first and not fits_now(state, line[last]):
            last -= 1
        if first <= last:
            settle_or_start(state, line[first])
            first += 1


@kernel()
def write_line(state):
    """Write the waiting jobs in their order to `line`, and note whether the plan can be kept. Return their number."""
    known, line, batch, n = state.own.known, state.own.line, state.batch, 0
    events = batch.ends + batch.leaves + batch.changes + batch.starts + batch.preemptions + batch.begins
    same = known[WHOLE] == 1 and events == 0 and known[UNTIL] > state.now
    rewind(state, 0)
    job = following(state, 0)
    while job >= 0:
        same = same and (n >= known[MANY] or line[n] == job)
        line[n] = job
        n += 1
        job = following(state, 0)
    known[WHOLE] = int(same and n == known[MANY] + batch.arrivals)
    return n


@kernel()
def settle_from(state, first, n):
    """Settle the jobs first to n - 1 of the line, and keep in the line those that do not start now."""
    known, line = state.own.known, state.own.line
    many = first
    for i in range(first, n):
        job = line[i]
        t = settle_or_start(state, job)
        if t == FUTURE:
            known[PROMISED] = 0
        if t != state.now:
            line[many] = job
            many += 1
            known[UNTIL] = min(known[UNTIL], t)
    known[MANY] = many
    if state.runs.active > 0:
        known[UNTIL] = min(known[UNTIL], state.runs.limits[0])


@kernel()
def settle_or_start(state, job):
    """Book a job at its earliest start in the plan; start it, or reserve that. Return when that is."""
    t = settle(state, job, soonest(state, job))
    note_settled(state, job, t)
    if t == state.now:
        start(state, job, HEAD if is_first(state, job) else BACKFILL)
    elif t < FUTURE:
        reserve(state, job, t)
    return t


@kernel()
def soonest(state, job):
    """Return a lower bound of the start of a job, from those settled before that ask for no more."""
    found = state.now
    if state.machine.resources > 1 or state.jobs.need[job, 0] < 1:
        return found
    size, longest = highest_bit(state.jobs.need[job, 0]) + 1, quarter(time_of(state, job)) + 1
    while size > 0:
        length = longest
        while length > 0:
            found = max(found, state.own.settled[(size - 1) * LENGTHS + length - 1])
            length -= length & -length
        size -= size & -size
    return found


@kernel()
def note_settled(state, job, t):
    """Note the start t of a job that was just settled, for `soonest`."""
    if t == state.now:
        return
    size, shortest = highest_bit(state.jobs.need[job, 0] - 1) + 2, quarter(time_of(state, job) - 1) + 2
    while size <= SIZES:
        length = shortest
        while length <= LENGTHS:
            place = (size - 1) * LENGTHS + length - 1
            state.own.settled[place] = max(state.own.settled[place], t)
            length += length & -length
        size += size & -size


@kernel(inline=True)
def time_of(state, job):
    """Return how long a plan books a job."""
    return max(state.jobs.walltime[job], 1)


@kernel()
def highest_bit(amount):
    """Return the number of the highest bit of an amount, from 0; -1 for nothing."""
    if amount <= 0:
        return np.int64(-1)
    bit, step = np.int64(0), np.int64(32)
    while step > 0:
        if amount >> step > 0:
            amount >>= step
            bit += step
        step >>= 1
    return bit


@kernel()
def quarter(amount):
    """Return the class of an amount, four for each power of two, ascending; -1 for nothing."""
    bit = highest_bit(amount)
    return bit if bit < 0 else 4 * bit + ((amount << 2 >> bit) & 3)
