"""Placement of a gang, given how many tasks each node takes: the site that takes all of it, and the nodes there.

Tasks that may run anywhere are counted in one sum, the first; so are those of a job on a single node.
"""

from numba import int64

from backfill.compiler.kernel import kernel
from backfill.core.place.placement import SITE, may_use


@kernel(inline=True)
def may_run_on(state, job, node):
    """Return whether a job may run on a node: the node is in the job's set, and may host its licences."""
    jobs, machine = state.jobs, state.machine
    first, last = jobs.licence_first[job], jobs.limit_first[job]
    return may_use(node, jobs.bound[job], machine.allowed, machine.hosts, jobs.licence, first, last)


@kernel(inline=True)
def shares_site(state, job):
    """Return whether the tasks of a job run on several nodes of one site."""
    return state.jobs.spread[job] == SITE and not state.jobs.alone[job]


@kernel(inline=True)
def group_of(state, job, node):
    """Return the index of the sum that counts the tasks of a job on a node: that of the site, or the first."""
    return state.machine.site[node] if shares_site(state, job) else int64(0)


@kernel()
def first_enough(state, job, sums):
    """Return the first group that takes all tasks of a job, sites in order of their first node; -1 if none does."""
    tasks = state.jobs.tasks[job]
    if not shares_site(state, job):
        return int64(0) if sums[0] >= tasks else int64(-1)
    for i in range(len(state.machine.sites)):
        if sums[state.machine.sites[i]] >= tasks:
            return state.machine.sites[i]
    return int64(-1)


@kernel()
def seat(state, job, tasks, group):
    """Place a job on the nodes of a group that takes it, in order of power. tasks: how many each node takes."""
    placed, left = state.placed, state.jobs.tasks[job]
    placed.count, placed.job = 0, job
    for node in range(state.machine.nodes):
        here = min(tasks[node], left)
        if here > 0 and group_of(state, job, node) == group:
            placed.pairs[placed.count, 0], placed.pairs[placed.count, 1] = node, here
            placed.count += 1
            left -= here
            if left == 0:
                return
