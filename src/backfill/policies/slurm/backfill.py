"""Slurm's backfill loop: conservative backfilling on a coarse table, planned anew in each cycle and then forgotten.

Source: _attempt_backfill in sched/backfill (backfill.c) of Slurm 22.05.8; versions from 24.11 on are read, not run.
"""

import numpy as np

from backfill.compiler.kernel import kernel
from backfill.core.plan.promises import NO_TIME
from backfill.core.queue.walk import following, rewind
from backfill.core.verbs import BACKFILL, held_back, reserve, start
from backfill.policies.slurm.ends import SECOND, expected_start, whole_second
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
from backfill.policies.slurm.space import is_clear, occupy
from backfill.policies.slurm.told import BEYOND, LIMITED, NO_ROOM, UNLICENSED, note, record
from backfill.policies.slurm.told import SKIPPED as SKIPPED_BY_DEPTH

SKIPPED, TESTED, PLANNED, STARTED, FULL, STUCK = range(6)  # what became of a job in a cycle
YEAR = 365 * 86_400 * SECOND


@kernel()
def cycle(state):
    """Run one cycle. Return the microseconds that it takes."""
    own, nodes, parts = state.own, state.machine.nodes, partition_count(state)
    users = np.int64(2)
    rewind(state, 0)
    for _ in range(state.queue.waiting):
        users = max(users, np.int64(state.jobs.user[following(state, 0)]) + 2)
    of_user, of_part, planned = np.zeros(users, np.int64), np.zeros(parts, np.int64), np.zeros(parts, np.int64)
    of_both = np.zeros((users, parts) if own.bf_max_job_user_part > 0.0 else (1, 1), np.int64)
    resolution, now = np.int64(own.bf_resolution) * SECOND, whole_second(state.now)
    most = min(np.int64(own.bf_node_space_size), 2 * state.queue.waiting + 1)
    times, clear = np.empty((most + 3, 2), np.int64), np.empty((most + 3, nodes), np.int8)
    times[0, 0] = now // resolution * resolution
    times[0, 1] = (now + np.int64(own.bf_window) * 60 * SECOND) // resolution * resolution
    for node in range(nodes):
        clear[0, node] = is_up(state, node)
    count, tested, started, work = np.int64(1), 0, 0, 0.0
    most_work = own.bf_max_time * 1e6
    if own.bf_continue <= 0.0:  # a job or a node has changed by the time of its first sleep
        most_work = min(most_work, own.bf_yield_interval)
    rewind(state, 0)
    for _ in range(state.queue.waiting):
        job = following(state, 0)
        part, user = partition_of(state, job), np.int64(state.jobs.user[job]) + 1
        if own.bf_max_job_start > 0.0 and started >= own.bf_max_job_start:
            break
        if is_limited(state, job, False) and own.assoc_limit_stop <= 0.0:
            note(state, job, LIMITED)
            continue
        if (
            (own.bf_max_job_part > 0.0 and of_part[part] >= own.bf_max_job_part)
            or (own.bf_max_job_user > 0.0 and of_user[user] >= own.bf_max_job_user)
            or (own.bf_max_job_user_part > 0.0 and of_both[user, part] >= own.bf_max_job_user_part)
        ):
            note(state, job, SKIPPED_BY_DEPTH)
            continue
        of_part[part] += 1
        of_user[user] += 1
        if own.bf_max_job_user_part > 0.0:
            of_both[user, part] += 1
        if lacks_licences(state, job):
            note(state, job, UNLICENSED)
            continue
        only_now = reserves_nothing(state, job) or (
            own.bf_job_part_count_reserve > 0.0 and planned[part] >= own.bf_job_part_count_reserve
        )
        what, count = plan_one(state, job, part, now, only_now, times, clear, count, most)
        if what >= FULL:
            work = most_work if what == STUCK else work
            break
        if what < PLANNED:
            note(state, job, NO_ROOM)
        tested += what >= TESTED
        started += what == STARTED
        planned[part] += what == PLANNED
        work += own.bf_test_cost * 1000.0 * (what >= TESTED)
        if tested >= own.bf_max_job_test or spent(state, work) >= most_work:
            break
    own.reached[0], own.started[0] = tested, started
    return np.int64(spent(state, work))


