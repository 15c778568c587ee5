"""Knowledge of run times: the shares of their walltimes that ended jobs used.

The live queue draws its futures from these, and the predictor `history` plans by their median.
"""

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from backfill.model.workload import Floats

if TYPE_CHECKING:
    from backfill.queue.job import Job

ENOUGH = 5  # ended jobs that make a group representative
SPREAD = 0.5  # of the logarithm of SHAPE, a guess
SHAPE = 0.6  # of the used share of the walltime if nothing is known: P(share < x) = x^SHAPE


@dataclass(frozen=True)
class Pool:
    """The known shares of their walltimes that a group of jobs used."""

    shares: tuple[float, ...]  # ascending; empty if nothing is known
    told: str  # name of the group
    key: tuple[str, ...] = ()
    shape: float = SHAPE

    def draw(self, chance: Floats, past: Floats) -> Floats:
        """Return the shares at these quantiles (0 to 1) for jobs of which each has already used more than `past`."""
        if not self.shares:
            floor = past**self.shape
            return (floor + chance * (1 - floor)) ** (1 / self.shape)
        shares = np.array(self.shares)
        begin = np.where(past > 0, np.searchsorted(shares, past, side="right"), 0)
        left = len(shares) - begin
        known = shares[np.minimum(begin + np.minimum((chance * left).astype(np.int64), left - 1), len(shares) - 1)]
        outlived = past + chance * np.maximum(1 - past, 0)  # beyond all known shares
        return np.where(left > 0, known, outlived)

    def again(self, random: np.random.Generator) -> "Pool":
        """Return a bootstrap sample of the shares. It varies widely if few are known."""
        if not self.shares:
            return replace(self, shape=SHAPE * float(np.exp(SPREAD * random.standard_normal())))
        return replace(self, shares=tuple(np.sort(random.choice(self.shares, len(self.shares))).tolist()))


class RunTimes:
    """Shares of walltimes that ended jobs used: of the same user and name, else of the user, else of all.

    most: number of most recent ended jobs to remember; None for all.
    """

    def __init__(self, over: "Iterable[Job]" = (), most: int | None = None) -> None:
        self._shares: dict[tuple[str, ...], list[float]] = {}  # ascending
        self._longest: dict[tuple[str, str], int] = {}
        self._latest: deque[tuple[str, str, float]] = deque()
        self._most = most
        for job in over:
            if job.says_how_long:
                self.learn(job.user, job.name, job.took, job.walltime, job.walltime + job.grace)

    def learn(self, user: str, name: str, ran: int, walltime: int, longest: int | None = None) -> None:
        """Learn the run time of an ended job; longest: the time that it could run, if not the walltime."""
        share = min(ran, walltime if longest is None else longest) / walltime
        self._longest[user, name] = max(self._longest.get((user, name), 0), ran)
        for key in _keys(user, name):
            insort(self._shares.setdefault(key, []), share)
        if self._most is not None:
            self._latest.append((user, name, share))
            if len(self._latest) > self._most:
                self._forget(*self._latest.popleft())

    def _forget(self, user: str, name: str, share: float) -> None:
        for key in _keys(user, name):
            shares = self._shares[key]
            del shares[bisect_left(shares, share)]

    def of(self, user: str, name: str) -> Pool:
        """Return the shares for jobs of this user and name."""
        for key, told in zip(_keys(user, name), ("user and name", "user", "all"), strict=True):
            if len(shares := self._shares.get(key, ())) >= ENOUGH:
                return Pool(tuple(shares), told, key)
        return Pool((), "none")

    def predict(self, user: str, name: str, walltime: int) -> int:
        """Return the median run time of such jobs of this walltime; the walltime if nothing is known."""
        for key in _keys(user, name):
            if len(shares := self._shares.get(key, ())) >= ENOUGH:
                return round(shares[len(shares) // 2] * walltime)
        return walltime

    def longest(self, user: str, name: str) -> int:
        """Return the longest run of a job of this user and name, in microseconds."""
        return self._longest.get((user, name), 0)


def _keys(user: str, name: str) -> tuple[tuple[str, ...], ...]:
    """Return the groups of a job, the narrowest first; the group of all jobs differs from a user without a name."""
    return (user, name), (user,), ()
