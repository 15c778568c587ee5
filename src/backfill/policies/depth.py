"""Reservations to a depth: the first jobs of the queue hold promises that are kept, and the others run beside them.

Slow twin: tests/reference/depth.py.
"""

import math

from backfill.compiler.kernel import kernel
from backfill.core.errors import NONE
from backfill.core.plan.plan import fits_now, settle
from backfill.core.plan.profile import FUTURE
from backfill.core.plan.promises import NO_TIME
from backfill.core.policy import Param, Policy, policy
from backfill.core.queue.walk import candidate, following, is_first, rewind
from backfill.core.verbs import BACKFILL, HEAD, start
from backfill.policies.conservative import (
    EVERY,
    KEPT,
    REFRESHED,
    await_next,
    await_refresh,
    is_refreshed,
    keep_up,
    promise_next,
    start_due,
)


@policy(
    "reservation-depth",
    reserve="the first k jobs; kept, and improved at every end",
    fill="jobs that delay none of them, first fit",
    source="RESERVATIONDEPTH with RESERVATIONPOLICY HIGHEST, Maui Administrator's Guide, 7.1.4",
    binds=True,
    keeps=True,
    index=False,
    settable=("order",),
    params={
        "k": Param(
            20, 0, math.inf, "jobs", "number of jobs at the head of the queue that get reservations", whole=True
        ),
        "every": EVERY,
    },
    memory={**KEPT, **REFRESHED, "seen": "jobs"},  # 1: the job was here at an earlier pass
    forgets="all",
)
def reservation_depth(state):
    """Promise a start to each job once it is among the first k; of the others, start what delays no promise.

    A promise is kept until its job starts, also if others come before it in the order then. At an end, but not more
    often than `every` seconds, promised jobs may move up, and all others are tried; in between, only new ones are.
    Promise: no start is later than the first one promised, if walltimes hold.
    Cost: O(q) per pass, and a search of the plan for each job that may move up, or that is tried and fits into what is
    free.
    With k=inf every start is that of conservative, with k=0 of first-fit.
    """
    refreshed = is_refreshed(state)
    keep_up(state, refreshed)
    promise_first(state)
    if state.own.next_due[0] <= state.now:
        start_due(state)
    try_beside(state, refreshed)
    await_next(state)
    await_refresh(state)


@kernel()
def promise_first(state):
    """Promise a start to each of the first k jobs that go on waiting, if it has none and can get one."""
    left, without = state.own.k, NONE
    rewind(state, 0)
    job = following(state, 0)
    while job >= 0 and left > 0:
        without = promise_next(state, job, without)
        left -= state.promises.reserved[job] != NO_TIME and state.promises.reserved[job] != state.now
        job = following(state, 0)


@kernel()
def try_beside(state, everyone):
    """Try the jobs without a promise; only those that have just arrived, if not everyone is."""
    seen, arrived, arrivals = state.own.seen, state.batch.arrived, state.batch.arrivals
    if not everyone and arrivals == 0:
        return
    for i in range(arrivals):
        seen[arrived[i]] = 0
    rewind(state, 0)
    job = candidate(state, 0, FUTURE)
    while job >= 0:
        if everyone or seen[job] == 0:
            start_beside(state, job)
        job = candidate(state, 0, FUTURE)
    for i in range(arrivals):
        seen[arrived[i]] = 1


@kernel()
def start_beside(state, job):
    """Start a job that has no promise, if it delays none."""
    if state.promises.reserved[job] == NO_TIME and fits_now(state, job):
        settle(state, job, state.now)
        start(state, job, HEAD if is_first(state, job) else BACKFILL)


def family() -> dict[str, Policy]:
    """Return the only member."""
    return {reservation_depth.name: reservation_depth}
