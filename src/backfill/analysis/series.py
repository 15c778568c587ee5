"""Step functions over time: processors held, jobs and processors waiting; for plots, thinned without distortion."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from backfill.model.schedule import Schedule
from backfill.model.workload import Floats, Ints, Workload

BINS = 1000

Numbers = Ints | Floats


@dataclass(frozen=True, eq=False, slots=True)
class Binned:
    """A step function averaged over bins, for plots."""

    edges: Ints  # shape (bins + 1,), microseconds, strictly increasing
    mean: Floats  # shape (bins,), weighted by time; NaN in a bin without counted time
    most: Numbers  # shape (bins,), the maximum at any instant of the bin
    time: Floats  # shape (bins,), counted microseconds of each bin


@dataclass(frozen=True, eq=False, slots=True)
class Steps:
    """A step function of time: values[i] from times[i] until times[i + 1], and zero before and after."""

    times: Ints  # shape (k,), microseconds, strictly increasing
    values: Numbers  # shape (k,), the last one is 0

    @classmethod
    def of(cls, begin: Ints, end: Ints, weight: Numbers) -> "Steps":
        """Return the sum of `weight` over the half-open intervals [begin, end)."""
        return cls.each(begin, end, [weight])[0]

    @classmethod
    def each(cls, begin: Ints, end: Ints, weights: Sequence[Numbers]) -> list["Steps"]:
        """Return a function for each of several weights of the same intervals; they share their times."""
        times = np.concatenate([begin, end])
        order = np.argsort(times, kind="stable")
        times = times[order]
        last = np.diff(times, append=times[-1:] + 1) > 0  # the last of equal ones
        sums = (np.concatenate([w, -w])[order].cumsum()[last] for w in weights)
        return [cls(times[last], each if each.dtype.kind == "i" else each.round(9)) for each in sums]

    @property
    def area(self) -> float:
        """The integral of value x microseconds, rounded once."""
        return math.fsum((self.values[:-1] * np.diff(self.times).astype(np.float64)).tolist())

    @property
    def busy(self) -> int:
        """The microseconds at which the value is not 0."""
        return int(np.diff(self.times)[self.values[:-1] != 0].sum())

    def binned(self, begin: int, end: int, bins: int = BINS, idle: bool = True) -> Binned:
        """Return the time average and the maximum in each of at most `bins` equal parts of [begin, end).

        idle: whether time with value 0 counts in the mean.
        """
        edges = np.unique(begin + np.linspace(0, end - begin, bins + 1).astype(np.int64))
        inside = self.times[(self.times > begin) & (self.times < end)]
        # The value is constant between cuts. Two sorted lists, which a stable sort merges.
        both = np.sort(np.concatenate([edges, inside]), kind="stable")
        cuts = both[np.diff(both, prepend=both[0] - 1) > 0][:-1]
        if not len(cuts):
            return Binned(edges[:0], np.zeros(0), np.zeros(0, np.int64), np.zeros(0))
        at = np.searchsorted(self.times, cuts, side="right") - 1
        values = np.where(at >= 0, self.values[np.maximum(at, 0)], 0) if len(self.times) else np.zeros_like(cuts)
        first = np.searchsorted(cuts, edges[:-1])
        spans = np.diff(cuts, append=end).astype(np.float64)
        area = np.add.reduceat(values * spans, first)
        time = np.diff(edges).astype(np.float64) if idle else np.add.reduceat(spans * (values != 0), first)
        mean = np.divide(area, time, out=np.full(len(time), np.nan), where=time > 0)
        return Binned(edges, mean, np.maximum.reduceat(values, first), time)


def held_cpus(workload: Workload, schedule: Schedule) -> Steps:
    """Return the processors held over time; runs that share processors count by their turns.

    Utilization is this divided by the processors of the platform.
    """
    runs = schedule.all_runs
    if runs.turns is None:
        return Steps.of(runs.start, runs.end, workload.jobs.procs[runs.job])
    spans = runs.spans
    return Steps.of(spans.start, spans.end, workload.jobs.procs[runs.job[spans.run]] * spans.share)


def waiting_jobs(schedule: Schedule) -> Steps:
    """Return the length of the queue over time: a job waits on [eligible, start), and between two of its runs."""
    runs = schedule.all_runs
    return Steps.of(runs.since(schedule.eligible), runs.start, np.ones(len(runs), np.int64))


def jobs_inside(schedule: Schedule) -> Steps:
    """Return the jobs in the system over time, waiting or running: [eligible, end)."""
    ran = schedule.ran
    return Steps.of(schedule.eligible[ran], schedule.end[ran], np.ones(int(ran.sum()), np.int64))


def idle_while_waiting(waits: tuple[Ints, Ints], runs: tuple[Ints, Ints], procs: Numbers, cpus: int) -> float:
    """Return the processors x microseconds that no run holds at instants at which some job waits.

    waits: begin and end of each waiting interval; runs: the same of runs, which hold `procs`.
    """
    begin, end = (np.concatenate(both) for both in zip(waits, runs, strict=True))
    one, none = np.ones(len(waits[0]), np.int64), np.zeros(len(procs), np.int64)
    cpus_held: Any = np.append(0 * one, procs)
    waiting, held = Steps.each(begin, end, [np.append(one, none), cpus_held])
    return Steps(held.times, np.where(waiting.values > 0, np.maximum(cpus - held.values, 0), 0)).area


def window(*schedules: Schedule) -> tuple[int, int]:
    """Return the time from the first submit to the last end of the jobs that ran in any of them; (0, 0) if none did."""
    begin = [int(s.submit[s.ran].min()) for s in schedules if s.ran.any()]
    end = [int(s.end[s.ran].max()) for s in schedules if s.ran.any()]
    return (min(begin), max(end)) if begin else (0, 0)
