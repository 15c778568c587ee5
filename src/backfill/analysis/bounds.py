"""Lower bounds that no policy can beat, even with full knowledge. Proofs: docs/reference/bounds.md.

Each is the exact optimum of an easier problem: a machine that may split and squash jobs, or one that has to run fewer
of them. Rounding always goes to the side that keeps the bound valid.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from backfill.analysis.metrics import Counted, Metrics
from backfill.model.platform import Platform
from backfill.model.schedule import at_speed
from backfill.model.units import NEVER, SECOND
from backfill.model.workload import Ints, Workload

_ROUNDING = 1 - 1e-9  # far more than the rounding errors of doubles


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """A lower bound of a metric over all schedules of the same jobs on the same platform."""

    metric: str  # makespan_s or mean_wait_s
    value: float | None
    how: str  # the argument that gave it


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundGap:
    """The distance of a policy from a lower bound."""

    policy: str
    metric: str
    value: float | None
    bound: float | None
    how: str  # the argument that gave the bound
    ratio: float | None  # value / bound, at least 1; None if the bound is 0


@dataclass(frozen=True, eq=False, slots=True)
class _Jobs:
    """The jobs in the form that the bounds use: times in microseconds after the first submit, sorted by release."""

    release: Ints  # no start is earlier; for `first` jobs, the wait begins here in every schedule
    least: Ints  # time held on the fastest node, or until it is killed
    most: Ints  # time held on the slowest node, or until it is killed
    need: Ints  # shape (jobs, resources), of the whole job
    capacity: list[int]  # per resource, of the whole platform
    first: Ints  # the jobs without predecessors

    @classmethod
    def of(cls, workload: Workload, platform: Platform, counted: Counted, overrun: str) -> "_Jobs":
        alone = np.diff(workload.jobs.after.first)[counted.rows] == 0
        release = np.where(alone, counted.eligible, counted.submit)
        order = np.argsort(release, kind="stable")
        rows = counted.rows[order]
        jobs, fast, slow = (
            workload.jobs,
            float(platform.speed.max()),
            float(platform.speed.min()) / (1 + platform.coallocation_overhead),
        )
        run, limit = jobs.runtime[rows], NEVER if overrun == "extend" else jobs.walltime[rows]
        known = [r for r in platform.resources if r in workload.resources]
        demand = jobs.demand[rows][:, [workload.resources.index(r) for r in known]]
        return cls(
            release=release[order] - counted.submit.min(),
            least=np.minimum(limit, run if fast == 1 else at_speed(run * _ROUNDING, fast, np.floor)),
            most=np.minimum(limit, run if slow == 1 else at_speed(run / _ROUNDING, slow)),
            need=jobs.tasks[rows, None] * demand,
            capacity=[int(platform.capacity[:, platform.resources.index(r)].sum()) for r in known],
            first=np.flatnonzero(alone[order]),
        )

    def take(self, rows: Ints) -> "_Jobs":
        """Return some of the jobs. Schedules stay valid without the others, so a bound for these holds for all."""
        columns = (self.release[rows], self.least[rows], self.most[rows], self.need[rows])
        return _Jobs(*columns, self.capacity, np.arange(len(rows)))


def bounds(workload: Workload, platform: Platform, counted: Counted, overrun: str = "kill") -> list[Bound]:
    """Return lower bounds of the makespan and the mean wait of the counted jobs; None if there are none."""
    if not len(counted):
        return [Bound(metric=metric, value=None, how="no jobs") for metric in ("makespan_s", "mean_wait_s")]
    jobs = _Jobs.of(workload, platform, counted, overrun)
    how, makespan = _makespan(jobs)
    argument, wait = _total_wait(jobs)
    return [
        Bound(metric="makespan_s", value=makespan / SECOND, how=how),
        Bound(metric="mean_wait_s", value=wait / len(counted) / SECOND, how=argument),
    ]


def mean_bounds(by_replication: Sequence[Sequence[Bound]]) -> list[Bound]:
    """Return the means of the bounds of several workloads: no policy has a lower mean over them."""
    if len(by_replication) < 2:
        return list(by_replication[0]) if by_replication else []
    means = []
    for same in zip(*by_replication, strict=True):
        values = [bound.value for bound in same if bound.value is not None]
        mean = math.fsum(values) / len(values) if values else None
        means.append(Bound(metric=same[0].metric, value=mean, how=f"mean of {len(values)} bounds"))
    return means


def gaps(names: Sequence[str], metrics: Sequence[Metrics], lower: Sequence[Bound]) -> list[BoundGap]:
    """Compare every policy with every bound."""
    return [
        BoundGap(
            policy=name,
            metric=bound.metric,
            value=(value := each[bound.metric]),
            bound=bound.value,
            how=bound.how,
            ratio=value / bound.value if value is not None and bound.value else None,
        )
        for name, each in zip(names, metrics, strict=True)
        for bound in lower
    ]


def by_metric(all_gaps: Sequence[BoundGap]) -> dict[str, list[BoundGap]]:
    """Return the gaps of each metric, in their order."""
    grouped: dict[str, list[BoundGap]] = {}
    for gap in all_gaps:
        grouped.setdefault(gap.metric, []).append(gap)
    return grouped


def _makespan(jobs: _Jobs) -> tuple[str, int]:
    """Return the greatest lower bound of the makespan, in microseconds, and the simplest argument that gives it."""
    values = [("longest job", int((jobs.release + jobs.least).max()))]
    for need, capacity in zip(jobs.need.T, jobs.capacity, strict=True):
        if need.any():
            values.append(("area", -(-_exact_sum(need, jobs.least) // capacity)))
            values.append(("head and tail", _head_and_tail(jobs.release, jobs.least, need, capacity)))
    wide = jobs.need[:, 0] > jobs.capacity[0] // 2
    if wide.any():
        alone = np.ones(int(wide.sum()), np.int64)
        how = "jobs wider than half the machine"
        values.append((how, _head_and_tail(jobs.release[wide], jobs.least[wide], alone, 1)))
    best = max(value for _, value in values)
    return next((how, value) for how, value in values if value == best)


def _head_and_tail(release: Ints, held: Ints, weight: Ints, capacity: int) -> int:
    """Return the most that t and the time for all work that cannot be done by t add up to, over all t.

    Doubles choose t, at a start or end on an unlimited machine; what it gives is computed in whole numbers.
    """
    times = np.concatenate([release, release + held])
    order = np.argsort(times, kind="stable")
    rate = np.cumsum(np.concatenate([weight, -weight])[order], dtype=np.float64)
    done = np.concatenate([[0.0], np.cumsum(rate[:-1] * np.diff(times[order]))])
    t = int(times[order][np.argmax(times[order] - done / capacity)])
    return t - (-_exact_sum(weight, np.clip(release + held - t, 0, held)) // capacity)


def _exact_sum(weight: Ints, time: Ints) -> int:
    """Return the sum of weight x time, which may exceed 2^63."""
    if float(weight.max()) * float(time.max()) * len(weight) < 1 << 62:
        return int(weight @ time)
    return int(weight.astype(object) @ time)


def _total_wait(jobs: _Jobs) -> tuple[str, float]:
    """Return the greatest lower bound of the summed wait, in microseconds, and the argument that gives it.

    It is tried for the jobs that need at least 1, 4, 16 ... processors: narrow ones, which a squashed machine finishes
    far too early, would hide the wait of the others.
    """
    from backfill.analysis.squashed import least_wait  # the reports, which name bounds, need no compiler

    best = ("no job has to wait", 0.0)
    least, capacity = 1, jobs.capacity[0]
    while least <= capacity:
        chosen, unit = _on_squashed_machine(jobs.take(jobs.first[jobs.need[jobs.first, 0] >= least]), capacity)
        for how, by_rest in (("preemptive SRPT", True), ("mean busy time", False)):
            total = least_wait(chosen, by_rest) * unit / capacity * _ROUNDING
            if total > best[1]:
                best = (f"{how}, jobs of {least} or more cpus", total)
        least *= 4
    return best


def _on_squashed_machine(jobs: _Jobs, capacity: int) -> tuple[Ints, int]:
    """Return the columns of jobs that `least_wait` takes, and their unit in processor-microseconds.

    The unit is 1 if all ends are below 2^62 then, else a power of two. What is not whole is rounded to early ends and
    short waits.
    """
    need = jobs.need[:, 0]
    held = float(jobs.most.max(initial=0)) * capacity
    end = float(jobs.release.max(initial=0)) * capacity + float(need @ jobs.least.astype(np.float64)) + held
    unit = 1 << max(0, math.frexp(end)[1] - 62)
    columns = (
        _in_units(jobs.release, capacity, unit),
        _in_units(jobs.least, need, unit),
        -_in_units(-jobs.release, capacity, unit),
        -_in_units(-jobs.most, capacity, unit),
    )
    return np.column_stack(columns), unit


def _in_units(time: Ints, processors: Ints | int, unit: int) -> Ints:
    """Return time x processors in whole units, rounded down."""
    if unit == 1:
        return time * processors
    whole: Ints = (time.astype(object) * processors // unit).astype(np.int64)  # the product may exceed 2^63
    return whole