@kernel()
def spent(state, work):
    """Return the microseconds that a cycle takes for so much work, with its sleeps."""
    own = state.own
    return work + np.floor(work / own.bf_yield_interval) * own.bf_yield_sleep


@kernel()
def plan_one(state, job, part, now, only_now, times, clear, count, most):
    """Start a job, or plan it and remove its nodes from the table. Return what became of it, and the number of records.

    times: (s, 2). clear: int8 (s, m). only_now: it gets no place in the plan.
    """
    own, nodes = state.own, state.machine.nodes
    allowed, usable, taken = np.empty(nodes, np.int8), np.empty(nodes, np.int64), np.empty(nodes, np.int64)
    resolution, length = np.int64(own.bf_resolution) * SECOND, length_of(state, job, part)
    after, what = now, SKIPPED
    until = now + np.int64(own.bf_window) * 60 * SECOND
    while True:
        later = next_chance(state, part, times, clear, count, after, length)
        narrow(state, part, times, clear, count, after, length, allowed)
        begin, able = NO_TIME, 0
        for node in range(nodes):
            able += allowed[node]
        if able >= least_nodes(state, job):
            what = TESTED
            begin = expected_start(state, job, allowed, now, after, later, usable, taken)
        if begin == NO_TIME:
            if later == NO_TIME or only_now:
                return what, count
            after = later
            continue
        begin = max(begin, after)
        if held_back(state, job):
            if own.assoc_limit_stop <= 0.0:
                note(state, job, LIMITED)
                return TESTED, count
            begin = later if later != NO_TIME else now + 500 * SECOND
        elif begin <= now:
            if choose(state, job, allowed, state.free.nodes, usable, taken) and place_as_taken(state, job, taken):
                start(state, job, BACKFILL)
                return STARTED, count
            return TESTED, count
        if only_now:
            reserve(state, job, begin)
            return TESTED, count
        if later != NO_TIME and begin > later:
            after = later
            continue
        if begin > until:
            reserve(state, job, begin)
            note(state, job, BEYOND)
            return TESTED, count
        if count + 2 > most:
            return FULL, count
        first, last = begin // resolution * resolution, begin + length
        last = -(-last // resolution) * resolution if own.version >= 24.11 else last // resolution * resolution
        last = max(last, first + resolution)
        if not is_clear(times, clear, count, first, last, taken):
            step = resolution if own.version >= 25.05 else np.int64(0)
            if begin + step == after:  # Slurm tries this instant again and again, until bf_max_time is over
                return STUCK, count
            after = begin + step
            continue
        reserve(state, job, begin)
        record(state, job, begin, taken)
        count = occupy(times, clear, count, first, last, taken)
        return PLANNED, count


@kernel(inline=True)
def length_of(state, job, part):
    """Return the time for which a job is planned: its limit, at most that of its partition."""
    length = min(state.jobs.walltime[job], YEAR)
    if len(state.own.max_time) > 0 and state.own.max_time[part] > 0:
        length = min(length, state.own.max_time[part])
    return length


@kernel()
def next_chance(state, part, times, clear, count, after, length):
    """Return the end of the first record behind which nodes of the partition become free; NO_TIME if there is none.

    They must not be free in all records so far. From 24.11 on the end of the first record behind the job's time serves
    otherwise.
    """
    nodes = state.machine.nodes
    so_far = np.ones(nodes, np.int8)
    for row in range(count):
        if times[row, 1] <= after:
            continue
        if row + 1 < count:
            for node in range(nodes):
                so_far[node] = so_far[node] != 0 and clear[row, node] != 0
            for node in range(nodes):
                if clear[row + 1, node] != 0 and so_far[node] == 0 and is_in(state, part, node):
                    return times[row, 1]
        if times[row, 0] > after + length:
            if state.own.version >= 24.11 and row + 1 < count:
                return times[row, 1]
            break
    return NO_TIME


@kernel()
def narrow(state, part, times, clear, count, after, length, allowed):
    """Write to `allowed` which nodes of a partition are free in every record from `after` to the end of a job."""
    for node in range(len(allowed)):
        allowed[node] = is_in(state, part, node) and is_up(state, node)
    for row in range(count):
        if times[row, 1] > after and times[row, 0] <= after + length:
            for node in range(len(allowed)):
                allowed[node] = allowed[node] != 0 and clear[row, node] != 0
