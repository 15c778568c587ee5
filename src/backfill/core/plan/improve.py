"""One turn of a planned job: move it to an earlier start if free capacity appeared for one."""

import numpy as np
from numba import int64

from backfill.compiler.kernel import apart, kernel
from backfill.compiler.wall import verb
from backfill.core.place.gangs import may_run_on, seat
from backfill.core.place.placement import SITE
from backfill.core.plan.grown import (
    BEGIN,
    END,
    FRESH,
    GAIN,
    GAINED,
    NO_LATER,
    NO_SOONER,
    NODE,
    READ,
    RECENT,
    fact_of_gang,
    gain_of_growth,
    level_of,
    may_gain,
    note_gain,
    note_together,
    note_vain,
    row_of,
    vain_until,
)
from backfill.core.plan.outline import first_in_outline, may_take_ahead
from backfill.core.plan.plan import book_job, book_pairs, earliest_by_power, keep_place
from backfill.core.plan.profile import FUTURE, GIVE, PAST, TAKE, book, earliest, free_since, tasks_over
from backfill.core.plan.rooms import border, bucket, note_growth, note_one, open_pool
from backfill.core.plan.search import (
    KEPT,
    LEFT,
    NOT_KEPT,
    ONLY,
    TAKEN,
    first_among_all,
    is_plain,
    span,
)
from backfill.core.plan.several import earliest_of_gang, first_gain
from backfill.core.trace import LOOKS

UNKNOWN = np.int64(-1)  # the row of failed searches, as long as it is not needed


@verb()
def improve(state, job):
    """Move a booked job to its earliest start, never later than its present one. Return the new start."""
    if state.machine.pool:
        return _improve_on_pool(state, job)
    held = state.promises.reserved[job]
    if state.plan.grown.first[RECENT] >= held + span(state, job):
        return held
    if state.plan.grown.unknown[RECENT]:
        return _improve_anew(state, job, held, state.now)
    if not is_plain(state, job):
        return _improve_licensed(state, job, held)
    return _improve_on_one_node(state, job, held) if state.jobs.alone[job] else _improve_gang(state, job, held)


@apart()
def _improve_anew(state, job, held, begin):
    """Take a job out of the plan, and book it again at its earliest start from `begin` on."""
    state.trace.counters[LOOKS] += 1
    end = held + span(state, job)
    book_job(state, job, held, end, GIVE)
    t = min(earliest_by_power(state, job, begin), held)
    book_job(state, job, held, end, TAKE)
    if t < held or not _placed_where_held(state, job):
        _rebook(state, job, held, t)
    return t


@apart()
def _improve_licensed(state, job, held):
    """Move a job with licences or limits, which are searched first: mostly they leave it no earlier start.

    They may have been all that was in the way, so nodes that did not grow count as well. The job stays booked for the
    search.
    """
    t = _licences_allow(state, job, state.now, held)
    if state.jobs.alone[job]:
        return _improve_beside_licences(state, job, held, t)
    if t < held or _grew_ahead(state, job, held):
        return _improve_anew(state, job, held, t)
    return held


@kernel()
def _licences_allow(state, job, begin, held):
    """Return the first instant from which a job's licences, and the bounds of nodes, leave it room; `held` if none."""
    plan, jobs, length, t = state.plan, state.jobs, span(state, job), begin
    found = False
    while not found and t < held:
        later = t
        for item in range(jobs.licence_first[job], jobs.licence_first[job + 1]):
            if later < held:
                lane = jobs.licence[item]
                later = earliest(plan.licences, lane, jobs.licence_count, item, TAKE, later, held, held, length)
        if later < held:
            later = _bounds_leave(state, job, later, held, held)
        found, t = later == t, later
    return min(t, held)


@kernel()
def _improve_beside_licences(state, job, held, t):
    """Move a job of one node to its earliest start from t on, or to a more powerful node for the same start."""
    own, row = state.plan.pairs[state.plan.first[job], 0], row_of_job(state, job, span(state, job))
    best, best_node = held, own
    while t < held:
        best, best_node = _first_of_all_nodes(state, job, held, t, row)
        t = _licences_allow(state, job, best, held) if best < held else held
        if t == best:
            break
        best, best_node = held, own
    if best == held and best_node == own:
        best_node = _stronger_node(state, job, held, row)
    if best < held or best_node != own:
        _rebook_on(state, job, held, best, best_node)
    return best


