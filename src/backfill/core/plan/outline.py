"""An outline of the plan of nodes: what each node has free at most, interval by interval, with all nodes side by side.

Mostly a gang cannot start sooner, and to find that out in the plan itself takes a search on each of a hundred nodes.
Here a row has an upper bound for every node, so rows are compared and their tasks counted many nodes at a time. A
window that holds too few tasks by these bounds holds too few in the plan.

The intervals are those between the starts and ends of gangs. A bound is the most that a node has free at any instant of
a row, from now on: what is booked for a part of a row does not lower it, and what is released for a part is read from
the plan again. Rows stand in blocks, which know the least of their rows. New instants go into their blocks while there
is space; from time to time the outline is drawn anew. It is kept while many gangs wait.
"""

from typing import Any

import numpy as np
from numba import int16, int32, int64

from backfill.compiler.kernel import apart, kernel
from backfill.compiler.loops import few_turns
from backfill.compiler.record import record, zeros
from backfill.core.plan.profile import FUTURE, NONE, PAST, available, entry_after, find
from backfill.core.plan.promises import NO_TIME
from backfill.core.plan.search import first_among_all, span
from backfill.core.queue.walk import following, rewind

ROWS = 16  # of a block; half of them are used when it is drawn
CHECKED = 4  # number of rows after which it is checked whether anything is left
GANGS = 16  # so many must wait
CHANGES = 8  # so many must a node have on average; with fewer its plan is searched quickly
ALIKE = 24  # so many, if most gangs are like the one before: a search in vain holds for all that are alike
MOST_CELLS = 1 << 22  # of a resource, in all blocks together
FEWEST_BLOCKS = 8
BITS = 14  # of an amount; larger ones are counted in units of a power of two
SURELY = 1.00001  # quotients of floats are rounded up to be sure

SHORTAGES = 64  # that are remembered
# A gang that starts before AFTER and ends after REACHED finds TASKS at most, if it has MOST of them on a node, until
# something is released between FIRST and LAST. BOUND: only a gang with this constraint, -1 for any gang.
FIRST, LAST, AFTER, REACHED, TASKS, MOST, BOUND = range(7)

OUTLINE = [
    ("kept", int64),  # 1: it bounds the plan as it is now
    ("blocks", int64),  # in use
    ("drawn", int64),  # number of rows when it was drawn
    ("worn", int64),  # number of instants since then for which there was no row
    ("begin", int64[::1]),  # (blocks * ROWS,): where a row begins; it ends with the next one, the last at FUTURE
    ("count", int64[::1]),  # (blocks,): rows in use
    ("room", int16[:, :, ::1]),  # (K, blocks * ROWS, m): at most this much is free, in units of 2**shift[k]
    ("least", int16[:, :, ::1]),  # (K, blocks, m): the least of a block's rows
    ("stale", int64[::1]),  # (blocks,): 1: `least` is to be computed again
    ("shift", int64[::1]),  # (K,)
    # shortages that were found, a ring: see FIRST to BOUND; and the demand of a task, (SHORTAGES, K)
    ("shortage", int64[:, ::1]),
    ("demand", int64[:, ::1]),
    ("shortages", int64),  # number of those that were ever found
    # scratch
    ("over", int16[:, ::1]),  # (K, m): the least over a window
    ("trial", int16[:, ::1]),  # (K, m)
    ("fit", int16[::1]),  # (m,): number of tasks
]
Outline, OutlineT = record("Outline", OUTLINE, globals())


def new_outline(resources: int) -> Any:
    """Return an outline that is not kept yet."""
    return Outline(
        kept=0,
        blocks=0,
        drawn=0,
        worn=0,
        begin=zeros(1),
        count=zeros(1),
        room=np.zeros((resources, 1, 1), np.int16),
        least=np.zeros((resources, 1, 1), np.int16),
        stale=zeros(1),
        shift=zeros(resources),
        shortage=np.full((SHORTAGES, 7), PAST),
        demand=zeros(SHORTAGES, resources),
        shortages=0,
        over=np.zeros((resources, 1), np.int16),
        trial=np.zeros((resources, 1), np.int16),
        fit=np.zeros(1, np.int16),
    )


