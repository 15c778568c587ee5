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
from backfill.core.place.gangs import may_run_on
from backfill.core.place.placement import holds, tasks_that_fit
from backfill.core.place.seating import POWER
from backfill.core.place.shapes import BLOCK, heed_node, may_sit, note_node, units_of
from backfill.core.plan.plan import (
    BY_WINDOW,
    book_job,
    book_overdue,
    book_run,
    earliest_start,
    forget_past,
    place_from_now,
    rebuild,
    settle,
)
from backfill.core.plan.profile import FUTURE, GIVE, TAKE, earliest, least_over, tasks_over
from backfill.core.plan.search import ONLY, span
from backfill.core.runs import is_suspended


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
    jobs, pool = state.jobs, state.machine.pool
    if not pool and (state.runs.preempts or is_suspended(state, job)):
        return int64(earliest_start(state, job, state.now) == state.now)
    if pool:
        now, length = state.now, span(state, job)
        found = earliest(state.plan.nodes, ONLY, jobs.need, job, TAKE, now, now + 1, FUTURE, length) == now
    else:
        found = _sits_from_now(state, job)
    if found and not pool and jobs.place[job] != POWER:
        place_from_now(state, job)
    state.placed.may = job if found else NONE
    return int64(found)


@kernel()
def _sits_from_now(state, job):
    """Return whether a job fits from now on; it is placed on the most powerful nodes (state.placed)."""
    shapes, machine, placed = state.free.shapes, state.machine, state.placed
    s, left = int64(state.jobs.shape[job]), state.jobs.tasks[job]
    placed.count, placed.job = 0, job
    if not may_sit(state, job, False) or not _licences_stay_free(state, job):
        return False
    if not shapes.together[s]:
        for block in range(shapes.sums.shape[1]):
            if shapes.sums[s, block] > 0:
                for node in range(block * BLOCK, min((block + 1) * BLOCK, machine.nodes)):
                    left -= _take_node(state, job, s, node, left)
                    if left == 0:
                        return True
        return False
    for place in range(len(machine.sites)):
        site = machine.sites[place]
        if shapes.by_site[s, site] >= units_of(state, job):
            placed.count, left = 0, state.jobs.tasks[job]
            for i in range(machine.site_first[site], machine.site_first[site + 1]):
                left -= _take_node(state, job, s, machine.site_node[i], left)
                if left == 0:
                    return True
    return False


@kernel()
def _licences_stay_free(state, job):
    """Return whether the licences and limits of a job leave it room from now on."""
    jobs, now, length = state.jobs, state.now, span(state, job)
    for item in range(jobs.licence_first[job], jobs.licence_first[job + 1]):
        lane = jobs.licence[item]
        if earliest(state.plan.licences, lane, jobs.licence_count, item, TAKE, now, now + 1, FUTURE, length) != now:
            return False
    return True


@kernel()
def _take_node(state, job, s, node, left):
    """Put as many of the remaining tasks on a node as fit there from now on. Return how many."""
    shapes, jobs, placed, plan, now = state.free.shapes, state.jobs, state.placed, state.plan, state.now
    alone = jobs.alone[job]
    here = left if alone else min(shapes.units[s, node], left)
    if shapes.units[s, node] == 0 or not may_run_on(state, job, node):
        return int64(0)
    if not shapes.exact:
        if alone and not holds(state.free.nodes, node, jobs.demand, job, left):
            return int64(0)
        if not alone:
            here = tasks_that_fit(state.free.nodes, node, jobs.demand, job, min(left, jobs.most[job]))
    if here > 0 and plan.uneven[node] != 0:
        if alone:
            t = earliest(plan.nodes, node, jobs.demand, job, left, now, now + 1, FUTURE, span(state, job))
            here = left if t == now else int64(0)
        else:
            here = tasks_over(plan.nodes, node, now, now + span(state, job), jobs.demand, job, here)[0]
    if here > 0:
        placed.pairs[placed.count, 0], placed.pairs[placed.count, 1] = node, here
        placed.count += 1
    return here


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
