"""Promises: the start that each job holds now, the first that it held, and the record of every change.

All jobs are recorded if the policy declares `booked` or a project is watched; otherwise only the watched job is.
"""

from typing import Any

import numpy as np
from numba import int64

from backfill.compiler.kernel import apart, kernel
from backfill.compiler.record import SMALL, doubled_rows, record, zeros
from backfill.core.errors import NONE
from backfill.core.pace import longest
from backfill.core.plan.profile import PAST

NO_TIME = PAST  # no instant

# Why a promise is given or changed; named in model/promises.py.
GIVEN = np.int64(0)  # its first promise, or the first since it held none
RENEWED = np.int64(1)  # the policy reserves anew
UP = np.int64(2)  # free capacity appeared
MOVED = np.int64(3)  # made way for another job
OVERRUN = np.int64(4)  # a job runs over its limit
CHANGED = np.int64(5)  # capacity, walltimes or runs have changed

PROMISES = [
    ("reserved", int64[::1]),  # the start that the policy holds for a job now; NO_TIME = none
    ("first", int64[::1]),  # the first start that it held
    ("watched", int64),  # job whose promises are recorded; -1 none
    ("recorded", int64),  # 1: the promises of all jobs are recorded
    # (rows, 6): instant, job, promised start, its end by walltime (NO_TIME = none), cause, job on whose behalf (-1)
    ("record", int64[:, ::1]),
    ("rows", int64),
]
Promises, PromisesT = record("Promises", PROMISES, globals(), fixed=("watched", "recorded"))


def new_promises(jobs: int, watched: int, recorded: bool) -> Any:
    """Return an empty record."""
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
    """Record a change of a job's promised start, if its promises are recorded."""
    promises = state.promises
    if (promises.recorded or job == promises.watched) and promises.reserved[job] != t:
        _append(state, job, t, cause, by)


@kernel()
def note_walltime(state, job):
    """Record that the expected end of a job with a promised start, waiting or running, has changed."""
    promises = state.promises
    if (promises.recorded or job == promises.watched) and promises.reserved[job] != NO_TIME:
        _append(state, job, promises.reserved[job], CHANGED, NONE)


@kernel(inline=True)
def end_of(state, job, t):
    """Return when a job that starts at t ends by its walltime; NO_TIME if t is NO_TIME."""
    return t + max(longest(state, state.jobs.walltime[job]), 1) if t != NO_TIME else NO_TIME


@apart()
def _append(state, job, t, cause, by):
    promises = state.promises
    if promises.rows == len(promises.record):
        promises.record = doubled_rows(promises.record)
    row = promises.record[promises.rows]
    row[0], row[1], row[2], row[3], row[4], row[5] = state.now, job, t, end_of(state, job, t), cause, by
    promises.rows += 1
