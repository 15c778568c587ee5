"""A log by weeks: submitted work, held processors, gaps without a submit, and flurries of single users."""

from dataclasses import dataclass

import numpy as np

from backfill.analysis.recorded import Recorded
from backfill.model.units import SECOND
from backfill.model.workload import Floats, Ints, Workload

DAY = 86_400 * SECOND
WEEK = 7 * DAY
WEEKS_MAX = 5_200  # a century; a log that spans more has a wrong clock, and no weeks worth a look
FLURRY_TIMES = 2  # a flurry has so many times the jobs that all users submit in the median week
GAP_TIMES = 14  # of random arrivals one in a million (e^-14) is so many mean intervals after the one before


@dataclass(frozen=True, eq=False, slots=True)
class Weeks:
    """Blocks of seven days from the first submit; arrays of shape (weeks,). The last week is rarely a whole one."""

    begin: int  # microseconds, of the first week
    jobs: Ints  # submitted
    users: Ints  # who submitted
    work: Floats  # processors that the submitted jobs would keep busy all week
    held: Floats | None  # processors held as recorded, mean over the week; None where the log has no waits
    top_user: Ints  # code of the user who submitted most, -1 = nobody known
    top_jobs: Ints  # how many of the jobs are that user's

    def __len__(self) -> int:
        return len(self.jobs)

    @classmethod
    def of(cls, workload: Workload) -> "Weeks":
        """No weeks at all where there are no jobs, or where they span more than a century."""
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
    mean: Floats = np.diff(np.interp(edges, held.times, area)) / WEEK  # exact: from time to time the area is a line
    return mean


def _users(week: Ints, user: Ints, count: int) -> tuple[Ints, Ints, Ints]:
    """Users per week, the one with the most jobs, and how many these are."""
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
    next_job: str  # the one that ends it


def gaps(workload: Workload) -> list[SubmitGap]:
    """The longest first: more than a day, and more than 14 times the mean interval between submits."""
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
    """A surge of one user's jobs over some weeks in a row."""

    user: str
    first_week: int  # counted from 1
    last_week: int
    jobs: int  # the user's, in these weeks
    of: int  # jobs of all users in them


def flurries(weeks: Weeks, users: tuple[str, ...]) -> list[Flurry]:
    """Weeks in which one user submits most of the jobs, and twice as many as everybody in the median week.

    Source of the notion: Tsafrir and Feitelson 2006 (IPDPS), a surge of activity by a single user that dominates the
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
