"""The waiting jobs in one or two orders, and the one walk over them that every policy uses.

A short queue is an array in order. A long one whose order is static is searched by a segment tree: its leaves are
buckets of jobs in rank order, and a node holds, for each class of walltimes, the least need per resource among the
waiting jobs below it that are of that class or shorter. So the next job that can start is about one descent. A dynamic
order is sorted before each pass and always walked.
"""

import numpy as np

from backfill.core.counters import LOOKS
from backfill.core.errors import NO_ORDER, NONE, fail
from backfill.core.order import rank_changes, score
from backfill.core.record import kernel

SHALLOW = 128  # a deep queue this short goes back to the array
BUCKET = 16  # jobs at a leaf of the tree
CLASSES = 16  # of walltimes
ANYBODY = np.int64(-1)  # as a span: any waiting job will do
NOBODY = 2**31 - 1  # least need where nobody waits
MOST = NOBODY - 1  # the greatest need in the tree, which is small so that it stays near the processor


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
def _counted_need(state, job, resource):
    """The need of a job as the tree counts it."""
    return np.int32(min(state.need[job, resource] >> state.coarse[resource], MOST))


@kernel()
def _plant(state, slot, job):
    """Let the bucket of a job, and every node above it, know its need."""
    k = state.resources
    state.length[job] = _class_of(state, state.walltime[job])
    state.first[slot] = min(state.first[slot], state.rank[slot, job])
    first = state.length[job] * k
    base = slot * 2 * state.buckets
    node = state.buckets + state.rank[slot, job] // BUCKET
    while node > 0:
        grew = False
        for i in range(first, CLASSES * k):
            need = _counted_need(state, job, i % k)
            if need < state.tree[base + node, i]:
                state.tree[base + node, i] = need
                grew = True
        if not grew:
            return
        node >>= 1


@kernel()
def _uproot(state, slot, job):
    """Forget the need of a job that waits no longer."""
    k = state.resources
    first = state.length[job] * k
    base = slot * 2 * state.buckets
    bucket = state.rank[slot, job] // BUCKET
    node = state.buckets + bucket
    counted = False
    for i in range(first, CLASSES * k):
        counted = counted or _counted_need(state, job, i % k) == state.tree[base + node, i]
    if not counted:
        return
    for i in range(first, CLASSES * k):
        state.tree[base + node, i] = NOBODY
    for place in range(bucket * BUCKET, min((bucket + 1) * BUCKET, state.jobs)):
        other = state.ranked[slot, place]
        if state.waits[other]:
            for i in range(max(first, state.length[other] * k), CLASSES * k):
                state.tree[base + node, i] = min(state.tree[base + node, i], _counted_need(state, other, i % k))
    node >>= 1
    while node > 0:
        left = base + 2 * node
        changed = False
        for i in range(first, CLASSES * k):
            least = min(state.tree[left, i], state.tree[left + 1, i])
            changed = changed or least != state.tree[base + node, i]
            state.tree[base + node, i] = least
        if not changed:
            return
        node >>= 1


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
    for k in range(state.resources):
        if state.need[job, k] > state.limits[0, k]:
            return False
    if state.walltime[job] <= span:
        return True
    for k in range(state.resources):
        if state.need[job, k] > state.limits[1, k]:
            return False
    return True


@kernel()
def _may_hold(state, node, c):
    """Whether a node of the tree may hold a job that could start: one of class c or shorter, or one for the extra."""
    k = state.resources
    fits = True
    for i in range(k):
        fits = fits and state.tree[node, c * k + i] <= min(state.limits[0, i] >> state.coarse[i], MOST)
    if fits:
        return True
    for i in range(k):
        if state.tree[node, (CLASSES - 1) * k + i] > min(state.limits[1, i] >> state.coarse[i], MOST):
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
        while node < state.buckets:
            node *= 2
            looks += 1
            if not (_somebody(state, base + node) if span == ANYBODY else _may_hold(state, base + node, c)):
                node += 1
        bucket = node - state.buckets
        place = bucket * BUCKET
    state.counters[LOOKS] += looks
    return NONE


@kernel()
def _somebody(state, node):
    return state.tree[node, (CLASSES - 1) * state.resources] < NOBODY


@kernel(inline=True)
def _set_limits(state):
    """What a candidate may need at most: of what is free, and if it does not end in time."""
    for k in range(state.resources):
        if state.pool:
            state.limits[0, k] = state.free[0, k]
            state.limits[1, k] = min(state.free[0, k], state.extra[0, k])
        else:
            state.limits[0, k] = state.limits[1, k] = state.total[k]


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
    by = np.argsort(keys, kind="mergesort")
    for i in range(len(jobs)):
        state.queue[slot, i] = jobs[by[i]]
    state.front[slot] = 0
    state.back[slot] = len(jobs)
