"""Limits on minutes of resources, and on jobs that grow old: of associations and of qualities of service.

Source: acct_policy.c (acct_policy_job_runnable_post_select, acct_policy_handle_accrue_time) and priority_multifactor.c
(_apply_new_usage) of Slurm 22.05.8.
Owners of limits are the associations, numbered as in fairshare.py, and behind them the qualities of service. A job has
its own and that of its partition: `qos` is the one whose limits go before those of `other_qos`. In array
shapes o is owners, k kinds of resources that any limit counts. Use is in seconds times amounts.
"""

import numpy as np

from backfill.compiler.kernel import apart, kernel
from backfill.core.queue.walk import following, rewind

GROUP, RUNNING, JOB = range(3)  # GrpTRESMins, GrpTRESRunMins, MaxTRESMins: (o, 3, k), -1 for none


@kernel(inline=True)
def has_minutes(state):
    """Return whether any limit counts minutes."""
    return len(state.own.minute_kinds) > 0


@kernel()
def use_minutes(state, job, length, decayed):
    """Charge a job for so many seconds to its owners of limits. decayed: the same, less what has decayed already."""
    own, kinds = state.own, len(state.own.minute_kinds)
    for k in range(kinds):
        amount = own.minute_amount[job * kinds + k] * own.minute_factor[job]
        for qos in (own.qos[job], own.other_qos[job]):
            if qos >= 0:
                own.minute_use[qos * kinds + k] += amount * (length if own.no_decay[qos] != 0 else decayed)
        who = own.association[job]
        while who >= 0:
            own.minute_use[who * kinds + k] += amount * decayed
            who = own.above[who]


@kernel()
def forget_minutes(state, factor):
    """Let the use of all owners decay by a factor, but not that of a QOS with NoDecay."""
    own, kinds = state.own, len(state.own.minute_kinds)
    for owner in range(len(own.no_decay) if kinds > 0 else 0):
        if own.no_decay[owner] == 0 or factor == 0.0:
            for k in range(kinds):
                own.minute_use[owner * kinds + k] *= factor


@kernel()
def hold_minutes(state, job, seconds):
    """Count seconds that a running job may still use against the limits on these."""
    own, kinds = state.own, len(state.own.minute_kinds)
    for k in range(kinds):
        amount = own.minute_amount[job * kinds + k] * own.minute_factor[job] * seconds
        for qos in (own.qos[job], own.other_qos[job]):
            if qos >= 0:
                own.minute_held[qos * kinds + k] += amount
        who = own.association[job]
        while who >= 0:
            own.minute_held[who * kinds + k] += amount
            who = own.above[who]


@kernel(inline=True)
def has_spared(state):
    """Return whether any limit counts jobs that it does not stop, as another QOS' limit of its kind goes before it."""
    return len(state.own.spared_item) > 0


@kernel()
def spare(state, job):
    """Count a job that starts against the limits that count and do not stop it."""
    own = state.own
    if has_spared(state):
        for x in range(own.spared_first[job], own.spared_first[job + 1]):
            own.spared_use[own.spared_item[x]] += own.spared_amount[x]


@kernel()
def count_spared(state):
    """Count all running jobs so."""
    runs = state.runs
    if has_spared(state):
        state.own.spared_use[:] = 0
        for i in range(runs.active):
            spare(state, runs.job[runs.by_limit[i]])


