"""Read the record of promises from a journal."""

import numpy as np

from backfill.core.journal import LEAVE, PREEMPT, RELEASE, RESERVE, TICK, WITHDRAW
from backfill.model.promises import CHANGED, Promises
from backfill.model.schedule import NO_TIME
from backfill.model.workload import Ints


def promises_of(journal: Ints, submit: Ints, kept: bool) -> Promises:
    """Return the promises in the journal of a workload with these submits. kept: whether promises outlast the pass."""
    code = journal[:, 0]
    ticks = np.flatnonzero(code == TICK)
    rows = np.flatnonzero(np.isin(code, (RESERVE, WITHDRAW, LEAVE, RELEASE, PREEMPT)))
    place = np.argsort(submit, kind="stable")  # the core numbers jobs in queue order
    given, by = code[rows] == RESERVE, journal[rows, 4]
    return Promises(
        at=journal[ticks[np.searchsorted(ticks, rows) - 1], 1],
        job=place[journal[rows, 1]],
        start=np.where(given, journal[rows, 2], NO_TIME),
        end=np.where(given, journal[rows, 5], NO_TIME),
        cause=np.where(given, journal[rows, 3], CHANGED),
        by=np.where(given & (by >= 0), place[by], -1),
        kept=kept,
    )
