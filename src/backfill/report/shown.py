"""A schedule as lines over time and as distributions."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from backfill.analysis.metrics import Counted
from backfill.analysis.series import Binned, held_cpus, jobs_inside, waiting_jobs
from backfill.model.platform import Platform
from backfill.model.schedule import Schedule
from backfill.model.units import SECOND
from backfill.model.workload import Floats, Workload

BINS = 100  # points of a line; with more of them lines that cross hide each other
QUANTILES = (50, 90, 95, 99)  # percent


@dataclass(frozen=True, eq=False, slots=True)
class Shown:
    """What the page shows of one policy's schedule."""

    cpus: int  # of the platform
    held: Binned  # processors held over time
    queue: Binned  # jobs waiting over time
    inside: Binned  # jobs waiting or running over time
    waits: Floats  # of the jobs that count, sorted, seconds
    slowdowns: Floats  # bounded, sorted

    @classmethod
    def of(
        cls, workload: Workload, platform: Platform, schedule: Schedule, counted: Counted, span: tuple[int, int]
    ) -> "Shown":
        """Of a schedule; `counted` jobs are in the distributions, `span` is the time that the lines cover."""
        return cls(
            platform.cpus,
            held_cpus(workload, schedule).binned(*span, BINS),
            waiting_jobs(schedule).binned(*span, BINS),
            jobs_inside(schedule).binned(*span, BINS),
            np.sort(counted.wait / SECOND),
            np.sort(counted.bounded_slowdown),
        )


def quantiles(values: Floats) -> list[float | None]:
    """The QUANTILES of sorted values and the greatest, as the metrics compute theirs."""
    if not len(values):
        return [None] * (len(QUANTILES) + 1)
    return [*np.percentile(values, QUANTILES).tolist(), float(values[-1])]


def longest(results: Sequence[Shown]) -> int:
    """The time that the lines span, in microseconds."""
    return max((int(r.held.edges[-1] - r.held.edges[0]) for r in results if len(r.held.mean)), default=0)
