"""The nodes that select/cons_tres chooses for a job: best fit over runs of consecutive nodes of one weight.

Source: _eval_nodes_consec in select/cons_tres (job_test.c) of Slurm 22.05.8, topology/default.
"""

import numpy as np
from numba import int64, uint64

from backfill.compiler.kernel import apart, kernel
from backfill.compiler.record import record
from backfill.compiler.word import lowest
from backfill.core.errors import NONE
from backfill.core.place.gangs import may_run_on, shares_site
from backfill.core.place.placement import DISTINCT, NODE, times
from backfill.core.verbs import place, place_on
from backfill.policies.slurm.bits import NOTHING, ONE, WORD, add, copy_set, has, remove, size, words
from backfill.policies.slurm.queue import has_lists

ANY, OTHER = np.int64(-1), np.int64(-2)  # weight of a run without nodes: any may join, none may without a new begin
PLENTY = np.int64(2**40)  # tasks on a node, for a job that requests nothing of it
NEVER_SO_MANY = np.int64(2**62)  # tasks on the nodes of a run

SEATS = [
    ("allowed", uint64[::1]),  # (w,): the nodes that the job may use
    ("some", uint64[::1]),  # (w,): those of them that can take any of its tasks
    ("single", int64),  # 1: none of them takes more than one; `usable` is not filled then
    ("usable", int64[::1]),  # (m,): how many tasks each of `some` can take, at least 1
    ("one", int64[::1]),  # (m,): 1
    ("on", uint64[::1]),  # (w,): the nodes that were chosen
    ("taken", int64[::1]),  # (m,): the tasks of the job on each of these
    ("part", uint64[::1]),  # (w,): those of `some` that are tried: on one site, or without the smallest
    # runs of consecutive nodes of one weight among these; first node, last node, total of usable tasks, weight, first
    # node that the job names or -1, number of nodes that it does not, most tasks on one of them
    ("runs", int64[:, ::1]),  # (m + 2, 7)
    ("totals", int64[::1]),  # (m + 2,): the totals once more, 0 if the run is used
    ("count", int64),  # number of runs
]
Seats, SeatsT = record("Seats", SEATS, globals())
FIRST, LAST, TOTAL, WEIGHT, NAMED, NODES, MOST = range(7)  # the columns of `runs`


@kernel()
def new_seats(state):
    """Return scratch memory for the choice of nodes."""
    nodes = state.machine.nodes
    return Seats(
        allowed=np.empty(words(nodes), np.uint64),
        some=np.empty(words(nodes), np.uint64),
        single=0,
        usable=np.empty(nodes, np.int64),
        one=np.ones(nodes, np.int64),
        on=np.zeros(words(nodes), np.uint64),
        taken=np.empty(nodes, np.int64),
        part=np.empty(words(nodes), np.uint64),
        runs=np.empty((nodes + 2, 7), np.int64),
        totals=np.empty(nodes + 2, np.int64),
        count=0,
    )


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
def choose(state, job, seats, room):
    """Return whether a job fits into these amounts (m, k) on the allowed nodes; see `seat`."""
    count_usable(state, job, seats, room)
    return seat(state, job, seats)


@kernel()
def count_usable(state, job, seats, room):
    """Find those of the allowed nodes that can take tasks of a job within these amounts (m, k), and how many each."""
    demand, least, most = state.jobs.demand, least_tasks(state, job), most_tasks(state, job)
    allowed, some, usable, anywhere = seats.allowed, seats.some, seats.usable, runs_anywhere(state, job)
    seats.single = 0
    if demand.shape[1] == 1 and demand[job, 0] == 1 and anywhere:  # without branches, for several nodes at once
        for i in range(len(allowed)):
            found = NOTHING
            for node in range(i * WORD, min((i + 1) * WORD, state.machine.nodes)):
                tasks = min(room[node, 0], most)
                usable[node] = tasks
                found |= np.uint64((tasks > 0) & (tasks >= least)) << np.uint64(node & 63)
            some[i] = allowed[i] & found
        return
    for i in range(len(allowed)):
        bits, found = allowed[i], NOTHING
        while bits != NOTHING:
            node = i * WORD + lowest(bits)
            bits &= bits - ONE
            tasks = tasks_in(demand, job, least, most, room, node)
            if tasks > 0 and (anywhere or may_run_on(state, job, node)):
                usable[node] = tasks
                found |= ONE << np.uint64(node & 63)
        some[i] = found


