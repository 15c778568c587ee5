"""Compact a State: drop the jobs and runs that are no longer needed, so that their rows can be used again.

The rest keeps its order, so every comparison of two numbers keeps its outcome. Only this module knows which fields hold
numbers of jobs and runs; a field that is not listed here is carried over unchanged.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from backfill.core.errors import NONE
from backfill.core.plan.promises import NO_TIME
from backfill.core.policy import Policy
from backfill.core.runs import RUNNING
from backfill.model.workload import Ints


def _fields(**records: str) -> frozenset[tuple[str, str]]:
    """Return pairs of a record and one of its fields."""
    return frozenset((record, field) for record, fields in records.items() for field in fields.split())


# Fields with an entry for each job, by record; if such an array is shorter, the policy does not use it.
PER_JOB = _fields(
    Jobs="submit walltime tasks demand need spread most alone bound shape place deadline priority admin_priority "
    "user group project limit_first",
    Runs="last paused used whole ready",
    Queue="waits aside block",
    Plan="first many heeded rooms_level",
    Projects="of next",
    Promises="reserved first",
    Bookings="begin length latest next before due soonest since",
)
PER_RUN = _fields(Runs="job start limit end reason how many since turns of paced done part")
PER_PROJECT = _fields(Projects="submit first last")
# Fields whose values are jobs, or positions between two jobs of an order; then fields whose values are runs.
JOBS = _fields(
    Runs="job",
    Queue="holder aside fresh line",
    Shadow="job booked",
    Later="job",
    Placed="job",
    Projects="next first last",
    Promises="watched",
    Bookings="next before head",
    Shapes="first",
)
BETWEEN = _fields(Queue="passed_job least_job")
RUNS = _fields(Runs="last by_limit")
EMPTY = _fields(
    Batch="arrivals ends leaves drops begins starts preemptions paces",
    Bookings="moves tries seated",
    Promises="rows",
    Journal="rows",
)


@dataclass(frozen=True, eq=False)
class Kept:
    """The numbers of the jobs, runs and projects that are kept, ascending."""

    old: Any  # the State
    jobs: Ints
    runs: Ints
    projects: Ints

    @classmethod
    def of(cls, state: Any, policy: Policy, over: Ints, *, runs: bool = False) -> "Kept":
        """Return what to keep if the jobs in the rows `over` will never be referred to again.

        runs: whether all runs of the jobs that are kept are kept, not only their last ones.
        """
        shapes, count = state.free.shapes, int(state.runs.count)
        kept = np.ones(int(state.jobs.count), np.bool_)
        kept[over] = False
        kept[shapes.first[: shapes.count]] = True  # a shape is defined by its first job
        if policy.forgets == "alone":
            kept |= state.jobs.project[: len(kept)] >= 0
        last, going = state.runs.last[: len(kept)][kept], state.runs.how[:count] == RUNNING
        going[last[last >= 0]] = True
        if runs:
            going |= kept[state.runs.job[:count]]
        return cls(state, np.flatnonzero(kept), np.flatnonzero(going), np.unique(state.projects.of[: len(kept)][kept]))

    def field(self, record: Any, field: str, value: Any) -> Any:
        """Return the part of a field of the old State that is kept."""
        name = type(record).__name__
        if (name, field) in EMPTY:
            return 0
        for table, some in ((PER_JOB, self.jobs), (PER_RUN, self.runs), (PER_PROJECT, self.projects)):
            axis = int(field == "block")  # this field has a row for each order
            if (name, field) in table and value.shape[axis] > some.max(initial=0):
                value = value.take(some, axis)
        if (name, field) in JOBS:
            value = renumbered(value, self.jobs)
        elif (name, field) in BETWEEN:
            value = np.searchsorted(self.jobs, value, side="right") - 1
        elif (name, field) in RUNS:
            value = renumbered(value, self.runs)
        own = getattr(self, f"_{name}_{field}".lower(), None)
        return value if own is None else own(value)

    def _jobs_count(self, value: int) -> int:
        return len(self.jobs)

    def _runs_count(self, value: int) -> int:
        return len(self.runs)

    def _projects_count(self, value: int) -> int:
        return len(self.projects)

    def _projects_of(self, value: Any) -> Any:
        return np.searchsorted(self.projects, value).astype(value.dtype)

    def _queue_limited(self, value: Ints) -> Ints:
        return np.full_like(value, NONE)

    # close the gaps in the lists of items of jobs and of nodes of runs

    def _jobs_licence_first(self, value: Ints) -> Ints:
        return begins(value, self.jobs)

    def _jobs_limit_first(self, value: Ints) -> Ints:
        first = self.old.jobs.licence_first
        found: Ints = value - first[self.jobs] + begins(first, self.jobs)[:-1]
        return found

    def _jobs_licence(self, value: Any) -> Any:
        return value[items(self.old.jobs.licence_first, self.jobs)]

    _jobs_licence_count = _jobs_licence

    def _jobs_after_first(self, value: Ints) -> Ints:
        return begins(value, self.jobs)

    def _jobs_after(self, value: Ints) -> Any:
        return renumbered(value[items(self.old.jobs.after_first, self.jobs)], self.jobs)

    def _runs_first(self, value: Ints) -> Ints:
        if self.old.machine.pool:
            return value
        found: Ints = np.append(0, np.cumsum(self.old.runs.many[self.runs]))[:-1]
        return found

    def _runs_held(self, value: Ints) -> Ints:
        runs = self.old.runs
        if self.old.machine.pool:
            return value
        return value[stretches(runs.first[self.runs], runs.many[self.runs])]

    def _runs_held_used(self, value: int) -> int:
        return 0 if self.old.machine.pool else int(self.old.runs.many[self.runs].sum())

    # drop entries of the heap of begins that are out of date

    def _bookings_dues(self, value: int) -> int:
        return len(self._due()[0])

    def _bookings_due_time(self, value: Ints) -> Ints:
        return self._due()[0]

    def _bookings_due_job(self, value: Ints) -> Any:
        return renumbered(self._due()[1], self.jobs)

    def _due(self) -> tuple[Ints, Ints]:
        bookings = self.old.bookings
        time, job = bookings.due_time[: bookings.dues], bookings.due_job[: bookings.dues]
        true = (bookings.begin[job] == time) & (bookings.due[job] == 1) & (time != NO_TIME)
        order = np.lexsort((job[true], time[true]))
        return time[true][order], job[true][order]


def renumbered(value: Any, kept: Ints) -> Any:
    """Return the new numbers of what is kept, and -1 for the rest."""
    place = np.searchsorted(kept, value)
    found = np.where((np.append(kept, NONE)[place] == value) & (np.asarray(value) >= 0), place, NONE)
    return int(found) if np.ndim(value) == 0 else found.astype(value.dtype)


def begins(first: Ints, rows: Ints) -> Ints:
    """Return where the items of these rows begin if they are stored end to end, and where the last ones end."""
    found: Ints = np.append(0, np.cumsum(first[rows + 1] - first[rows]))
    return found


def items(first: Ints, rows: Ints) -> Ints:
    """Return the positions of all items of these rows."""
    return stretches(first[rows], first[rows + 1] - first[rows])


def stretches(begin: Ints, many: Ints) -> Ints:
    """Return the positions begin, begin + 1, ... of each stretch, end to end."""
    ends = np.cumsum(many)
    found: Ints = np.repeat(begin - (ends - many), many) + np.arange(int(many.sum()))
    return found
