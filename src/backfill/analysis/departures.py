"""The departures that projects were promised, every change of them, and how well they were kept."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backfill.analysis.projects import Spans
from backfill.analysis.promises import Change
from backfill.model.promises import CAUSES, MOVED, Promises
from backfill.model.schedule import NO_TIME, Schedule
from backfill.model.units import NEVER, SECOND
from backfill.model.workload import Ints, Workload

Codes = NDArray[np.int32]  # of Labels

SHOWN = 30  # projects listed one by one
KEPT, LATER, LATE = "kept", "later", "late"


@dataclass(frozen=True, eq=False, slots=True)
class Departures:
    """One row per promised departure, by project and then in the order of making; times in microseconds.

    A departure is the last end of a project's jobs, by promised starts and expected run times, at the end of an
    instant; jobs without a promise do not count.
    """

    project: Ints  # code of the project
    at: Ints  # when it was promised
    until: Ints  # the promised departure; NO_TIME: withdrawn
    cause: Ints  # index in CAUSES; of several jobs the last that was delayed for another, or the last
    job: Ints  # row of the job with that cause
    by: Ints  # row of the job that was preferred; -1 none
    first: Ints  # row here of the first promise of each project that has one, then the number of rows

    @classmethod
    def of(cls, promises: Promises, codes: Ints | Codes) -> "Departures":
        """Derive departures from promises. promises: those of all jobs. codes: each job's project, -1 none."""
        rows = np.argsort(codes[promises.job], kind="stable")
        mine = promises.take(rows[codes[promises.job[rows]] >= 0])
        project, many = codes[mine.job].astype(np.int64), len(mine)
        highest = _highest(_until_the_next(mine.job, project), mine.end)
        last = np.flatnonzero(_changes(project, mine.at, at_end=True))  # the last row of each project at each instant
        begin = np.append(0, last[:-1] + 1)[: len(last)]
        moved = np.maximum.reduceat(np.where(mine.cause == MOVED, np.arange(many), -1), begin) if many else last
        new = _changes(project[last])
        shown = np.flatnonzero(_changes(project[last], highest[last]) & ~(new & (highest[last] == NO_TIME)))
        why = np.where(moved >= 0, moved, last)[shown]
        of, until = project[last][shown], highest[last][shown]
        first = np.append(np.flatnonzero(_changes(of)), len(of))
        return cls(of, mine.at[why], until, mine.cause[why], mine.job[why], mine.by[why], first)

    def __len__(self) -> int:
        return len(self.at)

    def changes(self, row: int) -> list[Change]:
        """Return the promises of a project; row: the index of its first one in `first`."""
        span = slice(self.first[row], self.first[row + 1])
        columns = (each[span].tolist() for each in (self.at, self.until, self.cause, self.job, self.by))
        return [Change(at, until, CAUSES[cause], job, by) for at, until, cause, job, by in zip(*columns, strict=True)]

    @property
    def moves(self) -> Ints:
        """Return the distance of each promise from the previous one: later > 0, earlier < 0, 0 if unmoved.

        A change caused only by new jobs of the project is not a move.
        """
        far = np.diff(self.until, prepend=0)
        there = self.until != NO_TIME
        far[(self.cause == 0) | ~there | ~np.append(False, there[:-1])] = 0
        far[self.first[:-1]] = 0
        return far

    @property
    def promised(self) -> tuple[Ints, Ints]:
        """The first and the last departure that each project was promised."""
        begin = self.first[:-1]
        last = np.maximum.reduceat(np.where(self.until != NO_TIME, np.arange(len(self)), 0), begin)
        return self.until[begin], self.until[last]


def _changes(*columns: Ints, at_end: bool = False) -> Any:
    """Return the mask of rows that differ in any column from the row before, or at_end after; the end row does."""
    differs = np.zeros(max(len(columns[0]) - 1, 0), np.bool_)
    for column in columns:
        differs |= column[1:] != column[:-1]
    edge = np.ones(min(len(columns[0]), 1), np.bool_)
    return np.concatenate([differs, edge] if at_end else [edge, differs])


def _until_the_next(job: Ints, project: Ints) -> Ints:
    """Return the next row of the same job, or the end of its project's rows; projects are in order."""
    past = np.searchsorted(project, project, side="right")
    order = np.argsort(job, kind="stable")
    again = np.flatnonzero(job[order[1:]] == job[order[:-1]])
    past[order[again]] = order[again + 1]
    return past


def _highest(past: Ints, values: Ints) -> Ints:
    """Return at each index the maximum of the values in force there: values[i] is in force from i until before past[i].

    As in a sparse table: two spans of 2^k indices cover each range, and are halved until their length is one.
    """
    greatest = np.full(len(values), NO_TIME)
    first = np.arange(len(values))
    size = np.log2(np.maximum(past - first, 1)).astype(np.int64)
    for k in range(int(size.max(initial=0)), -1, -1):
        here = np.flatnonzero(size == k)
        np.maximum.at(greatest, here, values[here])
        np.maximum.at(greatest, past[here] - (1 << k), values[here])
        if k:
            half = 1 << (k - 1)
            greatest[half:] = np.maximum(greatest[half:], greatest.copy()[:-half])
    return greatest


def departures(promises: Promises, rows: Ints, jobs: int) -> list[Change]:
    """Return the promised departures of the project with these rows."""
    codes = np.full(jobs, -1)
    codes[rows] = 0
    promised = Departures.of(promises, codes)
    return promised.changes(0) if len(promised) else []


