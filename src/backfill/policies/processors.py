"""The processors of a grid: the local queue of each, the gang that holds it, and when it will be idle.

Gangs that wait at the grid scheduler are here too. All of this is memory of the policies in gang.py, which decide:
lists that are linked through arrays with one number for each job, node or site.
"""

import numpy as np

from backfill.compiler.kernel import kernel
from backfill.compiler.loops import few_turns
from backfill.core.errors import NONE
from backfill.core.plan.profile import FUTURE
from backfill.core.random import pick
from backfill.core.verbs import is_open, place_on, start
from backfill.policies.lists import unlink_behind

# State of a waiting job, in own.where; above 0 it is in the queue of processor where - 1.
NOWHERE, AT_GRID, BOUND, MEMBER = np.int64(0), np.int64(-1), np.int64(-2), np.int64(-3)
ANYWHERE = np.int64(-1)  # instead of a site

MEMORY = {
    "where": "jobs",
    "after": "jobs",  # the next one in the same queue, counted from 1; 0 none
    "size": "jobs",  # processors of a gang
    "wide": "jobs",  # 1: the gang may use several sites
    "leader": "jobs",  # of a MEMBER: the first job of its gang
    "first_node": "jobs",  # processor of a BOUND gang, counted from 1
    "known": "jobs",  # when a BOUND gang was expected to start when it was bound
    "home": "jobs",  # of each set of nodes: 1 + its only site, -1 several, 0 not looked up
    "first": "nodes",  # first local job that waits at a processor, counted from 1; 0 none
    "last": "nodes",
    "length": "nodes",
    "gang": "nodes",  # gang for which a processor is held, counted from 1; 0 none
    "next_node": "nodes",  # the next processor of the same gang, counted from 1
    "run": "nodes",  # the last run that began there, counted from 1
    "oldest": "nodes",  # waiting gangs of node + 1 processors, counted from 1
    "youngest": "nodes",
    "empty": "sites",  # processors in operation with empty queues
    "gangs": 2,  # gangs at the grid scheduler, and those of them that may use several sites
}


@kernel()
def known_start(state, gang):
    """Return when the last processor of a gang will be idle, by the limits of the runs there."""
    own, t = state.own, state.now
    node = own.first_node[gang] - 1
    while node >= 0:
        t = max(t, idle_from(state, node))
        node = own.next_node[node] - 1
    return t


@kernel(inline=True)
def idle_from(state, node):
    """Return when a processor will be idle, by the limit of its run; now if that has passed."""
    run = state.own.run[node] - 1
    if run < 0 or is_idle(state, node):
        return state.now
    return max(state.runs.limit[run], state.now)


@kernel()
def is_left(state, job, node, t):
    """Return whether announced windows leave a processor to a job that starts at t, when the processor is idle."""
    if state.machine.windows == 0:
        return True
    return is_open(state, job, node, idle_from(state, node), t + max(state.jobs.walltime[job], 1))


@kernel(inline=True)
def is_idle(state, node):
    """Return whether a processor is in operation, and nothing runs there."""
    free, capacity = state.free.nodes, state.machine.capacity
    for k in range(state.machine.resources):
        few_turns()
        if free[node, k] != capacity[node, k]:
            return False
    return capacity[node, 0] > 0


@kernel(inline=True)
def suits(state, job, node):
    """Return whether a task of a job could run on a processor, if it were idle."""
    jobs, machine = state.jobs, state.machine
    if machine.capacity[node, 0] == 0 or (jobs.bound[job] >= 0 and machine.allowed[jobs.bound[job], node] == 0):
        return False
    enough = True
    for k in range(machine.resources):
        few_turns()
        enough = enough and jobs.demand[job, k] <= machine.capacity[node, k]
    return enough


@kernel()
def home_of(state, job):
    """Return the site that has all nodes on which a job may run; -1 if they are on several sites."""
    machine, own, bound = state.machine, state.own, np.int64(state.jobs.bound[job])
    if bound < 0:
        return machine.sites[0] if len(machine.sites) == 1 else NONE
    if own.home[bound] == 0:
        own.home[bound] = -1
        for node in range(machine.nodes):
            if machine.allowed[bound, node]:
                here = machine.site[node] + 1
                if own.home[bound] > 0 and own.home[bound] != here:
                    own.home[bound] = -1
                    break
                own.home[bound] = here
    return own.home[bound] - 1 if own.home[bound] > 0 else NONE


@kernel()
def start_on(state, job, node, reason):
    """Start a job of one task on a processor, if it may start there now. Return whether it did."""
    nodes = np.empty(1, np.int64)
    nodes[0] = node
    if not place_on(state, job, nodes):
        return False
    start(state, job, reason)
    state.own.where[job] = NOWHERE
    state.own.run[node] = state.runs.last[job] + 1
    return True


@kernel()
def wait_at(state, job, node):
    """Let a local job wait at a processor, behind all others there."""
    own = state.own
    if own.length[node] == 0 and own.gang[node] == 0:
        own.empty[state.machine.site[node]] -= 1
    if own.length[node] == 0:
        own.first[node] = job + 1
    else:
        own.after[own.last[node] - 1] = job + 1
    own.after[job], own.last[node], own.where[job] = 0, job + 1, node + 1
    own.length[node] += 1


