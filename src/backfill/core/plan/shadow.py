"""The shadow time of a job and the extra that other jobs may take beside it: the one reservation of EASY.

Source: Lifka, JSSPP 1995; Mu'alem and Feitelson, IEEE TPDS 12(6), 2001; generalised to nodes and licences.
"""

from typing import Any

import numpy as np
from numba import int64

from backfill.compiler.far import call
from backfill.compiler.kernel import apart, kernel
from backfill.compiler.loops import few_turns
from backfill.compiler.record import record, zeros
from backfill.compiler.wall import verb
from backfill.core.errors import BY_PLACE_BESIDE, BY_SHADOW_TIME, NONE, NOT_STARTED, fail
from backfill.core.place.placement import UNBOUNDED
from backfill.core.place.shapes import heed_node, heed_reservation, sit
from backfill.core.plan.later import count_later, find_lack, fits_later, keep_later, move_back, move_on, place_later
from backfill.core.plan.profile import FUTURE
from backfill.core.queue.walk import is_waiting, keep_turn
from backfill.core.runs import RUNNING, is_suspended
from backfill.core.verbs import fits_as_before, place, was_preempted

SHADOW = [
    # the extra: limits for jobs that do not end by the shadow time; unbounded where the reservation takes nothing
    ("extra", int64[:, ::1]),  # (m, k)
    ("licences", int64[::1]),  # (l,)
    ("job", int64),  # the job with the reservation at this instant; -1 none
    ("pairs", int64[:, ::1]),  # (m, 2): pairs (node, tasks) of the reservation
    ("count", int64),  # of them
    ("until", int64),  # no reservation is made before this instant
    ("booked", int64),  # with windows: the job whose reservation is booked in the plan of this pass; -1 none
    ("begin", int64),  # begin of that booking
]
Shadow, ShadowT = record("Shadow", SHADOW, globals())


def new_shadow(nodes: int, resources: int, licences: int) -> Any:
    """Return the record without a reservation."""
    return Shadow(
        extra=np.full((nodes, resources), UNBOUNDED),
        licences=np.full(licences, UNBOUNDED),
        job=-1,
        pairs=zeros(nodes, 2),
        count=0,
        until=0,
        booked=-1,
        begin=0,
    )


@verb()
def shadow_time(state, job):
    """Return the earliest time at which a job is sure to fit, from the limits of the running jobs alone.

    What is left beside the job at that time goes to shadow.extra and shadow.licences for the nodes and licences that it
    takes; the others are unbounded.
    """
    return shadow_from(state, job, state.now)


@verb()
def shadow_from(state, job, begin):
    """Like `shadow_time`, but not before `begin`: a later time leaves more to other jobs.

    If a window is in the way of a job that starts at `begin`, the result is its shadow time.
    """
    if not is_waiting(state, job, BY_SHADOW_TIME):
        return FUTURE
    state.shadow.until = begin
    if state.machine.windows > 0:
        t = _book_planned(state, job)
    elif state.machine.pool:
        t = _on_pool(state, job)
    else:
        t = _on_nodes(state, job)
    if t < FUTURE:
        keep_turn(state, job)
    return t


@kernel()
def _book_planned(state, job):
    """Book the reservation in the plan while windows are announced; nothing else then bounds what may start."""
    forget_reservation(state)
    return call(state.plan.hold_place, state, job)


@kernel()
def _on_pool(state, job):
    runs, free, extra, resources = state.runs, state.free.nodes, state.shadow.extra, state.machine.resources
    over = np.int64(1)  # number of current runs, by limit, that are over then
    for k in range(resources):
        few_turns()
        need, there, count = state.jobs.need[job, k], free[0, k], np.int64(0)
        if need == 0:
            continue
        while there < need and count < runs.active:
            there += runs.amounts[k, count]
            count += 1
        over = max(over, count if there >= need else runs.active + 1)
    if over > runs.active:
        forget_reservation(state)
        return FUTURE
    t = max(runs.limits[over - 1], state.now, state.shadow.until)
    # Ties count: every job that ends at the shadow time adds to the extra.
    while over < runs.active and runs.limits[over] <= t:
        over += 1
    state.shadow.job = job
    for k in range(resources):
        few_turns()
        there = free[0, k]
        for i in range(over):
            there += runs.amounts[k, i]
        extra[0, k] = there - state.jobs.need[job, k]
    return t


