"""The places of a queue: who waits, in one or two orders, and what a walk asks of each, in one stretch of memory.

An order is by (key, job): the key is the score of a static order when the job becomes eligible. Beside each job lies a
copy of its walltime and need, so that a walk reads on. A short queue is one dense stretch; for a deep one see deep.py.
"""

from typing import Any

import numpy as np
from numba import float32, float64, int8, int32, int64

from backfill.compiler.kernel import apart, kernel
from backfill.compiler.record import record, shift_back, shift_forward, shift_rows_back, shift_rows_forward, zeros
from backfill.core.errors import NONE
from backfill.core.place.shapes import may_sit, units_of
from backfill.core.queue.order import FCFS, rank_changes, score

BLOCK = 32  # jobs that a block can hold
ROOMY = 24  # jobs in a block that still has room for some that come late
CLASSES = 32  # of sizes on a pool
NO_CLASS = np.int8(127)  # of a place that nobody has
DEEP = 256  # queue length from which static orders lie in blocks
SHALLOW = 64  # a deep queue this short is one stretch again
FIRST = 256  # places of an order at the beginning
SAMPLE = 4096  # sizes that the quantiles are taken from, at most
NOBODY = np.float32(np.inf)  # least walltime or need where nobody waits
END = np.int64(2**62)  # behind every job

QUEUE = [
    ("waiting", int64),
    ("waits", int8[::1]),  # (n,)
    ("fresh", int64[::1]),  # those that have become eligible since the last pass
    ("fresh_count", int64),
    ("holder", int64),  # the job for which a reservation was made last, which keeps its turn until it starts; -1 none
    ("aside", int32[::1]),  # (n,): the holder that overtook a job which a limit held back; length 1 without limits
    ("slots", int64),
    ("order", int64[::1]),  # (slots,): code of an order, see order.py
    # places: those of order s are s * places to (s + 1) * places, and so are the positions below
    ("places", int64),  # of one order: a power of two
    ("line", int64[::1]),  # job at a place
    ("key", float64[::1]),
    ("walltime", int64[::1]),
    ("need", int64[:, ::1]),  # (k, slots * places); among nodes (1, slots * places): units of its shape
    ("front", int64[::1]),  # (slots,): nobody waits before; in blocks the begin of a block
    ("back", int64[::1]),  # behind the last job of a dense stretch; else the begin of the last block with a least key
    ("cursor", int64[::1]),  # where a walk goes on
    ("passed_key", float64[::1]),  # what it gave last: key
    ("passed_job", int64[::1]),  # and job
    # blocks
    ("indexed", int64),  # 1: a deep queue lies in blocks
    ("deep", int64),  # 1: it does now
    ("block", int32[:, ::1]),  # (slots, n): where a job of a deep queue lies
    ("count", int64[::1]),  # (blocks,): jobs in it
    ("least_key", float64[::1]),  # (blocks,): no job before a block has this key and job or a later one,
    ("least_job", int64[::1]),  # and no job from it on an earlier one
    ("size", int8[::1]),  # class of the job at a place: of its size; among nodes its shape
    ("scarce", int64[::1]),  # (slots,): the resource whose needs are the sizes
    ("bound", int64[:, ::1]),  # (slots, classes - 1): the greatest size of each class but the last, on a pool
    ("tree", float32[:, ::1]),  # (2 * blocks, classes * (1 + needs)): least walltime, then needs, of each class
    ("limits", int64[:, ::1]),  # (2, k): on a pool, what a candidate may need at most; if it does not end in time
    ("limited", int64[::1]),  # (6,): what the limits followed from, among nodes
    ("most", float32[:, ::1]),  # (3, k; among nodes classes): the span, and the limits, as the tree counts
]
Queue, QueueT = record("Queue", QUEUE, globals())


def new_queue(jobs: int, resources: int, shapes: int, orders: tuple[int, ...], index: bool, limited: bool) -> Any:
    """Nobody waits. index: whether a deep queue is searched by a tree; its orders must be static then.

    shapes: how many there are among nodes, 0 on a pool. limited: whether limits may hold jobs back.
    """
    slots, classes, needs = len(orders), shapes or CLASSES, 1 if shapes else resources
    begin = np.arange(slots) * FIRST
    return Queue(
        waiting=0,
        waits=np.zeros(jobs, np.int8),
        fresh=zeros(FIRST),
        fresh_count=0,
        holder=NONE,
        aside=np.full(jobs if limited else 1, NONE, np.int32),
        slots=slots,
        order=np.array(orders, np.int64),
        places=FIRST,
        line=zeros(slots * FIRST),
        key=np.zeros(slots * FIRST),
        walltime=zeros(slots * FIRST),
        need=zeros(needs, slots * FIRST),
        front=begin.copy(),
        back=begin.copy(),
        cursor=begin.copy(),
        passed_key=np.full(slots, -np.inf),
        passed_job=np.full(slots, NONE),
        indexed=int(index),
        deep=0,
        block=np.zeros((slots, jobs if index else 0), np.int32),
        count=zeros(0),
        least_key=np.zeros(0),
        least_job=zeros(0),
        size=np.zeros(0, np.int8),
        scarce=zeros(slots),
        bound=zeros(slots, classes - 1),
        tree=np.zeros((0, classes * (1 + needs)), np.float32),
        limits=zeros(2, resources),
        limited=np.full(6, NONE),
        most=np.zeros((3, max(resources, shapes)), np.float32),
    )


