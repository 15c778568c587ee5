"""The starts that a policy reserved for jobs that wait, one after the other, and why: what `explain` tells of a job.

A pass may move thousands of them, and hardly anybody ever asks. So what a pass reserved is kept as it came; it is put
together for one job when somebody asks, and now and then what nobody will ask for is thrown away.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from backfill.core.numbers import Remembers
from backfill.model.promises import CAUSES
from backfill.model.workload import Ints

MOVES = 20  # of a job's reserved start that are remembered, and the first one
MANY = 20_000  # rows that are too few to be gone through
FORGET = -1  # in place of a start: the job has started
PASS, JOB, START, WHY = range(4)  # the last is `by` and, in its last bits, the cause
BITS = 4


@dataclass(frozen=True, slots=True)
class Move:
    """A start that the policy reserved for a job."""

    t: int
    start: int
    cause: str  # of model.promises.CAUSES
    by: int  # the job for which it made way; 0 none
    gone: list[int]  # the first jobs that ended at that instant


class Moves(Remembers):
    """The moves of the jobs that wait, by their numbers outside."""

    def __init__(self) -> None:
        self._table: Ints = np.zeros((0, 4), np.int64)
        self._rows = 0  # of it that are used
        self._passes: dict[int, tuple[int, list[int]]] = {}  # instant, and jobs that ended then
        self._number = self._most = 0  # the last pass; the most rows that came at once
        self._due = MANY

    def __copy__(self) -> Self:
        new = object.__new__(type(self))
        vars(new).update(vars(self), _passes=self._passes.copy())  # used rows are never changed: both may have them
        return new

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_table": self._table[: self._rows]}

    def note(self, now: int, gone: list[int], job: Ints, start: Ints, cause: Ints, by: Ints) -> None:
        """These jobs have got these starts, in this order."""
        self._number += 1
        self._passes[self._number] = now, gone
        rows = self._more(len(job))
        rows[:, PASS], rows[:, JOB], rows[:, START], rows[:, WHY] = self._number, job, start, (by << BITS) + cause

    def forget(self, job: int) -> None:
        """This job has started."""
        self._more(1)[0] = self._number, job, FORGET, 0

    def _more(self, many: int) -> Ints:
        """So many rows behind those that are used."""
        first, self._rows, self._most = self._rows, self._rows + many, max(many, self._most)
        if self._rows > len(self._table):
            self._grow(first)
        return self._table[first : self._rows]

    def _grow(self, used: int) -> None:
        longer = np.zeros((2 * (self._rows + self._most), 4), np.int64)
        longer[:used] = self._table[:used]
        self._table = longer

    def rest(self, waiting: Callable[[], Ints]) -> None:
        """Make room for as many moves as ever came at once. waiting: the jobs that wait."""
        if self._rows > self._due:
            self.tidy(waiting())
        if self._rows + self._most > len(self._table):
            self._grow(self._rows)

    def of(self, job: int) -> list[Move]:
        """Those of one job: the first, and the last ones of the others."""
        found: list[Move] = []
        rows = self._table[: self._rows]
        for number, _, start, why in rows[rows[:, JOB] == job].tolist():
            if start == FORGET:
                found = []
            elif not found or found[-1].start != start:
                now, gone = self._passes[number]
                found.append(Move(now, start, CAUSES[why & (1 << BITS) - 1], why >> BITS, gone))
        return [*found[:1], *found[1:][-MOVES:]]

    def tidy(self, waiting: Ints) -> None:
        """Keep what will be told of these jobs, and nothing else."""
        rows = self._table[: self._rows]
        rows = rows[np.isin(rows[:, JOB], waiting)]
        order = np.argsort(rows[:, JOB], kind="stable")
        kept = order[_told(*rows[order].T[[JOB, START]])]
        rows = rows[np.sort(kept)]
        self._table, self._rows, self._due = rows, len(rows), 2 * len(rows) + MANY
        self._passes = {number: self._passes[number] for number in np.unique(rows[:, PASS]).tolist()}


def _told(job: Ints, start: Ints) -> Ints:
    """Which rows of moves, job by job in the order of time, are told."""
    place = np.arange(len(job))
    begun = np.maximum.accumulate(np.where(start == FORGET, place, -1))  # the last start so far, of whatever job
    last = np.searchsorted(job, job, side="right") - 1
    some = place[(begun[last] < np.searchsorted(job, job)) | (place > begun[last])]
    job, start = job[some], start[some]
    new = np.append(True, (job[1:] != job[:-1]) | (start[1:] != start[:-1]))[: len(job)]
    some, job = some[new], job[new]
    place = np.arange(len(job))
    first, last = np.searchsorted(job, job), np.searchsorted(job, job, side="right") - 1
    found: Ints = some[(place == first) | (place >= last - MOVES)]  # one more: it must differ from the one before it
    return found
