"""Starts and reservations while windows are announced; called by address (far.py).

The plan then holds the runs, the announced windows, and the decisions of this pass. If nothing but ends and submits has
happened since the last pass, that plan is brought up to date, else it is built anew. Where neither a window nor a
planned job is ahead, what is free on a node now stays free, so the plan of a node is asked only elsewhere.
"""

from typing import Any

import numpy as np
from numba import int64

from backfill.compiler.far import address_of
from backfill.compiler.kernel import apart, kernel
from backfill.compiler.loops import few_turns
from backfill.core.errors import NONE
from backfill.core.place.shapes import heed_node, note_node
from backfill.core.plan.plan import (
    BY_WINDOW,
    book_job,
    book_overdue,
    book_run,
    earliest_start,
    fits_from_now,
    forget_past,
    rebuild,
    settle,
)
from backfill.core.plan.profile import FUTURE, GIVE, TAKE, least_over
from backfill.core.plan.search import ONLY, span


def use_plan(state: Any) -> None:
    """Let a State use its plan for announced windows."""
    for plan in (state.plan, state.other):
        plan.fits = address_of(fits)
        plan.hold_place = address_of(hold_place)
        plan.book_start = address_of(book_start)


@kernel()
def _lay_out(state):
    """Bring the plan up to date for this pass, unless that is done already."""
    plan, batch, runs = state.plan, state.batch, state.runs
    if plan.live:
        return
    news = batch.changes + batch.starts + batch.preemptions
    if plan.kept and news == 0 and not _holds_anew(state):
        _go_on(state)
    else:
        rebuild(state)
        plan.uneven[:] = 0
        for i in range(state.machine.windows):
            if state.machine.window[i, 0] >= 0:
                plan.uneven[state.machine.window[i, 0]] = BY_WINDOW
    plan.kept = int64(not (runs.preempts or runs.dangles or runs.rows > 1 or state.bookings.kept))
    plan.live, state.shadow.booked = 1, NONE


@kernel()
def _holds_anew(state):
    """Return whether a node has begun or ceased to hold more than its capacity since the plan was built."""
    for node in range(state.machine.nodes):
        less = False
        for k in range(state.machine.resources):
            few_turns()
            less |= state.free.nodes[node, k] < 0
        if less != state.plan.overheld[node]:
            return True
    return False


@kernel()
def _go_on(state):
    """Go on with the plan of the last pass: without its reservation and what ended, with the runs that are overdue."""
    job, begin = state.shadow.booked, state.shadow.begin
    forget_past(state)
    if job != NONE:
        book_job(state, job, begin, begin + span(state, job), GIVE)
        _even_out(state, job)
    for i in range(state.batch.ends):
        run = state.batch.ended[i]
        book_run(state, run, state.now, state.runs.limit[run], GIVE)
    book_overdue(state, TAKE)


@kernel()
def _even_out(state, job):
    """Note that a job, the only one that was planned, is no longer booked on its nodes."""
    plan = state.plan
    if not state.machine.pool:
        for pair in range(plan.first[job], plan.first[job] + plan.many[job]):
            plan.uneven[plan.pairs[pair, 0]] &= BY_WINDOW


@apart()
def fits(state, job):
    """Return 1 if a job fits from now on, else 0."""
    _lay_out(state)
    return int64(fits_from_now(state, job))


@apart()
def hold_place(state, job):
    """Book a job from shadow.until on if it fits then, else at its earliest start, FUTURE if it has none.

    Return that start. What the job has booked in this pass is released before.
    """
    _lay_out(state)
    shadow, plan = state.shadow, state.plan
    kept = plan.kept
    if shadow.booked == job:
        book_job(state, job, shadow.begin, shadow.begin + span(state, job), GIVE)
        if kept:
            _even_out(state, job)
    elif shadow.booked != NONE:
        kept = int64(0)  # two reservations
    then = state.now < shadow.until < FUTURE and earliest_start(state, job, shadow.until) == shadow.until
    t = settle(state, job, shadow.until if then else state.now)
    shadow.booked, shadow.begin = job if t < FUTURE else NONE, t
    plan.kept = kept
    if t < FUTURE and not state.machine.pool:
        _bound_candidates(state, job, t)
    return t


@kernel()
def _bound_candidates(state, job, t):
    """Let `candidate` leave out jobs that do not end by t and would not fit beside this job, which starts then."""
    shapes, plan = state.free.shapes, state.plan
    least = np.empty((1, state.machine.resources), np.int64)
    for i in range(shapes.bounded):
        if not plan.uneven[shapes.bounds[i]]:
            heed_node(state, shapes.bounds[i])
    shapes.bounded, state.shadow.job = 0, job
    for node in range(state.machine.nodes):
        if plan.uneven[node]:
            least_over(plan.nodes, node, state.now, t + 1, least, ONLY)
            differs = False
            for k in range(state.machine.resources):
                few_turns()
                differs |= shapes.bound[node, k] != least[0, k]
                shapes.bound[node, k] = least[0, k]
            if differs:
                note_node(state, node, False)
            shapes.bounds[shapes.bounded] = node
            shapes.bounded += 1


@apart()
def book_start(state, run):
    """Book a run that starts now."""
    book_run(state, run, state.now, max(state.runs.limit[run], state.now + 1), TAKE)
    return int64(0)
