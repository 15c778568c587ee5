"""The compiled form of queue.arrange, in a module of its own because most runs never need it."""

from numba import types

from backfill.compiler.kernel import kernel
from backfill.core.queue.walk import arrange, take_in
from backfill.core.state import StateT


@kernel(types.void, StateT)
def sort_before_pass(state):
    """Sort the queue if an order changes with time."""
    take_in(state)
    arrange(state)
