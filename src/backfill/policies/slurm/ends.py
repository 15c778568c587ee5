"""When a job could start if nobody else waited: running jobs leave in groups that grow, in order of their limits.

A width within which no run ends is skipped.

Source: _will_run_test in select/cons_tres (job_test.c) of Slurm 22.05.8, _future_run_test of 24.11.5.
Times are microseconds; Slurm counts whole seconds. In array shapes r is running jobs by their limit, q the nodes of
these, one after the other, m nodes, k resources, w words of a set of nodes, c kinds of jobs.
"""

import numpy as np
from numba import int64, uint64

from backfill.compiler.kernel import apart, kernel
from backfill.compiler.record import record
from backfill.compiler.word import lowest, ones
from backfill.core.place.gangs import may_run_on
from backfill.core.plan.promises import NO_TIME
from backfill.policies.slurm.bits import NOTHING, ONE, WORD, SetsT, add, has, having_any, words
from backfill.policies.slurm.seats import (
    SeatsT,
    count_usable,
    least_tasks,
    most_tasks,
    names_the_same,
    runs_anywhere,
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

LINE = [
    ("active", int64),  # number of running jobs; -1: the line is not there
    ("limit", int64[::1]),  # (r,): end of each at its limit
    ("guess", int64[::1]),  # (r,): and as expected
    ("soonest", int64[::1]),  # (r + 1,): the least `guess` from here on
    ("of_job", int64[::1]),  # (r,)
    ("first", int64[::1]),  # (r + 1,): where the nodes of each begin in
    ("node", int64[::1]),  # (q,)
    ("tasks_on", int64[::1]),  # (q,): its tasks there
    # the same nodes as sets, of which only words with nodes are kept
    ("words_of", int64[::1]),  # (r + 1,): where the words of each begin in
    ("word", int64[::1]),  # (q,): its place in a set
    ("bits", uint64[::1]),  # (q,)
    ("run_of", int64[::1]),  # (q,): whose it is
    ("open", uint64[:, ::1]),  # (marks, w): nodes with anything free after MARK x i runs, the last ones after all
    # what running jobs leave for a kind of jobs
    ("many", int64),  # kinds seen so far; the last KINDS of them are kept
    # (c, 4): a job of each, its partition as in `Sets.known`, the most tasks on a node, and how many stages, which are
    # not kept, no node takes more than one
    ("kinds", int64[:, ::1]),
    ("idle", int64[:, :, ::1]),  # (c, STAGES, m): usable tasks of each node now and at later stages
    ("then", int64[:, ::1]),  # (c, q): those of a node after each run has left it
    ("nodes", int64[:, ::1]),  # (c, r + 1): nodes of the partition that take any, after so many runs have left
    ("tasks", int64[:, ::1]),  # (c, r + 1): and the tasks that these take
    ("ready", uint64[:, :, ::1]),  # (c, marks, w): these nodes after MARK x i runs, the last one after all
    ("units", int64[:, :, ::1]),  # (c, marks, w): their tasks, for each word
]
Line, LineT = record("Line", LINE, globals())
JOB, PART, LARGEST, FLAT = range(4)  # the columns of `kinds`


@kernel(inline=True)
def whole_second(t):
    """Return the begin of the second in which an instant lies."""
    return t // SECOND * SECOND


@kernel(inline=True)
def limit_of_run(state, run):
    """Return the end of a run at its limit, in whole seconds."""
    own, end = state.own, state.runs.limit[run]
    if len(own.least_limit) > 0 and own.lowered[state.runs.job[run]] > 0:
        end = min(end, state.runs.start[run] + own.lowered[state.runs.job[run]])
    return whole_second(end)


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
def by_limit(state):
    """Return the running jobs in order of their limits; of equals the one that started first is first."""
    runs = state.runs
    if len(state.own.least_limit) == 0:
        return runs.by_limit[: runs.active]
    order = np.sort(runs.by_limit[: runs.active])
    limits = np.empty(len(order), np.int64)
    for i in range(len(order)):
        limits[i] = limit_of_run(state, order[i])
    return order[np.argsort(limits, kind="mergesort")]


@kernel()
def line_up(state, now):
    """Return the running jobs in order of their limits, and empty tables of what they leave for kinds of jobs."""
    runs = state.runs
    active, pairs, order = runs.active, np.int64(0), by_limit(state)
    limit, guess = np.empty(active, np.int64), np.empty(active, np.int64)
    soonest, first = np.full(active + 1, NEVER), np.zeros(active + 1, np.int64)
    for i in range(active):
        run = order[i]
        limit[i], guess[i] = limit_of_run(state, run), guessed_end(state, run, now)
        pairs += nodes_held(state, run)
        first[i + 1] = pairs
    for i in range(active - 1, -1, -1):
        soonest[i] = min(soonest[i + 1], guess[i])
    node, of_job, tasks_on = np.empty(pairs, np.int64), np.empty(active, np.int64), np.empty(pairs, np.int64)
    words_of, word, bits = np.zeros(active + 1, np.int64), np.empty(pairs, np.int64), np.empty(pairs, np.uint64)
    run_of = np.empty(pairs, np.int64)
    for i in range(active):
        run, x = order[i], words_of[i]
        of_job[i] = runs.job[run]
        for pair in range(first[i + 1] - first[i]):
            each, many = np.int64(0), state.jobs.tasks[of_job[i]]
            if not state.machine.pool:
                each, many = runs.held[runs.first[run] + pair, 0], runs.held[runs.first[run] + pair, 1]
            node[first[i] + pair], tasks_on[first[i] + pair] = each, many
            if x == words_of[i] or word[x - 1] != each >> 6:
                word[x], bits[x], run_of[x] = each >> 6, NOTHING, i
                x += 1
            bits[x - 1] |= ONE << np.uint64(each & 63)
        words_of[i + 1] = x
    marks = active // MARK + 2
    having = np.empty((marks, words(state.machine.nodes)), np.uint64)
    find_open(state, active, words_of, word, bits, having)
    return Line(
        active=active,
        limit=limit,
        guess=guess,
        soonest=soonest,
        of_job=of_job,
        first=first,
        node=node,
        tasks_on=tasks_on,
        words_of=words_of,
        word=word,
        bits=bits,
        run_of=run_of,
        open=having,
        many=0,
        kinds=np.empty((KINDS, 4), np.int64),
        idle=np.empty((KINDS, STAGES, state.machine.nodes), np.int64),
        then=np.empty((KINDS, pairs), np.int64),
        nodes=np.empty((KINDS, active + 1), np.int64),
        tasks=np.empty((KINDS, active + 1), np.int64),
        ready=np.empty((KINDS, marks, words(state.machine.nodes)), np.uint64),
        units=np.empty((KINDS, marks, words(state.machine.nodes)), np.int64),
    )


@kernel()
def no_line(state):
    """Return an empty line, for as long as all plans are taken over."""
    none, nothing = np.empty(0, np.int64), np.empty(0, np.uint64)
    table, sets = np.empty((0, 0), np.int64), np.empty((0, 0), np.uint64)
    return Line(
        active=-1,
        limit=none,
        guess=none,
        soonest=none,
        of_job=none,
        first=none,
        node=none,
        tasks_on=none,
        words_of=none,
        word=none,
        bits=nothing,
        run_of=none,
        open=sets,
        many=0,
        kinds=table,
        idle=np.empty((0, 0, 0), np.int64),
        then=table,
        nodes=table,
        tasks=table,
        ready=np.empty((0, 0, 0), np.uint64),
        units=np.empty((0, 0, 0), np.int64),
    )


@kernel()
def find_open(state, active, words_of, word, bits, having):
    """Write to the rows of `having` which nodes have anything free; see `Line`."""
    nodes = state.machine.nodes
    for i in range(having.shape[1]):
        having[0, i] = having_any(state.free.nodes, i * WORD, min((i + 1) * WORD, nodes))
    for mark in range(1, len(having)):
        for i in range(having.shape[1]):
            having[mark, i] = having[mark - 1, i]
        for x in range(words_of[min((mark - 1) * MARK, active)], words_of[min(mark * MARK, active)]):
            having[mark, word[x]] |= bits[x]


@kernel()
def open_by(line, t):
    """Return the row of `open` with all nodes that have anything free when the runs with limits until t have left."""
    return -(-first_from(line.limit, line.active, t + 1) // MARK)


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


@apart(of_policy=True, sets=SetsT, line=LineT, seats=SeatsT)
def kind_of(state, job, part, sets, line, seats):
    """Return the kind of a job in a partition, and fill its tables if they are not there."""
    known, kinds = sets.known[part], line.kinds
    for kind in range(min(line.many, KINDS)):
        if kinds[kind, PART] == known and are_alike(state, kinds[kind, JOB], job):
            return np.int64(kind)
    kind = line.many % KINDS
    kinds[kind, JOB], kinds[kind, PART] = job, known
    line.many += 1
    find_left(state, job, kind, part, sets, line, seats)
    return kind


@kernel()
def find_left(state, job, kind, part, sets, line, seats):
    """Fill the tables of a kind of jobs: what running jobs leave for it, after each of them."""
    first, node, of_job, tasks_on, demand = line.first, line.node, line.of_job, line.tasks_on, state.jobs.demand
    idle, then, ready, units, nodes, tasks = line.idle, line.then, line.ready, line.units, line.nodes, line.tasks
    active, least, most = line.active, least_tasks(state, job), most_tasks(state, job)
    may, free, room = seats.allowed, seats.some, state.free.nodes.copy()
    for i in range(len(may)):
        may[i] = sets.of[part, i]
    count_usable(state, job, seats, room)
    now, bits = np.zeros(state.machine.nodes, np.int64), free.copy()
    sums, largest = np.zeros(len(may), np.int64), np.int64(0)
    count, total = np.int64(0), np.int64(0)
    anywhere = runs_anywhere(state, job)
    plain = demand.shape[1] == 1 and demand[job, 0] == 1
    for i in range(len(may)):
        left = bits[i]
        while left != NOTHING:
            each = i * WORD + lowest(left)
            left &= left - ONE
            now[each] = seats.usable[each]
            largest = max(largest, now[each])
            count += 1
            sums[i] += now[each]
        total += sums[i]
        left = NOTHING if anywhere else may[i] & ~bits[i]
        while left != NOTHING:
            each = lowest(left)
            left &= left - ONE
            if not may_run_on(state, job, i * WORD + each):
                may[i] &= ~(ONE << np.uint64(each))
    nodes[kind, 0], tasks[kind, 0] = count, total
    per_stage, flat = stage_of(active), np.int64(0)
    for i in range(max(active, 1)):
        if i % per_stage == 0 and largest <= 1:
            flat += 1
        elif i % per_stage == 0:
            for each in range(len(now)):
                idle[kind, i // per_stage, each] = now[each]
        if i >= active:
            break
        if i % MARK == 0:
            for x in range(len(bits)):
                ready[kind, i // MARK, x], units[kind, i // MARK, x] = bits[x], sums[x]
        simple = first[i + 1] if plain else first[i]  # up to here the second loop for one resource, without branches
        for q in range(first[i], simple):
            each = node[q]
            room[each, 0] += tasks_on[q] * demand[of_job[i], 0]
            word, place = each >> 6, np.uint64(each & 63)
            before, after = now[each], min(room[each, 0], most)
            after *= np.int64(after >= least) & np.int64((may[word] >> place) & ONE)
            bits[word] |= np.uint64(after > 0) << place
            now[each] = then[kind, q] = after
            count += (before == 0) & (after > 0)
            total += after - before
            sums[word] += after - before
            largest = max(largest, after)
        for q in range(simple, first[i + 1]):
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
                    sums[each >> 6] += after - before
            then[kind, q] = now[each]
        nodes[kind, i + 1], tasks[kind, i + 1] = count, total
    line.kinds[kind, LARGEST], line.kinds[kind, FLAT] = largest, flat
    for mark in range(-(-active // MARK), ready.shape[1]):
        for x in range(len(bits)):
            ready[kind, mark, x], units[kind, mark, x] = bits[x], sums[x]


@kernel()
def least_ends(state, job, kind, line):
    """Return how many runs must have left for a job of this kind to fit on its whole partition; r + 1 if never."""
    low, high, nodes, tasks = 0, line.active + 1, line.nodes, line.tasks
    while low < high:
        middle = (low + high) // 2
        if suffices(state, job, nodes[kind, middle], tasks[kind, middle]):
            high = middle
        else:
            low = middle + 1
    return low


@kernel(inline=True)
def fewest_nodes(state, job, kind, line):
    """Return on how many nodes a job of this kind is at least, by its tasks."""
    largest = max(line.kinds[kind, LARGEST], 1)
    return -(-state.jobs.tasks[job] // largest)


@kernel()
def may_suffice(state, job, allowed, runs, kind, line):
    """Return whether the allowed nodes may be enough for a job after so many runs have left, by a quick look."""
    mark, count, total, ready, units = -(-runs // MARK), np.int64(0), np.int64(0), line.ready, line.units
    largest = min(line.kinds[kind, LARGEST], state.jobs.tasks[job])
    if largest == 1:
        for i in range(len(allowed)):
            count += ones(allowed[i] & ready[kind, mark, i])
        return suffices(state, job, count, count)
    for i in range(len(allowed)):
        some = ones(allowed[i] & ready[kind, mark, i])
        count += some
        total += min(some * largest, units[kind, mark, i])
    return suffices(state, job, count, total)


@kernel()
def lacks_until(state, job, allowed, t, kind, line):
    """Return whether a job certainly has not enough of the allowed nodes at any instant until t."""
    return not may_suffice(state, job, allowed, first_from(line.soonest, line.active, t + 1), kind, line)


@kernel(inline=True)
def first_from(times, count, t):
    """Return the index of the first of so many ascending instants that is not before t."""
    low, high = 0, count
    while low < high:
        middle = (low + high) >> 1
        if times[middle] >= t:
            high = middle
        else:
            low = middle + 1
    return low


@kernel()
def count_left(line, kind, runs, seats):
    """Find the allowed nodes that can take a task after so many runs have left, and how many tasks each of them can."""
    first, node, then, idle = line.first, line.node, line.then, line.idle
    allowed, some, usable = seats.allowed, seats.some, seats.usable
    mark = runs // MARK
    for i in range(len(allowed)):
        some[i] = allowed[i] & line.ready[kind, mark, i]
    for q in range(first[mark * MARK], first[runs]):
        if then[kind, q] > 0 and has(allowed, node[q]):
            add(some, node[q])
    seats.single = np.int64(line.kinds[kind, LARGEST] <= 1)
    if seats.single != 0:
        return
    per_stage = stage_of(line.active)
    stage = min(runs // per_stage, (line.active - 1) // per_stage) if line.active > 0 else 0
    if stage < line.kinds[kind, FLAT]:
        for each in range(len(usable)):
            usable[each] = 1
    else:
        for each in range(len(usable)):
            usable[each] = idle[kind, stage, each]
    for q in range(first[stage * per_stage], first[runs]):
        usable[node[q]] = then[kind, q]


@kernel(inline=True)
def stage_of(runs):
    """Return after how many running jobs each all usable tasks are kept."""
    return runs // STAGES + 1


@kernel(inline=True)
def next_on(line, x, end, allowed):
    """Return the first of the words from x to before `end` that has any of the allowed nodes; `end` if none has."""
    word, bits = line.word, line.bits
    while x < end and allowed[word[x]] & bits[x] == NOTHING:
        x += 1
    return x


@kernel(inline=True)
def last_on(line, x, end, allowed):
    """Return the last of the words from x to before `end` that has any of the allowed nodes; x - 1 if none has."""
    word, bits, at = line.word, line.bits, end - 1
    while at >= x and allowed[word[at]] & bits[at] == NOTHING:
        at -= 1
    return at


@kernel()
def fits_after(state, job, runs, kind, line, seats):
    """Return whether a job fits on the allowed nodes after so many runs have left; then `seats` says where."""
    if not may_suffice(state, job, seats.allowed, runs, kind, line):
        return False
    count_left(line, kind, runs, seats)
    return seat(state, job, seats)


@apart(of_policy=True, line=LineT, seats=SeatsT)
def expected_start(state, job, now, after, later, until, kind, low, line, seats):
    """Return when a job could start on the allowed nodes, NO_TIME if never, or certainly after `until`.

    after, later: of the plan, see backfill.py; they count from 24.11 on. now: in whole seconds. low: before so many
    runs have left it could not even with its whole partition. For its nodes see `seat`.

    Slurm removes one run after the other, but tests only at the last one of a group: the first one with any of the
    allowed nodes behind which the next run, whatever its nodes, ends later than the group does.
    """
    limit, guess, soonest, words_of, run_of, allowed = (
        line.limit,
        line.guess,
        line.soonest,
        line.words_of,
        line.run_of,
        seats.allowed,
    )
    own, active, recent = state.own, line.active, state.own.version >= 24.11
    gone = first_from(limit, active, after) if recent else 0  # runs that count as over at the start of the test
    if not (recent and after > now) and low == 0 and fits_after(state, job, 0, kind, line, seats):
        return now
    if recent and (after > now or gone > 0) and fits_after(state, job, gone, kind, line, seats):
        return after
    stop = first_from(limit, active, later + 1) if recent and later != NO_TIME else active  # no ends behind it
    end = words_of[stop]
    x = next_on(line, words_of[gone], end, allowed)
    if x >= end:
        return NO_TIME
    barrier = (limit[run_of[x]] // WINDOW + 1) * WINDOW
    window, at = WINDOW, gone
    while at < stop:
        if soonest[at] > until:
            return NO_TIME
        begin, over = at, first_from(limit, active, barrier + window + 1)
        x = next_on(line, words_of[min(max(over - 1, begin), stop)], end, allowed)
        if x < end:
            last = run_of[x]
            at = last + 1
        else:
            x, at = last_on(line, words_of[begin], end, allowed), stop
            if x < words_of[begin]:
                return NO_TIME
            last = run_of[x]
        too_late = last + 1 < low or (own.version < 25.05 and guess[last] > until)
        if not too_late and fits_after(state, job, last + 1, kind, line, seats):
            final = last
            if own.version >= 25.05:
                x = last_on(line, words_of[begin], words_of[last + 1], seats.on)
                final = run_of[x] if x >= words_of[begin] else last
            return guess[final]
        while at < stop and limit[at] > barrier + window:
            window = grown(state, window)
    return NO_TIME


@kernel(inline=True)
def grown(state, window):
    """Return the width of the next group."""
    linear = np.int64(state.own.bf_window_linear) * SECOND
    return window + linear if linear > 0 else 2 * window
