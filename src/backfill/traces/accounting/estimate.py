"""Estimate the machine behind a log: the nodes on which its jobs ran, and the most that was in use at once."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backfill.model.constraint import is_feature
from backfill.model.partitions import Partition
from backfill.model.platform import NODES_MAX, Platform
from backfill.model.schedule import NO_TIME
from backfill.model.units import counted
from backfill.model.workload import Ints, Labels, Workload
from backfill.traces.accounting.stays import Hosts

_KNOWN = 0.95  # of the jobs must have a recorded node list
_ENTRIES_MAX = 10**8  # of jobs x nodes; more would take a minute
_AT_ONCE = 10**6  # entries processed at a time


def estimated_platform(log: Workload, start: Ints, end: Ints, hosts: Hosts) -> tuple[Platform | None, str]:
    """Return a platform whose nodes are as large as the jobs' peak use, and a note on the method; None if no job ran.

    start, end: microseconds, NO_TIME if a job never started. Without hosts, or if they are not node names, the platform
    is a pool. A partition has the nodes on which its jobs ran.
    """
    ran = np.flatnonzero((start != NO_TIME) & (end != NO_TIME) & (end > start))
    if not len(ran):
        return None, ""
    held = log.jobs.tasks[:, None] * log.jobs.demand
    licences = _licences(log, start, end)
    placed = ran[hosts.codes[ran] >= 0]
    names, rank = _names(hosts, placed)
    if names and len(placed) > _KNOWN * len(ran):
        seats = _Seats.of(hosts, placed, rank)
        if seats.size.sum() <= _ENTRIES_MAX:
            peaks = _peaks(seats, start[placed], end[placed], held[placed] // seats.size[:, None], len(names))
            return _nodes(log, names, peaks, seats, log.jobs.partition.take(placed), licences)
    peak = _peaks(_Seats.one_each(np.zeros(len(ran), np.int64)), start[ran], end[ran], held[ran], 1)
    pool = Platform(
        nodes=("pool",),
        resources=log.resources,
        capacity=np.maximum(peak, held.max(axis=0)),
        speed=np.ones(1),
        site=np.zeros(1, np.int64),
        **licences,
        name=log.name,
        estimated=True,
    )
    return pool, (
        f"no platform was given: a pool of {pool.cpus:,} cpus is assumed, the most that jobs held at once. The machine "
        "may be larger; state its real size by --platform FILE or --cpus N"
    )


@dataclass(frozen=True, eq=False)
class _Seats:
    """The nodes on which each job ran: nodes[begin[i]:begin[i] + size[i]]."""

    begin: Ints
    size: Ints
    nodes: NDArray[Any]

    @classmethod
    def of(cls, hosts: Hosts, rows: Ints, rank: NDArray[Any]) -> "_Seats":
        """Return the seats of jobs that ran on different numbers of nodes."""
        codes = hosts.codes[rows]
        return cls(hosts.first[codes], (hosts.first[codes + 1] - hosts.first[codes]), rank[hosts.nodes])

    @classmethod
    def one_each(cls, nodes: Ints) -> "_Seats":
        """Return seats with one node per job."""
        return cls(np.arange(len(nodes)), np.ones(len(nodes), np.int64), nodes)

    def entries(self, jobs: Ints) -> NDArray[Any]:
        """Return the nodes of these jobs, concatenated."""
        size = self.size[jobs]
        before = np.cumsum(size) - size
        found: NDArray[Any] = self.nodes[np.repeat(self.begin[jobs] - before, size) + np.arange(size.sum())]
        return found

    def batches(self, jobs: Ints) -> Iterator[Ints]:
        """Yield these jobs in order, in batches of at most _AT_ONCE entries, or of a single job."""
        part = np.cumsum(self.size[jobs]) // _AT_ONCE
        return (some for some in np.split(jobs, np.flatnonzero(np.diff(part)) + 1) if len(some))


def _names(hosts: Hosts, placed: Ints) -> tuple[tuple[str, ...], NDArray[Any]]:
    """Return the names of these jobs' nodes in natural order, and the index of each node of the log in that list.

    None if they cannot be nodes of a platform.
    """
    used = np.zeros(len(hosts.names), np.bool_)
    lists = np.unique(hosts.codes[placed])
    some = _Seats(hosts.first[lists], hosts.first[lists + 1] - hosts.first[lists], hosts.nodes)
    for batch in some.batches(np.arange(len(lists))):
        used[some.entries(batch)] = True
    found = np.flatnonzero(used).tolist()
    if len(found) > NODES_MAX or not all(is_feature(hosts.names[node]) for node in found):
        found = []
    found.sort(key=lambda node: (len(hosts.names[node]), hosts.names[node]))
    rank = np.zeros(len(hosts.names), np.uint16 if len(found) < 2**16 else np.int64)  # 16 bits sort fast
    rank[found] = np.arange(len(found))
    return tuple(hosts.names[node] for node in found), rank


def _peaks(seats: _Seats, start: Ints, end: Ints, amounts: Ints, nodes: int) -> Ints:
    """Return the peak use of each node, shape (nodes, resources); at equal times, an end precedes a start.

    amounts: what a job holds on each of its nodes, shape (jobs, resources).
    """
    held, peaks = (np.zeros((nodes, amounts.shape[1]), np.int64) for _ in range(2))
    jobs = len(start)
    both = _Seats(np.tile(seats.begin, 2), np.tile(seats.size, 2), seats.nodes)
    for events in both.batches(np.argsort(np.concatenate([2 * end, 2 * start + 1]), kind="stable")):
        node = both.entries(events)
        change = np.where(events < jobs, -1, 1)[:, None] * amounts[events % jobs]
        by_node = np.argsort(node, kind="stable")
        node = node[by_node]
        change = np.repeat(change, both.size[events], axis=0)[by_node]
        first = np.flatnonzero(np.diff(node, prepend=-1))
        some = node[first]
        sums = np.cumsum(change, axis=0)
        before = sums[first] - change[first] - held[some]
        peaks[some] = np.maximum(peaks[some], np.maximum.reduceat(sums, first, axis=0) - before)
        held[some] = sums[np.append(first[1:], len(node)) - 1] - before
    return peaks


def _licences(log: Workload, start: Ints, end: Ints) -> dict[str, Any]:
    """Return the floating licences, each with the copies in use at once or the largest request of a job."""
    asked = log.jobs.licences
    ran = (start != NO_TIME) & (end != NO_TIME) & (end > start)
    held = ran[asked.jobs]
    job, item = asked.jobs[held], asked.items[held]
    found = _peaks(_Seats.one_each(item), start[job], end[job], asked.counts[held][:, None], len(log.licences))
    copies = found[:, 0]
    np.maximum.at(copies, asked.items, asked.counts)
    return {"licences": log.licences, "copies": copies}


def _nodes(
    log: Workload, names: tuple[str, ...], peaks: Ints, seats: _Seats, partition: Labels, licences: dict[str, Any]
) -> tuple[Platform, str]:
    """Return the nodes on which jobs held cpus. partition: that of the jobs in `seats`."""
    of_partition = np.zeros((len(partition.names) + 1, len(names)), np.bool_)
    for batch in seats.batches(np.arange(len(seats.size))):
        of_partition[np.repeat(partition.codes[batch], seats.size[batch]), seats.entries(batch)] = True
    used = np.flatnonzero(peaks[:, 0] > 0)
    partitions = []
    for code in sorted(set(log.jobs.partition.codes.tolist()) - {-1}):
        mine = np.flatnonzero(of_partition[code, used])
        partitions.append(Partition(name=partition.names[code], nodes=mine if len(mine) else np.arange(len(used))))
    platform = Platform(
        nodes=tuple(names[i] for i in used.tolist()),
        resources=log.resources,
        capacity=peaks[used],
        speed=np.ones(len(used)),
        site=np.zeros(len(used), np.int64),
        **licences,
        name=log.name,
        estimated=True,
        partitions=tuple(partitions),
    )
    return platform, (
        f"no platform was given: the machine is assumed to be the {counted(len(used), 'node')} on which jobs ran, each "
        "as large as what jobs held on it at once, shared evenly over the nodes of a job. State their real "
        "sizes by --platform FILE"
    )
