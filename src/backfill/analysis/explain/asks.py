"""What jobs ask for, in the platform's words, and on which nodes a job may run."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from backfill.model.platform import Platform
from backfill.model.workload import SPREAD, Ints, Workload

NODE, SITE, ANY = range(len(SPREAD))


@dataclass(frozen=True, eq=False, slots=True)
class Asks:
    """What every job of a workload asks for on a platform."""

    workload: Workload
    platform: Platform
    demand: Ints  # shape (jobs, resources of the platform), per task
    need: Ints  # the same for the whole job
    job: Ints  # of each floating licence that a job asks for, in order of jobs
    licence: Ints
    copies: Ints

    @classmethod
    def of(cls, workload: Workload, platform: Platform) -> "Asks":
        """Of a workload on a platform; what the platform does not limit is not asked for."""
        jobs = workload.jobs
        demand = np.zeros((len(jobs), len(platform.resources)), np.int64)
        for k, name in enumerate(platform.resources):
            if name in workload.resources:
                demand[:, k] = jobs.demand[:, workload.resources.index(name)]
        owner = np.repeat(np.arange(len(jobs)), np.diff(jobs.licences.first))
        known = np.full(len(workload.licences) + 1, -1)
        for place, name in enumerate(workload.licences):
            if name in platform.licences:
                known[place] = platform.licences.index(name)
            elif name in platform.resources:  # one that stays on its node, for a job of one task
                mine = owner[(jobs.licences.items == place) & (jobs.tasks[owner] == 1)]
                np.add.at(demand[:, platform.resources.index(name)], mine, 1)
        licence = known[jobs.licences.items]
        wide = max(len(platform.licences), 1)
        pairs, copies = np.unique((owner * wide + licence)[licence >= 0], return_counts=True)
        return cls(workload, platform, demand, demand * jobs.tasks[:, None], pairs // wide, pairs % wide, copies)

    def licences(self, row: int) -> tuple[Ints, Ints]:
        """The floating licences that a job asks for, and how many copies of each."""
        mine = slice(*np.searchsorted(self.job, [row, row + 1]))
        return self.licence[mine], self.copies[mine]

    def copies_of(self, licence: int) -> Ints:
        """How many copies of a licence each job asks for, shape (jobs,)."""
        mine = self.licence == licence
        found = np.zeros(len(self.demand), np.int64)
        found[self.job[mine]] = self.copies[mine]
        return found

    def bound(self, row: int) -> NDArray[np.bool_]:
        """The nodes on which a job may run by its site and its constraint, shape (nodes,)."""
        jobs, platform = self.workload.jobs, self.platform
        found = np.ones(len(platform.nodes), np.bool_)
        if jobs.constraint[row]:
            found &= platform.allows(jobs.constraint[row])
        if site := jobs.site[row]:
            there = platform.sites.index(site) if site in platform.sites else -1
            found &= platform.site == there
        return found

    def nodes(self, row: int) -> NDArray[np.bool_]:
        """The nodes on which a job may run: as bound, as far as they may host all of its licences."""
        licences, _ = self.licences(row)
        found: NDArray[np.bool_] = self.bound(row) & self.platform.hosts[:, licences].all(axis=1)
        return found

    def spread(self, row: int) -> int:
        """Where the tasks of a job may sit; a job of one task sits on one node."""
        return NODE if self.workload.jobs.tasks[row] == 1 else int(self.workload.jobs.spread[row])
