"""A schedule as lines over time and as distributions."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from backfill.analysis.farm import held_licence
from backfill.analysis.metrics import Counted
from backfill.analysis.series import Binned, Steps, held_cpus, jobs_inside, waiting_jobs
from backfill.model.platform import Platform
from backfill.model.schedule import Schedule
from backfill.model.units import SECOND
from backfill.model.workload import Floats, Workload
from backfill.report.rows import licence_lanes

BINS = 100  # points of a line; with more of them lines that cross hide each other
QUANTILES = (50, 90, 95, 99)  # percent


@dataclass(frozen=True, eq=False, slots=True)
class Licence:
    """The use of one licence under one policy."""

    name: str
    copies: int
    held: Binned  # copies over time
    all_held: float  # share of the time at which every copy is in use

    @classmethod
    def of(cls, name: str, copies: int, held: Steps, span: tuple[int, int]) -> "Licence":
        """Of the copies held, within the time that the lines cover."""
        times = np.clip(np.append(held.times, span[1]), *span)
        full = int(np.diff(times)[held.values >= max(copies, 1)].sum())
        return cls(name, copies, held.binned(*span, BINS), full / max(span[1] - span[0], 1))


@dataclass(frozen=True, eq=False, slots=True)
class Shown:
    """What the page shows of one policy's schedule."""

    cpus: int  # of the platform
    held: Binned  # processors held over time
    queue: Binned  # jobs waiting over time
    inside: Binned  # jobs waiting or running over time
    waits: Floats  # of the jobs that count, sorted, seconds
    slowdowns: Floats  # bounded, sorted
    licences: Sequence[Licence]  # those that jobs ask for

    @classmethod
    def of(
        cls, workload: Workload, platform: Platform, schedule: Schedule, counted: Counted, span: tuple[int, int]
    ) -> "Shown":
        """Of a schedule; `counted` jobs are in the distributions, `span` is the time that the lines cover."""
        ran = np.flatnonzero(schedule.ran)
        lanes = licence_lanes(workload, platform).tolist()
        licences = [
            Licence.of(
                name, copies, held_licence(workload, platform, ran, schedule.start[ran], schedule.end[ran], i), span
            )
            for i, (name, copies) in enumerate(platform.all_licences.items())
            if i in lanes
        ]
        return cls(
            platform.cpus,
            held_cpus(workload, schedule).binned(*span, BINS),
            waiting_jobs(schedule).binned(*span, BINS),
            jobs_inside(schedule).binned(*span, BINS),
            np.sort(counted.wait / SECOND),
            np.sort(counted.bounded_slowdown),
            licences,
        )


def quantiles(values: Floats) -> list[float | None]:
    """The QUANTILES of sorted values and the greatest, as the metrics compute theirs."""
    if not len(values):
        return [None] * (len(QUANTILES) + 1)
    return [*np.percentile(values, QUANTILES).tolist(), float(values[-1])]


def longest(results: Sequence[Shown]) -> int:
    """The time that the lines span, in microseconds."""
    return max((int(r.held.edges[-1] - r.held.edges[0]) for r in results if len(r.held.mean)), default=0)
