"""The waiting jobs in one or two orders, and the one walk over them that every policy uses.

A short queue is an array in order. A long one whose order is static is searched by a segment tree: its leaves are
buckets of jobs in rank order, and a node holds, for each class of walltimes, the least need per resource among the
waiting jobs below it that are of that class or shorter. So the next job that can start is about one descent. A dynamic
order is sorted before each pass and always walked.
"""

import math

import numpy as np

from backfill.core.counters import LOOKS
from backfill.core.errors import NO_ORDER, NONE, fail
from backfill.core.order import rank_changes, score
from backfill.core.record import kernel

SHALLOW = 128  # a deep queue this short goes back to the array
BUCKET = 16  # jobs at a leaf of the tree
CLASSES = 32  # of walltimes
ANYBODY = np.int64(-1)  # as a span: any waiting job will do
NOBODY = 2**15 - 1  # least need where nobody waits


@kernel(inline=True)
def enqueue(state, job):
    """Put a job that has become eligible into every order."""
    state.waiting += 1
    state.waits[job] = 1
    for slot in range(state.slots):
        if state.deep:
            _plant(state, slot, job)
        else:
            _insert(state, slot, job)
    if not state.deep and state.waiting >= state.deep_at:
        _deepen(state)


@kernel(inline=True)
def dequeue(state, job):
    """Take a job that starts out of every order."""
    state.waiting -= 1
    state.waits[job] = 0
    for slot in range(state.slots):
        if state.deep:
            _uproot(state, slot, job)
        else:
            _remove(state, slot, job)
    if state.deep and state.waiting < SHALLOW:
        _flatten(state)


@kernel(inline=True)
def _insert(state, slot, job):
    i = state.back[slot]
    rank = state.rank[slot, job]
    while i > state.front[slot] and state.rank[slot, state.queue[slot, i - 1]] > rank:
        state.queue[slot, i] = state.queue[slot, i - 1]
        i -= 1
    state.queue[slot, i] = job
    state.back[slot] += 1


@kernel(inline=True)
def _remove(state, slot, job):
    front, back = state.front[slot], state.back[slot]
    i = front
    if state.queue[slot, i] == job:
        state.front[slot] = front + 1
        state.at[slot] = max(state.at[slot], front + 1)
        return
    if state.at[slot] > front and state.queue[slot, state.at[slot] - 1] == job:
        i = state.at[slot] - 1
    while state.queue[slot, i] != job:
        i += 1
    for k in range(i, back - 1):
        state.queue[slot, k] = state.queue[slot, k + 1]
    state.back[slot] = back - 1
    if state.at[slot] > i:
        state.at[slot] -= 1


@kernel()
def _class_of(state, walltime):
    """The class of a walltime: how many of the bounds lie below it."""
    c = 0
    while c < CLASSES - 1 and state.class_bound[c] < walltime:
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
    state.length[job] = _class_of(state, state.walltime[job])
    state.first[slot] = min(state.first[slot], state.rank[slot, job])
    base = slot * 2 * state.buckets
    for k in range(state.resources):
        need = _short(state.need[job, k])
        node = state.buckets + state.rank[slot, job] // BUCKET
        while node > 0 and _lower(state, base + node, k, state.length[job], need):
            node >>= 1


@kernel()
def _uproot(state, slot, job):
    """Forget the need of a job that waits no longer."""
    c = state.length[job]
    base = slot * 2 * state.buckets
    bucket = state.rank[slot, job] // BUCKET
    for k in range(state.resources):
        node = state.buckets + bucket
        # Where the job was not the least of its class, it was not the least of any longer class either.
        if _short(state.need[job, k]) > state.tree[base + node, k * CLASSES + c]:
            continue
        for i in range(k * CLASSES + c, (k + 1) * CLASSES):
            state.tree[base + node, i] = NOBODY
        for place in range(bucket * BUCKET, min((bucket + 1) * BUCKET, state.jobs)):
            other = state.ranked[slot, place]
            if state.waits[other]:
                _lower(state, base + node, k, max(c, state.length[other]), _short(state.need[other, k]))
        node >>= 1
        while node > 0 and _gather(state, base + node, base + 2 * node, k, c):
            node >>= 1


@kernel(inline=True)
def _lower(state, node, resource, c, need):
    """Let a node know a need of class c; whether that is news to it."""
    news = False
    for i in range(resource * CLASSES + c, (resource + 1) * CLASSES):
        news |= need < state.tree[node, i]
        state.tree[node, i] = min(state.tree[node, i], need)
    return news


@kernel(inline=True)
def _gather(state, node, left, resource, c):
    """Make a node the least of those below it, from class c on; whether that changed it."""
    changed = False
    for i in range(resource * CLASSES + c, (resource + 1) * CLASSES):
        least = min(state.tree[left, i], state.tree[left + 1, i])
        changed |= least != state.tree[node, i]
        state.tree[node, i] = least
    return changed


