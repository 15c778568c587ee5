"""Who never starts, and whether that had to be: rules `rejected` and `pending`.

A job stays without a start only where it could not run even alone, or comes after such a one. A part of rule `cancel`
is here too: a job that can never run is rejected when it comes, so that no event cancels it later.
"""

from dataclasses import replace
from typing import cast

import numpy as np

from backfill.analysis.outages import Replay
from backfill.analysis.verify.case import Case, Mask, ScheduleColumns, codes_of, items_of, licence_index, limited, meets
from backfill.model.platform import Platform
from backfill.model.schedule import REJECTED, STATES, Schedule
from backfill.model.units import NEVER
from backfill.model.workload import SPREAD, Ints, Workload


def check_rejected(case: Case, schedule: Schedule | ScheduleColumns) -> None:
    """A job stays without a start only where it must; one that was cancelled may be rejected before that."""
    jobs, report, platform = case.workload.jobs, case.report, _all_there_is(case)
    stays = ~case.ran & (case.cancelled == NEVER) & ~case.pending
    if schedule.state is not None and case.outages is not None:
        stays |= ~case.ran & (case.column(codes_of(schedule.state, STATES), -1) == REJECTED)
    idle = np.flatnonzero(stays & (case.line >= 0))
    index, owner = items_of(jobs.after, idle)
    follows = np.zeros(len(idle), np.bool_)
    follows[owner[stays[jobs.after.items[index]]]] = True
    alone = _Alone(case.workload, platform)
    wronged = idle[[not follows[i] and alone.runs(row) for i, row in enumerate(idle.tolist())]] if len(idle) else idle
    for i in report.each("rejected", np.ones(len(wronged), np.bool_)):
        report.add("rejected", jobs.job[wronged[i]], None, "never starts, although the platform can run it")
    for row in report.each("rejected", stays & (case.cancelled <= jobs.submit)):
        report.add("rejected", jobs.job[row], None, "is REJECTED, although it was cancelled before it came")
    for row in report.each("cancel", _too_late(case, stays, alone)):
        report.add("cancel", jobs.job[row], None, "is CANCELLED, although it was rejected when it came")


def check_moments(case: Case, until: Ints) -> None:
    """A run of no length holds nothing at any instant, but its job must have been able to run."""
    jobs, runs = case.workload.jobs, case.runs
    moments = (until == runs.start) & case.ran[runs.job]
    if not moments.any():
        return
    alone = _Alone(case.workload, _all_there_is(case))
    moments[moments] = [not alone.runs(row) for row in runs.job[moments].tolist()]
    for i in case.report.each("capacity", moments):
        job, start = jobs.job[runs.job[i]], int(runs.start[i])
        case.report.add("capacity", job, start, "could not run even alone, with all that there ever is")


def _all_there_is(case: Case) -> Platform:
    """The platform with the greatest capacity that events give it."""
    if case.outages is None:
        return case.platform
    return replace(case.platform, capacity=case.outages.most, copies=case.outages.most_copies)


def check_pending(case: Case) -> None:
    """Somebody lacks what the events took for good; behind that one others may wait for ever."""
    pending, replay = np.flatnonzero(case.pending), cast(Replay, case.replay)
    if not len(pending):
        return
    capacity = np.array([steps[-1][1] for steps in replay.nodes])
    copies = np.array([int(steps[-1][1][0]) for steps in replay.licences], np.int64)
    alone = _Alone(case.workload, replace(case.platform, capacity=capacity, copies=copies))
    all_fit = all(alone.runs(row) for row in pending.tolist())
    for row in case.report.each("pending", case.pending & all_fit):
        case.report.add("pending", case.workload.jobs.job[row], None, "waits for ever, although there is room for it")


def _too_late(case: Case, stays: Mask, alone: "_Alone") -> Mask:
    """Which jobs were cancelled after they had been rejected, since they can never run."""
    found = ~case.ran & ~stays & (case.cancelled > case.workload.jobs.submit) & (case.line >= 0)
    rows = np.flatnonzero(found).tolist()
    found[rows] = [not alone.runs(row) for row in rows]
    return found


class _Alone:
    """Whether a job could run if it had the platform to itself; equal demands are worked out once."""

    def __init__(self, workload: Workload, platform: Platform) -> None:
        self.jobs, self.platform = workload.jobs, platform
        _, self.demand, self.capacity = limited(workload, platform)
        self.licence = licence_index(workload, platform)
        self.known: dict[tuple[bytes, bytes, int, int, str, str], bool] = {}

    def runs(self, row: int) -> bool:
        """Whether the job of this row could run so."""
        jobs, demand = self.jobs, self.demand[row]
        some = slice(jobs.licences.first[row], jobs.licences.first[row + 1])
        asked = np.stack([self.licence[jobs.licences.items[some]], jobs.licences.counts[some]])
        bound = (jobs.site[row], jobs.constraint[row])
        key = (demand.tobytes(), asked.tobytes(), int(jobs.tasks[row]), int(jobs.spread[row]), *bound)
        if key not in self.known:
            self.known[key] = self._work_out(demand, asked, *key[2:])
        return self.known[key]

    def _work_out(self, demand: Ints, asked: Ints, tasks: int, spread: int, site: str, constraint: str) -> bool:
        platform = self.platform
        licence, copies = asked
        if (licence < 0).any() or (copies > platform.copies[licence]).any():
            return False
        needed = demand > 0
        room = (self.capacity[:, needed] // demand[needed]).min(axis=1, initial=tasks)
        room[~platform.hosts[:, licence].all(axis=1)] = 0
        if site:
            room[[platform.sites[s] != site for s in platform.site]] = 0
        if constraint:
            room[~np.array(meets(platform, constraint))] = 0
        if SPREAD[spread] == "node":
            return bool(room.max() >= tasks)
        if SPREAD[spread] == "site":
            return bool(np.bincount(platform.site, room).max() >= tasks)
        return bool(room.sum() >= tasks)
