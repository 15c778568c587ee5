"""When a job could start if nobody else waited: running jobs leave in groups that grow, in order of their limits.

A width within which no run ends is skipped.

Source: _will_run_test in select/cons_tres (job_test.c) of Slurm 22.05.8; versions from 24.11 on are read, not run.
Times are microseconds; Slurm counts whole seconds.
"""

import numpy as np

from backfill.compiler.kernel import kernel
from backfill.core.place.gangs import shares_site
from backfill.core.plan.promises import NO_TIME
from backfill.policies.slurm.seats import choose, enough, seat, usable_tasks

SECOND = np.int64(1_000_000)
WINDOW = 30 * SECOND  # width of the first group


@kernel(inline=True)
def whole_second(t):
    """Return the begin of the second in which an instant lies."""
    return t // SECOND * SECOND


@kernel(inline=True)
def limit_of_run(state, run):
    """Return the end of a run at its limit, in whole seconds."""
    return whole_second(state.runs.limit[run])


@kernel()
def guessed_end(state, run, now):
    """Return when a run is expected to end: at its limit, or later if that has passed."""
    end = limit_of_run(state, run)
    if end > now:
        return end
    end += np.int64(state.own.KillWait) * SECOND + np.int64(state.own.OverTimeLimit) * 60 * SECOND
    return end if end > now else now + SECOND


@kernel()
def is_on(state, run, nodes):
    """Return whether a run has any of the nodes with a number other than 0."""
    if state.machine.pool:
        return True
    first = state.runs.first[run]
    for pair in range(first, first + state.runs.many[run]):
        if nodes[state.runs.held[pair, 0]] != 0:
            return True
    return False


@kernel()
def give_back(state, run, room):
    """Add what a run holds to these amounts (m, k)."""
    job = state.runs.job[run]
    if state.machine.pool:
        for k in range(state.machine.resources):
            room[0, k] += state.jobs.need[job, k]
        return
    first = state.runs.first[run]
    for pair in range(first, first + state.runs.many[run]):
        node, tasks = state.runs.held[pair, 0], state.runs.held[pair, 1]
        for k in range(state.machine.resources):
            room[node, k] += tasks * state.jobs.demand[job, k]


@kernel()
def count_again(state, job, run, allowed, room, usable):
    """Count again how many tasks of a job the nodes of a run can take."""
    if state.machine.pool:
        usable[0] = usable_tasks(state, job, allowed, room, np.int64(0))
        return
    first = state.runs.first[run]
    for pair in range(first, first + state.runs.many[run]):
        node = state.runs.held[pair, 0]
        usable[node] = usable_tasks(state, job, allowed, room, node)


@kernel()
def expected_start(state, job, allowed, now, after, later, usable, taken):
    """Return when a job could start on the allowed nodes, NO_TIME if never; `taken` (m,) gets its tasks on each node.

    after, later: of the plan, see backfill.py; they count from 24.11 on. now: in whole seconds.
    """
    own, runs = state.own, state.runs
    recent = own.version >= 24.11
    room = state.free.nodes.copy()
    if recent and after > now:
        for i in range(runs.active):
            if guessed_end(state, runs.by_limit[i], now) <= after:
                give_back(state, runs.by_limit[i], room)
        if choose(state, job, allowed, room, usable, taken):
            return after
        room = state.free.nodes.copy()
    elif choose(state, job, allowed, room, usable, taken):
        return now
    if recent and after > now:
        choose(state, job, allowed, room, usable, taken)  # counts again, with what is free now
    apart = shares_site(state, job)
    window, barrier, at = WINDOW, NO_TIME, 0
    while at < runs.active:
        last = np.int64(-1)
        first = at
        while at < runs.active:
            run = runs.by_limit[at]
            at += 1
            if not is_on(state, run, allowed):
                continue
            if recent and later != NO_TIME and guessed_end(state, run, now) > later:
                at = runs.active
                break
            if barrier == NO_TIME:
                barrier = -(-limit_of_run(state, run) // WINDOW) * WINDOW
            give_back(state, run, room)
            if not apart:
                count_again(state, job, run, allowed, room, usable)
            last = run
            if at < runs.active and limit_of_run(state, runs.by_limit[at]) > barrier + window:
                break
        if last < 0:
            return NO_TIME
        if apart:
            fits = choose(state, job, allowed, room, usable, taken)
        else:  # the same, with counts that are kept from group to group
            fits = enough(state, job, usable) and seat(state, job, usable, taken)
        if fits:
            if own.version >= 25.05:
                for i in range(first, at):
                    if is_on(state, runs.by_limit[i], taken):
                        last = runs.by_limit[i]
            return guessed_end(state, last, now)
        window = grown(state, window)
        while at < runs.active and limit_of_run(state, runs.by_limit[at]) > barrier + window:
            window = grown(state, window)
    return NO_TIME


@kernel(inline=True)
def grown(state, window):
    """Return the width of the next group."""
    linear = np.int64(state.own.bf_window_linear) * SECOND
    return window + linear if linear > 0 else 2 * window
