"""Paired differences of schedules of the same workload, with 95 % intervals.

For one log, the interval is that of a circular moving-block bootstrap: blocks of a week of submit times, which may
begin on any of its days, are drawn with replacement until they are as long as the log, and the metrics of every policy
are computed from the same drawn blocks. Jobs inside a week depend on each other, and stay together. For replications of
a generated workload, which are independent, it is Student's t interval of the differences.

Sources: Kuensch 1989, Ann. Stat. 17(3), 1217-1241; Politis and Romano 1992 (the circle, which gives the days at both
ends the weight of the others); Hesterberg 2015, Am. Stat. 69(4), 371-386 (percentiles widened for few blocks); Politis
and Romano 1995, J. Time Ser. Anal. 16(1), 67-103 (variance corrected for what weeks have to do with each other).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from backfill.analysis.metrics import Counted, Metrics
from backfill.analysis.quantiles import tail, two_sided_t
from backfill.model.units import SECOND, span_text
from backfill.model.workload import Floats, Ints

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
RESAMPLES = 2000
WEEK = 7 * 86_400 * SECOND
PARTS = 7  # a block may begin at each seventh of its length: on each day of a week
FEWEST_BLOCKS = 8  # a log of fewer weeks is cut into this many blocks
FEWEST_JOBS = 30
MOST_PARTS = PARTS * 52 * 40  # forty years
_RANKS = 1000  # steps of the percentile of a resample
_CHUNK = 250  # resamples whose percentiles are computed at once

_SHORTER = 3  # parts of the shorter blocks that show how much the variance still grows with their length
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
    method: str  # of the interval, or why there is none
    relative_low: float | None = None  # of the relative difference, 95 %
    relative_high: float | None = None


@dataclass(frozen=True, eq=False, slots=True)
class Sample:
    """A metric of one schedule, or the difference of two, in every resample."""

    values: Floats  # shape (resamples,), NaN where it has none
    pull: Floats  # shape (parts,), by how much the jobs of each part pull it away from its value for the whole log

    def __sub__(self, other: "Sample") -> "Sample":
        return Sample(self.values - other.values, self.pull - other.pull)

    def over(self, unit: Floats | float) -> "Sample":
        """The values in another unit, or relative to others."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return Sample(self.values / unit, self.pull)


