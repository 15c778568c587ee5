"""The free resources at a future instant if every run lasts to its limit, updated while runs start and end.

The reservation of EASY hardly moves from one pass to the next, so its instant is not searched again from now on: the
free resources at the instant follow each run that reaches beyond it, and the instant moves as needed. The number of
fitting tasks of one job is kept as well. This is used among nodes only: on a pool a sum is quick.
"""

from typing import Any

import numpy as np
from numba import int64

from backfill.compiler.kernel import apart, kernel
from backfill.compiler.loops import few_turns
from backfill.compiler.record import record, zeros
from backfill.core.place.gangs import first_enough, group_of, may_run_on, seat
from backfill.core.place.placement import holds, licences_free, tasks_that_fit, times

LATER = [
    ("live", int64),  # 1: an instant is kept
    ("until", int64),  # the instant
    ("count", int64),  # number of current runs, by limit, that are over by then
    ("nodes", int64[:, ::1]),  # (m, k): free then
    ("licences", int64[::1]),  # (l,)
    ("job", int64),  # the job whose tasks are counted; -1 none
    ("tasks", int64[::1]),  # (m,): number of its tasks that fit on a node
    ("sums", int64[::1]),  # (sites,): number on the nodes of a site; all in the first sum if they may run anywhere
    ("enough", int64),  # sum at which the job fits
    ("lacks", int64),  # lower bound of the tasks that do not fit just before `until`; 0 not known
]
Later, LaterT = record("Later", LATER, globals())


def new_later(nodes: int, resources: int, licences: int, sites: int) -> Any:
    """Return an empty record."""
    return Later(
        live=0,
        until=0,
        count=0,
        nodes=zeros(nodes, resources),
        licences=zeros(licences),
        job=-1,
        tasks=zeros(nodes),
        sums=zeros(sites),
        enough=0,
        lacks=0,
    )


@apart()
def give_later(state, run, sign):
    """Update for a run that is about to end (sign 1) or has just started (-1).

    Called while it is among the current runs.
    """
    later = state.later
    if later.until < state.now:
        later.live = 0
        return
    if sign > 0 and later.lacks > 0:
        later.lacks -= _at_most(state, run)
    if state.runs.limit[run] > later.until:
        _give(state, run, sign)
    else:
        later.count -= sign


@kernel()
def _at_most(state, run):
    """Return an upper bound of the additional tasks that fit at any instant because a run has ended.

    If a resource bounds them, these are the tasks that fit into the released amount, plus one for what was free before.
    """
    later, runs, jobs = state.later, state.runs, state.jobs
    found = np.int64(0)
    for pair in range(runs.first[run], runs.first[run] + runs.many[run]):
        here = np.int64(0)
        for k in range(state.machine.resources):
            few_turns()
            unit = jobs.demand[later.job, k]
            if unit > 0:
                here = max(here, times(runs.held[pair, 1] * jobs.demand[runs.job[run], k], unit))
        found += jobs.tasks[later.job] if jobs.alone[later.job] else min(here + 1, jobs.most[later.job])
    return found


@kernel()
def _give(state, run, sign):
    later, runs, jobs = state.later, state.runs, state.jobs
    job = runs.job[run]
    for pair in range(runs.first[run], runs.first[run] + runs.many[run]):
        node, tasks = runs.held[pair, 0], runs.held[pair, 1]
        for k in range(state.machine.resources):
            few_turns()
            later.nodes[node, k] += sign * tasks * jobs.demand[job, k]
        if later.job >= 0:
            _count_again(state, node)
    for item in range(jobs.licence_first[job], jobs.licence_first[job + 1]):
        later.licences[jobs.licence[item]] += sign * jobs.licence_count[item, 0]


@kernel()
def _count_again(state, node):
    """Count the tasks that fit on a node at the instant again."""
    later, jobs = state.later, state.jobs
    job = later.job
    tasks, fit = jobs.tasks[job], np.int64(0)
    if may_run_on(state, job, node):
        if jobs.alone[job]:
            fit = tasks if holds(later.nodes, node, jobs.demand, job, tasks) else np.int64(0)
        else:
            fit = tasks_that_fit(later.nodes, node, jobs.demand, job, jobs.most[job])
    if fit == later.tasks[node]:
        return
    group = group_of(state, job, node)
    had = later.sums[group] >= tasks
    later.sums[group] += fit - later.tasks[node]
    later.tasks[node] = fit
    later.enough += int64(later.sums[group] >= tasks) - int64(had)


@apart()
def fits_later(state, job):
    """Return whether a job fits at the instant that is kept."""
    later, jobs = state.later, state.jobs
    first, last = jobs.licence_first[job], jobs.licence_first[job + 1]
    return later.enough > 0 and licences_free(later.licences, jobs.licence, jobs.licence_count, first, last)


@apart()
def keep_later(state):
    """Start keeping the free resources at an instant; keep the previous instant if it is not before now."""
    later = state.later
    if not later.live:
        for node in range(state.machine.nodes):
            for k in range(state.machine.resources):
                few_turns()
                later.nodes[node, k] = state.free.nodes[node, k]
        for licence in range(len(state.machine.copies)):
            later.licences[licence] = state.free.licences[licence]
        later.live, later.job, later.count, later.until = 1, -1, 0, state.now
    if later.until < state.now:
        later.until, later.lacks = state.now, 0
    while later.count < state.runs.active and state.runs.limits[later.count] <= later.until:
        _give(state, state.runs.by_limit[later.count], np.int64(1))
        later.count += 1


@apart()
def count_later(state, job):
    """Count the tasks of this job from now on."""
    later = state.later
    later.job, later.enough, later.lacks = job, 0, 0
    for i in range(len(later.sums)):
        later.sums[i] = 0
    for node in range(state.machine.nodes):
        later.tasks[node] = 0
        _count_again(state, node)


@apart()
def move_on(state):
    """Advance to the next limit of a run. Return False if no run is left."""
    later, runs = state.later, state.runs
    if later.count == runs.active:
        return False
    later.until = runs.limits[later.count]
    while later.count < runs.active and runs.limits[later.count] == later.until:
        _give(state, runs.by_limit[later.count], np.int64(1))
        later.count += 1
    return True


@apart()
def move_back(state):
    """Go back before the last limit that has been passed. Return False if that would be before the first end."""
    later, runs = state.later, state.runs
    last = runs.limits[later.count - 1] if later.count > 0 else state.now
    if last <= state.now or runs.limits[0] == last:
        later.until = max(last, state.now)
        return False
    while runs.limits[later.count - 1] == last:
        later.count -= 1
        _give(state, runs.by_limit[later.count], np.int64(-1))
    later.until = max(runs.limits[later.count - 1], state.now)
    return True


@kernel()
def find_lack(state, job):
    """Remember how many tasks of a job do not fit at the instant that is kept."""
    later, most = state.later, np.int64(0)
    for i in range(len(later.sums)):
        most = max(most, later.sums[i])
    later.lacks = max(state.jobs.tasks[job] - most, 0)


@apart()
def place_later(state, job):
    """Place a job that fits at the instant that is kept, as `place` would then."""
    later = state.later
    seat(state, job, later.tasks, first_enough(state, job, later.sums))