@kernel()
def _stronger_node(state, job, held, row):
    """Return the most powerful node that takes a job of one node at its present start: its own, or one that grew."""
    plan, jobs, grown, length = state.plan, state.jobs, state.plan.grown, span(state, job)
    own = plan.pairs[plan.first[job], 0]
    for i in range(grown.count[RECENT]):
        node = grown.node[RECENT, i]
        if node >= own:
            break
        if grown.until[RECENT, node] <= held or grown.since[RECENT, node] >= held + length:
            continue
        if row != NOT_KEPT and vain_until(grown, row, node, length, held) > held:
            continue
        if may_run_on(state, job, node):
            state.trace.counters[LOOKS] += 1
            known = held + 1 if row == NOT_KEPT else FUTURE
            t = earliest(plan.nodes, node, jobs.demand, job, jobs.tasks[job], held, known, FUTURE, length)
            if t == held:
                return node
            if row != NOT_KEPT:
                note_vain(grown, row, node, length, held, t)
    return own


@kernel()
def _first_of_all_nodes(state, job, held, begin, row):
    """Return the first start from `begin` to `held` on any node, and the node, the most powerful of several."""
    plan, jobs, grown, length = state.plan, state.jobs, state.plan.grown, span(state, job)
    own = plan.pairs[plan.first[job], 0]
    best, best_node = held, own
    for node in range(state.machine.nodes):
        before, t = best + (node < best_node), begin
        if node == own:
            if begin < best and may_run_on(state, job, own):
                state.trace.counters[LOOKS] += 1
                t = earliest(plan.nodes, own, jobs.demand, job, jobs.tasks[job], begin, best, held, length)
            else:
                t = FUTURE
        else:
            if row != NOT_KEPT:
                t = vain_until(grown, row, node, length, begin)
            if t < before and may_run_on(state, job, node):
                state.trace.counters[LOOKS] += 1
                known = before if row == NOT_KEPT else FUTURE
                t = earliest(plan.nodes, node, jobs.demand, job, jobs.tasks[job], t, known, FUTURE, length)
                if row != NOT_KEPT:
                    note_vain(grown, row, node, length, begin, t)
            elif t < before:
                t = FUTURE
        if t < before:
            best, best_node = t, node
    return best, best_node


@kernel()
def _rebook(state, job, held, t):
    """Book a planned job with its present placement at t, not later than `held`, in place of what it holds.

    Nodes that it leaves have grown, and those on which it stays only behind its new end.
    """
    plan, placed, seats, length = state.plan, state.placed, state.search.seats, span(state, job)
    first, behind, end = int64(0), max(held, t + length), held + length
    kept, left, taken = _compare_nodes(state, job)
    if t == held:
        book_pairs(state, job, seats[LEFT], first, left, held, end, GIVE)
        book_pairs(state, job, seats[TAKEN], first, taken, held, end, TAKE)
    else:
        book_job(state, job, held, end, GIVE)
        book_pairs(state, job, placed.pairs, first, placed.count, t, t + length, TAKE)
    grew, since, until = left, held if left > 0 else behind, min(end, FUTURE)
    for i in range(left):
        note_one(state, seats[LEFT, i, 0], held, until)
    if behind < until:
        for i in range(kept):
            note_one(state, seats[KEPT, i, 0], behind, until)
        grew += kept
    note_together(plan.grown, grew, since, until)
    keep_place(state, job)


@kernel()
def _compare_nodes(state, job):
    """Compare the nodes of a planned job with those of its present placement, both ascending.

    Pairs (node, tasks) go to `search.seats`. Return the numbers of those that are kept, left and taken.
    """
    plan, placed, seats = state.plan, state.placed, state.search.seats
    mine, here, kept, left, taken = int64(plan.first[job]), int64(0), int64(0), int64(0), int64(0)
    last = mine + plan.many[job]
    while mine < last or here < placed.count:
        node = plan.pairs[mine, 0] if mine < last else int64(state.machine.nodes)
        if here < placed.count:
            node = min(node, placed.pairs[here, 0])
        old, new = int64(0), int64(0)
        if mine < last and plan.pairs[mine, 0] == node:
            old = plan.pairs[mine, 1]
            mine += 1
        if here < placed.count and placed.pairs[here, 0] == node:
            new = placed.pairs[here, 1]
            here += 1
        if min(old, new) > 0:
            seats[KEPT, kept, 0], seats[KEPT, kept, 1] = node, min(old, new)
            kept += 1
        if old > new:
            seats[LEFT, left, 0], seats[LEFT, left, 1] = node, old - new
            left += 1
        elif new > old:
            seats[TAKEN, taken, 0], seats[TAKEN, taken, 1] = node, new - old
            taken += 1
    return kept, left, taken


