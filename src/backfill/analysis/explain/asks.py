"""The resources that jobs request, as a run counts them, and the nodes on which a job may run."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from backfill.model.platform import Platform
from backfill.model.reservations import Division
from backfill.model.workload import SPREAD, Ints, Jobs, Workload

NODE, SITE, ANY, DISTINCT = range(len(SPREAD))


@dataclass(frozen=True, eq=False)
class Asks:
    """The requests of a workload's jobs in terms of the platform on which they ran.

    A limit on running jobs counts like a licence: each user, group or project that it counts has an account with that
    many copies. A job on whole nodes is a gang of them.
    """

    workload: Workload
    jobs: Jobs  # in file order, with the platform's indices; licences are those of the platform below
    platform: Platform  # with the accounts of its limits after its licences
    licences: int  # number of licences before those accounts
    whole: NDArray[np.bool_]  # the jobs on whole nodes
    division: Division | None = None  # of the platform, if there are reservations

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the nodes, including parts of nodes for reservations."""
        division = self.division
        return self.platform.nodes if division is None else tuple(division.whole.nodes[at] for at in division.node)

    @property
    def whole_nodes(self) -> int:
        """The number of nodes, excluding such parts."""
        return len(self.platform.nodes if self.division is None else self.division.whole.nodes)

    @property
    def demand(self) -> Ints:
        """The demand per task, shape (jobs, resources of the platform)."""
        return self.jobs.demand

    def need(self, rows: Ints) -> Ints:
        """Return the total demand of these jobs, shape (rows, resources)."""
        return self.jobs.tasks[rows, None] * self.jobs.demand[rows]

    def licences_of(self, row: int) -> tuple[Ints, Ints]:
        """Return the licences and accounts of which a job holds copies, and the number of copies of each."""
        asked = self.jobs.licences
        mine = slice(asked.first[row], asked.first[row + 1])
        return asked.items[mine], asked.counts[mine]

    def copies_of(self, licence: int) -> Ints:
        """Return the copies of a licence that each job requests, shape (jobs,)."""
        asked = self.jobs.licences
        mine = np.flatnonzero(asked.items == licence)
        copies = np.zeros(len(self.jobs), np.int64)
        copies[np.searchsorted(asked.first, mine, side="right") - 1] = asked.counts[mine]
        return copies

    def is_limit(self, licence: int) -> bool:
        """Return whether this licence is the account of a limit."""
        return licence >= self.licences

    def bound(self, row: int) -> NDArray[np.bool_]:
        """Return the nodes on which a job may run by its partition, site and constraint, shape (nodes,)."""
        jobs = self.jobs
        partition = jobs.partition[row] if self.platform.partitions else ""
        return self.platform.within(partition, jobs.site.codes[row], jobs.constraint[row])

    def nodes(self, row: int) -> NDArray[np.bool_]:
        """Return the nodes on which a job may run: `bound`, restricted to those that may host all of its licences."""
        licences, _ = self.licences_of(row)
        allowed: NDArray[np.bool_] = self.bound(row) & self.platform.hosts[:, licences].all(axis=1)
        return allowed

    def most(self, row: int) -> int:
        """Return the number of tasks of a job that one node may hold."""
        return 1 if self.jobs.spread[row] == DISTINCT else int(self.jobs.tasks[row])

    def spread(self, row: int) -> int:
        """Return the spread that the tasks of a job may have; a job of one task runs on one node."""
        return NODE if self.jobs.tasks[row] == 1 else int(self.jobs.spread[row])
