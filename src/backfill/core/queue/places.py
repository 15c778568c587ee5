"""Storage of the queue: the waiting jobs in one or two orders, with what a walk reads of each, side by side in memory.

An order is by (key, job): the key is the score of a static order when the job becomes eligible. Next to each job lies a
copy of its walltime and need, so that a walk reads sequentially. A short queue is one dense stretch; for a deep one see
deep.py.
"""

from typing import Any

import numpy as np
from numba import float32, float64, int8, int32, int64

from backfill.compiler.kernel import apart, kernel
from backfill.compiler.loops import few_turns
from backfill.compiler.record import record, shift_back, shift_forward, shift_rows_back, shift_rows_forward, zeros
from backfill.core.errors import NONE
from backfill.core.place.shapes import fits_nowhere, may_sit, units_of
from backfill.core.queue.order import FCFS, rank_changes, score

BLOCK = 32  # jobs that a block can hold
ROOMY = 24  # jobs in a block that still has space for late arrivals
CLASSES = 32  # number of size classes on a pool
NO_CLASS = np.int8(127)  # class of an empty position
DEEP = 256  # queue length from which static orders lie in blocks
SHALLOW = 64  # a deep queue this short is one stretch again
STRIDE = 64  # jobs of which a walk asks at once whether any of them could start
FIRST = 256  # initial number of positions of an order
SAMPLE = 4096  # at most this many sizes are sampled for the quantiles
NOBODY = np.float32(np.inf)  # least walltime or need of an empty subtree
END = np.int64(2**62)  # after every job

QUEUE = [
    ("waiting", int64),
    ("waits", int8[::1]),  # (n,)
    ("fresh", int64[::1]),  # those that have become eligible since the last pass
    ("fresh_count", int64),
    ("holder", int64),  # the job of the last reservation, which keeps its turn until it starts; -1 none
    ("aside", int32[::1]),  # (n,): the holder that overtook a job held back by a limit; length 1 without limits
    ("slots", int64),
    ("order", int64[::1]),  # (slots,): code of an order, see order.py
    # positions: those of order s are s * places to (s + 1) * places; the fields below are such positions
    ("places", int64),  # number of positions of one order: a power of two
    ("line", int64[::1]),  # job at a position
    ("key", float64[::1]),
    ("walltime", int64[::1]),
    ("need", int64[:, ::1]),  # (k, slots * places); among nodes (1, slots * places): units of its shape
    ("front", int64[::1]),  # (slots,): no job waits before it; in blocks the begin of a block
    ("back", int64[::1]),  # behind the last job of a dense stretch; else begin of the last block with a least key
    ("cursor", int64[::1]),  # where a walk continues
    ("passed_key", float64[::1]),  # its last result: key
    ("passed_job", int64[::1]),  # and job
    # an order that changes at each pass; see `head` and `candidate`
    ("loose", int64[::1]),  # (slots,): 0: a job lies at its place in the order; else that is said by the ranks alone
    ("rank", float64[::1]),  # score at this pass of the job at a position; empty if every order is static
    # blocks
    ("indexed", int64),  # 1: a deep queue lies in blocks
    ("deep", int64),  # 1: it currently does
    ("block", int32[:, ::1]),  # (slots, n): block of a job of a deep queue
    ("count", int64[::1]),  # (blocks,): number of jobs in it
    ("least_key", float64[::1]),  # (blocks,): jobs in earlier blocks come before this key and job,
    ("least_job", int64[::1]),  # and jobs in this and later blocks do not
    ("size", int8[::1]),  # class of the job at a position: of its size; among nodes its shape
    ("scarce", int64[::1]),  # (slots,): the resource that defines the sizes
    ("bound", int64[:, ::1]),  # (slots, classes - 1): the greatest size of each class but the last, on a pool
    ("tree", float32[:, ::1]),  # (2 * blocks, classes * (1 + needs)): least walltime, then needs, of each class
    ("limits", int64[:, ::1]),  # (2, k): on a pool, largest need of a candidate; and if it does not end in time
    ("limited", int64[::1]),  # (6,): inputs of the limits among nodes
    ("most", float32[:, ::1]),  # (3, k; among nodes classes): the span, and the limits, rounded as in the tree
]
Queue, QueueT = record("Queue", QUEUE, globals(), fixed=("slots", "indexed"))


