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

ANY, OTHER = np.int64(-1), np.int64(-2)  # weight of a run without nodes: any may join, none may without a new begin
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
def spare_nodes(state, job):
    """Return how many nodes more than the least a job gets if there are as many: it asked for a range, `-N 1-4`."""
    if len(state.own.max_nodes) == 0 or state.jobs.spread[job] == DISTINCT:
        return np.int64(0)
    return max(min(state.own.max_nodes[job], state.jobs.tasks[job]) - least_nodes(state, job), 0)


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
def choose(state, job, allowed, room, usable, taken, on):
    """Return whether a job fits into these amounts on the allowed nodes; `taken` (m,) gets its tasks on each node, and
    `on` the nodes with any.

    allowed, on: sets of nodes. room: (m, k). usable: int64 (m,), overwritten.
    """
    return seat(state, job, count_usable(state, job, allowed, room, usable), usable, taken, on)


@kernel()
def count_usable(state, job, allowed, room, usable):
    """Return those of the allowed nodes that can take tasks of a job within these amounts (m, k); write to `usable`
    (m,) how many each of them can.
    """
    demand, least, most = state.jobs.demand, least_tasks(state, job), most_tasks(state, job)
    some = np.zeros_like(allowed)
    for i in range(len(allowed)):
        bits = allowed[i]
        while bits != NOTHING:
            node = i * WORD + lowest(bits)
            bits &= bits - ONE
            tasks = tasks_in(demand, job, least, most, room, node)
            if tasks > 0 and may_run_on(state, job, node):
                usable[node] = tasks
                add(some, node)
    return some


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
def names(state, job):
    """Return the nodes for which a job asked by their names: it runs on all of them, and maybe on others."""
    own = state.own
    if len(own.name_first) == 0:
        return own.name_node[:0]
    return own.name_node[own.name_first[job] : own.name_first[job + 1]]


@kernel()
def named_in(state, job, nodes):
    """Return the nodes of a set for which a job asked by their names."""
    found = np.zeros_like(nodes)
    for node in names(state, job):
        if has(nodes, node):
            add(found, node)
    return found


@kernel()
def lacks_named(state, job, within, allowed):
    """Return whether nodes for which a job asked by their names are not allowed. within: those of its partition."""
    for node in names(state, job):
        if has(within, node) and not has(allowed, node):
            return True
    return False


@kernel()
def names_the_same(state, one, other):
    """Return whether two jobs asked for the same nodes by their names."""
    mine, theirs = names(state, one), names(state, other)
    if len(mine) != len(theirs):
        return False
    for i in range(len(mine)):
        if mine[i] != theirs[i]:
            return False
    return True


@kernel(inline=True)
def suffices(state, job, count, total):
    """Return whether so many nodes, that take so many of the tasks of a job in all, can hold it."""
    if most_nodes(state, job) == 1:
        return count > 0
    return count >= least_nodes(state, job) and total >= state.jobs.tasks[job]


@kernel()
def enough(state, job, some, usable):
    """Return whether these nodes, with these numbers of usable tasks, can hold a job. Each can take a task at least."""
    tasks, count = state.jobs.tasks[job], size(some)
    for node in names(state, job):
        if not has(some, node):
            return False
    if suffices(state, job, count, count):
        return True
    if not suffices(state, job, count, tasks):
        return False
    total = np.int64(0)
    for i in range(len(some)):
        bits = some[i]
        while bits != NOTHING and total < tasks:
            total += min(usable[i * WORD + lowest(bits)], tasks)
            bits &= bits - ONE
    return total >= tasks


@kernel()
def seat(state, job, some, usable, taken, on):
    """Distribute the tasks of a job over some nodes, those of the first site that takes it if it must be one. Return
    whether that succeeds; `taken` (m,) gets its tasks on each node, and the set `on` the nodes with any.

    some: a set of nodes; usable: (m,), of these each can take so many tasks, at least 1.
    """
    machine = state.machine
    if not shares_site(state, job):
        return enough(state, job, some, usable) and seat_there(state, job, some, usable, taken, on)
    for site in machine.sites:
        there = some.copy()
        for node in range(machine.nodes):
            if machine.site[node] != site:
                remove(there, node)
        if enough(state, job, there, usable) and seat_there(state, job, there, usable, taken, on):
            return True
    return False


