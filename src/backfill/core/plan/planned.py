"""Starts and reservations while windows are announced; called by address (far.py).

The plan then holds the runs, the announced windows, and the decisions of this pass.
"""

from typing import Any

from numba import int64

from backfill.compiler.far import address_of
from backfill.compiler.kernel import apart, kernel
from backfill.core.errors import NONE
from backfill.core.plan.plan import book_job, book_run, earliest_start, rebuild, settle
from backfill.core.plan.profile import FUTURE, GIVE, TAKE
from backfill.core.plan.search import span


def use_plan(state: Any) -> None:
    """Let a State use its plan for announced windows."""
    for plan in (state.plan, state.other):
        plan.fits = address_of(fits)
        plan.hold_place = address_of(hold_place)
        plan.book_start = address_of(book_start)


@kernel()
def _lay_out(state):
    """Build the plan of this pass, unless it is built already."""
    if not state.plan.live:
        rebuild(state)
        state.plan.live, state.shadow.booked = 1, NONE


@apart()
def fits(state, job):
    """Return 1 if a job fits from now on, else 0."""
    _lay_out(state)
    return int64(earliest_start(state, job, state.now) == state.now)


@apart()
def hold_place(state, job):
    """Book a job from shadow.until on if it fits then, else at its earliest start, FUTURE if it has none.

    Return that start. What the job has booked in this pass is released before.
    """
    _lay_out(state)
    shadow = state.shadow
    if shadow.booked == job:
        book_job(state, job, shadow.begin, shadow.begin + span(state, job), GIVE)
    then = state.now < shadow.until < FUTURE and earliest_start(state, job, shadow.until) == shadow.until
    t = settle(state, job, shadow.until if then else state.now)
    shadow.booked, shadow.begin = job if t < FUTURE else NONE, t
    return t


@apart()
def book_start(state, run):
    """Book a run that starts now."""
    book_run(state, run, state.now, max(state.runs.limit[run], state.now + 1), TAKE)
    return int64(0)
