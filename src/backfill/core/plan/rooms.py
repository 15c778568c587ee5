"""Growth of the plan of a pool: where free capacity appeared, so that a planned job is tried again only if it can gain.

A waiting job can start earlier than promised only through capacity freed since its last turn, and mostly none of it is
large enough. So a table of gaps is kept: `rooms[RECENT, level, b]` is an upper bound of how long the need of a level is
free up to an instant of bucket b of the future, in a gap where capacity was freed since the last round began;
`rooms[FRESH]` is the same since this round began. Levels are the most frequent needs of the workload. Bookings do not
lower the table, failed searches do.

A job whose walltime is longer than every bound of its level up to its start cannot end before that start. It can then
only slide, and whether it can is visible at the instant before its start: no search is needed.

If few jobs wait on a pool, a search costs less than the table, so the table is not used. Among nodes see grown.py.
"""

from numba import int64

from backfill.compiler.kernel import apart, kernel
from backfill.compiler.wall import verb
from backfill.core.plan.grown import (
    FRESH,
    RECENT,
    forget_vain,
    measure_stays,
    next_round,
    note_grown,
    note_together,
    note_unknown,
)
from backfill.core.plan.outline import renew_outline
from backfill.core.plan.profile import (
    FUTURE,
    NONE,
    PAST,
    available,
    entry_after,
    entry_before,
    find,
    first_free,
    last_free,
)
from backfill.core.plan.search import ONLY
from backfill.core.queue.walk import following, rewind

BUCKETS, FEW = 64, 8  # number of buckets of time: at most, and at least
SHORT = 128  # queue length below which the table is not used
FINEST = 20  # the shortest bucket is 2**FINEST microseconds


@kernel()
def open_pool(state, begin, end):
    """Record that [begin, end) of a pool was released, for jobs that have waited since an earlier pass."""
    if state.queue.waiting == state.batch.arrivals:
        return
    begin, end = max(begin, state.now), min(end, FUTURE)
    state.plan.rooms_until[RECENT] = max(state.plan.rooms_until[RECENT], end)
    state.plan.rooms_until[FRESH] = max(state.plan.rooms_until[FRESH], end)
    if state.plan.rooms_kept:
        _measure_room(state, begin, end)


@kernel()
def open_place(state, pairs, first, many, row, begin, end):
    """Record the same for a pool, or for the nodes in `many[row]` pairs from `first[row]` on (unused on a pool)."""
    if state.machine.pool:
        open_pool(state, begin, end)
        return
    begin, end = max(begin, state.now), min(end, FUTURE)
    for pair in range(first[row], first[row] + many[row]):
        note_one(state, pairs[pair, 0], begin, end)
    note_together(state.plan.grown, int64(many[row]), begin, end)


@kernel()
def note_growth(state, node, begin, end):
    """Record that a node grew somewhere on [begin, end), and how long amounts stay free around that."""
    note_one(state, node, begin, end)
    note_together(state.plan.grown, int64(1), begin, end)


@kernel()
def note_one(state, node, begin, end):
    """Record that a node grew. The caller then tells `note_together` the number of such nodes."""
    note_grown(state.plan.grown, node, begin, end)
    measure_stays(state.plan.grown, state.plan.nodes, state.now)


@apart()
def _measure_room(state, begin, end):
    """Record, level by level, the times during which a pool is free for the need and that touch [begin, end)."""
    plan, need, since = state.plan.nodes, state.plan.rooms_need, state.plan.rooms_since
    d, e = find(plan, ONLY, begin)
    level = _look_back(state, d, e)
    while True:
        d, e = entry_after(plan, ONLY, d, e)
        t = FUTURE if e == NONE else plan.time[e]
        free = NONE if e == NONE else available(plan, ONLY, d, e, ONLY)
        while level >= state.plan.rooms_low and need[level] > free:
            _mark(state, level, since[level], t)
            level -= 1
        if t < end:
            while level < state.plan.rooms_high and need[level + 1] <= free:
                level += 1
                since[level] = t
        elif level < state.plan.rooms_low:
            return
        else:
            d, e = last_free(plan, ONLY, d, e, need[level])


@kernel()
def _look_back(state, d, e):
    """Find since when, up to an entry, a pool is free for each level. Return the highest level for which it is."""
    plan, need, since = state.plan.nodes, state.plan.rooms_need, state.plan.rooms_since
    free = available(plan, ONLY, d, e, ONLY)
    highest = state.plan.rooms_low - 1
    while highest < state.plan.rooms_high and need[highest + 1] <= free:
        highest += 1
    level = highest
    while level >= state.plan.rooms_low:
        d, e = first_free(plan, ONLY, d, e, need[level])
        t, free = max(plan.time[e], state.now), NONE
        if t > state.now:
            d, e = entry_before(plan, ONLY, d, e)
            free = available(plan, ONLY, d, e, ONLY)
        while level >= state.plan.rooms_low and need[level] > free:
            since[level] = t
            level -= 1
    return highest


