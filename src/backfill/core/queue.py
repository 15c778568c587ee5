"""The waiting jobs in one or two orders, and the one walk over them that every policy uses.

An order is by (key, job): the key is the score of a static order when the job becomes eligible. Beside each job lies a
copy of its walltime and need, so that a walk reads on in one stretch of memory.

A short queue is one dense stretch. A deep one, if its orders are static, lies in blocks, dense at their beginning and
with room at their end, under a tree. A node of the tree knows for each class of sizes the least walltime and the least
need of the jobs below it, so the next job that can start is about one descent. A block that is full shares with its
neighbours; the smallest subtree that has room is spread evenly. The classes are quantiles of the sizes that wait, found
anew whenever a whole order is laid out anew: when the queue has doubled, has shrunk, or has used up its last block.

A walk stands behind the last job that it gave, wherever that is now. A dynamic order is sorted before each pass and is
always one dense stretch. Slow twin: tests/reference/queue.py.
"""

from typing import Any

import numpy as np
from numba import float32, float64, int8, int32, int64

from backfill.core.errors import BY_IS_FIRST, NO_KEYS, NO_ORDER, NONE, NOT_WAITING, fail
from backfill.core.kernel import apart, kernel
from backfill.core.order import FCFS, rank_changes, score
from backfill.core.record import doubled, record, zeros
from backfill.core.trace import LOOKS
from backfill.core.wall import verb

BLOCK = 32  # jobs that a block can hold
ROOMY = 24  # jobs in a block that still has room for some that come late
CLASSES = 32  # of sizes
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
    ("slots", int64),
    ("order", int64[::1]),  # (slots,): code of an order, see order.py
    # places: those of order s are s * places to (s + 1) * places, and so are the positions below
    ("places", int64),  # of one order: a power of two
    ("line", int64[::1]),  # job at a place
    ("key", float64[::1]),
    ("walltime", int64[::1]),
    ("need", int64[:, ::1]),  # (k, slots * places)
    ("front", int64[::1]),  # (slots,): nobody waits before; in blocks the begin of a block
    ("back", int64[::1]),  # behind the last job of a dense stretch; else the begin of the last block with a least key
    ("at", int64[::1]),  # where a walk goes on
    ("passed_key", float64[::1]),  # what it gave last: key
    ("passed_job", int64[::1]),  # and job
    # blocks
    ("indexed", int64),  # 1: a deep queue lies in blocks
    ("deep", int64),  # 1: it does now
    ("block", int32[:, ::1]),  # (slots, n): where a job of a deep queue lies
    ("count", int64[::1]),  # (blocks,): jobs in it
    ("least_key", float64[::1]),  # (blocks,): no job before a block has this key and job or a later one,
    ("least_job", int64[::1]),  # and no job from it on an earlier one
    ("size", int8[::1]),  # class of the job at a place
    ("scarce", int64[::1]),  # (slots,): the resource whose needs are the sizes
    ("bound", int64[:, ::1]),  # (slots, classes - 1): the greatest size of each class but the last
    ("tree", float32[:, ::1]),  # (2 * blocks, classes * (1 + k)): least walltime, then needs, of each class
    ("limits", int64[:, ::1]),  # (2, k): what a candidate may need at most; if it does not end in time
    ("most", float32[:, ::1]),  # (3, k): the span, and the limits, as the tree counts
]
Queue, QueueT = record("Queue", QUEUE, globals())


def new_queue(jobs: int, resources: int, orders: tuple[int, ...], index: bool) -> Any:
    """Nobody waits. index: whether a deep queue is searched by a tree; its orders must be static then."""
    slots = len(orders)
    begin = np.arange(slots) * FIRST
    return Queue(
        waiting=0,
        waits=np.zeros(jobs, np.int8),
        fresh=zeros(FIRST),
        fresh_count=0,
        slots=slots,
        order=np.array(orders, np.int64),
        places=FIRST,
        line=zeros(slots * FIRST),
        key=np.zeros(slots * FIRST),
        walltime=zeros(slots * FIRST),
        need=zeros(resources, slots * FIRST),
        front=begin.copy(),
        back=begin.copy(),
        at=begin.copy(),
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
        bound=zeros(slots, CLASSES - 1),
        tree=np.zeros((0, CLASSES * (1 + resources)), np.float32),
        limits=zeros(2, resources),
        most=np.zeros((3, resources), np.float32),
    )


