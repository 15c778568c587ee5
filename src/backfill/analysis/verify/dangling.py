"""Runs that start before the predecessors of their job have ended: they hold their resources, and wait, until then."""

from dataclasses import replace

import numpy as np

from backfill.analysis.outages import Replay
from backfill.analysis.verify.case import Case, Overrun, items_of
from backfill.analysis.verify.times import Lengths, lengths_of
from backfill.model.schedule import NO_TIME, NODE_FAIL
from backfill.model.units import NEVER
from backfill.model.workload import Ints


def dangling(case: Case, overrun: Overrun, overhead: int) -> tuple[Lengths, Lengths]:
    """Return the time for which each run must make progress, and its length, including its wait for others.

    If ends are not stated, they are derived one after another.
    """
    runs = case.runs
    wait = np.zeros(len(runs), np.int64)
    for _ in range(len(runs) + 1):
        begun = replace(case, runs=replace(runs, start=runs.start + wait))
        lengths = lengths_of(begun, overrun, overhead)
        until = np.where(runs.end == NO_TIME, runs.start + wait + lengths.shortest, runs.end)
        found = waits(case, until)
        if np.array_equal(found, wait):
            break
        wait = found
    longer = (lengths.shortest + wait, lengths.longest + wait, lengths.extra + wait)
    return lengths, replace(lengths, shortest=longer[0], longest=longer[1], extra=longer[2])


def waits(case: Case, until: Ints) -> Ints:
    """Return the time that each run waits for predecessors of its job, shape (runs,). until: the end of each run."""
    runs, after, think = case.runs, case.workload.jobs.after, case.workload.jobs.think
    over, gone = np.full(len(case.workload), NEVER), ~case.ran & (case.cancelled < NEVER)
    over[runs.job] = until  # the last of several runs remains
    over[gone] = case.cancelled[gone]
    index, owner = items_of(after, runs.job)
    latest = runs.start.copy()
    np.maximum.at(latest, owner, over[after.items[index]] + think[runs.job[owner]])
    return latest - runs.start


def lose_with(case: Case, replay: Replay) -> None:
    """Mark as lost the runs that wait for the end of a lost run."""
    runs, after = case.runs, case.workload.jobs.after
    index, owner = items_of(after, runs.job)
    before = after.items[index]
    for time, lost in replay.lost.items():
        there = (runs.start < time) & (runs.end == time) & (runs.state == NODE_FAIL)
        new = set(lost)
        while new:
            follows = owner[np.isin(before, runs.job[list(new)])]
            new = set(follows[there[follows]].tolist()) - lost
            lost |= new
