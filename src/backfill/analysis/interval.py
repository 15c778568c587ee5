"""A mean over replications, with its interval."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from backfill.analysis.quantiles import student


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over replications with its 95 % interval (Student's t); of one replication there is no interval.

    Of one log it is a value, or a difference with the interval of its bootstrap; then the count is 1.
    """

    mean: float
    low: float
    high: float
    count: int

    @classmethod
    def of(cls, values: Sequence[float]) -> "Estimate":
        """The estimate from the values of the replications."""
        if len(values) < 2:
            return cls(values[0], -math.inf, math.inf, 1)
        return cls(*student(np.array(values, np.float64)), len(values))

    @classmethod
    def of_median(cls, values: Sequence[float]) -> "Estimate":
        """The median of the replications with its interval by the sign test, which asks nothing of the distribution.

        The interval lies above (below) 0 exactly where the two-sided sign test of the differences from 0 says so at
        5 %; fewer than 6 values have none. Thompson 1936, Ann. Math. Stat. 7, 122-128.
        """
        ordered, n = sorted(values), len(values)
        middle = (ordered[(n - 1) // 2] + ordered[n // 2]) / 2
        outside, cut = 0, -1  # how many of 2**n choices of signs have at most `cut` on one side
        while (outside + math.comb(n, cut + 1)) * 40 <= 2**n:
            cut += 1
            outside += math.comb(n, cut)
        if cut < 0:
            return cls(middle, -math.inf, math.inf, n)
        return cls(middle, ordered[cut], ordered[n - 1 - cut], n)

    @property
    def bounded(self) -> bool:
        """Whether there is an interval."""
        return math.isfinite(self.low)

    def of_further(self, count: int) -> "Estimate":
        """The interval in which the mean of so many further replications lies, with probability 95 %."""
        wider = math.sqrt(1 + self.count / count)
        low, high = ((side - self.mean) * wider for side in (self.low, self.high))
        return Estimate(self.mean, self.mean + low, self.mean + high, count)

    def plus(self, amount: float) -> "Estimate":
        """The same, moved."""
        return Estimate(self.mean + amount, self.low + amount, self.high + amount, self.count)

    def times(self, factor: float) -> "Estimate":
        """The estimate in another unit; factor > 0."""
        return Estimate(self.mean * factor, self.low * factor, self.high * factor, self.count)

    def less(self, other: "Estimate") -> "Estimate":
        """The difference to an independent one (Zou and Donner 2008, Stat. Med. 27, 1693-1702)."""
        mean = self.mean - other.mean
        low, high = (
            math.hypot(self.mean - self.low, other.high - other.mean),
            math.hypot(self.high - self.mean, other.mean - other.low),
        )
        return Estimate(mean, mean - low, mean + high, min(self.count, other.count))

    def negative(self) -> "Estimate":
        """The estimate with the opposite sign."""
        return Estimate(-self.mean, -self.high, -self.low, self.count)

    def __str__(self) -> str:
        if not self.bounded:
            return f"{self.mean:.4g}"
        return f"{self.mean:.4g} [{self.low:.4g}, {self.high:.4g}]"