@kernel()
def _deepen(state):
    for slot in range(state.slots):
        state.first[slot] = state.jobs
        for i in range(state.front[slot], state.back[slot]):
            _plant(state, slot, state.queue[slot, i])
        state.front[slot] = state.back[slot] = 0
    state.deep = 1


@kernel()
def _flatten(state):
    """Back to the array. A walk that is under way goes on behind the place that it had reached."""
    for slot in range(state.slots):
        n = 0
        reached = state.at[slot]
        at = 0
        place = _next_place(state, slot, np.int64(0), ANYBODY)
        while place >= 0:
            state.queue[slot, n] = state.ranked[slot, place]
            n += 1
            if place < reached:
                at = n
            place = _next_place(state, slot, place + 1, ANYBODY)
        for i in range(n):
            node = slot * 2 * state.buckets + state.buckets + state.rank[slot, state.queue[slot, i]] // BUCKET
            while node > slot * 2 * state.buckets:
                for c in range(CLASSES * state.resources):
                    state.tree[node, c] = NOBODY
                node = slot * 2 * state.buckets + ((node - slot * 2 * state.buckets) >> 1)
        state.front[slot] = 0
        state.back[slot] = n
        state.at[slot] = at
    state.deep = 0


@kernel(inline=True)
def _may_start(state, job, span):
    """Whether a job could start now: it fits in what is free, and ends in time or fits in the extra as well."""
    if not state.pool:
        return _may_sit(state, job)
    for k in range(state.resources):
        if state.need[job, k] > state.limits[0, k]:
            return False
    if state.walltime[job] <= span:
        return True
    for k in range(state.resources):
        if state.need[job, k] > state.limits[1, k]:
            return False
    return True


@kernel(inline=True)
def _may_sit(state, job):
    """Whether the licences of a job are free, and what it needs on one node, or on all, is not more than is free there.

    The licence that it lacked last time is asked first.
    """
    first = state.licence_first[job]
    for item in range(first, state.licence_first[job + 1]):
        if state.licence_free[state.licence[item]] < state.licence_count[item, 0]:
            licence, count = state.licence[item], state.licence_count[item, 0]
            state.licence[item], state.licence_count[item, 0] = state.licence[first], state.licence_count[first, 0]
            state.licence[first], state.licence_count[first, 0] = licence, count
            return False
    for k in range(state.resources):
        if state.need[job, k] > (state.most[k] if state.alone[job] else state.total[k]):
            return False
    return True


@kernel()
def _may_hold(state, node, c):
    """Whether a node of the tree may hold a job that could start: one of class c or shorter, or one for the extra."""
    fits = True
    for k in range(state.resources):
        fits = fits and state.tree[node, k * CLASSES + c] <= state.short[0, k]
    if fits:
        return True
    for k in range(state.resources):
        if state.tree[node, (k + 1) * CLASSES - 1] > state.short[1, k]:
            return False
    return True


@kernel()
def _next_place(state, slot, place, span):
    """The first place from `place` on of a waiting job that may start; -1 if there is none. ANYBODY: that waits."""
    base = slot * 2 * state.buckets
    c = CLASSES - 1 if span == ANYBODY else _class_of(state, span)
    if span != ANYBODY and not _may_hold(state, base + 1, c):
        return NONE
    bucket = place // BUCKET
    looks = 0
    if span != ANYBODY and place == state.first[slot]:  # nobody waits before it: down from the top is shorter
        bucket = _down(state, base, np.int64(1), span, c) - state.buckets
        place = max(place, bucket * BUCKET)
    while bucket < state.buckets:
        last = min((bucket + 1) * BUCKET, state.jobs)
        while place < last:
            job = state.ranked[slot, place]
            if state.waits[job]:
                looks += 1
                if span == ANYBODY or _may_start(state, job, span):
                    state.counters[LOOKS] += looks
                    return place
            place += 1
        node = state.buckets + bucket
        down = False
        while not down:
            while node & 1:
                node >>= 1
            if node == 0:
                state.counters[LOOKS] += looks
                return NONE
            node += 1
            looks += 1
            down = _somebody(state, base + node) if span == ANYBODY else _may_hold(state, base + node, c)
        bucket = _down(state, base, node, span, c) - state.buckets
        place = bucket * BUCKET
    state.counters[LOOKS] += looks
    return NONE


@kernel(inline=True)
def _down(state, base, node, span, c):
    """The first leaf below a node that may hold what is searched for."""
    while node < state.buckets:
        node *= 2
        state.counters[LOOKS] += 1
        if not (_somebody(state, base + node) if span == ANYBODY else _may_hold(state, base + node, c)):
            node += 1
    return node


@kernel()
def _somebody(state, node):
    return state.tree[node, CLASSES - 1] < NOBODY


@kernel(inline=True)
def _set_limits(state):
    """What a candidate may need at most: of what is free, and if it does not end in time."""
    for k in range(state.resources):
        if state.pool:
            state.limits[0, k] = state.free[0, k]
            state.limits[1, k] = min(state.free[0, k], state.extra[0, k])
        else:
            state.limits[0, k] = state.limits[1, k] = state.total[k]
            state.most[k] = 0
            for block in range(state.peak.shape[0]):
                state.most[k] = max(state.most[k], state.peak[block, k])
        for i in range(2):
            state.short[i, k] = _short(state.limits[i, k])


