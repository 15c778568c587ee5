"""What happened at this instant, what the policy decided, and when it wants to be asked again."""

from typing import Any

import numpy as np
from numba import int64

from backfill.compiler.kernel import apart, kernel
from backfill.compiler.record import SMALL, doubled, doubled_rows, record, zeros

BATCH = [
    ("arrived", int64[::1]),  # jobs that became eligible, in queue order
    ("arrivals", int64),
    ("mixed", int64),  # 1: these are not in queue order yet
    ("ended", int64[::1]),  # runs
    ("ends", int64),
    ("left", int64[::1]),  # jobs that went away unstarted
    ("leaves", int64),
    ("dropped", int64[::1]),  # jobs that never waited, and will never run
    ("drops", int64),
    ("begun", int64[::1]),  # runs that the policy did not start
    ("begins", int64),
    ("changes", int64),  # walltimes, priorities, capacities and windows that changed
    ("started", int64[::1]),  # runs
    ("starts", int64),
    ("preempted", int64[:, ::1]),  # (preemptions, 3): run, how (runs.py), overhead in microseconds
    ("preemptions", int64),
    ("paced", int64[::1]),  # runs that got another pace
    ("paces", int64),
    ("timers", int64[::1]),  # heap of instants at which the policy wants a pass
    ("timed", int64),
]
Batch, BatchT = record("Batch", BATCH, globals())


def new_batch() -> Any:
    """Nothing happened yet."""
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
    """A new instant begins."""
    batch.arrivals = batch.ends = batch.leaves = batch.changes = batch.starts = batch.preemptions = 0
    batch.mixed = batch.drops = batch.begins = batch.paces = 0


@kernel(inline=True)
def note_arrival(batch, job):
    """A job became eligible at this instant."""
    if batch.arrivals == len(batch.arrived):
        batch.arrived = doubled(batch.arrived)
    if batch.arrivals > 0 and batch.arrived[batch.arrivals - 1] > job:
        batch.mixed = 1
    batch.arrived[batch.arrivals] = job
    batch.arrivals += 1


@apart()
def sort_arrivals(state):
    """Put the jobs that became eligible at this instant in queue order."""
    batch = state.batch
    batch.arrived[: batch.arrivals] = np.sort(batch.arrived[: batch.arrivals])
    batch.mixed = 0


@kernel(inline=True)
def note_end(batch, run):
    """A run ended at this instant."""
    if batch.ends == len(batch.ended):
        batch.ended = doubled(batch.ended)
    batch.ended[batch.ends] = run
    batch.ends += 1


@kernel()
def note_begin(batch, run):
    """A run began at this instant that the policy did not start."""
    if batch.begins == len(batch.begun):
        batch.begun = doubled(batch.begun)
    batch.begun[batch.begins] = run
    batch.begins += 1


@kernel()
def forget_arrival(batch, job):
    """A job does not wait any more; if it became eligible at this instant, the policy does not see it arrive."""
    kept = 0
    for i in range(batch.arrivals):
        if batch.arrived[i] != job:
            batch.arrived[kept] = batch.arrived[i]
            kept += 1
    batch.arrivals = kept


@kernel()
def note_leave(batch, job):
    """A job went away at this instant."""
    forget_arrival(batch, job)
    if batch.leaves == len(batch.left):
        batch.left = doubled(batch.left)
    batch.left[batch.leaves] = job
    batch.leaves += 1


@kernel()
def note_drop(batch, job):
    """It became known at this instant that a job which never waited will never run."""
    if batch.drops == len(batch.dropped):
        batch.dropped = doubled(batch.dropped)
    batch.dropped[batch.drops] = job
    batch.drops += 1


@kernel(inline=True)
def note_start(batch, run):
    """The policy started a run at this instant."""
    if batch.starts == len(batch.started):
        batch.started = doubled(batch.started)
    batch.started[batch.starts] = run
    batch.starts += 1


@kernel()
def note_preemption(batch, run, how, overhead):
    """The policy preempted a run at this instant."""
    if batch.preemptions == len(batch.preempted):
        batch.preempted = doubled_rows(batch.preempted)
    row = batch.preempted[batch.preemptions]
    row[0], row[1], row[2] = run, how, overhead
    batch.preemptions += 1


@kernel(inline=True)
def note_pace(batch, run):
    """The policy gave a run another pace at this instant."""
    if batch.paces == len(batch.paced):
        batch.paced = doubled(batch.paced)
    batch.paced[batch.paces] = run
    batch.paces += 1