def departure_metrics(
    departures: Departures, workload: Workload, schedule: Schedule, there: NDArray[np.bool_]
) -> dict[str, float | int | None]:
    """Return metrics of how promised departures of projects changed and were kept; empty if none was promised.

    there: the mask of jobs outside warm-up and cool-down, shape (jobs,); only projects with all jobs in it
    count.

    promised_projects: those with a promised departure and all jobs run. moved_departures: the number of changes
    of a promised departure, except by later jobs of the project. moved_projects: projects with such
    a change, made_way_projects: with one in favour of another job. mean_departure_move_s, max_departure_move_s: the
    distance, earlier or later. kept_departures: projects whose last job ended no later than first promised,
    kept_last_departures: no later than last promised. mean_departure_slip_s, max_departure_slip_s: last end - first
    promise, for those that departed later.
    """
    if not len(departures):
        return {}
    spans = Spans.of(workload, schedule, np.flatnonzero(schedule.ran))
    codes = workload.jobs.project.codes
    counts = np.ones(len(spans.whole), np.bool_)
    counts[codes[(codes >= 0) & ~there]] = False
    project = departures.project[departures.first[:-1]]
    first, last = departures.promised
    whole = (spans.whole & counts)[project]
    slip = (spans.end[project] - first)[whole]
    far = departures.moves
    moved = np.flatnonzero((far != 0) & counts[departures.project])
    mean_move, max_move = _mean_and_most(np.abs(far[moved]))
    mean_slip, max_slip = _mean_and_most(slip[slip > 0])
    return {
        "promised_projects": int(whole.sum()),
        "moved_departures": len(moved),
        "moved_projects": len(np.unique(departures.project[moved])),
        "made_way_projects": len(np.unique(departures.project[moved][departures.cause[moved] == MOVED])),
        "mean_departure_move_s": mean_move,
        "max_departure_move_s": max_move,
        "kept_departures": int((slip <= 0).sum()),
        "kept_last_departures": int((spans.end[project] <= last)[whole].sum()),
        "mean_departure_slip_s": mean_slip,
        "max_departure_slip_s": max_slip,
    }


def _mean_and_most(times: Ints) -> tuple[float | None, float | None]:
    seconds = times / SECOND
    return (float(seconds.mean()), float(seconds.max())) if len(seconds) else (None, None)


def farthest(runs: Sequence[tuple[Departures, Schedule]], workload: Workload, most: int = SHOWN) -> Ints:
    """Return the codes of at most `most` projects whose departures moved farthest in total, in order of submit.

    The total is the largest over the runs. Ties, such as projects without a move, go to those that departed latest
    after their first promise.
    """
    many = len(workload.jobs.project.names)
    far, slip, promised = np.zeros(many, np.int64), np.full(many, NO_TIME), np.zeros(many, np.bool_)
    for departures, schedule in runs:
        project = departures.project[departures.first[:-1]]
        promised[project] = True
        far[project] = np.maximum(far[project], np.add.reduceat(np.abs(departures.moves), departures.first[:-1]))
        spans = Spans.of(workload, schedule, np.flatnonzero(schedule.ran))
        late = np.where(spans.whole[project], spans.end[project] - departures.promised[0], 0)
        slip[project] = np.maximum(slip[project], late)
    codes, submit = np.flatnonzero(promised), _first_submits(workload)
    chosen = codes[np.lexsort((submit[codes], -slip[codes], -far[codes]))[:most]]
    ordered: Ints = chosen[np.argsort(submit[chosen], kind="stable")]
    return ordered


def project_promises(departures: Departures, workload: Workload, schedule: Schedule, codes: Ints) -> dict[str, Any]:
    """Return the promises to the projects of these codes, for JSON. found: whether there is at least one promise."""
    spans = Spans.of(workload, schedule, np.flatnonzero(schedule.ran))
    submit = _first_submits(workload)
    row = {code: row for row, code in enumerate(departures.project[departures.first[:-1]].tolist())}
    return {
        "promised": len(row),
        "first_submit_s": int(workload.jobs.submit.min()) / SECOND,
        "shown": [
            _promise_facts(departures, row[code], workload, spans, submit) for code in codes.tolist() if code in row
        ],
    }


def _first_submits(workload: Workload) -> Ints:
    """Return the first submit of each project, including projects without a run."""
    codes = workload.jobs.project.codes
    members = codes >= 0
    firsts = np.full(len(workload.jobs.project.names), NEVER)
    np.minimum.at(firsts, codes[members], workload.jobs.submit[members])
    return firsts


def _promise_facts(departures: Departures, row: int, workload: Workload, spans: Spans, submits: Ints) -> dict[str, Any]:
    code = int(departures.project[departures.first[row]])
    promises = departures.changes(row)
    began, departed = spans.jobs[code] > 0, bool(spans.whole[code])
    end = int(spans.end[code])
    return {
        "project": workload.jobs.project.names[code],
        "jobs": int((workload.jobs.project.codes == code).sum()),
        "submit_s": int(submits[code]) / SECOND,
        "start_s": int(spans.start[code]) / SECOND if began else None,
        "end_s": end / SECOND if departed else None,
        "result": verdict([each.until for each in promises if each.until != NO_TIME], end) if departed else None,
        "promises": [each.to_dict(workload, project=True) for each in promises],
    }


def verdict(promised: Sequence[int], end: int) -> str:
    """Return the promise, first or last, that the departure at `end` kept."""
    return KEPT if end <= promised[0] else LATER if end <= promised[-1] else LATE
