"""The metrics of projects: their waits, runs and turn-around times, and the dependence on their place in the queue.

Source: Lin, Thai, Wang and Lai, JNCA 52, 2015, definitions 1 to 5; its MPT and MJT.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from backfill.model.schedule import CANCELLED, NO_TIME, Schedule
from backfill.model.units import NEVER, SECOND
from backfill.model.workload import Floats, Ints, Workload


@dataclass(frozen=True, eq=False, slots=True)
class Spans:
    """First submit, first start and last end of each project; all of shape (projects,), times in microseconds."""

    whole: NDArray[np.bool_]  # all of its jobs are among those considered, except jobs cancelled before they started
    jobs: Ints  # the number of these jobs
    submit: Ints
    start: Ints
    end: Ints

    @classmethod
    def of(cls, workload: Workload, schedule: Schedule, rows: Ints) -> "Spans":
        """Build the spans. rows: the jobs to consider, all of which ran."""
        codes, many = workload.jobs.project.codes, len(workload.jobs.project.names)
        mine = rows[codes[rows] >= 0]
        of = codes[mine]
        count = np.bincount(of, minlength=many)
        counts = (codes >= 0) & ~((schedule.state == CANCELLED) & ~schedule.ran)  # without those cancelled early
        whole = (count > 0) & (count == np.bincount(codes[counts], minlength=many))
        submit, start, end = np.full(many, NEVER), np.full(many, NEVER), np.full(many, NO_TIME)
        np.minimum.at(submit, of, workload.jobs.submit[mine])
        np.minimum.at(start, of, schedule.start[mine])
        np.maximum.at(end, of, schedule.end[mine])
        return cls(whole, count, submit, start, end)


def project_metrics(workload: Workload, schedule: Schedule, rows: Ints) -> dict[str, float | int | None]:
    """Return the metrics of projects whose jobs are all among `rows`, which ran to their end; empty if there are none.

    projects: their number. Means over them: mean_project_turnaround_s, last end - first submit;
    mean_project_wait_s, first start - first submit; mean_project_run_s, last end - first start;
    mean_project_job_turnaround_s, the mean over the jobs of a project of end - submit. first_projects_turnaround_s,
    last_projects_turnaround_s: mean turn-around of the first and last tenth of them, in order of submit.
    projects_per_h: projects ended per hour, from the first submit of all jobs considered to their last end.
    """
    codes = workload.jobs.project.codes
    if not (codes >= 0).any():
        return {}
    spans = Spans.of(workload, schedule, rows)
    whole, mine = spans.whole, rows[codes[rows] >= 0]
    turnaround = (schedule.end[mine] - workload.jobs.submit[mine]).astype(np.float64)
    of_jobs = np.bincount(codes[mine], turnaround, len(whole))[whole] / spans.jobs[whole]
    submit, start, end = spans.submit[whole], spans.start[whole], spans.end[whole]

    by_place = turnarounds(workload, schedule, rows) * SECOND
    tenth = -(-len(by_place) // 10)
    length = int(schedule.end[rows].max() - workload.jobs.submit[rows].min()) if len(rows) else 0

    def mean(values: Floats | Ints) -> float | None:
        return float(values.astype(np.float64).mean()) / SECOND if len(values) else None

    return {
        "projects": int(whole.sum()),
        "mean_project_turnaround_s": mean(end - submit),
        "mean_project_wait_s": mean(start - submit),
        "mean_project_run_s": mean(end - start),
        "mean_project_job_turnaround_s": mean(of_jobs),
        "first_projects_turnaround_s": mean(by_place[:tenth]),
        "last_projects_turnaround_s": mean(by_place[len(by_place) - tenth :]),
        "projects_per_h": len(end) * 3600 * SECOND / length if length else None,
    }


def turnarounds(workload: Workload, schedule: Schedule, rows: Ints) -> Floats:
    """Return the turn-around in seconds of each project of `project_metrics`, by submit, then by its first job."""
    spans = Spans.of(workload, schedule, rows)
    codes = workload.jobs.project.codes
    first = np.full(len(spans.whole), NEVER)
    np.minimum.at(first, codes[codes >= 0], np.flatnonzero(codes >= 0))
    whole = np.flatnonzero(spans.whole)
    order = whole[np.lexsort((first[whole], spans.submit[whole]))]
    return (spans.end - spans.submit)[order].astype(np.float64) / SECOND
