"""A user's policy that preempts a lot: whoever waits takes what it lacks from those with less priority."""

import numpy as np

from backfill import Param, policy
from backfill.verbs import HEAD, REQUEUE, following, kernel, place, preempt, rewind, start


@policy("urgent", preempts=True, params={"how": Param.choice("requeue")})
def urgent(state):
    """Start jobs in the order of submit, past those that do not fit, even with all that have less priority gone."""
    rewind(state, 0)
    job = following(state, 0)
    while job >= 0:
        if not left_now(state, job) and may_fit(state, job):
            while not place(state, job):
                preempt(state, least(state, job), REQUEUE, np.int64(0))
            start(state, job, HEAD)
        job = following(state, 0)


@kernel()
def left_now(state, job):
    """Return whether a job was preempted in this pass."""
    found = False
    for i in range(state.batch.preemptions):
        found |= state.runs.job[state.batch.preempted[i, 0]] == job
    return found


@kernel()
def is_below(state, run, job):
    """Return whether a run may be preempted for a job; not if it began in this pass."""
    other = state.runs.job[run]
    return state.jobs.priority[other] < state.jobs.priority[job] and run < state.runs.count - state.batch.starts


@kernel()
def may_fit(state, job):
    """Return whether a job fits once all that may be preempted for it are gone."""
    runs = state.runs
    for k in range(state.machine.resources):
        room = state.free.nodes[0, k]
        for i in range(runs.active):
            if is_below(state, runs.by_limit[i], job):
                room += state.jobs.need[runs.job[runs.by_limit[i]], k]
        if room < state.jobs.need[job, k]:
            return False
    return True


@kernel()
def least(state, job):
    """The job of the least priority that may be preempted for another."""
    runs, found = state.runs, np.int64(-1)
    for i in range(runs.active):
        other = np.int64(runs.job[runs.by_limit[i]])
        lower = found < 0 or state.jobs.priority[other] < state.jobs.priority[found]
        if lower and is_below(state, runs.by_limit[i], job):
            found = other
    return found