@apart()
def _improve_on_one_node(state, job, held):
    """Find an earlier start on a node that grew, or the same start on a more powerful node.

    On its own node, the time from its start on is covered by its own booking, so the job stays booked during the
    search.
    """
    plan, jobs, grown, length = state.plan, state.jobs, state.plan.grown, span(state, job)
    row = row_of_job(state, job, length)
    own = plan.pairs[plan.first[job], 0]
    best, best_node = _slide_on_own(state, job, held, own), own
    if row == NOT_KEPT or _gain_of_row(state, job, row, held + 1) <= held:
        gain = FUTURE
        for i in range(grown.count[RECENT]):
            node = grown.node[RECENT, i]
            since = begin = max(state.now, grown.since[RECENT, node] - length + 1)
            before, until = best + (node < best_node), grown.until[RECENT, node]
            last = min(before, until)
            if row != NOT_KEPT and begin < last:
                begin = vain_until(grown, row, node, length, begin)
            if begin < last and node != own:
                if may_run_on(state, job, node):
                    state.trace.counters[LOOKS] += 1
                    known = before if row == NOT_KEPT else FUTURE
                    begin = earliest(plan.nodes, node, jobs.demand, job, jobs.tasks[job], begin, known, FUTURE, length)
                    if row != NOT_KEPT:
                        note_vain(grown, row, node, length, since, begin)
                else:
                    begin = FUTURE
                if begin < before:
                    best, best_node = begin, node
            if begin < until:
                gain = min(gain, begin)
        if row != NOT_KEPT:
            note_gain(grown, row, length, gain)
    if best < held or best_node != own:
        _rebook_on(state, job, held, best, best_node)
    return best


@kernel()
def _rebook_on(state, job, held, t, node):
    """Book a job of one node, which holds `held`, at t on a node instead; what it leaves has grown."""
    plan, length = state.plan, span(state, job)
    own = plan.pairs[plan.first[job], 0]
    book_job(state, job, held, held + length, GIVE)
    plan.pairs[plan.first[job], 0] = node
    book_job(state, job, t, t + length, TAKE)
    note_growth(state, own, max(held, t + length) if node == own else held, min(held + length, FUTURE))


@kernel()
def _slide_on_own(state, job, held, own):
    """Return the first start on a job's own node, if that grew, from which it reaches the time it already holds."""
    grown, length = state.plan.grown, span(state, job)
    begin, before = max(state.now, grown.since[RECENT, own] - length + 1), min(held, grown.until[RECENT, own])
    if begin >= before or not may_run_on(state, job, own):
        return held
    state.trace.counters[LOOKS] += 1
    jobs = state.jobs
    return min(earliest(state.plan.nodes, own, jobs.demand, job, jobs.tasks[job], begin, before, held, length), held)


@apart()
def _gain_of_row(state, job, row, limit):
    """Return a lower bound of the start on freed time for jobs of this row that have a placement elsewhere.

    It follows from the last walk over the nodes that grew, and from later growth. It is exact up to `limit`.
    """
    plan, jobs, grown, length = state.plan, state.jobs, state.plan.grown, span(state, job)
    known = grown.gain[row]
    if known[GAINED] != length or grown.logged - known[READ] > len(grown.log):
        return state.now
    gain, tasks = known[GAIN], jobs.tasks[job]
    for i in range(known[READ], grown.logged):
        slot = i & (len(grown.log) - 1)
        if not may_gain(grown, row, slot, length):
            continue
        node, since, end = grown.log[slot, NODE], grown.log[slot, BEGIN] - length + 1, grown.log[slot, END]
        since = max(state.now, since)
        if since >= min(gain, end):
            continue
        t = vain_until(grown, row, node, length, since)
        if t < min(gain, limit) and may_run_on(state, job, node):
            state.trace.counters[LOOKS] += 1
            t = earliest(plan.nodes, node, jobs.demand, job, tasks, t, FUTURE, FUTURE, length)
            note_vain(grown, row, node, length, since, t)
        if t < end:
            gain = min(gain, t)
    known[GAIN], known[READ] = gain, grown.logged
    return gain


