"""The metrics of one schedule, named as in `simulate --json`."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from backfill.analysis.farm import farm_metrics
from backfill.analysis.gangs import gang_metrics
from backfill.analysis.projects import project_metrics
from backfill.analysis.resources import resource_metrics
from backfill.analysis.series import idle_while_waiting
from backfill.model.errors import BadArgument
from backfill.model.names import did_you_mean
from backfill.model.platform import Platform
from backfill.model.schedule import (
    BACKFILL,
    CANCELLED,
    NODE_FAIL,
    PENDING,
    PREEMPTED,
    REJECTED,
    TIMEOUT,
    Runs,
    Schedule,
)
from backfill.model.units import SECOND, parse_span, seconds_text
from backfill.model.workload import Floats, Ints, Workload, total

Metrics = dict[str, float | int | None]


class Named(Metrics):
    """Metrics by name; one that is not there is answered with the nearest name."""

    def __missing__(self, name: str) -> NoReturn:
        """Raise KeyError."""
        raise KeyError(f"no metric {name!r}; {did_you_mean(name, self)}")


TAU = 10 * SECOND  # minimum run time in the bounded slowdown


@dataclass(frozen=True, slots=True)
class Trim:
    """The part at one end of a log that metrics leave out: a number of jobs, and a span of submit times."""

    jobs: int = 0
    span: int = 0  # microseconds

    @classmethod
    def parse(cls, text: str, argument: str = "trim") -> "Trim":
        """Parse `N`, a whole number of jobs, or a span with a unit or colon: `200`, `2d`, `12:00:00`.

        argument: its name in messages, `warmup` or `cooldown`. Raises UsageError.
        """
        try:
            if re.fullmatch(r"[0-9]+", text.strip()):
                return cls(jobs=int(text))
            if not re.search("[a-z:]", text, re.IGNORECASE):
                raise ValueError
            return cls(span=parse_span(text))
        except ValueError:
            expected = "a number of jobs or a span of time, for instance 200 or 2d"
            raise BadArgument(argument, text, expected) from None

    def __str__(self) -> str:
        return f"{seconds_text(self.span)}s" if self.span else str(self.jobs)


NOTHING = Trim()


def kept(submit: Ints, warmup: Trim, cooldown: Trim) -> NDArray[np.bool_]:
    """Return the mask of jobs outside warm-up and cool-down, by submit time, ties in file order."""
    counts = np.ones(len(submit), np.bool_)
    if len(submit):
        order = np.argsort(submit, kind="stable")
        counts[order[: warmup.jobs]] = False
        counts[order[max(0, len(submit) - cooldown.jobs) :]] = False
        counts &= (submit >= submit.min() + warmup.span) & (submit <= submit.max() - cooldown.span)
    return counts


@dataclass(frozen=True, eq=False, slots=True)
class Counted:
    """The jobs whose waits count in the metrics of a schedule, and their outcomes; times in microseconds.

    Every array has shape (counted jobs,) and is in file order.
    """

    rows: Ints  # of the workload
    submit: Ints
    eligible: Ints
    start: Ints  # of the last run
    end: Ints  # of the last run
    runs: Runs | None = None  # if some job ran more than once; their `job` is the index here
    dead: int = 0  # held beyond the run time by each last run

    @classmethod
    def of(cls, workload: Workload, schedule: Schedule, warmup: Trim = NOTHING, cooldown: Trim = NOTHING) -> "Counted":
        """Return the jobs that ran to their end or walltime, outside warm-up and cool-down."""
        there = kept(workload.jobs.submit, warmup, cooldown)
        return cls.at(np.flatnonzero(there & schedule.finished), workload, schedule)

    @classmethod
    def at(cls, rows: Ints, workload: Workload, schedule: Schedule) -> "Counted":
        """Return the values of these jobs, all of which ran."""
        return cls.without_workload(rows, schedule, workload.jobs.submit, workload.dead_time)

    @classmethod
    def without_workload(cls, rows: Ints, schedule: Schedule, submit: Ints, dead: int = 0) -> "Counted":
        """Return the same without a workload. submit: of all jobs; dead: its dead time."""
        submit, runs = submit[rows], None if schedule.runs is None else schedule.runs_of(rows)
        eligible = np.maximum(submit, schedule.eligible[rows])
        return cls(rows, submit, eligible, schedule.start[rows], schedule.end[rows], runs, dead)

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, places: Ints) -> "Counted":
        """Return the jobs at these indices, in this order."""
        times = (self.submit[places], self.eligible[places], self.start[places], self.end[places])
        return Counted(self.rows[places], *times, None if self.runs is None else self.runs.of_jobs(places), self.dead)

    @property
    def wait(self) -> Ints:
        """The time eligible and not held, which is start - eligible for a job with one run."""
        return self.start - self.eligible if self.runs is None else self.end - self.eligible - self.held

    @property
    def held(self) -> Ints:
        """The time that each job held its nodes, over all of its runs."""
        return self.end - self.start if self.runs is None else self.runs.total(self.runs.length, len(self))

    @property
    def occupied(self) -> Ints | Floats:
        """The time that each job had its processors: `held`, or its turns if it shares them."""
        if self.runs is None or self.runs.turns is None:
            return self.held
        return np.bincount(self.runs.job, self.runs.occupied, len(self))

    @property
    def run(self) -> Ints:
        """The time that each job really ran: `held` without lost work and dead time."""
        ran = self.held if self.runs is None else self.runs.total(self.runs.progress, len(self))
        return np.maximum(ran - self.dead, 0) if self.dead else ran

    @property
    def response(self) -> Ints:
        """The response time, last end - eligible; the dead time follows that end."""
        return self.end - self.eligible - self.dead

    @property
    def bounded_slowdown(self) -> Floats:
        """The bounded slowdown, max(1, response / max(run, 10 s))."""
        return np.maximum(1.0, self.response.astype(np.float64) / np.maximum(self.run, TAU))

    @property
    def waits(self) -> tuple[Ints, Ints]:
        """The begin and end of each waiting interval; a job with several runs waited before each."""
        if self.runs is None:
            return self.eligible, self.start
        return self.runs.since(self.eligible), self.runs.start


def in_common(counted: Sequence[Counted]) -> list[Counted]:
    """Return the same jobs of each schedule: those that count in all of them."""
    if not counted or all(np.array_equal(each.rows, counted[0].rows) for each in counted):
        return list(counted)
    rows = reduce(np.intersect1d, [each.rows for each in counted])
    return [each.take(np.searchsorted(each.rows, rows)) for each in counted]


def metrics(
    workload: Workload, platform: Platform, schedule: Schedule, *, warmup: Trim = NOTHING, cooldown: Trim = NOTHING
) -> Metrics:
    """Return every metric of one schedule; None if undefined, as for an empty workload, and never NaN.

    warmup, cooldown: the jobs submitted first and last, which all metrics leave out as if the table did not
    contain them; the run itself includes them.

    response = last end - max(submit, eligible); wait = the part of it in which the job did not run, which is start -
    max(submit, eligible) of a job that ran once; run = the time that it ran, without what was lost and had to be run
    again; response and run exclude the workload's dead time, during which nodes are held;
    slowdown = response / run, undefined for a run of zero length, so `mean_slowdown` leaves such jobs out;
    bounded slowdown = max(1, response / max(run, 10 s)). Percentiles are interpolated linearly.

    `jobs`, waits, responses, slowdowns and throughput cover the jobs that ran to their end or their walltime.
    Jobs that were cancelled, or failed with their node, while they ran also held the machine: they count in
    utilization, makespan, mean_running_jobs and max_queue. Rejected jobs and those cancelled before they started count
    only in `rejected_jobs` and `cancelled_jobs`, and those that never start only in `pending_jobs`.
    makespan = last end - first submit, of the jobs that ran; utilization = cpu time held over all runs (of runs that
    share processors: their turns) / (cpus x makespan), cpus being those of the platform as described.

    If jobs hold several resources, those of `resource_metrics` are added; with deadlines or licences, those of
    `farm_metrics`; with projects, those of `project_metrics`; if the schedule states runs, or a job was cancelled
    or failed, those of `event_metrics`; if jobs are bound to sites, those of `gang_metrics`.

    Waits are summed exactly as integers and ratios with `math.fsum`, so every machine gives the same bytes.
    Source of bounded slowdown: Feitelson, Rudolph, Schwiegelshohn, Sevcik and Wong 1997 (JSSPP).
    """
    there = kept(workload.jobs.submit, warmup, cooldown)
    counted = Counted.at(np.flatnonzero(there & schedule.finished), workload, schedule)
    rows = np.flatnonzero(there & schedule.ran)  # all that held the machine
    ran = counted if len(rows) == len(counted) else Counted.at(rows, workload, schedule)
    count, wait, run = len(counted), counted.wait, counted.run
    held = run if ran is counted and counted.runs is None and not counted.dead else ran.held
    response = counted.response.astype(np.float64)
    long = run > 0
    makespan = int(ran.end.max() - ran.submit.min()) if len(rows) else 0
    # Floats, because cpus x time may exceed 2^63; fsum rounds once, so their order does not matter.
    procs = workload.jobs.tasks[rows].astype(np.float64) * workload.jobs.demand[rows, 0]
    cpu_time = _sum((held if held is run else ran.occupied) * procs)
    median, p95 = np.percentile(wait, [50, 95]).tolist() if count else (None, None)
    numbers: Metrics = {
        "jobs": count,
        "mean_wait_s": over(total(wait), count * SECOND),
        "median_wait_s": over(median, SECOND),
        "p95_wait_s": over(p95, SECOND),
        "max_wait_s": over(int(wait.max()) if count else None, SECOND),
        "mean_response_s": over(total(counted.response), count * SECOND),
        "mean_slowdown": _mean(response[long] / run[long]),
        "mean_bounded_slowdown": _mean(counted.bounded_slowdown),
        "utilization": over(cpu_time, platform.cpus * makespan),
        "makespan_s": over(makespan if len(rows) else None, SECOND),
        "throughput_jobs_per_h": over(count * 3600 * SECOND, makespan),
        "mean_running_jobs": over(total(held), makespan),
        "max_queue": most_waiting(*ran.waits),
        "backfilled_jobs": int((schedule.reason[counted.rows] == BACKFILL).sum()),
        "killed_jobs": int((schedule.state[counted.rows] == TIMEOUT).sum()),
        "rejected_jobs": int((there & (schedule.state == REJECTED)).sum()),
        **event_metrics(workload, schedule, there, rows, procs),
        **resource_metrics(workload, platform, schedule, rows),
        **farm_metrics(workload, platform, schedule, rows),
        **_of_projects(workload, platform, schedule, counted, ran, procs),
        **gang_metrics(workload, platform, schedule, counted.rows, there),
    }
    return Named(numbers)


def _of_projects(
    workload: Workload, platform: Platform, schedule: Schedule, counted: Counted, ran: Counted, procs: Floats
) -> Metrics:
    """Return the metrics of projects, and the processor hours that were idle while jobs waited."""
    numbers = project_metrics(workload, schedule, counted.rows)
    if not numbers:
        return {}
    runs = schedule.runs_of(ran.rows)
    spans = runs.spans
    held = procs[runs.job].astype(np.int64) if runs.turns is None else procs[runs.job[spans.run]] * spans.share
    idle = idle_while_waiting(ran.waits, (spans.start, spans.end), held, platform.cpus)
    return {**numbers, "idle_while_waiting_cpu_hours": idle / (3600 * SECOND)}


def event_metrics(
    workload: Workload, schedule: Schedule, there: NDArray[np.bool_], rows: Ints, procs: Floats
) -> Metrics:
    """Return metrics of the cost of events and preemption; empty if there are no runs, and no job was cancelled or
    failed.

    there: the mask of jobs outside warm-up and cool-down; rows: those of them that ran, and their processors.

    lost_cpu_hours: processors x time of work that must be repeated: all of a run that was lost with a node,
    and the part of a preempted run that was not kept. dangling_cpu_hours: processors x time held by runs while
    they waited for predecessors, including lost runs; if positive. requeues: runs after which the job waited again.
    cancelled_jobs: by their users, before they started or while they ran. failed_jobs: those that ended with a node.
    pending_jobs: those that never start, because the capacity that they need never comes back.
    """
    cancelled, failed, pending = (
        int((there & (schedule.state == state)).sum()) for state in (CANCELLED, NODE_FAIL, PENDING)
    )
    if schedule.runs is None and not (cancelled or failed or pending):
        return {}
    runs = schedule.runs_of(rows)
    dangled = runs.dangled(schedule.ready(workload.jobs)[rows])
    held_only = _sum(dangled * procs[runs.job]) / (3600 * SECOND)
    return {
        "lost_cpu_hours": _sum((runs.lost - dangled) * procs[runs.job]) / (3600 * SECOND),
        **({"dangling_cpu_hours": held_only} if held_only else {}),
        "requeues": int(((runs.state == NODE_FAIL) | (runs.state == PREEMPTED)).sum()) - failed,
        "cancelled_jobs": cancelled,
        "failed_jobs": failed,
        "pending_jobs": pending,
    }


def most_waiting(eligible: Ints, start: Ints) -> int:
    """Return the greatest number of jobs waiting at one instant, each on [eligible, start)."""
    waited = start > eligible
    came, left = np.sort(eligible[waited]), np.sort(start[waited])
    waiting = np.arange(1, len(came) + 1) - np.searchsorted(left, came, side="right")
    return int(waiting.max(initial=0))


def _sum(values: Floats) -> float:
    return math.fsum(values.data)  # its items are Python's floats, which takes half the time of numpy's


def _mean(values: Floats) -> float | None:
    return over(_sum(values), len(values))


def over(amount: float | None, unit: float) -> float | None:
    """Return a quotient; None without an amount, and by zero."""
    return None if amount is None or not unit else amount / unit
