"""What both loops of Slurm ask of a waiting job: its partition, and the limits and licences that stop it."""

import numpy as np

from backfill.compiler.kernel import kernel
from backfill.core.queue.limits import held_back_by


@kernel(inline=True)
def partition_count(state):
    """Return the number of partitions."""
    return np.int64(len(state.own.tier)) if len(state.own.tier) > 0 else np.int64(len(state.machine.allowed)) + 1


@kernel(inline=True)
def partition_of(state, job):
    """Return the partition of a job. Without a site, the jobs that may use the same nodes form one."""
    return state.own.partition[job] if len(state.own.tier) > 0 else np.int64(state.jobs.bound[job]) + 1


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
def is_up(state, node):
    """Return whether a node has any capacity now."""
    for k in range(state.machine.resources):
        if state.machine.capacity[node, k] > 0:
            return True
    return False


@kernel()
def lacks_licences(state, job):
    """Return whether a licence that a job needs is not free now."""
    jobs = state.jobs
    for item in range(jobs.licence_first[job], jobs.limit_first[job]):
        if state.free.licences[jobs.licence[item]] < jobs.licence_count[item, 0]:
            return True
    return False


@kernel(inline=True)
def is_limited(state, job, of_amounts):
    """Return whether a limit keeps a job from starting now: one on amounts of resources, or else on numbers of jobs.

    Slurm checks the latter before it looks for nodes. Without a site, all limits count as such.
    """
    return held_back_by(state, job, state.own.on_amounts, np.int64(of_amounts))


@kernel(inline=True)
def reserves_nothing(state, job):
    """Return whether a job is too young, or its priority too low, to hold back others."""
    own = state.own
    waited = np.floor(state.now / 1e6) - np.floor(own.since[job] / 1e6)
    return waited < own.bf_min_age_reserve or own.points[job] < own.bf_min_prio_reserve