@kernel()
def leave_queue(state, job, before, node):
    """Remove a local job from the queue of a processor. before: the job in front of it, -1 if none."""
    own = state.own
    unlink_behind(own.after, own.first, own.last, node, before, job)
    own.length[node] -= 1
    own.where[job] = NOWHERE
    if own.length[node] == 0 and own.gang[node] == 0:
        own.empty[state.machine.site[node]] += 1


@kernel()
def takes(state, gang, node, idle):
    """Return whether a gang may hold a processor: its queue is empty and, if `idle` is set, it is idle."""
    own = state.own
    if own.gang[node] > 0 or own.length[node] > 0 or not suits(state, gang, node):
        return False
    return not idle or is_idle(state, node)


@kernel()
def longest(state, gang):
    """Return the job of a gang with the longest walltime, which must end before windows begin on any processor."""
    found, job = gang, next_member(state, gang, gang)
    while job >= 0:
        if state.jobs.walltime[job] > state.jobs.walltime[found]:
            found = job
        job = next_member(state, gang, job)
    return found


@kernel()
def soonest(state, gang, site, idle):
    """Return when enough processors of a site (or ANYWHERE) are idle together for a gang, clear of announced windows.

    Only processors that the gang may hold count. Without windows it is now; FUTURE if no such time is known.
    """
    machine = state.machine
    if machine.windows == 0:
        return state.now
    job, t = longest(state, gang), state.now
    while t < FUTURE:
        count, later = 0, FUTURE
        for node in range(machine.nodes):
            if (site == ANYWHERE or machine.site[node] == site) and takes(state, gang, node, idle):
                if idle_from(state, node) > t:
                    later = min(later, idle_from(state, node))
                else:
                    count += is_left(state, job, node, t)
        if count >= state.own.size[gang]:
            return t
        t = later
    return t


@kernel()
def some_site(state, have, size, rank):
    """Return a random site of the highest rank among those that have enough; -1 if there is none."""
    best, count = np.int64(-1), np.int64(0)
    for place in range(len(have)):
        if have[place] >= size:
            if rank[place] > best:
                best, count = rank[place], np.int64(1)
            elif rank[place] == best:
                count += 1
    if count == 0:
        return NONE
    left = pick(state, count) if count > 1 else np.int64(0)
    for place in range(len(have)):
        if have[place] >= size and rank[place] == best:
            if left == 0:
                return np.int64(place)
            left -= 1
    return NONE


@kernel()
def next_member(state, gang, job):
    """Return the job of a gang that follows another one; -1 if none."""
    if state.jobs.tasks[gang] > 1 or state.own.size[gang] == 1:
        return NONE
    other = state.projects.next[job]
    while other >= 0 and (state.own.where[other] != MEMBER or state.own.leader[other] != gang):
        other = state.projects.next[other]
    return np.int64(other)


@kernel()
def all_idle(state, gang):
    """Return whether all processors that a gang holds are idle."""
    node = state.own.first_node[gang] - 1
    while node >= 0:
        if not is_idle(state, node):
            return False
        node = state.own.next_node[node] - 1
    return True


@kernel()
def held_by(state, gang):
    """Return the processors that a gang holds, in order."""
    own, node = state.own, state.own.first_node[gang] - 1
    nodes = np.empty(own.size[gang], np.int64)
    for i in range(len(nodes)):
        nodes[i] = node
        node = own.next_node[node] - 1
    return nodes


@kernel()
def let_go(state, gang):
    """Release the processors that a gang holds."""
    own, node = state.own, state.own.first_node[gang] - 1
    while node >= 0:
        own.gang[node] = 0
        if own.length[node] == 0 and state.machine.capacity[node, 0] > 0:
            own.empty[state.machine.site[node]] += 1
        node = own.next_node[node] - 1


@kernel()
def scatter(state, gang):
    """Mark the jobs of a gang as in no queue."""
    other = next_member(state, gang, gang)
    while other >= 0:
        following_one = next_member(state, gang, other)
        state.own.where[other] = NOWHERE
        other = following_one
    state.own.where[gang] = NOWHERE


@kernel()
def wait_at_grid(state, gang):
    """Let a gang wait at the grid scheduler, among those of its size by age."""
    own, size = state.own, state.own.size[gang] - 1
    own.where[gang] = AT_GRID
    own.gangs[0] += 1
    own.gangs[1] += own.wide[gang]
    young = own.youngest[size] - 1
    if young < 0 or young < gang:
        if young < 0:
            own.oldest[size] = gang + 1
        else:
            own.after[young] = gang + 1
        own.after[gang], own.youngest[size] = 0, gang + 1
        return
    before, other = NONE, own.oldest[size] - 1
    while other < gang:
        before, other = other, own.after[other] - 1
    own.after[gang] = other + 1
    if before < 0:
        own.oldest[size] = gang + 1
    else:
        own.after[before] = gang + 1


@kernel()
def leave_grid(state, gang):
    """Remove a gang from the grid scheduler."""
    own, size = state.own, state.own.size[gang] - 1
    before, other = NONE, own.oldest[size] - 1
    while other != gang:
        before, other = other, own.after[other] - 1
    unlink_behind(own.after, own.oldest, own.youngest, size, before, gang)
    own.gangs[0] -= 1
    own.gangs[1] -= own.wide[gang]
    own.where[gang] = NOWHERE
