"""What the page shows of each policy: its schedule as lines over time and as distributions."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from backfill.analysis.metrics import TAU, Metrics
from backfill.analysis.series import Binned, held_cpus, jobs_inside, waiting_jobs, window
from backfill.model.platform import Platform
from backfill.model.schedule import Schedule
from backfill.model.units import SECOND
from backfill.model.workload import Floats, Workload

BINS = 100  # points of a line; with more of them lines that cross hide each other
QUANTILES = (50, 90, 95, 99)  # percent


@dataclass(frozen=True, eq=False, slots=True)
class Shown:
    """What the page shows of one policy's schedule."""

    policy: str
    metrics: Metrics
    cpus: int  # of the platform
    held: Binned  # processors held over time
    queue: Binned  # jobs waiting over time
    inside: Binned  # jobs waiting or running over time
    waits: Floats  # of the jobs that ran, sorted, seconds
    slowdowns: Floats  # bounded, sorted
    schedule: Schedule | None = None  # for the chart of jobs

    @classmethod
    def of(
        cls,
        policy: str,
        metrics: Metrics,
        workload: Workload,
        platform: Platform,
        schedule: Schedule,
        span: tuple[int, int] | None = None,
    ) -> "Shown":
        """Of a schedule of `workload` on `platform`, and its metrics; over the time that it took, or over `span`."""
        begin, end = span or window(schedule)
        ran = schedule.ran
        eligible = np.maximum(schedule.eligible[ran], schedule.submit[ran])
        wait, held = schedule.start[ran] - eligible, schedule.end[ran] - schedule.start[ran]
        return cls(
            policy,
            metrics,
            platform.cpus,
            held_cpus(workload, schedule).binned(begin, end, BINS),
            waiting_jobs(schedule).binned(begin, end, BINS),
            jobs_inside(schedule).binned(begin, end, BINS),
            np.sort(wait / SECOND),
            np.sort(np.maximum(1.0, (wait + held) / np.maximum(held, TAU))),
            schedule,
        )


def quantiles(values: Floats) -> list[float | None]:
    """The QUANTILES of sorted values and the greatest, as the metrics compute theirs."""
    if not len(values):
        return [None] * (len(QUANTILES) + 1)
    return [*np.percentile(values, QUANTILES).tolist(), float(values[-1])]


def longest(results: Sequence[Shown]) -> int:
    """The time that the lines span, in microseconds."""
    return max((int(r.held.edges[-1] - r.held.edges[0]) for r in results if len(r.held.mean)), default=0)
