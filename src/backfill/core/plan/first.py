"""The first promise of a gang among nodes: what those that wait already say about its earliest start.

Each waiting job holds the earliest start that it had at its last turn, and elsewhere free capacity has appeared only
where nodes grew (grown.py). So a gang that is harder to place starts no sooner, except on freed time. That is searched
as for a gang that is planned, and the long search through the plan begins only at the start of the other one.
"""

from numba import int64

from backfill.compiler.kernel import kernel
from backfill.compiler.wall import verb
from backfill.core.errors import NONE
from backfill.core.plan.grown import FRESH, RECENT
from backfill.core.plan.improve import on_freed_time
from backfill.core.plan.profile import FUTURE
from backfill.core.plan.promises import NO_TIME
from backfill.core.plan.search import is_as_hard, is_plain, span
from backfill.core.queue.walk import following, resume, rewind, standing

FEW = 16  # below this number of waiting jobs none is compared


@verb()
def first_chance(state, job):
    """Return an instant before which a job without a promise has no start in the plan.

    Only for policies that have tried every waiting job on all capacity that was freed before the last round.
    """
    if state.machine.pool or state.jobs.alone[job] or state.queue.waiting < FEW or not is_plain(state, job):
        return state.now
    grown = state.plan.grown
    if grown.unknown[RECENT] or grown.unknown[FRESH] or not state.free.shapes.exact or state.runs.dangles:
        return state.now
    easier = _latest_of_easier(state, job)
    if easier == NONE or state.promises.reserved[easier] <= state.now:
        return state.now
    begin = max(state.now, grown.first[RECENT] - span(state, job) + 1)
    return on_freed_time(state, job, begin, state.promises.reserved[easier], FUTURE)


@kernel()
def _latest_of_easier(state, job):
    """Return, of the planned gangs that fit wherever a job fits, the one with the latest start; -1 if there is none."""
    jobs, reserved, latest, found = state.jobs, state.promises.reserved, state.now, int64(NONE)
    stand = standing(state)  # a policy may be in the middle of a walk
    rewind(state, 0)
    other = following(state, 0)
    while other >= 0:
        t = reserved[other]
        gang = other != job and t != NO_TIME and not jobs.alone[other]
        if gang and t > latest and is_as_hard(state, job, other):
            latest, found = t, other
        other = following(state, 0)
    resume(state, stand)
    return found
