"""EASY."""
from backfill.core.queue import candidate, head, is_first, rewind
from backfill.core.record import kernel
from backfill.core.state import StateT
from backfill.core.verbs import BACKFILL, FIT, HEAD, place, reserve, start
from numba import types


@kernel(inline=True)
def start_heads(state):
    job = head(state)
    while job >= 0 and place(state, job):
        start(state, job, HEAD)
        job = head(state)
    return job


@kernel(inline=True)
def shadow(state, job):
    """pool only for now"""
    for k in range(state.resources):
        state.extra[0, k] = state.free[0, k]
    i = 0
    while i < state.active:
        t = max(state.limit[i], state.now)
        while i < state.active and max(state.limit[i], state.now) == t:
            for k in range(state.resources):
                state.extra[0, k] += state.need[state.running[i], k]
            i += 1
        fits = True
        for k in range(state.resources):
            fits = fits and state.extra[0, k] >= state.need[job, k]
        if fits:
            for k in range(state.resources):
                state.extra[0, k] -= state.need[job, k]
            return t
    return 2**62


@kernel(types.void, StateT)
def easy(state):
    first = start_heads(state)
    if first < 0:
        return
    t = shadow(state, first)
    reserve(state, first, t)
    tried = state.slots - 1
    rewind(state, tried)
    job = candidate(state, tried, t - state.now)
    while job >= 0:
        start(state, job, BACKFILL)
        if state.walltime[job] > t - state.now:
            for k in range(state.resources):
                state.extra[0, k] -= state.need[job, k]
        job = candidate(state, tried, t - state.now)

@kernel(types.void, StateT)
def fcfs(state):
    start_heads(state)
