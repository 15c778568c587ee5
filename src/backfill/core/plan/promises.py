"""What jobs were promised: the start that each holds now, the first that it held, and the record of every change.

The record is kept of all jobs where the policy declares `booked` or a project is watched, else of the job that is.
"""

from typing import Any

import numpy as np
from numba import int64

from backfill.compiler.kernel import apart, kernel
from backfill.compiler.record import SMALL, doubled_rows, record, zeros
from backfill.core.errors import NONE
from backfill.core.pace import longest
from backfill.core.plan.profile import PAST

NO_TIME = PAST  # no such instant

# Why a promise is given, or becomes another one; named in model/promises.py.
GIVEN = np.int64(0)  # the first that it holds, or the first since it held none
RENEWED = np.int64(1)  # the policy reserves anew
UP = np.int64(2)  # room appeared
MOVED = np.int64(3)  # made way for another job
OVERRUN = np.int64(4)  # a job runs over its limit
CHANGED = np.int64(5)  # capacity, walltimes or runs are other ones

PROMISES = [
    ("reserved", int64[::1]),  # the start that the policy holds for a job now; NO_TIME = none
    ("first", int64[::1]),  # the first that it held
    ("watched", int64),  # job whose promises are recorded; -1 none
    ("recorded", int64),  # 1: those of all jobs are
    # (rows, 6): instant, job, promised start and end by walltime (NO_TIME = none), cause, for which job (-1)
    ("record", int64[:, ::1]),
    ("rows", int64),
]
Promises, PromisesT = record("Promises", PROMISES, globals())


def new_promises(jobs: int, watched: int, recorded: bool) -> Any:
    """Nothing was promised yet."""
    return Promises(
        reserved=np.full(jobs, NO_TIME),
        first=np.full(jobs, NO_TIME),
        watched=watched,
        recorded=int(recorded),
        record=zeros(SMALL, 6),
        rows=0,
    )


@kernel(inline=True)
def note_promise(state, job, t, cause, by):
    """Record that a job is promised another start than it holds, if its promises are recorded."""
    promises = state.promises
    if (promises.recorded or job == promises.watched) and promises.reserved[job] != t:
        _append(state, job, t, cause, by)


@kernel()
def note_walltime(state, job):
    """Record that a job with a promised start, that waits or runs, is expected to end at another time."""
    promises = state.promises
    if (promises.recorded or job == promises.watched) and promises.reserved[job] != NO_TIME:
        _append(state, job, promises.reserved[job], CHANGED, NONE)


@kernel(inline=True)
def end_of(state, job, t):
    """When a job ends that starts at t, by its walltime; NO_TIME if t is that."""
    return t + max(longest(state, state.jobs.walltime[job]), 1) if t != NO_TIME else NO_TIME


@apart()
def _append(state, job, t, cause, by):
    promises = state.promises
    if promises.rows == len(promises.record):
        promises.record = doubled_rows(promises.record)
    row = promises.record[promises.rows]
    row[0], row[1], row[2], row[3], row[4], row[5] = state.now, job, t, end_of(state, job, t), cause, by
    promises.rows += 1
