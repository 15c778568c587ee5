"""The record of promises: which start each job was promised, and from when on."""

from dataclasses import dataclass

import numpy as np

from backfill.model.schedule import NO_TIME
from backfill.model.workload import Ints


@dataclass(frozen=True, eq=False)
class Promises:
    """One row per promise, in the order in which they were made; times in int64 microseconds."""

    at: Ints  # when it was made
    job: Ints  # row of the workload
    start: Ints  # the promised start; NO_TIME: the job has none from now on
    kept: bool  # a promise holds until it is changed; else until the next pass, which makes all of them anew

    def __len__(self) -> int:
        return len(self.at)

    def of(self, job: int) -> "Promises":
        """Those of one job, without repetitions of what it was promised just before."""
        mine = np.flatnonzero(self.job == job)
        return self.take(mine[np.diff(self.start[mine], prepend=NO_TIME) != 0])

    def take(self, rows: Ints) -> "Promises":
        """These rows, in this order."""
        return Promises(self.at[rows], self.job[rows], self.start[rows], self.kept)
