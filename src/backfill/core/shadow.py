"""The shadow time of a job and what others may take beside it: the one reservation of EASY.

Source: Lifka, JSSPP 1995; Mu'alem and Feitelson, IEEE TPDS 12(6), 2001; generalised to nodes and licences.
"""

from backfill.core.profile import FUTURE
from backfill.core.record import kernel
from backfill.core.verbs import place, place_in

UNBOUNDED = FUTURE >> 1


@kernel()
def shadow_time(state, job):
    """The earliest time at which a job is sure to fit, counting on the limits of the running jobs alone.

    What is left beside the job at that time goes to state.extra and state.licence_extra: on the nodes and of the
    licences that it takes; the others have no bound.
    """
    if state.pool:
        return _on_pool(state, job)
    return _on_nodes(state, job)


@kernel()
def _on_pool(state, job):
    for k in range(state.resources):
        state.extra[0, k] = state.free[0, k]
    i = 0
    while i < state.active:
        t = max(state.limit[i], state.now)
        # Ties count: every job that ends at the shadow time adds to the extra.
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
    return FUTURE


@kernel()
def _on_nodes(state, job):
    for node in range(state.nodes):
        for k in range(state.resources):
            state.room[node, k] = state.free[node, k]
    for licence in range(len(state.copies)):
        state.licence_room[licence] = state.licence_free[licence]
    i = 0
    t = FUTURE
    while i < state.active:
        t = max(state.limit[i], state.now)
        while i < state.active and max(state.limit[i], state.now) == t:
            _give_room(state, state.running[i])
            i += 1
        if place_in(state, job, state.room, state.licence_room):
            break
        t = FUTURE
    for node in range(state.nodes):
        for k in range(state.resources):
            state.extra[node, k] = UNBOUNDED
    for licence in range(len(state.copies)):
        state.licence_extra[licence] = UNBOUNDED
    if t < FUTURE:
        for pair in range(state.placements):
            node, tasks = state.placed[pair, 0], state.placed[pair, 1]
            for k in range(state.resources):
                state.extra[node, k] = state.room[node, k] - tasks * state.demand[job, k]
        for item in range(state.licence_first[job], state.licence_first[job + 1]):
            licence = state.licence[item]
            state.licence_extra[licence] = state.licence_room[licence] - state.licence_count[item, 0]
    return t


@kernel()
def _give_room(state, job):
    for pair in range(state.held_first[job], state.held_first[job] + state.held_count[job]):
        node, tasks = state.held[pair, 0], state.held[pair, 1]
        for k in range(state.resources):
            state.room[node, k] += tasks * state.demand[job, k]
    for item in range(state.licence_first[job], state.licence_first[job + 1]):
        state.licence_room[state.licence[item]] += state.licence_count[item, 0]


@kernel()
def place_beside(state, job, span):
    """Like `place`, without touching what is reserved: a job that outlasts `span` must fit in the extra as well."""
    if state.pool or state.walltime[job] <= span:
        return place(state, job)
    for node in range(state.nodes):
        for k in range(state.resources):
            state.room[node, k] = min(state.free[node, k], state.extra[node, k])
    for licence in range(len(state.copies)):
        state.licence_room[licence] = min(state.licence_free[licence], state.licence_extra[licence])
    return place_in(state, job, state.room, state.licence_room)


@kernel()
def use_extra(state, job):
    """A job that was started and outlasts the shadow time uses up part of the extra."""
    if state.pool:
        for k in range(state.resources):
            state.extra[0, k] -= state.need[job, k]
        return
    for pair in range(state.held_first[job], state.held_first[job] + state.held_count[job]):
        node, tasks = state.held[pair, 0], state.held[pair, 1]
        for k in range(state.resources):
            state.extra[node, k] -= tasks * state.demand[job, k]
    for item in range(state.licence_first[job], state.licence_first[job + 1]):
        state.licence_extra[state.licence[item]] -= state.licence_count[item, 0]
