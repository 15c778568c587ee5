"""Starts and reservations where windows are announced: the plan then holds what runs, what is announced, and what was
decided in this pass. Called by address (far.py).
"""

from typing import Any

from numba import int64

from backfill.core.far import address_of
from backfill.core.future import book_run, earliest_start, rebuild, settle
from backfill.core.kernel import apart, kernel
from backfill.core.profile import TAKE


def use_plan(state: Any) -> None:
    """Let a State follow announced windows."""
    for plan in (state.plan, state.other):
        plan.fits = address_of(fits)
        plan.hold_place = address_of(hold_place)
        plan.book_start = address_of(book_start)


@kernel()
def _lay_out(state):
    """Make the plan of this pass, where it was not made yet."""
    if not state.plan.live:
        rebuild(state)
        state.plan.live = 1


@apart()
def fits(state, job):
    """1 where a job fits from now on, else 0."""
    _lay_out(state)
    return int64(earliest_start(state, job, state.now) == state.now)


@apart()
def hold_place(state, job):
    """Book a job at its earliest start; returns that start, FUTURE where it has none."""
    _lay_out(state)
    return settle(state, job, state.now)


@apart()
def book_start(state, run):
    """Book a run that starts now."""
    book_run(state, run, state.now, max(state.runs.limit[run], state.now + 1), TAKE)
    return int64(0)
