"""History of the starts that a policy reserved for waiting jobs, with causes; shown by `explain`.

A pass may move thousands of them, and they are rarely requested. So the reservations of a pass are stored unprocessed;
the history of one job is assembled on request, and old entries are dropped from time to time.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from backfill.core.numbers import Remembers
from backfill.model.promises import CAUSES
from backfill.model.workload import Ints

MOVES = 20  # remembered moves of a job, besides the first one
MANY = 20_000  # fewer rows than this are not tidied
FORGET = -1  # in place of a start: the job has started
PASS, JOB, START, WHY = range(4)  # the last is `by` shifted left, with the cause in the low bits
BITS = 4


@dataclass(frozen=True, slots=True)
class Move:
    """A start that the policy reserved for a job."""

    t: int
    start: int
    cause: str  # one of model.promises.CAUSES
    by: int  # the job for which it made way; 0 for none
    gone: list[int]  # the first jobs that ended at that instant


class Moves(Remembers):
    """The moves of waiting jobs, by job number."""

    def __init__(self) -> None:
        self._table: Ints = np.zeros((0, 4), np.int64)
        self._rows = 0  # number of rows in use
        self._passes: dict[int, tuple[int, list[int]]] = {}  # instant, and jobs that ended then
        self._number = self._most = 0  # the last pass; the largest number of rows added at once
        self._due = MANY

    def __copy__(self) -> Self:
        new = object.__new__(type(self))
        vars(new).update(vars(self), _passes=self._passes.copy())  # used rows never change, so both may share them
        return new

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_table": self._table[: self._rows]}

    def note(self, now: int, gone: list[int], job: Ints, start: Ints, cause: Ints, by: Ints) -> None:
        """Record that these jobs got these starts, in this order."""
        self._number += 1
        self._passes[self._number] = now, gone
        rows = self._more(len(job))
        rows[:, PASS], rows[:, JOB], rows[:, START], rows[:, WHY] = self._number, job, start, (by << BITS) + cause

    def forget(self, job: int) -> None:
        """Record that this job has started."""
        self._more(1)[0] = self._number, job, FORGET, 0

    def _more(self, many: int) -> Ints:
        """Return `many` unused rows behind those in use."""
        first, self._rows, self._most = self._rows, self._rows + many, max(many, self._most)
        if self._rows > len(self._table):
            self._grow(first)
        return self._table[first : self._rows]

    def _grow(self, used: int) -> None:
        longer = np.zeros((2 * (self._rows + self._most), 4), np.int64)
        longer[:used] = self._table[:used]
        self._table = longer

    def rest(self, waiting: Callable[[], Ints]) -> None:
        """Make space for as many moves as were ever added at once. waiting: returns the waiting jobs."""
        if self._rows > self._due:
            self.tidy(waiting())
        if self._rows + self._most > len(self._table):
            self._grow(self._rows)

    def of(self, job: int) -> list[Move]:
        """Return the moves of one job: the first, and the last ones of the others."""
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
        """Drop all rows that the histories of these jobs do not need."""
        rows = self._table[: self._rows]
        rows = rows[np.isin(rows[:, JOB], waiting)]
        order = np.argsort(rows[:, JOB], kind="stable")
        kept = order[_in_history(*rows[order].T[[JOB, START]])]
        rows = rows[np.sort(kept)]
        self._table, self._rows, self._due = rows, len(rows), 2 * len(rows) + MANY
        self._passes = {number: self._passes[number] for number in np.unique(rows[:, PASS]).tolist()}


def _in_history(job: Ints, start: Ints) -> Ints:
    """Return which rows of moves, ordered by job and time, are part of a history."""
    place = np.arange(len(job))
    begun = np.maximum.accumulate(np.where(start == FORGET, place, -1))  # the last start so far, of any job
    last = np.searchsorted(job, job, side="right") - 1
    some = place[(begun[last] < np.searchsorted(job, job)) | (place > begun[last])]
    job, start = job[some], start[some]
    new = np.append(True, (job[1:] != job[:-1]) | (start[1:] != start[:-1]))[: len(job)]
    some, job = some[new], job[new]
    place = np.arange(len(job))
    first, last = np.searchsorted(job, job), np.searchsorted(job, job, side="right") - 1
    found: Ints = some[(place == first) | (place >= last - MOVES)]  # one more: it must differ from the one before it
    return found
