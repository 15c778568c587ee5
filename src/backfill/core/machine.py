"""The machine as it is now, its free resources, and the result of the last `place`.

Nodes are in order of power. `machine` is written by the transitions, `free` by take and release, `placed` by the verbs
that search for a placement. In array shapes m is nodes, k resources, l licences.
"""

from typing import Any

import numpy as np
from numba import int8, int64
from numpy.typing import NDArray

from backfill.compiler.kernel import apart
from backfill.compiler.record import SMALL, column, record, zeros
from backfill.core.place.shapes import ShapesT
from backfill.model.platform import Platform
from backfill.model.workload import Ints

MACHINE = [
    ("nodes", int64),
    ("resources", int64),
    ("pool", int64),  # 1: one node and no licences, so a job either fits or not
    ("capacity", int64[:, ::1]),  # (m, k)
    ("base", int64[:, ::1]),  # (m, k): capacity without the open windows
    ("offered", int8[::1]),  # (k,): 1 for a resource that the machine has; no licences
    ("in_play", int8[::1]),  # (k,): 1 if, in addition, a job submitted so far requests it
    ("site", int64[::1]),
    ("sites", int64[::1]),  # the sites that have nodes, in order of their first node
    ("site_first", int64[::1]),  # the nodes of site s are site_node[site_first[s]:site_first[s + 1]], in order of power
    ("site_node", int64[::1]),
    ("allowed", int8[:, ::1]),  # (sets of nodes, m): 1 for the nodes in a set to which jobs are bound
    ("hosts", int8[:, ::1]),  # (m, l)
    ("copies", int64[::1]),  # (l,)
    ("licences", int64),  # number of real licences; later rows are accounts of limits
    ("accounts", int64),  # number of accounts of limits on known jobs
    ("base_copies", int64[:, ::1]),  # (l, 1): copies without the open windows
    ("window", int64[:, ::1]),  # (windows, 5): announced: node (-1 - licence), resource (-1 all), amount, begin, end
    ("windows", int64),  # number of windows that are not over
]
Machine, MachineT = record("Machine", MACHINE, globals(), fixed=("nodes", "resources", "pool", "licences", "accounts"))

FREE = [
    ("nodes", int64[:, ::1]),  # (m, k); negative if runs hold more than the capacity
    ("total", int64[::1]),  # (k,) over all nodes
    ("licences", int64[::1]),  # (l,); likewise
    ("shapes", ShapesT),  # free units of each shape
]
Free, FreeT = record("Free", FREE, globals(), fixed=("shapes",))

PLACED = [
    ("pairs", int64[:, ::1]),  # (m, 2): pairs (node, tasks)
    ("count", int64),  # number of pairs
    ("job", int64),  # the job that was placed
    ("may", int64),  # if windows are announced: the job that may start, -1 none
]
Placed, PlacedT = record("Placed", PLACED, globals())


def new_machine(platform: Platform, pool: bool, accounts: int) -> Any:
    """Return a whole platform with this many accounts of limits after its licences."""
    nodes, k = platform.capacity.shape
    copies = np.append(platform.copies, zeros(accounts))
    return Machine(
        nodes=nodes,
        resources=k,
        pool=int(pool),
        capacity=platform.capacity.copy(),
        base=platform.capacity.copy(),
        offered=_offered(platform),
        in_play=np.zeros(k, np.int8),
        site=column(platform.site),
        sites=column(list(dict.fromkeys(platform.site.tolist()))),
        site_first=np.searchsorted(np.sort(platform.site), np.arange(len(platform.sites) + 1)),
        site_node=np.argsort(platform.site, kind="stable"),
        allowed=np.zeros((0, nodes), np.int8),
        hosts=np.ascontiguousarray(platform.hosts, np.int8),
        copies=copies,
        licences=len(platform.licences),
        accounts=0,
        base_copies=copies.reshape(-1, 1).copy(),
        window=zeros(SMALL, 5),
        windows=0,
    )


def _offered(platform: Platform) -> NDArray[np.int8]:
    licences = [name in platform.node_licences for name in platform.resources]
    found: NDArray[np.int8] = (platform.capacity.any(axis=0) & ~np.array(licences)).astype(np.int8)
    return found


def new_free(platform: Platform, copies: Ints, shapes: Any) -> Any:
    """Return the record of free resources with everything free. copies: of licences and accounts."""
    capacity = platform.capacity
    return Free(
        nodes=capacity.copy(),
        total=column(capacity.sum(axis=0)),
        licences=copies.copy(),
        shapes=shapes,
    )


def new_placed(nodes: int) -> Any:
    """Return an empty placement."""
    return Placed(pairs=zeros(nodes, 2), count=0, job=-1, may=-1)


@apart()
def least_there(state, node, k, begin, end):
    """Return the least capacity of a resource of a node on [begin, end), given the announced windows."""
    machine, least = state.machine, state.machine.base[node, k]
    for i in range(-1, machine.windows):
        t = begin if i < 0 else machine.window[i, 3]
        if i >= 0 and (machine.window[i, 0] != node or t <= begin or t >= end):
            continue
        there = machine.base[node, k]
        for j in range(machine.windows):
            if machine.window[j, 0] == node and machine.window[j, 3] <= t < machine.window[j, 4]:
                if machine.window[j, 1] < 0:
                    there = 0
                elif machine.window[j, 1] == k:
                    there = max(there - machine.window[j, 2], 0)
        least = min(least, there)
    return np.int64(least)
