"""On which processor rows each job is drawn; `static/rows.js` is the same rule for the page, and a test compares them.

A schedule says on which node a job runs and with how many processors, not with which. So it gets the lowest hole of
that node that takes it whole, else the lowest free rows, in pieces.
"""

from bisect import bisect_left
from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from backfill.model.platform import Platform
from backfill.model.schedule import Schedule
from backfill.model.workload import Ints, Workload


class Holes:
    """The free rows of one node: holes [low, high) in order."""

    def __init__(self, floor: int, top: int) -> None:
        self.low, self.high = [floor], [top]

    def take(self, wanted: int) -> list[tuple[int, int]]:
        """The pieces that a job of that many rows gets; fewer rows where there are not as many."""
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
        """Take back a piece."""
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


def lay_out(workload: Workload, platform: Platform, schedule: Schedule) -> Ints:
    """The pieces of all jobs in order of start: shape (pieces, 3), job (its row), lowest processor row and the one
    above the highest."""
    floor = np.concatenate([[0], np.cumsum(platform.capacity[:, 0])]).tolist()
    holes = [Holes(low, high) for low, high in pairwise(floor)]
    rank = np.argsort(workload.jobs.submit, kind="stable")
    place = np.empty(len(rank), np.int64)
    place[rank] = np.arange(len(rank))
    ran = np.flatnonzero(schedule.ran)
    starts = ran[np.lexsort((place[ran], schedule.start[ran]))].tolist()
    ends = ran[np.lexsort((place[ran], schedule.end[ran]))]
    ends = ends[schedule.end[ends] > schedule.start[ends]].tolist()
    taken: dict[int, list[tuple[int, int, int]]] = {}
    found: list[tuple[int, int, int]] = []
    ended = 0
    for job in starts:
        while ended < len(ends) and schedule.end[ends[ended]] <= schedule.start[job]:
            for node, low, high in taken.pop(ends[ended]):
                holes[node].give(low, high)
            ended += 1
        pieces = [
            (node, low, high) for node, rows in _wanted(workload, schedule, job) for low, high in holes[node].take(rows)
        ]
        found += [(job, low, high) for _, low, high in pieces]
        taken[job] = pieces
        if schedule.end[job] == schedule.start[job]:
            for node, low, high in taken.pop(job):
                holes[node].give(low, high)
    return np.array(found, np.int64).reshape(-1, 3)


def _wanted(workload: Workload, schedule: Schedule, job: int) -> Iterator[tuple[int, int]]:
    """(node, processors on it) of a job."""
    each = int(workload.jobs.demand[job, 0])
    for node, tasks in schedule.held[job].reshape(-1, 2).tolist():
        yield node, tasks * each
