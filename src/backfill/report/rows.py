"""The rows on which each job is drawn; `static/rows.js` implements the same rule, and a test compares them.

A row is a processor, node after node, or a copy of a licence, below them. A schedule states a job's nodes and
its number of processors there, not which ones. So it gets the lowest hole of that node that holds all of it, else the
lowest free rows, in pieces; and likewise for each licence that it holds.

Where rows of jobs take turns on the processors, as in a gang matrix, the chart has the platform once for each of these
turns, and a job has boxes in each turn in which it runs, for as long as it does.
"""

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from typing import Any

import numpy as np

from backfill.analysis.farm import licence_items
from backfill.model.platform import Platform
from backfill.model.schedule import NO_TIME, Runs, Schedule
from backfill.model.workload import Ints, Ragged, Workload


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


def lanes(workload: Workload, platform: Platform, turns: int = 1) -> tuple[list[str], Ints]:
    """Return the names of nodes and then of licences with rows, and the first row of each, ending with the total."""
    licences = licence_lanes(workload, platform)
    names, copies = [*platform.all_licences], [*platform.all_licences.values()]
    cpus = platform.capacity[:, 0].tolist() * turns
    tall = np.array([0, *cpus, *(copies[i] for i in licences.tolist())], np.int64)
    return [*node_names(platform, turns), *(names[i] for i in licences.tolist())], np.cumsum(tall)


def node_names(platform: Platform, turns: int = 1) -> list[str]:
    """Return the names of all nodes in each turn; of the turns themselves if there is only one node."""
    if turns > 1 and len(platform.nodes) == 1:
        return turn_names(turns)
    return [*platform.nodes] * turns


def turn_names(turns: int) -> list[str]:
    """Return the names of the turns, which are the rows of a gang matrix."""
    return [f"row {turn + 1}" for turn in range(turns)]


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
    return _joined(last, runs)


def _joined(some: Runs, others: Runs) -> Runs:
    """Return the runs of both, in this order; without turns."""
    names = {column.name for column in fields(Runs)} - {"held", "turns"}
    joined: dict[str, Any] = {name: np.concatenate([getattr(some, name), getattr(others, name)]) for name in names}
    return Runs(held=some.held + others.held, **joined)


def turns_of(schedules: Iterable[Schedule]) -> int:
    """Return the greatest number of turns that any of the schedules has; 1 if no runs share processors."""
    return max((int(each.all_runs.spans.of.max(initial=1)) for each in schedules), default=1)


@dataclass(frozen=True, eq=False, slots=True)
class Stretches:
    """For how long runs have each of their turns, in order of box, turn and time."""

    box: Ints  # index in `boxes`
    turn: Ints  # from 0
    start: Ints
    end: Ints

    @classmethod
    def of(cls, schedule: Schedule) -> "Stretches":
        """Return those of the boxes of a schedule; none if its runs share no processors."""
        runs, box = schedule.all_runs, boxes(schedule)
        if runs.turns is None:
            return cls(*(np.zeros(0, np.int64) for _ in range(4)))
        spans, found = runs.spans, []
        for turn in range(turns_of([schedule])):
            there = np.flatnonzero((spans.rows >> turn) & 1 == 1)
            there = there[(spans.start < spans.end)[there] | (runs.length[spans.run[there]] == 0)]
            run, start, end = spans.run[there], spans.start[there], spans.end[there]
            goes_on = np.append(False, (run[1:] == run[:-1]) & (start[1:] == end[:-1]))[: len(run)]
            first = np.flatnonzero(~goes_on)
            last = np.append(first[1:], len(run))[: len(first)] - 1
            found.append((run[first], np.full(len(first), turn), start[first], end[last]))
        run, turn_of, start, end = (np.concatenate(columns) for columns in zip(*found, strict=True))
        of_run = np.empty(len(runs), np.int64)
        again = np.append(runs.job[1:] == runs.job[:-1], False)[: len(runs)]
        of_run[~again], of_run[again] = runs.job[~again], np.arange(len(schedule), len(box))
        order = np.lexsort((start, turn_of, of_run[run]))
        return cls(of_run[run][order], turn_of[order], start[order], end[order])


def drawn(schedule: Schedule) -> Runs:
    """Return what the chart draws: the boxes; if runs share processors, then the stretches of their turns.

    Then a box holds no processors itself, and each stretch those of the nodes in its turn.
    """
    box = boxes(schedule)
    if not schedule.shares:
        return box
    stretches = Stretches.of(schedule)
    each = box.take(stretches.box)
    held = each.held.items.reshape(-1, 2).copy()
    held[:, 0] += np.repeat(stretches.turn * len(schedule.nodes), np.diff(each.held.first) // 2)
    each = replace(each, start=stretches.start, end=stretches.end, held=Ragged(each.held.first, held.reshape(-1)))
    return _joined(replace(box, held=Ragged.empty(len(box))), each)


def lay_out(workload: Workload, platform: Platform, schedule: Schedule) -> Ints:
    """Return the pieces of all boxes in order of start: shape (pieces, 3), index in `drawn`, rows [low, high)."""
    turns, box = turns_of([schedule]), drawn(schedule)
    holes = [Holes(low, high) for low, high in pairwise(lanes(workload, platform, turns)[1].tolist())]
    place, count = _order(workload, boxes(schedule)), len(boxes(schedule))
    if schedule.shares:
        stretches = np.argsort(place[Stretches.of(schedule).box], kind="stable")
        place = np.append(place, count + np.argsort(stretches))
    ran = np.flatnonzero(box.start != NO_TIME)
    starts = ran[np.lexsort((place[ran], box.start[ran]))].tolist()
    ends = ran[np.lexsort((place[ran], box.end[ran]))]
    ends = ends[box.end[ends] > box.start[ends]].tolist()
    licences = _licences(workload, platform, turns)
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
        wanted += licences.get(job, ()) if run < count else ()
        pieces = [(lane, low, high) for lane, rows in wanted for low, high in holes[lane].take(rows)]
        pieces_of += [(run, low, high) for _, low, high in pieces]
        taken[run] = pieces
        if box.end[run] == box.start[run]:
            for lane, low, high in taken.pop(run):
                holes[lane].give(low, high)
    return np.array(pieces_of, np.int64).reshape(-1, 3)


def _order(workload: Workload, box: Runs) -> Ints:
    """Return the place of each box in the order of ties: by submit of its job, the runs before the last ones later."""
    rank = np.argsort(workload.jobs.submit, kind="stable")
    place = np.empty(len(box), np.int64)
    place[rank] = np.arange(len(rank))
    again = len(rank) + np.argsort(place[box.job[len(rank) :]], kind="stable")
    place[again] = np.arange(len(rank), len(box))
    return place


def _licences(workload: Workload, platform: Platform, turns: int) -> dict[int, list[tuple[int, int]]]:
    """Return the lanes of each job's licences: job -> (lane, copies); they follow those of the nodes."""
    lanes: dict[int, list[tuple[int, int]]] = {}
    for job, lane, copies in zip(*licences_of(workload, platform, np.arange(len(workload))), strict=True):
        lanes.setdefault(int(job), []).append((turns * len(platform.nodes) + int(lane), int(copies)))
    return lanes
