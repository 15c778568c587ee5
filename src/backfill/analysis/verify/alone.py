"""Checks of jobs that never start: rules `rejected` and `pending`.

A job stays without a start only if it could not run even alone, or depends on such a job. Part of rule `cancel`
is here too: a job that can never run is rejected at its submit, so that no event cancels it later.
"""

import heapq
from dataclasses import replace
from typing import cast

import numpy as np

from backfill.analysis.outages import Replay
from backfill.analysis.verify.case import (
    Case,
    Lost,
    Mask,
    ScheduleColumns,
    Ties,
    codes_of,
    items_of,
    licence_index,
    limited,
    meets,
)
from backfill.analysis.verify.rules import Membership
from backfill.model.platform import Platform
from backfill.model.schedule import NODE_FAIL, PREEMPTED, REJECTED, STATES, Schedule
from backfill.model.units import NEVER
from backfill.model.workload import SPREAD, Ints, Workload


def check_rejected(case: Case, schedule: Schedule | ScheduleColumns, full: Mask, members: Membership) -> None:
    """Check that only jobs that cannot run stay without a start; a cancelled job may have been rejected before.

    full: the mask of jobs whose submit exceeded a limit on queued jobs.
    """
    jobs, report, platform = case.workload.jobs, case.report, _all_there_is(case)
    stays = ~case.ran & (case.cancelled == NEVER) & ~case.pending
    if schedule.state is not None and case.outages is not None:
        stays |= ~case.ran & (case.column(codes_of(schedule.state, STATES), -1) == REJECTED)
    idle = np.flatnonzero(stays & (case.line >= 0))
    index, owner = items_of(jobs.after, idle)
    follows = np.zeros(len(idle), np.bool_)
    follows[owner[stays[jobs.after.items[index]]]] = True
    alone = _Alone(case.workload, platform, members)
    excused = follows | full[idle]
    wronged = idle[[not excused[i] and alone.runs(row) for i, row in enumerate(idle.tolist())]] if len(idle) else idle
    for i in report.each("rejected", np.ones(len(wronged), np.bool_)):
        report.add("rejected", jobs.job[wronged[i]], None, "never starts, although the platform can run it")
    for row in report.each("rejected", stays & (case.cancelled <= jobs.submit)):
        report.add("rejected", jobs.job[row], None, "is REJECTED, although it was cancelled before its submit")
    for row in report.each("cancel", _too_late(case, stays, alone)):
        report.add("cancel", jobs.job[row], None, "is CANCELLED, although it was rejected at its submit")


def refused(case: Case, until: Ints, ties: Ties, lost: Lost, members: Membership) -> Mask:
    """Return the mask of jobs that were submitted when a limit on queued jobs was reached, shape (jobs,).

    Such jobs, and those that depend on them, are not queued from then on. ties: with `step` the submits of an instant
    come before its ends, so jobs that end then are still queued. lost: the fate of a job whose run is lost.
    """
    full, jobs = np.zeros(len(case.workload), np.bool_), case.workload.jobs
    limits = [limit for limit in case.platform.limits if limit.queued_jobs is not None]
    if not limits:
        return full
    alone, runs = _Alone(case.workload, _all_there_is(case), members), case.runs
    waits_again = np.isin(runs.state, (PREEMPTED, NODE_FAIL) if lost == "requeue" else (PREEMPTED,))
    over = np.full(len(jobs), NEVER)
    over[runs.job[runs.last]] = np.where(waits_again, NEVER, until)[runs.last]
    over[case.pending] = NEVER
    over = np.where(case.cancelled > jobs.submit, np.minimum(over, case.cancelled), -NEVER)
    hopeless = {row for row in np.flatnonzero(~case.ran).tolist() if not alone.runs(row)}
    later: dict[int, list[int]] = {}
    for row, before in zip(np.repeat(np.arange(len(jobs)), np.diff(jobs.after.first)), jobs.after.items, strict=True):
        later.setdefault(int(before), []).append(int(row))
    out = _with_followers(hopeless, later)
    queues: dict[tuple[str, str], _Queue] = {}
    for row in np.lexsort((np.arange(len(jobs)), jobs.submit)).tolist():
        if row in out or over[row] == -NEVER:
            continue
        mine = []
        for limit in limits:
            if (whose := members.account(limit, row)) is not None:
                mine.append(queues.setdefault((limit.name, whose), _Queue()))
                full[row] |= mine[-1].count(int(jobs.submit[row])) >= (limit.queued_jobs or 0)
        if full[row] and not case.ran[row]:
            new = _with_followers({row}, later) - out
            out |= new
            for queue in queues.values() if len(new) > 1 else ():
                queue.leave(new)
        else:
            # A job that starts and ends at this very instant does so after the submits.
            stays = ties == "step" or case.start[row] == over[row]
            for queue in mine:
                queue.join(row, int(over[row]), bool(stays))
    return full


class _Queue:
    """The jobs that one limit counts, until they end."""

    def __init__(self) -> None:
        self._ends: list[tuple[int, bool, int]] = []  # a heap: (end, whether it counts at its end, row)
        self._rows: set[int] = set()

    def join(self, row: int, over: int, stays: bool) -> None:
        """Add a job that counts until its end; stays: including that instant."""
        heapq.heappush(self._ends, (over, stays, row))
        self._rows.add(row)

    def leave(self, rows: set[int]) -> None:
        """Remove jobs that will never run."""
        self._rows -= rows

    def count(self, now: int) -> int:
        """Return the number of jobs that count at this instant; instants must not decrease."""
        while self._ends and (self._ends[0][0] < now or (self._ends[0][0] == now and not self._ends[0][1])):
            self._rows.discard(heapq.heappop(self._ends)[2])
        return len(self._rows)


