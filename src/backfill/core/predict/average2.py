"""The mean run time of the user's last two jobs (Tsafrir, Etsion and Feitelson, IEEE TPDS 18(6), 2007)."""

import numpy as np

from backfill.compiler.kernel import apart
from backfill.core.predict.predictor import NEXT, correct, ended_of, predict, remember, teaches


@apart()
def average2(state, predictor):
    """Predict the submitted job; if there is none, learn the ends and correct the predictions of current runs.

    A job whose user has fewer than two ended jobs keeps its walltime.
    """
    job = predictor.known
    if predictor.until == NEXT:
        user, value = state.jobs.user[job], state.jobs.walltime[job]
        if ended_of(predictor, user) >= 2:
            value = (predictor.last[user, 0] + predictor.last[user, 1]) // 2
        predict(state, predictor, value)
        return np.int64(0)
    for i in range(predictor.learned, state.batch.ends):
        if teaches(state, state.batch.ended[i]):
            remember(state, predictor, state.batch.ended[i])
    correct(state, predictor)
    return np.int64(0)
