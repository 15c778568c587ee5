"""Knowledge of run times: the shares of their walltimes that ended jobs used.

The live queue draws its futures from these, and the predictor `history` plans by their median.
"""

from bisect import bisect_left, bisect_right, insort
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from backfill.model.workload import Floats, Ints
from backfill.queue.protocol import FEW

if TYPE_CHECKING:
    from backfill.queue.job import Job

ENOUGH = 5  # ended jobs that make a group representative
CAUTIOUS = 5  # of what no ended job says, one future in so many assumes the walltime
SPREAD = 0.5  # of the logarithm of SHAPE, a guess
SHAPE = 0.6  # of the used share of the walltime if nothing is known: P(share < x) = x^SHAPE


@dataclass(frozen=True)
class Pool:
    """The known shares of their walltimes that a group of jobs used."""

    shares: tuple[float, ...]  # ascending; empty if nothing is known
    grouped_by: str  # name of the group
    key: tuple[str, ...] = ()
    shape: float = SHAPE
    weights: tuple[float, ...] = ()  # of the shares; empty if they are alike
    used: tuple[float, ...] = ()  # by jobs of the group that still run, so far
    groups: tuple["Pool", ...] = ()  # of each user, for one about whom too little is known
    cautious: bool = False  # a job that has used more than every known share goes on until its limit

    def draw(self, chance: Floats, past: Floats) -> Floats:
        """Return the shares at these quantiles (0 to 1) for jobs of which each has already used more than `past`."""
        if self.cautious and not self.shares:
            return np.full(np.broadcast_shapes(chance.shape, past.shape), np.inf)
        if not self.shares:
            floor = past**self.shape
            return (floor + chance * (1 - floor)) ** (1 / self.shape)
        shares = np.array(self.shares)
        begin = np.where(past > 0, np.searchsorted(shares, past, side="right"), 0)
        if self.weights:
            until = np.cumsum(self.weights)
            below = np.where(begin > 0, until[begin - 1], 0.0)
            place = np.searchsorted(until, below + chance * (until[-1] - below), side="right")
            place = np.clip(place, begin, len(shares) - 1)
        else:
            left = len(shares) - begin
            place = np.minimum(begin + np.minimum((chance * left).astype(np.int64), left - 1), len(shares) - 1)
        # Beyond all known shares: uniform over the rest of the walltime.
        outlived = np.full(begin.shape, np.inf) if self.cautious else past + chance * np.maximum(1 - past, 0)
        known = shares[place]
        seen = begin < len(shares) - (1 if self.weights else 0)
        return np.where(seen, known, outlived)

    @property
    def wide(self) -> bool:
        """Return whether these are too few for a bound of the next run time below its walltime in nine of ten cases."""
        return (len(self.groups) - sum(not each.shares for each in self.groups) or len(self.shares)) < FEW

    def again(self, random: np.random.Generator, cautious: bool = False) -> "Pool":
        """Return one possible distribution of the shares of later jobs, as far as these tell.

        The next share is as likely to lie in each of the n + 1 intervals between n known shares, the last of which ends
        with the limit of a job (Hill 1968); it is taken to be the upper end of its interval. Of a user about whom
        little is known the same is said in terms of users: the jobs are like those of one of the n others, or unlike
        all, and run until their limits. cautious: see Pool.
        """
        if self.groups:
            return self._like_one_of_them(random, cautious)
        if not self.shares:
            return replace(self, shape=SHAPE * float(np.exp(SPREAD * random.standard_normal())), cautious=cautious)
        return self._weighted(random, cautious, float(random.standard_exponential()))

    def _like_one_of_them(self, random: np.random.Generator, cautious: bool) -> "Pool":
        """Return the distribution of one of the groups, or that of a group unlike all of them."""
        least = max(self.used, default=0.0)
        alike = np.cumsum([*(each.beyond(least) for each in self.groups), 1.0])
        place = int(np.searchsorted(alike, random.random() * alike[-1], side="right"))
        if place >= len(self.groups):
            return Pool((), self.grouped_by, cautious=True)
        return self.groups[place]._settled(random, cautious)

    def beyond(self, share: float) -> float:
        """Return the part of the known shares that are larger than a share; 1 if none is known."""
        if not self.shares:
            return 1.0
        return 1 - bisect_right(self.shares, share) / len(self.shares)

    def _settled(self, random: np.random.Generator, cautious: bool) -> "Pool":
        """Return a possible distribution of the shares of this very group."""
        return self._weighted(random, cautious, 0.0) if self.shares else self.again(random, cautious)

    def _weighted(self, random: np.random.Generator, cautious: bool, unlike: float) -> "Pool":
        """Return the known shares with the weights of a Bayesian bootstrap, which the jobs of a future have in common.

        The jobs that still run count as in the estimate of Kaplan and Meier (1958), since those that have ended are the
        shorter ones. unlike: the weight of a job that runs until its limit.
        """
        some = random.standard_exponential(len(self._order))[self._order]
        at_risk = unlike + np.cumsum(some[::-1])[::-1]
        over = self._order < len(self.shares)
        left = np.cumprod(np.where(over, 1 - some / at_risk, 1.0))
        ending = np.append(1.0, left[:-1]) - left
        shares, weights = (*self.shares, np.inf), (*ending[over].tolist(), max(float(left[-1]), 0.0))
        return replace(self, shares=shares, weights=weights, cautious=cautious)

    @cached_property
    def _order(self) -> Ints:
        """The order of the known shares, followed by those of jobs that run, which come later if equal."""
        runs = np.arange(len(self.shares) + len(self.used)) >= len(self.shares)
        order: Ints = np.lexsort((runs, np.array([*self.shares, *self.used])))
        return order