@kernel()
def seat_there(state, job, some, usable, taken, on):
    """Distribute the tasks of a job; on failure again without the nodes of fewest usable tasks."""
    serial = state.jobs.tasks[job] == 1 and state.jobs.demand[job, 0] == 1 and len(names(state, job)) == 0
    if state.own.pack_serial_at_end > 0.0 and serial:
        return seat_at_end(some, taken, on)
    if is_least_loaded(state, job):
        return seat_least_loaded(state, job, some, usable, taken, on)
    if seat_in_runs(state, job, some, usable, taken, on):
        return True
    larger = some.copy()
    while remove_smallest(larger, usable):
        if seat_in_runs(state, job, larger, usable, taken, on):
            return True
    return False


@kernel()
def remove_smallest(some, usable):
    """Remove the nodes of fewest usable tasks from a set. Return whether any are left."""
    least, left = PLENTY + 1, False
    for i in range(len(some)):
        bits = some[i]
        while bits != NOTHING:
            least = min(least, usable[i * WORD + lowest(bits)])
            bits &= bits - ONE
    for i in range(len(some)):
        bits = some[i]
        while bits != NOTHING:
            if usable[i * WORD + lowest(bits)] == least:
                some[i] &= ~(bits & (~bits + ONE))
            bits &= bits - ONE
        left = left or some[i] != NOTHING
    return left


@kernel()
def seat_at_end(some, taken, on):
    """Put the only task of a job on the last node that can take it, as _eval_nodes_serial does."""
    taken[:], on[:] = 0, NOTHING
    for node in range(len(taken) - 1, -1, -1):
        if has(some, node):
            taken[node] = 1
            add(on, node)
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
def seat_least_loaded(state, job, some, usable, taken, on):
    """Distribute the tasks of a job by weight, then from the node with the largest share of its cpus usable.

    Source: _eval_nodes_lln of Slurm 22.05.8, and a run of it on nodes of 8, 16 and 24 cpus.
    """
    left, need, most = take_named(state, job, usable, taken, on)
    spare, usable = spare_nodes(state, job), usable.copy()
    for node in range(len(usable)):
        if not has(some, node):
            usable[node] = 0
    order = np.argsort(-usable / np.maximum(state.machine.capacity[:, 0], 1), kind="mergesort")
    order = order[np.argsort(state.own.weight[order], kind="mergesort")]
    for node in order:
        if most > 0 and usable[node] > 0 and taken[node] == 0 and (left > 0 or need > 0):
            taken[node] = share(usable[node], left, need - spare)
            add(on, node)
            left, need, most = left - taken[node], need - 1, most - 1
    return left <= 0 and need <= spare and spread_out(state, job, left, usable, taken, on)


@kernel()
def take_named(state, job, usable, taken, on):
    """Give the nodes that a job names their tasks. Return the tasks that are left, and how many further nodes it wants
    and may have at most; `taken` (m,) is 0 on all other nodes, and the set `on` has none of them.
    """
    spare = spare_nodes(state, job)
    left, need, most = state.jobs.tasks[job], least_nodes(state, job) + spare, most_nodes(state, job)
    taken[:], on[:] = 0, NOTHING
    for node in names(state, job):
        taken[node] = share(usable[node], left, need - spare)
        add(on, node)
        left, need, most = left - taken[node], need - 1, most - 1
    return left, need, most


@kernel(inline=True)
def share(usable, left, need):
    """Return how many of the tasks that are left a node takes: one remains for each further node that the job needs."""
    return max(min(usable, left - max(need - 1, 0)), 1)


@kernel()
def spread_out(state, job, left, usable, taken, on):
    """Leave each node that was chosen a task, if there are more nodes than the tasks need. Return True.

    left: how many tasks more the job has than its nodes got.
    """
    if left < 0:
        left, nodes = state.jobs.tasks[job], size(on)
        for node in range(len(taken)):
            if has(on, node):
                nodes -= 1
                taken[node] = min(usable[node], left - nodes)
                left -= taken[node]
                if taken[node] <= 0:
                    remove(on, node)
    return True


