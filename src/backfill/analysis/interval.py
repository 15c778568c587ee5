"""A mean over replications, with its interval."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from backfill.analysis.quantiles import student


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over replications with its 95 % interval (Student's t); one replication has no interval.

    For one log, a value, or a difference with its bootstrap interval; then the count is 1.
    """

    mean: float
    low: float
    high: float
    count: int

    @classmethod
    def of(cls, values: Sequence[float]) -> "Estimate":
        """Return the estimate from the values of the replications."""
        if len(values) < 2:
            return cls(values[0], -math.inf, math.inf, 1)
        return cls(*student(np.array(values, np.float64)), len(values))

    @classmethod
    def of_median(cls, values: Sequence[float]) -> "Estimate":
        """Estimate the median of the replications, with its interval by the sign test, which assumes no distribution.

        The interval lies above (below) 0 exactly if the two-sided sign test of the differences from 0 rejects at 5 %;
        fewer than 6 values have no interval. Thompson 1936, Ann. Math. Stat. 7, 122-128.
        """
        ordered, n = sorted(values), len(values)
        middle = (ordered[(n - 1) // 2] + ordered[n // 2]) / 2
        outside, cut = 0, -1  # number of 2**n sign choices with at most `cut` on one side
        while (outside + math.comb(n, cut + 1)) * 40 <= 2**n:
            cut += 1
            outside += math.comb(n, cut)
        if cut < 0:
            return cls(middle, -math.inf, math.inf, n)
        return cls(middle, ordered[cut], ordered[n - 1 - cut], n)

    @property
    def bounded(self) -> bool:
        """Return whether there is an interval."""
        return math.isfinite(self.low)

    def of_further(self, count: int) -> "Estimate":
        """Return the interval that contains the mean of `count` further replications with probability 95 %."""
        wider = math.sqrt(1 + self.count / count)
        low, high = ((side - self.mean) * wider for side in (self.low, self.high))
        return Estimate(self.mean, self.mean + low, self.mean + high, count)

    def plus(self, amount: float) -> "Estimate":
        """Return the estimate shifted by an amount."""
        return Estimate(self.mean + amount, self.low + amount, self.high + amount, self.count)

    def times(self, factor: float) -> "Estimate":
        """Return the estimate in another unit; factor > 0."""
        return Estimate(self.mean * factor, self.low * factor, self.high * factor, self.count)

    def less(self, other: "Estimate") -> "Estimate":
        """Return the difference from an independent estimate (Zou and Donner 2008, Stat. Med. 27, 1693-1702)."""
        mean = self.mean - other.mean
        low, high = (
            math.hypot(self.mean - self.low, other.high - other.mean),
            math.hypot(self.high - self.mean, other.mean - other.low),
        )
        return Estimate(mean, mean - low, mean + high, min(self.count, other.count))

    def negative(self) -> "Estimate":
        """Return the estimate with the opposite sign."""
        return Estimate(-self.mean, -self.high, -self.low, self.count)

    def __str__(self) -> str:
        if not self.bounded:
            return f"{self.mean:.4g}"
        return f"{self.mean:.4g} [{self.low:.4g}, {self.high:.4g}]"
