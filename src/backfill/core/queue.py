"""The waiting jobs in one or two orders, and the one walk over them that every policy uses.

A short queue is an array in order. A long one whose order is static becomes a segment tree: its leaves are the jobs in
rank order, each node holds the least need per resource and the least walltime of the waiting jobs below it, so the next
job that can start is one descent. A dynamic order is sorted before each pass and always walked.
"""

import numpy as np
from numba import types

from backfill.core.order import rank_changes, score
from backfill.core.profile import FUTURE
from backfill.core.record import kernel
from backfill.core.state import StateT

SHALLOW = 128  # a deep queue this short goes back to the array
LOOKS = 0  # counters[LOOKS]: jobs or tree nodes that were looked at


@kernel()
def enqueue(state, job):
    """Put a job that has become eligible into every order."""
    state.waiting += 1
    for slot in range(state.slots):
        if state.deep:
            _plant(state, slot, job)
        else:
            _insert(state, slot, job)
    if not state.deep and state.waiting >= state.deep_at:
        _deepen(state)


@kernel()
def dequeue(state, job):
    """Take a job that starts out of every order."""
    state.waiting -= 1
    for slot in range(state.slots):
        if state.deep:
            _uproot(state, slot, job)
        else:
            _remove(state, slot, job)
    if state.deep and state.waiting < SHALLOW:
        _flatten(state)


@kernel()
def _insert(state, slot, job):
    i = state.back[slot]
    rank = state.rank[slot, job]
    while i > state.front[slot] and state.rank[slot, state.queue[slot, i - 1]] > rank:
        state.queue[slot, i] = state.queue[slot, i - 1]
        i -= 1
    state.queue[slot, i] = job
    state.back[slot] += 1


@kernel()
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
def _plant(state, slot, job):
    """Fill the leaf of a job."""
    base = slot * 2 * state.leaves
    node = state.leaves + state.rank[slot, job]
    for k in range(state.resources):
        state.tree_need[base + node, k] = state.need[job, k]
    state.tree_walltime[base + node] = state.walltime[job]
    node >>= 1
    while node > 0:
        grew = False
        for k in range(state.resources):
            if state.need[job, k] < state.tree_need[base + node, k]:
                state.tree_need[base + node, k] = state.need[job, k]
                grew = True
        if state.walltime[job] < state.tree_walltime[base + node]:
            state.tree_walltime[base + node] = state.walltime[job]
            grew = True
        if not grew:
            return
        node >>= 1


@kernel()
def _uproot(state, slot, job):
    """Empty the leaf of a job."""
    base = slot * 2 * state.leaves
    node = state.leaves + state.rank[slot, job]
    for k in range(state.resources):
        state.tree_need[base + node, k] = FUTURE
    state.tree_walltime[base + node] = FUTURE
    node >>= 1
    while node > 0:
        changed = False
        left = base + 2 * node
        for k in range(state.resources):
            least = min(state.tree_need[left, k], state.tree_need[left + 1, k])
            if least != state.tree_need[base + node, k]:
                state.tree_need[base + node, k] = least
                changed = True
        least = min(state.tree_walltime[left], state.tree_walltime[left + 1])
        if least != state.tree_walltime[base + node]:
            state.tree_walltime[base + node] = least
            changed = True
        if not changed:
            return
        node >>= 1


@kernel()
def _deepen(state):
    for slot in range(state.slots):
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
        place = _descend(state, slot, 0, FUTURE, False)
        while place >= 0:
            job = state.ranked[slot, place]
            state.queue[slot, n] = job
            n += 1
            if place < reached:
                at = n
            _uproot(state, slot, job)
            place = _descend(state, slot, place + 1, FUTURE, False)
        state.front[slot] = 0
        state.back[slot] = n
        state.at[slot] = at
    state.deep = 0


@kernel()
def _may_start(state, need, row, walltime, span):
    """Whether a job with this need could start now: it fits in what is free, and ends in time or fits in the extra."""
    if state.pool:
        for k in range(state.resources):
            if need[row, k] > state.free[0, k]:
                return False
        if walltime <= span:
            return True
        for k in range(state.resources):
            if need[row, k] > state.extra[0, k]:
                return False
        return True
    for k in range(state.resources):
        if need[row, k] > state.total[k]:
            return False
    return True


