"""When a job could start if nobody else waited: running jobs leave in groups that grow, in order of their limits.

A width within which no run ends is skipped.

Source: _will_run_test in select/cons_tres (job_test.c) of Slurm 22.05.8, _future_run_test of 24.11.5.
Times are microseconds; Slurm counts whole seconds. In array shapes r is running jobs by their limit, q the nodes of
these, one after the other, m nodes, k resources, w words of a set of nodes, c kinds of jobs.
"""

import numpy as np

from backfill.compiler.kernel import kernel
from backfill.core.place.gangs import may_run_on
from backfill.core.plan.promises import NO_TIME
from backfill.policies.slurm.bits import NOTHING, ONE, WORD, add, has, lowest, ones, remove, words
from backfill.policies.slurm.seats import (
    count_usable,
    least_tasks,
    most_tasks,
    names_the_same,
    seat,
    suffices,
    tasks_in,
)

SECOND = np.int64(1_000_000)
WINDOW = 30 * SECOND  # width of the first group
NEVER = np.int64(2**62)
MARK = 8
STAGES = 8  # how often all usable tasks are kept
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
    if state.own.version >= 24.11 and end < now:  # counts as over
        return now
    end += np.int64(state.own.KillWait) * SECOND + np.int64(state.own.OverTimeLimit) * 60 * SECOND
    return end if end > now else now + SECOND


@kernel(inline=True)
def nodes_held(state, run):
    """Return on how many nodes a run is."""
    return np.int64(1) if state.machine.pool else np.int64(state.runs.many[run])