@kernel(inline=True)
def runs_anywhere(state, job):
    """Return whether no node is closed to a job by what it asked for."""
    jobs = state.jobs
    return jobs.bound[job] < 0 and jobs.licence_first[job] == jobs.limit_first[job]


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
def enough(state, job, seats, some):
    """Return whether these nodes, with their usable tasks, can hold a job. some: a set. Each can take a task."""
    tasks, count = state.jobs.tasks[job], size(some)
    for node in names(state, job):
        if not has(some, node):
            return False
    if suffices(state, job, count, count):
        return True
    if not suffices(state, job, count, tasks) or seats.single != 0:
        return False
    total, usable = np.int64(0), seats.usable
    for i in range(len(some)):
        bits = some[i]
        while bits != NOTHING and total < tasks:
            total += min(usable[i * WORD + lowest(bits)], tasks)
            bits &= bits - ONE
    return total >= tasks


@apart(of_policy=True, seats=SeatsT)
def seat(state, job, seats):
    """Distribute the tasks of a job over the nodes of `some`, or those of the first site that takes it if it must be
    one. Return whether that succeeds; then `on` and `taken` say where.
    """
    machine, some, part = state.machine, seats.some, seats.part
    if not shares_site(state, job):
        if not enough(state, job, seats, some):
            return False
        copy_set(some, part)
        return seat_there(state, job, seats)
    for site in machine.sites:
        copy_set(some, part)
        for node in range(machine.nodes):
            if machine.site[node] != site:
                remove(part, node)
        if enough(state, job, seats, part) and seat_there(state, job, seats):
            return True
    return False


@kernel()
def seat_there(state, job, seats):
    """Distribute the tasks of a job over `part`; on failure again without the nodes of fewest usable tasks."""
    serial = state.jobs.tasks[job] == 1 and state.jobs.demand[job, 0] == 1 and len(names(state, job)) == 0
    if state.own.pack_serial_at_end > 0.0 and serial:
        return seat_at_end(seats)
    if is_least_loaded(state, job):
        return seat_least_loaded(state, job, seats)
    if seat_in_runs(state, job, seats):
        return True
    while remove_smallest(seats):
        if seat_in_runs(state, job, seats):
            return True
    return False


@kernel(inline=True)
def usable_tasks(seats):
    """Return how many tasks each node of `some` can take (m,)."""
    return seats.one if seats.single != 0 else seats.usable


@kernel()
def remove_smallest(seats):
    """Remove the nodes of fewest usable tasks from `part`. Return whether any are left."""
    some, usable, least, left = seats.part, usable_tasks(seats), PLENTY + 1, False
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
def seat_at_end(seats):
    """Put the only task of a job on the last node that can take it, as _eval_nodes_serial does."""
    seats.on[:] = NOTHING
    for node in range(len(seats.taken) - 1, -1, -1):
        if has(seats.part, node):
            seats.taken[node] = 1
            add(seats.on, node)
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
def seat_least_loaded(state, job, seats):
    """Distribute the tasks of a job by weight, then from the node with the largest share of its cpus usable.

    Source: _eval_nodes_lln of Slurm 22.05.8, and a run of it on nodes of 8, 16 and 24 cpus.
    """
    left, need, most = take_named(state, job, seats)
    spare, usable, taken, on = spare_nodes(state, job), usable_tasks(seats).copy(), seats.taken, seats.on
    for node in range(len(usable)):
        if not has(seats.part, node):
            usable[node] = 0
    order = np.argsort(-usable / np.maximum(state.machine.capacity[:, 0], 1), kind="mergesort")
    order = order[np.argsort(state.own.weight[order], kind="mergesort")]
    for node in order:
        if most > 0 and usable[node] > 0 and not has(on, node) and (left > 0 or need > 0):
            taken[node] = share(usable[node], left, need - spare)
            add(on, node)
            left, need, most = left - taken[node], need - 1, most - 1
    return left <= 0 and need <= spare and spread_out(state, job, left, seats)


