"""When Slurm's loops run: at ends, by the background loop that wakes each second, and every bf_interval.

Source: _slurmctld_background in controller.c and backfill_agent in sched/backfill (backfill.c) of Slurm 22.05.8.
An instant at which nothing has changed since a loop ran last would repeat its decisions; no pass is requested for it.
"""

import numpy as np

from backfill.compiler.kernel import kernel
from backfill.core.plan.promises import NO_TIME
from backfill.core.transitions import TIMEOUT
from backfill.core.verbs import wake
from backfill.policies.slurm.ends import SECOND, whole_second

LONG_AGO = np.int64(-(2**61))


@kernel(inline=True)
def microseconds(seconds):
    """Return seconds as whole microseconds."""
    return np.int64(np.floor(seconds * 1e6 + 0.5))


@kernel(inline=True)
def ceiling(t, step, phase):
    """Return the first instant not before t that is a multiple of `step` plus `phase`."""
    return -(-(t - phase) // step) * step + phase


@kernel()
def hear(state):
    """Note what the events of this instant ask of the loops."""
    own, batch = state.own, state.batch
    if own.begun[0] == 0:
        own.begun[0], own.last_background[0] = 1, LONG_AGO
        own.cycle_end[0] = whole_second(state.now) + microseconds(own.bf_phase) - microseconds(own.bf_interval)
        own.next_cycle[0] = own.accounted[0] = NO_TIME
    if batch.changes > 0:
        own.capacities[0] += 1
    others = batch.arrivals + batch.leaves + batch.changes + batch.begins
    over = 0  # runs that completed or reached their limit; others were lost or cancelled
    for i in range(batch.ends):
        over += state.runs.how[batch.ended[i]] <= TIMEOUT
    others += batch.ends - over
    own.at_once[0] = np.int64(over > 0 and own.epilog > 0.0)
    if others > 0 or (over > 0 and own.epilog <= 0.0):
        own.request[0] = 1
    if others + over > 0:
        own.dirty[0] = 1


@kernel()
def main_is_due(state):
    """Return whether the main loop runs now: 0 no, 1 with its usual depth, 2 a full pass."""
    own, now = state.own, state.now
    if own.sched_interval < 0.0:
        return 0
    phase = microseconds(own.tick_phase)
    on_tick = ceiling(now, SECOND, phase) == now
    if on_tick and own.stale[0] != 0 and ceiling(now, microseconds(own.sched_interval), phase) == now:
        return 2
    waited = whole_second(now) - whole_second(own.last_background[0])
    if own.at_once[0] != 0 or (on_tick and own.request[0] != 0 and waited >= microseconds(own.batch_sched_delay)):
        return 1
    return 0


@kernel()
def note_main(state, kind, stopped):
    """Note that the main loop ran. kind: see `main_is_due`. stopped: whether it ended at its depth."""
    own = state.own
    own.stale[0] = np.int64(stopped)
    if own.at_once[0] == 0 or kind == 2:
        own.request[0], own.last_background[0] = 0, state.now
    own.at_once[0] = 0
    if state.batch.starts > 0:
        own.dirty[0] = 1


@kernel()
def set_next_cycle(state):
    """Set when the next cycle begins, if anything has changed since the last one."""
    own = state.own
    if own.bf_interval < 0.0 or own.dirty[0] == 0 or own.next_cycle[0] != NO_TIME:
        return
    due = own.cycle_end[0] + microseconds(own.bf_interval)
    period = microseconds(own.bf_interval) + own.cycle_length[0] if own.busy[0] != 0 else SECOND
    own.next_cycle[0] = due if state.now <= due else due + -(-(state.now - due) // period) * period


@kernel(inline=True)
def cycle_is_due(state):
    """Return whether a cycle of the backfill loop begins now."""
    return state.own.next_cycle[0] != NO_TIME and state.own.next_cycle[0] <= state.now


@kernel()
def note_cycle(state, length):
    """Note that a cycle ran, and how long it takes, in microseconds."""
    own = state.own
    own.cycle_end[0], own.cycle_length[0], own.next_cycle[0] = state.now + length, length, NO_TIME
    own.dirty[0] = np.int64(own.started[0] > 0)
    if own.started[0] > 0:
        own.stale[0] = 1


@kernel()
def wake_for_loops(state):
    """Request the next pass that a loop needs."""
    own, now = state.own, state.now
    if state.queue.waiting == 0:
        return
    phase = microseconds(own.tick_phase)
    if own.sched_interval >= 0.0 and own.request[0] != 0:
        soonest = now + 1
        if own.last_background[0] != LONG_AGO:
            soonest = max(soonest, whole_second(own.last_background[0]) + microseconds(own.batch_sched_delay))
        wake(state, ceiling(soonest, SECOND, phase))
    if own.sched_interval >= 0.0 and own.stale[0] != 0:
        wake(state, ceiling(now + 1, microseconds(own.sched_interval), phase))
    set_next_cycle(state)
    if own.next_cycle[0] != NO_TIME:
        wake(state, max(own.next_cycle[0], now + 1))
