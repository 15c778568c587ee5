"""Shapes: classes of jobs with the same request to nodes, and how many units of each shape the free nodes can take.

A shape is the request of one task (of the whole job if it must run on one node) and the nodes where it may run. The
jobs of a log have few shapes. The number of fitting tasks is kept per shape and node, and counted again only on nodes
that changed since the last query, so "does this job fit" is one comparison. See kinds.py for how jobs get their shapes.
An inexact shape may overestimate what fits, so each placement checks the exact request.
"""

from typing import Any

import numpy as np
from numba import int8, int64

from backfill.compiler.kernel import apart, kernel
from backfill.compiler.loops import few_turns
from backfill.compiler.record import record, replace_array, zeros
from backfill.core.place.gangs import may_run_on
from backfill.core.place.placement import UNBOUNDED, holds, licences_free, tasks_that_fit, times
from backfill.core.place.seating import POWER, seat_by_rule
from backfill.model.platform import Platform

BLOCK = 16  # nodes per partial sum
FEW_BLOCKS = 256  # up to this number of blocks the largest free amount is kept
LONG = 64  # changes, and blocks for each further change, from which on a shape is long unseen
MANY = np.int64(2**40)  # stands for any number of tasks; no job has more

SHAPES = [
    ("count", int64),
    ("exact", int64),  # 1: all jobs of a shape have the same request, licences included
    ("single", int8[::1]),  # (s,): 1: a node takes at most one unit of a job; a unit may be a whole job
    ("together", int8[::1]),  # (s,): 1: all units run on one site
    ("unit", int64[:, ::1]),  # (s, k)
    ("anywhere", int8[::1]),  # (s,): 1: any node may be used
    ("first", int64[::1]),  # (s,): the first job of the shape
    ("below", int8[:, ::1]),  # (s, s): 1: if units of the second fit, at least as many of the first do
    ("order", int64[::1]),  # (s,): all shapes, none before one that is below it
    ("counted", int64[::1]),  # (s,): scratch
    # units that fit on the free nodes, as of `seen`
    ("units", int64[:, ::1]),  # (s, m)
    ("sums", int64[:, ::1]),  # (s, blocks): sums over the nodes of a block
    ("by_site", int64[:, ::1]),  # (s, sites): sums over the nodes of a site
    ("all", int64[::1]),  # (s,): the most that one job may have: over all nodes, or on one site
    ("seen", int64[::1]),  # (s,): number of changes that are taken into account
    ("changes", int64),  # number of changes of nodes so far
    ("node", int64[::1]),  # the nodes that changed last, as a ring
    ("noted", int64[::1]),  # (m,): position of the last change of a node in the ring
    ("grew", int64[::1]),  # (m,): the same for changes that increased the free amount
    ("read", int64),  # number of changes up to which some shape has counted
    ("top", int64[:, ::1]),  # (k, blocks): no node of a block has more free than this
    ("stale", int8[::1]),  # (blocks,): 1: of the first resource it may be too much
    ("largest", int64),  # no node has more of the first resource free; 0 or more
    ("loose", int64),  # 1: it may be too much
    # units that fit beside the reservation
    ("bound", int64[:, ::1]),  # (m, k): the extra on a node, as of its last change
    ("bounds", int64[::1]),  # the nodes on which the extra is bounded
    ("bounded", int64),  # number of these nodes
    ("spare", int64[:, ::1]),  # (s, m): units
    ("spare_by_site", int64[:, ::1]),  # (s, sites)
    ("beside", int64[::1]),  # (s,): like `all`
]
Shapes, ShapesT = record("Shapes", SHAPES, globals(), fixed=("count", "exact"))


