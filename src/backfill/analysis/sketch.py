"""Quantiles of any number of values in little memory: a sketch with a relative error (DDSketch).

Source: C. Masson, J. E. Rim, H. K. Lee, DDSketch: a fast and fully-mergeable quantile sketch with relative-error
guarantees, PVLDB 12(12), 2195-2205, 2019. Values are counted in buckets whose bounds are powers of (1 + e) / (1 - e).
"""

import math

import numpy as np

from backfill.model.workload import Ints

ERROR = 0.001  # relative error of a quantile


class Sketch:
    """Counts of whole numbers >= 0.

    >>> import numpy as np
    >>> from backfill.analysis.sketch import Sketch
    >>> sketch = Sketch()
    >>> sketch.add(np.arange(1, 1001))
    >>> round(sketch.quantile(0.5))
    500
    """

    def __init__(self) -> None:
        self._log = math.log((1 + ERROR) / (1 - ERROR))
        self._counts = np.zeros(1, np.int64)  # of 0, then of each bucket; it ends with the greatest value so far
        self.greatest = 0

    def add(self, values: Ints) -> None:
        """Count more values, shape (values,)."""
        if not len(values):
            return
        bucket = np.zeros(len(values), np.int64)
        some = values > 0
        bucket[some] = 1 + np.ceil(np.log(values[some]) / self._log).astype(np.int64)
        more = np.bincount(bucket, minlength=len(self._counts))
        more[: len(self._counts)] += self._counts
        self._counts, self.greatest = more, max(self.greatest, int(values.max()))

    def quantile(self, share: float) -> float | None:
        """Return the value below which this share of the values lies, within 0.1 %; None without values."""
        total = int(self._counts.sum())
        if not total:
            return None
        place = int(np.searchsorted(np.cumsum(self._counts), share * (total - 1), side="right"))
        if place == 0:
            return 0.0
        return min(2 * math.exp(self._log * (place - 1)) / (1 + math.exp(self._log)), float(self.greatest))
