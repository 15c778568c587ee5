"""Placement of a gang: on one node, on one site or anywhere, on the most powerful nodes that can hold it.

These kernels take the availability as an argument, so the same rule serves the free resources now, those at a shadow
time, and those that stay free over a whole window. They do not use the State.
Slow twin: tests/reference/world.py, place.
"""

import numpy as np

from backfill.compiler.kernel import kernel
from backfill.compiler.loops import few_turns

NODE, SITE, ANY, DISTINCT = range(4)
UNBOUNDED = np.int64(2**61)  # more of a resource than any machine has
EXACT = np.int64(2**52)


@kernel(inline=True)
def times(amount, unit):
    """Return how often a unit fits into an amount, 0 if the amount is negative.

    Floats divide faster, and up to 2^52 as exactly.
    """
    amount = max(amount, 0)
    return np.int64(float(amount) / float(unit)) if amount < EXACT else amount // unit


@kernel()
def tasks_that_fit(room, node, demand, job, most):
    """Return how many tasks of a job a node can take, at most `most`."""
    for k in range(demand.shape[1]):
        few_turns()
        if demand[job, k] > 0:
            most = min(most, times(room[node, k], demand[job, k]))
    return most


@kernel()
def may_host(hosts, node, licence, begin, end):
    """Return whether a node may use all licences of items begin to end."""
    for item in range(begin, end):
        if hosts[node, licence[item]] == 0:
            return False
    return True


@kernel(inline=True)
def may_use(node, bound, allowed, hosts, licence, begin, end):
    """Return whether a node is in the job's set of nodes, and may host its licences."""
    return (bound < 0 or allowed[bound, node] != 0) and may_host(hosts, node, licence, begin, end)


@kernel(inline=True)
def holds(room, row, demand, job, tasks):
    """Return whether this many tasks of a job together fit into one row of `room`."""
    for k in range(demand.shape[1]):
        few_turns()
        if demand[job, k] > 0 and room[row, k] < tasks * demand[job, k]:
            return False
    return True


@kernel()
def licences_free(room, licence, count, begin, end):
    """Return whether all licences of items begin to end are free."""
    for item in range(begin, end):
        if room[licence[item]] < count[item, 0]:
            return False
    return True


@kernel()
def place_gang(room, demand, job, tasks, most, spread, machine, bound, licence, begin, end, placed):
    """Find nodes for all tasks of a job within `room` (m, k); write pairs (node, tasks) to `placed`.

    Return the number of pairs, 0 if the gang does not fit. Nodes are tried in order of power, sites in order of their
    first node. A gang of one task runs on one node, whatever its spread; of others, a node takes at most `most` tasks.
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
