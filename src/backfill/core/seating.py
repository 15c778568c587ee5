"""Where a job sits, among the nodes where it could, when it is not on the most powerful ones: three other rules.

pack: the nodes with the least free of what it asks for, so that others stay whole. spread: those with the most free, a
task to each node before any gets a second. contiguous: the fewest neighbours in the order of the platform that hold the
gang, the first of equals. A rule says where a job sits, never whether it starts.
Slow twin: tests/reference/placement.py.
"""

import numpy as np
from numba import int64

from backfill.core.kernel import apart, kernel
from backfill.core.placement import SITE, holds, may_use, tasks_that_fit

POWER, PACK, SPREAD, CONTIGUOUS = (np.int64(i) for i in range(4))


@apart(room=int64[:, ::1])
def seat_by_rule(state, job, room):
    """Whether a job fits in this much of nodes (m, k); where, by its rule, is left in state.placed."""
    placed, jobs, machine = state.placed, state.jobs, state.machine
    placed.count, placed.job = 0, job
    measure = _measure(state, job)
    if jobs.alone[job]:
        return _seat_on_one(state, job, room, measure)
    sites = len(machine.sites) if jobs.spread[job] == SITE else 1
    fit = np.zeros(machine.nodes, np.int64)
    for place in range(sites):
        left = jobs.tasks[job]
        for node in range(machine.nodes):
            fit[node] = 0
            if (sites == 1 or machine.site[node] == machine.sites[place]) and _may_use(state, job, node):
                fit[node] = tasks_that_fit(room, node, jobs.demand, job, jobs.tasks[job])
                left -= fit[node]
        if left <= 0:
            _take(state, job, fit, room, measure)
            return True
    return False


@kernel()
def _may_use(state, job, node):
    jobs, machine = state.jobs, state.machine
    first, last = jobs.licence_first[job], jobs.limit_first[job]
    return may_use(node, jobs.bound[job], machine.allowed, machine.hosts, jobs.licence, first, last)


@kernel()
def _measure(state, job):
    """The resource by which nodes are compared: the first that the job asks for, cpus if it can be."""
    for k in range(state.machine.resources):
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
        if holds(room, node, jobs.demand, job, tasks) and _may_use(state, job, node):
            best = node
    if best < 0:
        return False
    placed.count, placed.pairs[0, 0], placed.pairs[0, 1] = 1, best, tasks
    return True


@kernel()
def _take(state, job, fit, room, measure):
    """Take the tasks of a job from nodes that together can take so many (fit), and write them in the order of nodes."""
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
    """The fewest neighbouring nodes that together take so many tasks, the first of equals: from one, up to another."""
    best_first, best_last, held, first = 0, len(fit), 0, 0
    for last in range(len(fit)):
        held += fit[last]
        while held - fit[first] >= tasks:
            held -= fit[first]
            first += 1
        if held >= tasks and last + 1 - first < best_last - best_first:
            best_first, best_last = first, last + 1
    return best_first, best_last
