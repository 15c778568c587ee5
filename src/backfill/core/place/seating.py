"""Three placement rules besides the most powerful nodes: pack, spread and contiguous.

pack: the nodes with the least free amount of what the job requests, so that others stay whole. spread: those with the
most free amount, one task to each node before any gets a second. contiguous: the fewest neighbouring nodes, in the
order of the platform, that hold the gang; the first of equals. A rule decides where a job runs, never whether it
starts.
Slow twin: tests/reference/placement.py.
"""

import numpy as np
from numba import int64

from backfill.compiler.kernel import apart, kernel
from backfill.compiler.loops import few_turns
from backfill.core.place.gangs import first_enough, group_of, may_run_on
from backfill.core.place.placement import holds, tasks_that_fit

POWER, PACK, SPREAD, CONTIGUOUS = (np.int64(i) for i in range(4))


@apart(room=int64[:, ::1])
def seat_by_rule(state, job, room):
    """Return whether a job fits into these amounts of nodes (m, k); its placement by its rule goes to state.placed."""
    placed, jobs, machine = state.placed, state.jobs, state.machine
    placed.count, placed.job = 0, job
    measure = _measure(state, job)
    if jobs.alone[job]:
        return _seat_on_one(state, job, room, measure)
    fit, sums = np.zeros(machine.nodes, np.int64), np.zeros(len(machine.sites), np.int64)
    for node in range(machine.nodes):
        if may_run_on(state, job, node):
            fit[node] = tasks_that_fit(room, node, jobs.demand, job, jobs.most[job])
            sums[group_of(state, job, node)] += fit[node]
    group = first_enough(state, job, sums)
    if group < 0:
        return False
    for node in range(machine.nodes):
        if group_of(state, job, node) != group:
            fit[node] = 0
    _take(state, job, fit, room, measure)
    return True


@kernel()
def _measure(state, job):
    """Return the resource by which nodes are compared: the first that the job requests, cpus if possible."""
    for k in range(state.machine.resources):
        few_turns()
        if state.jobs.demand[job, k] > 0:
            return k
    return 0


@kernel()
def _seat_on_one(state, job, room, measure):
    placed, jobs, best = state.placed, state.jobs, -1
    tasks, rule = jobs.tasks[job], jobs.place[job]
    for node in range(state.machine.nodes):
        if best >= 0:
            here, there = room[node, measure], room[best, measure]
            if rule == CONTIGUOUS or (rule == PACK and here >= there) or (rule == SPREAD and here <= there):
                continue
        if holds(room, node, jobs.demand, job, tasks) and may_run_on(state, job, node):
            best = node
    if best < 0:
        return False
    placed.count, placed.pairs[0, 0], placed.pairs[0, 1] = 1, best, tasks
    return True


@kernel()
def _take(state, job, fit, room, measure):
    """Take the tasks of a job from nodes that together can take them (fit), and write them in the order of nodes."""
    rule, tasks = state.jobs.place[job], state.jobs.tasks[job]
    taken = np.zeros(len(fit), np.int64)
    if rule == CONTIGUOUS:
        first, last = _shortest(fit, tasks)
        for node in range(first, last):
            taken[node] = min(fit[node], tasks)
            tasks -= taken[node]
    else:
        some = np.flatnonzero(fit)
        free = np.empty(len(some), np.int64)
        for i in range(len(some)):
            free[i] = room[some[i], measure] if rule == PACK else -room[some[i], measure]
        order = np.argsort(free, kind="mergesort")
        while tasks > 0:
            for i in range(len(some)):
                node = some[order[i]]
                more = min(fit[node] - taken[node], tasks if rule == PACK else min(tasks, 1))
                taken[node] += more
                tasks -= more
    placed = state.placed
    for node in range(len(taken)):
        if taken[node] > 0:
            placed.pairs[placed.count, 0], placed.pairs[placed.count, 1] = node, taken[node]
            placed.count += 1


@kernel()
def _shortest(fit, tasks):
    """Return the range of the fewest neighbouring nodes that together take this many tasks, the first of equals."""
    best_first, best_last, held, first = 0, len(fit), 0, 0
    for last in range(len(fit)):
        held += fit[last]
        while held - fit[first] >= tasks:
            held -= fit[first]
            first += 1
        if held >= tasks and last + 1 - first < best_last - best_first:
            best_first, best_last = first, last + 1
    return best_first, best_last
