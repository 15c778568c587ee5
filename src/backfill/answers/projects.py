"""The departures of projects: latest time, if the policy promises it, median, and 90 % bound over possible futures."""

from collections.abc import Sequence

import numpy as np

from backfill.answers.asked import Queue
from backfill.answers.whatif import Tried, estimates_of, likely, tried
from backfill.core.plan.promises import NO_TIME
from backfill.model.units import seconds
from backfill.model.workload import Ints
from backfill.queue.departures import departure
from backfill.queue.job import Job
from backfill.queue.shapes import Estimate, ProjectDeparture, Row
from backfill.queue.states import PENDING


class TriedProject(Tried):
    """The answer about a project that has not been submitted."""

    departure: ProjectDeparture


def project(queue: Queue, numbers: Sequence[int]) -> tuple[list[Estimate], ProjectDeparture]:
    """Return the estimates of the pending jobs among a project's open jobs, and the project's departure."""
    some = [queue.jobs[number] for number in numbers if number in queue.jobs]
    pending = [job for job in some if job.state == PENDING]
    starts = queue.futures(pending)
    return estimates_of(queue, pending, starts), departs(queue, some, starts)


def test_project(queue: Queue, tasks: list[Row]) -> TriedProject:
    """Return when the jobs of a project would start if it were submitted now, and when it would depart."""
    answer, some, starts = tried(queue, tasks)
    return {**answer, "departure": departs(queue, some, starts)}


def departs(queue: Queue, some: Sequence[Job], starts: Ints) -> ProjectDeparture:
    """Return when the last of these jobs ends. starts: of pending jobs in possible futures, see Queue.futures."""
    planner = queue.planner
    answer: ProjectDeparture = {"departs": planner.departs, "promised_s": None, "left": len(some),
                              "median_s": None, "p90_s": None, "why_not": ""}  # fmt: skip
    promised = None
    if planner.departs:
        plan = {job.id: t for job in some if job.waits and (t := queue.reserved(job.id)) is not None}
        ends, answer["left"] = departure(some, plan)
        promised = max(ends.values(), default=None)
        answer["promised_s"] = seconds(promised)
    last = np.full(len(starts), queue.now)
    for job in some:
        row = planner.rows[job.id]
        begin = starts[:, row] if job.state == PENDING else np.full(len(starts), job.start)
        end = np.where(begin == NO_TIME, NO_TIME, begin + queue.runtimes[: len(starts), row])
        last = np.where((last == NO_TIME) | (end == NO_TIME), NO_TIME, np.maximum(last, end))
    found = likely(queue, last)
    if found is None:
        held = any(job.held or job.never for job in some)
        return {**answer, "why_not": "held" if held else "far"}
    median, p90 = found
    if promised is not None and not answer["left"] and queue.binds:
        median, p90 = min(median, promised), min(p90, promised)
    return {**answer, "median_s": seconds(median), "p90_s": seconds(max(median, p90))}
