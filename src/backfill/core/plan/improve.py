"""One turn of a job that has a place in the plan: an earlier start, where room for one appeared."""

import numpy as np

from backfill.compiler.kernel import apart, kernel
from backfill.compiler.wall import verb
from backfill.core.place.gangs import may_run_on
from backfill.core.place.placement import SITE
from backfill.core.plan.grown import FRESH, RECENT
from backfill.core.plan.plan import book_job, earliest_by_power, keep_place
from backfill.core.plan.profile import FUTURE, GIVE, NONE, TAKE, book, earliest, free_since, tasks_over
from backfill.core.plan.rooms import border, bucket, open_place, open_pool
from backfill.core.plan.search import ONLY, first_among_all, span
from backfill.core.trace import LOOKS


@verb()
def improve(state, job):
    """Put a booked job at its earliest start, never later than it is. Returns that start."""
    if state.machine.pool:
        return _improve_on_pool(state, job)
    held = state.promises.reserved[job]
    if state.plan.grown.first[RECENT] >= held + span(state, job):
        return held
    if state.plan.grown.unknown[RECENT] or state.jobs.licence_first[job] < state.jobs.licence_first[job + 1]:
        return _improve_anew(state, job, held, state.now)
    return _improve_on_one_node(state, job, held) if state.jobs.alone[job] else _improve_gang(state, job, held)


@apart()
def _improve_anew(state, job, held, begin):
    """Lift a job out, and put it back where it finds a place from `begin` on."""
    state.trace.counters[LOOKS] += 1
    end = held + span(state, job)
    book_job(state, job, held, end, GIVE)
    t = earliest_by_power(state, job, begin)
    if t == held and _placed_where_held(state, job):
        book_job(state, job, held, end, TAKE)
        return held
    open_place(state, state.plan.pairs, state.plan.first, state.plan.many, job, held, end)
    keep_place(state, job)
    book_job(state, job, t, t + span(state, job), TAKE)
    return t


@apart()
def _improve_on_one_node(state, job, held):
    """A start on a node that grew, which is earlier, or the same on a more powerful node.

    On its own node the time from its start on lies under its own booking, so it can stay booked for the look.
    """
    plan, jobs, grown, length = state.plan, state.jobs, state.plan.grown, span(state, job)
    shape = np.int64(jobs.shape[job]) if state.free.shapes.exact else NONE
    own = plan.pairs[plan.first[job], 0]
    best, best_node = held, own
    for i in range(grown.count[RECENT]):
        node = grown.node[RECENT, i]
        begin = max(state.now, grown.since[RECENT, node] - length + 1)
        known = shape >= 0 and node != own and grown.found[shape, node] == grown.times[node]
        if known and length >= grown.length[shape, node]:
            begin = max(begin, grown.soonest[shape, node])
        before, until = best + (node < best_node), held if node == own else FUTURE
        if begin >= min(before, grown.until[RECENT, node]):
            continue
        if not may_run_on(state, job, node):
            continue
        state.trace.counters[LOOKS] += 1
        t = earliest(plan.nodes, node, jobs.demand, job, jobs.tasks[job], begin, before, until, length)
        if t < before:
            best, best_node = t, node
        elif shape >= 0 and node != own:
            grown.found[shape, node] = grown.times[node]
            grown.length[shape, node], grown.soonest[shape, node] = length, before
    if best < held or best_node != own:
        book_job(state, job, held, held + length, GIVE)
        open_place(state, plan.pairs, plan.first, plan.many, job, held, held + length)
        plan.pairs[plan.first[job], 0] = best_node
        book_job(state, job, best, best + length, TAKE)
    return best


@apart()
def _improve_gang(state, job, held):
    """Look for a place only where all nodes together have room earlier, or a node more powerful than its last grew."""
    plan, jobs, grown, length = state.plan, state.jobs, state.plan.grown, span(state, job)
    end, weakest = held + length, plan.pairs[plan.first[job] + plan.many[job] - 1, 0]
    begin, better = held, False
    for i in range(grown.count[RECENT]):
        node = grown.node[RECENT, i]
        since, until = grown.since[RECENT, node], grown.until[RECENT, node]
        if since >= end or not may_run_on(state, job, node):
            continue
        begin = min(begin, max(state.now, since - length + 1))
        if until > held and not better:
            better = jobs.spread[job] == SITE or (
                node < weakest and tasks_over(plan.nodes, node, held, end, jobs.demand, job, jobs.tasks[job])[0] > 0
            )
    if begin < held:
        begin = min(held, first_among_all(state, job, begin, held))
    if begin < held:
        begin = _first_gain(state, job, begin, held)
    if begin == held and not better:
        return held
    return _improve_anew(state, job, held, begin)


