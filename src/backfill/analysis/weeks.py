"""A log by weeks: submitted work, held processors, gaps without a submit, and flurries of single users."""

from dataclasses import dataclass

import numpy as np

from backfill.analysis.recorded import Recorded
from backfill.model.units import SECOND
from backfill.model.workload import Floats, Ints, Workload

DAY = 86_400 * SECOND
WEEK = 7 * DAY
WEEKS_MAX = 5_200  # a century; a longer log has a wrong clock and no meaningful weeks
FLURRY_TIMES = 2  # a flurry has this many times the jobs that all users submit in the median week
GAP_TIMES = 14  # mean intervals; a random gap exceeds this many with probability e^-14, one in a million


@dataclass(frozen=True, eq=False, slots=True)
class Weeks:
    """Blocks of seven days from the first submit; arrays of shape (weeks,). The last week is rarely a whole one."""

    begin: int  # microseconds, of the first week
    jobs: Ints  # submitted
    users: Ints  # distinct users who submitted
    work: Floats  # processors that the submitted jobs would keep busy all week
    held: Floats | None  # processors held as recorded, mean over the week; None if the log has no waits
    top_user: Ints  # code of the user with the most submits, -1 = unknown
    top_jobs: Ints  # jobs of that user

    def __len__(self) -> int:
        return len(self.jobs)

    @classmethod
    def of(cls, workload: Workload) -> "Weeks":
        """Split a log into weeks; none if it has no jobs, or spans more than a century."""
        jobs = workload.jobs
        begin = int(jobs.submit.min()) if len(jobs) else 0
        count = int((jobs.submit.max() - begin) // WEEK) + 1 if len(jobs) else 0
        if not 0 < count <= WEEKS_MAX:
            nothing = np.zeros(0, np.int64)
            return cls(begin, nothing, nothing, np.zeros(0), None, nothing, nothing)
        week = (jobs.submit - begin) // WEEK
        work = jobs.runtime.astype(np.float64) * jobs.procs
        users, top_user, top_jobs = _users(week, jobs.user.codes.astype(np.int64), count)
        return cls(
            begin,
            np.bincount(week, minlength=count),
            users,
            np.bincount(week, work, minlength=count) / WEEK,
            _held(Recorded.of(workload), begin, count),
            top_user,
            top_jobs,
        )


def _held(recorded: Recorded | None, begin: int, count: int) -> Floats | None:
    if recorded is None:
        return None
    held = recorded.held
    area = np.concatenate([[0.0], np.cumsum(held.values[:-1] * np.diff(held.times).astype(np.float64))])
    edges = begin + np.arange(count + 1) * WEEK
    mean: Floats = np.diff(np.interp(edges, held.times, area)) / WEEK  # exact: the area is linear between times
    return mean


def _users(week: Ints, user: Ints, count: int) -> tuple[Ints, Ints, Ints]:
    """Return the users per week, the one with the most jobs, and the number of these."""
    known = user >= 0
    several = int(user.max(initial=0)) + 1
    pairs, jobs = np.unique(week[known] * several + user[known], return_counts=True)
    weeks = pairs // several
    most_first = np.lexsort((-jobs, weeks))
    busy, first = np.unique(weeks[most_first], return_index=True)
    top_user, top_jobs = np.full(count, -1, np.int64), np.zeros(count, np.int64)
    top_user[busy] = (pairs % several)[most_first][first]
    top_jobs[busy] = jobs[most_first][first]
    return np.bincount(weeks, minlength=count), top_user, top_jobs


@dataclass(frozen=True, slots=True)
class SubmitGap:
    """A span without a submit, too long to be explained by chance."""

    begin: int  # microseconds, the submit before it
    end: int
    next_job: str  # the job that ends it


def gaps(workload: Workload) -> list[SubmitGap]:
    """Return the gaps, longest first: more than a day, and more than 14 times the mean interval between submits."""
    jobs = workload.jobs
    order = np.argsort(jobs.submit, kind="stable")
    submit = jobs.submit[order]
    interval = np.diff(submit)
    if not len(interval):
        return []
    long = np.flatnonzero((interval > DAY) & (interval > GAP_TIMES * interval.mean()))
    long = long[np.argsort(-interval[long], kind="stable")]
    return [SubmitGap(int(submit[i]), int(submit[i + 1]), str(jobs.job[order[i + 1]])) for i in long.tolist()]


@dataclass(frozen=True, slots=True)
class Flurry:
    """A surge of one user's jobs over several consecutive weeks."""

    user: str
    first_week: int  # counted from 1
    last_week: int
    jobs: int  # of the user in these weeks
    of: int  # jobs of all users in them


def flurries(weeks: Weeks, users: tuple[str, ...]) -> list[Flurry]:
    """Return the weeks in which one user submits most of the jobs, and twice as many as all users in the median week.

    Source of the term: Tsafrir and Feitelson 2006 (IPDPS), a surge of activity by a single user that dominates the
    workload for a relatively short time. They look at plots; the two thresholds are ours.
    """
    busy = weeks.jobs[weeks.jobs > 0]
    usual = float(np.median(busy)) if len(busy) else 0.0
    surges: list[Flurry] = []
    for i in np.flatnonzero((2 * weeks.top_jobs > weeks.jobs) & (weeks.top_jobs > FLURRY_TIMES * usual)).tolist():
        user, jobs, of = users[weeks.top_user[i]], int(weeks.top_jobs[i]), int(weeks.jobs[i])
        if surges and (surges[-1].user, surges[-1].last_week) == (user, i):
            before = surges.pop()
            surges.append(Flurry(user, before.first_week, i + 1, before.jobs + jobs, before.of + of))
        else:
            surges.append(Flurry(user, i + 1, i + 1, jobs, of))
    return surges
