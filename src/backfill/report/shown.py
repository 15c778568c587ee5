"""A schedule as lines over time and as distributions."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from backfill.analysis.farm import held_licences
from backfill.analysis.metrics import Counted
from backfill.analysis.resources import Use, shared
from backfill.analysis.series import Binned, Steps, held_cpus, jobs_inside, waiting_jobs
from backfill.model.platform import Platform
from backfill.model.schedule import Schedule
from backfill.model.units import SECOND
from backfill.model.workload import Floats, Ints, Workload
from backfill.report.rows import licence_lanes

BINS = 100  # points of a line; with more, crossing lines hide each other
QUANTILES = (50, 90, 95, 99)  # percent


@dataclass(frozen=True, eq=False, slots=True)
class Used:
    """The use of one licence, or of one resource, under one policy."""

    name: str
    there: int  # copies, or amount, in total
    held: Binned  # over time
    all_held: float  # share of the time at which all of it is in use
    unusable: Binned | None = None  # of a resource: free but unusable, over time

    @classmethod
    def of(cls, name: str, there: int, held: Steps, span: tuple[int, int], unusable: Steps | None = None) -> "Used":
        """Return the use of a resource from its held amount over time, within the time range of the lines."""
        times = np.clip(np.append(held.times, span[1]), *span)
        full = int(np.diff(times)[held.values >= max(there, 1)].sum())
        idle = None if unusable is None else unusable.binned(*span, BINS)
        return cls(name, there, held.binned(*span, BINS), full / max(span[1] - span[0], 1), idle)


@dataclass(frozen=True, eq=False, slots=True)
class Shown:
    """The curves and distributions of one policy's schedule."""

    cpus: int  # of the platform
    held: Binned  # processors held over time
    queue: Binned  # jobs waiting over time
    inside: Binned  # jobs waiting or running over time
    waits: Floats  # of the jobs that count, sorted, seconds
    slowdowns: Floats  # bounded, sorted
    licences: Sequence[Used]  # those that jobs request
    resources: Sequence[Used]  # those that jobs hold, if there are others than cpus
    imbalance: Binned | None  # of the same, over the time when any is held

    @classmethod
    def of(
        cls, workload: Workload, platform: Platform, schedule: Schedule, counted: Counted, span: tuple[int, int]
    ) -> "Shown":
        """Return the lines of a schedule; the distributions have the `counted` jobs. span: time range of the lines."""
        ran, runs = np.flatnonzero(schedule.ran), schedule.all_runs
        held = held_licences(workload, platform, runs.job, runs.start, runs.end)
        lanes = set(licence_lanes(workload, platform).tolist())
        licences = [
            Used.of(name, copies, held[i], span)
            for i, (name, copies) in enumerate(platform.all_licences.items())
            if i in lanes
        ]
        use = _use(workload, platform, schedule, ran)
        return cls(
            platform.cpus,
            held_cpus(workload, schedule).binned(*span, BINS),
            waiting_jobs(schedule).binned(*span, BINS),
            jobs_inside(schedule).binned(*span, BINS),
            np.sort(counted.wait / SECOND),
            np.sort(counted.bounded_slowdown),
            licences,
            [] if use is None else _resources(use, platform, span),
            None if use is None else use.imbalance.binned(*span, BINS, idle=False),
        )


def _use(workload: Workload, platform: Platform, schedule: Schedule, rows: Ints) -> Use | None:
    """Return the use of the resources; None if cpus are the only one. Node-bound licences count as licences."""
    if len(set(shared(workload, platform)) - set(platform.node_licences)) < 2:
        return None
    return Use.of(workload, platform, schedule, rows)


def _resources(use: Use, platform: Platform, span: tuple[int, int]) -> list[Used]:
    return [
        Used.of(name, there, held, span, unusable)
        for name, there, held, unusable in zip(use.names, use.whole.tolist(), use.held, use.unusable, strict=True)
        if name not in platform.node_licences
    ]


def quantiles(values: Floats) -> list[float | None]:
    """Return the QUANTILES and the maximum of sorted values, computed as in the metrics."""
    if not len(values):
        return [None] * (len(QUANTILES) + 1)
    return [*np.percentile(values, QUANTILES).tolist(), float(values[-1])]


def longest(results: Sequence[Shown]) -> int:
    """Return the time range of the lines, in microseconds."""
    return max((int(r.held.edges[-1] - r.held.edges[0]) for r in results if len(r.held.mean)), default=0)
