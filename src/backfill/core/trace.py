"""Counters of the work done, for benchmarks and progress bars, and the first mistake of the policy."""

from typing import Any

from numba import int64

from backfill.compiler.record import record, zeros

LOOKS = 0  # counter: jobs, or nodes of the queue's tree, that were checked; searches of the plan
PASSES = 1  # counter
COUNTERS = 2

TRACE = [
    ("counters", int64[::1]),
    ("idle", int64),  # idle passes in a row: nothing ended, arrived, started or changed
    ("error", int64[::1]),  # code, job, which, asked, available, now; code 0 = none; see errors.py
]
Trace, TraceT = record("Trace", TRACE, globals())


def new_trace() -> Any:
    """Return zeroed counters."""
    return Trace(counters=zeros(COUNTERS), idle=0, error=zeros(6))
