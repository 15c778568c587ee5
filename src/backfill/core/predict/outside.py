"""Predictions by a function of Python: one that a user wrote, or the history that the live queue keeps."""

import numpy as np

from backfill.compiler.far import ask
from backfill.compiler.kernel import apart
from backfill.core.predict.predictor import NEXT, correct, predict, teaches


@apart()
def outside(state, predictor):
    """Predict the job that was submitted; if there is none, tell what ended and correct what runs on.

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
