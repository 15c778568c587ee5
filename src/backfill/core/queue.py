"""The waiting jobs in one or two orders, and the one walk over them that every policy uses.

A short queue is an array in order. A long one whose order is static is searched by a segment tree: its leaves are
buckets of jobs in rank order, and a node holds, for each class of walltimes, the least need per resource among the
waiting jobs below it that are of that class or shorter. So the next job that can start is about one descent. A dynamic
order is sorted before each pass and always walked.
"""

import math
from typing import Any

import numpy as np
from numba import int8, int16, int32, int64

from backfill.core.errors import BY_IS_FIRST, NO_KEYS, NO_ORDER, NONE, NOT_WAITING, fail
from backfill.core.order import rank_changes, ranks, score
from backfill.core.profile import FUTURE
from backfill.core.record import kernel, record, zeros
from backfill.core.trace import LOOKS
from backfill.core.wall import verb
from backfill.model.workload import Ints, Jobs

DEEP = 512  # queue length, for each two resources, from which a static order is searched by its tree
SHALLOW = 128  # a deep queue this short goes back to the array
BUCKET = 16  # jobs at a leaf of the tree
CLASSES = 32  # of walltimes
ANYBODY = np.int64(-1)  # as a span: any waiting job will do
NOBODY = 2**15 - 1  # least need where nobody waits

QUEUE = [
    ("waiting", int64),
    ("slots", int64),
    ("order", int64[::1]),  # (slots,): code of an order, see order.py
    ("line", int64[:, ::1]),  # (slots, n): jobs in order, from front to back
    ("front", int64[::1]),
    ("back", int64[::1]),
    ("at", int64[::1]),  # (slots,): where a walk goes on
    ("rank", int32[:, ::1]),  # (slots, n): place of a job in a static order of all jobs
    ("ranked", int32[:, ::1]),  # (slots, n): job at a place
    ("deep", int64),  # 1: the tree is in use
    ("deep_at", int64),  # queue length from which it is
    ("waits", int8[::1]),
    ("length", int8[::1]),  # (n,): class of a walltime, of the jobs in the tree
    ("first", int64[::1]),  # (slots,): no job of the tree waits at an earlier place
    ("buckets", int64),
    ("tree", int16[:, ::1]),  # (slots * 2 * buckets, k * classes): least need of jobs of a walltime class or shorter
    ("class_bound", int64[::1]),  # (classes - 1,): the longest walltime of each class but the last
    ("limits", int64[:, ::1]),  # (2, k): what a candidate may need at most; if it does not end in time
    ("short", int16[:, ::1]),  # (2, k): the same as the tree counts it
]
Queue, QueueT = record("Queue", QUEUE, globals())


