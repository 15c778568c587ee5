"""The reason code of each waiting job, as both loops leave it: it stays until a loop that reaches the job changes it.

Source: _schedule in job_scheduler.c, _attempt_backfill in backfill.c, acct_policy_job_runnable_pre_select and
acct_policy_job_runnable_post_select in acct_policy.c of Slurm 22.05.8.
Kept while somebody watches, in the memory `reason`. A limit on numbers or amounts is LIMIT and its account, one on
minutes MINUTES and its place in `minute_limit`.
"""

from backfill.compiler.kernel import apart, kernel
from backfill.core.queue.limits import first_limit
from backfill.policies.slurm.minutes import limit_on_minutes
from backfill.policies.slurm.told import is_told

# TAKEN: blocked jobs have taken so many nodes that less are left than the job needs
NO_REASON, PRIORITY, RESOURCES, UNAVAILABLE, TAKEN, LICENCES, THROTTLED = range(7)
LIMIT, MINUTES = 1 << 8, 1 << 32


@kernel(inline=True)
def are_reasons_kept(state):
    """Return whether reasons are kept now."""
    return len(state.own.reason) > 0 and is_told(state)


@kernel()
def say(state, job, reason):
    """Give a job a reason."""
    if are_reasons_kept(state):
        state.own.reason[job] = reason


@kernel()
def copy_reason(state, job, other):
    """Give a job the reason of another one."""
    if are_reasons_kept(state):
        state.own.reason[job] = state.own.reason[other]


@apart(of_policy=True)
def say_limit(state, job):
    """Give a job the first limit that stops it as its reason."""
    if not are_reasons_kept(state):
        return
    account = first_limit(state, job, state.own.on_amounts, 0, state.own.spared_use)
    if account < 0:
        account = first_limit(state, job, state.own.on_amounts, 1, state.own.spared_use)
    state.own.reason[job] = LIMIT + account if account >= 0 else MINUTES + limit_on_minutes(state, job, True)


@kernel()
def drop_limit(state, job):
    """Let a job that a loop has reached have no limit as its reason, until it meets one again."""
    if are_reasons_kept(state) and state.own.reason[job] >= LIMIT:
        state.own.reason[job] = NO_REASON


@kernel()
def say_blocked(state, job):
    """Give a job behind a blocked one its reason: one that it has already stays, but that nodes are busy."""
    if are_reasons_kept(state) and state.own.reason[job] in (NO_REASON, RESOURCES, TAKEN):
        state.own.reason[job] = PRIORITY
