"""The predictive value of one log's submitted work for other logs of the same users.

Jobs come in batches, sessions, days and campaigns, and a few of them ask for most of the work. What counts is the
number of independent bursts, not of jobs: with n of them the load of another such log differs by a share of about
1 / sqrt(n), and waits differ by far more, the closer the load is to the utilization that a policy can reach.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from backfill.analysis.blocks import ordered_sum, windows
from backfill.model.workload import Floats, Ints

_CUTS = (8, 16, 32, 64, 128)  # numbers of blocks, which show how unevenly work arrives over hours, days and weeks
_PLACES = 4  # at which a block may begin
_JOBS_PER_BLOCK = 4  # shorter blocks show only single jobs
_USUAL_TAIL = 2.5  # exponent
_LONGEST, _VERY_LONGEST = 2.0, 0.5  # the tail of run times is fitted to this many times the root of the number of jobs
_LIMIT = 3.0  # a greater exponent of the very longest means that run times have a limit, such as a queue's
_HIGHER = 2.0  # standard errors of the load
_FULL = 0.99  # of a capacity; at a higher load waits are unbounded


@dataclass(frozen=True, slots=True)
class Demand:
    """The unevenness with which the work of a log arrives, and the tail of its run times."""

    bursts: float  # number of independent, equal bursts as uneven as the work or the jobs of this log
    tail: float  # exponent of the longest run times (Hill 1975); below 2 their variance is infinite
    load: float = 0.0  # offered, as a share of all processors

    @classmethod
    def of(cls, submit: Ints, work: Floats, run: Floats, cpus: int = 0) -> "Demand":
        """Return the demand of jobs submitted at these times.

        submit: not all equal. work: processors x time, in the unit of submit. cpus: of the platform; 0: unknown.
        """
        span = int(submit.max() - submit.min())
        load = ordered_sum(work) / (cpus * span) if cpus else 0.0
        bursts = min(_bursts(submit, each) for each in (work, np.ones(len(submit))) if each.any())
        return cls(bursts, _tail(run), load)

    @property
    def error(self) -> float:
        """The standard error of the load, as a share of it."""
        return 1 / math.sqrt(self.bursts)

    @property
    def sway(self) -> float:
        """The error, increased for a heavy tail, because one log does not show the longest run times."""
        return self.error * (1 + max(0.0, _USUAL_TAIL - self.tail))

    def rises(self, capacities: Sequence[float]) -> list[float]:
        """Return the growth of the logarithm of the mean wait, for each capacity, at a load two errors higher.

        A wait is about proportional to 1 / (capacity - load), as at a single server. The higher load is limited to just
        below the least capacity. Source: Kingman 1962, J. R. Stat. Soc. B 24(2), 383-392.
        """
        higher = max(self.load, min(self.load * (1 + _HIGHER * self.error), _FULL * min(capacities)))
        return [math.log((each - self.load) / (each - higher)) if higher > self.load else 0.0 for each in capacities]


def _bursts(submit: Ints, amounts: Floats) -> float:
    """Return the number of independent bursts of equal size that would be as uneven as the submitted work.

    Of blocks of several lengths, the most uneven ones count. Source: batch means, Schmeiser 1982, Oper. Res. 30(3).
    """
    whole = ordered_sum(amounts)
    uneven = ordered_sum((amounts / whole) ** 2)
    first = int(submit.min())
    span = int(submit.max()) - first
    for blocks in (each for each in _CUTS if each * _JOBS_PER_BLOCK <= len(submit)):
        parts = blocks * _PLACES
        arrived = np.bincount((submit - first) // (span // parts + 1), amounts, parts).astype(np.float64)
        sums = windows(arrived / whole - 1 / parts, _PLACES)
        uneven = max(uneven, ordered_sum(sums**2) / len(sums) * blocks * blocks / (blocks - 1))
    return 1 / uneven


def _tail(run: Floats) -> float:
    """Return the exponent of the longest run times, or of the very longest, if many of these are close to a limit."""
    root = math.sqrt(len(run))
    limited = _hill(run, _VERY_LONGEST * root)
    return limited if limited >= _LIMIT else _hill(run, _LONGEST * root)


def _hill(run: Floats, count: float) -> float:
    """Return Hill's estimate from the `count` longest run times. Source: Hill 1975, Ann. Stat. 3(5), 1163-1174."""
    longest = np.sort(np.maximum(run, 1.0))[-math.ceil(count) - 1 :]
    excess = ordered_sum(np.log(longest / longest[0])) / max(1, len(longest) - 1)
    return 1 / excess if excess > 0 else math.inf