@kernel()
def count_held(state):
    """Count what all running jobs may still use: their time limits, less what has been charged."""
    own, runs = state.own, state.runs
    count_spared(state)
    if not has_minutes(state):
        return
    own.minute_held[:] = 0.0
    for i in range(runs.active):
        run = runs.by_limit[i]
        job = runs.job[run]
        charged = max(own.accounted[0] // 1_000_000 - runs.start[run] // 1_000_000, 0)
        hold_minutes(state, job, max(limit_seconds(state, job) - charged, 0))


@kernel(inline=True)
def limit_seconds(state, job):
    """Return the time limit of a job in whole minutes, as seconds."""
    return -(-state.jobs.walltime[job] // 60_000_000) * 60


@kernel(inline=True)
def lacks_minutes(state, job, now):
    """Return whether a limit on minutes keeps a job from starting, by what has been used until now or, if not `now`,
    by what does not decay of that.
    """
    return has_minutes(state) and limit_on_minutes(state, job, now) >= 0


@apart(of_policy=True)
def limit_on_minutes(state, job, now):
    """Return the index in `minute_limit` of the first limit that keeps a job from starting; -1 for none. now: see
    `lacks_minutes`.
    """
    own = state.own
    if not has_minutes(state) or own.association[job] < 0:
        return np.int64(-1)
    qos, other, who, none = own.qos[job], own.other_qos[job], own.association[job], np.int64(-1)
    first, found = True, none
    if qos >= 0:
        found = limit_on_minutes_of(state, job, now, qos, none, none, True)
    if found < 0 and other >= 0:
        found = limit_on_minutes_of(state, job, now, other, qos, none, True)
    while found < 0 and who >= 0:
        found = limit_on_minutes_of(state, job, now, who, qos, other, first)
        who, first = own.above[who], False
    return found


@kernel()
def limit_on_minutes_of(state, job, now, owner, qos, other, own_limit):
    """Return the index of the first limit of an owner that keeps a job from starting; -1 for none.

    qos, other: whose limits go before those of the owner, resource by resource; -1 for none. own_limit: whether the
    owner's limit for one job counts.
    """
    own, kinds = state.own, len(state.own.minute_kinds)
    for k in range(kinds):
        asked = own.minute_asked[job] * own.minute_amount[job * kinds + k]
        used, held = np.int64(0), np.int64(0)
        if own.minute_factor[job] != 0.0:
            if now or (own.no_decay[owner] != 0 and not is_reset_later(state)):
                used = np.int64(own.minute_use[owner * kinds + k] / 60.0)
            if now:
                held = np.int64(own.minute_held[owner * kinds + k] / 60.0)
        group = limit_of(own, owner, qos, other, GROUP, k, kinds)
        if group >= 0:
            used_up = asked > 0 and used >= group
            if used_up or (own.safe[0] != 0 and asked > 0 and asked + held > group - used):
                return (owner * 3 + GROUP) * kinds + k
        running = limit_of(own, owner, qos, other, RUNNING, k, kinds)
        if running >= 0 and asked > 0 and asked + held > running:
            return (owner * 3 + RUNNING) * kinds + k
        most = limit_of(own, owner, qos, other, JOB, k, kinds)
        if own_limit and most >= 0 and asked > most:
            return (owner * 3 + JOB) * kinds + k
    return np.int64(-1)


@kernel(inline=True)
def limit_of(own, owner, qos, other, which, k, kinds):
    """Return a limit of an owner; -1 if it has none, or if a QOS has one that goes before."""
    for before in (qos, other):
        if before >= 0 and own.minute_limit[(before * 3 + which) * kinds + k] >= 0:
            return np.int64(-1)
    return own.minute_limit[(owner * 3 + which) * kinds + k]


@kernel(inline=True)
def is_reset_later(state):
    """Return whether PriorityUsageResetPeriod will forget all usage."""
    return state.own.resets[len(state.own.resets) - 1] > state.now


@kernel()
def waits_for_decay(state):
    """Return whether a waiting job may start after a while although nothing else happens, as use decays."""
    own = state.own
    if not has_minutes(state) or not (own.PriorityDecayHalfLife > 0.0 or is_reset_later(state)):
        return False
    rewind(state, 0)
    for _ in range(state.queue.waiting):
        job = following(state, 0)
        if lacks_minutes(state, job, True) and not lacks_minutes(state, job, False):
            return True
    return False


@kernel(inline=True)
def accrues_since(state, job):
    """Return since when a job has grown old; the end of time if a limit on such jobs keeps it young."""
    own = state.own
    if len(own.scope_first) == 0 or own.scope_first[job] == own.scope_first[job + 1]:
        return own.since[job] if own.accrue_always[0] == 0 else state.jobs.submit[job]
    return own.accrued[job] - 1 if own.accrued[job] > 0 else np.int64(2**62)


@kernel()
def let_accrue(state):
    """Let waiting jobs grow old from now on, by their numbers, as far as limits on the number of such jobs allow.

    `scope` lists the limits that count a job, the one that decides first. `accrued` has the instant + 1, 0 for none.
    """
    own = state.own
    if len(own.scope_most) == 0:
        return
    line, count = np.empty(state.queue.waiting, np.int64), np.zeros(len(own.scope_most), np.int64)
    rewind(state, 0)
    for i in range(len(line)):
        line[i] = following(state, 0)
    for job in line:
        if own.accrued[job] > 0:
            for x in range(own.scope_first[job], own.scope_first[job + 1]):
                count[own.scope[x]] += 1
    for job in np.sort(line):
        first, last = own.scope_first[job], own.scope_first[job + 1]
        if first < last and own.accrued[job] == 0 and count[own.scope[first]] < own.scope_most[own.scope[first]]:
            own.accrued[job] = state.now + 1
            for x in range(first, last):
                count[own.scope[x]] += 1
