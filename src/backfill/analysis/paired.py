"""Paired differences of schedules of the same workload, with 95 % intervals.

For one log, the interval is that of a studentized circular moving-block bootstrap: eight blocks, each an eighth of the
log by submit time, which may begin at each of 56 places, are drawn with replacement, and what their jobs add to the
difference is added up. Jobs inside a block depend on each other, through a queue that may last for weeks, and stay
together. For replications of a generated workload, which are independent, it is Student's t interval.

Sources: Kuensch 1989, Ann. Stat. 17(3), 1217-1241; Politis and Romano 1992 (the circle, which gives the parts at both
ends the weight of the others); Schmeiser 1982, Oper. Res. 30(3), 556-568 (few long blocks lose little); Goetze and
Kuensch 1996, Ann. Stat. 24(5), 1914-1933 (studentized blocks); Politis and Romano 1995, J. Time Ser. Anal. 16(1),
67-103 (variance corrected for what blocks have to do with each other).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations

import numpy as np

from backfill.analysis.metrics import Counted, Metrics
from backfill.analysis.quantiles import student
from backfill.model.units import SECOND, span_text
from backfill.model.workload import Floats, Ints

FARM = ("out_deadline", "system_usage", "licence_usage")  # where a workload or a platform has them
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
BLOCKS = 8  # long ones, because queues are; the t of 7 degrees of freedom is 1.2 times that of many
PARTS = 7  # of a block, which may begin with each of them
FEWEST_JOBS = 1000  # in fewer there may have been no crowd of the kind that makes the difference
CROWD = 1500  # jobs: a log of so many has intervals twice as wide as its blocks would say
LONGEST_QUEUE = 2 / 3  # of the log; a longer one grows all along, and its waits are those of no other log
FEWEST_SOURCES = 12  # parts from which the longest waits must come

NONE = "no 95% interval"  # so a method begins where there is none, and why follows
_OUTSIDE = RESAMPLES // 40  # resamples left out on either side of 95 %
_SHORTER = 3  # parts of the shorter blocks that show how much the variance still grows with their length
_FARTHEST = 50.0  # of the logarithm of a ratio, so that every number stays finite
_AROUND_P95 = (93, 97)  # percentiles between which waits lie as close together as around the 95th
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
class Value:
    """A metric of one schedule, and how it comes about."""

    value: float
    pull: Floats  # shape (parts,), what the jobs of each part add to or take from it; together nothing
    sources: float = math.inf  # of how many parts it is made, as if they took equal shares
    wider: float = 1.0  # by what its interval is widened, see Blocks.wider

    def relative_to(self, other: "Value") -> "Value":
        """The change from another, relative to it (the delta method)."""
        ratio = self.value / other.value
        return Value(ratio - 1, (self.pull - ratio * other.pull) / other.value, wider=self.wider)

    def less(self, other: "Value") -> "Value":
        """The difference, of the same log, which may be at another load: the parts are of the same jobs."""
        return Value(self.value - other.value, self.pull - other.pull, wider=self.wider)

    def interval(self, seed: int = 0) -> tuple[float, float]:
        """95 %, with the draws of `Blocks.of`."""
        low, high = _interval(self.pull, _starts(seed, RESAMPLES))
        return self.value + self.wider * low, self.value + self.wider * high


@dataclass(frozen=True, eq=False, slots=True)
class Blocks:
    """The blocks into which a log is cut, and those that each resample draws."""

    part: Ints  # shape (jobs,), the seventh of a block in which each job was submitted
    starts: Ints  # shape (BLOCKS, resamples), the part with which each drawn block begins
    step: int  # of a part, microseconds

    @classmethod
    def of(cls, submit: Ints, seed: int = 0, resamples: int = RESAMPLES) -> "Blocks | str":
        """Blocks for jobs submitted at these times, or a text that says why there can be none.

        The draws come from the raw words of PCG64, whose stream numpy guarantees: every machine draws the same.
        """
        if len(submit) < FEWEST_JOBS:
            return f"{NONE}: fewer than {FEWEST_JOBS:,} jobs"
        parts = BLOCKS * PARTS
        first, span = int(submit.min()), int(submit.max() - submit.min())
        if span < parts:
            return f"{NONE}: all jobs are submitted at once"
        step = span // parts + 1
        part = (submit - first) // step
        if len(np.unique(part // PARTS)) < BLOCKS // 2:
            return f"{NONE}: jobs are submitted in fewer than {BLOCKS // 2} blocks"
        return cls(part, _starts(seed, resamples), step)

    @property
    def wider(self) -> float:
        """The factor by which intervals are widened: a short log may contain no crowd in any of its blocks.

        Measured: docs/reference/metrics.md.
        """
        return 1 + math.sqrt(CROWD / len(self.part))

    @property
    def log(self) -> int:
        """The length of the log, microseconds."""
        return BLOCKS * PARTS * self.step

    @property
    def method(self) -> str:
        """The description of the interval for readers."""
        return f"block bootstrap, 1/{BLOCKS} of the log ({span_text(PARTS * self.step)})"

    def mean(self, values: Floats, of: Floats) -> Value:
        """The sum of `values` over the sum of `of`, both of the jobs; always added up in the same order."""
        above, below = (np.bincount(self.part, x, BLOCKS * PARTS).astype(np.float64) for x in (values, of))
        whole = _sum(below) or 1.0
        value = _sum(above) / whole
        return Value(value, (above - value * below) / whole, wider=self.wider)

    def p95(self, values: Floats) -> Value:
        """The 95th percentile: a job above it counts the more, the farther apart values lie around it."""
        low, value, high = np.percentile(values, [_AROUND_P95[0], 95, _AROUND_P95[1]]).tolist()
        apart = (high - low) * 100 / (_AROUND_P95[1] - _AROUND_P95[0])
        above = (values > value).astype(np.float64)
        longest = np.bincount(self.part, above, BLOCKS * PARTS).astype(np.float64)
        sources = _sum(longest) ** 2 / _sum(longest**2) if longest.any() else math.inf
        return Value(value, self.mean(above, np.ones(len(values))).pull * apart, sources, self.wider)

    def interval(self, pull: Floats) -> tuple[float, float]:
        """The 95 % interval of a value from its pull, as distances from the value."""
        low, high = _interval(pull, self.starts)
        return self.wider * low, self.wider * high


@lru_cache(maxsize=4)
def _starts(seed: int, resamples: int) -> Ints:
    """The parts with which drawn blocks begin, shape (BLOCKS, resamples)."""
    words = np.random.PCG64(np.random.SeedSequence(seed)).random_raw(BLOCKS * resamples)
    starts = (words % (BLOCKS * PARTS)).astype(np.int64).reshape(BLOCKS, resamples)
    starts.setflags(write=False)
    return starts


def _interval(pull: Floats, starts: Ints) -> tuple[float, float]:
    blocks = _windows(pull, PARTS)
    error = math.sqrt(_sum(blocks**2) / len(blocks) * BLOCKS * BLOCKS / (BLOCKS - 1))
    total, squares = np.zeros(starts.shape[1]), np.zeros(starts.shape[1])
    for each in starts:
        drawn = blocks[each]
        total += drawn
        squares += drawn * drawn
    spread = np.sqrt(np.maximum(0, squares - total * total / BLOCKS) * BLOCKS / (BLOCKS - 1))
    differ = spread > 1e-6 * error
    if not differ.any():
        return 0.0, 0.0
    errors = np.sort(total[differ] / spread[differ])
    out = len(errors) * _OUTSIDE // RESAMPLES
    wide = error * _dependence(pull)
    return -wide * float(errors[len(errors) - 1 - out]), -wide * float(errors[out])


def _dependence(pull: Floats) -> float:
    """The factor by which to widen an interval, since a block still depends on the next one; 1 to 1.33.

    The variance per part from blocks of k parts is V - c / k; blocks of two lengths give V.
    """
    shorter, whole = (_sum(_windows(pull, k) ** 2) / k for k in (_SHORTER, PARTS))
    if not whole > 0:
        return 1.0
    gain = _SHORTER / (PARTS - _SHORTER)  # (1 / PARTS) / (1 / _SHORTER - 1 / PARTS)
    return math.sqrt(1 + gain * max(0.0, 1 - shorter / whole))


def _windows(values: Floats, length: int) -> Floats:
    """The sum over the block that begins with each part; the last parts are followed by the first."""
    out = np.zeros_like(values)
    for k in range(length):
        out += np.roll(values, -k)
    return out


def _sum(values: Floats) -> float:
    """Always in the same order."""
    return float(np.cumsum(values)[-1])


def longest_queue(counted: Counted) -> int:
    """The longest time, in microseconds, in which at every instant somebody waits."""
    since, until = counted.waits
    waits = np.flatnonzero(until > since)
    if not len(waits):
        return 0
    waits = waits[np.argsort(since[waits], kind="stable")]
    came, gone = since[waits], np.maximum.accumulate(until[waits])
    first = np.flatnonzero(np.append(True, came[1:] > gone[:-1]))
    return int((gone[np.append(first[1:] - 1, len(gone) - 1)] - came[first]).max())


def values_of(blocks: Blocks, counted: Counted) -> dict[str, Value]:
    """The metrics of one schedule that are those of its jobs."""
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
    names: Sequence[str], metrics: Sequence[Metrics], counted: Sequence[Counted], seed: int = 0
) -> list[Pair]:
    """Every two policies, the later one minus the earlier one. Metrics of the whole run have no interval."""
    blocks = Blocks.of(counted[0].submit, seed) if counted else f"{NONE}: nothing ran"
    values = [{} if isinstance(blocks, str) else values_of(blocks, each) for each in counted]
    queues = [longest_queue(each) for each in counted]
    pairs = []
    for b, a in combinations(range(len(names)), 2):
        for metric in _paired(metrics[a]):
            x, y = metrics[a].get(metric), metrics[b].get(metric)
            intervals = [NO_INTERVAL] * 2
            if isinstance(blocks, str):
                method = blocks
            elif metric not in values[a]:
                method = f"{NONE}: one run has one value"
            else:
                two = {names[p]: (queues[p], values[p][metric].sources) for p in (b, a)}
                method = _why_none(two, blocks.log)
                if not method:
                    method = blocks.method
                    wider = _wider_for_queues(max(queues[p] for p in (b, a)) / blocks.log)
                    intervals = _intervals(blocks, (x, values[a][metric]), (y, values[b][metric]), wider)
            pairs.append(_pair((names[a], names[b], metric), x, y, intervals, method))
    return pairs


def _why_none(two: Mapping[str, tuple[int, float]], log: int) -> str:
    """The reason why two policies, with their longest queues and their sources, have no interval; empty if they have
    one.
    """
    longest = max(two, key=lambda name: two[name][0])
    fewest = min(two, key=lambda name: two[name][1])
    if two[longest][0] > LONGEST_QUEUE * log:
        queue = f"the queue under {longest} stays non-empty for {span_text(two[longest][0])}"
        return f"{NONE}: {queue}, too long for a log of {span_text(log)}"
    if two[fewest][1] < FEWEST_SOURCES:
        return f"{NONE}: the longest waits under {fewest} come from too small a part of the log"
    return ""


def _wider_for_queues(share: float) -> float:
    """Factor by which intervals widen where a queue lasts for this share of the log: the rest is what tells of others.

    Measured: docs/reference/metrics.md.
    """
    return 1 / math.sqrt(1 - share)


def _intervals(
    blocks: Blocks, a: tuple[float | None, Value], b: tuple[float | None, Value], wider: float
) -> list[Interval]:
    """The intervals of the difference, and of the relative difference on a logarithmic scale."""
    (x, of_x), (y, of_y) = a, b
    if x is None or y is None:
        return [NO_INTERVAL] * 2
    low, high = blocks.interval(of_x.pull - of_y.pull)
    intervals: list[Interval] = [(x - y + wider * low, x - y + wider * high)]
    if not x or not y:
        return [*intervals, (-1.0, -1.0)]
    factors = blocks.interval(of_x.pull / x - of_y.pull / y)
    low, high = (float(f"{math.expm1(min(wider * each, _FARTHEST)):.10g}") for each in factors)
    return [*intervals, ((x - y + x * low) / y, (x - y + x * high) / y)]


def _paired(metrics: Metrics) -> list[str]:
    """The metrics that are compared in pairs."""
    return [*PAIRED, *(name for name in FARM if name in metrics)]


def pairs_of_replications(names: Sequence[str], metrics: Sequence[Sequence[Metrics]]) -> list[Pair]:
    """Every two policies, the later one minus the earlier one; metrics[policy][replication], at least two of these.

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
            intervals: list[tuple[float | None, float | None]] = [NO_INTERVAL] * 2
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
) -> Pair:
    a, b, metric = names
    difference = None if x is None or y is None else x - y
    relative = difference / y if difference is not None and y else None
    (low, high), (relative_low, relative_high) = intervals if difference is not None else [NO_INTERVAL] * 2
    if relative is None:
        relative_low = relative_high = None
    return Pair(
        a=a, b=b, metric=metric, difference=difference, relative=relative, low=low, high=high, method=method,
        relative_low=relative_low, relative_high=relative_high,
    )  # fmt: skip
