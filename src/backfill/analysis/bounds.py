"""Lower bounds that no policy can beat, even with full knowledge. Proofs: docs/reference/bounds.md.

Each is the exact optimum of an easier problem: a machine that may split and squash jobs, or one that has to run fewer
of them. Rounding always goes to the side that keeps the bound valid.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import accumulate

import numpy as np

from backfill.analysis.metrics import Counted, Metrics
from backfill.model.platform import Platform
from backfill.model.schedule import at_speed
from backfill.model.units import NEVER, SECOND
from backfill.model.workload import Ints, Workload

_Arrival = tuple[int, int, int]  # of a job on the squashed machine, in processor-microseconds: see _arrivals

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
        if not need.any():
            continue
        ahead = [(t, -(-work // capacity)) for t, work in _work_ahead(jobs.release, jobs.least, need)]
        values += [("area", ahead[0][1]), ("head and tail", max(t + rest for t, rest in ahead))]
    wide = jobs.need[:, 0] > jobs.capacity[0] // 2
    if wide.any():
        alone = np.ones(int(wide.sum()), np.int64)
        ahead = _work_ahead(jobs.release[wide], jobs.least[wide], alone)
        values.append(("jobs wider than half the machine", max(t + rest for t, rest in ahead)))
    best = max(value for _, value in values)
    return next((how, value) for how, value in values if value == best)


def _work_ahead(release: Ints, held: Ints, weight: Ints) -> list[tuple[int, int]]:
    """Return the pairs (t, weight x time that cannot be done by t), at each start and end on an unlimited machine.

    Computed in exact whole numbers, which may exceed 2^63.
    """
    times, place = np.unique(np.concatenate([release, release + held]), return_inverse=True)
    change = [0] * len(times)
    for at, amount in zip(place.tolist(), np.concatenate([weight, -weight]).tolist(), strict=True):
        change[at] += amount
    rate = accumulate(change[:-1])
    done = [0, *accumulate(r * step for r, step in zip(rate, np.diff(times).tolist(), strict=True))]
    return [(t, done[-1] - d) for t, d in zip(times.tolist(), done, strict=True)]


def _total_wait(jobs: _Jobs) -> tuple[str, float]:
    """Return the greatest lower bound of the summed wait, in microseconds, and the argument that gives it.

    It is tried for the jobs that need at least 1, 4, 16 ... processors: narrow ones, which a squashed machine finishes
    far too early, would hide the wait of the others.
    """
    best = ("no job has to wait", 0.0)
    least, capacity = 1, jobs.capacity[0]
    while least <= capacity:
        chosen = list(_arrivals(jobs.take(jobs.first[jobs.need[jobs.first, 0] >= least]), capacity))
        for how, argument in (("preemptive SRPT", _srpt), ("mean busy time", _mean_busy_time)):
            total = sum(max(0, period) for period in argument(chosen)) / capacity * _ROUNDING
            if total > best[1]:
                best = (f"{how}, jobs of {least} or more cpus", total)
        least *= 4
    return best


def _srpt(arrivals: Sequence[_Arrival]) -> Iterator[int]:
    """Yield bounds of the summed wait x capacity, one for each busy period of the squashed machine.

    Shortest remaining area first minimises the sum of ends there. Exact: the clock counts processor-microseconds.
    """
    now, waits = 0, 0
    left: list[int] = []
    for at, area, held in arrivals:
        while left and now + left[0] <= at:
            now += heappop(left)
            waits += now
        if left:
            left[0] -= at - now
        else:
            yield waits
            waits = 0
        now = at
        heappush(left, area)
        waits -= at + held


def _mean_busy_time(arrivals: Sequence[_Arrival]) -> Iterator[float]:
    """Yield bounds from the mean instants at which jobs are worked on, half a run before their ends in every schedule.

    Smallest area first, with preemption, minimises the sum of these instants on the squashed machine.
    """
    now, waits = 0, 0.0
    left: list[tuple[int, int, int, int]] = []  # area, index, remaining area, release
    for number, (at, area, held) in enumerate(arrivals):
        while left and now + left[0][2] <= at:
            whole, _, rest, release = heappop(left)
            waits += rest / max(whole, 1) * (now - release + rest / 2)
            now += rest
        if left:
            whole, other, rest, release = left[0]
            done = at - now
            waits += done / whole * (now - release + done / 2)
            left[0] = (whole, other, rest - done, release)
        else:
            yield waits
            waits = 0.0
        now = at
        heappush(left, (area, number, area, at))
        waits -= held / 2


def _arrivals(jobs: _Jobs, capacity: int) -> Iterator[_Arrival]:
    """Yield (release x capacity, area, longest time held x capacity) of each job; a last one ends all work."""
    columns: Sequence[list[int]] = [x.tolist() for x in (jobs.release, jobs.least, jobs.need[:, 0], jobs.most)]
    for release, least, need, most in zip(*columns, strict=True):
        yield release * capacity, need * least, most * capacity
    yield 1 << 200, 0, 0
