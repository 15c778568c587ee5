"""A log cut into few long blocks, and 95 % intervals from them: a studentized circular moving-block bootstrap.

Eight blocks, each an eighth of the log by submit time, which may begin at each of 56 places, are drawn with
replacement, and the contributions of their jobs to a value are summed. Jobs inside a block depend on each other,
through a queue that may last for weeks, and stay together.

Sources: Kuensch 1989, Ann. Stat. 17(3), 1217-1241; Politis and Romano 1992 (the circle, which gives the parts at both
ends the weight of the others); Schmeiser 1982, Oper. Res. 30(3), 556-568 (few long blocks lose little); Goetze and
Kuensch 1996, Ann. Stat. 24(5), 1914-1933 (studentized blocks); Politis and Romano 1995, J. Time Ser. Anal. 16(1),
67-103 (variance corrected for the dependence between blocks).
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from backfill.model.units import span_text
from backfill.model.workload import Floats, Ints

NONE = "no 95% interval"  # prefix of a method without an interval; the reason follows
RESAMPLES = 2000
BLOCKS = 8  # long, because queues are; the t of 7 degrees of freedom is 1.2 times that of many
PARTS = 7  # parts per block, at each of which a block may begin

_OUTSIDE = RESAMPLES // 40  # resamples left out on either side of 95 %
_SHORTER = 3  # parts of the shorter blocks, which show how much the variance still grows with block length
_AROUND_P95 = (93, 97)  # percentiles that estimate the density of waits around the 95th


@dataclass(frozen=True, eq=False, slots=True)
class Value:
    """A metric of one schedule, split by parts of the log; arrays have shape (parts,)."""

    value: float
    pull: Floats  # contribution of each part's jobs to the deviation; the sum is 0
    share: Floats  # share of the jobs, by part
    sources: float = math.inf  # effective number of equal parts that make the value

    @property
    def parts(self) -> Floats:
        """The contribution of each part to the value; the sum is the value."""
        return self.pull + self.value * self.share


@dataclass(frozen=True, eq=False, slots=True)
class Blocks:
    """The blocks into which a log is cut, and the blocks drawn in each resample."""

    part: Ints  # shape (jobs,), the seventh of a block in which each job was submitted
    starts: Ints  # shape (BLOCKS, resamples), the first part of each drawn block
    step: int  # length of a part, microseconds

    @classmethod
    def of(cls, submit: Ints, seed: int = 0, resamples: int = RESAMPLES) -> "Blocks | str":
        """Return blocks for jobs submitted at these times, or a text that says why there are none.

        The draws come from the raw words of PCG64, whose stream numpy guarantees: they are equal on every machine.
        """
        if not len(submit):
            return f"{NONE}: nothing ran"
        parts = BLOCKS * PARTS
        first, span = int(submit.min()), int(submit.max() - submit.min())
        if span < parts:
            return f"{NONE}: all jobs are submitted at once"
        step = span // parts + 1
        part = (submit - first) // step
        if len(np.unique(part // PARTS)) < BLOCKS // 2:
            return f"{NONE}: jobs are submitted in fewer than {BLOCKS // 2} blocks"
        return cls(part, draws(seed, resamples), step)

    @property
    def log(self) -> int:
        """The length of the log, microseconds."""
        return BLOCKS * PARTS * self.step

    @property
    def method(self) -> str:
        """The description of the interval for readers."""
        return f"block bootstrap, 1/{BLOCKS} of the log ({span_text(PARTS * self.step)})"

    @property
    def jobs(self) -> Ints:
        """The number of jobs in each block."""
        return np.bincount(self.part // PARTS, minlength=BLOCKS)

    def mean(self, values: Floats, of: Floats) -> Value:
        """Return the sum of `values` over the sum of `of`, both per job; always summed in the same order."""
        above, below = (np.bincount(self.part, x, BLOCKS * PARTS).astype(np.float64) for x in (values, of))
        whole = ordered_sum(below) or 1.0
        value = ordered_sum(above) / whole
        return Value(value, (above - value * below) / whole, below / whole)

    def p95(self, values: Floats) -> Value:
        """Return the 95th percentile: a job above it contributes more, the sparser the values are around it."""
        low, value, high = np.percentile(values, [_AROUND_P95[0], 95, _AROUND_P95[1]]).tolist()
        apart = (high - low) * 100 / (_AROUND_P95[1] - _AROUND_P95[0])
        above = (values > value).astype(np.float64)
        longest = np.bincount(self.part, above, BLOCKS * PARTS).astype(np.float64)
        share = self.mean(above, np.ones(len(values)))
        return Value(value, share.pull * apart, share.share, effective(longest) or math.inf)

    def interval(self, pull: Floats) -> tuple[float, float]:
        """Return the 95 % interval of a value from its pull, as distances from the value."""
        return bootstrap(pull, self.starts)


@lru_cache(maxsize=4)
def draws(seed: int = 0, resamples: int = RESAMPLES) -> Ints:
    """Return the first part of each drawn block, shape (BLOCKS, resamples)."""
    words = np.random.PCG64(np.random.SeedSequence(seed)).random_raw(BLOCKS * resamples)
    starts = (words % (BLOCKS * PARTS)).astype(np.int64).reshape(BLOCKS, resamples)
    starts.setflags(write=False)
    return starts


def bootstrap(pull: Floats, starts: Ints) -> tuple[float, float]:
    """Return the 95 % interval of a value from its pull, as distances from the value, with these draws."""
    blocks = windows(pull, PARTS)
    error = math.sqrt(ordered_sum(blocks**2) / len(blocks) * BLOCKS * BLOCKS / (BLOCKS - 1))
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
    """Return the factor, 1 to 1.33, that widens an interval because successive blocks depend on each other.

    The variance per part from blocks of k parts is V - c / k; blocks of two lengths give V.
    """
    shorter, whole = (ordered_sum(windows(pull, k) ** 2) / k for k in (_SHORTER, PARTS))
    if not whole > 0:
        return 1.0
    gain = _SHORTER / (PARTS - _SHORTER)  # (1 / PARTS) / (1 / _SHORTER - 1 / PARTS)
    return math.sqrt(1 + gain * max(0.0, 1 - shorter / whole))


def windows(values: Floats, length: int) -> Floats:
    """Return the sum over the block that begins at each part; the last parts are followed by the first."""
    out = np.zeros_like(values)
    for k in range(length):
        out += np.roll(values, -k)
    return out


def ordered_sum(values: Floats) -> float:
    """Return the sum in a fixed order."""
    return float(np.cumsum(values)[-1])


def effective(amounts: Floats) -> float:
    """Return the number of equal amounts that would be as uneven as these: (sum)^2 / sum of squares; 0 if all are 0."""
    squares = ordered_sum(amounts**2)
    return ordered_sum(np.abs(amounts)) ** 2 / squares if squares > 0 else 0.0
