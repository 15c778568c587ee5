"""What happened at this instant, what the policy decided, and when it wants to be asked again."""

from typing import Any

import numpy as np
from numba import int64

from backfill.core.record import SMALL, record, zeros

BATCH = [
    ("arrived", int64[::1]),
    ("arrivals", int64),
    ("ended", int64[::1]),
    ("ends", int64),
    ("started", int64[::1]),
    ("starts", int64),
    ("timers", int64[::1]),  # heap of instants at which the policy wants a pass
    ("timed", int64),
]
Batch, BatchT = record("Batch", BATCH, globals())


def new_batch(jobs: int) -> Any:
    """Nothing happened yet."""
    return Batch(
        arrived=np.empty(jobs + 1, np.int64),
        arrivals=0,
        ended=np.empty(jobs + 1, np.int64),
        ends=0,
        started=np.empty(jobs + 1, np.int64),
        starts=0,
        timers=zeros(SMALL),
        timed=0,
    )
