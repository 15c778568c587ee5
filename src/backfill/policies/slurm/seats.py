"""The nodes that select/cons_tres chooses for a job: best fit over runs of consecutive nodes of one weight.

Source: _eval_nodes_consec in select/cons_tres (job_test.c) of Slurm 22.05.8, topology/default.
"""

import numpy as np

from backfill.compiler.kernel import kernel
from backfill.core.errors import NONE
from backfill.core.place.gangs import may_run_on, shares_site
from backfill.core.place.placement import DISTINCT, NODE, times
from backfill.core.verbs import place, place_on
from backfill.policies.slurm.bits import NOTHING, ONE, WORD, add, has, lowest, remove, size
from backfill.policies.slurm.queue import has_lists

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


@kernel(inline=True)
def most_tasks(state, job):
    """Return how many tasks of a job count on a node in the choice of nodes: from 26.05 on no more than it may have
    there, so that equal nodes are taken in their order, not the one with least to spare.
    """
    tasks, most = state.jobs.tasks[job], most_nodes(state, job)
    if state.own.version < 26.05:
        return PLENTY
    if most == 1:
        return tasks
    return np.int64(1) if most == tasks and least_nodes(state, job) == tasks else PLENTY


@kernel()
def choose(state, job, allowed, room, usable, taken):
    """Return whether a job fits into these amounts on the allowed nodes; `taken` (m,) gets its tasks on each node.

    allowed: a set of nodes. room: (m, k). usable: int64 (m,), overwritten.
    """
    count_usable(state, job, allowed, room, usable)
    return seat(state, job, allowed, usable, taken)


@kernel()
def count_usable(state, job, allowed, room, usable):
    """Write to `usable` (m,) how many tasks of a job each of the allowed nodes can take within these amounts (m, k)."""
    demand, least, most = state.jobs.demand, least_tasks(state, job), most_tasks(state, job)
    usable[:] = 0
    for i in range(len(allowed)):
        bits = allowed[i]
        while bits != NOTHING:
            node = i * WORD + lowest(bits)
            bits &= bits - ONE
            tasks = tasks_in(demand, job, least, most, room, node)
            if tasks > 0 and may_run_on(state, job, node):
                usable[node] = tasks


@kernel(inline=True)
def tasks_in(demand, job, least, most, room, node):
    """Return how many tasks of a job, at most `most`, a node can take within these amounts (m, k); 0 if that is less
    than `least`.
    """
    tasks = most
    for k in range(demand.shape[1]):
        asked, there = demand[job, k], max(room[node, k], 0)
        if asked > there:
            return np.int64(0)
        if asked > 0:
            tasks = min(tasks, there if asked == 1 else times(there, asked))
    return np.int64(0) if tasks < least else tasks


@kernel(inline=True)
def least_tasks(state, job):
    """Return the least number of tasks of a job that a node must be able to take."""
    return state.jobs.tasks[job] if most_nodes(state, job) == 1 else np.int64(1)


@kernel(inline=True)
def is_named(state, job):
    """Return whether a job asked for nodes by their names, and so may run on these alone."""
    return len(state.own.named) > 0 and state.own.named[job] != 0


@kernel()
def named_in(state, job, nodes):
    """Return the nodes of a set for which a job asked by their names."""
    found = nodes.copy()
    for node in range(state.machine.nodes):
        if has(found, node) and not may_run_on(state, job, node):
            remove(found, node)
    return found


@kernel()
def lacks_named(state, job, within, allowed):
    """Return whether nodes for which a job asked by their names are not allowed. within: those of its partition."""
    return is_named(state, job) and size(named_in(state, job, within)) > size(named_in(state, job, allowed))


@kernel(inline=True)
def suffices(state, job, count, total):
    """Return whether so many nodes, that take so many of the tasks of a job in all, can hold it."""
    if most_nodes(state, job) == 1:
        return count > 0
    return count >= least_nodes(state, job) and total >= state.jobs.tasks[job]


@kernel()
def enough(state, job, usable):
    """Return whether nodes with these numbers of usable tasks can hold a job."""
    tasks, total, count = state.jobs.tasks[job], np.int64(0), np.int64(0)
    for node in range(len(usable)):
        if usable[node] > 0:
            total += min(usable[node], tasks)
            count += 1
    return suffices(state, job, count, total)


@kernel()
def seat(state, job, allowed, usable, taken):
    """Distribute the tasks of a job over nodes with these numbers of usable tasks, of the first site that takes it if
    it must be one. Return whether that succeeds.
    """
    machine = state.machine
    if not shares_site(state, job):
        return enough(state, job, usable) and seat_there(state, job, allowed, usable, taken)
    there = np.empty_like(usable)
    for site in machine.sites:
        for node in range(machine.nodes):
            there[node] = usable[node] if machine.site[node] == site else 0
        if enough(state, job, there) and seat_there(state, job, allowed, there, taken):
            return True
    return False


