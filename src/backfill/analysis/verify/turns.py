"""Runs that share processors: rows of them take turns, and each makes progress only in its own turns.

Rule `turns`: a run has turns from its start on, in some of the rows that all share at that instant, and no
more rows than allowed. The length of a run follows from its turns; the load of a row is checked by `capacity.py`.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from backfill.analysis.verify.case import Case, ScheduleColumns
from backfill.analysis.verify.times import Lengths
from backfill.model.schedule import NO_TIME, Schedule
from backfill.model.workload import Ints, Ragged

MILLION = 1_000_000


@dataclass(frozen=True, eq=False, slots=True)
class Turns:
    """Intervals with constant turns of a run, in order of run and time."""

    run: Ints
    since: Ints
    until: Ints
    rows: Ints  # as bits
    of: Ints
    first: Ints  # shape (runs + 1,): the intervals of each run
    most: int  # maximum number of rows
    switching: int  # millionths of a turn used by a switch

    @classmethod
    def of_schedule(cls, case: Case, schedule: Schedule | ScheduleColumns, most: int, switching: int) -> "Turns":
        """Return the turns that the schedule states; for a run without any, all of its processors."""
        runs = case.runs
        stated: Any = None if schedule.runs is None else schedule.runs.turns
        if stated is None:
            items = np.column_stack([runs.start, np.ones((len(runs), 2), np.int64)])
            stated = Ragged(3 * np.arange(len(runs) + 1), items.reshape(-1))
        else:
            stated = stated.take(runs.line)
        since, rows, of = stated.items.reshape(-1, 3).T
        first = stated.first // 3
        until = np.append(since[1:], NO_TIME)
        filled = np.flatnonzero(np.diff(first))
        until[first[filled + 1] - 1] = runs.end[filled]
        return cls(np.repeat(np.arange(len(runs)), np.diff(first)), since, until, rows, of, first, most, switching)

    def in_row(self, row: int) -> Ints:
        """Return the intervals in which a run has turns in a row, counted from 0."""
        return np.flatnonzero((self.rows >> row) & 1 == 1)


def check_turns(case: Case, turns: Turns) -> Turns:
    """Check that each run has turns from start to end, in existing rows. Returns the turns; full turns on failure."""
    report, ids, runs = case.report, case.workload.jobs.job, case.runs

    def complain(run: int, time: int | None, text: str) -> None:
        report.add("turns", ids[runs.job[run]], time, text)

    begin = np.append(turns.since, NO_TIME)[turns.first[:-1]]
    absent = (np.diff(turns.first) == 0) | (begin != runs.start)
    for i in report.each("turns", absent):
        complain(i, runs.start[i], "has no turns from its start on")
    inner = np.append(turns.run[1:] == turns.run[:-1], False)[: len(turns.run)]
    back = inner & (turns.until <= turns.since) | ~inner & (turns.until < turns.since) & (turns.until != NO_TIME)
    for i in report.each("turns", back):
        complain(turns.run[i], turns.since[i], "its turns are not in order of time, or begin after its end")
    strange = (turns.of < 1) | (turns.of > turns.most) | (turns.rows < 1)
    strange |= turns.rows >= np.int64(1) << np.clip(turns.of, 0, 62)
    for i in report.each("turns", strange):
        complain(turns.run[i], turns.since[i], f"has turns in rows that do not exist; expected some of {turns.most}")
    if absent.any() or back.any() or strange.any():
        whole = np.ones(len(runs), np.int64)
        first = np.arange(len(runs) + 1)
        return replace(turns, run=first[:-1], since=runs.start, until=runs.end, rows=whole, of=whole, first=first)
    for stretch, other in _at_odds(turns):
        if report.each("turns", np.ones(1, np.bool_)):
            text = f"takes turns of {turns.of[stretch]} rows, while job {ids[runs.job[turns.run[other]]]} does of "
            complain(turns.run[stretch], turns.since[stretch], text + str(turns.of[other]))
    return turns


def _at_odds(turns: Turns) -> list[tuple[int, int]]:
    """Return pairs of intervals at one instant that disagree on the number of rows, the later one first."""
    lasting = np.flatnonzero(turns.since < turns.until)
    order = lasting[np.argsort(turns.since[lasting], kind="stable")]
    latest: dict[int, int] = {}  # number of rows -> the interval so far that ends last
    pairs = []
    for stretch, since, until, of in zip(
        order.tolist(), *(each[order].tolist() for each in (turns.since, turns.until, turns.of)), strict=True
    ):
        pairs += [(stretch, other) for rows, other in latest.items() if rows != of and turns.until[other] > since]
        if of not in latest or until > turns.until[latest[of]]:
            latest[of] = stretch
    return pairs


def in_turns(case: Case, lengths: Lengths, turns: Turns) -> Lengths:
    """Return the length of each run by its turns, in which it makes the progress that `lengths` requires.

    `extra` is then the part of a run, as stated, in which it made no progress.
    """
    unit = math.lcm(*range(1, turns.most + 1)) * MILLION  # units per microsecond
    paces = _paces(turns, unit)
    bounds = zip(lengths.shortest.tolist(), lengths.longest.tolist(), strict=True)
    shortest, longest, extra = np.zeros((3, len(case.runs)), np.int64)
    starts, ends = case.runs.start.tolist(), case.runs.end.tolist()
    since, first = turns.since.tolist(), turns.first.tolist()
    for run, (low, high) in enumerate(bounds):
        mine = range(first[run], first[run + 1])
        stretches = [(since[i], since[i + 1] if i + 1 < mine.stop else None, paces[i]) for i in mine]
        shortest[run] = _when(stretches, low * unit) - starts[run]
        longest[run] = shortest[run] if high == low else _when(stretches, high * unit) - starts[run]
        if ends[run] != NO_TIME:
            made = sum(((ends[run] if until is None else until) - t) * pace for t, until, pace in stretches)
            extra[run] = ends[run] - starts[run] - made // unit
    slowest = turns.most * MILLION // (MILLION - turns.switching) + 1
    return replace(
        lengths, shortest=shortest, longest=longest, extra=extra, rounding=lengths.rounding * np.int64(slowest)
    )


def _paces(turns: Turns, unit: int) -> list[int]:
    """Return the progress of each interval per microsecond, in units."""
    rows = sum((turns.rows >> row) & 1 for row in range(turns.most))
    lost = np.where(turns.of > 1, turns.switching, 0)
    counts = zip(np.asarray(rows).tolist(), turns.of.tolist(), lost.tolist(), strict=True)
    return [count * (unit // MILLION // of) * (MILLION - less) for count, of, less in counts]


def _when(stretches: list[tuple[int, int | None, int]], asked: int) -> int:
    """Return the first microsecond at which this much progress has been made."""
    for since, until, pace in stretches:
        if until is None or asked <= (until - since) * pace:
            return since + max(-(-asked // pace), 0)
        asked -= (until - since) * pace
    raise AssertionError("the last stretch has no end")
