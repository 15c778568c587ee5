"""Limits by their kind, for policies that check some of them before they look for nodes and others after it."""

from backfill.compiler.wall import verb
from backfill.core.errors import BY_HELD_BACK
from backfill.core.queue.walk import is_waiting


@verb(within=True)
def held_back_by(state, job, kinds, kind):
    """Return whether a limit of this kind keeps a waiting job from starting now.

    kinds: int64, the kind of each licence and account; kind 0 for those behind its end.
    """
    if not is_waiting(state, job, BY_HELD_BACK):
        return False
    jobs = state.jobs
    for item in range(jobs.limit_first[job], jobs.licence_first[job + 1]):
        account = jobs.licence[item]
        mine = kinds[account] if account < len(kinds) else 0
        if mine == kind and state.free.licences[account] < jobs.licence_count[item, 0]:
            return True
    return False
