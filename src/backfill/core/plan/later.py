"""What will be free at an instant to come if every run lasts to its limit, kept while runs start and end.

The reservation of EASY hardly moves from one pass to the next, so its instant is not sought from now on each time: what
is free then follows each run that reaches beyond it, and the instant moves to where it belongs. How many tasks of one
job fit then is kept beside it. Among nodes only: on a pool that is quickly added up.
"""

from typing import Any

import numpy as np
from numba import int64

from backfill.compiler.kernel import apart, kernel
from backfill.compiler.record import record, zeros
from backfill.core.place.gangs import first_enough, group_of, may_run_on, seat
from backfill.core.place.placement import holds, licences_free, tasks_that_fit, times

LATER = [
    ("live", int64),  # 1: it is kept
    ("until", int64),  # the instant
    ("count", int64),  # of the runs that go on, by limit, that are over by then
    ("nodes", int64[:, ::1]),  # (m, k): free then
    ("licences", int64[::1]),  # (l,)
    ("job", int64),  # whose tasks are counted; -1 nobody's
    ("tasks", int64[::1]),  # (m,): how many of them fit on a node
    ("sums", int64[::1]),  # (sites,): on the nodes of a site; all in the first where they may sit anywhere
    ("enough", int64),  # how many of these are enough
    ("lacks", int64),  # so many lack, at least, before the last runs end that are over then; 0 not known
]
Later, LaterT = record("Later", LATER, globals())


def new_later(nodes: int, resources: int, licences: int, sites: int) -> Any:
    """Nothing is kept."""
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
    """A run is no more among those that go on (sign 1), or is one from now on (-1). Called while it is among them."""
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
    """How many tasks more can fit at any instant, at most, because a run has ended.

    Where a resource bounds them, those that fit in what comes back of it, and one for what lay there already.
    """
    later, runs, jobs = state.later, state.runs, state.jobs
    found = np.int64(0)
    for pair in range(runs.first[run], runs.first[run] + runs.many[run]):
        here = np.int64(0)
        for k in range(state.machine.resources):
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
            later.nodes[node, k] += sign * tasks * jobs.demand[job, k]
        if later.job >= 0:
            _count_again(state, node)
    for item in range(jobs.licence_first[job], jobs.licence_first[job + 1]):
        later.licences[jobs.licence[item]] += sign * jobs.licence_count[item, 0]


@kernel()
def _count_again(state, node):
    """Count the tasks that fit on a node then."""
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
    """Whether a job fits at the instant that is kept."""
    later, jobs = state.later, state.jobs
    first, last = jobs.licence_first[job], jobs.licence_first[job + 1]
    return later.enough > 0 and licences_free(later.licences, jobs.licence, jobs.licence_count, first, last)


@apart()
def keep_later(state):
    """Keep what is free at an instant from now on; the one that was kept before, if it was not before now."""
    later = state.later
    if not later.live:
        for node in range(state.machine.nodes):
            for k in range(state.machine.resources):
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
    """Go on to where the next runs reach their limits. False where none is left."""
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
    """Go back before the limits of the runs that are over last. False where that is not later than the first ends."""
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
    """The job does not fit at the instant that is kept: remember how many of its tasks lack."""
    later, most = state.later, np.int64(0)
    for i in range(len(later.sums)):
        most = max(most, later.sums[i])
    later.lacks = max(state.jobs.tasks[job] - most, 0)


@apart()
def place_later(state, job):
    """Place a job that fits at the instant that is kept, where `place` would then."""
    later = state.later
    seat(state, job, later.tasks, first_enough(state, job, later.sums))