@kernel()
def seat_there(state, job, allowed, usable, taken):
    """Distribute the tasks of a job; on failure again without the nodes of fewest usable tasks."""
    if state.own.pack_serial_at_end > 0.0 and state.jobs.tasks[job] == 1 and state.jobs.demand[job, 0] == 1:
        return seat_at_end(usable, taken)
    if is_least_loaded(state, job):
        return seat_least_loaded(state, job, usable, taken)
    least = np.int64(0)
    while True:
        if seat_on_larger(state, job, allowed, usable, least, taken):
            return True
        more = PLENTY + 1
        for node in range(len(usable)):
            if usable[node] > least:
                more = min(more, usable[node])
        if more > PLENTY:
            return False
        least = more


@kernel()
def seat_at_end(usable, taken):
    """Put the only task of a job on the last node that can take it, as _eval_nodes_serial does."""
    taken[:] = 0
    for node in range(len(usable) - 1, -1, -1):
        if usable[node] > 0:
            taken[node] = 1
            return True
    return False


@kernel(inline=True)
def is_least_loaded(state, job):
    """Return whether the nodes with the largest free share are taken first: LLN of the partition, or CR_LLN."""
    own = state.own
    if len(own.least_loaded) == 0:
        return False
    return own.least_loaded[own.tried[job] if has_lists(state) else own.partition[job]] != 0


@kernel()
def seat_least_loaded(state, job, usable, taken):
    """Distribute the tasks of a job by weight, then from the node with the largest share of its cpus usable.

    Source: _eval_nodes_lln of Slurm 22.05.8, and a run of it on nodes of 8, 16 and 24 cpus.
    """
    left, need, most = state.jobs.tasks[job], least_nodes(state, job), most_nodes(state, job)
    order = np.argsort(-usable / np.maximum(state.machine.capacity[:, 0], 1), kind="mergesort")
    order = order[np.argsort(state.own.weight[order], kind="mergesort")]
    taken[:] = 0
    for node in order:
        if most > 0 and usable[node] > 0 and (left > 0 or need > 0):
            taken[node] = min(usable[node], left - max(need - 1, 0))
            left, need, most = left - taken[node], need - 1, most - 1
    return left <= 0 and need <= 0


@kernel()
def seat_on_larger(state, job, allowed, usable, least, taken):
    """Distribute the tasks of a job over nodes with more than `least` usable tasks, one run after the other."""
    left, need, most = state.jobs.tasks[job], least_nodes(state, job), most_nodes(state, job)
    runs = runs_of_nodes(state, allowed, usable, least)
    taken[:] = 0
    while left > 0 or need > 0:
        i = best_run(runs, left, need)
        if i < 0:
            return False
        first, last = runs[i, 0], runs[i, 1]
        if need <= 1:
            best = NONE
            for node in range(first, last + 1):
                if usable[node] >= left and (best < 0 or usable[node] < usable[best]):
                    best = np.int64(node)
            if best >= 0:
                taken[best] = left
                return True
        runs[i, 2] = 0
        for node in range(first, last + 1):
            if most <= 0 or (left <= 0 and need <= 0):
                break
            if most == 1 and usable[node] < left:  # the last node must take what is left
                continue
            taken[node] = min(usable[node], left - max(need - 1, 0))
            left, need, most = left - taken[node], need - 1, most - 1
        if most <= 0 and (left > 0 or need > 0):
            return False
    return True


@kernel()
def runs_of_nodes(state, allowed, usable, least):
    """Return the runs of consecutive nodes of one weight with more than `least` usable tasks each, among the allowed.

    A row for each: first node, last node, total of usable tasks, weight.
    """
    runs, count, before, weight = np.empty((len(usable), 4), np.int64), 0, np.int64(-2), np.int64(1)
    weights, weighted = state.own.weight, len(state.own.weight) > 0
    for i in range(len(allowed)):
        if allowed[i] == NOTHING:
            continue
        for node in range(i * WORD, min((i + 1) * WORD, len(usable))):
            if usable[node] <= least:
                continue
            here = weights[node] if weighted else np.int64(1)
            if before != node - 1 or here != weight:
                weight = here
                runs[count, 0], runs[count, 2], runs[count, 3] = node, 0, weight
                count += 1
            runs[count - 1, 1] = before = np.int64(node)
            runs[count - 1, 2] += usable[node]
    return runs[:count]


@kernel()
def best_run(runs, left, need):
    """Return the best run of nodes of which none is used, those with a total; -1 if there is none.

    The lowest weight; among equal weights the smallest total of usable tasks that suffices, else the largest.
    """
    best, best_total, best_suffices, best_weight = NONE, np.int64(0), False, np.int64(0)
    for i in range(len(runs)):
        total = runs[i, 2]
        if total == 0:
            continue
        fits, weight = total >= left and runs[i, 1] - runs[i, 0] + 1 >= need, runs[i, 3]
        better = best < 0 or weight < best_weight
        if not better and weight == best_weight:
            if fits:
                better = not best_suffices or total < best_total
            else:
                better = total > best_total and not best_suffices
        if better:
            best, best_total, best_suffices, best_weight = np.int64(i), total, fits, weight
    return best


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


@kernel(inline=True)
def put_in(bits, allowed, taken):
    """Write to a set the nodes with tasks of a job, which are among the allowed ones."""
    bits[:] = NOTHING
    for i in range(len(allowed)):
        if allowed[i] != NOTHING:
            for node in range(i * WORD, min((i + 1) * WORD, len(taken))):
                if taken[node] > 0:
                    add(bits, node)
