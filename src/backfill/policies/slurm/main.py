"""Slurm's main scheduling loop: in strict order, and a job that does not fit blocks its partition and its nodes.

Source: _schedule in job_scheduler.c of Slurm 22.05.8.
"""

import numpy as np
from numba import uint64

from backfill.compiler.kernel import apart, kernel
from backfill.compiler.pointer import borrow, held
from backfill.core.place.outlook import may_fit
from backfill.core.queue.walk import following, rewind
from backfill.core.verbs import FIT, HEAD, start
from backfill.policies.slurm.arrays import is_passed_over, new_turn, note_task, running_tasks
from backfill.policies.slurm.bits import SetsT, look_up, new_sets, remove_all, size
from backfill.policies.slurm.minutes import hold_minutes, limit_seconds, spare
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
from backfill.policies.slurm.reasons import (
    LICENCES,
    RESOURCES,
    TAKEN,
    UNAVAILABLE,
    drop_limit,
    say,
    say_blocked,
    say_limit,
)
from backfill.policies.slurm.seats import (
    SeatsT,
    choose,
    lacks_named,
    least_nodes,
    named_in,
    names,
    new_seats,
    place_as_taken,
)


@kernel()
def main_pass(state, full):
    """Start jobs in order. Return whether the pass ended at its depth.

    full: whether the pass ignores default_queue_depth.
    """
    return pass_on(state, full, new_sets(state), new_seats(state))


@apart(of_policy=True, held_sets=held(SetsT), held_seats=held(SeatsT))
def pass_on(state, full, held_sets, held_seats):
    """Start jobs in order. Return whether the pass ended at its depth."""
    own, parts, sets, seats = state.own, partition_count(state), borrow(held_sets), borrow(held_seats)
    blocked, tested = np.zeros(parts, np.int8), np.zeros(parts, np.int64)
    left, within, allowed = sets.up.copy(), np.empty_like(sets.up), seats.allowed
    depth, started, overtakes, touched = 0, 0, False, False
    several, waiting = has_lists(state), state.queue.waiting
    turn, running = new_turn(), running_tasks(state)
    pairs = queue_of_pairs(state) if several else (tested[:0], tested[:0])
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
        if is_passed_over(state, job, part, turn, running):
            overtakes = True
            continue
        if own.partition_job_depth > 0.0 and tested[part] >= own.partition_job_depth:
            continue
        if not full and depth > own.default_queue_depth:
            own.busy[0] = np.int64(touched)
            return True
        depth += 1
        tested[part] += 1
        if blocked[part]:
            touched = True
            say_blocked(state, job)
            continue
        if is_limited(state, job, False):
            say_limit(state, job)
            overtakes = True
            continue
        drop_limit(state, job)
        look_up(state, sets, part)
        for x in range(len(left)):  # `left`: nodes that no blocked job has taken away
            within[x] = sets.of[part, x]
            allowed[x] = within[x] & left[x]
        fits, blocks, lacks = False, True, lacks_named(state, job, within, allowed)
        say(state, job, UNAVAILABLE if lacks else TAKEN)
        if size(allowed) >= least_nodes(state, job) and not lacks:
            if lacks_licences(state, job):
                say(state, job, LICENCES)
                overtakes = True
                if own.bf_licenses > 0.0:  # the backfill loop is to plan it before others take its nodes
                    break
                continue
            own.looked[job] = 1
            if is_limited(state, job, True):  # whether or not there are nodes
                say_limit(state, job)
                blocks = own.assoc_limit_stop > 0.0
            else:
                fits = may_fit(state, job) and choose(state, job, seats, state.free.nodes)
                # what would not fit on the nodes that are left if they were empty is "not available", and blocks nobody
                blocks = fits or fits_if_empty(state, job, within, seats)
                say(state, job, RESOURCES if blocks else UNAVAILABLE)
                fits = fits and place_as_taken(state, job, seats)
            blocks = blocks and not reserves_nothing(state, job, part)
        if fits:
            start(state, job, FIT if overtakes else HEAD)
            own.lowered[job] = 0
            hold_minutes(state, job, limit_seconds(state, job))
            spare(state, job)
            if several:
                leave_through(state, job, part)
            started += 1
            note_task(state, job, turn, running, True)
            continue
        overtakes = True
        if blocks and not lacks and len(names(state, job)) >= max(least_nodes(state, job), 1):
            remove_all(left, named_in(state, job, within))
        elif blocks:
            blocked[part] = 1
            remove_all(left, within)
    own.busy[0] = np.int64(touched)
    return False


@apart(of_policy=True, within=uint64[::1], seats=SeatsT)
def fits_if_empty(state, job, within, seats):
    """Return whether a job would fit on the allowed nodes if they were empty.

    within: the nodes of its partition. For all of them the answer is kept as long as no capacity changes.
    """
    own = state.own
    whole, version = size(within) == size(seats.allowed), 2 * (own.capacities[0] + 1)
    whole = whole and not (has_lists(state) and list_of(state, job) >= 0)
    if whole and own.empty[job] - version in (0, 1):
        return own.empty[job] != version
    found = choose(state, job, seats, state.machine.capacity)
    if whole:
        own.empty[job] = version + np.int64(found)
    return found
