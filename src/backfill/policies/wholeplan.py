"""A plan of the whole queue of a pool, made anew by each pass: only as much of it as decides anything.

Four things spare work, and change no start and no first promise. A pass at which jobs only arrive leaves the plan as it
is. One at which none arrives plans no further than to the last job that could still start now, and puts off jobs that
cannot start while such a job would run. And a job starts no sooner than one that was settled before, and asks for no
more processors and no more time.
"""

import numpy as np

from backfill.compiler.kernel import kernel
from backfill.core.plan.plan import earliest_before, fits_now, rebuild, settle
from backfill.core.plan.profile import FUTURE, PAST
from backfill.core.plan.readers import are_promises_read
from backfill.core.queue.walk import following, is_first, rewind
from backfill.core.verbs import BACKFILL, HEAD, reserve, start

SIZES, LENGTHS = 64, 256  # classes: of processors, one for each power of two; of walltimes, four

# Memory: what is known of the plan (below); the waiting jobs in their order; the latest start of a job settled in this
# plan, of all up to a class of sizes and one of lengths (a Fenwick tree of two dimensions); jobs that are put off, and
# when they can start at the earliest.
WHOLE_PLAN = {"known": 4, "line": "jobs", "settled": SIZES * LENGTHS, "put_off": "jobs", "not_before": "jobs"}

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
    known = state.own.known
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
    plan_to_last_start(state, n)


@kernel()
def plan_to_last_start(state, n):
    """Plan the line as far as to the last job that starts now. Before it, only what may delay such a job is booked.

    Until the horizon the longest job that could still start now would run. A job that cannot start before it is put
    off: it delays no such job itself, but may delay one before it that runs beyond the horizon. Only then it is booked.
    """
    line, places, lengths, many = state.own.line, np.empty(n, np.int64), np.empty(n, np.int64), 0
    for i in range(n):
        if not asks_too_much(state, line[i]) and fits_now(state, line[i]):
            places[many], lengths[many] = i, time_of(state, line[i])
            many += 1
    by_length = np.argsort(lengths[:many])
    last, longest, put_off, i, news = many - 1, many - 1, 0, 0, False
    while True:
        while news and last >= 0 and not may_still_start(state, places[last], i):
            last -= 1
        while news and longest >= 0 and not may_still_start(state, places[by_length[longest]], i):
            longest -= 1
        if last < 0:
            return
        job, news = line[i], False
        horizon, begin = state.now + lengths[by_length[longest]], soonest(state, job)
        t = earliest_before(state, job, begin, horizon) if begin < horizon else FUTURE
        if t == FUTURE:
            state.own.put_off[put_off], state.own.not_before[put_off] = job, max(begin, horizon)
            note_settled(state, job, max(begin, horizon))
            put_off += 1
        else:
            if t + time_of(state, job) > horizon:
                for k in range(put_off):
                    settle_or_start(state, state.own.put_off[k], state.own.not_before[k])
                put_off = 0
            settle_or_start(state, job, t)
            news = True
        i += 1


@kernel(inline=True)
def may_still_start(state, place, first):
    """Return whether the job at a place of the line, of which those before `first` are settled, could start now."""
    return place >= first and fits_now(state, state.own.line[place])


@kernel(inline=True)
def asks_too_much(state, job):
    """Return whether a job asks for more than is free now."""
    return state.jobs.need[job, 0] > max(state.free.nodes[0, 0], 0)


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
        t = settle_or_start(state, job, soonest(state, job))
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
def settle_or_start(state, job, begin):
    """Book a job at its earliest start in the plan from `begin` on; start it, or reserve that. Return when that is."""
    t = settle(state, job, begin)
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
