"""Working copies of the amounts of nodes and licences for one search; they do not outlive a call."""

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
    """Return the working memory for one search."""
    return Scratch(room=zeros(nodes, resources), licences=zeros(licences), least=zeros(1, 1))
