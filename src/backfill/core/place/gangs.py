"""A gang of which is known how many tasks each node takes: which site takes all of it, and where it sits then.

Tasks that may sit anywhere count in one sum, the first; so do those of a job that sits on one node.
"""

from numba import int64

from backfill.compiler.kernel import kernel
from backfill.core.place.placement import SITE, may_use


@kernel(inline=True)
def may_run_on(state, job, node):
    """Whether a node is one of those that a job is bound to, and may host its licences."""
    jobs, machine = state.jobs, state.machine
    first, last = jobs.licence_first[job], jobs.limit_first[job]
    return may_use(node, jobs.bound[job], machine.allowed, machine.hosts, jobs.licence, first, last)


@kernel(inline=True)
def _shares_site(state, job):
    """Whether the tasks of a job sit on several nodes of one site."""
    return state.jobs.spread[job] == SITE and not state.jobs.alone[job]


@kernel(inline=True)
def group_of(state, job, node):
    """The sum in which the tasks of a job on a node count: that of the site, or the first."""
    return state.machine.site[node] if _shares_site(state, job) else int64(0)


@kernel()
def first_enough(state, job, sums):
    """The first group that takes all tasks of a job, sites in order of their first node; -1 where none does."""
    tasks = state.jobs.tasks[job]
    if not _shares_site(state, job):
        return int64(0) if sums[0] >= tasks else int64(-1)
    for i in range(len(state.machine.sites)):
        if sums[state.machine.sites[i]] >= tasks:
            return state.machine.sites[i]
    return int64(-1)


@kernel()
def seat(state, job, tasks, group):
    """Place a job on the nodes of a group that takes it, in order of power. tasks: how many of them each node takes."""
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
