"""Durations that are counted in a histogram, as Prometheus takes them."""

from bisect import bisect_left
from collections.abc import Sequence
from typing import Any

QUICK = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)  # seconds
LONG = (1.0, 10.0, 60.0, 300.0, 900.0, 3600.0, 4 * 3600.0, 12 * 3600.0, 86_400.0, 3 * 86_400.0, 7 * 86_400.0)


class Histogram:
    """Counts of values up to each bound, and of larger ones; and the sum of all values."""

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: Sequence[float] = QUICK) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def observe(self, value: float) -> None:
        """Count a value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    def facts(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {"bounds": [*self.bounds], "counts": [*self.counts], "sum": self.sum}