@kernel(inline=True)
def enqueue(state, job):
    """Let a job that has become eligible wait; `take_in` finds its places before the next pass."""
    q = state.queue
    if q.fresh_count == len(q.fresh):
        q.fresh = doubled(q.fresh)
    q.fresh[q.fresh_count] = job
    q.fresh_count += 1
    q.waiting += 1
    q.waits[job] = 1


@kernel()
def dequeue(state, job):
    """Take a job out of every order: it starts, or leaves."""
    q = state.queue
    q.waiting -= 1
    q.waits[job] = 0
    for i in range(q.fresh_count):
        if q.fresh[i] == job:
            q.fresh_count -= 1
            q.fresh[i] = q.fresh[q.fresh_count]
            return
    for slot in range(q.slots):
        if q.deep:
            _remove_deep(state, slot, job)
        else:
            _remove(state, slot, job)


@kernel()
def reorder(state, job):
    """Move a waiting job to where its walltime, need and priority of now belong, in every order."""
    dequeue(state, job)
    enqueue(state, job)
    take_in(state)


@kernel()
def take_in(state):
    """Put the jobs that have become eligible into every order, and lay the queue out as its length asks for.

    The loop does this before each pass. All that is rare and long is here, so that no policy compiles it.
    """
    q = state.queue
    if q.deep and (q.waiting < SHALLOW or 16 * q.waiting < q.places):
        _lay_out(state, 2 * q.waiting, q.waiting >= SHALLOW)
    if q.fresh_count == 0:
        return
    if q.deep or (q.indexed and q.waiting >= DEEP):
        if not q.deep or 2 * q.waiting > q.places:
            _lay_out(state, 2 * q.waiting, True)
    else:
        for slot in range(q.slots):
            if q.back[slot] + q.fresh_count > (slot + 1) * q.places:
                _lay_out(state, 2 * q.waiting, False)
    for i in range(q.fresh_count):
        job = q.fresh[i]
        for slot in range(q.slots):
            if q.deep:
                _insert_deep(state, slot, job, _key(state, slot, job))
            else:
                _insert(state, slot, job, _key(state, slot, job))
    q.fresh_count = 0


@kernel(inline=True)
def _key(state, slot, job):
    """What a job is ordered by; where the order is dynamic, until it is sorted, by submit."""
    order = state.queue.order[slot]
    since = state.jobs.submit[job] - state.jobs.submit[0]
    if order == FCFS or rank_changes(order):
        return float(since)
    return _score(state, order, job, since)


@apart()
def _score(state, order, job, since):
    wait = state.now - state.jobs.submit[job]
    return score(order, wait, state.jobs.walltime[job], state.jobs.need[job, 0], since, state.jobs.priority[job])


@kernel(inline=True)
def _before(key, job, other_key, other):
    """Whether one job lies before another in an order."""
    return key < other_key or (key == other_key and job < other)


@kernel(inline=True)
def _write(state, place, job, key):
    """Put a job at a place, with what a walk asks of it."""
    q = state.queue
    q.line[place] = job
    q.key[place] = key
    q.walltime[place] = state.jobs.walltime[job]
    for k in range(state.machine.resources):
        q.need[k, place] = state.jobs.need[job, k]


@kernel(inline=True)
def _shift_back(array, begin, end):
    """Move what lies at places begin to end one place further."""
    for i in range(end, begin, -1):
        array[i] = array[i - 1]


@kernel(inline=True)
def _shift_forward(array, begin, end):
    """Move what lies at places begin + 1 to end one place nearer."""
    for i in range(begin, end - 1):
        array[i] = array[i + 1]


@kernel(inline=True)
def _open(state, begin, end):
    """Make a place free among those from begin to end."""
    q = state.queue
    _shift_back(q.line, begin, end)
    _shift_back(q.key, begin, end)
    _shift_back(q.walltime, begin, end)
    for k in range(state.machine.resources):
        for i in range(end, begin, -1):
            q.need[k, i] = q.need[k, i - 1]


