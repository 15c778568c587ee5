"""The runs of jobs, and those that go on now."""

from typing import Any

import numpy as np
from numba import int8, int64

from backfill.core.profile import PAST
from backfill.core.record import SMALL, record, zeros

RUNS = [
    # by limit, then start
    ("running", int64[::1]),
    ("limit", int64[::1]),  # of each running job, in step with `running`
    ("active", int64),
    # what became of the jobs
    ("start", int64[::1]),
    ("reason", int8[::1]),
    # where they run: pairs (node, tasks), job j holds `held_count[j]` of them from `held_first[j]`; unused on a pool
    ("held", int64[:, ::1]),
    ("held_used", int64),
    ("held_first", int64[::1]),
    ("held_count", int64[::1]),
]
Runs, RunsT = record("Runs", RUNS, globals())


def new_runs(jobs: int, pool: bool) -> Any:
    """Nothing runs."""
    return Runs(
        running=np.empty(jobs + 1, np.int64),
        limit=np.empty(jobs + 1, np.int64),
        active=0,
        start=np.full(jobs, PAST),
        reason=np.full(jobs, -1, np.int8),
        held=zeros(SMALL if pool else jobs + SMALL, 2),
        held_used=0,
        held_first=zeros(jobs),
        held_count=zeros(jobs),
    )
