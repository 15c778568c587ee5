"""When a job could start if nobody else waited: running jobs leave in groups that grow, in order of their limits.

A width within which no run ends is skipped.

Source: _will_run_test in select/cons_tres (job_test.c) of Slurm 22.05.8; versions from 24.11 on are read, not run.
Times are microseconds; Slurm counts whole seconds. In array shapes r is running jobs by their limit, q the nodes of
these, one after the other, m nodes, k resources, w words of a set of nodes, c kinds of jobs.
"""

import numpy as np

from backfill.compiler.kernel import kernel
from backfill.core.place.gangs import shares_site
from backfill.core.plan.promises import NO_TIME
from backfill.policies.slurm.bits import NOTHING, WORD, has
from backfill.policies.slurm.seats import (
    choose,
    least_nodes,
    least_tasks,
    seat,
    suffices,
    usable_tasks,
)

SECOND = np.int64(1_000_000)
WINDOW = 30 * SECOND  # width of the first group
NEVER = np.int64(2**62)
KINDS = 16  # kinds of jobs of which it is known at a time what running jobs leave them


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


@kernel(inline=True)
def nodes_held(state, run):
    """Return on how many nodes a run is."""
    return np.int64(1) if state.machine.pool else np.int64(state.runs.many[run])


@kernel()
def give_back(state, run, pair, room):
    """Add what a run holds on one of its nodes to these amounts (m, k). Return the node."""
    job = state.runs.job[run]
    if state.machine.pool:
        for k in range(state.machine.resources):
            room[0, k] += state.jobs.need[job, k]
        return np.int64(0)
    at = state.runs.first[run] + pair
    node, tasks = state.runs.held[at, 0], state.runs.held[at, 1]
    for k in range(state.machine.resources):
        room[node, k] += tasks * state.jobs.demand[job, k]
    return node


@kernel()
def line_up(state, now):
    """Return the running jobs in order of their limits, and empty tables of what they leave for kinds of jobs.

    limit, guess: (r,), ends at the limit and as expected. soonest: (r + 1,), the least `guess` from here on. first:
    (r + 1,), where the nodes of each begin in node (q,). kinds: (c, 2), a job of each kind and its partition, -1 none;
    the last row counts kinds. idle (c, m), was and then (c, q): usable tasks of a node now, and before and after each
    run has left it. nodes, tasks: (c, r + 1), of the partition, after so many runs have left.
    """
    runs = state.runs
    active, pairs = runs.active, np.int64(0)
    limit, guess = np.empty(active, np.int64), np.empty(active, np.int64)
    soonest, first = np.full(active + 1, NEVER), np.zeros(active + 1, np.int64)
    for i in range(active):
        run = runs.by_limit[i]
        limit[i], guess[i] = limit_of_run(state, run), guessed_end(state, run, now)
        pairs += nodes_held(state, run)
        first[i + 1] = pairs
    for i in range(active - 1, -1, -1):
        soonest[i] = min(soonest[i + 1], guess[i])
    node = np.empty(pairs, np.int64)
    for i in range(active):
        run = runs.by_limit[i]
        for pair in range(first[i + 1] - first[i]):
            node[first[i] + pair] = 0 if state.machine.pool else runs.held[runs.first[run] + pair, 0]
    kinds = np.full((KINDS + 1, 2), -1)
    kinds[KINDS, 0] = 0
    idle = np.empty((KINDS, state.machine.nodes), np.int64)
    was, then = np.empty((KINDS, pairs), np.int64), np.empty((KINDS, pairs), np.int64)
    nodes, tasks = np.empty((KINDS, active + 1), np.int64), np.empty((KINDS, active + 1), np.int64)
    return limit, guess, soonest, first, node, kinds, idle, was, then, nodes, tasks


@kernel()
def are_alike(state, one, other):
    """Return whether nodes can take the same numbers of tasks of two jobs."""
    jobs = state.jobs
    if jobs.bound[one] != jobs.bound[other] or least_tasks(state, one) != least_tasks(state, other):
        return False
    for k in range(state.machine.resources):
        if jobs.demand[one, k] != jobs.demand[other, k]:
            return False
    first, count = jobs.licence_first[one], jobs.limit_first[one] - jobs.licence_first[one]
    begin = jobs.licence_first[other]
    if jobs.limit_first[other] - begin != count:
        return False
    for i in range(count):
        if jobs.licence[first + i] != jobs.licence[begin + i]:
            return False
    return True


