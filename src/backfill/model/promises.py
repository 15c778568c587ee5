"""The record of promises: the start promised to each job, when it was promised, and why it changed."""

from dataclasses import dataclass

import numpy as np

from backfill.model.errors import BadArgument
from backfill.model.schedule import NO_TIME
from backfill.model.workload import Ints, Workload

# Reasons for a new or changed promise, by the codes of core/plan/promises.py.
CAUSES = ("given", "renewed", "moved-up", "moved", "overrun", "changed")
MOVED = CAUSES.index("moved")  # delayed in favour of another job
CHANGED = CAUSES.index("changed")


@dataclass(frozen=True, eq=False)
class Promises:
    """One row per promise, in the order of making; times in int64 microseconds."""

    at: Ints  # when it was made
    job: Ints  # row of the workload
    start: Ints  # the promised start; NO_TIME: the promise is withdrawn
    end: Ints  # promised end, by the walltime; NO_TIME
    cause: Ints  # index in CAUSES
    by: Ints  # row of the job that was preferred; -1 none
    kept: bool  # True: a promise holds until it is changed; False: every pass makes all promises again

    def __len__(self) -> int:
        return len(self.at)

    def rows(self) -> list[tuple[int, int, int, int, int]]:
        """Return the tuple (at, job, start, cause, by) of each promise."""
        columns = (self.at, self.job, self.start, self.cause, self.by)
        return [*zip(*(each.tolist() for each in columns), strict=True)]

    def of(self, job: int) -> "Promises":
        """Return the promises of one job, without repetitions."""
        mine = np.flatnonzero(self.job == job)
        return self.take(mine[np.diff(self.start[mine], prepend=NO_TIME) != 0])

    def take(self, rows: Ints) -> "Promises":
        """Return the rows with these indices, in this order."""
        at, job, start, end, cause, by = self.at, self.job, self.start, self.end, self.cause, self.by
        return Promises(at[rows], job[rows], start[rows], end[rows], cause[rows], by[rows], self.kept)


OF_PROJECT = "project:"  # prefix of a project name that is also a job id


def subject(log: Workload, name: str) -> tuple[int | None, Ints]:
    """Resolve the name of a job or project: the job's row, or None for a project; and the rows of its jobs. Raises"""
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
