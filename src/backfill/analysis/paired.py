"""Paired differences of schedules of the same workload, with 95 % intervals.

For one log, the interval of the relative difference is that of the logarithm of the ratio, from long blocks
(blocks.py), widened for what the log cannot show: its work comes in bursts, and other logs of the same users have
other bursts, and so another load (demand.py). For replications of a generated workload, which are independent, it is
Student's t interval.

The widening, and the logs without an interval, are calibrated: docs/decisions/0037-the-load-that-a-policy-can-carry.md.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np

from backfill.analysis.blocks import BLOCKS, NONE, Blocks, Value, bootstrap, draws, effective, ordered_sum
from backfill.analysis.demand import Demand
from backfill.analysis.metrics import Counted, Metrics
from backfill.analysis.quantiles import student
from backfill.analysis.series import Steps
from backfill.model.units import SECOND, span_text
from backfill.model.workload import Floats, Ints

Each = Callable[..., Iterable[Any]]  # calls a function with each of some values: `map`, or that of an executor
FARM = ("out_deadline", "system_usage", "licence_usage")  # if a workload or a platform has them
PAIRED = (
    "mean_wait_s",
    "p95_wait_s",
    "mean_response_s",
    "mean_slowdown",
    "mean_bounded_slowdown",
    "utilization",
    "makespan_s",
    "max_queue",
)
FEWEST_JOBS = 500
FEWEST_BURSTS = 8.0  # bursts of work; fewer do not represent other logs
FEWEST_PARTS = 2.0  # parts that make up the difference
LONGEST_QUEUE = 2 / 3  # of the log; a longer queue grows throughout, and its waits are specific to this log
ONE_LONG_QUEUE = 1 / 2  # of the log, if the other policy's queue is less than half as long
FEWEST_SOURCES = 12  # parts that must contribute to the longest waits
CLEAR = 1.25  # ratio in each block; no two policies with equal waits differ this much
FEWEST_IN_BLOCK = 10  # jobs

# The contribution of another log's load, which differs by Demand.sway, to the logarithm of a ratio. All measured.
_BOTH_SIDES = 2.5
_UNEVEN = 6.0  # parts; with this many, a difference is known half as well as with very many
_ALIKE = 0.02  # of the value: a smaller effect applies to policies that differ less
_OUTWARD = 4.0  # times the logarithm: at a higher load policies differ more
_COMMON = 0.1  # of the effect of a higher load on the logarithm of a wait
_LEVEL = 5.0  # the same for the logarithm of a value that grows with the load
_FARTHEST = 50.0  # limit of the logarithm of a ratio, so that every number stays finite
Interval = tuple[float | None, float | None]
NO_INTERVAL: Interval = (None, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """One metric of two policies on the same workload; a - b, in the unit of the metric."""

    a: str
    b: str
    metric: str
    difference: float | None
    relative: float | None  # difference / value of b
    low: float | None  # of the difference, 95 %
    high: float | None
    method: str  # of the interval, or the reason why there is none
    relative_low: float | None = None  # of the relative difference, 95 %
    relative_high: float | None = None
    always_higher: str | None = None  # without an interval: the policy with the higher value in each block of the log


@dataclass(frozen=True, eq=False, slots=True)
class Change:
    """The logarithm of the ratio of two values of the same log, and the possible deviations in other logs."""

    value: float
    pull: Floats  # shape (parts,), as in Value
    below: float
    above: float

    @classmethod
    def of(cls, a: Value, b: Value, demand: Demand, capacities: tuple[float, float]) -> "Change":
        """Return the change from b to a, both above 0, of different schedules under policies with these capacities."""
        value = math.log(a.value / b.value)
        differ = a.parts - b.parts
        alike = min(1.0, ordered_sum(np.abs(differ)) / max(a.value, b.value) / _ALIKE)
        rises = demand.rises(capacities)
        both = _BOTH_SIDES * (alike + _UNEVEN / effective(differ)) * demand.sway + _COMMON * alike * max(rises)
        higher, lower = rises if value > 0 else reversed(rises)
        farther = both + _OUTWARD * abs(value) * demand.sway + max(0.0, higher - lower)
        pull = a.pull / a.value - b.pull / b.value
        return cls(value, pull, farther if value < 0 else both, farther if value > 0 else both)

    def interval(self, blocks: Blocks) -> tuple[float, float]:
        """Return the 95 % interval of the logarithm."""
        low, high = blocks.interval(self.pull)
        return max(-_FARTHEST, self.value + low - self.below), min(_FARTHEST, self.value + high + self.above)

    def apart(self, other: "Change") -> tuple[float, float]:
        """Return the 95 % interval of this ratio less another one of the same log, which may be at another load.

        Other logs have other work at both loads alike, so its contribution to both ratios cancels out.
        """
        mine, its = math.exp(self.value), math.exp(other.value)
        low, high = bootstrap(mine * self.pull - its * other.pull, draws())
        below = abs(mine * math.expm1(-self.below) - its * math.expm1(-other.below))
        above = abs(mine * math.expm1(self.above) - its * math.expm1(other.above))
        return mine - its + low - below, mine - its + high + above


def longest_queue(counted: Counted) -> int:
    """Return the longest time, in microseconds, in which some job waits at every instant."""
    since, until = counted.waits
    waits = np.flatnonzero(until > since)
    if not len(waits):
        return 0
    waits = waits[np.argsort(since[waits], kind="stable")]
    came, gone = since[waits], np.maximum.accumulate(until[waits])
    first = np.flatnonzero(np.append(True, came[1:] > gone[:-1]))
    return int((gone[np.append(first[1:] - 1, len(gone) - 1)] - came[first]).max())


def capacity(counted: Counted, procs: Ints, cpus: int) -> float:
    """Return the share of the processors that are busy while a job waits, averaged over the waits of all jobs.

    A policy cannot use more of the machine, however many jobs wait. 1 if no job waits or cpus is 0 (unknown).
    """
    since, until = counted.waits
    waited = ordered_sum((until - since).astype(np.float64))
    if not waited or not cpus:
        return 1.0
    runs = counted.runs
    busy = (
        Steps.of(counted.start, counted.end, procs) if runs is None else Steps.of(runs.start, runs.end, procs[runs.job])
    )
    before = np.append(0.0, np.cumsum(busy.values[:-1] * np.diff(busy.times).astype(np.float64)))
    used = np.interp(until, busy.times, before) - np.interp(since, busy.times, before)
    return min(1.0, ordered_sum(used) / (waited * cpus))


def values_of(blocks: Blocks, counted: Counted) -> dict[str, Value]:
    """Return the metrics of one schedule that derive from its jobs."""
    wait, run = counted.wait.astype(np.float64), counted.run.astype(np.float64)
    response = counted.response.astype(np.float64)
    long, one = run > 0, np.ones(len(counted))
    slowdown = np.where(long, response / np.where(long, run, 1), 0)
    return {
        "mean_wait_s": blocks.mean(wait / SECOND, one),
        "p95_wait_s": blocks.p95(wait / SECOND),
        "mean_response_s": blocks.mean(response / SECOND, one),
        "mean_slowdown": blocks.mean(slowdown, long.astype(np.float64)),
        "mean_bounded_slowdown": blocks.mean(counted.bounded_slowdown, one),
    }


def pairs_of_log(
    names: Sequence[str],
    metrics: Sequence[Metrics],
    counted: Sequence[Counted],
    procs: Ints,
    cpus: int,
    seed: int = 0,
    each: Each = map,
) -> list[Pair]:
    """Compare every two policies, the later one minus the earlier one. Metrics of the whole run have no interval.

    procs: shape (counted jobs,), the processors of each. cpus: of the platform. each: `map`, or that of an executor.
    """
    log = PairedLog.of(names, counted, procs, cpus, seed, each)
    pairs = []
    for b, a in combinations(range(len(names)), 2):
        for metric in _paired(metrics[a]):
            x, y = metrics[a].get(metric), metrics[b].get(metric)
            intervals, higher = [NO_INTERVAL] * 2, None
            if isinstance(log, str):
                method = log
            elif metric not in log.values[a]:
                method = f"{NONE}: one run has one value"
            else:
                method = log.why_none(a, b, metric)
                if method:
                    higher = log.always_higher(a, b, metric)
                else:
                    method, intervals = log.blocks.method, log.intervals(a, b, metric)
            pairs.append(_pair((names[a], names[b], metric), x, y, intervals, method, higher))
    return pairs


@dataclass(frozen=True, eq=False, slots=True)
class PairedLog:
    """One log under several policies; sequences are by policy."""

    names: Sequence[str]
    blocks: Blocks
    demand: Demand
    values: Sequence[Mapping[str, Value]]  # by metric
    queues: Sequence[int]  # longest queue, microseconds
    capacities: Sequence[float]  # shares of the processors

    @classmethod
    def of(
        cls,
        names: Sequence[str],
        counted: Sequence[Counted],
        procs: Ints,
        cpus: int,
        seed: int = 0,
        each: Each = map,
    ) -> "PairedLog | str":
        """Build it from the arguments of `pairs_of_log`; return a text if no two policies can have an interval."""
        if not counted:
            return f"{NONE}: nothing ran"
        blocks = Blocks.of(counted[0].submit, seed)
        if isinstance(blocks, str):
            return blocks
        run = counted[0].run.astype(np.float64)
        demand = Demand.of(counted[0].submit, procs * run, run, cpus)
        values = each(partial(values_of, blocks), counted)
        queues = each(longest_queue, counted)
        capacities = each(partial(capacity, procs=procs, cpus=cpus), counted)
        return cls(names, blocks, demand, [*values], [*queues], [*capacities])

    def change(self, a: int, b: int, metric: str) -> Change:
        """Return the change from b to a, which have an interval."""
        capacities = self.capacities[a], self.capacities[b]
        return Change.of(self.values[a][metric], self.values[b][metric], self.demand, capacities)

    def why_none(self, a: int, b: int, metric: str) -> str:
        """Return the reason why two policies have no interval; empty if they have one."""
        why = f"fewer than {FEWEST_JOBS:,} jobs" if len(self.blocks.part) < FEWEST_JOBS else ""
        why = why or self._too_long(a, b) or self._too_little() or self._too_few(a, b, metric)
        return why and f"{NONE}: {why}"

    def _too_little(self) -> str:
        """Return the reason why the jobs of the log do not suffice, under any policy; empty if they do."""
        if self.demand.bursts < FEWEST_BURSTS:
            bursts = max(1, math.floor(self.demand.bursts))
            only = f"{bursts} independent {'burst' if bursts == 1 else 'bursts'}"
            return f"the work arrives as unevenly as in {only}, fewer than {FEWEST_BURSTS:.0f}"
        return ""

    def _too_long(self, a: int, b: int) -> str:
        """Return the reason if a queue may grow throughout the log; else empty."""
        shorter, longer = sorted((b, a), key=lambda p: self.queues[p])
        queue, log = self.queues[longer], self.blocks.log
        stays = f"the queue under {self.names[longer]} stays non-empty for {span_text(queue)}"
        if queue > LONGEST_QUEUE * log:
            return f"{stays}, too long for a log of {span_text(log)}"
        if queue > ONE_LONG_QUEUE * log and queue > 2 * self.queues[shorter]:
            other = f"{span_text(self.queues[shorter])} under {self.names[shorter]}"
            return f"{stays}, too long for a log of {span_text(log)} and more than twice the {other}"
        return ""

    def _too_few(self, a: int, b: int, metric: str) -> str:
        """Return the reason if a difference, or the longest waits, come from a small part of the log; else empty."""
        of_a, of_b = self.values[a][metric], self.values[b][metric]
        for policy, value in ((b, of_b), (a, of_a)):
            if value.sources < FEWEST_SOURCES:
                return f"the longest waits under {self.names[policy]} come from too small a part of the log"
        parts = effective(of_a.parts - of_b.parts)
        if not parts:
            return "no part of the log tells the policies apart"
        if parts < FEWEST_PARTS or not of_a.value or not of_b.value:
            return "the difference comes from too small a part of the log"
        return ""

    def intervals(self, a: int, b: int, metric: str) -> list[Interval]:
        """Return the intervals of the difference and of the relative difference.

        The difference is the smaller value times the change by the ratio; it is as uncertain as both.
        """
        of_a, of_b = self.values[a][metric], self.values[b][metric]
        ratio = [_rounded(each) for each in self.change(a, b, metric).interval(self.blocks)]
        lesser = min(of_a, of_b, key=lambda value: value.value)
        low, high = self.blocks.interval(lesser.pull / lesser.value)
        least = lesser.value * _rounded(math.exp(max(-_FARTHEST, low)))
        higher = _LEVEL * (1 + _UNEVEN / effective(of_a.parts - of_b.parts)) * self.demand.sway
        most = lesser.value * _rounded(math.exp(min(_FARTHEST, high + higher)))
        lower, upper = (_rounded(-math.expm1(-each) if lesser is of_a else math.expm1(each)) for each in ratio)
        difference = (lower * (most if lower < 0 else least), upper * (most if upper > 0 else least))
        relative = [_rounded(math.expm1(each)) for each in ratio]
        return [difference, (relative[0], relative[1])]

    def always_higher(self, a: int, b: int, metric: str) -> str | None:
        """Return the policy whose jobs of every block have a clearly higher value."""
        if self.blocks.jobs.min() < FEWEST_IN_BLOCK:
            return None
        mine, its = (self.values[p][metric].parts.reshape(BLOCKS, -1).sum(axis=1) for p in (a, b))
        if np.all(mine > CLEAR * its):
            return self.names[a]
        return self.names[b] if np.all(its > CLEAR * mine) else None


def _rounded(value: float) -> float:
    """Round to 10 digits, so that the last bits of a logarithm do not show."""
    return float(f"{value:.10g}")


def _paired(metrics: Metrics) -> list[str]:
    """Return the metrics that are compared in pairs."""
    return [*PAIRED, *(name for name in FARM if name in metrics)]


def pairs_of_replications(names: Sequence[str], metrics: Sequence[Sequence[Metrics]]) -> list[Pair]:
    """Compare every two policies, the later one minus the earlier one; metrics[policy][replication], at least two each.

    The relative difference is the ratio of means, and its interval that of d_i - ratio x b_i (the delta method).
    """
    pairs = []
    for b, a in combinations(range(len(names)), 2):
        for metric in _paired(metrics[a][0]):
            values = [(x.get(metric), y.get(metric)) for x, y in zip(metrics[a], metrics[b], strict=True)]
            whole = [(x, y) for x, y in values if x is not None and y is not None]
            x, y = (np.array([pair[k] for pair in whole], np.float64) for k in (0, 1))
            n, change = len(whole), x - y
            method = f"t interval, {n} replications"
            intervals: list[Interval] = [NO_INTERVAL] * 2
            if n < 2:
                method = f"{NONE}: fewer than 2 replications have a value"
            else:
                intervals[0] = student(change)[1:]
                if base := _mean(y):
                    ratio = _mean(change) / base
                    _, low, high = student((change - ratio * y) / base)
                    intervals[1] = (ratio + low, ratio + high)
            means = [_mean(each) if n else None for each in (x, y)]
            pairs.append(_pair((names[a], names[b], metric), means[0], means[1], intervals, method))
    return pairs


def _mean(values: Floats) -> float:
    return math.fsum(values) / len(values)


def _pair(
    names: tuple[str, str, str],
    x: float | None,
    y: float | None,
    intervals: Sequence[Interval],
    method: str,
    always_higher: str | None = None,
) -> Pair:
    a, b, metric = names
    difference = None if x is None or y is None else x - y
    relative = difference / y if difference is not None and y else None
    (low, high), (relative_low, relative_high) = intervals if difference is not None else [NO_INTERVAL] * 2
    if relative is None:
        relative_low = relative_high = None
    return Pair(
        a=a, b=b, metric=metric, difference=difference, relative=relative, low=low, high=high, method=method,
        relative_low=relative_low, relative_high=relative_high, always_higher=always_higher,
    )  # fmt: skip
