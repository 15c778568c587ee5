"""A deep queue: if its orders are static, they are stored in blocks under a tree.

A block is filled from its beginning and has free space at its end. A node of the tree knows, for each class of sizes,
the least walltime and the least need of the jobs below it, so finding the next job that can start takes about one
descent. A full block shares with its neighbours: the smallest subtree that has space is spread evenly. The classes are
quantiles of the waiting sizes, computed whenever a whole order is laid out again: when the queue has doubled, has
shrunk, or has used up its last block.
"""

import numpy as np
from numba import float64, int64

from backfill.compiler.kernel import apart, kernel
from backfill.compiler.record import shift_back, shift_forward
from backfill.core.errors import NONE
from backfill.core.place.shapes import units_beside, units_free
from backfill.core.queue.order import FCFS
from backfill.core.queue.places import (
    BLOCK,
    CLASSES,
    END,
    FIRST,
    NO_CLASS,
    NOBODY,
    ROOMY,
    SAMPLE,
    close_place,
    first_that_may,
    lies_before,
    open_place,
    write_place,
)
from backfill.core.trace import LOOKS


@apart()
def lay_out(state, least, deep):
    """Lay out every order again, with at least `least` positions, in blocks or as one stretch."""
    q = state.queue
    places = FIRST
    while places < least:
        places *= 2
    n = q.waiting - q.fresh_count
    jobs, keys, passed = np.empty((q.slots, n), np.int64), np.empty((q.slots, n)), np.empty(q.slots, np.int64)
    for slot in range(q.slots):
        passed[slot] = gather(state, slot, slot * q.places, (slot + 1) * q.places, jobs[slot], keys[slot])
    many, needs = q.slots * places, q.need.shape[0]
    if places != q.places:
        q.places = places
        q.line, q.key = np.empty(many, np.int64), np.empty(many, np.float64)
        q.walltime, q.need = np.empty(many, np.int64), np.empty((needs, many), np.int64)
        if len(q.rank) > 0:  # every order lies in its order now
            q.rank = np.empty(many, np.float64)
    if deep and len(q.size) != many:
        q.size, q.count = np.empty(many, np.int8), np.zeros(many // BLOCK, np.int64)
        q.least_key, q.least_job = np.empty(many // BLOCK, np.float64), np.empty(many // BLOCK, np.int64)
        q.tree = np.empty((2 * (many // BLOCK), (q.bound.shape[1] + 1) * (1 + needs)), np.float32)
    q.deep = deep
    for slot in range(q.slots):
        if deep:
            _fill(state, slot, jobs[slot], keys[slot], passed[slot], q.order[slot] == FCFS)
        else:
            begin = slot * places
            for i in range(n):
                write_place(state, begin + i, jobs[slot, i], keys[slot, i])
            q.front[slot], q.back[slot], q.cursor[slot] = begin, begin + n, begin + passed[slot]


@kernel()
def gather(state, slot, begin, end, jobs, keys):
    """Write the jobs at these positions, and their keys, in order. Return how many of them the walk has passed."""
    q = state.queue
    n = passed = 0
    for stretch in range(begin // BLOCK if q.deep else 0, end // BLOCK if q.deep else 1):
        first = stretch * BLOCK if q.deep else q.front[slot]
        for i in range(first, first + q.count[stretch] if q.deep else q.back[slot]):
            jobs[n], keys[n] = q.line[i], q.key[i]
            n += 1
            passed += i < q.cursor[slot]
    return passed


@kernel()
def _fill(state, slot, jobs, keys, passed, at_end):
    """Lay out one order in blocks: evenly, or with the free space at the end, where jobs ordered by submit arrive."""
    q = state.queue
    blocks = q.places // BLOCK
    q.least_key[slot * blocks], q.least_job[slot * blocks] = -np.inf, NONE
    q.front[slot] = q.cursor[slot] = slot * q.places
    _find_classes(state, slot, jobs)
    used = len(jobs) // ROOMY + 1 if at_end else blocks
    _spread(state, slot, slot * blocks, blocks, used, jobs, keys, passed)


@kernel()
def _find_classes(state, slot, jobs):
    """Divide these jobs into classes of about equal size, by their need of the most requested resource."""
    q = state.queue
    if not state.machine.pool:
        return
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
    """Return the class of the job at a position: the number of bounds below its size; among nodes, its shape."""
    if not state.machine.pool:
        return np.int64(state.jobs.shape[state.queue.line[place]])
    size = state.queue.need[state.queue.scarce[slot], place]
    c = np.int64(0)
    for i in range(state.queue.bound.shape[1]):
        c += state.queue.bound[slot, i] < size
    return c


@kernel(inline=True)
def _amount(state, column, place):
    """Return the amount that a column of the tree counts for the job at a position: 0 its walltime, then its needs.

    Rounding to 24 bits keeps the order of any two amounts, so no job that fits is missed; the job itself is checked
    exactly.
    """
    q = state.queue
    return np.float32(q.walltime[place] if column == 0 else q.need[column - 1, place])


@apart(jobs=int64[::1], keys=float64[::1])
def _spread(state, slot, first, blocks, used, jobs, keys, passed):
    """Spread jobs evenly over the first `used` blocks of a subtree, and update the tree.

    passed: how many of them the walk has passed, if it is there.
    """
    q = state.queue
    leaves, columns, classes = q.places // BLOCK, q.tree.shape[1], q.bound.shape[1] + 1
    root = 2 * leaves * slot
    walks = first * BLOCK <= q.cursor[slot] < (first + blocks) * BLOCK
    done = 0
    for b in range(blocks):
        block = first + b
        here = len(jobs) * min(b + 1, used) // used - done
        q.count[block] = here
        if b > 0:
            if done < len(jobs):
                q.least_key[block], q.least_job[block] = keys[done], jobs[done]
            else:  # like the next block behind these, see below
                q.least_key[block], q.least_job[block] = np.inf, END
        row = root + leaves + block - slot * leaves
        for i in range(columns):
            q.tree[row, i] = NOBODY
        for i in range(here):
            place = block * BLOCK + i
            write_place(state, place, jobs[done + i], keys[done + i])
            q.block[slot, jobs[done + i]] = block
            c = q.size[place] = _class_of(state, slot, place)
            for column in range(1 + q.need.shape[0]):
                if _amount(state, column, place) < q.tree[row, column * classes + c]:
                    q.tree[row, column * classes + c] = _amount(state, column, place)
        if walks and (done <= passed < done + here or (passed == done + here and here > 0)):
            q.cursor[slot] = block * BLOCK + passed - done
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
def insert_deep(state, slot, job, key):
    """Insert a job into an order that is stored in blocks."""
    q = state.queue
    block, leaves = _find_block(state, slot, job, key), q.places // BLOCK
    while True:
        last, is_last = block * BLOCK + q.count[block] - 1, block + 1 == (slot + 1) * leaves
        at_end = q.count[block] > 0 and lies_before(q.key[last], q.line[last], key, job)
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
    while place > begin and lies_before(key, job, q.key[place - 1], q.line[place - 1]):
        place -= 1
    open_place(state, place, end)
    shift_back(q.size, place, end)
    write_place(state, place, job, key)
    c = q.size[place] = _class_of(state, slot, place)
    q.block[slot, job] = block
    q.count[block] += 1
    q.front[slot] = min(q.front[slot], begin)
    if lies_before(key, job, q.passed_key[slot], q.passed_job[slot]):
        q.cursor[slot] = max(q.cursor[slot] + (place <= q.cursor[slot] <= end), place + 1)
    elif place < q.cursor[slot]:
        q.cursor[slot] = place
    _add_to_tree(state, slot, block, place, c)


@kernel(inline=True)
def _find_block(state, slot, job, key):
    """Return the block for a job: the last one whose least key is not after it."""
    q = state.queue
    step = q.places // BLOCK
    last = q.back[slot] // BLOCK
    if not lies_before(key, job, q.least_key[last], q.least_job[last]):
        return last
    block = slot * step
    while step > 1:
        step >>= 1
        if not lies_before(key, job, q.least_key[block + step], q.least_job[block + step]):
            block += step
    return block


@kernel(inline=True)
def _add_to_tree(state, slot, block, place, c):
    """Update a block, and every node above it, with the job at a position."""
    q = state.queue
    leaves, classes = q.places // BLOCK, q.bound.shape[1] + 1
    node = leaves + block - slot * leaves
    news = True
    while node > 0 and news:
        news = False
        row = 2 * leaves * slot + node
        for column in range(1 + q.need.shape[0]):
            amount = _amount(state, column, place)
            if amount < q.tree[row, column * classes + c]:
                q.tree[row, column * classes + c] = amount
                news = True
        node >>= 1


@apart()
def _make_room_deep(state, slot, block, by_submit):
    """Make space for a full block: spread the smallest subtree around it that has space.

    By submit, all jobs are moved to the front instead.
    """
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
            passed = gather(state, slot, first * BLOCK, (first + width) * BLOCK, jobs, keys)
            if width == leaves:
                _fill(state, slot, jobs, keys, passed, by_submit)
            else:
                _spread(state, slot, first, width, width, jobs, keys, passed)
            return
        width *= 2
        full = max(full - 0.03125, 0.75)


@apart()
def remove_deep(state, slot, job):
    """Remove a job from an order that is stored in blocks."""
    q = state.queue
    leaves = q.places // BLOCK
    block = np.int64(q.block[slot, job])
    begin, end = block * BLOCK, block * BLOCK + q.count[block]
    place = begin
    while q.line[place] != job:
        place += 1
    root, leaf, c = 2 * leaves * slot, leaves + block - slot * leaves, np.int64(q.size[place])
    q.size[place] = NO_CLASS
    for column in range(1 + q.need.shape[0]):
        i = column * (q.bound.shape[1] + 1) + c
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
    close_place(state, place, end)
    shift_forward(q.size, place, end)
    q.count[block] -= 1
    q.cursor[slot] -= place < q.cursor[slot] <= end and q.cursor[slot] < begin + BLOCK


@kernel(inline=True)
def _may_hold(state, row):
    """Return whether a subtree may hold a job that could start now, in some class."""
    q = state.queue
    tree, resources = q.tree, state.machine.resources
    n = q.bound.shape[1] + 1  # not a constant: the compiler would unroll the loop instead of vectorizing it
    span, free, extra = q.most[0, 0], q.most[1, 0], q.most[2, 0]
    found = False
    if not state.machine.pool:
        for c in range(n):
            units = tree[row, n + c]
            found |= (units <= q.most[1, c]) & ((tree[row, c] <= span) | (units <= q.most[2, c]))
        return found
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


@kernel()
def _is_known(last, what):
    """Return whether the inputs of the limits are unchanged since the last call, and remember them."""
    known = True
    for i in range(len(last)):
        known &= last[i] == what[i]
        last[i] = what[i]
    return known


@apart()
def set_limits_of_shapes(state, slot, span):
    """Set, per shape, the largest number of units of a candidate that ends in time, and of one that does not.

    -1: no such job fits. A shape is counted only if the results for smaller shapes leave it a chance.
    """
    q, shapes = state.queue, state.free.shapes
    n, root = q.bound.shape[1] + 1, 2 * (q.places // BLOCK) * slot + 1
    if _is_known(q.limited, (slot, state.now, span, shapes.changes, q.waiting, state.shadow.job)):
        return
    counted = 0
    for i in range(n):
        s = shapes.order[i]
        least = q.tree[root, n + s]
        q.most[1, s] = q.most[2, s] = -1
        if least == NOBODY:
            continue
        free = beside = NOBODY
        for c in range(counted):
            smaller = shapes.counted[c]
            if shapes.below[smaller, s]:
                free, beside = min(free, q.most[1, smaller]), min(beside, q.most[2, smaller])
        if q.tree[root, s] > q.most[0, 0]:  # no job of this shape ends in time
            free = min(free, beside)
        if least <= free:
            q.most[1, s], q.most[2, s] = units_free(state, s), units_beside(state, s)
            shapes.counted[counted] = s
            counted += 1


@apart()
def search(state, slot, span):
    """Return the position of the next job of the walk that could start now; -1 if there is none."""
    q = state.queue
    leaves = q.places // BLOCK
    root, blocks = 2 * leaves * slot, slot * leaves
    looks, node, resumes = 0, 1, q.cursor[slot] > q.front[slot]
    while node > 0:
        looks += 1
        if _may_hold(state, root + node):
            if resumes:  # continue with the rest of a block
                if q.cursor[slot] == (slot + 1) * q.places:
                    break
                place = q.cursor[slot]
                block = place // BLOCK
                node, resumes = leaves + block - blocks, False
            elif node < leaves:
                node *= 2
                continue
            else:
                block = node - leaves + blocks
                place = block * BLOCK
            begin, end = place, block * BLOCK + q.count[block]
            place = first_that_may(state, begin, end, span)
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


@apart()
def next_deep(state, slot):
    """Return the position of the next job of the walk; -1 at the end."""
    q = state.queue
    place = q.cursor[slot]
    block = place // BLOCK
    while block < (slot + 1) * (q.places // BLOCK):
        if place < block * BLOCK + q.count[block]:
            return place
        block += 1
        place = block * BLOCK
    return NONE
