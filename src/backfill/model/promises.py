"""The record of promises: the start that each job was promised, when, and why it changed."""

from dataclasses import dataclass

import numpy as np

from backfill.model.errors import BadArgument
from backfill.model.schedule import NO_TIME
from backfill.model.workload import Ints, Workload

# Why a promise is given, or becomes another one; by the numbers of core/plan/promises.py.
CAUSES = ("given", "renewed", "moved-up", "moved", "overrun", "changed")
MOVED = CAUSES.index("moved")  # it made way for another job
CHANGED = CAUSES.index("changed")


@dataclass(frozen=True, eq=False)
class Promises:
    """One row per promise, in the order in which they were made; times in int64 microseconds."""

    at: Ints  # when it was made
    job: Ints  # row of the workload
    start: Ints  # the promised start; NO_TIME: the job has none from now on
    end: Ints  # when the job was to end then, by its walltime; NO_TIME
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
        """The promises of one job, without repetitions."""
        mine = np.flatnonzero(self.job == job)
        return self.take(mine[np.diff(self.start[mine], prepend=NO_TIME) != 0])

    def take(self, rows: Ints) -> "Promises":
        """The rows of these numbers, in this order."""
        at, job, start, end, cause, by = self.at, self.job, self.start, self.end, self.cause, self.by
        return Promises(at[rows], job[rows], start[rows], end[rows], cause[rows], by[rows], self.kept)


OF_PROJECT = "project:"  # before the name of a project that is also the id of a job


def subject(log: Workload, name: str) -> tuple[int | None, Ints]:
    """The job or project that a name means: the row of a job, or None for a project; and the rows of its jobs. Raises
    UsageError.
    """
    rows = np.flatnonzero(log.jobs.job.astype(str) == name)
    if len(rows):
        return int(rows[0]), rows[:1]
    projects = log.jobs.project
    project = name if name in projects.names else name.removeprefix(OF_PROJECT)
    if project in projects.names:
        return None, np.flatnonzero(projects.codes == projects.names.index(project))
    many = len(set(projects.codes.tolist()) - {-1})
    or_one = f" or {many} projects" if many else ""
    raise BadArgument("promise", name, f"the id of one of the {len(log)} jobs{or_one} of {log.name}")
