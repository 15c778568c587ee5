"""The rows on which each job is drawn; `static/rows.js` implements the same rule, and a test compares them.

A row is a processor, node after node, or a copy of a licence, below them. A schedule states a job's nodes and
its number of processors there, not which ones. So it gets the lowest hole of that node that holds all of it, else the
lowest free rows, in pieces; and likewise for each licence that it holds.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import fields, replace
from itertools import pairwise
from typing import Any

import numpy as np

from backfill.analysis.farm import licence_items
from backfill.model.platform import Platform
from backfill.model.schedule import NO_TIME, Runs, Schedule
from backfill.model.workload import Ints, Workload


class Holes:
    """The free rows of one node or licence: holes [low, high) in order."""

    def __init__(self, floor: int, top: int) -> None:
        self.low, self.high = [floor], [top]

    def take(self, wanted: int) -> list[tuple[int, int]]:
        """Take the pieces for a job of `wanted` rows; fewer rows if not enough are free."""
        low, high = self.low, self.high
        for i in range(len(low)):
            if high[i] - low[i] >= wanted:
                piece = (low[i], low[i] + wanted)
                low[i] += wanted
                if low[i] == high[i]:
                    del low[i], high[i]
                return [piece]
        pieces = []
        while low and wanted:
            size = min(wanted, high[0] - low[0])
            pieces.append((low[0], low[0] + size))
            wanted -= size
            low[0] += size
            if low[0] == high[0]:
                del low[0], high[0]
        return pieces

    def give(self, begin: int, end: int) -> None:
        """Release a piece."""
        low, high = self.low, self.high
        i = bisect_left(low, begin)
        below, above = i > 0 and high[i - 1] == begin, i < len(low) and low[i] == end
        if below and above:
            high[i - 1] = high.pop(i)
            del low[i]
        elif below:
            high[i - 1] = end
        elif above:
            low[i] = begin
        else:
            low.insert(i, begin)
            high.insert(i, end)


def licence_lanes(workload: Workload, platform: Platform) -> Ints:
    """Return the licences of the platform that have rows: those that some job requests."""
    return np.unique(licence_items(workload, platform, np.arange(len(workload)))[1])


def lanes(workload: Workload, platform: Platform) -> tuple[list[str], Ints]:
    """Return the names of nodes and then of licences with rows, and the first row of each, ending with the total."""
    licences = licence_lanes(workload, platform)
    names, copies = [*platform.all_licences], [*platform.all_licences.values()]
    tall = np.array([0, *platform.capacity[:, 0].tolist(), *(copies[i] for i in licences.tolist())], np.int64)
    return [*platform.nodes, *(names[i] for i in licences.tolist())], np.cumsum(tall)


def licences_of(workload: Workload, platform: Platform, rows: Ints) -> tuple[Ints, Ints, Ints]:
    """Return the licence requests of the jobs `rows`, in order: (index in `rows`, index among the licences with rows,
    copies), one item per licence.
    """
    job, licence, copies = licence_items(workload, platform, rows)
    return job, np.searchsorted(licence_lanes(workload, platform), licence), copies


def boxes(schedule: Schedule) -> Runs:
    """Return the runs for which the chart has a box: the last run of each job, in order of jobs, and then the earlier
    runs.

    A job that never ran has a start of NO_TIME there.
    """
    rows, progress = np.arange(len(schedule)), np.zeros(len(schedule), np.int64)
    columns = (schedule.start, schedule.end, schedule.state, schedule.reason, schedule.held)
    every = schedule.all_runs
    progress[every.job] = every.progress  # the last of several runs is written last
    last = Runs(rows, *columns, progress)
    if schedule.runs is None:
        return last
    runs = schedule.runs.take(np.flatnonzero(schedule.runs.job[1:] == schedule.runs.job[:-1]))
    names = {column.name for column in fields(Runs)} - {"held", "turns"}  # a box is as long as its run
    joined: dict[str, Any] = {name: np.concatenate([getattr(last, name), getattr(runs, name)]) for name in names}
    return Runs(held=last.held + runs.held, **joined)


def with_rows(platform: Platform, schedules: Sequence[Schedule]) -> Platform:
    """Return the platform with the cpus of all rows that take turns, so that the chart has a place for each run."""
    most = max((int(each.all_runs.spans.of.max(initial=1)) for each in schedules), default=1)
    times = np.where(np.arange(platform.capacity.shape[1]) == 0, most, 1)
    return replace(platform, capacity=platform.capacity * times)


def lay_out(workload: Workload, platform: Platform, schedule: Schedule) -> Ints:
    """Return the pieces of all boxes in order of start: shape (pieces, 3), index in `boxes`, rows [low, high)."""
    floor = lanes(workload, platform)[1].tolist()
    holes = [Holes(low, high) for low, high in pairwise(floor)]
    box = boxes(schedule)
    rank = np.argsort(workload.jobs.submit, kind="stable")
    place = np.empty(len(box), np.int64)
    place[rank] = np.arange(len(rank))
    again = len(rank) + np.argsort(place[box.job[len(rank) :]], kind="stable")  # the runs before the last ones
    place[again] = np.arange(len(rank), len(box))
    ran = np.flatnonzero(box.start != NO_TIME)
    starts = ran[np.lexsort((place[ran], box.start[ran]))].tolist()
    ends = ran[np.lexsort((place[ran], box.end[ran]))]
    ends = ends[box.end[ends] > box.start[ends]].tolist()
    licences = _licences(workload, platform)
    taken: dict[int, list[tuple[int, int, int]]] = {}
    pieces_of: list[tuple[int, int, int]] = []
    ended = 0
    for run in starts:
        while ended < len(ends) and box.end[ends[ended]] <= box.start[run]:
            for lane, low, high in taken.pop(ends[ended]):
                holes[lane].give(low, high)
            ended += 1
        job = int(box.job[run])
        each = int(workload.jobs.demand[job, 0])
        wanted = [(node, tasks * each) for node, tasks in box.held[run].reshape(-1, 2).tolist()]
        wanted += licences.get(job, ())
        pieces = [(lane, low, high) for lane, rows in wanted for low, high in holes[lane].take(rows)]
        pieces_of += [(run, low, high) for _, low, high in pieces]
        taken[run] = pieces
        if box.end[run] == box.start[run]:
            for lane, low, high in taken.pop(run):
                holes[lane].give(low, high)
    return np.array(pieces_of, np.int64).reshape(-1, 3)


def _licences(workload: Workload, platform: Platform) -> dict[int, list[tuple[int, int]]]:
    """Return the lanes of each job's licences: job -> (lane, copies); they follow those of the nodes."""
    lanes: dict[int, list[tuple[int, int]]] = {}
    for job, lane, copies in zip(*licences_of(workload, platform, np.arange(len(workload))), strict=True):
        lanes.setdefault(int(job), []).append((len(platform.nodes) + int(lane), int(copies)))
    return lanes
