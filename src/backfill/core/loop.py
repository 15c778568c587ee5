"""The loop: apply the events of one instant, run one pass of the policy, apply its decisions.

The world supplies events. `advance` handles at most `budget` passes and returns, so that Python can update a progress
bar, handle Ctrl-C or take a snapshot. The stepping form for plain Python policies calls the same two kernels, with the
policy between them.
"""

import numpy as np
from numba import int64

from backfill.compiler.kernel import kernel
from backfill.core.errors import ENDLESS, NONE, fail
from backfill.core.state import PolicyT, StateT
from backfill.core.trace import PASSES
from backfill.core.world import WorldT, close_instant, open_instant

# The number of idle passes in a row, requested by the policy, after which the run is stopped as endless.
IDLE = np.int64(10_000_000)


@kernel(inline=True, from_python=True)
def count_pass(state):
    """Count a pass; fail after too many passes in a row at which nothing happened."""
    batch, trace = state.batch, state.trace
    trace.counters[PASSES] += 1
    if batch.ends + batch.arrivals + batch.starts + batch.preemptions + batch.changes + batch.leaves > 0:
        trace.idle = 0
    else:
        trace.idle += 1
        if trace.idle > IDLE:
            fail(state, ENDLESS, NONE, NONE, IDLE, state.queue.waiting)


@kernel(int64, PolicyT, PolicyT, StateT, WorldT, int64)
def advance(arrange, decide, state, world, budget):
    """Run at most `budget` passes. Return how many ran; fewer than `budget` means that nothing will happen any more.

    arrange: the function that sorts the queue before each pass (queue.py).
    """
    done = 0
    while done < budget and open_instant(state, world):
        arrange(state)
        decide(state)
        close_instant(state, world)
        count_pass(state)
        done += 1
    return done