def new_queue(jobs: Jobs, orders: tuple[int, ...], index: bool, need: Ints, estimate: Ints) -> Any:
    """Nobody waits. index: whether a deep queue is searched by a tree."""
    slots, (n, k) = len(orders), need.shape
    buckets = 1 << max((n - 1) // BUCKET, 1).bit_length() if index else 1
    rank = np.empty((slots, n), np.int32)
    ranked = np.empty((slots, n), np.int32)
    for slot, order in enumerate(orders):
        rank[slot], ranked[slot] = ranks(order, estimate, np.ascontiguousarray(need[:, 0]), jobs.submit, jobs.priority)
    return Queue(
        waiting=0,
        slots=slots,
        order=np.array(orders, np.int64),
        line=np.empty((slots, n + 1), np.int64),
        front=zeros(slots),
        back=zeros(slots),
        at=zeros(slots),
        rank=rank,
        ranked=ranked,
        deep=0,
        deep_at=DEEP * max(k // 2, 1) if index else FUTURE,
        waits=np.zeros(n, np.int8),
        length=np.zeros(n, np.int8),
        first=zeros(slots),
        buckets=buckets,
        tree=np.full((slots * 2 * buckets, CLASSES * k), NOBODY, np.int16),
        class_bound=_class_bounds(estimate),
        limits=zeros(2, k),
        short=np.zeros((2, k), np.int16),
    )


def _class_bounds(walltime: Ints) -> Ints:
    """Bounds that part the walltimes into CLASSES classes of about equal size."""
    if not len(walltime):
        return np.zeros(CLASSES - 1, np.int64)
    sample = np.sort(walltime[:: max(len(walltime) // 4096, 1)])
    return np.ascontiguousarray(sample[np.arange(1, CLASSES) ** 2 * len(sample) // CLASSES**2])


@kernel(inline=True)
def enqueue(state, job):
    """Put a job that has become eligible into every order."""
    state.queue.waiting += 1
    state.queue.waits[job] = 1
    for slot in range(state.queue.slots):
        if state.queue.deep:
            _plant(state, slot, job)
        else:
            _insert(state, slot, job)
    if not state.queue.deep and state.queue.waiting >= state.queue.deep_at:
        _deepen(state)


@kernel(inline=True)
def dequeue(state, job):
    """Take a job that starts out of every order."""
    state.queue.waiting -= 1
    state.queue.waits[job] = 0
    for slot in range(state.queue.slots):
        if state.queue.deep:
            _uproot(state, slot, job)
        else:
            _remove(state, slot, job)
    if state.queue.deep and state.queue.waiting < SHALLOW:
        _flatten(state)


@kernel(inline=True)
def _insert(state, slot, job):
    if state.queue.back[slot] == state.queue.line.shape[1]:
        _move_up(state, slot)
    i = state.queue.back[slot]
    rank = state.queue.rank[slot, job]
    while i > state.queue.front[slot] and state.queue.rank[slot, state.queue.line[slot, i - 1]] > rank:
        state.queue.line[slot, i] = state.queue.line[slot, i - 1]
        i -= 1
    state.queue.line[slot, i] = job
    state.queue.back[slot] += 1


@kernel()
def _move_up(state, slot):
    """Jobs that came back have used up the end of the line: let it begin at the front again."""
    front, line = state.queue.front[slot], state.queue.line
    for i in range(front, state.queue.back[slot]):
        line[slot, i - front] = line[slot, i]
    state.queue.front[slot], state.queue.back[slot] = 0, state.queue.back[slot] - front
    state.queue.at[slot] -= front


@kernel(inline=True)
def _remove(state, slot, job):
    front, back = state.queue.front[slot], state.queue.back[slot]
    i = front
    if state.queue.line[slot, i] == job:
        state.queue.front[slot] = front + 1
        state.queue.at[slot] = max(state.queue.at[slot], front + 1)
        return
    if state.queue.at[slot] > front and state.queue.line[slot, state.queue.at[slot] - 1] == job:
        i = state.queue.at[slot] - 1
    while state.queue.line[slot, i] != job:
        i += 1
    for k in range(i, back - 1):
        state.queue.line[slot, k] = state.queue.line[slot, k + 1]
    state.queue.back[slot] = back - 1
    if state.queue.at[slot] > i:
        state.queue.at[slot] -= 1


@kernel()
def _class_of(state, walltime):
    """The class of a walltime: how many of the bounds lie below it."""
    c = 0
    while c < CLASSES - 1 and state.queue.class_bound[c] < walltime:
        c += 1
    return c


@kernel(inline=True)
def _short(amount):
    """An amount in 16 bits, rounded down: exact below 1,024, to ten leading bits above; in the order of the amounts."""
    if amount < 1024:
        return np.int16(max(amount, -1))
    mantissa, exponent = math.frexp(amount)
    return np.int16(1024 + int((2 * mantissa - 1 + exponent - 11) * 512))


@kernel()
def _plant(state, slot, job):
    """Let the bucket of a job, and every node above it, know its need."""
    state.queue.length[job] = _class_of(state, state.jobs.walltime[job])
    state.queue.first[slot] = min(state.queue.first[slot], state.queue.rank[slot, job])
    base = slot * 2 * state.queue.buckets
    for k in range(state.machine.resources):
        need = _short(state.jobs.need[job, k])
        node = state.queue.buckets + state.queue.rank[slot, job] // BUCKET
        while node > 0 and _lower(state, base + node, k, state.queue.length[job], need):
            node >>= 1


@kernel()
def _uproot(state, slot, job):
    """Forget the need of a job that waits no longer."""
    c = state.queue.length[job]
    base = slot * 2 * state.queue.buckets
    bucket = state.queue.rank[slot, job] // BUCKET
    for k in range(state.machine.resources):
        node = state.queue.buckets + bucket
        # Where the job was not the least of its class, it was not the least of any longer class either.
        if _short(state.jobs.need[job, k]) > state.queue.tree[base + node, k * CLASSES + c]:
            continue
        for i in range(k * CLASSES + c, (k + 1) * CLASSES):
            state.queue.tree[base + node, i] = NOBODY
        for place in range(bucket * BUCKET, min((bucket + 1) * BUCKET, state.jobs.rows)):
            other = state.queue.ranked[slot, place]
            if state.queue.waits[other]:
                _lower(state, base + node, k, max(c, state.queue.length[other]), _short(state.jobs.need[other, k]))
        node >>= 1
        while node > 0 and _gather(state, base + node, base + 2 * node, k, c):
            node >>= 1


@kernel(inline=True)
def _lower(state, node, resource, c, need):
    """Let a node know a need of class c; whether that is news to it."""
    news = False
    for i in range(resource * CLASSES + c, (resource + 1) * CLASSES):
        news |= need < state.queue.tree[node, i]
        state.queue.tree[node, i] = min(state.queue.tree[node, i], need)
    return news


@kernel(inline=True)
def _gather(state, node, left, resource, c):
    """Make a node the least of those below it, from class c on; whether that changed it."""
    changed = False
    for i in range(resource * CLASSES + c, (resource + 1) * CLASSES):
        least = min(state.queue.tree[left, i], state.queue.tree[left + 1, i])
        changed |= least != state.queue.tree[node, i]
        state.queue.tree[node, i] = least
    return changed


@kernel()
def _deepen(state):
    for slot in range(state.queue.slots):
        state.queue.first[slot] = state.jobs.rows
        for i in range(state.queue.front[slot], state.queue.back[slot]):
            _plant(state, slot, state.queue.line[slot, i])
        state.queue.front[slot] = state.queue.back[slot] = 0
    state.queue.deep = 1


@kernel()
def _flatten(state):
    """Back to the array. A walk that is under way goes on behind the place that it had reached."""
    for slot in range(state.queue.slots):
        n = 0
        reached = state.queue.at[slot]
        at = 0
        place = _next_place(state, slot, np.int64(0), ANYBODY)
        while place >= 0:
            state.queue.line[slot, n] = state.queue.ranked[slot, place]
            n += 1
            if place < reached:
                at = n
            place = _next_place(state, slot, place + 1, ANYBODY)
        for i in range(n):
            node = (
                slot * 2 * state.queue.buckets
                + state.queue.buckets
                + state.queue.rank[slot, state.queue.line[slot, i]] // BUCKET
            )
            while node > slot * 2 * state.queue.buckets:
                for c in range(CLASSES * state.machine.resources):
                    state.queue.tree[node, c] = NOBODY
                node = slot * 2 * state.queue.buckets + ((node - slot * 2 * state.queue.buckets) >> 1)
        state.queue.front[slot] = 0
        state.queue.back[slot] = n
        state.queue.at[slot] = at
    state.queue.deep = 0


@kernel(inline=True)
def _may_start(state, job, span):
    """Whether a job could start now: it fits in what is free, and ends in time or fits in the extra as well."""
    if not state.machine.pool:
        return _may_sit(state, job)
    for k in range(state.machine.resources):
        if state.jobs.need[job, k] > state.queue.limits[0, k]:
            return False
    if state.jobs.walltime[job] <= span:
        return True
    for k in range(state.machine.resources):
        if state.jobs.need[job, k] > state.queue.limits[1, k]:
            return False
    return True


@kernel(inline=True)
def _may_sit(state, job):
    """Whether the licences of a job are free, and what it needs on one node, or on all, is not more than is free there.

    The licence that it lacked last time is asked first.
    """
    first = state.jobs.licence_first[job]
    for item in range(first, state.jobs.licence_first[job + 1]):
        if state.free.licences[state.jobs.licence[item]] < state.jobs.licence_count[item, 0]:
            licence, count = state.jobs.licence[item], state.jobs.licence_count[item, 0]
            state.jobs.licence[item], state.jobs.licence_count[item, 0] = (
                state.jobs.licence[first],
                state.jobs.licence_count[first, 0],
            )
            state.jobs.licence[first], state.jobs.licence_count[first, 0] = licence, count
            return False
    for k in range(state.machine.resources):
        if state.jobs.need[job, k] > (state.free.most[k] if state.jobs.alone[job] else state.free.total[k]):
            return False
    return True


@kernel()
def _may_hold(state, node, c):
    """Whether a node of the tree may hold a job that could start: one of class c or shorter, or one for the extra."""
    fits = True
    for k in range(state.machine.resources):
        fits = fits and state.queue.tree[node, k * CLASSES + c] <= state.queue.short[0, k]
    if fits:
        return True
    for k in range(state.machine.resources):
        if state.queue.tree[node, (k + 1) * CLASSES - 1] > state.queue.short[1, k]:
            return False
    return True


@kernel()
def _next_place(state, slot, place, span):
    """The first place from `place` on of a waiting job that may start; -1 if there is none. ANYBODY: that waits."""
    base = slot * 2 * state.queue.buckets
    c = CLASSES - 1 if span == ANYBODY else _class_of(state, span)
    if span != ANYBODY and not _may_hold(state, base + 1, c):
        return NONE
    bucket = place // BUCKET
    looks = 0
    if span != ANYBODY and place == state.queue.first[slot]:  # nobody waits before it: down from the top is shorter
        bucket = _down(state, base, np.int64(1), span, c) - state.queue.buckets
        place = max(place, bucket * BUCKET)
    while bucket < state.queue.buckets:
        last = min((bucket + 1) * BUCKET, state.jobs.rows)
        while place < last:
            job = state.queue.ranked[slot, place]
            if state.queue.waits[job]:
                looks += 1
                if span == ANYBODY or _may_start(state, job, span):
                    state.trace.counters[LOOKS] += looks
                    return place
            place += 1
        node = state.queue.buckets + bucket
        down = False
        while not down:
            while node & 1:
                node >>= 1
            if node == 0:
                state.trace.counters[LOOKS] += looks
                return NONE
            node += 1
            looks += 1
            down = _somebody(state, base + node) if span == ANYBODY else _may_hold(state, base + node, c)
        bucket = _down(state, base, node, span, c) - state.queue.buckets
        place = bucket * BUCKET
    state.trace.counters[LOOKS] += looks
    return NONE


@kernel(inline=True)
def _down(state, base, node, span, c):
    """The first leaf below a node that may hold what is searched for."""
    while node < state.queue.buckets:
        node *= 2
        state.trace.counters[LOOKS] += 1
        if not (_somebody(state, base + node) if span == ANYBODY else _may_hold(state, base + node, c)):
            node += 1
    return node


@kernel()
def _somebody(state, node):
    return state.queue.tree[node, CLASSES - 1] < NOBODY


@kernel(inline=True)
def _set_limits(state):
    """What a candidate may need at most: of what is free, and if it does not end in time."""
    for k in range(state.machine.resources):
        if state.machine.pool:
            state.queue.limits[0, k] = state.free.nodes[0, k]
            state.queue.limits[1, k] = min(state.free.nodes[0, k], state.shadow.extra[0, k])
        else:
            state.queue.limits[0, k] = state.queue.limits[1, k] = state.free.total[k]
            state.free.most[k] = 0
            for block in range(state.free.peak.shape[0]):
                state.free.most[k] = max(state.free.most[k], state.free.peak[block, k])
        for i in range(2):
            state.queue.short[i, k] = _short(state.queue.limits[i, k])


@kernel(inline=True)
def _is_order(state, slot):
    """Whether a number is that of an order of the policy; any other is a misuse."""
    if slot < 0 or slot >= state.queue.slots:
        fail(state, NO_ORDER, NONE, NONE, slot, state.queue.slots)
        return False
    return True


@kernel(inline=True)
def is_waiting(state, job, by):
    """Whether a number is that of a waiting job; any other is a misuse. by: the verb that asks, see errors.py."""
    if job < 0 or job >= state.jobs.count or state.queue.waits[job] == 0:
        fail(state, NOT_WAITING, job, by, NONE, NONE)
        return False
    return True


@verb(inline=True)
def rewind(state, slot):
    """Begin a walk at the first job of an order."""
    if not _is_order(state, slot):
        return
    state.queue.at[slot] = state.queue.first[slot] if state.queue.deep else state.queue.front[slot]


@verb(inline=True)
def following(state, slot):
    """The next waiting job of the walk; -1 at the end."""
    if not _is_order(state, slot):
        return NONE
    if state.queue.deep:
        place = _next_place(state, slot, state.queue.at[slot], ANYBODY)
        if place < 0:
            return NONE
        state.queue.at[slot] = place + 1
        return np.int64(state.queue.ranked[slot, place])
    if state.queue.at[slot] < state.queue.back[slot]:
        state.queue.at[slot] += 1
        return state.queue.line[slot, state.queue.at[slot] - 1]
    return NONE


@verb(inline=True)
def candidate(state, slot, span):
    """The next waiting job of the walk that may start now; -1 at the end.

    It fits in what is free, and its walltime is at most `span` or it fits in the extra as well. On one node without
    licences that is enough; elsewhere it is a necessary condition, and `place` decides.
    """
    if not _is_order(state, slot):
        return NONE
    _set_limits(state)
    if state.queue.deep:
        place = _next_place(state, slot, state.queue.at[slot], max(span, 0))
        if place < 0:
            return NONE
        state.queue.at[slot] = place + 1
        return np.int64(state.queue.ranked[slot, place])
    i, back = state.queue.at[slot], state.queue.back[slot]
    begin = i
    while i < back:
        job = state.queue.line[slot, i]
        i += 1
        if _may_start(state, job, span):
            state.queue.at[slot] = i
            state.trace.counters[LOOKS] += i - begin
            return job
    state.queue.at[slot] = i
    state.trace.counters[LOOKS] += i - begin
    return NONE


@verb(inline=True)
def head(state):
    """The first waiting job in the policy's order; -1 when nobody waits."""
    if state.queue.waiting == 0:
        return NONE
    if state.queue.deep:
        state.queue.first[0] = _next_place(state, 0, state.queue.first[0], ANYBODY)
        return np.int64(state.queue.ranked[0, state.queue.first[0]])
    return state.queue.line[0, state.queue.front[0]]


@verb(inline=True)
def is_first(state, job):
    """Whether no job waits before this one in the policy's order."""
    return is_waiting(state, job, BY_IS_FIRST) and head(state) == job


@kernel()
def arrange(state):
    """Sort the queue in every order that changes with time. The loop does this before each pass."""
    for slot in range(state.queue.slots):
        if rank_changes(state.queue.order[slot]):
            _sort(state, slot)


@verb()
def arrange_by(state, slot, keys):
    """Put the waiting jobs in ascending order of keys[job]; equal ones by submit, then file order.

    For policies that declare `sorts`. Cost: what it takes to mend the order of the last pass, at most a sort.
    """
    if not _is_order(state, slot):
        return
    if len(keys) < state.jobs.count:
        fail(state, NO_KEYS, NONE, NONE, len(keys), state.jobs.count)
        return
    front, back = state.queue.front[slot], state.queue.back[slot]
    moves, most = 0, 8 * (back - front)
    for i in range(front + 1, back):
        job = state.queue.line[slot, i]
        key = keys[job]
        place = i
        while place > front and moves <= most:
            other = state.queue.line[slot, place - 1]
            beside = keys[other]
            if beside < key or (beside == key and other < job):
                break
            state.queue.line[slot, place] = other
            place -= 1
            moves += 1
        state.queue.line[slot, place] = job
        if moves > most:
            _sort_by(state, slot, keys)
            return


@kernel()
def _sort_by(state, slot, keys):
    jobs = np.sort(state.queue.line[slot, state.queue.front[slot] : state.queue.back[slot]])
    _put(state, slot, jobs, keys[jobs])


@kernel()
def _sort(state, slot):
    """Put the waiting jobs in ascending order of their scores; equal ones by submit, then file order."""
    jobs = np.sort(state.queue.line[slot, state.queue.front[slot] : state.queue.back[slot]])
    keys = np.empty(len(jobs), np.float64)
    for i in range(len(jobs)):
        job = jobs[i]
        keys[i] = score(
            state.queue.order[slot],
            state.now - state.jobs.submit[job],
            state.jobs.walltime[job],
            state.jobs.need[job, 0],
            state.jobs.submit[job] - state.jobs.submit[0],
            state.jobs.priority[job],
        )
    _put(state, slot, jobs, keys)


@kernel()
def _put(state, slot, jobs, keys):
    """Make jobs the queue of a slot, in ascending order of their keys."""
    by = np.argsort(keys, kind="mergesort")
    for i in range(len(jobs)):
        state.queue.line[slot, i] = jobs[by[i]]
    state.queue.front[slot] = 0
    state.queue.back[slot] = len(jobs)