def _with_followers(rows: set[int], later: dict[int, list[int]]) -> set[int]:
    reached, new = set(rows), list(rows)
    while new:
        new = [follower for row in new for follower in later.get(row, ()) if follower not in reached]
        reached |= {*new}
    return reached


def check_moments(case: Case, until: Ints, members: Membership) -> None:
    """Check that jobs with a run of length 0, which holds nothing at any instant, would have been able to run."""
    jobs, runs = case.workload.jobs, case.runs
    moments = (until == runs.start) & case.ran[runs.job]
    if not moments.any():
        return
    alone = _Alone(case.workload, _all_there_is(case), members)
    moments[moments] = [not alone.runs(row) for row in runs.job[moments].tolist()]
    for i in case.report.each("capacity", moments):
        job, start = jobs.job[runs.job[i]], int(runs.start[i])
        case.report.add("capacity", job, start, "could not run even if it had the whole platform to itself")


def _all_there_is(case: Case) -> Platform:
    """Return the platform with the largest capacity that events give it."""
    if case.outages is None:
        return case.platform
    return replace(case.platform, capacity=case.outages.most, copies=case.outages.most_copies)


def check_pending(case: Case, members: Membership, held: Mask) -> None:
    """Check that at least one pending job lacks capacity that events removed for good; others may wait behind it.

    held: the jobs that a limit on minutes keeps from starting.
    """
    waits = case.pending & ~held
    pending, replay = np.flatnonzero(waits), cast(Replay, case.replay)
    if not len(pending):
        return
    capacity = np.array([steps[-1][1] for steps in replay.nodes])
    copies = np.array([int(steps[-1][1][0]) for steps in replay.licences], np.int64)
    closed = np.array([steps[-1][1] for steps in replay.closed], np.bool_)
    alone = _Alone(case.workload, replace(case.platform, capacity=capacity, copies=copies), members, closed)
    all_fit = all(alone.runs(row) for row in pending.tolist())
    for row in case.report.each("pending", waits & all_fit):
        case.report.add("pending", case.workload.jobs.job[row], None, "is PENDING, although there is room for it")


def _too_late(case: Case, stays: Mask, alone: "_Alone") -> Mask:
    """Return the mask of jobs that were cancelled after they had been rejected because they can never run."""
    late = ~case.ran & ~stays & (case.cancelled > case.workload.jobs.submit) & (case.line >= 0)
    rows = np.flatnonzero(late).tolist()
    late[rows] = [not alone.runs(row) for row in rows]
    return late


class _Alone:
    """Decides whether a job could run if it had the platform to itself; equal demands are computed once."""

    def __init__(self, workload: Workload, platform: Platform, members: Membership, closed: Mask | None = None) -> None:
        """members: of the workload as submitted; here, jobs on whole nodes may request all of these. closed: nodes
        on which no job can run, not even one without a demand; None for none.
        """
        self.closed = np.zeros(len(platform.nodes), np.bool_) if closed is None else closed
        self.jobs, self.platform, self.members = workload.jobs, platform, members
        _, self.demand, self.capacity = limited(workload, platform)
        self.licence = licence_index(workload, platform)
        self.known: dict[tuple[bytes, bytes, int, int, str, str, str | None], bool] = {}

    def runs(self, row: int) -> bool:
        """Return whether the job in this row could run alone."""
        jobs, demand = self.jobs, self.demand[row]
        if self.members.breaks(row):
            return False
        items = slice(jobs.licences.first[row], jobs.licences.first[row + 1])
        copies_asked = np.stack([self.licence[jobs.licences.items[items]], jobs.licences.counts[items]])
        bound = (jobs.site[row], jobs.constraint[row], self.members.name(row))
        key = (demand.tobytes(), copies_asked.tobytes(), int(jobs.tasks[row]), int(jobs.spread[row]), *bound)
        if key not in self.known:
            self.known[key] = self._work_out(demand, copies_asked, self.members.nodes(row), *key[2:6])
        return self.known[key]

    def _work_out(
        self, demand: Ints, copies_asked: Ints, nodes: Mask, tasks: int, spread: int, site: str, constraint: str
    ) -> bool:
        platform = self.platform
        licence, copies = copies_asked
        if (licence < 0).any() or (copies > platform.copies[licence]).any():
            return False
        needed = demand > 0
        room = (self.capacity[:, needed] // demand[needed]).min(axis=1, initial=tasks)
        room[~platform.hosts[:, licence].all(axis=1)] = 0
        room[~nodes | self.closed] = 0
        if site:
            room[[platform.sites[s] != site for s in platform.site]] = 0
        if constraint:
            room[~np.array(meets(platform, constraint))] = 0
        if SPREAD[spread] == "distinct":
            return int((room > 0).sum()) >= tasks
        if SPREAD[spread] == "node":
            return bool(room.max() >= tasks)
        if SPREAD[spread] == "site":
            return bool(np.bincount(platform.site, room).max() >= tasks)
        return bool(room.sum() >= tasks)
