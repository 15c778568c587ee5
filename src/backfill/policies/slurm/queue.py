"""What both loops of Slurm ask of a waiting job: its partition, and the limits and licences that stop it."""

import numpy as np

from backfill.compiler.kernel import apart, kernel
from backfill.core.queue.limits import first_limit
from backfill.core.queue.walk import following, rewind
from backfill.policies.slurm.minutes import lacks_minutes

MOST = 2.0**32 - 1.0  # priority
TIER = 2.0**32  # a tier outweighs every priority


@kernel(inline=True)
def partition_count(state):
    """Return the number of partitions."""
    return np.int64(len(state.own.tier)) if len(state.own.tier) > 0 else np.int64(len(state.machine.allowed)) + 1


@kernel(inline=True)
def partition_of(state, job):
    """Return the partition of a job, or its list of them. Without a site, jobs that may use the same nodes form one."""
    return state.own.partition[job] if len(state.own.tier) > 0 else np.int64(state.jobs.bound[job]) + 1


@kernel(inline=True)
def has_lists(state):
    """Return whether any job asked for several partitions."""
    return len(state.own.list_first) > 1


@kernel(inline=True)
def list_of(state, job):
    """Return the number of a job's list of partitions; -1 if it asked for one."""
    return state.own.partition[job] - (np.int64(len(state.own.tier)) - np.int64(len(state.own.list_first)) + 1)


@apart(of_policy=True)
def queue_of_pairs(state):
    """Return the queue of the loops, an entry for each waiting job and each partition it asked for: (jobs, partitions).

    In Slurm's order: tier, priority, submit. A partition whose time limit is below that of the job has no entry.
    """
    own, waiting = state.own, state.queue.waiting
    line = np.empty(waiting, np.int64)
    rewind(state, 0)
    for i in range(waiting):
        line[i] = following(state, 0)
    line = np.sort(line)  # by submit
    count = 0
    for job in line:
        which = list_of(state, job)
        count += own.list_first[which + 1] - own.list_first[which] if which >= 0 else 1
    jobs, parts, keys = np.empty(count, np.int64), np.empty(count, np.int64), np.empty(count)
    count = 0
    for job in line:
        which, own.planned[job] = list_of(state, job), 0
        if which < 0:
            jobs[count], parts[count], keys[count] = job, own.partition[job], own.key[job]
            count += 1
            continue
        for x in range(own.list_first[which], own.list_first[which + 1]):
            part = own.list_part[x]
            if own.max_time[part] == 0 or state.jobs.walltime[job] <= own.max_time[part]:
                jobs[count], parts[count] = job, part
                keys[count] = -(own.tier[part] * TIER + points_in(state, job, x - own.list_first[which]))
                count += 1
    order = np.argsort(keys[:count], kind="mergesort")
    return jobs[order], parts[order]


@kernel(inline=True)
def key_of(state, job):
    """Return the key by which the queue is sorted, ascending: the highest tier first, then the highest priority."""
    own = state.own
    tier = own.tier[own.partition[job]] if len(own.tier) > 0 else np.int64(0)
    return -(tier * TIER + own.points[job])


@kernel(inline=True)
def points_in(state, job, x):
    """Return the priority of a job in a partition of its list. x: its place there; -1: the job has none."""
    own = state.own
    if x < 0 or own.multifactor[0] == 0:
        return own.points[job]
    return np.floor(min(max(own.bare[job] + own.pair_points[own.pair_first[job] + x], 1.0), MOST))


@kernel()
def place_in_list(state, job, part):
    """Return the place of a partition in a job's list; -1 if the job has none."""
    own, which = state.own, list_of(state, job)
    if which >= 0:
        for x in range(own.list_first[which], own.list_first[which + 1]):
            if own.list_part[x] == part:
                return x - own.list_first[which]
    return np.int64(-1)


@kernel()
def leave_through(state, job, part):
    """Charge a job, which started in this partition of its list, as jobs there are."""
    own, x = state.own, place_in_list(state, job, part)
    if x >= 0:
        own.charge[job] = own.pair_charge[own.pair_first[job] + x]


@kernel(inline=True)
def association_of(state, job):
    """Return the association of a job, -1 if it has none. Without a site, each user has one."""
    return state.own.association[job] if len(state.own.tier) > 0 else np.int64(state.jobs.user[job])


@kernel(inline=True)
def is_in(state, partition, node):
    """Return whether a node belongs to a partition."""
    if len(state.own.tier) > 0:
        return state.own.partition_nodes[partition * state.machine.nodes + node] != 0
    return partition == 0 or state.machine.allowed[partition - 1, node] != 0


@kernel(inline=True)
def lacks_licences(state, job):
    """Return whether a licence that a job needs is not free now."""
    jobs = state.jobs
    for item in range(jobs.licence_first[job], jobs.limit_first[job]):
        if state.free.licences[jobs.licence[item]] < jobs.licence_count[item, 0]:
            return True
    return False


@kernel(inline=True)
def is_limited(state, job, of_amounts):
    """Return whether a limit keeps a job from starting now: one on amounts of resources or on their minutes, or else
    one on numbers of jobs.

    Slurm checks the latter before it looks for nodes. Without a site, all limits count as such.
    """
    if first_limit(state, job, state.own.on_amounts, np.int64(of_amounts), state.own.spared_use) >= 0:
        return True
    return of_amounts and lacks_minutes(state, job, True)


@kernel(inline=True)
def reserves_nothing(state, job, part):
    """Return whether a job is too young, or its priority in a partition too low, to hold back others."""
    own, least = state.own, state.own.bf_min_prio_reserve
    if len(own.reserves_from) > 0 and own.reserves_from[job] > 0.0:
        least = own.reserves_from[job]
    points = points_in(state, job, place_in_list(state, job, part)) if has_lists(state) else own.points[job]
    waited = np.floor(state.now / 1e6) - np.floor(own.since[job] / 1e6)
    return waited < own.bf_min_age_reserve or points < least