@kernel()
def take_named(state, job, seats):
    """Give the nodes that a job names their tasks. Return the tasks that are left, and how many further nodes it wants
    and may have at most; `on` has no other nodes.
    """
    spare, usable, taken, on = spare_nodes(state, job), usable_tasks(seats), seats.taken, seats.on
    left, need, most = state.jobs.tasks[job], least_nodes(state, job) + spare, most_nodes(state, job)
    on[:] = NOTHING
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
def spread_out(state, job, left, seats):
    """Leave each node that was chosen a task, if there are more nodes than the tasks need. Return True.

    left: how many tasks more the job has than its nodes got.
    """
    if left < 0:
        usable, taken, on = usable_tasks(seats), seats.taken, seats.on
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
def seat_in_runs(state, job, seats):
    """Distribute the tasks of a job over the nodes that it names and then over `part`, one run after the other."""
    left, need, most = take_named(state, job, seats)
    find_runs(state, seats)
    spare, runs, usable, taken, on = spare_nodes(state, job), seats.runs, usable_tasks(seats), seats.taken, seats.on
    totals, alike = seats.totals, state.own.weighted[0] == 0 and len(names(state, job)) == 0
    while left > 0 or need > 0:
        # a run that suffices for the tasks has nodes enough as well
        if alike and (need - spare <= 1 or (seats.single != 0 and need - spare <= left)):
            i = best_of_alike(totals, seats.count, left)
        else:
            i = best_run(runs, seats.count, left, need - spare)
        if i < 0 or most <= 0:
            return left <= 0 and need <= spare and spread_out(state, job, left, seats)
        first, last, named = runs[i, FIRST], runs[i, LAST], runs[i, NAMED]
        if named < 0 and need <= 1 and runs[i, MOST] >= left:
            best = first if seats.single != 0 else fewest_usable(usable, first, last, left)
            taken[best] = max(left, 1)
            add(on, best)
            return spread_out(state, job, left - taken[best], seats)
        runs[i, TOTAL] = totals[i] = 0
        if named < 0 and seats.single != 0:
            many = min(last + 1 - first, max(left, need), most)
            if many == most and left > many:  # the last node must take what is left
                many -= 1
            take_one_each(seats, first, first + many)
            left, need, most = left - many, need - many, most - many
            continue
        if named < 0 and need <= 1 and most > runs[i, NODES]:
            left, many = take_in_order(seats, first, last, left)
            need, most = need - many, most - many
            continue
        if named >= 0:
            first, last = min(first, named), max(last, named)
        for step in range(last + 1 - first):
            node = first + step
            if named >= 0:  # upwards from the first one that is named, then downwards from there
                node = named + step if named + step <= last else last - step
            if most <= 0 or (left <= 0 and need <= 0):
                break
            if has(on, node):  # it is named
                continue
            if named < 0 and most == 1 and usable[node] < left:  # the last node must take what is left
                continue
            taken[node] = share(usable[node], left, need - spare)
            add(on, node)
            left, need, most = left - taken[node], need - 1, most - 1
    return spread_out(state, job, left, seats)


@kernel()
def take_in_order(seats, first, last, left):
    """Give the nodes from `first` to `last` what they can take, until no task is left. Return the tasks that are left,
    and how many nodes took any.
    """
    usable, taken, node = seats.usable, seats.taken, first
    while node <= last and left > 0:
        taken[node] = min(usable[node], left)
        left -= taken[node]
        node += 1
    choose_all(seats.on, first, node)
    return left, node - first


@kernel(inline=True)
def take_one_each(seats, begin, end):
    """Give each node from `begin` to before `end` one task."""
    taken = seats.taken
    for node in range(begin, end):
        taken[node] = 1
    choose_all(seats.on, begin, end)