@kernel()
def kind_of(state, job, part, within, line):
    """Return the kind of a job in a partition with these nodes, and fill its tables if they are not there."""
    _, _, _, first, node, kinds, idle, was, then, nodes, tasks = line
    many = kinds[KINDS, 0]
    for kind in range(min(many, KINDS)):
        if kinds[kind, 1] == part and are_alike(state, kinds[kind, 0], job):
            return kind
    kind = many % KINDS
    kinds[kind, 0], kinds[kind, 1], kinds[KINDS, 0] = job, part, many + 1
    room, usable = state.free.nodes.copy(), idle[kind]
    usable[:] = 0
    count, total = np.int64(0), np.int64(0)
    for each in range(state.machine.nodes):
        if has(within, each):
            usable[each] = usable_tasks(state, job, room, each)
            count += usable[each] > 0
            total += usable[each]
    now = usable.copy()
    nodes[kind, 0], tasks[kind, 0] = count, total
    for i in range(len(first) - 1):
        run = state.runs.by_limit[i]
        for q in range(first[i], first[i + 1]):
            each = give_back(state, run, q - first[i], room)
            was[kind, q] = now[each]
            if has(within, each):
                now[each] = usable_tasks(state, job, room, each)
            then[kind, q] = now[each]
            count += np.int64(now[each] > 0) - np.int64(was[kind, q] > 0)
            total += now[each] - was[kind, q]
        nodes[kind, i + 1], tasks[kind, i + 1] = count, total
    return kind


@kernel()
def bound_of(state, job, now, kind, line):
    """Return an instant before which a job of this kind could not start even with its whole partition; NEVER: never."""
    soonest, nodes, tasks = line[2], line[9], line[10]
    low, high = 0, len(soonest)
    while low < high:
        middle = (low + high) // 2
        if suffices(state, job, nodes[kind, middle], tasks[kind, middle]):
            high = middle
        else:
            low = middle + 1
    if low == 0:
        return now
    return soonest[low - 1] if low < len(soonest) else NEVER


@kernel()
def count_left(line, kind, allowed, runs, usable):
    """Write to `usable` (m,) how many tasks the allowed nodes can take after so many runs have left."""
    first, node, idle, then = line[3], line[4], line[6], line[8]
    for i in range(len(usable)):
        usable[i] = idle[kind, i] if has(allowed, i) else 0
    for q in range(first[runs]):
        if has(allowed, node[q]):
            usable[node[q]] = then[kind, q]


@kernel()
def is_on(line, i, allowed):
    """Return whether a running job has any of the allowed nodes."""
    first, node = line[3], line[4]
    for q in range(first[i], first[i + 1]):
        if has(allowed, node[q]):
            return True
    return False


@kernel()
def is_on_taken(line, i, taken):
    """Return whether a running job has any of the nodes with tasks."""
    first, node = line[3], line[4]
    for q in range(first[i], first[i + 1]):
        if taken[node[q]] != 0:
            return True
    return False


@kernel()
def expected_start(state, job, allowed, now, after, later, kind, line, usable, taken):
    """Return when a job could start on the allowed nodes, NO_TIME if never; `taken` (m,) gets its tasks on each node.

    after, later: of the plan, see backfill.py; they count from 24.11 on. now: in whole seconds.
    """
    limit, guess, _, first, node, _, idle, was, then, _, _ = line
    own, active, apart = state.own, len(limit), shares_site(state, job)
    recent, most = own.version >= 24.11, state.jobs.tasks[job]
    count, total = np.int64(0), np.int64(0)
    for i in range(len(allowed)):
        if allowed[i] != NOTHING:
            for each in range(i * WORD, min((i + 1) * WORD, len(usable))):
                if idle[kind, each] > 0 and has(allowed, each):
                    count += 1
                    total += min(idle[kind, each], most)
    if recent and after > now:
        room = state.free.nodes.copy()
        for i in range(active):
            if guess[i] <= after:
                for q in range(first[i], first[i + 1]):
                    give_back(state, state.runs.by_limit[i], q - first[i], room)
        if choose(state, job, allowed, room, usable, taken):
            return after
    elif apart or suffices(state, job, count, total):
        count_left(line, kind, allowed, 0, usable)
        if seat(state, job, usable, taken):
            return now
    window, barrier, at = WINDOW, NO_TIME, 0
    while at < active:
        last, begin = -1, at
        while at < active:
            i = at
            at += 1
            if not is_on(line, i, allowed):
                continue
            if recent and later != NO_TIME and guess[i] > later:
                at = active
                break
            if barrier == NO_TIME:
                barrier = -(-limit[i] // WINDOW) * WINDOW
            for q in range(first[i], first[i + 1]):
                if has(allowed, node[q]):
                    count += np.int64(then[kind, q] > 0) - np.int64(was[kind, q] > 0)
                    total += min(then[kind, q], most) - min(was[kind, q], most)
            last = i
            if at < active and limit[at] > barrier + window:
                break
        if last < 0:
            return NO_TIME
        if apart or suffices(state, job, count, total):
            count_left(line, kind, allowed, last + 1, usable)
            if seat(state, job, usable, taken):
                final = last
                if own.version >= 25.05:
                    for i in range(begin, last + 1):
                        if is_on_taken(line, i, taken):
                            final = i
                return guess[final]
        window = grown(state, window)
        while at < active and limit[at] > barrier + window:
            window = grown(state, window)
    return NO_TIME


@kernel(inline=True)
def grown(state, window):
    """Return the width of the next group."""
    linear = np.int64(state.own.bf_window_linear) * SECOND
    return window + linear if linear > 0 else 2 * window
