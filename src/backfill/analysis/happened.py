"""The events of a run, counted, and their effects on its jobs."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from backfill.analysis.metrics import Metrics
from backfill.model.events import CANCEL, CAPACITY, DOWN, PRIORITY, RESERVE, WALLTIME, WINDOW, BoundEvents
from backfill.model.platform import Platform
from backfill.model.schedule import CANCELLED, COMPLETED, NO_TIME, NODE_FAIL, PENDING, REJECTED, TIMEOUT, Schedule
from backfill.model.units import counted
from backfill.model.workload import Workload

_NAMES = {
    DOWN: "outage",
    WINDOW: "window",
    RESERVE: "reservation",
    CAPACITY: "capacity change",
    WALLTIME: "walltime change",
    PRIORITY: "priority change",
}


@dataclass(frozen=True, eq=False, slots=True)
class Happened:
    """The events of one run, counted, and their cost."""

    counts: dict[str, int]  # event -> count
    lost: int  # runs lost with their allocation
    cost: Metrics  # of `event_metrics`
    skipped: int  # events of jobs that were dropped from the workload
    too_late: int  # events of jobs that had already ended
    after_all: int  # events after the last job
    bound_breaks: bool  # whether a schedule may be better than the platform and the log allow

    @classmethod
    def of(
        cls,
        events: BoundEvents,
        workload: Workload,
        platform: Platform,
        schedule: Schedule,
        cost: Metrics,
        given: int,
    ) -> "Happened":
        """Count the events of a run and their effects. given: the number of events in the file."""
        leaving = workload.chosen.get("cancelled") == "leave"
        own = int((workload.never_ran & (workload.jobs.waited >= 0)).sum()) if leaving else 0
        counts = {name: int((events.kind == kind).sum()) for kind, name in _NAMES.items()}
        counts["cancelled job"] = int(cost.get("cancelled_jobs") or 0)
        after_all = _after_all(events, schedule)
        late = _too_late(events, schedule) & ~after_all
        if leaving:  # which normally start in time
            usual = (events.kind == CANCEL) & workload.never_ran[events.job]
            late, after_all = late & ~usual, after_all & ~usual
        capacity, copies = events.greatest(platform)
        raised = (capacity > platform.capacity).any() or (copies > platform.copies).any()
        breaks = bool(raised or (events.kind == WALLTIME).any())
        lost = int((schedule.all_runs.state == NODE_FAIL).sum())
        return cls(counts, lost, cost, given + own - len(events), int(late.sum()), int(after_all.sum()), breaks)

    @property
    def sentence(self) -> str:
        """Summarize: `2 outages, 1 window; 12 runs lost (340 cpu hours), 12 requeued`."""
        events = [counted(count, name) for name, count in self.counts.items() if count]
        requeues, failed, pending = (int(self.cost.get(n) or 0) for n in ("requeues", "failed_jobs", "pending_jobs"))
        hours = self.cost.get("lost_cpu_hours") or 0
        effects = (
            [f"{counted(self.lost, 'run')} lost ({hours:{',.0f' if hours >= 100 else '.3g'}} cpu hours)"]
            if self.lost
            else []
        )
        effects += [f"{requeues:,} requeued"] if requeues else []
        effects += [f"{counted(failed, 'job')} failed"] if failed else []
        effects += [f"{counted(pending, 'job')} never started"] if pending else []
        return f"{', '.join(events) or 'no event'}; {', '.join(effects) or 'no run lost'}"

    @property
    def notes(self) -> list[str]:
        """Notes on events without effect and on jobs that never started, one sentence each."""
        sentences = []
        if self.skipped:
            sentences.append(f"ignored {counted(self.skipped, 'event')} of jobs that are not part of this run")
        if self.too_late:
            sentences.append(f"{counted(self.too_late, 'event')} had no effect: their jobs had already ended")
        if self.after_all:
            sentences.append(f"{counted(self.after_all, 'event')} had no effect: all jobs had already ended")
        if pending := int(self.cost.get("pending_jobs") or 0):
            need = "job never starts: events take away capacity that it needs"
            needs = "jobs never start: events take away capacity that they need"
            sentences.append(f"{pending:,} {need if pending == 1 else needs}")
        return sentences


def _too_late(events: BoundEvents, schedule: Schedule) -> NDArray[np.bool_]:
    """Return the mask of events whose job had already ended.

    At one instant, ends come first, but a run ended by an event is over only after that event.
    """
    late = np.zeros(len(events), np.bool_)
    rows = np.flatnonzero(events.job >= 0)
    job, time = events.job[rows], events.time[rows]
    state, start, end = schedule.state[job], schedule.start[job], schedule.end[job]
    late[rows] = np.where(
        np.isin(state, (COMPLETED, TIMEOUT)),
        (time > end) | ((time == end) & (start < end) & ((state == COMPLETED) | (events.kind[rows] != WALLTIME))),
        np.where(state == NODE_FAIL, time > end, (state == REJECTED) & (time >= schedule.submit[job])),
    )
    for each in np.unique(job[state == CANCELLED]).tolist():
        own = rows[job == each]
        cancels = own[events.kind[own] == CANCEL]  # none if it was cancelled with its reservation
        late[own[own > cancels.min(initial=len(events))]] = True
    return late


def _after_all(events: BoundEvents, schedule: Schedule) -> NDArray[np.bool_]:
    """Return the events, or begins of windows, after the last submit, end and cancelled job."""
    if (schedule.state == PENDING).any():
        return np.zeros(len(events), np.bool_)
    gone = np.flatnonzero((schedule.state == CANCELLED) & ~schedule.ran)
    left = events.time[(events.kind == CANCEL) & np.isin(events.job, gone)]
    last = np.concatenate([schedule.submit, schedule.end, left]).max(initial=NO_TIME)
    begin = np.where(np.isin(events.kind, (WINDOW, RESERVE)), np.maximum(events.time, events.value), events.time)
    after: NDArray[np.bool_] = begin > last
    return after
