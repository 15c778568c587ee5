"""The machine that a log must at least have had: from where its jobs ran, and what they held there at once."""

from typing import Any

import numpy as np

from backfill.model.constraint import is_feature
from backfill.model.partitions import Partition
from backfill.model.platform import NODES_MAX, Platform
from backfill.model.schedule import NO_TIME
from backfill.model.units import counted
from backfill.model.workload import Ints, Labels, Workload

_KNOWN = 0.95  # of the jobs must have told where they ran
_ENTRIES_MAX = 10**8  # of jobs x nodes; more would take gigabytes


def estimated_platform(log: Workload, start: Ints, end: Ints, hosts: Labels) -> tuple[Platform | None, str]:
    """Nodes, each as large as what jobs held on it at once, and how that was found; None where no job ran.

    start, end: microseconds, NO_TIME where a job never started. hosts: the lists of nodes, tuples of their names.
    Without these, or where they are no names of nodes, a pool. Partitions have the nodes on which their jobs ran.
    """
    ran = np.flatnonzero((start != NO_TIME) & (end != NO_TIME) & (end > start))
    if not len(ran):
        return None, ""
    held = log.jobs.tasks[:, None] * log.jobs.demand
    licences = _licences(log, start, end)
    names = _names(hosts, ran)
    if names and (hosts.codes[ran] >= 0).mean() > _KNOWN:
        placed = ran[hosts.codes[ran] >= 0]
        lists = [np.array([names[name] for name in each if name in names], np.int64) for each in hosts.names]
        sizes = np.array([len(each) for each in lists])[hosts.codes[placed]]
        if sizes.sum() <= _ENTRIES_MAX:
            node = np.concatenate([lists[code] for code in hosts.codes[placed].tolist()])
            job = np.repeat(placed, sizes)
            share = held[job] // np.repeat(sizes, sizes)[:, None]
            peaks = _peaks(node, start[job], end[job], share, len(names))
            return _nodes(log, tuple(names), peaks, node, job, licences)
    peak = _peaks(np.zeros(len(ran), np.int64), start[ran], end[ran], held[ran], 1)
    pool = Platform(
        nodes=("pool",),
        resources=log.resources,
        capacity=np.maximum(peak, held.max(axis=0)),
        speed=np.ones(1),
        site=np.zeros(1, np.int64),
        **licences,
        name=log.name,
    )
    return pool, (
        f"no platform was given: a pool of {pool.cpus:,} cpus is assumed, the most that jobs held at once. The machine "
        "may be larger; state its real size by --platform FILE or --cpus N"
    )


def _names(hosts: Labels, ran: Ints) -> dict[str, int]:
    """The nodes of jobs that ran, in natural order; none where they cannot be nodes of a platform."""
    used = set(hosts.codes[ran].tolist()) - {-1}
    found = {name for code in used for name in hosts.names[code]}
    if len(found) > NODES_MAX or not all(map(is_feature, found)):
        return {}
    return {name: i for i, name in enumerate(sorted(found, key=lambda name: (len(name), name)))}


def _peaks(node: Ints, start: Ints, end: Ints, amounts: Ints, nodes: int) -> Ints:
    """The most that was held at once on each node, shape (nodes, resources); an end comes before a start."""
    order = np.lexsort((np.concatenate([2 * end, 2 * start + 1]), np.tile(node, 2)))
    changes = np.concatenate([-amounts, amounts])[order]
    first = np.searchsorted(np.tile(node, 2)[order], np.arange(nodes))
    peaks = np.zeros((nodes, amounts.shape[1]), np.int64)
    held = np.cumsum(changes, axis=0)  # what is held on a node is back at 0 where the next begins
    some = np.flatnonzero(np.diff(np.append(first, len(changes))) > 0)
    peaks[some] = np.maximum.reduceat(held, first[some], axis=0)
    return peaks


def _licences(log: Workload, start: Ints, end: Ints) -> dict[str, Any]:
    """The floating licences, of each as many copies as were held at once, or as one job asks for."""
    asked = log.jobs.licences
    ran = (start != NO_TIME) & (end != NO_TIME) & (end > start)
    held = ran[asked.jobs]
    job, item = asked.jobs[held], asked.items[held]
    copies = _peaks(item, start[job], end[job], asked.counts[held][:, None], len(log.licences))[:, 0]
    np.maximum.at(copies, asked.items, asked.counts)
    return {"licences": log.licences, "copies": copies}


def _nodes(
    log: Workload, names: tuple[str, ...], peaks: Ints, node: Ints, job: Ints, licences: dict[str, Any]
) -> tuple[Platform, str]:
    partition = log.jobs.partition
    pairs = np.column_stack(np.divmod(np.unique(partition.codes[job].astype(np.int64) * len(names) + node), len(names)))
    used = np.flatnonzero(peaks[:, 0] > 0)
    place = np.full(len(names), -1)
    place[used] = np.arange(len(used))
    partitions = []
    for code in sorted(set(partition.codes.tolist()) - {-1}):
        mine = place[pairs[pairs[:, 0] == code, 1]]
        mine = mine[mine >= 0]
        partitions.append(Partition(name=partition.names[code], nodes=mine if len(mine) else np.arange(len(used))))
    platform = Platform(
        nodes=tuple(names[i] for i in used.tolist()),
        resources=log.resources,
        capacity=peaks[used],
        speed=np.ones(len(used)),
        site=np.zeros(len(used), np.int64),
        **licences,
        name=log.name,
        partitions=tuple(partitions),
    )
    return platform, (
        f"no platform was given: the machine is assumed to be the {counted(len(used), 'node')} on which jobs ran, each "
        "as large as what jobs held on it at once, shared evenly over the nodes of a job. State their real "
        "sizes by --platform FILE"
    )