@kernel()
def seat_in_runs(state, job, some, usable, taken, on):
    """Distribute the tasks of a job over the nodes that it names and then over some nodes, one run after the other."""
    left, need, most = take_named(state, job, usable, taken, on)
    spare, runs = spare_nodes(state, job), runs_of_nodes(state, some, usable, on)
    while left > 0 or need > 0:
        i = best_run(runs, left, need - spare)
        if i < 0 or most <= 0:
            return left <= 0 and need <= spare and spread_out(state, job, left, usable, taken, on)
        first, last, named = runs[i, 0], runs[i, 1], runs[i, 4]
        if named < 0 and need <= 1:
            best = NONE
            for node in range(first, last + 1):
                if usable[node] >= left and (best < 0 or usable[node] < usable[best]):
                    best = np.int64(node)
            if best >= 0:
                taken[best] = max(left, 1)
                add(on, best)
                return spread_out(state, job, left - taken[best], usable, taken, on)
        runs[i, 2] = 0
        if named >= 0:
            first, last = min(first, named), max(last, named)
        for step in range(last + 1 - first):
            node = first + step
            if named >= 0:  # upwards from the first one that is named, then downwards from there
                node = named + step if named + step <= last else last - step
            if most <= 0 or (left <= 0 and need <= 0):
                break
            if taken[node] > 0:  # it is named
                continue
            if named < 0 and most == 1 and usable[node] < left:  # the last node must take what is left
                continue
            taken[node] = share(usable[node], left, need - spare)
            add(on, node)
            left, need, most = left - taken[node], need - 1, most - 1
    return spread_out(state, job, left, usable, taken, on)


@kernel()
def runs_of_nodes(state, some, usable, named):
    """Return the runs of consecutive nodes of one weight among some nodes.

    The nodes that the job names (a set too) join runs, and count for nothing there. A row for each run: first node,
    last node, total of usable tasks, weight, first node that is named or -1, number of nodes that are not.
    """
    runs, count, before, weight = np.empty((size(some) + 1, 6), np.int64), 0, np.int64(-2), ANY
    weights, weighted = state.own.weight, len(state.own.weight) > 0
    runs[0, 2] = runs[0, 5] = 0
    for i in range(len(some)):
        bits, apart = some[i] | named[i], named[i] == NOTHING
        while bits != NOTHING:  # consecutive nodes after others
            first = lowest(bits)
            rest = ~(bits >> np.uint64(first))
            end = WORD if rest == NOTHING else first + lowest(rest)
            bits = NOTHING if end >= WORD else bits >> np.uint64(end) << np.uint64(end)
            node, end = i * WORD + first, i * WORD + end
            while node < end:  # one weight after the other, and what is named alone
                here, begins = weights[node] if weighted else np.int64(1), before != node - 1
                if begins or (weight != ANY and here != weight):
                    if runs[count, 5] > 0:
                        count += 1
                        runs[count, 2] = runs[count, 5] = 0
                        weight = OTHER  # whatever comes next: a node that begins the run and is named is forgotten then
                    runs[count, 4] = -1
                    weight = ANY if begins else weight
                if not apart and has(named, node):
                    runs[count, 4] = node if runs[count, 4] < 0 else runs[count, 4]
                    before = node
                    node += 1
                    continue
                begin, total = node, np.int64(0)
                while node < end and (not weighted or weights[node] == here) and (apart or not has(named, node)):
                    total += usable[node]
                    node += 1
                if runs[count, 5] == 0:
                    runs[count, 0] = begin
                runs[count, 1], runs[count, 3] = node - 1, here
                runs[count, 2] += total
                runs[count, 5] += node - begin
                before, weight = node - 1, here
    return runs[: count + 1] if runs[count, 5] > 0 else runs[:count]


@kernel()
def best_run(runs, left, need):
    """Return the best run of nodes of which none is used, those with a total; -1 if there is none.

    One with nodes that the job names rather than an earlier one without; the lowest weight; among equal weights the
    smallest total of usable tasks that suffices, else the largest.
    """
    best, best_total, best_suffices, best_weight = NONE, np.int64(0), False, np.int64(0)
    for i in range(len(runs)):
        total = runs[i, 2]
        if total == 0:
            continue
        fits, weight = total >= left and runs[i, 5] >= need, runs[i, 3]
        better = best < 0 or weight < best_weight or (runs[i, 4] >= 0 and runs[best, 4] < 0)
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
