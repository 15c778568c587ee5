"""One pass of a policy, for the live queue. It needs no simulated world, and imports none."""

from typing import Any

from numba import types

from backfill.compiler import jit
from backfill.compiler.far import run
from backfill.compiler.kernel import apart, kernel
from backfill.core.policy import Policy
from backfill.core.queue import walk as queue
from backfill.core.runs import RUNNING
from backfill.core.state import StateT


@kernel(types.void, StateT)
def take_in(state):
    """Insert new jobs; used as `arrange` if no order changes with time."""
    queue.take_in(state)


def arranger(policy: Policy) -> Any:
    """Return the function that sorts a policy's queue before each pass.

    The sort of orders that change with time is compiled at its first use.
    """
    if not policy.sorted_for_it:
        return take_in
    from backfill.core.queue.sorter import sort_before_pass

    return sort_before_pass


WAITS, NEITHER = -1, -2


@apart()
def standing(state, job):
    """Return the run of a job, if it runs; else whether it WAITS, or NEITHER."""
    if state.queue.waits[job] != 0:
        return WAITS
    run = state.runs.last[job]
    return run if run >= 0 and state.runs.how[run] == RUNNING else NEITHER


def decide_once(entry: Any, state: Any) -> None:
    """Run one pass of a compiled policy."""
    if jit.PLAIN:
        entry(state)
    else:
        _decide_at(entry.address, state)


@apart()
def _decide_at(address, state):
    run(address, state)
