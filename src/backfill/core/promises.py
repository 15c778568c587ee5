"""What jobs were promised: the start that each holds now, the first that it held, and the whole story of one job."""

from typing import Any

import numpy as np
from numba import int64

from backfill.core.profile import PAST
from backfill.core.record import SMALL, record, zeros

NO_TIME = PAST  # no such instant

PROMISES = [
    ("reserved", int64[::1]),  # the start that the policy holds for a job now; NO_TIME = none
    ("first", int64[::1]),  # the first that it held
    ("watched", int64),  # job whose promises are written down; -1 none
    ("history", int64[:, ::1]),  # (entries, 2): instant, promised start
    ("entries", int64),
]
Promises, PromisesT = record("Promises", PROMISES, globals())


def new_promises(jobs: int, watched: int) -> Any:
    """Nothing was promised yet."""
    return Promises(
        reserved=np.full(jobs, NO_TIME),
        first=np.full(jobs, NO_TIME),
        watched=watched,
        history=zeros(SMALL, 2),
        entries=0,
    )