@kernel(inline=True)
def _close(state, begin, end):
    """Give up a place: those behind it, up to end, come nearer."""
    q = state.queue
    _shift_forward(q.line, begin, end)
    _shift_forward(q.key, begin, end)
    _shift_forward(q.walltime, begin, end)
    for k in range(state.machine.resources):
        for i in range(begin, end - 1):
            q.need[k, i] = q.need[k, i + 1]


@kernel(inline=True)
def _insert(state, slot, job, key):
    q = state.queue
    back = q.back[slot]
    i = back
    while i > q.front[slot] and _before(key, job, q.key[i - 1], q.line[i - 1]):
        i -= 1
    if i < back:
        _open(state, i, back)
    _write(state, i, job, key)
    q.back[slot] = back + 1
    if _before(key, job, q.passed_key[slot], q.passed_job[slot]):
        q.at[slot] += i <= q.at[slot]
    elif i < q.at[slot]:
        q.at[slot] = i


@kernel(inline=True)
def _remove(state, slot, job):
    q = state.queue
    front, back = q.front[slot], q.back[slot]
    i = front
    if q.line[i] != job:
        if q.at[slot] > front and q.line[q.at[slot] - 1] == job:
            i = q.at[slot] - 1
        while q.line[i] != job:
            i += 1
    if i - front < back - i:  # the shorter part moves
        if i > front:
            _open(state, front, i)
        q.front[slot] = front + 1
        q.at[slot] += q.at[slot] <= i
    else:
        _close(state, i, back)
        q.back[slot] = back - 1
        q.at[slot] -= q.at[slot] > i