@apart()
def renew_outline(state):
    """Draw the outline if many gangs wait, or again if many of its instants are no longer those of the plan."""
    outline, jobs, gangs, alike, last = state.plan.outline, state.jobs, int64(0), int64(0), int64(NONE)
    if state.bookings.kept:  # moves are tried and undone without it
        return
    rewind(state, 0)
    job = following(state, 0)
    while job >= 0:
        if not jobs.alone[job] and state.promises.reserved[job] != NO_TIME:
            gangs += 1
            alike += last != NONE and jobs.shape[job] == jobs.shape[last] and jobs.walltime[job] == jobs.walltime[last]
            last = job
        job = following(state, 0)
    least = state.machine.nodes * (ALIKE if 2 * alike > gangs else CHANGES)
    if gangs < (GANGS >> outline.kept) or _changes(state) < (least >> outline.kept):
        outline.kept = 0
    elif not outline.kept or outline.worn > outline.drawn:
        _draw(state, gangs)


@kernel()
def _changes(state):
    """Return how often what is free changes in the plans of all nodes."""
    plan, changes = state.plan.nodes, int64(0)
    for node in range(state.machine.nodes):
        for d in range(plan.blocks[node]):
            changes += plan.count[plan.lane[node, d]]
    return changes


@apart()
def _draw(state, gangs):
    """Draw the outline of the plan as it is."""
    outline, nodes, resources = state.plan.outline, state.machine.nodes, state.machine.resources
    instants = _instants(state, gangs)
    most = MOST_CELLS // (ROWS * nodes)
    drawn_before = outline.kept
    outline.kept, outline.worn = 0, 0
    if most < FEWEST_BLOCKS:
        return
    step = (len(instants) + 1) // (most * ROWS // 2) + 1
    rows = 1 + (len(instants) + step - 1) // step
    outline.drawn, outline.blocks = rows, (rows + ROWS // 2 - 1) // (ROWS // 2)
    if outline.blocks > len(outline.count):
        blocks = min(2 * outline.blocks, max(most, outline.blocks))
        outline.begin = np.zeros(blocks * ROWS, np.int64)
        outline.count, outline.stale = np.zeros(blocks, np.int64), np.zeros(blocks, np.int64)
        outline.room = np.zeros((resources, blocks * ROWS, nodes), np.int16)
        outline.least = np.zeros((resources, blocks, nodes), np.int16)
        outline.over, outline.trial = np.zeros((resources, nodes), np.int16), np.zeros((resources, nodes), np.int16)
        outline.fit = np.zeros(nodes, np.int16)
    outline.count[:] = 0
    outline.stale[:] = 1
    for i in range(rows):
        b = i // (ROWS // 2)
        outline.begin[b * ROWS + outline.count[b]] = PAST if i == 0 else instants[(i - 1) * step]
        outline.count[b] += 1
    for k in range(resources):
        few_turns()
        largest = int64(0)
        for node in range(nodes):
            largest = max(largest, state.machine.base[node, k])
        outline.shift[k] = 0
        while largest >> outline.shift[k] >= 1 << BITS:
            outline.shift[k] += 1
    if not drawn_before:
        outline.shortage[:, AFTER] = PAST
    outline.kept = 1
    _read_rows(state)


@kernel()
def _instants(state, gangs):
    """Return the instants after now at which waiting gangs start and end, and running ones end; ascending."""
    runs, found, n = state.runs, np.empty(2 * gangs + state.runs.active, np.int64), 0
    rewind(state, 0)
    job = following(state, 0)
    while job >= 0:
        t = state.promises.reserved[job]
        if not state.jobs.alone[job] and t != NO_TIME:
            found[n], found[n + 1] = t, min(t, FUTURE - span(state, job)) + span(state, job)
            n += 2
        job = following(state, 0)
    for i in range(runs.active):
        if runs.many[runs.by_limit[i]] > 1:
            found[n] = runs.limits[i]
            n += 1
    found = found[:n]
    found.sort()
    different = 0
    for i in range(n):
        if state.now < found[i] < FUTURE and (different == 0 or found[i] > found[different - 1]):
            found[different] = found[i]
            different += 1
    return found[:different]


@kernel()
def _read_rows(state):
    """Read all bounds from the plan, row by row."""
    outline, plan, nodes = state.plan.outline, state.plan.nodes, state.machine.nodes
    place, entry = np.empty(nodes, np.int64), np.empty(nodes, np.int64)
    for node in range(nodes):
        place[node], entry[node] = find(plan, node, state.now)
    for b in range(outline.blocks):
        for r in range(b * ROWS, b * ROWS + outline.count[b]):
            end = _end(outline, b, r)
            for node in range(nodes):
                place[node], entry[node] = _read(state, r, node, place[node], entry[node], end)


@kernel(inline=True)
def _read(state, r, node, d, e, end):
    """Read a bound from the plan, given the entry at the begin of a row. Return the entry at its end."""
    outline, plan = state.plan.outline, state.plan.nodes
    for k in range(state.machine.resources):
        few_turns()
        outline.room[k, r, node] = _units_up(outline, k, available(plan, node, d, e, k))
    while True:
        next_place, ahead = entry_after(plan, node, d, e)
        if ahead == NONE or plan.time[ahead] >= end:
            if ahead != NONE and plan.time[ahead] == end:
                return next_place, ahead
            return d, e
        d, e = next_place, ahead
        for k in range(state.machine.resources):
            few_turns()
            here = _units_up(outline, k, available(plan, node, d, e, k))
            outline.room[k, r, node] = max(outline.room[k, r, node], here)


@kernel(inline=True)
def _units_up(outline, k, amount):
    """Return an amount of resource k in its units, rounded up."""
    shift = outline.shift[k]
    return _bounded((amount + (int64(1) << shift) - 1) >> shift)


@kernel(inline=True)
def _bounded(units):
    """Return a number of units as a bound: no node has more than 2**BITS, and the least bound is as far below 0."""
    return int16(max(min(units, int64(1) << BITS), -(int64(1) << BITS)))


@kernel(inline=True)
def _end(outline, b, r):
    """Return where row r, in block b, ends."""
    if r + 1 < b * ROWS + outline.count[b]:
        return outline.begin[r + 1]
    return outline.begin[(b + 1) * ROWS] if b + 1 < outline.blocks else FUTURE


@kernel()
def _row_at(outline, t):
    """Return the block and the row of an instant."""
    low, high = int64(0), outline.blocks
    while high - low > 1:
        middle = (low + high) >> 1
        if outline.begin[middle * ROWS] <= t:
            low = middle
        else:
            high = middle
    r = low * ROWS
    while r + 1 < low * ROWS + outline.count[low] and outline.begin[r + 1] <= t:
        r += 1
    return low, r


@apart(pairs=int64[:, ::1])
def draw_booking(state, job, pairs, first, many, begin, end, sign):
    """Heed what was booked (sign 1) or released (-1) on the nodes in `many` pairs (node, tasks) from `first` on."""
    outline, demand, now = state.plan.outline, state.jobs.demand, state.now
    begin, end = max(begin, now), min(end, FUTURE)
    if end <= begin:
        return
    if sign > 0 and many > 1 and end - begin > 1:
        _part_row(outline, begin, now)
        _part_row(outline, end, now)
    if sign < 0:
        _doubt(outline, begin, end)
    b, r = _row_at(outline, begin)
    while b < outline.blocks and max(outline.begin[r], now) < end:
        whole = r == b * ROWS and max(outline.begin[r], now) >= begin
        whole = whole and _end(outline, b, r + outline.count[b] - 1) <= end
        if not whole:
            outline.stale[b] = 1
        while r < b * ROWS + outline.count[b] and max(outline.begin[r], now) < end:
            if whole or (max(outline.begin[r], now) >= begin and _end(outline, b, r) <= end):
                _add(outline.room, r, outline.shift, demand, job, pairs, first, many, sign)
            elif sign < 0:
                for pair in range(first, first + many):
                    d, e = find(state.plan.nodes, pairs[pair, 0], max(outline.begin[r], now))
                    _read(state, r, pairs[pair, 0], d, e, _end(outline, b, r))
            r += 1
        if whole:
            _add(outline.least, b, outline.shift, demand, job, pairs, first, many, sign)
        b += 1
        r = b * ROWS


@kernel(inline=True)
def _doubt(outline, begin, end):
    """Forget the shortages in which something is released."""
    for i in range(SHORTAGES):
        shortage = outline.shortage[i]
        if shortage[FIRST] < end and shortage[LAST] > begin:
            shortage[AFTER] = PAST


@kernel()
def _add(bounds, row, shift, demand, job, pairs, first, many, sign):
    """Add what is released to the bounds of a row, or subtract what is booked; both rounded upwards.

    Each time an amount is released and booked again, a bound may rise by one.
    """
    for k in range(len(shift)):
        up = int64(0) if sign > 0 else (int64(1) << shift[k]) - 1
        for pair in range(first, first + many):
            units = (pairs[pair, 1] * demand[job, k] + up) >> shift[k]
            node = pairs[pair, 0]
            bounds[k, row, node] = _bounded(int64(bounds[k, row, node]) - sign * units)


@kernel()
def _part_row(outline, t, now):
    """Let a row begin at t, if there is space in its block."""
    if t <= now or t >= FUTURE:
        return
    b, r = _row_at(outline, t)
    if outline.begin[r] == t:
        return
    outline.worn += 1
    if outline.count[b] == ROWS:
        return
    last = b * ROWS + outline.count[b]
    while last > r:
        outline.begin[last] = outline.begin[last - 1]
        for k in range(len(outline.shift)):
            _copy(outline.room[k, last - 1], outline.room[k, last])
        last -= 1
    outline.begin[r + 1] = t
    outline.count[b] += 1


@apart()
def first_in_outline(state, job, begin, before, held):
    """Return the first start of [begin, before) that the outline does not exclude for a gang; else `before`.

    held: where it is booked, FUTURE if it is not. From there on it lacks nothing, as what it has booked counts as free.
    """
    t = begin
    while t < before:
        later = _after_known(state, job, t, held)
        if later == t:
            later = first_among_all(state, job, t, before)
        if later == t:
            later = _after_shortage(state, job, t, held)
            if later == t:
                return t
        t = later
    return before


@apart()
def count_tasks(state, job, t):
    """Count in `fit` how many tasks of a gang each node takes at most from t on, the last answer of `first_in_outline`.

    2**BITS stand for any number. Return the end of the row of t: no window that begins before it takes more by the
    outline.
    """
    outline = state.plan.outline
    _fit(state, job, outline.over, outline.fit)
    b, r = _row_at(outline, t)
    return _end(outline, b, r)


@kernel()
def _after_known(state, job, t, held):
    """Return the first start from t on that no known shortage excludes by itself."""
    outline, jobs, end, after = state.plan.outline, state.jobs, min(t + span(state, job), held), t
    for i in range(SHORTAGES):
        shortage = outline.shortage[i]
        if shortage[AFTER] <= after or shortage[REACHED] >= end or shortage[TASKS] >= jobs.tasks[job]:
            continue
        lacks = shortage[MOST] >= jobs.most[job] and (shortage[BOUND] == NONE or shortage[BOUND] == jobs.bound[job])
        for k in range(len(outline.shift)):
            lacks = lacks and outline.demand[i, k] <= jobs.demand[job, k]
        if lacks:
            after = shortage[AFTER]
    return after


@kernel()
def _note_shortage(state, job, b, r, last, last_row, tasks):
    """Record that a job finds so many tasks in a window from row r, in block b, to another one."""
    outline, slot = state.plan.outline, state.plan.outline.shortages % SHORTAGES
    shortage = outline.shortage[slot]
    shortage[FIRST], shortage[LAST] = outline.begin[r], _end(outline, last, last_row)
    shortage[AFTER], shortage[REACHED] = _end(outline, b, r), outline.begin[last_row]
    shortage[TASKS], shortage[MOST], shortage[BOUND] = tasks, state.jobs.most[job], state.jobs.bound[job]
    for k in range(len(outline.shift)):
        outline.demand[slot, k] = state.jobs.demand[job, k]
    outline.shortages += 1


@kernel()
def _after_shortage(state, job, t, held):
    """Return the end of the last row at which a gang that starts at t lacks tasks; t if there is none."""
    outline, plan, jobs, end = state.plan.outline, state.plan, state.jobs, min(t + span(state, job), FUTURE)
    over, trial, shift = outline.over, outline.trial, outline.shift
    tasks = min(jobs.tasks[job], int64(1) << BITS)  # no node is counted with more, so fewer are lacking for certain
    first, first_row = _row_at(outline, t)
    b, r = _row_at(outline, min(end, held) - 1)
    last, last_row = b, r
    for k in range(len(shift)):
        _fill(state, job, over[k])
    if end > held:
        for k in range(len(shift)):
            _copy(over[k], trial[k])
        found = _tasks_with(state, job, outline.room, r, trial)
        if found < tasks:
            _note_shortage(state, job, b, r, last, last_row, found)
            return held
        b, r = _row_at(outline, end - 1)
        while max(outline.begin[r], t) >= held:
            if r == b * ROWS + outline.count[b] - 1 and b > first and outline.begin[b * ROWS] >= held:
                _bound_block(outline, b)
                _lower_all(outline, outline.least, b, over)
                r = b * ROWS
            else:
                _lower_all(outline, outline.room, r, over)
            b, r = _before(outline, b, r)
        for k in range(len(shift)):
            for pair in range(plan.first[job], plan.first[job] + plan.many[job]):
                own = (plan.pairs[pair, 1] * jobs.demand[job, k] + (int64(1) << shift[k]) - 1) >> shift[k]
                over[k, plan.pairs[pair, 0]] = _bounded(int64(over[k, plan.pairs[pair, 0]]) + own)
    while r >= first_row:
        if r == b * ROWS + outline.count[b] - 1 and b > first:
            _bound_block(outline, b)
            for k in range(len(shift)):
                _copy(over[k], trial[k])
            if _tasks_with(state, job, outline.least, b, trial) >= tasks:
                for k in range(len(shift)):
                    _copy(trial[k], over[k])
                b, r = _before(outline, b, b * ROWS)
                continue
        found = _tasks_with(state, job, outline.room, r, over)
        if found < tasks:
            if end <= held:
                _note_shortage(state, job, b, r, last, last_row, found)
            return min(_end(outline, b, r), held)
        b, r = _before(outline, b, r)
    return t


@apart()
def may_take_ahead(state, job, held, ahead):
    """Return whether one of the nodes before `ahead` may take another task of a planned gang beside it at its start."""
    outline, end, shift = state.plan.outline, held + span(state, job), state.plan.outline.shift
    over, fit = outline.over, outline.fit[:ahead]
    b, r = _row_at(outline, held)
    for k in range(len(shift)):
        _fill(state, job, over[k, :ahead])
    heeded = 0
    while b < outline.blocks and outline.begin[r] < end:
        n = outline.count[b]
        whole = r == b * ROWS and _end(outline, b, r + n - 1) <= end
        if whole:
            _bound_block(outline, b)
        for k in range(len(shift)):
            row = outline.least[k, b] if whole else outline.room[k, r]
            _lower(over[k, :ahead], row)
        heeded += 1
        if heeded % CHECKED == 0 and _most(state, job, over, fit) == 0:
            return False
        r += 1
        if whole or r == b * ROWS + n:
            b += 1
            r = b * ROWS
    return _most(state, job, over, fit) > 0


@kernel()
def _most(state, job, over, fit):
    """Return the largest number of tasks that one of the first nodes takes at most; 0 or less if none takes any."""
    _fit(state, job, over, fit)
    most = int16(0)
    for node in range(len(fit)):
        most = max(most, fit[node])
    return int64(most)


@kernel(inline=True)
def _before(outline, b, r):
    """Return the block and the row before a row; -1 before the first."""
    if r > b * ROWS:
        return b, r - 1
    b -= 1
    return b, b * ROWS + outline.count[b] - 1 if b >= 0 else int64(NONE)


@kernel()
def _bound_block(outline, b):
    """Compute the least of a block's rows, if it is stale."""
    if outline.stale[b]:
        for k in range(len(outline.shift)):
            _copy(outline.room[k, b * ROWS], outline.least[k, b])
            for r in range(b * ROWS + 1, b * ROWS + outline.count[b]):
                _lower(outline.least[k, b], outline.room[k, r])
        outline.stale[b] = 0


@kernel()
def _lower_all(outline, bounds, row, over):
    """Lower what is free over a window by a row of bounds."""
    for k in range(len(outline.shift)):
        _lower(over[k], bounds[k, row])


@kernel()
def _tasks_with(state, job, bounds, row, over):
    """Lower `over` to a row of bounds. Return how many tasks all nodes together take at most by it."""
    outline = state.plan.outline
    for k in range(len(outline.shift)):
        _lower(over[k], bounds[k, row])
    if len(outline.shift) == 1 and state.jobs.demand[job, 0] == 1 and outline.shift[0] == 0:
        return _sum(over[0], int16(min(state.jobs.most[job], int64(1) << BITS)))
    _fit(state, job, over, outline.fit)
    return _sum(outline.fit, int16(int64(1) << BITS))


@kernel()
def _fit(state, job, over, fit):
    """Count the tasks of a job that each of the first nodes takes at most."""
    shift, demand = state.plan.outline.shift, state.jobs.demand
    fit[:] = int16(min(state.jobs.most[job], int64(1) << BITS))
    for k in range(len(shift)):
        if demand[job, k] == 1 and shift[k] == 0:
            _lower(fit, over[k])
        elif demand[job, k] > 0:
            _count(over[k], np.float32(SURELY * float(int64(1) << shift[k]) / float(demand[job, k])), fit)


# Loops over all nodes, which become vector instructions.


@kernel()
def _fill(state, job, bounds):
    """Set the bounds of the first nodes to the highest, and to 0 where a job may not run."""
    for node in range(len(bounds)):
        bounds[node] = int16(int64(1) << BITS)
    if state.jobs.bound[job] >= 0:
        allowed = state.machine.allowed[state.jobs.bound[job]]
        for node in range(len(bounds)):
            bounds[node] = bounds[node] if allowed[node] != 0 else int16(0)


@kernel()
def _copy(bounds, to):
    for node in range(len(to)):
        to[node] = bounds[node]


@kernel()
def _lower(bounds, more):
    """Lower bounds in place. With an array for the result that may be one of these two, LLVM would give up vectors."""
    for node in range(len(bounds)):
        bounds[node] = min(bounds[node], more[node])


@kernel()
def _count(bounds, one, fit):
    """Lower the number of tasks of each node to its bound times `one`."""
    for node in range(len(fit)):
        fit[node] = min(fit[node], int16(min(np.float32(bounds[node]) * one, np.float32(int64(1) << BITS))))


@kernel()
def _sum(fit, most):
    """Add up the tasks of all nodes, at most `most` of each: fewer than 2**31, as so many nodes have no outline."""
    total = int32(0)
    for node in range(len(fit)):
        total = int32(total + max(min(fit[node], most), int16(0)))
    return int64(total)
