"""Predictions by a Python function: a user's own, or the history of the live queue."""

import numpy as np

from backfill.compiler.far import ask
from backfill.compiler.kernel import apart
from backfill.core.predict.predictor import NEXT, correct, predict, teaches


@apart()
def outside(state, predictor):
    """Predict the submitted job; if there is none, report the ends and correct the predictions of current runs.

    The function is called with the number of a job, for its prediction, or with -1 - run for a run that ended.
    """
    job = predictor.known
    if predictor.until == NEXT:
        predict(state, predictor, ask(predictor.answer, job))
        return np.int64(0)
    for i in range(predictor.learned, state.batch.ends):
        if teaches(state, state.batch.ended[i]):
            ask(predictor.answer, -1 - state.batch.ended[i])
    correct(state, predictor)
    return np.int64(0)