@apart()
def _lay_out(state, least, deep):
    """Lay every order out anew, with so many places at least, in blocks or as one stretch."""
    q = state.queue
    places = FIRST
    while places < least:
        places *= 2
    n = q.waiting - q.fresh_count
    jobs, keys, passed = np.empty((q.slots, n), np.int64), np.empty((q.slots, n)), np.empty(q.slots, np.int64)
    for slot in range(q.slots):
        passed[slot] = _gather(state, slot, slot * q.places, (slot + 1) * q.places, jobs[slot], keys[slot])
    many, resources = q.slots * places, state.machine.resources
    if places != q.places:
        q.places = places
        q.line, q.key = np.empty(many, np.int64), np.empty(many, np.float64)
        q.walltime, q.need = np.empty(many, np.int64), np.empty((resources, many), np.int64)
    if deep and len(q.size) != many:
        q.size, q.count = np.empty(many, np.int8), np.zeros(many // BLOCK, np.int64)
        q.least_key, q.least_job = np.empty(many // BLOCK, np.float64), np.empty(many // BLOCK, np.int64)
        q.tree = np.empty((2 * (many // BLOCK), CLASSES * (1 + resources)), np.float32)
    q.deep = deep
    for slot in range(q.slots):
        if deep:
            _fill(state, slot, jobs[slot], keys[slot], passed[slot], q.order[slot] == FCFS)
        else:
            begin = slot * places
            for i in range(n):
                _write(state, begin + i, jobs[slot, i], keys[slot, i])
            q.front[slot], q.back[slot], q.at[slot] = begin, begin + n, begin + passed[slot]


@kernel()
def _gather(state, slot, begin, end, jobs, keys):
    """Write the jobs at these places, and their keys, in order. Returns how many of them the walk has passed."""
    q = state.queue
    n = passed = 0
    for stretch in range(begin // BLOCK if q.deep else 0, end // BLOCK if q.deep else 1):
        first = stretch * BLOCK if q.deep else q.front[slot]
        for i in range(first, first + q.count[stretch] if q.deep else q.back[slot]):
            jobs[n], keys[n] = q.line[i], q.key[i]
            n += 1
            passed += i < q.at[slot]
    return passed


@kernel()
def _fill(state, slot, jobs, keys, passed, at_end):
    """Lay out one order in blocks, evenly, or with the room at the end, where new jobs come by submit."""
    q = state.queue
    blocks = q.places // BLOCK
    q.least_key[slot * blocks], q.least_job[slot * blocks] = -np.inf, NONE
    q.front[slot] = q.at[slot] = slot * q.places
    _find_classes(state, slot, jobs)
    used = len(jobs) // ROOMY + 1 if at_end else blocks
    _spread(state, slot, slot * blocks, blocks, used, jobs, keys, passed)


@kernel()
def _find_classes(state, slot, jobs):
    """Part these jobs into classes of about equal number by their need of the resource that they want most of."""
    q = state.queue
    most = -1.0
    for k in range(state.machine.resources):
        want, there = 0.0, 0.0
        for job in jobs:
            want += state.jobs.need[job, k]
        for node in range(state.machine.nodes):
            there += state.machine.capacity[node, k]
        if there > 0.0 and want / there > most:
            most = want / there
            q.scarce[slot] = k
    step = len(jobs) // SAMPLE + 1
    sizes = np.empty((len(jobs) + step - 1) // step, np.int64)
    for i in range(len(sizes)):
        sizes[i] = state.jobs.need[jobs[i * step], q.scarce[slot]]
    sizes.sort()
    i = 0
    for c in range(CLASSES - 1):
        if i == len(sizes):
            q.bound[slot, c] = END
            continue
        q.bound[slot, c] = sizes[i + max((len(sizes) - i) // (CLASSES - c), 1) - 1]
        while i < len(sizes) and sizes[i] <= q.bound[slot, c]:
            i += 1


@kernel(inline=True)
def _class_of(state, slot, place):
    """The class of the job at a place: how many of the bounds lie below its size."""
    size = state.queue.need[state.queue.scarce[slot], place]
    c = 0
    for i in range(state.queue.bound.shape[1]):
        c += state.queue.bound[slot, i] < size
    return c


@kernel(inline=True)
def _amount(state, column, place):
    """What a column of the tree counts of the job at a place: 0 its walltime, then its needs.

    Rounding to 24 bits keeps the order of any two amounts, so no job that fits is missed; it is asked exactly itself.
    """
    q = state.queue
    return np.float32(q.walltime[place] if column == 0 else q.need[column - 1, place])


@apart(jobs=int64[::1], keys=float64[::1])
def _spread(state, slot, first, blocks, used, jobs, keys, passed):
    """Lay jobs evenly on the first `used` of some blocks, which are a subtree, and let the tree know.

    passed: how many of them the walk has passed, if it is there.
    """
    q = state.queue
    leaves, columns = q.places // BLOCK, q.tree.shape[1]
    root = 2 * leaves * slot
    walks = first * BLOCK <= q.at[slot] < (first + blocks) * BLOCK
    done = 0
    for b in range(blocks):
        block = first + b
        here = len(jobs) * min(b + 1, used) // used - done
        q.count[block] = here
        if b > 0:
            if done < len(jobs):
                q.least_key[block], q.least_job[block] = keys[done], jobs[done]
            else:  # as the next block behind these has it, see below
                q.least_key[block], q.least_job[block] = np.inf, END
        row = root + leaves + block - slot * leaves
        for i in range(columns):
            q.tree[row, i] = NOBODY
        for i in range(here):
            place = block * BLOCK + i
            _write(state, place, jobs[done + i], keys[done + i])
            q.block[slot, jobs[done + i]] = block
            c = q.size[place] = _class_of(state, slot, place)
            for column in range(1 + state.machine.resources):
                if _amount(state, column, place) < q.tree[row, column * CLASSES + c]:
                    q.tree[row, column * CLASSES + c] = _amount(state, column, place)
        if walks and (done <= passed < done + here or (passed == done + here and here > 0)):
            q.at[slot] = block * BLOCK + passed - done
        done += here
    if first * BLOCK <= q.front[slot]:
        q.front[slot] = min(q.front[slot], first * BLOCK)
    behind = first + blocks
    at_end = behind == (slot + 1) * leaves or q.least_job[behind] == END
    for block in range(behind - 1, first - 1, -1):
        if block == first or q.least_job[block] < END:
            if at_end:
                q.back[slot] = block * BLOCK
            break
        if not at_end:
            q.least_key[block], q.least_job[block] = q.least_key[behind], q.least_job[behind]
    low, high = leaves + first - slot * leaves, leaves + first - slot * leaves + blocks - 1
    while low > 1:
        low, high = low >> 1, high >> 1
        for node in range(low, high + 1):
            for i in range(columns):
                left, right = q.tree[root + 2 * node, i], q.tree[root + 2 * node + 1, i]
                q.tree[root + node, i] = left if left < right else right


@apart(key=float64)
def _insert_deep(state, slot, job, key):
    q = state.queue
    block, leaves = _find_block(state, slot, job, key), q.places // BLOCK
    while True:
        last, is_last = block * BLOCK + q.count[block] - 1, block + 1 == (slot + 1) * leaves
        at_end = q.count[block] > 0 and _before(q.key[last], q.line[last], key, job)
        goes_on = at_end and q.count[block] >= ROOMY and not is_last and q.count[block + 1] == 0
        if q.count[block] < BLOCK and not goes_on:
            break
        if at_end and not is_last and q.count[block + 1] < BLOCK:
            block += 1
            q.least_key[block], q.least_job[block] = key, job
            q.back[slot] = max(q.back[slot], block * BLOCK)
        else:
            _make_room_deep(state, slot, block, at_end and is_last and q.order[slot] == FCFS)
            block = _find_block(state, slot, job, key)
    begin, end = block * BLOCK, block * BLOCK + q.count[block]
    place = end
    while place > begin and _before(key, job, q.key[place - 1], q.line[place - 1]):
        place -= 1
    _open(state, place, end)
    for i in range(end, place, -1):
        q.size[i] = q.size[i - 1]
    _write(state, place, job, key)
    c = q.size[place] = _class_of(state, slot, place)
    q.block[slot, job] = block
    q.count[block] += 1
    q.front[slot] = min(q.front[slot], begin)
    if _before(key, job, q.passed_key[slot], q.passed_job[slot]):
        q.at[slot] = max(q.at[slot] + (place <= q.at[slot] <= end), place + 1)
    elif place < q.at[slot]:
        q.at[slot] = place
    _add_to_tree(state, slot, block, place, c)


@kernel(inline=True)
def _find_block(state, slot, job, key):
    """The block that a job belongs into: the last whose least key is not behind it."""
    q = state.queue
    step = q.places // BLOCK
    last = q.back[slot] // BLOCK
    if not _before(key, job, q.least_key[last], q.least_job[last]):
        return last
    block = slot * step
    while step > 1:
        step >>= 1
        if not _before(key, job, q.least_key[block + step], q.least_job[block + step]):
            block += step
    return block


@kernel(inline=True)
def _add_to_tree(state, slot, block, place, c):
    """Let a block, and every node above it, know the job at a place."""
    q = state.queue
    leaves = q.places // BLOCK
    node = leaves + block - slot * leaves
    news = True
    while node > 0 and news:
        news = False
        row = 2 * leaves * slot + node
        for column in range(1 + state.machine.resources):
            amount = _amount(state, column, place)
            if amount < q.tree[row, column * CLASSES + c]:
                q.tree[row, column * CLASSES + c] = amount
                news = True
        node >>= 1


@apart()
def _make_room_deep(state, slot, block, by_submit):
    """A block is full: spread the smallest subtree around it that has room; by submit, move all to the front."""
    q = state.queue
    leaves = q.places // BLOCK
    width, full = 2, 0.875
    while True:
        if by_submit or width > leaves:
            width = leaves
        first = slot * leaves + (block - slot * leaves) // width * width
        n = 0
        for b in range(first, first + width):
            n += q.count[b]
        if n <= full * width * BLOCK or width == leaves:
            jobs, keys = np.empty(n, np.int64), np.empty(n)
            passed = _gather(state, slot, first * BLOCK, (first + width) * BLOCK, jobs, keys)
            if width == leaves:
                _fill(state, slot, jobs, keys, passed, by_submit)
            else:
                _spread(state, slot, first, width, width, jobs, keys, passed)
            return
        width *= 2
        full = max(full - 0.03125, 0.75)


@apart()
def _remove_deep(state, slot, job):
    q = state.queue
    leaves = q.places // BLOCK
    block = np.int64(q.block[slot, job])
    begin, end = block * BLOCK, block * BLOCK + q.count[block]
    place = begin
    while q.line[place] != job:
        place += 1
    root, leaf, c = 2 * leaves * slot, leaves + block - slot * leaves, np.int64(q.size[place])
    q.size[place] = CLASSES
    for column in range(1 + state.machine.resources):
        i = column * CLASSES + c
        if _amount(state, column, place) > q.tree[root + leaf, i]:
            continue
        least = NOBODY
        for other in range(begin, end):
            if q.size[other] == c and _amount(state, column, other) < least:
                least = _amount(state, column, other)
        node = leaf
        while node > 0 and least != q.tree[root + node, i]:
            q.tree[root + node, i] = least
            node >>= 1
            least = min(q.tree[root + 2 * node, i], q.tree[root + 2 * node + 1, i])
    _close(state, place, end)
    _shift_forward(q.size, place, end)
    q.count[block] -= 1
    q.at[slot] -= place < q.at[slot] <= end and q.at[slot] < begin + BLOCK


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


@kernel(inline=True)
def _first_that_may(state, place, end, span):
    """The first of some places whose job could start now; `end` where there is none.

    It fits in what is free, and ends within the span or fits in the extra as well.
    """
    q = state.queue
    if not state.machine.pool:
        while place < end and not _may_sit(state, q.line[place]):
            place += 1
        return place
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


@kernel(inline=True)
def _may_hold(state, row):
    """Whether a node of the tree may hold a job that could start now: of some class that could."""
    q = state.queue
    tree, resources = q.tree, state.machine.resources
    n = q.bound.shape[1] + 1  # a constant would be unrolled, and not compared all at once
    span, free, extra = q.most[0, 0], q.most[1, 0], q.most[2, 0]
    found = False
    if resources == 1:
        for c in range(n):
            found |= (tree[row, n + c] <= free) & ((tree[row, c] <= span) | (tree[row, n + c] <= extra))
        return found
    free_1, extra_1 = q.most[1, 1], q.most[2, 1]
    for c in range(n):
        one, two = tree[row, n + c], tree[row, 2 * n + c]
        found |= (one <= free) & (two <= free_1) & ((tree[row, c] <= span) | ((one <= extra) & (two <= extra_1)))
    if not found or resources == 2:
        return found
    for c in range(n):
        limit = 1 if tree[row, c] <= span else 2
        k = 0
        while k < resources and tree[row, (1 + k) * n + c] <= q.most[limit, k]:
            k += 1
        if k == resources:
            return True
    return False


@apart()
def _search(state, slot, span):
    """The place of the next job of the walk that could start now; -1 where there is none."""
    q = state.queue
    leaves = q.places // BLOCK
    root, blocks = 2 * leaves * slot, slot * leaves
    looks, node, resumes = 0, 1, q.at[slot] > q.front[slot]
    while node > 0:
        looks += 1
        if _may_hold(state, root + node):
            if resumes:  # with the rest of a block
                if q.at[slot] == (slot + 1) * q.places:
                    break
                place = q.at[slot]
                block = place // BLOCK
                node, resumes = leaves + block - blocks, False
            elif node < leaves:
                node *= 2
                continue
            else:
                block = node - leaves + blocks
                place = block * BLOCK
            begin, end = place, block * BLOCK + q.count[block]
            place = _first_that_may(state, begin, end, span)
            looks += place - begin
            if place < end:
                state.trace.counters[LOOKS] += looks + 1
                return place
        elif resumes:
            break
        while node & 1:
            node >>= 1
        node += node > 0
    state.trace.counters[LOOKS] += looks
    return NONE


@kernel(inline=True)
def _set_limits(state, span):
    """What a candidate may need at most: of what is free, and if it does not end in time."""
    q = state.queue
    for k in range(state.machine.resources):
        if state.machine.pool:
            q.limits[0, k] = state.free.nodes[0, k]
            q.limits[1, k] = min(state.free.nodes[0, k], state.shadow.extra[0, k])
        else:
            q.limits[0, k] = q.limits[1, k] = state.free.total[k]
            state.free.most[k] = 0
            for block in range(state.free.peak.shape[0]):
                state.free.most[k] = max(state.free.most[k], state.free.peak[block, k])
    if q.deep:
        q.most[0, 0] = span
        for k in range(state.machine.resources):
            q.most[1, k], q.most[2, k] = q.limits[0, k], q.limits[1, k]


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
    q = state.queue
    q.at[slot] = q.front[slot]
    q.passed_key[slot], q.passed_job[slot] = -np.inf, NONE


@kernel(inline=True)
def _give(state, slot, place):
    """The walk gives the job at a place, -1 for none, and stands behind it."""
    q = state.queue
    if place < 0:
        q.at[slot] = (slot + 1) * q.places if q.deep else q.back[slot]
        q.passed_key[slot], q.passed_job[slot] = np.inf, END
        return NONE
    q.at[slot] = place + 1
    q.passed_key[slot], q.passed_job[slot] = q.key[place], q.line[place]
    return q.line[place]


@verb(inline=True)
def following(state, slot):
    """The next waiting job of the walk; -1 at the end."""
    if not _is_order(state, slot):
        return NONE
    q = state.queue
    if q.deep:
        return _give(state, slot, _next_deep(state, slot))
    return _give(state, slot, q.at[slot] if q.at[slot] < q.back[slot] else NONE)


@apart()
def _next_deep(state, slot):
    """The place of the next job of the walk; -1 at the end."""
    q = state.queue
    place = q.at[slot]
    block = place // BLOCK
    while block < (slot + 1) * (q.places // BLOCK):
        if place < block * BLOCK + q.count[block]:
            return place
        block += 1
        place = block * BLOCK
    return NONE


@verb(inline=True)
def candidate(state, slot, span):
    """The next waiting job of the walk that may start now; -1 at the end.

    It fits in what is free, and its walltime is at most `span` or it fits in the extra as well. On one node without
    licences that is enough; elsewhere it is a necessary condition, and `place` decides.
    """
    if not _is_order(state, slot):
        return NONE
    q = state.queue
    _set_limits(state, span)
    if q.deep:
        return _give(state, slot, _search(state, slot, span))
    at, back = q.at[slot], q.back[slot]
    place = _first_that_may(state, at, back, span)
    found = place < back
    state.trace.counters[LOOKS] += place - at + found
    return _give(state, slot, place if found else NONE)


@verb(inline=True)
def head(state):
    """The first waiting job in the policy's order; -1 when nobody waits."""
    q = state.queue
    if q.waiting == 0:
        return NONE
    if q.deep:
        while q.count[q.front[0] // BLOCK] == 0:
            q.front[0] += BLOCK
    return q.line[q.front[0]]


@verb(inline=True)
def is_first(state, job):
    """Whether no job waits before this one in the policy's order."""
    return is_waiting(state, job, BY_IS_FIRST) and head(state) == job


@kernel()
def arrange(state):
    """Sort the queue in every order that changes with time."""
    q = state.queue
    for slot in range(q.slots):
        if rank_changes(q.order[slot]):
            jobs = np.sort(q.line[q.front[slot] : q.back[slot]])
            keys = np.empty(len(jobs), np.float64)
            for i in range(len(jobs)):
                since = state.jobs.submit[jobs[i]] - state.jobs.submit[0]
                keys[i] = _score(state, q.order[slot], jobs[i], since)
            _put(state, slot, jobs, keys)


@verb(within=True)
def arrange_by(state, slot, keys):
    """Put the waiting jobs in ascending order of keys[job]; equal ones by submit, then file order.

    For policies that declare `sorts`. Cost: what it takes to mend the order of the last pass, at most a sort.
    """
    if not _is_order(state, slot):
        return
    if len(keys) < state.jobs.count:
        fail(state, NO_KEYS, NONE, NONE, len(keys), state.jobs.count)
        return
    q = state.queue
    front, back = q.front[slot], q.back[slot]
    moves, most = 0, 8 * (back - front)
    low = high = back
    for i in range(front + 1, back):
        job = q.line[i]
        key = keys[job]
        place = i
        while place > front and moves <= most:
            other = q.line[place - 1]
            beside = keys[other]
            if beside < key or (beside == key and other < job):
                break
            q.line[place] = other
            place -= 1
            moves += 1
        q.line[place] = job
        if place < i:
            low, high = min(low, place), i
        if moves > most:
            break
    if moves > most:
        jobs = np.sort(q.line[front:back])
        _put(state, slot, jobs, keys[jobs])
    elif low < back:
        for i in range(low, high + 1):
            _write(state, i, q.line[i], _key(state, slot, q.line[i]))


@kernel()
def _put(state, slot, jobs, keys):
    """Make jobs the queue of a slot, in ascending order of their keys."""
    by = np.argsort(keys, kind="mergesort")
    for i in range(len(jobs)):
        job = jobs[by[i]]
        _write(state, state.queue.front[slot] + i, job, _key(state, slot, job))
