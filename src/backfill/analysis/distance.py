"""The distance of policies from the best possible schedule on sampled windows of a log, with its interval."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from backfill.analysis.blocks import effective
from backfill.analysis.quantiles import student, two_sided_t

FEWEST = 4.0  # effective windows required for an interval


@dataclass(frozen=True, slots=True, kw_only=True)
class Distance:
    """The relative distance of a policy's mean wait from the best possible one, on windows of a log."""

    policy: str
    value_s: float  # mean wait under the policy
    best_s: float  # of the best schedules found
    bound_s: float  # no schedule of these windows has a lower mean wait
    above: float | None  # value / best - 1; None if no job has to wait
    low: float | None  # its 95 % interval; None if too few windows make up the waits
    high: float | None
    most: float | None  # value / bound - 1, unless the solver finished every window; None without a bound
    windows: int
    jobs: int  # jobs per window
    proven: int  # windows whose best schedule is proven optimal

    @classmethod
    def of(
        cls,
        policy: str,
        values: Sequence[float],
        best: Sequence[float],
        bound: Sequence[float],
        jobs: int,
        proven: int,
    ) -> "Distance":
        """Build the distance from the mean waits of the windows, in seconds."""
        value, least, under = (math.fsum(each) / len(values) for each in (values, best, bound))
        low, high = interval(values, best) or (None, None)
        return cls(
            policy=policy,
            value_s=value,
            best_s=least,
            bound_s=under,
            above=value / least - 1 if least else None,
            low=low,
            high=high,
            most=value / under - 1 if under else None,
            windows=len(values),
            jobs=jobs,
            proven=proven,
        )

    @property
    def sentence(self) -> str:
        """The distance in one sentence."""
        on = f"on {self.windows} windows of {self.jobs} jobs"
        if self.above is None:
            if not self.value_s:
                return f"under {self.policy} no job waits {on}"
            return f"under {self.policy} jobs wait {on}, and under the best schedule none waits"
        spread = "" if self.low is None or self.high is None else f" [{100 * self.low:.0f}, {100 * self.high:.0f}]"
        if self.proven == self.windows:
            return f"{self.policy} is {self.above:.0%}{spread} above the best possible mean wait {on}"
        most = "no upper limit is known" if self.most is None else f"at most {self.most:.0%} above the best possible"
        solved = f"{self.proven} of {self.windows} windows solved to the end"
        return f"{self.policy} is {self.above:.0%}{spread} above the best mean wait found {on}; {most} ({solved})"


def interval(values: Sequence[float], best: Sequence[float]) -> tuple[float, float] | None:
    """Return the 95 % interval of sum(values) / sum(best) - 1 over such windows; None if too few make up the waits.

    It uses the logarithm of the ratio, its jackknife and Student's t with `effective` - 1 degrees of freedom, since few
    windows have most of the wait. It never goes below 0, as no policy is better than the best.
    Coverage: docs/decisions/0056-a-distance-from-the-optimum.md.
    """
    value, least = np.array(values, np.float64), np.array(best, np.float64)
    parts = effective(value)
    without = math.fsum(least) - least
    if parts < FEWEST or (without <= 0).any():
        return None
    whole = math.log(math.fsum(value) / math.fsum(least))
    others = np.log((math.fsum(value) - value) / without)
    n = len(value)
    middle, low, _ = student(n * whole - (n - 1) * others)
    error = (middle - low) / two_sided_t(n - 1) * math.sqrt(parts / (parts - 1))
    half = two_sided_t(int(parts) - 1) * error
    return max(math.expm1(middle - half), 0.0), max(math.expm1(middle + half), 0.0)
