"""The policy's own record: its parameters, memory and random numbers. The only part of the State that it may write."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numba import float64, int64, uint64

from backfill.compiler.record import record
from backfill.model.workload import Floats, Ints

OWN = [
    ("param", float64[::1]),
    ("memory_int", int64[::1]),
    ("at_int", int64[::1]),  # where each named memory begins, and the end of the last one
    ("memory_float", float64[::1]),
    ("at_float", int64[::1]),
    ("random", uint64[::1]),  # seed, numbers drawn
]
Own, OwnT = record("Own", OWN, globals())


def new_own(params: Floats, ints: Sequence[int], floats: Sequence[int], seed: int) -> Any:
    """Return a record with these parameters, zeroed memories of these lengths, and a seed."""
    return Own(
        param=params,
        memory_int=np.zeros(sum(ints), np.int64),
        at_int=_begins(ints),
        memory_float=np.zeros(sum(floats)),
        at_float=_begins(floats),
        random=np.array([seed, 0], np.uint64),
    )


def _begins(lengths: Sequence[int]) -> Ints:
    return np.cumsum([0, *lengths], dtype=np.int64)