@kernel(inline=True)
def choose_all(on, begin, end):
    """Add the nodes from `begin` to before `end` to a set."""
    while begin < end:
        stop = min((begin // WORD + 1) * WORD, end)
        some = ~NOTHING >> np.uint64(WORD - (stop - begin))
        on[begin // WORD] |= some << np.uint64(begin % WORD)
        begin = stop


@kernel(inline=True)
def fewest_usable(usable, first, last, left):
    """Return the node of a run with the fewest usable tasks that are enough for those that are left; there is one."""
    fewest = PLENTY + 1
    for node in range(first, last + 1):
        fewest = min(fewest, usable[node] if usable[node] >= left else PLENTY + 1)
    for node in range(first, last + 1):
        if usable[node] == fewest:
            return np.int64(node)
    return NONE


@kernel()
def find_runs(state, seats):
    """Find the runs of consecutive nodes of one weight among `part`.

    The nodes that the job names, which are `on`, join runs, and count for nothing there.
    """
    runs, some, named, usable = seats.runs, seats.part, seats.on, usable_tasks(seats)
    weights, weighted, single = state.own.weight, state.own.weighted[0] != 0, seats.single != 0
    count, before, weight = 0, np.int64(-2), ANY
    runs[0, TOTAL] = runs[0, NODES] = runs[0, MOST] = 0
    for i in range(len(some)):
        bits, apart = some[i] | named[i], named[i] == NOTHING
        while bits != NOTHING:  # consecutive nodes after others
            first = np.int64(lowest(bits))
            end = first + lowest(~(bits >> np.uint64(first)))
            bits = NOTHING if end >= WORD else bits >> np.uint64(end) << np.uint64(end)
            node, end = i * WORD + first, i * WORD + end
            while node < end:  # one weight after the other, and what is named alone
                here, begins = weights[node] if weighted else np.int64(1), before != node - 1
                if begins or (weight != ANY and here != weight):
                    if runs[count, NODES] > 0:
                        count += 1
                        runs[count, TOTAL] = runs[count, NODES] = runs[count, MOST] = 0
                        weight = OTHER  # whatever comes next: a node that begins the run and is named is forgotten then
                    runs[count, NAMED] = -1
                    weight = ANY if begins else weight
                if not apart and has(named, node):
                    runs[count, NAMED] = node if runs[count, NAMED] < 0 else runs[count, NAMED]
                    before = node
                    node += 1
                    continue
                begin, stop = node, end
                if weighted or not apart:
                    stop = node + 1
                    while stop < end and (not weighted or weights[stop] == here) and (apart or not has(named, stop)):
                        stop += 1
                total, most = stop - begin, np.int64(1)
                if not single:
                    total = most = np.int64(0)
                    for each in range(begin, stop):
                        total += usable[each]
                        most = max(most, usable[each])
                if runs[count, NODES] == 0:
                    runs[count, FIRST] = begin
                runs[count, LAST], runs[count, WEIGHT] = stop - 1, here
                runs[count, TOTAL] += total
                runs[count, NODES] += stop - begin
                runs[count, MOST] = max(runs[count, MOST], most)
                node, before, weight = stop, stop - 1, here
    seats.count = count + 1 if runs[count, NODES] > 0 else count
    for i in range(seats.count):
        seats.totals[i] = runs[i, TOTAL]


@kernel()
def best_of_alike(totals, count, left):
    """Return the best of so many runs of nodes if all have one weight and none has nodes that the job names; -1 if all
    are used. Without branches, for several runs at once.
    """
    largest, least = np.int64(0), NEVER_SO_MANY
    enough = max(left, 1)
    for i in range(count):
        largest = max(largest, totals[i])
        least = min(least, totals[i] if totals[i] >= enough else NEVER_SO_MANY)
    wanted = least if largest >= enough else largest
    for i in range(count if largest > 0 else 0):
        if totals[i] == wanted:
            return np.int64(i)
    return NONE


@kernel(inline=True)
def best_run(runs, count, left, need):
    """Return the best of so many runs of nodes of which none is used, those with a total; -1 if there is none.

    One with nodes that the job names rather than an earlier one without; the lowest weight; among equal weights the
    smallest total of usable tasks that suffices, else the largest.
    """
    best, best_total, best_suffices, best_weight = NONE, np.int64(0), False, np.int64(0)
    for i in range(count):
        total = runs[i, TOTAL]
        if total == 0:
            continue
        fits, weight = total >= left and runs[i, NODES] >= need, runs[i, WEIGHT]
        better = best < 0 or weight < best_weight or (runs[i, NAMED] >= 0 and runs[best, NAMED] < 0)
        if not better and weight == best_weight:
            if fits:
                better = not best_suffices or total < best_total
            else:
                better = total > best_total and not best_suffices
        if better:
            best, best_total, best_suffices, best_weight = np.int64(i), total, fits, weight
    return best


@kernel()
def place_as_taken(state, job, seats):
    """Return whether a waiting job fits now on the chosen nodes, for `start`."""
    if state.machine.pool:
        return place(state, job)
    nodes, at, on = np.empty(state.jobs.tasks[job], np.int64), 0, seats.on
    for i in range(len(on)):
        bits = on[i]
        while bits != NOTHING:
            node = i * WORD + lowest(bits)
            bits &= bits - ONE
            for _ in range(seats.taken[node]):
                nodes[at] = node
                at += 1
    return place_on(state, job, nodes)
