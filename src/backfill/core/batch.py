"""The events of this instant, the decisions of the policy, and the timers that it has set."""

from typing import Any

import numpy as np
from numba import int64

from backfill.compiler.kernel import apart, kernel
from backfill.compiler.record import SMALL, doubled, doubled_rows, record, zeros

BATCH = [
    ("arrived", int64[::1]),  # jobs that became eligible, in queue order
    ("arrivals", int64),
    ("mixed", int64),  # 1: these are not yet in queue order
    ("ended", int64[::1]),  # runs
    ("ends", int64),
    ("left", int64[::1]),  # jobs that left the queue without starting
    ("leaves", int64),
    ("dropped", int64[::1]),  # jobs that never waited, and will never run
    ("drops", int64),
    ("begun", int64[::1]),  # runs that were not started by the policy
    ("begins", int64),
    ("changes", int64),  # number of changed walltimes, priorities, capacities and windows
    ("started", int64[::1]),  # runs
    ("starts", int64),
    ("preempted", int64[:, ::1]),  # (preemptions, 3): run, how (runs.py), overhead in microseconds
    ("preemptions", int64),
    ("paced", int64[::1]),  # runs whose pace changed
    ("paces", int64),
    ("timers", int64[::1]),  # heap of instants at which the policy wants a pass
    ("timed", int64),
]
Batch, BatchT = record("Batch", BATCH, globals())


def new_batch() -> Any:
    """Return an empty batch."""
    return Batch(
        arrived=zeros(SMALL),
        arrivals=0,
        mixed=0,
        ended=zeros(SMALL),
        ends=0,
        left=zeros(SMALL),
        leaves=0,
        dropped=zeros(SMALL),
        drops=0,
        begun=zeros(SMALL),
        begins=0,
        changes=0,
        started=zeros(SMALL),
        starts=0,
        preempted=zeros(SMALL, 3),
        preemptions=0,
        paced=zeros(SMALL),
        paces=0,
        timers=zeros(SMALL),
        timed=0,
    )


@kernel(inline=True)
def clear_batch(batch):
    """Clear the batch for a new instant."""
    batch.arrivals = batch.ends = batch.leaves = batch.changes = batch.starts = batch.preemptions = 0
    batch.mixed = batch.drops = batch.begins = batch.paces = 0


@kernel(inline=True)
def note_arrival(batch, job):
    """Record that a job became eligible at this instant."""
    if batch.arrivals == len(batch.arrived):
        batch.arrived = doubled(batch.arrived)
    if batch.arrivals > 0 and batch.arrived[batch.arrivals - 1] > job:
        batch.mixed = 1
    batch.arrived[batch.arrivals] = job
    batch.arrivals += 1


@apart()
def sort_arrivals(state):
    """Sort the jobs that became eligible at this instant in queue order."""
    batch = state.batch
    batch.arrived[: batch.arrivals] = np.sort(batch.arrived[: batch.arrivals])
    batch.mixed = 0


@kernel(inline=True)
def note_end(batch, run):
    """Record that a run ended at this instant."""
    if batch.ends == len(batch.ended):
        batch.ended = doubled(batch.ended)
    batch.ended[batch.ends] = run
    batch.ends += 1


@kernel()
def note_begin(batch, run):
    """Record that a run began at this instant without a decision of the policy."""
    if batch.begins == len(batch.begun):
        batch.begun = doubled(batch.begun)
    batch.begun[batch.begins] = run
    batch.begins += 1


@kernel()
def forget_arrival(batch, job):
    """Remove a job that no longer waits from the arrivals of this instant, if it is among them."""
    kept = 0
    for i in range(batch.arrivals):
        if batch.arrived[i] != job:
            batch.arrived[kept] = batch.arrived[i]
            kept += 1
    batch.arrivals = kept


@kernel()
def note_leave(batch, job):
    """Record that a job left the queue at this instant."""
    forget_arrival(batch, job)
    if batch.leaves == len(batch.left):
        batch.left = doubled(batch.left)
    batch.left[batch.leaves] = job
    batch.leaves += 1


@kernel()
def note_drop(batch, job):
    """Record that a job which never waited turned out, at this instant, never to run."""
    if batch.drops == len(batch.dropped):
        batch.dropped = doubled(batch.dropped)
    batch.dropped[batch.drops] = job
    batch.drops += 1


@kernel(inline=True)
def note_start(batch, run):
    """Record that the policy started a run at this instant."""
    if batch.starts == len(batch.started):
        batch.started = doubled(batch.started)
    batch.started[batch.starts] = run
    batch.starts += 1


@kernel()
def note_preemption(batch, run, how, overhead):
    """Record that the policy preempted a run at this instant."""
    if batch.preemptions == len(batch.preempted):
        batch.preempted = doubled_rows(batch.preempted)
    row = batch.preempted[batch.preemptions]
    row[0], row[1], row[2] = run, how, overhead
    batch.preemptions += 1


@kernel(inline=True)
def note_pace(batch, run):
    """Record that the policy changed the pace of a run at this instant."""
    if batch.paces == len(batch.paced):
        batch.paced = doubled(batch.paced)
    batch.paced[batch.paces] = run
    batch.paces += 1
