"""The machine as it is now, what of it is free, and where the last `place` put a job.

Nodes are in order of power. `machine` is written by the transitions, `free` by take and release, `placed` by the verbs
that look for a place. In array shapes m is nodes, k resources, l licences.
"""

from typing import Any

import numpy as np
from numba import int8, int64
from numpy.typing import NDArray

from backfill.core.placement import BLOCK
from backfill.core.profile import FUTURE
from backfill.core.record import SMALL, column, record, zeros
from backfill.model.platform import Platform

MACHINE = [
    ("nodes", int64),
    ("resources", int64),
    ("pool", int64),  # 1: one node and no licences, so a job fits or does not
    ("capacity", int64[:, ::1]),  # (m, k)
    ("base", int64[:, ::1]),  # (m, k): what it is without the windows that are open
    ("offered", int8[::1]),  # (k,): 1 for a resource that there is; no licence
    ("in_play", int8[::1]),  # (k,): 1 for one that some job which was submitted so far asks for, too
    ("site", int64[::1]),
    ("allowed", int8[:, ::1]),  # (sets of nodes, m): 1 for the nodes of a set to which jobs are bound
    ("hosts", int8[:, ::1]),  # (m, l)
    ("copies", int64[::1]),  # (l,)
    ("base_copies", int64[:, ::1]),  # (l, 1): what they are without the windows that are open
    ("window", int64[:, ::1]),  # (windows, 5): announced: node (-1 - licence), resource (-1 all), amount, begin, until
    ("windows", int64),  # that are not over
    ("unknown_peak", int64[:, ::1]),  # like free.peak, for amounts of which nobody keeps it: no bound
]
Machine, MachineT = record("Machine", MACHINE, globals())

FREE = [
    ("nodes", int64[:, ::1]),  # (m, k)
    ("total", int64[::1]),  # (k,) over all nodes
    ("peak", int64[:, ::1]),  # (blocks of nodes, k): the most that a node of the block has free
    ("most", int64[::1]),  # (k,): the most that any node has free, as a walk over candidates begins
    ("licences", int64[::1]),  # (l,)
]
Free, FreeT = record("Free", FREE, globals())

PLACED = [
    ("pairs", int64[:, ::1]),  # (m, 2): pairs (node, tasks)
    ("count", int64),  # of them
    ("job", int64),  # that it was for
    ("may", int64),  # where windows are announced: who may start, -1 nobody
]
Placed, PlacedT = record("Placed", PLACED, globals())


def new_machine(platform: Platform, allowed: NDArray[np.bool_]) -> Any:
    """All of a platform. allowed: sets of nodes to which jobs are bound, shape (sets, m)."""
    nodes, k = platform.capacity.shape
    return Machine(
        nodes=nodes,
        resources=k,
        pool=int(nodes == 1 and not platform.licences),
        capacity=platform.capacity.copy(),
        base=platform.capacity.copy(),
        offered=_offered(platform),
        in_play=np.zeros(k, np.int8),
        site=column(platform.site),
        allowed=allowed.astype(np.int8),
        hosts=platform.hosts.astype(np.int8),
        copies=platform.copies.copy(),
        base_copies=platform.copies.reshape(-1, 1).copy(),
        window=zeros(SMALL, 5),
        windows=0,
        unknown_peak=np.full((-(-nodes // BLOCK), k), FUTURE),
    )


def _offered(platform: Platform) -> NDArray[np.int8]:
    licences = [name in platform.node_licences for name in platform.resources]
    found: NDArray[np.int8] = (platform.capacity.any(axis=0) & ~np.array(licences)).astype(np.int8)
    return found


def new_free(platform: Platform) -> Any:
    """Everything is free."""
    capacity = platform.capacity
    return Free(
        nodes=capacity.copy(),
        total=column(capacity.sum(axis=0)),
        peak=np.maximum.reduceat(capacity, np.arange(0, len(capacity), BLOCK), axis=0),
        most=zeros(capacity.shape[1]),
        licences=platform.copies.copy(),
    )


def new_placed(nodes: int) -> Any:
    """Nothing was placed yet."""
    return Placed(pairs=zeros(nodes, 2), count=0, job=-1, may=-1)
