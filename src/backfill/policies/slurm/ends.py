"""When a job could start if nobody else waited: running jobs leave in groups that grow, in order of their limits.

A width within which no run ends is skipped.

Source: _will_run_test in select/cons_tres (job_test.c) of Slurm 22.05.8; versions from 24.11 on are read, not run.
Times are microseconds; Slurm counts whole seconds. In array shapes r is running jobs by their limit, q the nodes of
these, one after the other, m nodes, k resources, w words of a set of nodes, c kinds of jobs.
"""

import numpy as np

from backfill.compiler.kernel import kernel
from backfill.core.plan.promises import NO_TIME
from backfill.policies.slurm.bits import NOTHING, ONE, WORD, add, has, lowest, ones, words
from backfill.policies.slurm.seats import (
    choose,
    least_tasks,
    seat,
    suffices,
    usable_tasks,
)

SECOND = np.int64(1_000_000)
WINDOW = 30 * SECOND  # width of the first group
NEVER = np.int64(2**62)
MARK = 8
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
    (r + 1,), where the nodes of each begin in node (q,). kinds: (c, 3), a job of each kind, its partition, and the most
    tasks on a node, -1 none; the last row counts kinds. idle (c, m), then (c, q): usable tasks of a node now, and after
    each run has left it. nodes, tasks: (c, r + 1), of the partition, after so many runs have left. ready: (c, marks, w),
    the nodes that can take a task after MARK x i runs have left, the last one after all. words_of: (r + 1,), where the
    words of each as a set of nodes begin in word and bits, their numbers and contents.
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
    words_of, word, bits = np.zeros(active + 1, np.int64), np.empty(pairs, np.int64), np.empty(pairs, np.uint64)
    for i in range(active):
        run, x = runs.by_limit[i], words_of[i]
        for pair in range(first[i + 1] - first[i]):
            each = np.int64(0) if state.machine.pool else np.int64(runs.held[runs.first[run] + pair, 0])
            node[first[i] + pair] = each
            if x == words_of[i] or word[x - 1] != each // WORD:
                word[x], bits[x] = each // WORD, NOTHING
                x += 1
            bits[x - 1] |= ONE << np.uint64(each % WORD)
        words_of[i + 1] = x
    kinds = np.full((KINDS + 1, 3), -1)
    kinds[KINDS, 0] = 0
    idle = np.empty((KINDS, state.machine.nodes), np.int64)
    then = np.empty((KINDS, pairs), np.int64)
    nodes, tasks = np.empty((KINDS, active + 1), np.int64), np.empty((KINDS, active + 1), np.int64)
    ready = np.empty((KINDS, active // MARK + 2, words(state.machine.nodes)), np.uint64)
    return limit, guess, soonest, first, node, kinds, idle, then, nodes, tasks, ready, words_of, word, bits


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
    _, _, _, first, _, kinds, idle, then, nodes, tasks, ready = line[:11]
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
    now, bits, largest = usable.copy(), np.zeros_like(within), np.int64(0)
    for each in range(state.machine.nodes):
        if now[each] > 0:
            add(bits, each)
            largest = max(largest, now[each])
    nodes[kind, 0], tasks[kind, 0] = count, total
    for i in range(len(first) - 1):
        run = state.runs.by_limit[i]
        if i % MARK == 0:
            ready[kind, i // MARK] = bits
        for q in range(first[i], first[i + 1]):
            each = give_back(state, run, q - first[i], room)
            before = now[each]
            if has(within, each):
                now[each] = usable_tasks(state, job, room, each)
            then[kind, q] = now[each]
            if now[each] > 0:
                add(bits, each)
                largest = max(largest, now[each])
            count += np.int64(now[each] > 0) - np.int64(before > 0)
            total += now[each] - before
        nodes[kind, i + 1], tasks[kind, i + 1] = count, total
    kinds[kind, 2] = largest
    for mark in range(-(-(len(first) - 1) // MARK), ready.shape[1]):
        ready[kind, mark] = bits
    return kind


@kernel(inline=True)
def bound_of(state, job, now, kind, line):
    """Return an instant before which a job of this kind could not start even with its whole partition; NEVER: never."""
    soonest, nodes, tasks = line[2], line[8], line[9]
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


@kernel(inline=True)
def may_suffice(state, job, allowed, runs, kind, kinds, ready):
    """Return whether the allowed nodes may be enough for a job after so many runs have left, by a quick look."""
    mark, count = -(-runs // MARK), np.int64(0)
    for i in range(len(allowed)):
        count += ones(allowed[i] & ready[kind, mark, i])
    return suffices(state, job, count, count * min(kinds[kind, 2], state.jobs.tasks[job]))


@kernel(inline=True)
def lacks_until(state, job, allowed, t, kind, soonest, kinds, ready):
    """Return whether a job certainly has not enough of the allowed nodes at any instant until t."""
    low, high = 0, len(soonest) - 1
    while low < high:  # runs that may have left by then
        middle = (low + high) >> 1
        if soonest[middle] > t:
            high = middle
        else:
            low = middle + 1
    return not may_suffice(state, job, allowed, low, kind, kinds, ready)


@kernel()
def count_left(line, kind, allowed, runs, usable):
    """Write to `usable` (m,) how many tasks the allowed nodes can take after so many runs have left."""
    first, node, kinds, idle, then, ready = line[3], line[4], line[5], line[6], line[7], line[10]
    alike = kinds[kind, 2] == 1  # every node takes one task at most
    mark = runs // MARK if alike else 0
    usable[:] = 0
    for i in range(len(allowed)):
        bits = allowed[i] & ready[kind, mark, i]
        while bits != NOTHING:
            each = i * WORD + lowest(bits)
            bits &= bits - ONE
            usable[each] = 1 if alike else idle[kind, each]
    for q in range(first[mark * MARK], first[runs]):
        if has(allowed, node[q]):
            usable[node[q]] = then[kind, q]


@kernel(inline=True)
def is_on(words_of, word, bits, i, allowed):
    """Return whether a running job has any of the allowed nodes."""
    for x in range(words_of[i], words_of[i + 1]):
        if allowed[word[x]] & bits[x] != NOTHING:
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


@kernel(inline=True)
def expected_start(state, job, allowed, now, after, later, until, kind, line, usable, taken):
    """Return when a job could start on the allowed nodes, NO_TIME if never, or certainly after `until`.

    after, later: of the plan, see backfill.py; they count from 24.11 on. now: in whole seconds. `taken` (m,) gets its
    tasks on each node.
    """
    limit, guess, soonest, first, _, kinds, _, _, _, _, ready, words_of, word, bits = line
    own, active, recent = state.own, len(limit), state.own.version >= 24.11
    if recent and after > now:
        room = state.free.nodes.copy()
        for i in range(active):
            if guess[i] <= after:
                for q in range(first[i], first[i + 1]):
                    give_back(state, state.runs.by_limit[i], q - first[i], room)
        if choose(state, job, allowed, room, usable, taken):
            return after
    elif may_suffice(state, job, allowed, 0, kind, kinds, ready):
        count_left(line, kind, allowed, 0, usable)
        if seat(state, job, allowed, usable, taken):
            return now
    window, barrier, at = WINDOW, NO_TIME, 0
    while at < active:
        if soonest[at] > until:
            return NO_TIME
        last, begin = -1, at
        while at < active:
            i = at
            at += 1
            if not is_on(words_of, word, bits, i, allowed):
                continue
            if recent and later != NO_TIME and guess[i] > later:
                at = active
                break
            if barrier == NO_TIME:
                barrier = -(-limit[i] // WINDOW) * WINDOW
            last = i
            if at < active and limit[at] > barrier + window:
                break
        if last < 0:
            return NO_TIME
        too_late = own.version < 25.05 and guess[last] > until
        if not too_late and may_suffice(state, job, allowed, last + 1, kind, kinds, ready):
            count_left(line, kind, allowed, last + 1, usable)
            if seat(state, job, allowed, usable, taken):
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
