"""The numbers that describe one schedule, by the names of `simulate --json`."""

import math
import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from backfill.analysis.farm import farm_metrics
from backfill.analysis.resources import resource_metrics
from backfill.model.errors import BadArgument
from backfill.model.platform import Platform
from backfill.model.schedule import BACKFILL, REJECTED, TIMEOUT, Schedule
from backfill.model.units import SECOND, parse_span, seconds_text
from backfill.model.workload import Floats, Ints, Workload, total

Metrics = dict[str, float | int | None]

TAU = 10 * SECOND  # bounded slowdown counts a shorter run as one of this length


@dataclass(frozen=True, slots=True)
class Trim:
    """How much of one side of a run stays out of its metrics: that many jobs, and a span of submit times."""

    jobs: int = 0
    span: int = 0  # microseconds

    @classmethod
    def parse(cls, text: str, argument: str = "trim") -> "Trim":
        """`N`, a whole number of jobs, or a span with a unit or a colon: `200`, `2d`, `12:00:00`. Raises UsageError.

        argument: what a message calls it, `warmup` or `cooldown`.
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
    """Which jobs count, by submit time; equal ones in file order."""
    counts = np.ones(len(submit), np.bool_)
    if len(submit):
        order = np.argsort(submit, kind="stable")
        counts[order[: warmup.jobs]] = False
        counts[order[max(0, len(submit) - cooldown.jobs) :]] = False
        counts &= (submit >= submit.min() + warmup.span) & (submit <= submit.max() - cooldown.span)
    return counts


@dataclass(frozen=True, eq=False, slots=True)
class Counted:
    """The jobs that count in the metrics of a schedule, and what became of each; times in microseconds.

    Every array has shape (counted jobs,) and is in file order.
    """

    rows: Ints  # of the workload
    submit: Ints
    eligible: Ints
    start: Ints
    end: Ints

    @classmethod
    def of(cls, workload: Workload, schedule: Schedule, warmup: Trim = NOTHING, cooldown: Trim = NOTHING) -> "Counted":
        """Those that ran, without the first and last that are left out."""
        submit = workload.jobs.submit
        rows = np.flatnonzero(kept(submit, warmup, cooldown) & schedule.ran)
        eligible = np.maximum(submit[rows], schedule.eligible[rows])
        return cls(rows, submit[rows], eligible, schedule.start[rows], schedule.end[rows])

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def wait(self) -> Ints:
        """Start - eligible."""
        return self.start - self.eligible

    @property
    def held(self) -> Ints:
        """The time that the job really ran."""
        return self.end - self.start

    @property
    def response(self) -> Ints:
        """Wait + run."""
        return self.end - self.eligible

    @property
    def bounded_slowdown(self) -> Floats:
        """max(1, response / max(run, 10 s))."""
        return np.maximum(1.0, self.response.astype(np.float64) / np.maximum(self.held, TAU))


def metrics(
    workload: Workload, platform: Platform, schedule: Schedule, *, warmup: Trim = NOTHING, cooldown: Trim = NOTHING
) -> Metrics:
    """Every metric of one schedule; None where it is not defined, as for an empty workload, and never NaN.

    warmup, cooldown: the jobs submitted first and last that are left out, of every metric, as if the table did not
    have them; the run itself is not touched.

    wait = start - max(submit, eligible); run = end - start, the time really held; response = wait + run; slowdown =
    response / run, not defined for a run of zero length, so `mean_slowdown` leaves such jobs out; bounded slowdown =
    max(1, response / max(run, 10 s)). Percentiles are interpolated linearly. Rejected jobs count in `rejected_jobs`
    only. makespan = last end - first submit, of the jobs that ran; utilization = cpu time held / (cpus x makespan).

    Where jobs hold several resources, those of `resource_metrics` are added; where there are deadlines or licences,
    those of `farm_metrics`.

    Waits are summed exactly as integers and ratios with `math.fsum`, so every machine gives the same bytes.
    Source of bounded slowdown: Feitelson, Rudolph, Schwiegelshohn, Sevcik and Wong 1997 (JSSPP).
    """
    counted = Counted.of(workload, schedule, warmup, cooldown)
    ran, count, wait, held = counted.rows, len(counted), counted.wait, counted.held
    response = counted.response.astype(np.float64)
    long = held > 0
    makespan = int(counted.end.max() - counted.submit.min()) if count else 0
    rejected = kept(workload.jobs.submit, warmup, cooldown) & (schedule.state == REJECTED)
    # Floats, because cpus x time may pass 2^63; fsum rounds once, so their order does not matter.
    procs = workload.jobs.tasks[ran].astype(np.float64) * workload.jobs.demand[ran, 0]
    cpu_time = math.fsum(held * procs)
    median, p95 = np.percentile(wait, [50, 95]).tolist() if count else (None, None)
    return {
        "jobs": count,
        "mean_wait_s": _over(total(wait), count * SECOND),
        "median_wait_s": _over(median, SECOND),
        "p95_wait_s": _over(p95, SECOND),
        "max_wait_s": _over(int(wait.max()) if count else None, SECOND),
        "mean_response_s": _over(total(wait) + total(held), count * SECOND),
        "mean_slowdown": _mean(response[long] / held[long]),
        "mean_bounded_slowdown": _mean(counted.bounded_slowdown),
        "utilization": _over(cpu_time, platform.cpus * makespan),
        "makespan_s": _over(makespan if count else None, SECOND),
        "throughput_jobs_per_h": _over(count * 3600 * SECOND, makespan),
        "mean_running_jobs": _over(total(held), makespan),
        "max_queue": _most_waiting(counted.eligible, counted.start),
        "backfilled_jobs": int((schedule.reason[ran] == BACKFILL).sum()),
        "killed_jobs": int((schedule.state[ran] == TIMEOUT).sum()),
        "rejected_jobs": int(rejected.sum()),
        **resource_metrics(workload, platform, schedule, ran),
        **farm_metrics(workload, platform, ran, counted.submit, counted.start, counted.end),
    }


def _most_waiting(eligible: Ints, start: Ints) -> int:
    """The greatest number of jobs waiting at one instant, each on [eligible, start)."""
    waited = start > eligible
    came, left = np.sort(eligible[waited]), np.sort(start[waited])
    waiting = np.arange(1, len(came) + 1) - np.searchsorted(left, came, side="right")
    return int(waiting.max(initial=0))


def _mean(values: Floats) -> float | None:
    return _over(math.fsum(values), len(values))


def _over(amount: float | None, unit: float) -> float | None:
    return None if amount is None or not unit else amount / unit
