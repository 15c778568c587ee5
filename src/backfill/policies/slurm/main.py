"""Slurm's main scheduling loop: in strict order, and a job that does not fit blocks its partition and its nodes.

Source: _schedule in job_scheduler.c of Slurm 22.05.8.
"""

import numpy as np

from backfill.compiler.kernel import kernel
from backfill.core.queue.walk import following, rewind
from backfill.core.verbs import FIT, HEAD, start
from backfill.policies.slurm.queue import (
    is_in,
    is_limited,
    is_up,
    lacks_licences,
    partition_count,
    partition_of,
    reserves_nothing,
)
from backfill.policies.slurm.seats import choose, least_nodes, place_as_taken


@kernel()
def main_pass(state, full):
    """Start jobs in order. Return whether the pass ended at its depth.

    full: whether the pass ignores default_queue_depth.
    """
    own, nodes, parts = state.own, state.machine.nodes, partition_count(state)
    blocked, tested = np.zeros(parts, np.int8), np.zeros(parts, np.int64)
    left = np.ones(nodes, np.int8)  # nodes that no blocked job has taken away
    allowed, usable, taken = np.empty(nodes, np.int8), np.empty(nodes, np.int64), np.empty(nodes, np.int64)
    spare = np.empty(nodes, np.int64)
    depth, started, overtakes, touched = 0, 0, False, False
    rewind(state, 0)
    for _ in range(state.queue.waiting):
        job = following(state, 0)
        part = partition_of(state, job)
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
        available = 0
        for node in range(nodes):
            allowed[node] = left[node] != 0 and is_in(state, part, node) and is_up(state, node)
            available += allowed[node]
        fits, blocks = False, True
        if available >= least_nodes(state, job):
            if lacks_licences(state, job):
                overtakes = True
                continue
            if is_limited(state, job, True):  # whether or not there are nodes
                blocks = own.assoc_limit_stop > 0.0
            else:
                fits = choose(state, job, allowed, state.free.nodes, usable, taken)
                # what would not fit on the nodes that are left if they were empty is "not available", and blocks nobody
                blocks = fits or choose(state, job, allowed, state.machine.capacity, usable, spare)
                fits = fits and place_as_taken(state, job, taken)
            blocks = blocks and not reserves_nothing(state, job)
        if fits:
            start(state, job, FIT if overtakes else HEAD)
            started += 1
            continue
        overtakes = True
        if blocks:
            blocked[part] = 1
            for node in range(nodes):
                if is_in(state, part, node):
                    left[node] = 0
    own.busy[0] = np.int64(touched)
    return False
