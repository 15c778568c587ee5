"""Where a gang sits: on one node, on one site or anywhere, on the most powerful nodes that can hold it.

These kernels take the availability to place in as an argument, so the same rule serves what is free now, what is free
at a shadow time, and what stays free over a whole window. They know no State.
Slow twin: tests/reference/world.py, place.
"""

import numpy as np

from backfill.core.kernel import kernel

NODE, SITE, ANY = 0, 1, 2
BLOCK = 16  # nodes whose greatest availability is kept, so that a search may pass over them together


@kernel()
def tasks_that_fit(room, node, demand, job, most):
    """How many tasks of a job a node can take, at most `most`."""
    for k in range(demand.shape[1]):
        if demand[job, k] > 0:
            most = min(most, max(room[node, k], 0) // demand[job, k])
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
def find_peak(peak, room, node):
    """Find the greatest availability of the block of a node anew."""
    block = node // BLOCK
    for k in range(room.shape[1]):
        most = room[node, k]
        for other in range(block * BLOCK, min((block + 1) * BLOCK, room.shape[0])):
            most = max(most, room[other, k])
        peak[block, k] = most


@kernel()
def licences_free(room, licence, count, begin, end):
    """Whether all licences of items begin to end are there: all or none."""
    for item in range(begin, end):
        if room[licence[item]] < count[item, 0]:
            return False
    return True


@kernel(inline=True)
def first_node(room, peak, demand, job, tasks, bound, allowed, hosts, licence, begin, end):
    """The most powerful node that holds so many tasks of a job and may host its licences; m where there is none."""
    nodes = room.shape[0]
    for block in range(peak.shape[0]):
        if not holds(peak, block, demand, job, tasks):
            continue
        for node in range(block * BLOCK, min((block + 1) * BLOCK, nodes)):
            if holds(room, node, demand, job, tasks) and may_use(node, bound, allowed, hosts, licence, begin, end):
                return node
    return nodes


@kernel()
def place_gang(room, peak, demand, job, tasks, spread, site, bound, allowed, hosts, licence, begin, end, placed):
    """Find nodes for all tasks of a job within `room` (m, k); write pairs (node, tasks) to `placed`.

    Returns the number of pairs, 0 where the gang does not fit. Nodes are tried in order of power; sites in order of
    their first node. A gang of one task sits on one node, whatever its spread. peak (blocks, k): no node of a block
    has more room than that.
    """
    nodes = room.shape[0]
    if spread == NODE or tasks == 1:
        node = first_node(room, peak, demand, job, tasks, bound, allowed, hosts, licence, begin, end)
        if node == nodes:
            return 0
        placed[0, 0], placed[0, 1] = node, tasks
        return 1
    first = 0
    while first < nodes:
        here = site[first] if spread == SITE else np.int64(-1)
        pairs = 0
        left = tasks
        for node in range(first, nodes):
            together = here < 0 or site[node] == here
            if left > 0 and together and may_use(node, bound, allowed, hosts, licence, begin, end):
                fit = tasks_that_fit(room, node, demand, job, left)
                if fit > 0:
                    placed[pairs, 0], placed[pairs, 1] = node, fit
                    pairs += 1
                    left -= fit
        if left == 0:
            return pairs
        if here < 0:
            return 0
        first = _next_site(site, first)
    return 0


@kernel()
def _next_site(site, node):
    """The first later node of a site that did not appear up to `node`."""
    for later in range(node + 1, len(site)):
        fresh = True
        for earlier in range(later):
            if site[earlier] == site[later]:
                fresh = False
                break
        if fresh:
            return later
    return len(site)
