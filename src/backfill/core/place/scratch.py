"""Amounts of nodes and licences that a search works on; nothing here outlives a call."""

from typing import Any

from numba import int64

from backfill.compiler.record import record, zeros

SCRATCH = [
    ("room", int64[:, ::1]),  # (m, k)
    ("licences", int64[::1]),  # (l,)
    ("least", int64[:, ::1]),  # (1, 1)
]
Scratch, ScratchT = record("Scratch", SCRATCH, globals())


def new_scratch(nodes: int, resources: int, licences: int) -> Any:
    """Room for one search."""
    return Scratch(room=zeros(nodes, resources), licences=zeros(licences), least=zeros(1, 1))