@apart()
def _improve_gang(state, job, held):
    """Search for a start of a gang where growth, all nodes together and the outline leave one; else for better nodes.

    Its own tasks count as free from `held` on.
    """
    plan, grown, length, own = state.plan, state.plan.grown, span(state, job), state.search.own
    first, last, t = plan.first[job], plan.first[job] + plan.many[job], held
    level, since = level_of(state.jobs.demand[job, 0]), max(state.now, grown.first[RECENT] - length + 1)
    begin, before, more = gain_of_growth(grown, level, length, plan.heeded[job], since, held)
    plan.heeded[job] = grown.together
    if state.free.shapes.exact and begin < before and begin <= held - length:
        begin, t = _before_own(state, job, begin, held)
    if t == held:
        if begin < before:
            for pair in range(first, last):
                own[plan.pairs[pair, 0]] = plan.pairs[pair, 1]
            t = on_freed_time(state, job, begin, before, held)
            t = t if t < before else held
            for pair in range(first, last):
                own[plan.pairs[pair, 0]] = 0
        if t == held and more and _grew_ahead(state, job, held):
            _reseat(state, job, held, row_of_job(state, job, length))
    if t < held:
        _rebook(state, job, held, t)
    return t


@kernel()
def _bounds_leave(state, job, begin, before, held):
    """Return the first start of [begin, before) that neither the outline nor all nodes together exclude.

    It is `before` or later if there is none. held: where a gang is booked.
    """
    if state.plan.outline.kept and not state.jobs.alone[job]:
        return first_in_outline(state, job, begin, before, held)
    return first_among_all(state, job, begin, before)


@apart()
def on_freed_time(state, job, begin, before, held):
    """Return the first start of a gang of [begin, before) on freed time; `before` if there is none.

    held: where it is booked, with its tasks in `search.own` if they count as free from there on; FUTURE if it is not.
    """
    if begin < before:
        begin = min(_bounds_leave(state, job, begin, before, held), before)
    if begin < before:
        row = row_of_job(state, job, span(state, job))
        state.search.gain[: state.plan.grown.count[RECENT]] = PAST
        begin = first_gain(state, job, begin, before, held, row)
        if begin < before:
            state.trace.counters[LOOKS] += 1
            begin = earliest_of_gang(state, job, begin, before, held, row)
    return min(begin, before)


@apart()
def _before_own(state, job, begin, held):
    """Find a start of a planned gang from `begin` on from which it ends by its present start, `held`.

    What it has booked does not matter there. So a search in vain holds for all gangs like it, until nodes grow. Return
    where the search has to continue, and the start; `held` if there is none here.
    """
    grown, search, length = state.plan.grown, state.search, span(state, job)
    shape, before = int64(state.jobs.shape[job]), held - length + 1
    fact = grown.gangs[fact_of_gang(grown, shape, level_of(state.jobs.demand[job, 0]), state.jobs.tasks[job], length)]
    if fact[NO_SOONER] <= begin and before <= fact[NO_LATER]:
        return before, held
    search.vain_since, search.vain_until = fact[NO_SOONER], fact[NO_LATER]
    t = on_freed_time(state, job, begin, before, held)
    search.vain_since = search.vain_until = PAST
    if t < before:
        return t, t
    if fact[NO_SOONER] > before or fact[NO_LATER] < begin or fact[NO_LATER] <= fact[NO_SOONER]:
        fact[NO_SOONER], fact[NO_LATER] = begin, before
    fact[NO_SOONER], fact[NO_LATER] = min(fact[NO_SOONER], begin), max(fact[NO_LATER], before)
    return before, held