@kernel()
def _descend(state, slot, place, span, fitting):
    """The first waiting place from `place` on, of a job that may start if `fitting`; -1 if there is none."""
    base = slot * 2 * state.leaves
    node = state.leaves + place
    if place >= state.leaves:
        return -1
    looks = 0
    while True:
        looks += 1
        if state.tree_walltime[base + node] < FUTURE and (
            not fitting or _may_start(state, state.tree_need, base + node, state.tree_walltime[base + node], span)
        ):
            if node >= state.leaves:
                state.counters[LOOKS] += looks
                return node - state.leaves
            node *= 2
        else:
            while node & 1:
                node >>= 1
            if node == 0:
                state.counters[LOOKS] += looks
                return -1
            node += 1


@kernel()
def rewind(state, slot):
    """Begin a walk at the first job of an order."""
    state.at[slot] = 0 if state.deep else state.front[slot]


@kernel()
def following(state, slot):
    """The next waiting job of the walk; -1 at the end."""
    if state.deep:
        place = _descend(state, slot, state.at[slot], FUTURE, False)
        if place < 0:
            return np.int64(-1)
        state.at[slot] = place + 1
        return np.int64(state.ranked[slot, place])
    if state.at[slot] < state.back[slot]:
        state.at[slot] += 1
        return state.queue[slot, state.at[slot] - 1]
    return np.int64(-1)


@kernel()
def candidate(state, slot, span):
    """The next waiting job of the walk that may start now; -1 at the end.

    It fits in what is free, and its walltime is at most `span` or it fits in the extra as well. On one node without
    licences that is enough; elsewhere it is a necessary condition, and `place` decides.
    """
    if state.deep:
        place = _descend(state, slot, state.at[slot], span, True)
        if place < 0:
            return np.int64(-1)
        state.at[slot] = place + 1
        return np.int64(state.ranked[slot, place])
    i, back = state.at[slot], state.back[slot]
    begin = i
    while i < back:
        job = state.queue[slot, i]
        i += 1
        if _may_start(state, state.need, job, state.walltime[job], span):
            state.at[slot] = i
            state.counters[LOOKS] += i - begin
            return job
    state.at[slot] = i
    state.counters[LOOKS] += i - begin
    return np.int64(-1)


@kernel()
def head(state):
    """The first waiting job in the policy's order; -1 when nobody waits."""
    if state.waiting == 0:
        return np.int64(-1)
    if state.deep:
        return np.int64(state.ranked[0, _descend(state, 0, 0, FUTURE, False)])
    return state.queue[0, state.front[0]]


@kernel()
def is_first(state, job):
    """Whether no job waits before this one in the policy's order."""
    return head(state) == job


@kernel(types.void, StateT)
def keep(state):
    """What `arrange` is where no order changes with time."""


@kernel()
def arrange(state):
    """Sort the queue in every order that changes with time. The loop does this before each pass."""
    for slot in range(state.slots):
        if rank_changes(state.order[slot]):
            jobs = np.sort(state.queue[slot, state.front[slot] : state.back[slot]])
            for job in jobs:
                state.key[job] = score(
                    state.order[slot],
                    state.now - state.submit[job],
                    state.walltime[job],
                    state.need[job, 0],
                    state.submit[job] - state.submit[0],
                    state.priority[job],
                )
            sort_by_key(state, slot, jobs)


@kernel()
def sort_by_key(state, slot, jobs):
    """Put the waiting jobs of an order in ascending order of state.key; equal keys by submit, then file order."""
    keys = np.empty(len(jobs), np.float64)
    for i in range(len(jobs)):
        keys[i] = state.key[jobs[i]]
    by = np.argsort(keys, kind="mergesort")
    for i in range(len(jobs)):
        state.queue[slot, i] = jobs[by[i]]
    state.front[slot] = 0
    state.back[slot] = len(jobs)