@apart()
def _on_nodes(state, job):
    forget_reservation(state)
    keep_later(state)
    later = state.later
    if later.job != job:
        count_later(state, job)
    if later.count == 0:
        move_on(state)
    if later.count == 0:
        return FUTURE
    if is_suspended(state, job):
        later.lacks = 0
    if _fits_then(state, job):
        while later.lacks <= 0 and move_back(state):
            if not _fits_then(state, job):
                find_lack(state, job)
                move_on(state)
                break
    else:
        while not _fits_then(state, job):
            find_lack(state, job)
            if not move_on(state):
                return FUTURE
    while later.count < state.runs.active and state.runs.limits[later.count] <= state.shadow.until:
        later.lacks = 0
        move_on(state)
    if not is_suspended(state, job):
        place_later(state, job)
    _remember(state, job)
    return max(later.until, state.shadow.until)


@kernel()
def _fits_then(state, job):
    if is_suspended(state, job):
        return fits_as_before(state, job, state.later.nodes, state.later.licences)
    return fits_later(state, job)


@kernel()
def _remember(state, job):
    """Set the extra: what is left beside a job at the shadow time, on its nodes and of its licences."""
    state.shadow.job, state.shadow.count = job, state.placed.count
    for pair in range(state.placed.count):
        node, tasks = state.placed.pairs[pair, 0], state.placed.pairs[pair, 1]
        state.shadow.pairs[pair, 0], state.shadow.pairs[pair, 1] = node, tasks
        for k in range(state.machine.resources):
            few_turns()
            state.shadow.extra[node, k] = state.later.nodes[node, k] - tasks * state.jobs.demand[job, k]
    for item in range(state.jobs.licence_first[job], state.jobs.licence_first[job + 1]):
        licence = state.jobs.licence[item]
        state.shadow.licences[licence] = state.later.licences[licence] - state.jobs.licence_count[item, 0]
    heed_reservation(state)


@kernel()
def forget_reservation(state):
    """Drop the reservation, so that nothing bounds the extra."""
    job = state.shadow.job
    if job < 0:
        return
    state.shadow.job = NONE
    if state.machine.pool:
        for k in range(state.machine.resources):
            few_turns()
            state.shadow.extra[0, k] = UNBOUNDED
        return
    for pair in range(state.shadow.count):
        for k in range(state.machine.resources):
            few_turns()
            state.shadow.extra[state.shadow.pairs[pair, 0], k] = UNBOUNDED
    for item in range(state.jobs.licence_first[job], state.jobs.licence_first[job + 1]):
        state.shadow.licences[state.jobs.licence[item]] = UNBOUNDED
    state.shadow.count = 0


@verb()
def place_beside(state, job, span):
    """Like `place`, without touching the reservation: a job that outlasts `span` must also fit in the extra."""
    if not is_waiting(state, job, BY_PLACE_BESIDE):
        return False
    if state.machine.windows > 0 or state.machine.pool or state.jobs.walltime[job] <= span or state.shadow.job < 0:
        return place(state, job)
    if state.batch.preemptions > 0 and was_preempted(state, job):
        return False
    if is_suspended(state, job):
        shadow = state.shadow
        return fits_as_before(state, job, state.free.nodes, state.free.licences) and fits_as_before(
            state, job, shadow.extra, shadow.licences
        )
    return sit(state, job, True)


@verb()
def use_extra(state, job):
    """Subtract from the extra a job that was started in this pass and outlasts the shadow time."""
    run = np.int64(state.runs.last[job]) if 0 <= job < state.jobs.count else NONE
    if run == NONE or state.runs.how[run] != RUNNING or state.runs.start[run] != state.now:
        fail(state, NOT_STARTED, job, NONE, NONE, NONE)
        return
    if state.machine.windows > 0 or state.shadow.job < 0:
        return
    if state.machine.pool:
        for k in range(state.machine.resources):
            few_turns()
            state.shadow.extra[0, k] -= state.jobs.need[job, k]
        return
    shadow = state.shadow
    for pair in range(state.runs.first[run], state.runs.first[run] + state.runs.many[run]):
        node, tasks = state.runs.held[pair, 0], state.runs.held[pair, 1]
        if shadow.extra[node, 0] < UNBOUNDED:
            for k in range(state.machine.resources):
                few_turns()
                shadow.extra[node, k] -= tasks * state.jobs.demand[job, k]
            heed_node(state, node)
    for item in range(state.jobs.licence_first[job], state.jobs.licence_first[job + 1]):
        if shadow.licences[state.jobs.licence[item]] < UNBOUNDED:
            shadow.licences[state.jobs.licence[item]] -= state.jobs.licence_count[item, 0]