@kernel()
def _grew_ahead(state, job, held):
    """Return whether a node that grew, more powerful than the last one of a gang, takes another task at its start."""
    plan, jobs, grown, length = state.plan, state.jobs, state.plan.grown, span(state, job)
    row, site, weakest = UNKNOWN, jobs.spread[job] == SITE, plan.pairs[plan.first[job] + plan.many[job] - 1, 0]
    if plan.outline.kept and not may_take_ahead(state, job, held, state.machine.nodes if site else weakest):
        return False
    for i in range(grown.count[RECENT]):
        node = grown.node[RECENT, i]
        if node >= weakest and not site:
            return False
        if grown.until[RECENT, node] <= held or grown.since[RECENT, node] >= held + length:
            continue
        if row == UNKNOWN:
            row = row_of_job(state, job, length)
        if row != NOT_KEPT and vain_until(grown, row, node, length, held) > held:
            continue
        one = np.int64(1)
        if may_run_on(state, job, node):
            fits, release = tasks_over(plan.nodes, node, held, held + length, jobs.demand, job, one)
            if fits > 0:
                return True
            if row != NOT_KEPT:
                t = earliest(plan.nodes, node, jobs.demand, job, one, release, FUTURE, FUTURE, length)
                note_vain(grown, row, node, length, held, t)
    return False


@kernel()
def row_of_job(state, job, length):
    """Return the row of failed searches for a job; NOT_KEPT if other jobs of its shape may request less."""
    if not state.free.shapes.exact:
        return NOT_KEPT
    units = state.jobs.tasks[job] if state.jobs.alone[job] else TAKE
    return row_of(state.plan.grown, np.int64(state.jobs.shape[job]), length, units * state.jobs.demand[job, 0])


@kernel()
def _reseat(state, job, held, row):
    """Move a gang to more powerful nodes for the same start, if some grew.

    On nodes ahead of its last one it already has all tasks that fit, so only nodes that grew can take more.
    """
    plan, jobs, grown, length, tasks = state.plan, state.jobs, state.plan.grown, span(state, job), state.search.tasks
    if jobs.spread[job] == SITE:
        _improve_anew(state, job, held, held)
        return
    state.trace.counters[LOOKS] += 1
    first, last, most = plan.first[job], plan.first[job] + plan.many[job], jobs.most[job]
    weakest, left = plan.pairs[last - 1, 0], jobs.tasks[job]
    for node in range(weakest + 1):
        tasks[node] = 0
    for pair in range(first, last):
        tasks[plan.pairs[pair, 0]] = plan.pairs[pair, 1]
    for node in range(weakest):
        grew = grown.until[RECENT, node] > held and may_run_on(state, job, node)
        if grew and (row == NOT_KEPT or vain_until(grown, row, node, length, held) == held):
            more = most - tasks[node]  # beside its own tasks
            tasks[node] += tasks_over(plan.nodes, node, held, held + length, jobs.demand, job, more)[0]
        left -= tasks[node]
        if left <= 0:
            break
    seat(state, job, tasks, np.int64(0))
    if not _placed_where_held(state, job):
        _rebook(state, job, held, held)


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
    """Improve a job on a pool.

    There is one lane, where the time from its start on is covered by its own booking, so it stays booked for the
    search.
    """
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
    left = max(held, t + length)  # the move releases [left, held + length) and takes what the job did not hold already
    book(state.plan.nodes, ONLY, left, held + length, state.jobs.need, job, GIVE)
    book(state.plan.nodes, ONLY, t, min(held, t + length), state.jobs.need, job, TAKE)
    open_pool(state, left, held + length)
    return t


@kernel()
def _earlier_window(state, job, held, length):
    """Return the first start of a job on a pool from which it ends by `held`; FUTURE if there is none.

    A window that ends in bucket b needs free capacity of at least its length there: all other buckets are skipped.
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
    """Return an upper bound of how long the need of a job is free anywhere in buckets first to last (exclusive)."""
    rooms, level = state.plan.rooms, state.plan.rooms_level[job]
    if state.plan.rooms_need[level] < state.jobs.need[job, 0]:
        level += 1
    while level <= state.plan.rooms_high:
        state.plan.rooms_marked[level, 0] = FUTURE
        for b in range(first, last):
            rooms[RECENT, level, b] = min(rooms[RECENT, level, b], length)
            rooms[FRESH, level, b] = min(rooms[FRESH, level, b], length)
        level += 1


@kernel()
def _slide(state, job, held):
    """Return the first start from which a job on a pool runs into the time that it already holds from `held` on."""
    if state.plan.rooms[RECENT, state.plan.rooms_level[job], bucket(state, held - 1)] == 0:
        return held
    state.trace.counters[LOOKS] += 1
    return max(state.now, free_since(state.plan.nodes, ONLY, state.jobs.need, job, TAKE, held))
