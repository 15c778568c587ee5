"""What is known of run times: the shares of their walltimes that ended jobs used.

The live queue draws its futures from these, and the predictor `history` plans by their middle.
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

ENOUGH = 5  # ended jobs, so that they stand for others
SPREAD = 0.5  # of the logarithm of SHAPE, which is a guess
SHAPE = 0.6  # of the share of the walltime that jobs use where nothing is known: P(share < x) = x^SHAPE


@dataclass(frozen=True)
class Pool:
    """What is known of the shares of their walltimes that such jobs used."""

    shares: tuple[float, ...]  # ascending; empty where nothing is known
    told: str  # whose they are
    key: tuple[str, ...] = ()
    shape: float = SHAPE

    def draw(self, chance: Floats, past: Floats) -> Floats:
        """The shares at these chances (from 0 to 1) of jobs of which each has used more than `past`."""
        if not self.shares:
            floor = past**self.shape
            return (floor + chance * (1 - floor)) ** (1 / self.shape)
        shares = np.array(self.shares)
        begin = np.where(past > 0, np.searchsorted(shares, past, side="right"), 0)
        left = len(shares) - begin
        known = shares[np.minimum(begin + np.minimum((chance * left).astype(np.int64), left - 1), len(shares) - 1)]
        outlived = past + chance * np.maximum(1 - past, 0)  # more than all that is known
        return np.where(left > 0, known, outlived)

    def again(self, random: np.random.Generator) -> "Pool":
        """What could as well be known of them: a bootstrap of the shares. It is wide where few are known."""
        if not self.shares:
            return replace(self, shape=SHAPE * float(np.exp(SPREAD * random.standard_normal())))
        return replace(self, shares=tuple(np.sort(random.choice(self.shares, len(self.shares))).tolist()))


class RunTimes:
    """Shares of walltimes that ended jobs used: of the same user and name, else of the user, else of all.

    most: how many of the jobs that ended last are known; None for all.
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
        """A job ended after it ran for so long; longest: what it could run for, if not the walltime."""
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
        """What is known of jobs of this user and name."""
        for key, told in zip(_keys(user, name), ("user and name", "user", "all"), strict=True):
            if len(shares := self._shares.get(key, ())) >= ENOUGH:
                return Pool(tuple(shares), told, key)
        return Pool((), "none")

    def predict(self, user: str, name: str, walltime: int) -> int:
        """The middle run time of such jobs of this walltime; the walltime where nothing is known."""
        for key in _keys(user, name):
            if len(shares := self._shares.get(key, ())) >= ENOUGH:
                return round(shares[len(shares) // 2] * walltime)
        return walltime

    def longest(self, user: str, name: str) -> int:
        """The longest run of a job of this user and name, in microseconds."""
        return self._longest.get((user, name), 0)


def _keys(user: str, name: str) -> tuple[tuple[str, ...], ...]:
    """The groups in which a job is known, the narrowest first; that of all is not the user without a name."""
    return (user, name), (user,), ()
