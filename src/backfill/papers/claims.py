"""The claims of a paper, with the value measured for each."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

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

    @property
    def bounded(self) -> bool:
        """Whether there is an interval."""
        return math.isfinite(self.low)

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


@dataclass(frozen=True, slots=True)
class Claim:
    """One claim: what the paper says, what was expected of it here, what was measured, and whether it holds."""

    id: str
    claim: str
    expected: str
    measured: str
    held: bool | None  # None: it cannot be judged
    low: float | None = None  # interval of the case that speaks most against it
    high: float | None = None
    note: str = ""

    @classmethod
    def of(
        cls, name: str, claim: str, expected: str, worst: Estimate, held: bool, where: str, unit: str = ""
    ) -> "Claim":
        """A claim that is judged by its worst case, which stands `where`, in a unit such as ` points`."""
        low, high = (worst.low, worst.high) if worst.bounded else (None, None)
        return cls(name, claim, expected, f"{worst}{unit}, {where}", held, low, high)

    @property
    def verdict(self) -> str:
        """The verdict as a text."""
        return {True: "held", False: "not reproduced", None: "not judged"}[self.held]

    def to_dict(self) -> dict[str, Any]:
        """The fields for JSON."""
        return asdict(self)


Cases = Mapping[str, Estimate]  # where -> what is measured there


def worst_of(cases: Cases) -> tuple[str, Estimate]:
    """The case whose interval reaches highest, and where it is."""
    return max(cases.items(), key=lambda case: case[1].high)


def below(name: str, claim: str, expected: str, cases: Cases, unit: str = "", scale: float = 1) -> Claim:
    """A claim that holds where every interval lies below 0; told in a unit, of which `scale` are 1.

    Cases without an interval cannot decide it, but leave it open where the others speak for it; they are noted.
    """
    scaled = {where: each.times(scale) for where, each in cases.items()}
    bounded = {where: each for where, each in scaled.items() if each.bounded}
    where, worst = worst_of(bounded or scaled)
    judged = Claim.of(name, claim, expected, worst, worst.high < 0, where, unit)
    if len(bounded) == len(scaled):
        return judged
    note = "no interval: " + "; ".join(f"{each}{unit}, {w}" for w, each in scaled.items() if not each.bounded)
    return replace(judged, held=None if worst.high < 0 or not bounded else False, note=note)
