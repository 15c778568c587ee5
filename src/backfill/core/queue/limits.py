"""Limits by their kind, for policies that check some of them before they look for nodes and others after it."""

from backfill.compiler.wall import verb
from backfill.core.errors import BY_HELD_BACK
from backfill.core.queue.walk import is_waiting


@verb(within=True)
def first_limit(state, job, kinds, kind, beside):
    """Return the first account of a limit of this kind that keeps a waiting job from starting now; -1 if none does.

    kinds: int64, the kind of each licence and account; kind 0 for those behind its end. beside: int64, what each
    account counts beside what runs hold of it; 0 behind its end.
    """
    if not is_waiting(state, job, BY_HELD_BACK):
        return -1
    jobs = state.jobs
    for item in range(jobs.limit_first[job], jobs.licence_first[job + 1]):
        account = jobs.licence[item]
        mine = kinds[account] if account < len(kinds) else 0
        more = beside[account] if account < len(beside) else 0
        if mine == kind and state.free.licences[account] - more < jobs.licence_count[item, 0]:
            return account
    return -1
