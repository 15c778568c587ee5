"""The loop: the events of one instant, one pass of the policy, what it decided. The world supplies the events.

`advance` handles at most `budget` passes and returns, so that Python can draw a bar, honour Ctrl-C or take a snapshot.
The stepping form for plain Python policies is the same two kernels with the policy called between them.
"""

import numpy as np
from numba import int64

from backfill.compiler.kernel import kernel
from backfill.core.errors import ENDLESS, NONE, fail
from backfill.core.state import PolicyT, StateT
from backfill.core.trace import PASSES
from backfill.core.world import WorldT, close_instant, open_instant

# So many passes in a row that a policy asked for, and at which nothing happened, are no end.
IDLE = np.int64(10_000_000)


@kernel(inline=True)
def count_pass(state):
    """A pass is over. Passes at which nothing happens must not go on for ever."""
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
    """At most `budget` passes. Returns how many; fewer than asked for means that nothing will happen any more.

    arrange: what puts the queue in order before each pass (queue.py).
    """
    done = 0
    while done < budget and open_instant(state, world):
        arrange(state)
        decide(state)
        close_instant(state, world)
        count_pass(state)
        done += 1
    return done
