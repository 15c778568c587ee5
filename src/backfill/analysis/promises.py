"""The promises to jobs and projects, every change of them, and how well they were kept."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backfill.model.clock import instant_text
from backfill.model.promises import CAUSES, MOVED, Promises
from backfill.model.schedule import NO_TIME, Schedule
from backfill.model.units import SECOND
from backfill.model.workload import Workload

WHY = {
    "moved-up": "capacity became free",
    "overrun": "a job overran its limit",
    "changed": "capacity, walltimes or jobs changed",
}

Row = tuple[int, int, int, int, int]  # as in Promises.rows


@dataclass(frozen=True, slots=True)
class Change:
    """A new promise, or a changed one."""

    at: int  # microseconds
    until: int  # the promised start of a job, or departure of a project; NO_TIME = withdrawn
    cause: str  # one of CAUSES
    job: int  # row of the job with the changed start; for a project, the last such job of that instant
    by: int  # row of the job that was preferred; -1 none

    def sentence(self, log: Workload, project: bool) -> str:
        """Phrase it: `at day 0 00:02:30 promised to start at day 0 00:04:10: capacity became free`; dates if known."""
        clock, verb = log.calendar, "depart" if project else "start"
        if self.until == NO_TIME:
            promise = f"at {instant_text(self.at, clock)} no longer promised to {verb}"
        else:
            promise = f"at {instant_text(self.at, clock)} promised to {verb} at {instant_text(self.until, clock)}"
        who = f"job {log.jobs.job[self.job]} " if project else ""
        if self.cause == CAUSES[MOVED]:
            other = f"job {log.jobs.job[self.by]}"
            if log.jobs.project[self.by]:
                other += f" of project {log.jobs.project[self.by]}"
            return f"{promise}: {who}made way for {other}"
        return f"{promise}: {WHY[self.cause]}" if self.cause in WHY else promise

    def to_dict(self, log: Workload, project: bool) -> dict[str, Any]:
        """Return the fields for JSON."""
        until = None if self.until == NO_TIME else self.until / SECOND
        fields = {"at_s": self.at / SECOND, "departure_s" if project else "start_s": until, "cause": self.cause}
        if project:
            fields["job"] = str(log.jobs.job[self.job])
        if self.by >= 0:
            fields["for"] = str(log.jobs.job[self.by])
            if project:
                fields["for_project"] = log.jobs.project[self.by] or None
        return fields


def history(promises: Promises, job: int) -> list[Change]:
    """Return the promises of one job, in order."""
    return [_change(row) for row in promises.of(job).rows()]


def _change(row: Row) -> Change:
    at, job, start, cause, by = row
    return Change(at, start, CAUSES[cause], job, by)


def promise_metrics(promises: Promises, schedule: Schedule, there: NDArray[np.bool_]) -> dict[str, float | int | None]:
    """Return metrics of how the promises of jobs that ran changed and were kept.

    promises: those of all jobs. there: the mask of jobs outside warm-up and cool-down, shape (jobs,).

    promised_jobs: those that were promised a start. moved_promises: the number of changes of a promised start.
    moved_jobs: jobs with such a change, made_way_jobs: in favour of another job. The others: see `kept_metrics`.
    """
    promises = promises.take(np.flatnonzero(there[promises.job]))
    order = np.argsort(promises.job, kind="stable")
    again = np.diff(promises.job[order], prepend=-1) == 0
    moved = np.diff(promises.start[order], prepend=0) != 0
    changed = promises.take(order[again & moved & (promises.cause[order] > 0)])
    kept = kept_metrics(schedule, there)
    return {
        "promised_jobs": kept.pop("promised_jobs"),
        "moved_promises": len(changed),
        "moved_jobs": len(np.unique(changed.job)),
        "made_way_jobs": len(np.unique(changed.job[changed.cause == MOVED])),
        **kept,
    }


def kept_metrics(schedule: Schedule, there: NDArray[np.bool_]) -> dict[str, float | int | None]:
    """Return metrics of how the first promises of jobs that ran were kept.

    there: the mask of jobs outside warm-up and cool-down, shape (jobs,).

    promised_jobs: those that were promised a start. kept_promises: of these, those that started no later than first
    promised. mean_slip_s, max_slip_s: start - first promise of those that started later.
    """
    ran = np.flatnonzero((schedule.promise != NO_TIME) & schedule.ran & there)
    slip = (schedule.start - schedule.promise)[ran]
    late = slip[slip > 0] / SECOND
    return {
        "promised_jobs": len(ran),
        "kept_promises": int((slip <= 0).sum()),
        "mean_slip_s": float(late.mean()) if len(late) else None,
        "max_slip_s": float(late.max()) if len(late) else None,
    }