@kernel()
def _first_gain(state, job, begin, held):
    """The first start of [begin, held) at which a node that grew takes a task, on time that was freed; `held` if none.

    At its last turn a gang lacked tasks at every earlier start, and only such nodes can take more of them since.
    """
    plan, jobs, grown, length = state.plan, state.jobs, state.plan.grown, span(state, job)
    shape, own, first = np.int64(jobs.shape[job]) if state.free.shapes.exact else NONE, state.search.out, held
    for pair in range(plan.first[job], plan.first[job] + plan.many[job]):
        own[plan.pairs[pair, 0]] = NONE
    for i in range(grown.count[RECENT]):
        node = grown.node[RECENT, i]
        mine = own[node] == NONE
        since = t = max(begin, grown.since[RECENT, node] - length + 1)
        until = before = min(first, grown.until[RECENT, node])
        known = shape >= 0 and not mine and grown.barren[shape, node] == grown.times[node]
        if known and length >= grown.barren_length[shape, node]:
            if grown.barren_since[shape, node] <= t:
                t = max(t, grown.barren_until[shape, node])
            elif grown.barren_until[shape, node] >= before:
                before = min(before, grown.barren_since[shape, node])
        if t >= before or not may_run_on(state, job, node):
            continue
        under_own = held if mine else FUTURE
        state.trace.counters[LOOKS] += 1
        t = earliest(plan.nodes, node, jobs.demand, job, np.int64(1), t, before, under_own, length)
        if t < before:
            first = t
        elif shape >= 0 and not mine:
            grown.barren[shape, node], grown.barren_length[shape, node] = grown.times[node], length
            grown.barren_since[shape, node], grown.barren_until[shape, node] = since, until
    for pair in range(plan.first[job], plan.first[job] + plan.many[job]):
        own[plan.pairs[pair, 0]] = 0
    return first


@kernel()
def _placed_where_held(state, job):
    if state.plan.many[job] != state.placed.count:
        return False
    for pair in range(state.placed.count):
        i = state.plan.first[job] + pair
        if (
            state.plan.pairs[i, 0] != state.placed.pairs[pair, 0]
            or state.plan.pairs[i, 1] != state.placed.pairs[pair, 1]
        ):
            return False
    return True


@apart()
def _improve_on_pool(state, job):
    """On one lane the time from its own start on lies under its own booking, so it can stay booked for the look."""
    held = state.promises.reserved[job]
    length = span(state, job)
    if not state.plan.rooms_kept:
        state.trace.counters[LOOKS] += 1
        before = min(held, state.plan.rooms_until[RECENT])
        t = min(earliest(state.plan.nodes, ONLY, state.jobs.need, job, TAKE, state.now, before, held, length), held)
    else:
        t = _earlier_window(state, job, held, length)
        if t == FUTURE:
            t = _slide(state, job, held)
    if t == held:
        return held
    left = max(held, t + length)  # it leaves [left, held + length) and takes what it did not hold already
    book(state.plan.nodes, ONLY, left, held + length, state.jobs.need, job, GIVE)
    book(state.plan.nodes, ONLY, t, min(held, t + length), state.jobs.need, job, TAKE)
    open_pool(state, left, held + length)
    return t


@kernel()
def _earlier_window(state, job, held, length):
    """The first start of a job on a pool from which it ends by `held`; FUTURE where there is none.

    A window that ends in bucket b lies in room of at least its length there: all other buckets are passed over.
    """
    rooms, level, last = state.plan.rooms, state.plan.rooms_level[job], bucket(state, held)
    b = 0
    while True:
        while b <= last and rooms[RECENT, level, b] < length:
            b += 1
        if b > last:
            return FUTURE
        first = b
        while b <= last and rooms[RECENT, level, b] >= length:
            b += 1
        begin = max(state.now, border(state, first) - length)
        before = (held if b > last else border(state, b)) - length + 1
        if begin < before:
            state.trace.counters[LOOKS] += 1
            t = earliest(state.plan.nodes, ONLY, state.jobs.need, job, TAKE, begin, before, FUTURE, length)
            if t < FUTURE:
                return t
        if state.machine.resources == 1:
            _cap(state, job, first, min(b, last), length - 1)


@kernel()
def _cap(state, job, first, last, length):
    """Nowhere in buckets first to last (exclusive) is the need of a job free for longer than this."""
    rooms, level = state.plan.rooms, state.plan.rooms_level[job]
    if state.plan.rooms_need[level] < state.jobs.need[job, 0]:
        level += 1
    while level <= state.plan.rooms_high:
        for b in range(first, last):
            rooms[RECENT, level, b] = min(rooms[RECENT, level, b], length)
            rooms[FRESH, level, b] = min(rooms[FRESH, level, b], length)
        level += 1


@kernel()
def _slide(state, job, held):
    """The first start from which a job on a pool can run into the time that it holds from `held` on."""
    if state.plan.rooms[RECENT, state.plan.rooms_level[job], bucket(state, held - 1)] == 0:
        return held
    state.trace.counters[LOOKS] += 1
    return max(state.now, free_since(state.plan.nodes, ONLY, state.jobs.need, job, TAKE, held))
