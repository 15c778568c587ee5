"""The EASY family: order of the queue, order in which candidates are tried, and how many jobs hold reservations.

Slow twin: tests/reference/easy.py.
"""

import math

import numpy as np

from backfill.compiler.kernel import kernel
from backfill.core.plan.plan import fits_now, rebuild, settle
from backfill.core.plan.profile import FUTURE
from backfill.core.plan.shadow import place_beside, shadow_time, use_extra
from backfill.core.policy import Param, Policy, policy
from backfill.core.queue.order import ORDERS, SOURCES
from backfill.core.queue.walk import candidate, following, is_first, keep_turn, rewind
from backfill.core.verbs import BACKFILL, FIT, HEAD, held_back, place, reserve, start, start_heads
from backfill.policies.wholeplan import WHOLE_PLAN, forget_plan, may_cut_short, plan_whole

SOURCE = "Lifka, JSSPP 1995; Mu'alem and Feitelson, IEEE TPDS 12(6), 2001"


@policy(
    "easy",
    reserve="the head, at its shadow time; recomputed at each pass",
    fill="jobs that cannot delay the head, first fit",
    source=SOURCE,
    binds=True,
    settable=("order", "tried"),
    forgets="all",
)
def easy(state):
    """Start the head while it fits, then all jobs that cannot delay the next head.

    Promise: in submit order, the head starts no later than its first shadow time, if walltimes hold.
    Cost: O(r + q) per pass, for r running and q waiting jobs; a deep queue in a static order costs O(log q) per start.
    """
    backfill_behind_head(state)


@kernel()
def backfill_behind_head(state):
    """Run one pass of EASY over the queue in its order. Return the head that got a reservation; -1 if none did."""
    first, span = reserve_for_head(state)
    if first >= 0:
        start_all_beside(state, span)
    return first


@kernel()
def start_all_beside(state, span):
    """Start all jobs that do not touch the reservation `span` from now."""
    tried = state.queue.slots - 1
    rewind(state, tried)
    job = candidate(state, tried, span)
    while job >= 0:
        if place_beside(state, job, span):
            start_beside(state, job, span)
        job = candidate(state, tried, span)


@kernel(inline=True)
def reserve_for_head(state):
    """Start the first jobs while they fit.

    Return the next job, and the time to its shadow time; -1 if there is none.
    """
    first, shadow = find_head(state)
    if first < 0:
        return first, np.int64(0)
    reserve(state, first, shadow)
    return first, shadow - state.now


@kernel(inline=True)
def find_head(state):
    """Start the first jobs while they fit. Return the next job, and its shadow time; -1 if there is none."""
    first = start_heads(state)
    if first < 0:
        return first, FUTURE
    shadow = shadow_time(state, first)
    if shadow == FUTURE:
        return pass_over(state)
    return first, shadow


@kernel()
def pass_over(state):
    """Skip a head that would not fit even if everything ended: it lacks capacity for now.

    Return the next that will fit.
    """
    rewind(state, 0)
    job = following(state, 0)
    while job >= 0:
        if place(state, job):
            start(state, job, BACKFILL)
        elif not held_back(state, job):
            shadow = shadow_time(state, job)
            if shadow < FUTURE:
                return job, shadow
        job = following(state, 0)
    return job, FUTURE


@kernel(inline=True)
def start_beside(state, job, span):
    """Start a job that `place_beside` has just placed."""
    start(state, job, BACKFILL)
    if state.jobs.walltime[job] > span:
        use_extra(state, job)


@policy(
    "first-fit",
    fill="jobs that fit, in order",
    source="algorithm without reservations; large jobs may starve",
    settable=("order",),
    forgets="all",
)
def first_fit(state):
    """Start every job that fits, in order; no job gets a reservation.

    Cost: O(q) per pass; a deep queue in a static order costs O(log q) per start.
    """
    start_all_that_fit(state)


@kernel()
def start_all_that_fit(state):
    """Run one pass over the queue in its order, without reservations."""
    start_heads(state)
    rewind(state, 0)
    job = candidate(state, 0, FUTURE)
    while job >= 0:
        if place(state, job):
            start(state, job, FIT)
        job = candidate(state, 0, FUTURE)


@policy(
    "k-reservations",
    reserve="the first k jobs; recomputed at each pass",
    fill="jobs that delay none of them, first fit",
    source="Chiang, Arpaci-Dusseau and Vernon, JSSPP 2002",
    memory={"passes": 1, "holder": "jobs", **WHOLE_PLAN},
    settable=("order", "tried"),
    params={
        "k": Param(
            4,
            0,
            math.inf,
            "jobs",
            "number of waiting jobs that hold reservations; 0 is first-fit, 1 is easy, inf is all of them",
            whole=True,
        )
    },
    forgets="all",
)
def k_reservations(state):
    """Like EASY, with reservations for the first k jobs of the order, each at its earliest start beside the others.

    Promise: none; a reservation may move later from one pass to the next.
    Cost: O((r + q) log r) per pass. If every job of a pool has a reservation that nobody reads, a pass plans no further
    than to the last job that could start.
    With k = 1 every start is that of easy, with k = 0 of first-fit.
    """
    first = start_heads(state)
    if state.own.k < state.queue.waiting or not may_cut_short(state):
        forget_plan(state)
        if first >= 0:
            plan_first(state, first)
    elif first >= 0:
        plan_whole(state)


@kernel()
def plan_first(state, first):
    """Reserve for the first k jobs, and start what delays none of them. first: the head."""
    rebuild(state)
    holder = state.own.holder  # the last pass in which each job held a reservation
    this_pass = state.own.passes[0] = state.own.passes[0] + 1
    most = left = int(min(state.own.k, state.queue.waiting))
    rewind(state, 0)
    job = first  # with limits it may differ from the first job of the walk
    while job >= 0 and left > 0:
        t = FUTURE if job != first and held_back(state, job) else settle(state, job, state.now)
        if t == state.now:
            start(state, job, HEAD if is_first(state, job) else BACKFILL)
        elif t < FUTURE:
            reserve(state, job, t)
            if left == most:
                keep_turn(state, job)
            holder[job] = this_pass
            left -= 1
        job = following(state, 0)
        if job == first:
            job = following(state, 0)
    tried = state.queue.slots - 1
    rewind(state, tried)
    job = candidate(state, tried, FUTURE)
    while job >= 0:
        if holder[job] != this_pass and fits_now(state, job):
            settle(state, job, state.now)
            start(state, job, BACKFILL)
        job = candidate(state, tried, FUTURE)


def _source(order: str) -> str:
    return f"{SOURCE}; order: {SOURCES[order]}" if order in SOURCES else SOURCE


def family() -> dict[str, Policy]:
    """Return every named member: the pass with its own orders."""
    members = {p.name: p for p in (easy, first_fit, k_reservations)}
    for order in ORDERS[1:]:
        members[f"easy-{order}"] = easy.like(
            f"easy-{order}", order=order, settable=("tried",), binds=False, source=_source(order)
        )
    members["easy-sjbf"] = easy.like(
        "easy-sjbf",
        tried="sjf",
        settable=("order",),
        fill="jobs that cannot delay the head, shortest walltime first",
        source="Tsafrir, Etsion and Feitelson, IEEE TPDS 18(6), 2007",
    )
    return members
