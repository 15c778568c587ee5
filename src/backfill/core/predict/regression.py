"""Online linear regression of run times (Gaussier, Glesser, Reis and Trystram, SC'15).

19 features of a job at its submit, their products and squares; the loss is squared, over-predictions count OVER times
as much as under-predictions, and each example 5 + log(processors / run time). The steps are those of the normalised
adaptive gradient (Ross, Mineiro and Langford, UAI 2013), with an L2 penalty of the weights. As published, an example of
a job that runs for more than e^5 s on each processor counts with the opposite sign.
"""

import math

import numpy as np

from backfill.compiler.kernel import apart, kernel
from backfill.core.errors import NONE
from backfill.core.predict.predictor import NEXT, SECOND, correct, ended_of, predict, remember, run_time, teaches

FEATURES, PAIRED = 19, 17  # features 1 to 16 are paired
TERMS = FEATURES + (PAIRED - 1) * (PAIRED - 2) // 2 + FEATURES - 1
OVER, UNDER = 100.0, 1.0
RATE, PENALTY = 5000.0, 4e9
DAY, WEEK = 86_400, 7 * 86_400


@apart()
def regression(state, predictor):
    """Predict the submitted job; if there is none, learn the ends and correct the predictions of current runs."""
    job = predictor.known
    if predictor.until == NEXT:
        x = predictor.features[job]
        _look(state, predictor, job, x)
        value = abs(_dot(predictor.model[0], _terms(x)))
        predict(state, predictor, np.int64(min(value, 1e12)) * SECOND)
        return np.int64(0)
    for i in range(predictor.learned, state.batch.ends):
        run = state.batch.ended[i]
        if teaches(state, run):
            remember(state, predictor, run)
            job = np.int64(state.runs.job[run])
            ran = run_time(state, run) / SECOND
            importance = 5.0 + math.log(max(float(state.jobs.need[job, 0]), 1.0) / max(ran, 1.0))
            _fit(predictor, _terms(predictor.features[job]), ran, importance)
    correct(state, predictor)
    return np.int64(0)


@kernel()
def _look(state, predictor, job, x):
    """Write the features of a job at its submit, in seconds and processors, to x.

    A run time counts as the time since submit if that is longer, as in the published code.
    """
    jobs, user = state.jobs, state.jobs.user[job]
    walltime, ended = jobs.walltime[job] / SECOND, ended_of(predictor, user)
    x[0], x[4] = 1.0, walltime
    for i in range(3):
        x[1 + i] = walltime
        if i < ended:
            ran, since = predictor.last[user, i], state.now - predictor.submits[user, i]
            x[1 + i] = min(walltime, max(ran, since) / SECOND)
    x[5] = 0.5 * (x[1] + x[2]) if ended >= 2 else x[1]
    x[6] = 0.33 * (x[1] + x[2] + x[3]) if ended >= 3 else x[5]
    x[18] = float(jobs.need[job, 0])
    if ended > 0:
        x[7] = predictor.sums[user, 0] / SECOND / ended
        x[8] = (state.now - predictor.sums[user, 2]) / SECOND
        x[9] = x[18] / (float(predictor.sums[user, 1]) / ended)
    _look_at_runs(state, user, x)
    at = jobs.submit[job] / SECOND
    day, week = 2.0 * math.pi * (at % DAY) / DAY, 2.0 * math.pi * (at % WEEK) / WEEK
    x[14], x[15], x[16], x[17] = math.cos(day), math.sin(day), math.cos(week), math.sin(week)


@kernel()
def _look_at_runs(state, user, x):
    """Write features of the user's running jobs to x: processors, total run time so far, their number, the longest."""
    runs = state.runs
    for i in range(runs.active):
        run = runs.by_limit[i]
        if user == NONE or state.jobs.user[runs.job[run]] != user:
            continue
        elapsed = (state.now - runs.start[run]) / SECOND
        x[10] += state.jobs.need[runs.job[run], 0]
        x[11] += elapsed
        x[12] += 1.0
        x[13] = max(x[13], elapsed)


@kernel()
def _terms(x):
    """Return the features, their products in pairs, and their squares."""
    terms = np.empty(TERMS)
    terms[:FEATURES] = x
    at = FEATURES
    for a in range(1, PAIRED):
        for b in range(a + 1, PAIRED):
            terms[at] = x[a] * x[b]
            at += 1
    for a in range(1, FEATURES):
        terms[at] = x[a] * x[a]
        at += 1
    return terms


@kernel()
def _dot(one, other):
    total = 0.0
    for i in range(TERMS):
        total += one[i] * other[i]
    return total


@kernel()
def _fit(predictor, terms, ran, importance):
    """Do one step of the normalised adaptive gradient for a job of this run time."""
    weight, most, squares, totals = predictor.model[0], predictor.model[1], predictor.model[2], predictor.totals
    for i in range(TERMS):
        size = abs(terms[i])
        if size > most[i]:
            weight[i] *= most[i] / size
            most[i] = size
        if most[i] > 0.0:
            totals[0] += terms[i] * terms[i] / (most[i] * most[i])
    totals[1] += 1.0
    error = _dot(weight, terms) - ran
    slope = importance * 2.0 * (OVER if error > 0.0 else UNDER) * error
    for i in range(TERMS):
        gradient = slope * terms[i] + PENALTY * weight[i]
        squares[i] += gradient * gradient
        if squares[i] > 0.0:
            weight[i] -= RATE * gradient / (math.sqrt(totals[0] * squares[i] / totals[1]) * most[i])