class RunTimes:
    """Shares of walltimes that ended jobs used: of the same user and name, else of the user, else of all.

    most: number of most recent ended jobs to remember; None for all.
    """

    def __init__(self, over: "Iterable[Job]" = (), most: int | None = None) -> None:
        self._shares: dict[tuple[str, ...], list[float]] = {}  # ascending
        self._longest: dict[tuple[str, str], int] = {}
        self._latest: deque[tuple[str, str, float]] = deque()
        self._used: dict[tuple[str, ...], list[float]] = {}
        self._known: tuple[Pool, ...] | None = None
        self._most = most
        for job in over:
            if job.says_how_long:
                self.learn(job.user, job.name, job.took, job.walltime, job.walltime + job.grace)

    def learn(self, user: str, name: str, ran: int, walltime: int, longest: int | None = None) -> None:
        """Learn the run time of an ended job; longest: the time that it could run, if not the walltime."""
        share = min(ran, walltime if longest is None else longest) / walltime
        self._known = None
        self._longest[user, name] = max(self._longest.get((user, name), 0), ran)
        for key in _keys(user, name):
            insort(self._shares.setdefault(key, []), share)
        if self._most is not None:
            self._latest.append((user, name, share))
            if len(self._latest) > self._most:
                self._forget(*self._latest.popleft())

    def watch(self, user: str, name: str, used: float) -> None:
        """Learn that a job which still runs has used this share of its walltime."""
        for key in _keys(user, name):
            self._used.setdefault(key, []).append(used)
        self._known = None

    def _forget(self, user: str, name: str, share: float) -> None:
        for key in _keys(user, name):
            shares = self._shares[key]
            del shares[bisect_left(shares, share)]

    def of(self, user: str, name: str) -> Pool:
        """Return the shares for jobs of this user and name."""
        for key, grouped_by in zip(_keys(user, name), ("user and name", "user", "all"), strict=True):
            if len(shares := self._shares.get(key, ())) >= (ENOUGH if key else 1):
                if not key:
                    return Pool(
                        tuple(shares), grouped_by, ("", user, ""), used=self._used_by((user,)), groups=self._users()
                    )
                return Pool(tuple(shares), grouped_by, key, used=self._used_by(key))
        return Pool((), "none")

    def _used_by(self, key: tuple[str, ...]) -> tuple[float, ...]:
        return tuple(self._used.get(key, ()))

    def _users(self) -> tuple[Pool, ...]:
        """Return the shares of each user with jobs that ended or run."""
        if self._known is None:
            keys = sorted({key for key in (*self._shares, *self._used) if len(key) == 1})
            groups = (Pool(tuple(self._shares.get(key, ())), "user", key, used=self._used_by(key)) for key in keys)
            self._known = tuple(groups)
        return self._known

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
