"""Selective reservations: only jobs that have waited long enough get a reservation.

Slow twin: tests/reference/selective.py.
"""

import math

import numpy as np

from backfill.compiler.kernel import kernel
from backfill.core.errors import NONE
from backfill.core.plan.profile import FUTURE
from backfill.core.policy import Param, Policy, policy
from backfill.core.queue.walk import candidate, following, rewind
from backfill.core.transitions import TIMEOUT
from backfill.policies.conservative import KEPT, await_next, has_grown, keep_up, promise_next, start_due
from backfill.policies.depth import start_beside

HOUR, TEN_SECONDS = 3_600_000_000, 10_000_000  # in microseconds
TENTH = 100_000  # replaces a walltime of 0, as in the orders of the queue
NARROW = 8  # processors
THOUSAND = 1000  # slowdowns are summed in whole thousandths, so that their order does not matter
MOST = 1e12  # bound of the thousandths of one job
ADAPTIVE, FIXED, DIFFERENTIAL = range(3)


@policy(
    "selective",
    reserve="jobs whose expansion factor has reached the threshold; kept, and improved at every end",
    fill="jobs that delay none of them, first fit",
    source="Srinivasan, Kettimuthu, Subramani and Sadayappan, ICPP 2002 (selective reservations)",
    binds=True,
    keeps=True,
    index=False,
    settable=("order",),
    params={
        "rule": Param.choice(
            "adaptive",
            "fixed",
            "differential",
            meaning="the threshold: the mean slowdown of the jobs that have ended, `threshold`, or that mean of the "
            "same category, short or long (1 h) and narrow or wide (8 processors)",
        ),
        "threshold": Param(
            2, 1, math.inf, "", "the expansion factor from which a job gets a reservation, if rule=fixed"
        ),
    },
    memory={**KEPT, "slowdown": 4, "ended": 4},
    forgets="all",
)
def selective(state):
    """Backfill without reservations until a job's expansion factor, (wait + walltime) / walltime, reaches a threshold.

    From then on the job holds a reservation as under conservative backfilling.
    Promise: no start is later than the first one promised, if walltimes hold.
    Cost: O(q) per pass, and a search of the profile for each job that fits or is promised a start.
    With rule=fixed, threshold=1 every start is that of conservative, with
    threshold=inf of first-fit.
    """
    keep_up(state, has_grown(state))
    note_slowdowns(state)
    without = NONE
    rewind(state, 0)
    job = following(state, 0)
    while job >= 0:
        if expansion(state, job) >= threshold_of(state, job):
            without = promise_next(state, job, without)
        job = following(state, 0)
    if state.own.next_due[0] <= state.now:
        start_due(state)
    rewind(state, 0)
    job = candidate(state, 0, FUTURE)
    while job >= 0:
        start_beside(state, job)
        job = candidate(state, 0, FUTURE)
    await_next(state)


@kernel()
def note_slowdowns(state):
    """Add up the bounded slowdowns (10 s) of the jobs that completed at this instant, or were killed at their limit."""
    runs = state.runs
    for i in range(state.batch.ends):
        run = state.batch.ended[i]
        if runs.how[run] > TIMEOUT:
            continue
        job = runs.job[run]
        response = float(runs.end[run] - state.jobs.submit[job])
        slowdown = max(response / float(max(runs.end[run] - runs.start[run], TEN_SECONDS)), 1.0)
        category = category_of(state, job)
        state.own.slowdown[category] += np.int64(min(slowdown * THOUSAND, MOST))
        state.own.ended[category] += 1


@kernel()
def category_of(state, job):
    """Return 0, or with rule=differential the index of the job's category."""
    if state.own.rule != DIFFERENTIAL:
        return 0
    return 2 * (state.jobs.walltime[job] > HOUR) + (state.jobs.need[job, 0] > NARROW)


@kernel()
def threshold_of(state, job):
    """Return the expansion factor from which a job gets a reservation; 1 if no job has ended yet."""
    own = state.own
    if own.rule == FIXED:
        return own.threshold
    category = category_of(state, job)
    if own.ended[category] == 0:
        return 1.0
    return float(own.slowdown[category]) / float(THOUSAND * own.ended[category])


@kernel()
def expansion(state, job):
    """Return (wait + walltime) / walltime."""
    walltime = float(max(state.jobs.walltime[job], TENTH))
    return (float(state.now - state.jobs.submit[job]) + walltime) / walltime


def family() -> dict[str, Policy]:
    """Return the only member."""
    return {selective.name: selective}