def new_shapes(platform: Platform, shapes: int) -> Any:
    """Return a record with capacity for this many shapes, none of which is known yet."""
    nodes, ring = len(platform.nodes), 16
    while ring < nodes:
        ring *= 2
    begins = np.arange(0, nodes, BLOCK)
    return Shapes(
        count=0,
        exact=1,
        single=np.zeros(shapes, np.int8),
        together=np.zeros(shapes, np.int8),
        unit=zeros(shapes, len(platform.resources)),
        anywhere=np.zeros(shapes, np.int8),
        first=zeros(shapes),
        below=np.zeros((shapes, shapes), np.int8),
        counted=zeros(shapes),
        order=np.arange(shapes),
        units=zeros(shapes, nodes),
        sums=zeros(shapes, -(-nodes // BLOCK)),
        by_site=zeros(shapes, len(platform.sites)),
        all=zeros(shapes),
        seen=np.full(shapes, -1),
        changes=0,
        node=zeros(ring),
        noted=np.full(nodes, -1),
        grew=np.full(nodes, -1),
        read=0,
        top=np.ascontiguousarray(np.maximum.reduceat(platform.capacity, begins).T),
        stale=np.zeros(len(begins), np.int8),
        largest=platform.capacity[:, 0].max(),
        loose=0,
        bound=np.full_like(platform.capacity, UNBOUNDED),
        bounds=zeros(nodes),
        bounded=0,
        spare=zeros(shapes, nodes),
        spare_by_site=zeros(shapes, len(platform.sites)),
        beside=zeros(shapes),
    )


def forget_units(shapes: Any) -> None:
    """Free the numbers of units, by far the largest part on many nodes, once nothing is decided any more."""
    replace_array(shapes, "units", zeros(0, 0))
    replace_array(shapes, "spare", zeros(0, 0))


@kernel(inline=True)
def units_of(state, job):
    """Return the number of units that a job requests: its tasks, or one if they all run on one node."""
    return np.int64(1) if state.jobs.alone[job] else state.jobs.tasks[job]


@kernel()
def note_node(state, node, grown):
    """Note that the free amount of a node, or its extra beside the reservation, has changed.

    grown: it may be larger.
    """
    shapes = state.free.shapes
    if shapes.noted[node] < shapes.read:
        shapes.node[shapes.changes & (len(shapes.node) - 1)] = node
        shapes.noted[node] = shapes.changes
        shapes.changes += 1
    if grown:
        shapes.grew[node] = shapes.noted[node]
        for k in range(shapes.top.shape[0]):
            shapes.top[k, node // BLOCK] = max(shapes.top[k, node // BLOCK], state.free.nodes[node, k])
        shapes.largest = max(shapes.largest, state.free.nodes[node, 0])
    else:
        shapes.stale[node // BLOCK] = shapes.loose = 1


@kernel(inline=True)
def _count(unit, single, room, node):
    """Return how many units of a shape, one of which requests `unit` (k,), fit into these amounts of a node."""
    units = MANY
    for k in range(len(unit)):
        few_turns()
        if unit[k] > 0:
            if room[node, k] < unit[k]:
                return np.int64(0)
            units = min(units, times(room[node, k], unit[k]))
    return min(units, 1) if single else units


@kernel()
def _may_sit_there(state, s, node):
    """Return whether jobs of a shape may run on a node."""
    shapes, machine, jobs = state.free.shapes, state.machine, state.jobs
    job = shapes.first[s]
    if shapes.exact:
        return may_run_on(state, job, node)
    return machine.allowed[jobs.bound[job], node] != 0  # other jobs of the shape may request other licences


@apart()
def _catch_up(state, s):
    """Count the units of a shape again on the nodes that have changed, or on all."""
    shapes, site, room, bound = state.free.shapes, state.machine.site, state.free.nodes, state.free.shapes.bound
    ring, noted, grew, unit = shapes.node, shapes.noted, shapes.grew, shapes.unit[s]
    units, spare, sums = shapes.units[s], shapes.spare[s], shapes.sums[s]
    by_site, spare_by_site = shapes.by_site[s], shapes.spare_by_site[s]
    seen, single, anywhere = shapes.seen[s], shapes.single[s] != 0, shapes.anywhere[s] != 0
    missed, mask = shapes.changes - seen, len(ring) - 1
    anew = seen < 0 or missed >= len(ring)
    free, beside = shapes.all[s], shapes.beside[s]
    for i in range(len(site) if anew else missed):
        node = i
        if not anew:
            node = ring[(seen + i) & mask]
            if noted[node] != seen + i:
                continue  # the node follows again later
            if units[node] == 0 and grew[node] < seen:
                continue  # still nothing fits
        here = _count(unit, single, room, node) if anywhere or _may_sit_there(state, s, node) else np.int64(0)
        more = here - units[node]
        if more != 0:
            units[node] = here
            sums[node // BLOCK] += more
            by_site[site[node]] += more
            free += more
        if here > 0 and bound[node, 0] < UNBOUNDED:
            here = min(here, _count(unit, single, bound, node))
        if here != spare[node]:
            beside += here - spare[node]
            spare_by_site[site[node]] += here - spare[node]
            spare[node] = here
    if shapes.together[s]:
        free = beside = np.int64(0)
        for i in range(len(by_site)):
            free, beside = max(free, by_site[i]), max(beside, spare_by_site[i])
    shapes.all[s], shapes.beside[s] = free, beside
    shapes.seen[s] = shapes.read = shapes.changes


@kernel(inline=True)
def fits_nowhere(state, s):
    """Return whether no node has as much of the first resource free as one unit of a shape needs."""
    shapes = state.free.shapes
    if shapes.loose and shapes.unit[s, 0] <= shapes.largest and len(shapes.stale) <= FEW_BLOCKS:
        _find_largest(state)
    return shapes.unit[s, 0] > shapes.largest


@apart()
def _find_largest(state):
    """Find the largest amount of the first resource that is free on a node."""
    shapes, nodes, top, stale = state.free.shapes, state.free.nodes, state.free.shapes.top[0], state.free.shapes.stale
    largest = np.int64(0)
    for block in range(len(stale)):
        if stale[block]:
            begin = block * BLOCK
            most = nodes[begin, 0]
            for node in range(begin + 1, min(begin + BLOCK, state.machine.nodes)):
                most = max(most, nodes[node, 0])
            top[block], stale[block] = most, 0
        largest = max(largest, top[block])
    shapes.largest, shapes.loose = largest, 0


@kernel(inline=True)
def units_free(state, s):
    """Return the largest number of units of a shape that one job may have now."""
    shapes = state.free.shapes
    if fits_nowhere(state, s):
        return np.int64(0)
    if shapes.seen[s] != shapes.changes:
        _catch_up(state, s)
    if shapes.exact and not _licences_of_shape(state, s, False):
        return np.int64(0)
    return shapes.all[s]


@kernel(inline=True)
def units_beside(state, s):
    """Return the largest number of units of a shape that one job may have now beside the reservation."""
    shapes = state.free.shapes
    free = units_free(state, s)
    if state.shadow.job < 0 or free == 0:
        return free
    if shapes.exact and not _licences_of_shape(state, s, True):
        return np.int64(0)
    return shapes.beside[s]


@apart()
def heed_reservation(state):
    """Note the nodes on which the extra beside the reservation has changed."""
    shapes, shadow = state.free.shapes, state.shadow
    for i in range(shapes.bounded):
        if i >= shadow.count or shapes.bounds[i] != shadow.pairs[i, 0]:
            heed_node(state, shapes.bounds[i])
    shapes.bounded = shadow.count
    for i in range(shadow.count):
        shapes.bounds[i] = shadow.pairs[i, 0]
        heed_node(state, shapes.bounds[i])


@kernel()
def heed_node(state, node):
    """Note one node if its extra beside the reservation has changed."""
    shapes, extra = state.free.shapes, state.shadow.extra
    differs = False
    for k in range(extra.shape[1]):
        few_turns()
        differs |= shapes.bound[node, k] != extra[node, k]
    if differs:
        for k in range(extra.shape[1]):
            few_turns()
            shapes.bound[node, k] = extra[node, k]
        note_node(state, node, False)


@kernel()
def _licences_of_shape(state, s, beside):
    """Return whether the licences that the jobs of a shape request are free."""
    job = state.free.shapes.first[s]
    return _free_items(state, state.jobs.licence_first[job], state.jobs.limit_first[job], beside)


@kernel()
def licences_are_free(state, job, beside):
    """Return whether a job's licences are free and its limits allow it; with `beside`, also beside the reservation."""
    return _free_items(state, state.jobs.licence_first[job], state.jobs.licence_first[job + 1], beside)


@kernel()
def limits_allow(state, job, beside):
    """Return whether the limits that count a job allow it to run; with `beside`, also beside the reservation."""
    return _free_items(state, state.jobs.limit_first[job], state.jobs.licence_first[job + 1], beside)


@kernel()
def _free_items(state, first, last, beside):
    jobs = state.jobs
    if beside and not licences_free(state.shadow.licences, jobs.licence, jobs.licence_count, first, last):
        return False
    return licences_free(state.free.licences, jobs.licence, jobs.licence_count, first, last)


@apart()
def may_sit(state, job, long):
    """Return whether a job may fit now; it surely does if shapes are exact.

    long: it must fit beside the reservation.
    """
    s, units = state.jobs.shape[job], units_of(state, job)
    if units_free(state, s) < units or (long and units_beside(state, s) < units):
        return False
    if state.free.shapes.exact:
        return limits_allow(state, job, long)
    return licences_are_free(state, job, long)


@apart()
def sit(state, job, beside):
    """Return whether a job fits into the free resources, with `beside` also beside the reservation; fill `placed`.

    Slow twin: tests/reference/placement.py.
    """
    shapes, machine, placed = state.free.shapes, state.machine, state.placed
    s, units = np.int64(state.jobs.shape[job]), units_of(state, job)
    placed.count, placed.job = 0, job
    if _is_long_unseen(state, job, s) and licences_are_free(state, job, beside) and _sit_uncounted(state, job, beside):
        return True
    if not may_sit(state, job, beside):
        return False
    if state.jobs.place[job] != POWER:
        return seat_by_rule(state, job, _room_beside(state) if beside else state.free.nodes)
    if not shapes.together[s]:
        left = state.jobs.tasks[job]
        for block in range(shapes.sums.shape[1]):
            if shapes.sums[s, block] > 0:
                for node in range(block * BLOCK, min((block + 1) * BLOCK, machine.nodes)):
                    if shapes.units[s, node] > 0:
                        left -= _take_node(state, job, s, node, left, beside, True)
                        if left == 0:
                            return True
        placed.count = 0
        return False
    for place in range(len(machine.sites)):
        site = machine.sites[place]
        left = state.jobs.tasks[job]
        if (shapes.spare_by_site[s, site] if beside else shapes.by_site[s, site]) >= units:
            for i in range(machine.site_first[site], machine.site_first[site + 1]):
                left -= _take_node(state, job, s, machine.site_node[i], left, beside, True)
                if left == 0:
                    return True
            placed.count = 0
    return False


@kernel()
def _room_beside(state):
    """Return the free amounts of each node (m, k) beside the reservation."""
    room = np.empty_like(state.free.nodes)
    for node in range(state.machine.nodes):
        for k in range(state.machine.resources):
            few_turns()
            room[node, k] = min(state.free.nodes[node, k], state.shadow.extra[node, k])
    return room


@kernel(inline=True)
def _is_long_unseen(state, job, s):
    """Return whether looking for nodes costs less than counting a shape again on all that changed since it was seen."""
    shapes = state.free.shapes
    unseen = shapes.seen[s] < 0 or shapes.changes - shapes.seen[s] > LONG + shapes.top.shape[1] // LONG
    return unseen and not shapes.together[s] and state.jobs.place[job] == POWER


@kernel()
def _sit_uncounted(state, job, beside):
    """Return whether a job fits, in the blocks of nodes that have enough of each resource; fill `placed`.

    This needs no units of its shape. Most blocks lack the first resource, or none.
    """
    shapes, left, s = state.free.shapes, state.jobs.tasks[job], np.int64(state.jobs.shape[job])
    first, asked = shapes.top[0], shapes.unit[s, 0]
    for block in range(len(first)):
        if first[block] >= asked and _may_have_room(shapes, s, block):
            left -= _take_from_block(state, job, s, block, left, beside)
            if left == 0:
                return True
    state.placed.count = 0
    return False


@kernel(inline=True)
def _may_have_room(shapes, s, block):
    """Return whether no resource rules out that a node of a block takes a unit of a shape."""
    for k in range(1, shapes.top.shape[0]):
        few_turns()
        if shapes.top[k, block] < shapes.unit[s, k]:
            return False
    return True


@kernel()
def _take_from_block(state, job, s, block, tasks, beside):
    """Put as many of the remaining tasks on the nodes of a block as fit there. Return how many."""
    shapes, free, left = state.free.shapes, state.free.nodes, tasks
    begin, end = block * BLOCK, min((block + 1) * BLOCK, state.machine.nodes)
    bound, allowed = state.jobs.bound[job], state.machine.allowed
    if bound >= 0:
        some = 0
        for node in range(begin, end):
            some += allowed[bound, node] != 0
        if some == 0:
            return np.int64(0)
    asked = shapes.unit[s, 0]
    for node in range(begin, end):
        if free[node, 0] >= asked:
            left -= _take_node(state, job, s, node, left, beside, False)
            if left == 0:
                return tasks
    if left == tasks:  # the bound may be too high
        for k in range(state.machine.resources):
            few_turns()
            most = free[begin, k]
            for node in range(begin + 1, end):
                most = max(most, free[node, k])
            shapes.top[k, block] = most
    return tasks - left


@kernel()
def _take_node(state, job, s, node, left, beside, counted):
    """Put as many of the remaining tasks on a node as fit there. Return how many. counted: its units are known."""
    shapes, jobs, placed = state.free.shapes, state.jobs, state.placed
    here = min(shapes.units[s, node], left) if counted else left
    if here == 0:
        return here
    if jobs.alone[job]:
        here = left
    if not (counted and shapes.exact):
        if not holds(state.free.nodes, node, jobs.demand, job, left if jobs.alone[job] else np.int64(1)):
            return np.int64(0)
        if not may_run_on(state, job, node):
            return np.int64(0)
        if not jobs.alone[job]:
            here = tasks_that_fit(state.free.nodes, node, jobs.demand, job, min(left, jobs.most[job]))
    if beside and state.shadow.extra[node, 0] < UNBOUNDED:
        here = tasks_that_fit(state.shadow.extra, node, jobs.demand, job, here)
    if here == 0 or (jobs.alone[job] and here < left):
        return np.int64(0)
    placed.pairs[placed.count, 0], placed.pairs[placed.count, 1] = node, here
    placed.count += 1
    return here