@kernel(inline=True)
def key_of(state, slot, job):
    """What a job is ordered by; where the order is dynamic, until it is sorted, by submit."""
    order = state.queue.order[slot]
    since = state.jobs.submit[job] - state.jobs.origin
    if order == FCFS or rank_changes(order):
        return float(since)
    return score_now(state, order, job, since)


@apart()
def score_now(state, order, job, since):
    """The score of a job in an order, at this instant."""
    wait = state.now - state.jobs.submit[job]
    return score(order, wait, state.jobs.walltime[job], state.jobs.need[job, 0], since, state.jobs.priority[job])


@kernel(inline=True)
def lies_before(key, job, other_key, other):
    """Whether one job lies before another in an order."""
    return key < other_key or (key == other_key and job < other)


@kernel(inline=True)
def write_place(state, place, job, key):
    """Put a job at a place, with what a walk asks of it."""
    q = state.queue
    q.line[place] = job
    q.key[place] = key
    q.walltime[place] = state.jobs.walltime[job]
    if not state.machine.pool:
        q.need[0, place] = units_of(state, job)
        return
    for k in range(state.machine.resources):
        q.need[k, place] = state.jobs.need[job, k]


@kernel(inline=True)
def open_place(state, begin, end):
    """Make a place free among those from begin to end."""
    q = state.queue
    shift_back(q.line, begin, end)
    shift_back(q.key, begin, end)
    shift_back(q.walltime, begin, end)
    shift_rows_back(q.need, begin, end)


@kernel(inline=True)
def close_place(state, begin, end):
    """Give up a place: those behind it, up to end, come nearer."""
    q = state.queue
    shift_forward(q.line, begin, end)
    shift_forward(q.key, begin, end)
    shift_forward(q.walltime, begin, end)
    shift_rows_forward(q.need, begin, end)


@kernel(inline=True)
def insert(state, slot, job, key):
    """Put a job at its place in an order that is one stretch."""
    q = state.queue
    back = q.back[slot]
    i = back
    while i > q.front[slot] and lies_before(key, job, q.key[i - 1], q.line[i - 1]):
        i -= 1
    if i < back:
        open_place(state, i, back)
    write_place(state, i, job, key)
    q.back[slot] = back + 1
    if lies_before(key, job, q.passed_key[slot], q.passed_job[slot]):
        q.cursor[slot] += i <= q.cursor[slot]
    elif i < q.cursor[slot]:
        q.cursor[slot] = i


@kernel(inline=True)
def remove(state, slot, job):
    """Take a job out of an order that is one stretch."""
    q = state.queue
    front, back = q.front[slot], q.back[slot]
    i = front
    if q.line[i] != job:
        if q.cursor[slot] > front and q.line[q.cursor[slot] - 1] == job:
            i = q.cursor[slot] - 1
        while q.line[i] != job:
            i += 1
    if i - front < back - i:  # the shorter part moves
        if i > front:
            open_place(state, front, i)
        q.front[slot] = front + 1
        q.cursor[slot] += q.cursor[slot] <= i
    else:
        close_place(state, i, back)
        q.back[slot] = back - 1
        q.cursor[slot] -= q.cursor[slot] > i


@apart()
def _first_that_may_sit(state, place, end, span):
    """The same as `first_that_may` among nodes."""
    q = state.queue
    while place < end and not may_sit(state, q.line[place], q.walltime[place] > span):
        place += 1
    return place


@kernel(inline=True)
def first_that_may(state, place, end, span):
    """The first of some places whose job could start now; `end` where there is none.

    It fits in what is free, and ends within the span or fits in the extra as well.
    """
    q = state.queue
    if not state.machine.pool:
        return _first_that_may_sit(state, place, end, span)
    resources, free, extra = state.machine.resources, q.limits[0, 0], q.limits[1, 0]
    while place < end:
        need = q.need[0, place]
        if need <= free and (q.walltime[place] <= span or need <= extra):
            limit = 0 if q.walltime[place] <= span else 1
            k = 1
            while k < resources and q.need[k, place] <= q.limits[limit, k]:
                k += 1
            if k == resources:
                return place
        place += 1
    return place
