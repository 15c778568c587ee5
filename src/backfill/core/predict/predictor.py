"""The memory of a predictor and the common steps: predict at submit, correct a run that outlasts its prediction.

A prediction replaces `jobs.walltime`, so every policy plans by it, and `runs.limit`. A predictor reads only the State:
it knows what was submitted and what has ended. Jobs are still killed at their walltime (world.py, `kill`).
Slow twin: tests/reference/predict.py.
"""

from typing import Any

import numpy as np
from numba import float64, int64

from backfill.compiler.kernel import apart, kernel
from backfill.compiler.record import doubled, doubled_rows, record, zeros
from backfill.core.errors import NONE
from backfill.core.runs import limit_of
from backfill.core.transitions import TIMEOUT, WALLTIME, change

SECOND = np.int64(1_000_000)
NEXT = np.int64(np.iinfo(np.int64).min)
LAST = 3  # number of remembered jobs of each user

# How a prediction is corrected when the job outlasts it.
REQTIME, INCREMENTAL, DOUBLING = np.int64(0), np.int64(1), np.int64(2)
# Increments of the first prediction at each correction: Tsafrir, Etsion and Feitelson, 2007.
STEPS = np.array([60, 300, 900, 1800, 3600, 7200, 18000, 36000, 72000, 180000, 360000]) * 1_000_000

PREDICTOR = [
    ("correct", int64),  # the kind of correction
    ("until", int64),  # limits before this instant have passed; NEXT: the next job is to be predicted
    ("learned", int64),  # number of ends of this instant that are learned
    ("known", int64),  # number of jobs with a prediction: the first ones
    ("asked", int64[::1]),  # (n,): the walltime
    ("first", int64[::1]),  # (n,): the prediction at submit
    ("corrections", int64[::1]),  # (n,): so far
    # of the ended jobs of each user
    ("last", int64[:, ::1]),  # (users, LAST): run times, the latest first
    ("submits", int64[:, ::1]),  # (users, LAST): submits of the same jobs
    ("ended", int64[::1]),  # (users,): their number
    ("sums", int64[:, ::1]),  # (users, 3): sum of run times, sum of processors, latest end
    # of the regression; otherwise of length 1
    ("features", float64[:, ::1]),  # (n, features) of each job at its submit
    ("model", float64[:, ::1]),  # (3, terms): weights, the largest values seen, sums of squared gradients
    ("totals", float64[::1]),  # (2,): of the normalised squares, of the examples
    ("answer", int64),  # address of the Python function that predicts; otherwise 0
]
Predictor, PredictorT = record("Predictor", PREDICTOR, globals())


def new_predictor(jobs: int, correct: int, features: int = 0, terms: int = 0, answer: int = 0) -> Any:
    """Return the memory of a predictor that has seen nothing, with capacity for this many jobs."""
    return Predictor(
        correct=correct,
        until=NEXT,
        learned=0,
        known=0,
        asked=zeros(max(jobs, 1)),
        first=zeros(max(jobs, 1)),
        corrections=zeros(max(jobs, 1)),
        last=zeros(1, LAST),
        submits=zeros(1, LAST),
        ended=zeros(1),
        sums=zeros(1, 3),
        features=np.zeros((max(jobs, 1) if features else 1, max(features, 1))),
        model=np.zeros((3, max(terms, 1))),
        totals=np.zeros(2),
        answer=answer,
    )


@kernel()
def predict(state, predictor, value):
    """Set the prediction of the next job: whole seconds, at least one, at most the walltime."""
    job = predictor.known
    predictor.known += 1
    asked = state.jobs.walltime[job]
    predictor.asked[job] = asked
    predictor.first[job] = min(max(value // SECOND * SECOND, SECOND), asked)
    if predictor.first[job] != asked:
        change(state, job, WALLTIME, predictor.first[job], 0.0)


@kernel()
def correct(state, predictor):
    """Mark all ends as learned. Raise the predictions of runs that outlast them; at the walltime they stay."""
    predictor.learned = state.batch.ends
    runs, i = state.runs, 0
    while i < runs.active and runs.limits[i] < predictor.until:
        run = runs.by_limit[i]
        if not _raised(state, predictor, run):
            i += 1


@kernel()
def _raised(state, predictor, run):
    """Return whether the prediction of a run at its limit was raised beyond this instant, or to the walltime."""
    job = np.int64(state.runs.job[run])
    before = _current(state, job)
    passed, value = predictor.until - limit_of(state, run), before
    if state.runs.rows > 1:  # with rows a little more walltime is a much later limit: raise one step, then check again
        passed = np.int64(1)
    while value - before < passed and (value < predictor.asked[job] or predictor.correct == DOUBLING):
        value = _corrected(predictor, job, value)
        predictor.corrections[job] += 1
    if value == before:
        return False
    change(state, job, WALLTIME, value, 0.0)
    return True


@kernel(inline=True)
def _current(state, job):
    """Return the current prediction of the whole run time of a job."""
    return state.runs.whole[job] if state.runs.preempts else state.jobs.walltime[job]


@kernel()
def _corrected(predictor, job, value):
    """Return the next prediction of a job that outlasts this one. A doubled one may exceed the walltime."""
    n, asked = predictor.corrections[job], predictor.asked[job]
    if predictor.correct == DOUBLING:
        return max(2 * value, SECOND)
    if predictor.correct == INCREMENTAL and n < len(STEPS):
        return min(max(predictor.first[job] + STEPS[n], value), asked)
    return asked


@kernel()
def revise(state, predictor, job, walltime):
    """Change the walltime of a job; the prediction stays unless it exceeds the walltime. Return the prediction."""
    if job >= predictor.known:
        return walltime
    predictor.asked[job] = walltime
    return min(_current(state, job), walltime)


@kernel(inline=True)
def teaches(state, run):
    """Return whether a run reveals the run time of its job: it ended by itself, or at the walltime."""
    return state.runs.how[run] <= TIMEOUT


@kernel(inline=True)
def run_time(state, run):
    """Return the total run time of the job of a run that has ended."""
    runs = state.runs
    if runs.rows > 1:
        return runs.done[run]
    before = runs.used[runs.job[run]] if runs.preempts else 0
    return runs.end[run] - runs.start[run] + before


@kernel()
def remember(state, predictor, run):
    """Learn from a job that ended; ignore jobs without a user."""
    job = np.int64(state.runs.job[run])
    jobs, user = state.jobs, np.int64(state.jobs.user[job])
    if user != NONE:
        teach(predictor, user, run_time(state, run), jobs.submit[job], jobs.need[job, 0], state.now)


@apart()
def teach(predictor, user, ran, submit, procs, end):
    """Record an ended job of a user."""
    while user >= len(predictor.ended):
        _make_room(predictor)
    last, submits, sums = predictor.last[user], predictor.submits[user], predictor.sums[user]
    for place in range(LAST - 1, 0, -1):
        last[place], submits[place] = last[place - 1], submits[place - 1]
    last[0], submits[0] = ran, submit
    predictor.ended[user] += 1
    sums[0] += ran
    sums[1] += procs
    sums[2] = end


@kernel()
def _make_room(predictor):
    users = len(predictor.ended)
    predictor.last, predictor.submits = doubled_rows(predictor.last), doubled_rows(predictor.submits)
    predictor.ended, predictor.sums = doubled(predictor.ended), doubled_rows(predictor.sums)
    predictor.ended[users:] = 0
    predictor.sums[users:] = 0


@kernel(inline=True)
def ended_of(predictor, user):
    """Return the number of ended jobs of a user."""
    return predictor.ended[user] if NONE < user < len(predictor.ended) else 0
