"""The record of promises: which start each job was promised, from when on, and why it became another one."""

from dataclasses import dataclass

import numpy as np

from backfill.model.schedule import NO_TIME
from backfill.model.workload import Ints

# Why a promise is given, or becomes another one; by the numbers of core/promises.py.
CAUSES = ("given", "renewed", "moved-up", "moved", "overrun", "changed")
MOVED = CAUSES.index("moved")  # it made way for another job
CHANGED = CAUSES.index("changed")


@dataclass(frozen=True, eq=False)
class Promises:
    """One row per promise, in the order in which they were made; times in int64 microseconds."""

    at: Ints  # when it was made
    job: Ints  # row of the workload
    start: Ints  # the promised start; NO_TIME: the job has none from now on
    cause: Ints  # index in CAUSES
    by: Ints  # row of the job that it made way for; -1 none
    kept: bool  # a promise holds until it is changed; else until the next pass, which makes all of them anew

    def __len__(self) -> int:
        return len(self.at)

    def rows(self) -> list[tuple[int, int, int, int, int]]:
        """(at, job, start, cause, by) of each."""
        columns = (self.at, self.job, self.start, self.cause, self.by)
        return [*zip(*(each.tolist() for each in columns), strict=True)]

    def of(self, job: int) -> "Promises":
        """Those of one job, without repetitions of what it was promised just before."""
        mine = np.flatnonzero(self.job == job)
        return self.take(mine[np.diff(self.start[mine], prepend=NO_TIME) != 0])

    def take(self, rows: Ints) -> "Promises":
        """These rows, in this order."""
        return Promises(self.at[rows], self.job[rows], self.start[rows], self.cause[rows], self.by[rows], self.kept)