@kernel(inline=True)
def _is_order(state, slot):
    """Whether a number is that of an order of the policy; any other is a misuse."""
    if slot < 0 or slot >= state.slots:
        fail(state, NO_ORDER, NONE, NONE, slot, state.slots)
        return False
    return True


@kernel(inline=True)
def rewind(state, slot):
    """Begin a walk at the first job of an order."""
    if not _is_order(state, slot):
        return
    state.at[slot] = state.first[slot] if state.deep else state.front[slot]


@kernel(inline=True)
def following(state, slot):
    """The next waiting job of the walk; -1 at the end."""
    if not _is_order(state, slot):
        return NONE
    if state.deep:
        place = _next_place(state, slot, state.at[slot], ANYBODY)
        if place < 0:
            return NONE
        state.at[slot] = place + 1
        return np.int64(state.ranked[slot, place])
    if state.at[slot] < state.back[slot]:
        state.at[slot] += 1
        return state.queue[slot, state.at[slot] - 1]
    return NONE


@kernel(inline=True)
def candidate(state, slot, span):
    """The next waiting job of the walk that may start now; -1 at the end.

    It fits in what is free, and its walltime is at most `span` or it fits in the extra as well. On one node without
    licences that is enough; elsewhere it is a necessary condition, and `place` decides.
    """
    if not _is_order(state, slot):
        return NONE
    _set_limits(state)
    if state.deep:
        place = _next_place(state, slot, state.at[slot], max(span, 0))
        if place < 0:
            return NONE
        state.at[slot] = place + 1
        return np.int64(state.ranked[slot, place])
    i, back = state.at[slot], state.back[slot]
    begin = i
    while i < back:
        job = state.queue[slot, i]
        i += 1
        if _may_start(state, job, span):
            state.at[slot] = i
            state.counters[LOOKS] += i - begin
            return job
    state.at[slot] = i
    state.counters[LOOKS] += i - begin
    return NONE


@kernel(inline=True)
def head(state):
    """The first waiting job in the policy's order; -1 when nobody waits."""
    if state.waiting == 0:
        return NONE
    if state.deep:
        state.first[0] = _next_place(state, 0, state.first[0], ANYBODY)
        return np.int64(state.ranked[0, state.first[0]])
    return state.queue[0, state.front[0]]


@kernel(inline=True)
def is_first(state, job):
    """Whether no job waits before this one in the policy's order."""
    return head(state) == job


@kernel()
def arrange(state):
    """Sort the queue in every order that changes with time. The loop does this before each pass."""
    for slot in range(state.slots):
        if rank_changes(state.order[slot]):
            _sort(state, slot)


@kernel()
def arrange_by(state, slot, first):
    """Put the waiting jobs in ascending order of state.memory_f[first + job]; equal ones by submit, then file order.

    For policies that declare `sorts`. Cost: what it takes to mend the order of the last pass, at most a sort.
    """
    if not _is_order(state, slot):
        return
    front, back = state.front[slot], state.back[slot]
    moves, most = 0, 8 * (back - front)
    for i in range(front + 1, back):
        job = state.queue[slot, i]
        key = state.memory_f[first + job]
        place = i
        while place > front and moves <= most:
            other = state.queue[slot, place - 1]
            beside = state.memory_f[first + other]
            if beside < key or (beside == key and other < job):
                break
            state.queue[slot, place] = other
            place -= 1
            moves += 1
        state.queue[slot, place] = job
        if moves > most:
            _sort_by(state, slot, first)
            return


@kernel()
def _sort_by(state, slot, first):
    jobs = np.sort(state.queue[slot, state.front[slot] : state.back[slot]])
    keys = np.empty(len(jobs), np.float64)
    for i in range(len(jobs)):
        keys[i] = state.memory_f[first + jobs[i]]
    _put(state, slot, jobs, keys)


@kernel()
def _sort(state, slot):
    """Put the waiting jobs in ascending order of their scores; equal ones by submit, then file order."""
    jobs = np.sort(state.queue[slot, state.front[slot] : state.back[slot]])
    keys = np.empty(len(jobs), np.float64)
    for i in range(len(jobs)):
        job = jobs[i]
        keys[i] = score(
            state.order[slot],
            state.now - state.submit[job],
            state.walltime[job],
            state.need[job, 0],
            state.submit[job] - state.submit[0],
            state.priority[job],
        )
    _put(state, slot, jobs, keys)


@kernel()
def _put(state, slot, jobs, keys):
    """Make jobs the queue of a slot, in ascending order of their keys."""
    by = np.argsort(keys, kind="mergesort")
    for i in range(len(jobs)):
        state.queue[slot, i] = jobs[by[i]]
    state.front[slot] = 0
    state.back[slot] = len(jobs)
