"""The shadow time of a job and what others may take beside it: the one reservation of EASY.

Source: Lifka, JSSPP 1995; Mu'alem and Feitelson, IEEE TPDS 12(6), 2001; generalised to nodes and licences.
"""

from backfill.core.errors import NONE
from backfill.core.placement import first_node, holds, licences_free, may_use
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
    _forget(state)
    for node in range(state.nodes):
        for k in range(state.resources):
            state.room[node, k] = state.free[node, k]
    for licence in range(len(state.copies)):
        state.licence_room[licence] = state.licence_free[licence]
    t = _replay_one_node(state, job) if state.alone[job] else _replay(state, job)
    if t < FUTURE:
        _remember(state, job)
    return t


@kernel()
def _replay_one_node(state, job):
    """When a job that sits on one node fits: room only grows, so a node is asked again only when it got some."""
    begin, end = state.licence_first[job], state.licence_first[job + 1]
    tasks, bound = state.tasks[job], state.bound[job]
    # Nothing was given back yet, so what the blocks have free is known.
    first = first_node(
        state.room, state.peak, state.demand, job, tasks, bound, state.allowed, state.hosts, state.licence, begin, end
    )
    i = 0
    while i < state.active:
        t = max(state.limit[i], state.now)
        while i < state.active and max(state.limit[i], state.now) == t:
            other = state.running[i]
            _give_room(state, other)
            for pair in range(state.held_first[other], state.held_first[other] + state.held_count[other]):
                node = state.held[pair, 0]
                if (
                    node < first
                    and holds(state.room, node, state.demand, job, tasks)
                    and may_use(node, bound, state.allowed, state.hosts, state.licence, begin, end)
                ):
                    first = node
            i += 1
        if first < state.nodes and licences_free(state.licence_room, state.licence, state.licence_count, begin, end):
            state.placed[0, 0], state.placed[0, 1] = first, tasks
            state.placements, state.placed_for = 1, job
            return t
    return FUTURE


@kernel()
def _replay(state, job):
    i = 0
    while i < state.active:
        t = max(state.limit[i], state.now)
        while i < state.active and max(state.limit[i], state.now) == t:
            _give_room(state, state.running[i])
            i += 1
        if place_in(state, job, state.room, state.unknown_peak, state.licence_room):
            return t
    return FUTURE


@kernel()
def _remember(state, job):
    """What is left beside a job at the shadow time, on its nodes and of its licences, is the extra."""
    state.shadow_job, state.shadow_placements = job, state.placements
    for pair in range(state.placements):
        node, tasks = state.placed[pair, 0], state.placed[pair, 1]
        state.shadow_placed[pair, 0], state.shadow_placed[pair, 1] = node, tasks
        for k in range(state.resources):
            state.extra[node, k] = state.room[node, k] - tasks * state.demand[job, k]
    for item in range(state.licence_first[job], state.licence_first[job + 1]):
        licence = state.licence[item]
        state.licence_extra[licence] = state.licence_room[licence] - state.licence_count[item, 0]


@kernel()
def _forget(state):
    """There is no reservation now, so nothing bounds the extra."""
    job = state.shadow_job
    if job < 0:
        return
    for pair in range(state.shadow_placements):
        for k in range(state.resources):
            state.extra[state.shadow_placed[pair, 0], k] = UNBOUNDED
    for item in range(state.licence_first[job], state.licence_first[job + 1]):
        state.licence_extra[state.licence[item]] = UNBOUNDED
    state.shadow_job, state.shadow_placements = NONE, 0


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
    if state.pool or state.walltime[job] <= span or state.shadow_job < 0:
        return place(state, job)
    _swap_free(state, True)
    found = place(state, job)
    _swap_free(state, False)
    return found


@kernel()
def _swap_free(state, bounded):
    """Where the reservation is, let what is free be no more than the extra; then as it was again."""
    for pair in range(state.shadow_placements):
        node = state.shadow_placed[pair, 0]
        for k in range(state.resources):
            if bounded:
                state.room[node, k] = state.free[node, k]
                state.free[node, k] = min(state.free[node, k], state.extra[node, k])
            else:
                state.free[node, k] = state.room[node, k]
    for item in range(state.licence_first[state.shadow_job], state.licence_first[state.shadow_job + 1]):
        licence = state.licence[item]
        if bounded:
            state.licence_room[licence] = state.licence_free[licence]
            state.licence_free[licence] = min(state.licence_free[licence], state.licence_extra[licence])
        else:
            state.licence_free[licence] = state.licence_room[licence]


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