def new_queue(
    jobs: int, resources: int, shapes: int, orders: tuple[int, ...], index: bool, dynamic: bool, limited: bool
) -> Any:
    """Return an empty queue. index: whether a deep queue is searched by a tree, if its orders are static.

    dynamic: whether an order changes at each pass. shapes: their number among nodes, 0 on a pool. limited: whether
    limits may hold jobs back.
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
        loose=zeros(slots),
        rank=np.zeros(slots * FIRST if dynamic else 0),
        indexed=int(index and not dynamic),
        deep=0,
        block=np.zeros((slots, jobs if index and not dynamic else 0), np.int32),
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
def knows_submits(state, slot):
    """Return whether the keys of an order are the submits of its jobs."""
    return state.queue.order[slot] == FCFS or rank_changes(state.queue.order[slot])


@kernel(inline=True)
def key_of(state, slot, job):
    """Return the key of a job; if the order is dynamic, its submit until the queue is sorted."""
    since = state.jobs.submit[job] - state.jobs.origin
    if knows_submits(state, slot):
        return float(since)
    return score_now(state, state.queue.order[slot], job, since)


@apart()
def score_now(state, order, job, since):
    """Return the score of a job in an order, at this instant."""
    wait = state.now - state.jobs.submit[job]
    return score(order, wait, state.jobs.walltime[job], state.jobs.need[job, 0], since, state.jobs.priority[job])


@kernel(inline=True)
def lies_before(key, job, other_key, other):
    """Return whether one job comes before another in an order."""
    return key < other_key or (key == other_key and job < other)


@kernel(inline=True)
def write_place(state, place, job, key):
    """Write a job to a position, with what a walk reads of it."""
    q = state.queue
    q.line[place] = job
    q.key[place] = key
    q.walltime[place] = state.jobs.walltime[job]
    if not state.machine.pool:
        q.need[0, place] = units_of(state, job)
        return
    for k in range(state.machine.resources):
        few_turns()
        q.need[k, place] = state.jobs.need[job, k]


@kernel(inline=True)
def open_place(state, begin, end):
    """Free a position among those from begin to end by moving the others."""
    q = state.queue
    shift_back(q.line, begin, end)
    shift_back(q.key, begin, end)
    shift_back(q.walltime, begin, end)
    shift_rows_back(q.need, begin, end)
    if len(q.rank) > 0:
        shift_back(q.rank, begin, end)


@kernel(inline=True)
def close_place(state, begin, end):
    """Close a position by moving those behind it, up to end."""
    q = state.queue
    shift_forward(q.line, begin, end)
    shift_forward(q.key, begin, end)
    shift_forward(q.walltime, begin, end)
    shift_rows_forward(q.need, begin, end)
    if len(q.rank) > 0:
        shift_forward(q.rank, begin, end)


@kernel(inline=True)
def insert(state, slot, job, key):
    """Insert a job into an order that is one stretch."""
    q = state.queue
    back = q.back[slot]
    i = back
    while i > q.front[slot] and lies_before(key, job, q.key[i - 1], q.line[i - 1]):
        i -= 1
    if i < back:
        open_place(state, i, back)
    write_place(state, i, job, key)
    if q.loose[slot]:
        q.rank[i] = np.inf
    q.back[slot] = back + 1
    if lies_before(key, job, q.passed_key[slot], q.passed_job[slot]):
        q.cursor[slot] += i <= q.cursor[slot]
    elif i < q.cursor[slot]:
        q.cursor[slot] = i


@kernel(inline=True)
def remove(state, slot, job):
    """Remove a job from an order that is one stretch."""
    q = state.queue
    front, back = q.front[slot], q.back[slot]
    i = front
    if q.line[i] != job:
        if q.cursor[slot] > front and q.line[q.cursor[slot] - 1] == job:
            i = q.cursor[slot] - 1
        while q.line[i] != job:
            i += 1
    if i - front < back - i:  # move the shorter part
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
    """Like `first_that_may`, among nodes."""
    q, jobs = state.queue, state.jobs
    while place < end:
        job = q.line[place]
        if not fits_nowhere(state, np.int64(jobs.shape[job])) and may_sit(state, job, q.walltime[place] > span):
            break
        place += 1
    return place


@kernel(inline=True)
def _any_may(state, begin, end, span):
    """Return whether a job at these positions could start now, by the first resource: many are asked at once.

    By slices: an index that is known not to be negative is a plain load.
    """
    q = state.queue
    need, walltime, free, extra = q.need[0, begin:end], q.walltime[begin:end], q.limits[0, 0], q.limits[1, 0]
    found = 0
    for i in range(len(need)):
        found += (need[i] <= free) & ((walltime[i] <= span) | (need[i] <= extra))
    return found > 0


@kernel(inline=True)
def may_start(state, place, span):
    """Return whether the job at a position fits into the free resources of a pool, and ends within the span or fits in
    the extra."""
    q = state.queue
    need, resources = q.need[0, place], state.machine.resources
    ends = q.walltime[place] <= span
    if need > q.limits[0, 0] or not (ends or need <= q.limits[1, 0]):
        return False
    limit, k = 0 if ends else 1, 1
    while k < resources and q.need[k, place] <= q.limits[limit, k]:
        k += 1
    return k >= resources


@kernel(inline=True)
def first_that_may(state, place, end, span):
    """Return the first of these positions whose job could start now; `end` if there is none.

    Such a job fits into the free resources, and either ends within the span or also fits in the extra.
    """
    if not state.machine.pool:
        return _first_that_may_sit(state, place, end, span)
    while place + STRIDE <= end and not _any_may(state, place, place + STRIDE, span):
        place += STRIDE
    while place < end and not may_start(state, place, span):
        place += 1
    return place


@kernel(inline=True)
def _may_be_sooner(state, begin, end, span, after, least):
    """Return whether a job at these positions could start now, by the first resource, and ranks from after to least."""
    q = state.queue
    need, walltime, free, extra = q.need[0, begin:end], q.walltime[begin:end], q.limits[0, 0], q.limits[1, 0]
    rank, found = q.rank[begin:end], 0
    for i in range(len(need)):
        fits = (need[i] <= free) & ((walltime[i] <= span) | (need[i] <= extra))
        found += fits & (rank[i] >= after) & (rank[i] <= least)
    return found > 0


@kernel(inline=True)
def first_by_rank_that_may(state, slot, span):
    """Like `first_that_may`, of all positions of a loose order behind its walk; -1 if there is none."""
    q = state.queue
    begin, back = q.front[slot], q.back[slot]
    key, job, best, least = q.passed_key[slot], q.passed_job[slot], back, np.inf
    while begin < back:
        end = min(begin + STRIDE, back)
        if _may_be_sooner(state, begin, end, span, key, least):
            for place in range(begin, end):
                first = best == back or lies_before(q.rank[place], q.line[place], least, q.line[best])
                if first and lies_before(key, job, q.rank[place], q.line[place]) and may_start(state, place, span):
                    best, least = place, q.rank[place]
        begin = end
    return best if best < back else NONE


@kernel(inline=True)
def first_by_rank(state, slot):
    """Return the position of the first job of an order that is loose and not empty."""
    q = state.queue
    begin, back = q.front[slot], q.back[slot]
    best = begin
    while begin < back:
        end = min(begin + STRIDE, back)
        rank, least, found = q.rank[begin:end], q.rank[best], 0
        for i in range(len(rank)):
            found += rank[i] <= least
        for place in range(begin, end if found > 0 else begin):
            if lies_before(q.rank[place], q.line[place], q.rank[best], q.line[best]):
                best = place
        begin = end
    return best
