"""Slurm's main scheduling loop: in strict order, and a job that does not fit blocks its partition and its nodes.

Source: _schedule in job_scheduler.c of Slurm 22.05.8.
"""

import numpy as np

from backfill.compiler.kernel import kernel
from backfill.core.place.outlook import may_fit
from backfill.core.queue.walk import following, rewind
from backfill.core.verbs import FIT, HEAD, start
from backfill.policies.slurm.bits import nodes_of, remove_all, size, up_nodes
from backfill.policies.slurm.minutes import hold_minutes, limit_seconds
from backfill.policies.slurm.queue import (
    has_lists,
    is_limited,
    lacks_licences,
    leave_through,
    list_of,
    partition_count,
    partition_of,
    queue_of_pairs,
    reserves_nothing,
)
from backfill.policies.slurm.seats import choose, lacks_named, least_nodes, named_in, names, place_as_taken


@kernel()
def main_pass(state, full):
    """Start jobs in order. Return whether the pass ended at its depth.

    full: whether the pass ignores default_queue_depth.
    """
    own, nodes, parts, up = state.own, state.machine.nodes, partition_count(state), up_nodes(state)
    sets, known = np.empty((parts, len(up)), np.uint64), np.zeros(parts, np.int8)
    blocked, tested = np.zeros(parts, np.int8), np.zeros(parts, np.int64)
    left = up.copy()  # nodes that no blocked job has taken away
    usable, taken, on = np.empty(nodes, np.int64), np.empty(nodes, np.int64), np.empty_like(up)
    depth, started, overtakes, touched = 0, 0, False, False
    several, waiting = has_lists(state), state.queue.waiting
    pairs = queue_of_pairs(state) if several else (usable[:0], usable[:0])
    rewind(state, 0)
    for i in range(len(pairs[0]) if several else waiting):
        job = pairs[0][i] if several else following(state, 0)
        part = pairs[1][i] if several else partition_of(state, job)
        if several:
            own.tried[job] = part
            if state.queue.waits[job] == 0:  # it started in another partition
                continue
        if own.sched_max_job_start > 0.0 and started >= own.sched_max_job_start:
            break
        if own.partition_job_depth > 0.0 and tested[part] >= own.partition_job_depth:
            continue
        if not full and depth > own.default_queue_depth:
            own.busy[0] = np.int64(touched)
            return True
        depth += 1
        tested[part] += 1
        if blocked[part]:
            touched = True
            continue
        if is_limited(state, job, False):
            overtakes = True
            continue
        within = nodes_of(state, part, up, sets, known)
        allowed = within & left
        fits, blocks, lacks = False, True, lacks_named(state, job, within, allowed)
        if size(allowed) >= least_nodes(state, job) and not lacks:
            if lacks_licences(state, job):
                overtakes = True
                continue
            own.looked[job] = 1
            if is_limited(state, job, True):  # whether or not there are nodes
                blocks = own.assoc_limit_stop > 0.0
            else:
                fits = may_fit(state, job) and choose(state, job, allowed, state.free.nodes, usable, taken, on)
                # what would not fit on the nodes that are left if they were empty is "not available", and blocks nobody
                blocks = fits or fits_if_empty(state, job, within, allowed, usable)
                fits = fits and place_as_taken(state, job, taken)
            blocks = blocks and not reserves_nothing(state, job, part)
        if fits:
            start(state, job, FIT if overtakes else HEAD)
            hold_minutes(state, job, limit_seconds(state, job))
            if several:
                leave_through(state, job, part)
            started += 1
            continue
        overtakes = True
        if blocks and not lacks and len(names(state, job)) >= max(least_nodes(state, job), 1):
            remove_all(left, named_in(state, job, within))
        elif blocks:
            blocked[part] = 1
            remove_all(left, within)
    own.busy[0] = np.int64(touched)
    return False


@kernel()
def fits_if_empty(state, job, within, allowed, usable):
    """Return whether a job would fit on the allowed nodes if they were empty.

    within: the nodes of its partition. For all of them the answer is kept as long as no capacity changes.
    """
    own, spare = state.own, np.empty_like(usable)
    whole, version = size(within) == size(allowed), 2 * (own.capacities[0] + 1)
    whole = whole and not (has_lists(state) and list_of(state, job) >= 0)
    if whole and own.empty[job] - version in (0, 1):
        return own.empty[job] != version
    found = choose(state, job, allowed, state.machine.capacity, usable, spare, np.empty_like(allowed))
    if whole:
        own.empty[job] = version + np.int64(found)
    return found
