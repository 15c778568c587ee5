"""Where a gang sits: on one node, on one site or anywhere, on the most powerful nodes that can hold it.

These kernels take the availability to place in as an argument, so the same rule serves what is free now, what is free
at a shadow time, and what stays free over a whole window. They know no State.
Slow twin: tests/reference/world.py, place.
"""

import numpy as np

from backfill.compiler.kernel import kernel

NODE, SITE, ANY, DISTINCT = range(4)
UNBOUNDED = np.int64(2**61)  # more of a resource than there is
EXACT = np.int64(2**52)


@kernel(inline=True)
def times(amount, unit):
    """How often a unit goes into an amount, 0 if that is below 0. Floats divide faster, and below 2^52 as exactly."""
    amount = max(amount, 0)
    return np.int64(float(amount) / float(unit)) if amount < EXACT else amount // unit


@kernel()
def tasks_that_fit(room, node, demand, job, most):
    """How many tasks of a job a node can take, at most `most`."""
    for k in range(demand.shape[1]):
        if demand[job, k] > 0:
            most = min(most, times(room[node, k], demand[job, k]))
    return most


@kernel()
def may_host(hosts, node, licence, begin, end):
    """Whether a node may use all licences of items begin to end."""
    for item in range(begin, end):
        if hosts[node, licence[item]] == 0:
            return False
    return True


@kernel(inline=True)
def may_use(node, bound, allowed, hosts, licence, begin, end):
    """Whether a node is one of those that a job is bound to, and may host its licences."""
    return (bound < 0 or allowed[bound, node] != 0) and may_host(hosts, node, licence, begin, end)


@kernel(inline=True)
def holds(room, row, demand, job, tasks):
    """Whether so many tasks of a job fit into one row of `room` together."""
    for k in range(demand.shape[1]):
        if demand[job, k] > 0 and room[row, k] < tasks * demand[job, k]:
            return False
    return True


@kernel()
def licences_free(room, licence, count, begin, end):
    """Whether all licences of items begin to end are there: all or none."""
    for item in range(begin, end):
        if room[licence[item]] < count[item, 0]:
            return False
    return True


@kernel()
def place_gang(room, demand, job, tasks, most, spread, machine, bound, licence, begin, end, placed):
    """Find nodes for all tasks of a job within `room` (m, k); write pairs (node, tasks) to `placed`.

    Returns the number of pairs, 0 where the gang does not fit. Nodes are tried in order of power; sites in order of
    their first node. A gang of one task sits on one node, whatever its spread; of others a node takes `most` tasks at
    most.
    """
    nodes = room.shape[0]
    if spread == NODE or tasks == 1:
        for node in range(nodes):
            if holds(room, node, demand, job, tasks) and may_use(
                node, bound, machine.allowed, machine.hosts, licence, begin, end
            ):
                placed[0, 0], placed[0, 1] = node, tasks
                return 1
        return 0
    for group in range(len(machine.sites) if spread == SITE else 1):
        first, last = np.int64(0), nodes
        if spread == SITE:
            first = machine.site_first[machine.sites[group]]
            last = machine.site_first[machine.sites[group] + 1]
        pairs, left = 0, tasks
        for i in range(first, last):
            node = machine.site_node[i] if spread == SITE else i
            if may_use(node, bound, machine.allowed, machine.hosts, licence, begin, end):
                fit = tasks_that_fit(room, node, demand, job, min(left, most))
                if fit > 0:
                    placed[pairs, 0], placed[pairs, 1] = node, fit
                    pairs += 1
                    left -= fit
                    if left == 0:
                        return pairs
    return 0
