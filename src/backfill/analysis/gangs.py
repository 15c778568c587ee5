"""The metrics of a grid: local jobs, with one task and bound to one site, and gangs, all other jobs.

A gang is a job, or all one-task jobs of a project with the same submit, such as tasks that end one by one.
Source: Dimitriadou and Karatza, CISIS 2010: its RT, SLD, WRT and WSLD, and the completion of gangs.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from backfill.model.platform import Platform
from backfill.model.schedule import Schedule
from backfill.model.units import SECOND
from backfill.model.workload import Floats, Ints, Workload


@dataclass(frozen=True, eq=False, slots=True)
class Gangs:
    """The gangs among some jobs; all arrays of shape (gangs,), times in microseconds."""

    procs: Ints
    submit: Ints  # of the first job
    end: Ints  # of the last job
    service: Ints  # the longest run of its jobs

    @classmethod
    def of(cls, workload: Workload, schedule: Schedule, rows: Ints) -> "Gangs":
        """Build the gangs. rows: the jobs to consider, all of which ran; local ones are omitted."""
        jobs = workload.jobs
        rows = rows[~is_local(workload)[rows]]
        of = _gang_of(workload, rows)
        many = int(of.max(initial=-1)) + 1
        submit, end, service = np.full(many, np.iinfo(np.int64).max), np.full(many, -(2**62)), np.zeros(many, np.int64)
        np.minimum.at(submit, of, jobs.submit[rows])
        np.maximum.at(end, of, schedule.end[rows])
        np.maximum.at(service, of, schedule.end[rows] - schedule.start[rows])
        return cls(np.bincount(of, jobs.procs[rows], many).astype(np.int64), submit, end, service)

    def __len__(self) -> int:
        return len(self.procs)

    @property
    def response(self) -> Floats:
        """The response time of each gang, end - submit."""
        return (self.end - self.submit).astype(np.float64)


def is_local(workload: Workload) -> NDArray[np.bool_]:
    """Return whether each job has one task and is bound to one site."""
    local: NDArray[np.bool_] = (workload.jobs.tasks == 1) & (workload.jobs.site.codes >= 0)
    return local


def _gang_of(workload: Workload, rows: Ints) -> Ints:
    """Return the gang of each of these jobs, from 0; none of them is local."""
    jobs = workload.jobs
    project = np.where(jobs.tasks[rows] == 1, jobs.project.codes[rows].astype(np.int64), -1)
    together = np.where(project >= 0, project, len(jobs.project.names) + rows)
    return np.unique(np.column_stack([together, jobs.submit[rows]]), axis=0, return_inverse=True)[1].ravel()


def is_grid(workload: Workload, platform: Platform) -> bool:
    """Return whether the platform has several sites, and the workload local jobs; there need not be gangs."""
    return len(platform.sites) > 1 and bool(is_local(workload).any())


def gang_metrics(
    workload: Workload, platform: Platform, schedule: Schedule, rows: Ints, there: NDArray[np.bool_]
) -> dict[str, float | int | None]:
    """Return the metrics of gangs over the jobs `rows`, which ran to their end; empty unless it is a grid.

    local_jobs: the number of local jobs; mean_local_response_s (RT) and mean_local_slowdown (SLD) are means over these.
    gangs: the number of gangs; weighted_response_s (WRT) and weighted_slowdown (WSLD) are means over these by their
    processors. Slowdown is response / run; a run of length 0 has none. completed_gangs: of the gangs among the
    jobs `there` the share that ended by the last submit of any of these.
    """
    if not is_grid(workload, platform):
        return {}
    jobs = workload.jobs
    local = rows[is_local(workload)[rows]]
    response = (schedule.end[local] - jobs.submit[local]).astype(np.float64)
    run = (schedule.end[local] - schedule.start[local]).astype(np.float64)
    gangs, long = Gangs.of(workload, schedule, rows), run > 0
    service, weight = gangs.service.astype(np.float64), gangs.procs.astype(np.float64)
    served = service > 0
    return {
        "local_jobs": len(local),
        "mean_local_response_s": _mean(response / SECOND),
        "mean_local_slowdown": _mean(response[long] / run[long]),
        "gangs": len(gangs),
        "weighted_response_s": _mean(gangs.response / SECOND, weight),
        "weighted_slowdown": _mean(gangs.response[served] / service[served], weight[served]),
        "completed_gangs": completed(workload, schedule, there),
    }


def completed(workload: Workload, schedule: Schedule, there: NDArray[np.bool_]) -> float | None:
    """Return the share of the gangs among these jobs that ended by their last submit; None if there is none."""
    jobs = workload.jobs
    gang = np.flatnonzero(there & ~is_local(workload))
    if not len(gang):
        return None
    of = _gang_of(workload, gang)
    late = ~schedule.finished[gang] | (schedule.end[gang] > jobs.submit[there].max())
    return 1 - float((np.bincount(of, late) > 0).mean())


def _mean(values: Floats, weight: Floats | None = None) -> float | None:
    return float(np.average(values, weights=weight)) if len(values) else None
