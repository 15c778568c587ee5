"""The nodes that select/cons_tres chooses for a job: best fit over runs of consecutive nodes of one weight.

Source: _eval_nodes_consec in select/cons_tres (job_test.c) of Slurm 22.05.8, topology/default.
"""

import numpy as np

from backfill.compiler.kernel import kernel
from backfill.core.errors import NONE
from backfill.core.place.gangs import may_run_on, shares_site
from backfill.core.place.placement import DISTINCT, NODE, tasks_that_fit
from backfill.core.verbs import place, place_on

PLENTY = np.int64(2**40)  # tasks on a node, for a job that requests nothing of it


@kernel(inline=True)
def least_nodes(state, job):
    """Return the least number of nodes on which a job may run."""
    own, jobs = state.own, state.jobs
    if jobs.spread[job] == DISTINCT:
        return jobs.tasks[job]
    if len(own.min_nodes) > 0 and own.min_nodes[job] > 0:
        return own.min_nodes[job]
    return np.int64(1)


@kernel(inline=True)
def most_nodes(state, job):
    """Return the greatest number of nodes on which a job may run."""
    jobs = state.jobs
    if jobs.tasks[job] == 1 or jobs.spread[job] == NODE:
        return np.int64(1)
    if jobs.spread[job] == DISTINCT:
        return jobs.tasks[job]
    if len(state.own.max_nodes) > 0 and state.own.max_nodes[job] > 0:
        return state.own.max_nodes[job]
    return state.machine.nodes


@kernel()
def choose(state, job, allowed, room, usable, taken):
    """Return whether a job fits into these amounts on the allowed nodes; `taken` (m,) gets its tasks on each node.

    allowed: int8 (m,). room: (m, k). usable: int64 (m,), overwritten.
    """
    machine = state.machine
    sites = len(machine.sites) if shares_site(state, job) else 1
    for i in range(sites):
        for node in range(machine.nodes):
            away = sites > 1 and machine.site[node] != machine.sites[i]
            usable[node] = 0 if away else usable_tasks(state, job, allowed, room, node)
        if enough(state, job, usable) and seat(state, job, usable, taken):
            return True
    return False


@kernel(inline=True)
def usable_tasks(state, job, allowed, room, node):
    """Return how many tasks of a job a node can take within these amounts; 0 if it must take them all and cannot."""
    if allowed[node] == 0 or not may_run_on(state, job, node):
        return np.int64(0)
    tasks = tasks_that_fit(room, node, state.jobs.demand, job, PLENTY)
    return np.int64(0) if tasks < state.jobs.tasks[job] and most_nodes(state, job) == 1 else tasks


@kernel()
def enough(state, job, usable):
    """Return whether nodes with these numbers of usable tasks can hold a job."""
    tasks, total, count, top = state.jobs.tasks[job], np.int64(0), np.int64(0), np.int64(0)
    for node in range(len(usable)):
        if usable[node] > 0:
            total += min(usable[node], tasks)
            count += 1
            top = max(top, usable[node])
    if most_nodes(state, job) == 1:
        return top >= tasks
    return count >= least_nodes(state, job) and total >= tasks


@kernel()
def seat(state, job, usable, taken):
    """Distribute the tasks of a job; on failure again without the nodes of fewest usable tasks."""
    least = np.int64(0)
    while True:
        if seat_on_larger(state, job, usable, least, taken):
            return True
        more = PLENTY + 1
        for node in range(len(usable)):
            if usable[node] > least:
                more = min(more, usable[node])
        if more > PLENTY:
            return False
        least = more


@kernel()
def seat_on_larger(state, job, usable, least, taken):
    """Distribute the tasks of a job over nodes with more than `least` usable tasks, one run after the other."""
    left, need, most = state.jobs.tasks[job], least_nodes(state, job), most_nodes(state, job)
    spent = np.zeros(len(usable), np.int8)
    taken[:] = 0
    while left > 0 or need > 0:
        first, last = best_run(state, usable, least, spent, left, need)
        if first < 0:
            return False
        if need <= 1:
            best = NONE
            for node in range(first, last + 1):
                if usable[node] >= left and (best < 0 or usable[node] < usable[best]):
                    best = np.int64(node)
            if best >= 0:
                taken[best] = left
                return True
        for node in range(first, last + 1):
            spent[node] = 1
            if most <= 0 or (left <= 0 and need <= 0):
                continue
            taken[node] = min(usable[node], left - max(need - 1, 0))
            left, need, most = left - taken[node], need - 1, most - 1
        if most <= 0 and (left > 0 or need > 0):
            return False
    return True


@kernel()
def best_run(state, usable, least, spent, left, need):
    """Return first and last node of the best run of consecutive nodes of one weight; -1 if there is none.

    The lowest weight; among equal weights the smallest total of usable tasks that suffices, else the largest.
    """
    best_first, best_last, best_total, best_suffices, best_weight = NONE, NONE, np.int64(0), False, np.int64(0)
    node, nodes = 0, len(usable)
    while node < nodes:
        if usable[node] <= least or spent[node] != 0:
            node += 1
            continue
        first, weight, total = np.int64(node), weight_of(state, node), np.int64(0)
        while node < nodes and usable[node] > least and spent[node] == 0 and weight_of(state, node) == weight:
            total += usable[node]
            node += 1
        suffices = total >= left and node - first >= need
        better = best_first < 0 or weight < best_weight
        if not better and weight == best_weight:
            if suffices:
                better = not best_suffices or total < best_total
            else:
                better = total > best_total and not best_suffices
        if better:
            best_first, best_last, best_total = first, np.int64(node - 1), total
            best_suffices, best_weight = suffices, weight
    return best_first, best_last


@kernel(inline=True)
def weight_of(state, node):
    """Return the Weight of a node; 1 if no site states it."""
    return state.own.weight[node] if len(state.own.weight) > 0 else np.int64(1)


@kernel()
def place_as_taken(state, job, taken):
    """Return whether a waiting job fits now with these tasks on each node, for `start`."""
    if state.machine.pool:
        return place(state, job)
    nodes, at = np.empty(state.jobs.tasks[job], np.int64), 0
    for node in range(len(taken)):
        for _ in range(taken[node]):
            nodes[at] = node
            at += 1
    return place_on(state, job, nodes)
