"""The metrics of a schedule that comes in parts, without keeping any of them."""

import math
from collections import Counter

import numpy as np
from numpy.typing import NDArray

from backfill.analysis.metrics import Counted, Metrics, most_waiting, over
from backfill.analysis.sketch import Sketch
from backfill.model.schedule import (
    BACKFILL,
    CANCELLED,
    NO_TIME,
    NODE_FAIL,
    PENDING,
    PREEMPTED,
    REJECTED,
    TIMEOUT,
    Schedule,
)
from backfill.model.units import NEVER, SECOND
from backfill.model.workload import Floats, Ints, total

QUANTILES = {"median_wait_s": 0.5, "p95_wait_s": 0.95}


class Totals:
    """Sums and counts over all parts so far, named as in `metrics`.

    Sums of times are exact. Medians and percentiles are within 0.1 % (see sketch.py). Metrics that need all jobs side
    by side, such as `max_queue`, are left out.
    """

    def __init__(self, dead: int = 0) -> None:
        """Start without jobs. dead: time in microseconds that each run holds its nodes beyond its run time."""
        self._dead, self._waits = dead, Sketch()
        self._jobs = self._long = self._wait = self._response = self._held = self._requeues = 0
        self._first: int | None = None
        self._last = 0
        self._slowdown, self._bounded, self._cpu_time, self._lost = (0.0,) * 4
        self._states: Counter[int] = Counter()
        self._backfilled = self._most_waiting = 0
        self._several = False
        self.causes: Counter[str] = Counter()  # of rejected jobs

    def add(self, schedule: Schedule, procs: Ints, there: NDArray[np.bool_], goes_on: Schedule | None = None) -> None:
        """Count the jobs of a part.

        procs: the processors of each; there: which are not left out. goes_on: the jobs that are not over, without those
        that are left out.
        """
        state = schedule.state
        rows, finished = np.flatnonzero(there & schedule.ran), np.flatnonzero(there & schedule.finished)
        counted, ran = (
            Counted.without_workload(some, schedule, schedule.submit, self._dead) for some in (finished, rows)
        )
        self._waits.add(counted.wait)
        self._jobs += len(counted)
        self._wait += total(counted.wait)
        self._response += total(counted.response)
        run, response = counted.run, counted.response.astype(np.float64)
        long = run > 0
        self._long += int(long.sum())
        self._slowdown = _sum(self._slowdown, response[long] / run[long])
        self._bounded = _sum(self._bounded, counted.bounded_slowdown)
        self._held += total(ran.held)
        self._cpu_time = _sum(self._cpu_time, ran.held.astype(np.float64) * procs[rows])
        if len(rows):
            first = int(ran.submit.min())
            self._first = first if self._first is None else min(self._first, first)
            self._last = max(self._last, int(ran.end.max()))
        begin, end = ran.waits
        if goes_on is not None:
            more = _waits(goes_on)
            begin, end = np.append(begin, more[0]), np.append(end, more[1])
        self._most_waiting = max(self._most_waiting, most_waiting(begin, end))
        self._states.update(state[there].tolist())
        self._backfilled += int((schedule.reason[finished] == BACKFILL).sum())
        self.causes.update(cause for cause in schedule.rejected_for.tolist() if cause)
        if schedule.runs is not None:
            runs = schedule.runs_of(rows)
            self._several |= bool((runs.number > 1).any())
            self._lost = _sum(self._lost, runs.lost.astype(np.float64) * procs[rows][runs.job])
            self._requeues += int(((runs.state == NODE_FAIL) | (runs.state == PREEMPTED)).sum())

    def metrics(self, cpus: int) -> Metrics:
        """Return the metrics of all jobs so far on a platform of this many cpus."""
        count, states = self._jobs, self._states
        makespan = 0 if self._first is None else self._last - self._first
        greatest = self._waits.greatest if count else None
        numbers: Metrics = {
            "jobs": count,
            "mean_wait_s": over(self._wait, count * SECOND),
            **{name: over(self._waits.quantile(share), SECOND) for name, share in QUANTILES.items()},
            "max_wait_s": over(greatest, SECOND),
            "mean_response_s": over(self._response, count * SECOND),
            "mean_slowdown": over(self._slowdown, self._long),
            "mean_bounded_slowdown": over(self._bounded, count),
            "utilization": over(self._cpu_time, cpus * makespan),
            "makespan_s": None if self._first is None else makespan / SECOND,
            "throughput_jobs_per_h": over(count * 3600 * SECOND, makespan),
            "mean_running_jobs": over(self._held, makespan),
            **({} if states[PENDING] else {"max_queue": self._most_waiting}),
            "backfilled_jobs": self._backfilled,
            "killed_jobs": states[TIMEOUT],
            "rejected_jobs": states[REJECTED],
        }
        cancelled, failed, pending = states[CANCELLED], states[NODE_FAIL], states[PENDING]
        if self._several or cancelled or failed or pending:
            numbers |= {
                "lost_cpu_hours": self._lost / (3600 * SECOND),
                "requeues": self._requeues - failed,
                "cancelled_jobs": cancelled,
                "failed_jobs": failed,
                "pending_jobs": pending,
            }
        return numbers


def _waits(schedule: Schedule) -> tuple[Ints, Ints]:
    """Return begin and end of the waits so far of jobs that are not over; NEVER for the end of one that goes on."""
    begun = np.flatnonzero(schedule.ran)
    begin, end = Counted.without_workload(begun, schedule, schedule.submit).waits
    waiting = np.flatnonzero(~schedule.ran | (schedule.end != NO_TIME))
    since = np.maximum(schedule.submit, schedule.eligible)[waiting]
    since = np.where(schedule.ran[waiting], schedule.end[waiting], since)
    return np.append(begin, since), np.append(end, np.full(len(waiting), NEVER))


def _sum(before: float, more: Floats) -> float:
    return math.fsum(np.append(more, before).tolist())
