"""What belongs to the policy: its parameters, its memory, its random numbers. The only room that it may write."""

from typing import Any

import numpy as np
from numba import float64, int64, uint64

from backfill.core.record import record, zeros
from backfill.model.workload import Floats

OWN = [
    ("param", float64[::1]),
    ("memory_i", int64[::1]),
    ("memory_f", float64[::1]),
    ("random", uint64[::1]),  # seed, numbers drawn
]
Own, OwnT = record("Own", OWN, globals())


def new_own(params: Floats, ints: int, floats: int, seed: int) -> Any:
    """Parameters, so much memory of whole numbers and of others, all 0, and a seed."""
    return Own(param=params, memory_i=zeros(ints), memory_f=np.zeros(floats), random=np.array([seed, 0], np.uint64))