@dataclass(frozen=True, eq=False, slots=True)
class Blocks:
    """How a log is cut into blocks, and which of them each resample draws."""

    part: Ints  # shape (jobs,), the seventh of a block in which each job was submitted
    parts: int
    starts: Ints  # shape (draws, resamples), the part with which each drawn block begins
    length: int  # of a block, microseconds

    @classmethod
    def of(cls, submit: Ints, seed: int = 0, resamples: int = RESAMPLES) -> "Blocks | str":
        """For jobs submitted at these times; a text says why there can be none.

        The draws come from the raw words of PCG64, whose stream numpy guarantees: every machine draws the same.
        """
        if len(submit) < FEWEST_JOBS:
            return f"no interval: fewer than {FEWEST_JOBS} jobs"
        first, span = int(submit.min()), int(submit.max() - submit.min())
        length = WEEK if span >= FEWEST_BLOCKS * WEEK else span // FEWEST_BLOCKS
        if length < PARTS:
            return "no interval: all jobs are submitted at once"
        step = -(-length // PARTS)
        part = (submit - first) // step
        parts = int(part.max()) + 1
        if parts > MOST_PARTS:
            return "no interval: the log is longer than forty years"
        if len(np.unique(part // PARTS)) < FEWEST_BLOCKS // 2:
            return f"no interval: jobs are submitted in fewer than {FEWEST_BLOCKS // 2} blocks"
        draws = max(1, round(parts / PARTS))
        words = np.random.PCG64(np.random.SeedSequence(seed)).random_raw(draws * resamples)
        return cls(part, parts, (words % parts).astype(np.int64).reshape(draws, resamples), length)

    @property
    def method(self) -> str:
        """What a reader is told about the interval."""
        week = self.length == WEEK
        return f"block bootstrap, {'1 week' if week else f'1/{FEWEST_BLOCKS} of the log ({span_text(self.length)})'}"

    def mean(self, values: Floats, of: Floats) -> Sample:
        """The sum of `values` over the sum of `of`, both of the jobs; always added up in the same order."""
        above, below = (np.bincount(self.part, x, self.parts).astype(np.float64) for x in (values, of))
        whole = [float(np.cumsum(x)[-1]) for x in (above, below)]
        sums = []
        for windows in (self._windows(above), self._windows(below)):
            drawn = np.zeros(self.starts.shape[1])
            for starts in self.starts:
                drawn += windows[starts]
            sums.append(drawn)
        with np.errstate(invalid="ignore", divide="ignore"):
            return Sample(sums[0] / sums[1], above - whole[0] / (whole[1] or 1) * below)

    def percentile(self, values: Ints, percent: float) -> Floats:
        """A percentile of a value in each resample, to a step of 1/1000 in rank: the least step not below it."""
        ranked = np.sort(values)
        steps = np.unique(ranked[np.linspace(0, len(ranked) - 1, _RANKS + 1).astype(np.int64)])
        cell = self.part * len(steps) + np.searchsorted(steps, values)
        count = np.bincount(cell, minlength=self.parts * len(steps)).reshape(self.parts, len(steps))
        below = np.cumsum(self._windows(count.astype(np.float64)), axis=1)
        found = []
        for first in range(0, self.starts.shape[1], _CHUNK):
            starts = self.starts[:, first : first + _CHUNK]
            resample = np.arange(starts.shape[1])
            drawn = np.bincount((resample * self.parts + starts).ravel(), minlength=len(resample) * self.parts)
            # Whole numbers below 2^53, so the order in which the product is added up does not matter.
            total = drawn.reshape(len(resample), self.parts).astype(np.float64) @ below
            found.append(steps[(total < total[:, -1:] * (percent / 100)).sum(axis=1).clip(max=len(steps) - 1)])
        return np.concatenate(found).astype(np.float64)

    def interval(self, sample: Sample) -> Interval:
        """The 95 % interval: percentiles, widened for few blocks and for dependence between blocks."""
        inside = np.sort(sample.values[np.isfinite(sample.values)])
        if len(inside) < 0.9 * len(sample.values):
            return NO_INTERVAL
        out, middle = int(tail(self.parts / PARTS) * len(inside)), inside[len(inside) // 2]
        wider = self._dependence(sample.pull)
        low, high = (middle + wider * (x - middle) for x in (inside[out], inside[len(inside) - 1 - out]))
        return float(low), float(high)

    def _dependence(self, pull: Floats) -> float:
        """By what to widen an interval, since a block still depends on the next one; 1 to 1.33.

        The variance per part from blocks of k parts is V - c / k; blocks of two lengths give V.
        """
        shorter, whole = (float(np.cumsum(self._windows(pull, k) ** 2)[-1]) / k for k in (_SHORTER, PARTS))
        if not whole > 0:
            return 1.0
        gain = _SHORTER / (PARTS - _SHORTER)  # (1 / PARTS) / (1 / _SHORTER - 1 / PARTS)
        return math.sqrt(1 + gain * max(0.0, 1 - shorter / whole))

    def _windows(self, values: Floats, length: int = PARTS) -> Floats:
        """The sum over the block that begins with each part; the last parts are followed by the first."""
        out = np.zeros_like(values)
        for k in range(length):
            out += np.roll(values, -k, axis=0)
        return out


def resampled(blocks: Blocks, counted: Counted) -> dict[str, Sample]:
    """The metrics of one schedule in each resample, where they are those of its jobs."""
    wait, held = counted.wait.astype(np.float64), counted.held.astype(np.float64)
    long, one = held > 0, np.ones(len(counted))
    slowdown = np.where(long, (wait + held) / np.where(long, held, 1), 0)
    mean_wait = blocks.mean(wait / SECOND, one)
    late = blocks.percentile(counted.wait, 95) / SECOND
    return {
        "mean_wait_s": mean_wait,
        "p95_wait_s": Sample(np.where(np.isfinite(mean_wait.values), late, np.nan), mean_wait.pull),
        "mean_response_s": blocks.mean((wait + held) / SECOND, one),
        "mean_slowdown": blocks.mean(slowdown, long.astype(np.float64)),
        "mean_bounded_slowdown": blocks.mean(counted.bounded_slowdown, one),
    }


def pairs_of_log(
    names: Sequence[str], metrics: Sequence[Metrics], counted: Sequence[Counted], seed: int = 0
) -> list[Pair]:
    """Every two policies, the later one minus the earlier one. Metrics of the whole run have no interval."""
    blocks = Blocks.of(counted[0].submit, seed) if counted else "no interval: nothing ran"
    samples = [{} if isinstance(blocks, str) else resampled(blocks, each) for each in counted]
    found = []
    for b, a in combinations(range(len(names)), 2):
        for metric in PAIRED:
            x, y = metrics[a].get(metric), metrics[b].get(metric)
            method, intervals = "no interval: one run has one value", [NO_INTERVAL] * 2
            if isinstance(blocks, str):
                method = blocks
            elif metric in samples[a]:
                method, change = blocks.method, samples[a][metric] - samples[b][metric]
                intervals = [blocks.interval(each) for each in (change, change.over(samples[b][metric].values))]
            found.append(_pair((names[a], names[b], metric), x, y, intervals, method))
    return found


def pairs_of_replications(names: Sequence[str], metrics: Sequence[Sequence[Metrics]]) -> list[Pair]:
    """Every two policies, the later one minus the earlier one; metrics[policy][replication], at least two of these.

    The relative difference is the ratio of means, and its interval that of d_i - ratio x b_i (the delta method).
    """
    found = []
    for b, a in combinations(range(len(names)), 2):
        for metric in PAIRED:
            values = [(x.get(metric), y.get(metric)) for x, y in zip(metrics[a], metrics[b], strict=True)]
            whole = [(x, y) for x, y in values if x is not None and y is not None]
            x, y = (np.array([pair[k] for pair in whole], np.float64) for k in (0, 1))
            n, change = len(whole), x - y
            method = f"t interval, {n} replications"
            intervals: list[tuple[float | None, float | None]] = [NO_INTERVAL] * 2
            if n < 2:
                method = "no interval: fewer than 2 replications have a value"
            else:
                intervals[0] = _student(change)
                if base := _mean(y):
                    ratio = _mean(change) / base
                    low, high = _student((change - ratio * y) / base)
                    intervals[1] = (ratio + low, ratio + high)
            means = [_mean(each) if n else None for each in (x, y)]
            found.append(_pair((names[a], names[b], metric), means[0], means[1], intervals, method))
    return found


def _student(values: Floats) -> tuple[float, float]:
    n, mean = len(values), _mean(values)
    deviation = math.sqrt(math.fsum((values - mean) ** 2) / (n - 1))
    half = two_sided_t(n - 1) * deviation / math.sqrt(n)
    return mean - half, mean + half


def _mean(values: Floats) -> float:
    return math.fsum(values) / len(values)


def _pair(
    what: tuple[str, str, str],
    x: float | None,
    y: float | None,
    intervals: Sequence[Interval],
    method: str,
) -> Pair:
    a, b, metric = what
    difference = None if x is None or y is None else x - y
    relative = difference / y if difference is not None and y else None
    (low, high), (relative_low, relative_high) = intervals if difference is not None else [NO_INTERVAL] * 2
    if relative is None:
        relative_low = relative_high = None
    return Pair(
        a=a, b=b, metric=metric, difference=difference, relative=relative, low=low, high=high, method=method,
        relative_low=relative_low, relative_high=relative_high,
    )  # fmt: skip
