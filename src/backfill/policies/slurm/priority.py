"""Multifactor priority: a whole number for each waiting job, which changes only every PriorityCalcPeriod.

Source: _get_priority_internal and _decay_thread in priority_multifactor.c of Slurm 22.05.8.
Without a site the priority of a job is that of the workload.
"""

import numpy as np

from backfill.compiler.kernel import apart, kernel
from backfill.core.plan.promises import NO_TIME
from backfill.core.queue.walk import arrange_by, following, rewind
from backfill.core.runs import goes_on
from backfill.core.verbs import wake
from backfill.policies.slurm.clock import ceiling, microseconds
from backfill.policies.slurm.ends import SECOND, whole_second
from backfill.policies.slurm.fairshare import forget, rank_all, reset_until, share_of, use
from backfill.policies.slurm.minutes import accrues_since, has_minutes, let_accrue, waits_for_decay
from backfill.policies.slurm.queue import MOST, is_limited, key_of
from backfill.policies.slurm.reasons import NO_REASON, say, say_limit


@kernel(inline=True)
def is_multifactor(state):
    """Return whether priorities are computed, and not those of the workload."""
    return len(state.own.tier) > 0 and state.own.multifactor[0] != 0


@kernel(inline=True)
def changes_with_time(state):
    """Return whether usage and priorities are computed anew every PriorityCalcPeriod."""
    own = state.own
    counts = own.PriorityWeightAge + own.PriorityWeightFairshare > 0.0 or has_minutes(state)
    return is_multifactor(state) and own.stored[0] != 0 and counts


@kernel()
def points_of(state, job, now):
    """Return the priority of a job at an instant: the sum of its factors, each with its weight, as a whole number.

    In the first of its partitions; the sum without what depends on the partition is kept for the others.
    """
    own = state.own
    if not is_multifactor(state):
        return max(-MOST, min(MOST, np.floor(state.jobs.priority[job])))
    age, fair = 0.0, 0.0
    if own.stored[0] != 0:
        waited = float((whole_second(now) - whole_second(accrues_since(state, job))) // SECOND)
        age = min(max(waited / (own.PriorityMaxAge * 60.0), 0.0), 1.0) * own.PriorityWeightAge
        fair = share_of(state, job) * own.PriorityWeightFairshare
    size = own.of_held_size[job] if own.looked[job] != 0 else own.of_size[job]  # whole nodes, where it holds these
    total = age + own.of_association[job] + fair + size + own.of_partition[job] + own.of_qos[job]
    total = total + own.of_tres[job] - own.nice[job]
    own.bare[job] = total - own.of_partition[job] - own.of_tres[job]
    return np.floor(min(max(total, 1.0), MOST))


@apart(of_policy=True)
def account_until_now(state):
    """Bring usage and ranks up to date: each period that is over, then the runs that ended at this instant.

    Return whether a period ended, so that all priorities are due.
    """
    own, runs, batch = state.own, state.runs, state.batch
    if not changes_with_time(state):
        return False
    period = microseconds(own.PriorityCalcPeriod * 60.0)
    if own.accounted[0] == NO_TIME:
        own.accounted[0] = ceiling(state.now - period + 1, period, 0)
        rank_all(state)
    anew = False
    while own.accounted[0] + period < state.now or (own.accounted[0] + period == state.now and batch.ends == 0):
        end_period(state, True)
        anew = True
    for i in range(batch.ends):
        run = batch.ended[i]
        use(state, run, max(runs.start[run], own.accounted[0]), state.now)
    if own.accounted[0] + period == state.now:
        end_period(state, False)
        anew = True
    if anew:
        rank_all(state)
    return anew


@kernel()
def end_period(state, before):
    """Let usage decay over a period, and charge the runs of it. before: those that end at this instant still run."""
    own, runs = state.own, state.runs
    begin = own.accounted[0]
    end = begin + microseconds(own.PriorityCalcPeriod * 60.0)
    reset_until(state, end)
    forget(state, own.PriorityCalcPeriod * 60.0)
    for i in range(runs.active):
        run = runs.by_limit[i]
        use(state, run, max(runs.start[run], begin), end)
    for i in range(state.batch.ends if before else 0):
        run = state.batch.ended[i]
        if not goes_on(state, run):
            use(state, run, max(runs.start[run], begin), end)
    own.accounted[0] = end


@apart(of_policy=True)
def prioritise(state):
    """Give each waiting job its priority, if it is new or a period ended, and sort the queue.

    Priorities of the workload change by events alone.
    """
    own, anew = state.own, account_until_now(state)
    for i in range(state.batch.arrivals):
        own.since[state.batch.arrived[i]] = state.now
        own.accrued[state.batch.arrived[i]] = 0
    let_accrue(state)
    again = anew or (state.batch.changes > 0 and not is_multifactor(state))
    if again:
        rewind(state, 0)
        for _ in range(state.queue.waiting):
            job = following(state, 0)
            own.points[job] = points_of(state, job, state.now)
    else:
        for i in range(state.batch.arrivals):
            job = state.batch.arrived[i]
            own.points[job] = points_of(state, job, state.now)
    for i in range(state.batch.arrivals):  # slurmctld looks for nodes at once, unless a limit keeps it from that
        job = state.batch.arrived[i]
        limited = is_limited(state, job, False)
        own.looked[job] |= np.int64(not limited)
        say(state, job, NO_REASON)
        if limited:
            say_limit(state, job)
    if anew:
        own.stale[0], own.dirty[0] = 1, 1
    if not again and state.batch.arrivals == 0:
        return
    rewind(state, 0)
    for _ in range(state.queue.waiting):
        job = following(state, 0)
        own.key[job] = key_of(state, job)
    arrange_by(state, 0, own.key)


@apart(of_policy=True)
def wake_for_period(state):
    """Request a pass at the end of this period, if the order of waiting jobs may change then."""
    waiting = state.queue.waiting
    if not changes_with_time(state) or waiting == 0:
        return
    changes = state.runs.active > 0 and (waiting > 1 or has_minutes(state))
    if changes or waits_for_decay(state):
        wake(state, ceiling(state.now + 1, microseconds(state.own.PriorityCalcPeriod * 60.0), 0))