@kernel()
def line_up(state, now):
    """Return the running jobs in order of their limits, and empty tables of what they leave for kinds of jobs.

    limit, guess: (r,), ends at the limit and as expected. soonest: (r + 1,), the least `guess` from here on. first:
    (r + 1,), where the nodes of each begin in node (q,). kinds: (c, 3), a job of each kind, its partition, and the most
    tasks on a node, -1 none; the last row counts kinds. idle (c, STAGES, m): usable tasks of each node now and at later
    stages; then (c, q): those of a node after each run has left it. nodes, tasks: (c, r + 1), of the partition, after
    so many runs have left. ready: (c, marks, w), the nodes that can take a task after MARK x i runs have left, the last
    one after all; units: their tasks, for each word. words_of: (r + 1,), where the words of each as a set of nodes
    begin in word and bits, their numbers and contents. of_job (r,), tasks_on (q,). single (m,): 1 for each node.
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
    node, of_job, tasks_on = np.empty(pairs, np.int64), np.empty(active, np.int64), np.empty(pairs, np.int64)
    words_of, word, bits = np.zeros(active + 1, np.int64), np.empty(pairs, np.uint64), np.empty(pairs, np.uint64)
    for i in range(active):
        run, x = runs.by_limit[i], words_of[i]
        of_job[i] = runs.job[run]
        for pair in range(first[i + 1] - first[i]):
            each, many = np.int64(0), state.jobs.tasks[of_job[i]]
            if not state.machine.pool:
                each, many = runs.held[runs.first[run] + pair, 0], runs.held[runs.first[run] + pair, 1]
            node[first[i] + pair], tasks_on[first[i] + pair] = each, many
            if x == words_of[i] or word[x - 1] != np.uint64(each // WORD):
                word[x], bits[x] = np.uint64(each // WORD), NOTHING
                x += 1
            bits[x - 1] |= ONE << np.uint64(each % WORD)
        words_of[i + 1] = x
    kinds = np.full((KINDS + 1, 3), -1)
    kinds[KINDS, 0] = 0
    idle = np.empty((KINDS, STAGES, state.machine.nodes), np.int64)
    then = np.empty((KINDS, pairs), np.int64)
    nodes, tasks = np.empty((KINDS, active + 1), np.int64), np.empty((KINDS, active + 1), np.int64)
    ready = np.empty((KINDS, active // MARK + 2, words(state.machine.nodes)), np.uint64)
    units = np.empty(ready.shape, np.int64)
    return (
        limit,
        guess,
        soonest,
        first,
        node,
        kinds,
        idle,
        then,
        nodes,
        tasks,
        ready,
        units,
        words_of,
        word,
        bits,
        of_job,
        tasks_on,
        np.ones(state.machine.nodes, np.int64),
    )


@kernel()
def are_alike(state, one, other):
    """Return whether nodes can take the same numbers of tasks of two jobs."""
    jobs = state.jobs
    if jobs.bound[one] != jobs.bound[other] or least_tasks(state, one) != least_tasks(state, other):
        return False
    if most_tasks(state, one) != most_tasks(state, other) or not names_the_same(state, one, other):
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
    first, node, kinds, idle, then, nodes, tasks, ready, units = line[3:12]
    of_job, tasks_on = line[15], line[16]
    many = kinds[KINDS, 0]
    for kind in range(min(many, KINDS)):
        if kinds[kind, 1] == part and are_alike(state, kinds[kind, 0], job):
            return kind
    kind = many % KINDS
    kinds[kind, 0], kinds[kind, 1], kinds[KINDS, 0] = job, part, many + 1
    room, usable, demand = state.free.nodes.copy(), idle[kind, 0], state.jobs.demand
    least, most = least_tasks(state, job), most_tasks(state, job)
    usable[:] = 0
    count_usable(state, job, within, room, usable)
    may = within.copy()
    for each in range(len(usable)):
        if has(may, each) and not may_run_on(state, job, each):
            remove(may, each)
    now, bits, largest = usable.copy(), np.zeros_like(within), np.int64(0)
    count, total, sums = np.int64(0), np.int64(0), np.zeros(len(within), np.int64)
    for each in range(len(usable)):
        if now[each] > 0:
            add(bits, each)
            largest = max(largest, now[each])
            count += 1
            total += now[each]
            sums[each // WORD] += now[each]
    nodes[kind, 0], tasks[kind, 0] = count, total
    per_stage = stage_of(len(first) - 1)
    for i in range(len(first) - 1):
        if i % per_stage == 0 and i > 0:
            idle[kind, i // per_stage] = now
        if i % MARK == 0:
            for x in range(len(bits)):
                ready[kind, i // MARK, x], units[kind, i // MARK, x] = bits[x], sums[x]
        for q in range(first[i], first[i + 1]):
            each = node[q]
            for k in range(demand.shape[1]):
                room[each, k] += tasks_on[q] * demand[of_job[i], k]
            if has(may, each):
                before, after = now[each], tasks_in(demand, job, least, most, room, each)
                if after != before:
                    add(bits, each)
                    now[each], largest = after, max(largest, after)
                    count += before == 0
                    total += after - before
                    sums[each // WORD] += after - before
            then[kind, q] = now[each]
        nodes[kind, i + 1], tasks[kind, i + 1] = count, total
    kinds[kind, 2] = largest
    for mark in range(-(-(len(first) - 1) // MARK), ready.shape[1]):
        ready[kind, mark], units[kind, mark] = bits, sums
    return kind


@kernel(inline=True)
def least_ends(state, job, kind, nodes, tasks):
    """Return how many runs must have left for a job of this kind to fit on its whole partition; r + 1 if never."""
    low, high = 0, nodes.shape[1]
    while low < high:
        middle = (low + high) // 2
        if suffices(state, job, nodes[kind, middle], tasks[kind, middle]):
            high = middle
        else:
            low = middle + 1
    return low


@kernel(inline=True)
def may_suffice(state, job, allowed, runs, kind, kinds, ready, units):
    """Return whether the allowed nodes may be enough for a job after so many runs have left, by a quick look."""
    mark, count, total = -(-runs // MARK), np.int64(0), np.int64(0)
    largest = min(kinds[kind, 2], state.jobs.tasks[job])
    for i in range(len(allowed)):
        some = ones(allowed[i] & ready[kind, mark, i])
        count += some
        total += min(some * largest, units[kind, mark, i])
    return suffices(state, job, count, total)


@kernel(inline=True)
def lacks_until(state, job, allowed, t, kind, soonest, kinds, ready, units):
    """Return whether a job certainly has not enough of the allowed nodes at any instant until t."""
    low, high = 0, len(soonest) - 1
    while low < high:  # runs that may have left by then
        middle = (low + high) >> 1
        if soonest[middle] > t:
            high = middle
        else:
            low = middle + 1
    return not may_suffice(state, job, allowed, low, kind, kinds, ready, units)


@kernel()
def count_left(leaves, kind, allowed, runs, usable):
    """Return which of the allowed nodes can take a task after so many runs have left, and how many each of them can.

    leaves: of `line`, see expected_start. usable: int64 (m,), overwritten.
    """
    first, node, kinds, idle, then, ready, single = leaves
    mark, some = runs // MARK, np.empty_like(allowed)
    for i in range(len(allowed)):
        some[i] = allowed[i] & ready[kind, mark, i]
    for q in range(first[mark * MARK], first[runs]):
        if then[kind, q] > 0 and has(allowed, node[q]):
            add(some, node[q])
    if kinds[kind, 2] <= 1:  # no node takes more than one task
        return some, single
    per_stage = stage_of(len(first) - 1)
    stage = min(runs // per_stage, (len(first) - 2) // per_stage) if len(first) > 1 else 0
    for i in range(len(some)):
        bits = some[i]
        while bits != NOTHING:
            each = i * WORD + lowest(bits)
            bits &= bits - ONE
            usable[each] = idle[kind, stage, each]
    for q in range(first[stage * per_stage], first[runs]):
        if has(some, node[q]):
            usable[node[q]] = then[kind, q]
    return some, usable


@kernel(inline=True)
def stage_of(runs):
    """Return after how many running jobs each all usable tasks are kept."""
    return runs // STAGES + 1


@kernel()
def run_of(words_of, x):
    """Return the running job to which the x-th of the words belongs."""
    return np.searchsorted(words_of, np.int64(x), side="right") - 1


@kernel()
def last_on(words_of, word, bits, i, stop, allowed):
    """Return the last running job from i on, and before `stop`, that has any of the allowed nodes; -1 if none has."""
    for run in range(stop - 1, i - 1, -1):
        for x in range(words_of[run], words_of[run + 1]):
            if allowed[word[x]] & bits[x] != NOTHING:
                return np.int64(run)
    return np.int64(-1)


@kernel()
def is_on_taken(line, i, taken):
    """Return whether a running job has any of the nodes with tasks."""
    first, node = line[3], line[4]
    for q in range(first[i], first[i + 1]):
        if taken[node[q]] != 0:
            return True
    return False


@kernel(inline=True)
def expected_start(state, job, allowed, now, after, later, until, kind, low, line, usable, taken, on):
    """Return when a job could start on the allowed nodes, NO_TIME if never, or certainly after `until`.

    after, later: of the plan, see backfill.py; they count from 24.11 on. now: in whole seconds. low: before so many
    runs have left it could not even with its whole partition. For `taken` and `on` see `seat`.

    Slurm removes one run after the other, but tests only at the last one of a group: the first one with any of the
    allowed nodes behind which the next run, whatever its nodes, ends later than the group does.
    """
    limit, guess, soonest, first, node, kinds, idle, then, _, _, ready, units, words_of, word, bits = line[:15]
    leaves = (first, node, kinds, idle, then, ready, line[17])
    own, active, recent = state.own, len(limit), state.own.version >= 24.11
    gone = np.searchsorted(limit, after) if recent else 0  # runs that count as over at the start of the test
    if not (recent and after > now) and low == 0 and may_suffice(state, job, allowed, 0, kind, kinds, ready, units):
        some, each = count_left(leaves, kind, allowed, 0, usable)
        if seat(state, job, some, each, taken, on):
            return now
    if recent and (after > now or gone > 0) and may_suffice(state, job, allowed, gone, kind, kinds, ready, units):
        some, each = count_left(leaves, kind, allowed, gone, usable)
        if seat(state, job, some, each, taken, on):
            return after
    stop = np.searchsorted(limit, later, side="right") if recent and later != NO_TIME else active  # no ends behind it
    x, end = np.uint64(words_of[gone]), np.uint64(words_of[stop])
    while x < end and allowed[word[x]] & bits[x] == NOTHING:
        x += np.uint64(1)
    if x >= end:
        return NO_TIME
    barrier = (limit[run_of(words_of, x)] // WINDOW + 1) * WINDOW
    window, at = WINDOW, gone
    while at < stop:
        if soonest[at] > until:
            return NO_TIME
        begin, over = at, np.searchsorted(limit, barrier + window, side="right")
        x = np.uint64(words_of[min(max(over - 1, begin), stop)])
        while x < end and allowed[word[x]] & bits[x] == NOTHING:
            x += np.uint64(1)
        if x < end:
            last = run_of(words_of, x)
            at = last + 1
        else:
            last, at = last_on(words_of, word, bits, begin, stop, allowed), stop
            if last < 0:
                return NO_TIME
        too_late = last + 1 < low or (own.version < 25.05 and guess[last] > until)
        if not too_late and may_suffice(state, job, allowed, last + 1, kind, kinds, ready, units):
            some, each = count_left(leaves, kind, allowed, last + 1, usable)
            if seat(state, job, some, each, taken, on):
                final = last
                if own.version >= 25.05:
                    for i in range(begin, last + 1):
                        if is_on_taken(line, i, taken):
                            final = i
                return guess[final]
        while at < stop and limit[at] > barrier + window:
            window = grown(state, window)
    return NO_TIME


@kernel(inline=True)
def grown(state, window):
    """Return the width of the next group."""
    linear = np.int64(state.own.bf_window_linear) * SECOND
    return window + linear if linear > 0 else 2 * window