@kernel()
def _mark(state, level, begin, end):
    """Record that a level is free on [begin, end), except for what the last interval marked has recorded."""
    rooms, marked = state.plan.rooms, state.plan.rooms_marked[level]
    first, last = begin, bucket(state, end)
    if marked[0] <= begin:
        if end <= marked[1]:
            return
        if begin == marked[0]:
            first = marked[1]
    marked[0], marked[1] = begin, end
    for b in range(bucket(state, first), last):
        length = border(state, b + 1) - begin
        rooms[RECENT, level, b] = max(rooms[RECENT, level, b], length)
        rooms[FRESH, level, b] = max(rooms[FRESH, level, b], length)
    length = FUTURE if end == FUTURE else end - begin  # the last bucket is unbounded
    rooms[RECENT, level, last] = max(rooms[RECENT, level, last], length)
    rooms[FRESH, level, last] = max(rooms[FRESH, level, last], length)


@kernel(inline=True)
def bucket(state, t):
    """Return the bucket of an instant; the last one is unbounded."""
    return min((t - state.plan.rooms_origin) >> state.plan.rooms_shift, state.plan.rooms_last)


@kernel(inline=True)
def border(state, b):
    """Return where bucket b begins."""
    return state.plan.rooms_origin + (b << state.plan.rooms_shift)


@kernel()
def forget_rooms(state):
    """Forget where free capacity appeared."""
    state.plan.rooms_kept, state.plan.rooms_until[FRESH] = 0, FUTURE
    note_unknown(state.plan.grown, state.now)
    forget_vain(state.plan.grown)


@verb()
def begin_round(state):
    """Begin a round of turns: forget the gaps that all waiting jobs have considered, and fit the table to the queue."""
    state.plan.rooms_until[RECENT], state.plan.rooms_until[FRESH] = state.plan.rooms_until[FRESH], PAST
    if not state.machine.pool:
        next_round(state.plan.grown)
        renew_outline(state)
        return
    if state.queue.waiting < SHORT:
        state.plan.rooms_kept = 0
        return
    if not state.plan.rooms_kept:
        state.plan.rooms_kept = 1
        state.plan.rooms[FRESH] = FUTURE  # not measured yet
        rewind(state, 0)
        for _ in range(state.queue.waiting):
            join_level(state, following(state, 0))
    latest = _survey(state)
    last = min(max(state.queue.waiting // 4, FEW), BUCKETS) - 1
    used = (latest - state.plan.rooms_origin) >> state.plan.rooms_shift
    if last != state.plan.rooms_last or used > last or used < last // 8:
        _fit_buckets(state, last, latest)
    rooms = state.plan.rooms
    for level in range(len(state.plan.rooms_need)):
        state.plan.rooms_marked[level, 0] = FUTURE
        for b in range(last + 1):
            rooms[RECENT, level, b] = rooms[FRESH, level, b]
            rooms[FRESH, level, b] = 0


@kernel()
def _survey(state):
    """Note the lowest and the highest level at which a job waits. Return the latest reserved start."""
    latest, low, high = state.now, len(state.plan.rooms_need) - 1, 0
    rewind(state, 0)
    job = following(state, 0)
    while job >= 0:
        latest = max(latest, state.promises.reserved[job])
        low = min(low, state.plan.rooms_level[job])
        high = max(high, state.plan.rooms_level[job])
        job = following(state, 0)
    state.plan.rooms_low, state.plan.rooms_high = low, high
    return latest


@apart()
def _fit_buckets(state, last, latest):
    """Divide the time from now to the latest start into buckets, half of all that exist, and move the entries."""
    rooms = state.plan.rooms
    shift = FINEST
    while (latest - state.now) >> shift > last // 2:
        shift += 1
    for level in range(len(state.plan.rooms_need)):
        for b in range(BUCKETS):
            rooms[RECENT, level, b] = rooms[FRESH, level, b]
            rooms[FRESH, level, b] = 0
        for b in range(last + 1):
            first = bucket(state, _later(state, b, shift))
            end = state.plan.rooms_last if b == last else bucket(state, _later(state, b + 1, shift))
            for i in range(first, end + 1):
                rooms[FRESH, level, b] = max(rooms[FRESH, level, b], rooms[RECENT, level, i])
    state.plan.rooms_origin, state.plan.rooms_shift, state.plan.rooms_last = state.now, shift, last


@kernel(inline=True)
def _later(state, b, shift):
    """Return the instant b * 2^shift from now, at most FUTURE."""
    return FUTURE if b > (FUTURE - state.now) >> shift else state.now + (b << shift)


@kernel()
def join_level(state, job):
    """Set the level of a job: the highest whose need is at most its own."""
    level = len(state.plan.rooms_need) - 1
    while level > 0 and state.plan.rooms_need[level] > state.jobs.need[job, 0]:
        level -= 1
    state.plan.rooms_level[job] = level
    state.plan.rooms_low = min(state.plan.rooms_low, level)
    state.plan.rooms_high = max(state.plan.rooms_high, level)
