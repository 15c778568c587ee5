"""Slurm's backfill loop: conservative backfilling on a coarse table, planned anew in each cycle and then forgotten.

A cycle plans no further than a start depends on it: down to the last waiting job that could still start now. The rest
of its plan matters only to those who read it, see `plans_all`.

Source: _attempt_backfill in sched/backfill (backfill.c) of Slurm 22.05.8 and 24.11.5. Run against these and 26.05.5.
"""

import numpy as np

from backfill.compiler.kernel import kernel
from backfill.core.place.gangs import may_run_on
from backfill.core.place.outlook import may_fit
from backfill.core.plan.promises import NO_TIME
from backfill.core.plan.readers import are_promises_read
from backfill.core.queue.walk import following, rewind
from backfill.core.verbs import BACKFILL, held_back, reserve, start
from backfill.policies.slurm.bits import NOTHING, ONE, WORD, add, lowest, nodes_of, size, up_nodes, words
from backfill.policies.slurm.ends import (
    NEVER,
    SECOND,
    are_alike,
    expected_start,
    kind_of,
    lacks_until,
    least_ends,
    line_up,
    whole_second,
)
from backfill.policies.slurm.minutes import hold_minutes, lacks_minutes, limit_seconds
from backfill.policies.slurm.queue import (
    association_of,
    has_lists,
    is_limited,
    lacks_licences,
    leave_through,
    partition_count,
    partition_of,
    queue_of_pairs,
    reserves_nothing,
)
from backfill.policies.slurm.seats import (
    choose,
    lacks_named,
    least_nodes,
    least_tasks,
    place_as_taken,
    suffices,
    tasks_in,
)
from backfill.policies.slurm.space import enlarged, is_clear, narrow, new_table, next_chance, occupy, slide
from backfill.policies.slurm.told import BEYOND, LIMITED, NO_ROOM, TOO_DEEP, UNLICENSED, is_told, note, record

SKIPPED, TESTED, PLANNED, STARTED, FULL, STUCK = range(6)  # what became of a job in a cycle
YEAR = 365 * 86_400 * SECOND
ROOM = 64  # records that a table has room for at first
REFUSED = 16  # jobs of which it is known until when they cannot start
FAILURES = 16  # jobs that could not start, which others are compared with


@kernel()
def plans_all(state):
    """Return whether a cycle plans all jobs that Slurm plans: somebody reads the plans, or their number counts."""
    return reads_plans(state) or state.own.bf_test_cost > 0.0 or state.own.assoc_limit_stop > 0.0


@kernel(inline=True)
def reads_plans(state):
    """Return whether the start that each job is planned for is told."""
    own = state.own
    return own.estimates > 0.0 or len(own.telling) > 0 or is_told(state) or are_promises_read(state)


@kernel()
def cycle(state):
    """Run one cycle. Return the microseconds that it takes."""
    own, now = state.own, whole_second(state.now)
    last, users, everything = np.int64(-1), np.int64(2), plans_all(state)
    jobs, in_parts = queue_of_pairs(state) if has_lists(state) else queue_of_jobs(state)
    waiting = np.int64(len(jobs))
    for i in range(waiting):
        users = max(users, np.int64(state.jobs.user[jobs[i]]) + 2)
        if everything or may_start(state, jobs[i]):
            last = np.int64(i)
    own.reached[0] = own.started[0] = 0
    if last < 0:
        return np.int64(0)
    parts, up = partition_count(state), up_nodes(state)
    sets, known = np.empty((parts, len(up)), np.uint64), np.zeros(parts, np.int8)
    of_user, of_part, planned = np.zeros(users, np.int64), np.zeros(parts, np.int64), np.zeros(parts, np.int64)
    of_association = np.zeros(max(users, np.int64(len(own.over)) + 1), np.int64)
    of_both = np.zeros((users, parts) if own.bf_max_job_user_part > 0.0 else (1, 1), np.int64)
    resolution, window = np.int64(own.bf_resolution) * SECOND, np.int64(own.bf_window) * 60 * SECOND
    most = min(np.int64(own.bf_node_space_size), 2 * waiting + 1)
    table = new_table(now // resolution * resolution, (now + window) // resolution * resolution, up, ROOM)
    hopes, refused = new_hopes(state), (np.full((REFUSED + 1, 2), -1), np.zeros(REFUSED, np.int64))
    refused[0][REFUSED, 0] = 0
    line = line_up(state, now)
    tested, started, work, what = 0, 0, 0.0, PLANNED
    most_work = own.bf_max_time * 1e6
    if own.bf_continue <= 0.0:  # a job or a node has changed by the time of its first sleep
        most_work = min(most_work, own.bf_yield_interval)
    for i in range(waiting):
        if what == STARTED:
            line = line_up(state, now)
        if not everything:
            last = last_hope(state, jobs, in_parts, i, last, what >= PLANNED, now, table, up, sets, known, hopes)
            if last < i:
                break
        job = jobs[i]
        part, user, what = in_parts[i], np.int64(state.jobs.user[job]) + 1, SKIPPED
        own.tried[job] = part
        if state.queue.waits[job] == 0:  # it started in another partition
            continue
        who = association_of(state, job) + 1
        if own.bf_max_job_start > 0.0 and started >= own.bf_max_job_start:
            break
        if own.assoc_limit_stop <= 0.0 and is_limited(state, job, False):
            note(state, job, LIMITED)
            continue
        if (
            (own.bf_max_job_part > 0.0 and of_part[part] >= own.bf_max_job_part)
            or (own.bf_max_job_assoc > 0.0 and of_association[who] >= own.bf_max_job_assoc)
            or (own.bf_max_job_assoc <= 0.0 and own.bf_max_job_user > 0.0 and of_user[user] >= own.bf_max_job_user)
            or (own.bf_max_job_user_part > 0.0 and of_both[user, part] >= own.bf_max_job_user_part)
        ):
            note(state, job, TOO_DEEP)
            continue
        of_part[part] += 1
        of_user[user] += 1
        of_association[who] += 1
        if own.bf_max_job_user_part > 0.0:
            of_both[user, part] += 1
        if lacks_licences(state, job):
            note(state, job, UNLICENSED)
            continue
        only_now = (
            reserves_nothing(state, job, part)
            or (own.bf_job_part_count_reserve > 0.0 and planned[part] >= own.bf_job_part_count_reserve)
            or (own.bf_one_resv_per_job > 0.0 and own.planned[job] != 0)
        )
        if table[0][0] + 3 > len(table[2]):
            table = enlarged(table)
        within = nodes_of(state, part, up, sets, known)
        what = plan_one(state, job, part, within, now, only_now, table, most, line, refused)
        if what >= FULL:
            work = most_work if what == STUCK else work
            break
        if what < PLANNED:
            note(state, job, NO_ROOM)
        tested += what >= TESTED
        started += what == STARTED
        planned[part] += what == PLANNED
        work += own.bf_test_cost * 1000.0 * (what >= TESTED)
        if tested >= own.bf_max_job_test or spent(state, work) >= most_work:
            break
    if has_lists(state) and reads_plans(state):
        tell_earliest(state, jobs)
    own.reached[0], own.started[0] = tested, started
    return np.int64(spent(state, work))


@kernel()
def queue_of_jobs(state):
    """Return the queue of a cycle, if each job asked for one partition: (jobs, partitions)."""
    jobs, parts = np.empty(state.queue.waiting, np.int64), np.empty(state.queue.waiting, np.int64)
    rewind(state, 0)
    for i in range(len(jobs)):
        jobs[i] = following(state, 0)
        parts[i] = partition_of(state, jobs[i])
    return jobs, parts


@kernel()
def least_hope(state, job, part, refused):
    """Return until when a job cannot start since one that asks for no more could not, earlier in this cycle.

    refused: jobs with their partitions and the index of the last one behind them, and these instants. Plans only take
    nodes away.
    """
    jobs, until = refused
    found = np.int64(0)
    for i in range(REFUSED):
        if jobs[i, 0] >= 0 and until[i] > found and asks_no_less(state, job, part, jobs[i, 0], jobs[i, 1]):
            found = until[i]
    return found


@kernel()
def asks_no_less(state, job, part, other, of_other):
    """Return whether a job in a partition asks for the same nodes as another one in its own, and no less of them."""
    return (
        of_other == part
        and state.jobs.tasks[other] <= state.jobs.tasks[job]
        and length_of(state, other, part) <= length_of(state, job, part)
        and least_nodes(state, other) <= least_nodes(state, job)
        and are_alike(state, other, job)
    )


@kernel(inline=True)
def may_start(state, job):
    """Return False if a waiting job certainly cannot start in this cycle: starts free no licences and lift no limit."""
    return may_fit(state, job) and not is_kept(state, job) and not lacks_licences(state, job)


@kernel(inline=True)
def is_kept(state, job):
    """Return whether a limit keeps a waiting job from starting in this cycle."""
    return held_back(state, job) or lacks_minutes(state, job, True)


@kernel()
def new_hopes(state):
    """Return what `last_hope` remembers during a cycle: the nodes with anything free, and jobs that cannot start."""
    free = np.zeros(words(state.machine.nodes), np.uint64)
    for node in range(state.machine.nodes):
        for k in range(state.machine.resources):
            if state.free.nodes[node, k] > 0:
                add(free, node)
                break
    return free, np.full((FAILURES, 2), -1), np.zeros(1, np.int64)


@kernel()
def last_hope(state, jobs, parts, i, last, anew, now, table, up, sets, known, hopes):
    """Return the index of the last job from i to `last` that could still start now; less than i if there is none.

    anew: whether a plan or a start has taken nodes since. What could not start earlier in a cycle cannot start later.
    """
    if not anew:
        return last
    failed, count = hopes[1], hopes[2]
    while last >= i:
        job = jobs[last]
        part = parts[last]
        if state.queue.waits[job] != 0 and may_start(state, job) and not is_hopeless(state, job, part, failed):
            within = nodes_of(state, part, up, sets, known)
            if could_start(state, job, part, within, now, table, hopes[0]):
                break
            failed[count[0] % FAILURES, 0], failed[count[0] % FAILURES, 1] = job, part
            count[0] += 1
        last -= 1
    return last


@kernel()
def is_hopeless(state, job, part, failed):
    """Return whether a job that could not start, and asks for no more, tells that this one cannot start either."""
    for i in range(len(failed)):
        if failed[i, 0] >= 0 and asks_no_less(state, job, part, failed[i, 0], failed[i, 1]):
            return True
    return False


@kernel()
def could_start(state, job, part, within, now, table, free):
    """Return whether the nodes that all plans leave a job are enough for it now. free: nodes with anything free."""
    allowed, count, total, most = within & free, np.int64(0), np.int64(0), state.jobs.tasks[job]
    demand, least, room = state.jobs.demand, least_tasks(state, job), state.free.nodes
    narrow(*table[:4], now, now + length_of(state, job, part), allowed)
    for i in range(len(allowed)):
        if allowed[i] != NOTHING:
            bits = allowed[i]
            while bits != NOTHING:
                node = i * WORD + lowest(bits)
                bits &= bits - ONE
                usable = tasks_in(demand, job, least, most, room, node)
                if usable > 0 and may_run_on(state, job, node):
                    count += 1
                    total += min(usable, most)
            if suffices(state, job, count, total):
                return True
    return suffices(state, job, count, total)


@kernel()
def spent(state, work):
    """Return the microseconds that a cycle takes for so much work, with its sleeps."""
    own = state.own
    return work + np.floor(work / own.bf_yield_interval) * own.bf_yield_sleep


@kernel()
def plan_one(state, job, part, within, now, only_now, table, most, line, refused):
    """Start a job, or plan it and remove its nodes from the table. Return what became of it.

    within: the nodes of its partition that are up. only_now: it gets no place in the plan. most: records of the table.
    line: see ends.py. refused: until when jobs could not start, see `least_hope`.
    """
    own, told, limited = state.own, reads_plans(state), is_kept(state, job)
    allowed, taken, front, turn = (
        np.empty_like(within),
        np.empty_like(within),
        np.empty_like(within),
        np.zeros(2, np.int64),
    )
    usable = np.empty(state.machine.nodes, np.int64)
    tasks = np.empty(state.machine.nodes, np.int64)
    resolution, length = np.int64(own.bf_resolution) * SECOND, length_of(state, job, part)
    count, times, places, clear, step, many, common = table
    after, what, recent = now, SKIPPED, own.version >= 24.11
    horizon = now + np.int64(own.bf_window) * 60 * SECOND
    soonest, kinds, ready, units = line[2], line[5], line[10], line[11]
    kind = kind_of(state, job, part, within, line)
    # until when it certainly cannot start: by the ends of runs, and since a job that asks for no more could not
    low, hopeless = least_ends(state, job, kind, line[8], line[9]), max(now - 1, least_hope(state, job, part, refused))
    if low > 0:
        hopeless = max(hopeless, soonest[low - 1] - 1 if low < len(soonest) else NEVER - 1)
    least, seen, short = least_nodes(state, job), 0, now  # `short`: the end of the last record with too few nodes
    place, leapt = refused[0][REFUSED, 0], False
    if refused[1][place] > now:  # else it tells nothing
        place = refused[0][REFUSED, 0] = (place + 1) % REFUSED
    refused[0][place, 0], refused[0][place, 1], refused[1][place] = job, part, hopeless
    while True:
        later = next_chance(count, times, places, clear, step, after, after + length, within, recent)
        free_to_go = later != NO_TIME and not only_now and not limited  # on to `later`, if it is not planned until then
        if free_to_go and later <= hopeless:
            after, leapt = later, True
            continue
        while seen < count[0] and times[seen, 0] <= after + length:
            if many[places[seen]] < least:
                short = times[seen, 1]
            seen += 1
        begin, holds = NO_TIME, after >= short
        if holds:
            slide(count, times, places, clear, common, after, after + length, within, front, turn, allowed)
            holds = size(allowed) >= least and not lacks_named(state, job, within, allowed)
        if holds:
            what = TESTED
            if limited and own.assoc_limit_stop <= 0.0 and not recent and not is_told(state):
                return TESTED  # whatever is found, it has no start and no plan
            if (
                free_to_go
                and after <= hopeless + 1
                and lacks_until(state, job, allowed, later, kind, soonest, kinds, ready, units)
            ):
                hopeless = after = refused[1][place] = later
                continue
            until = later if free_to_go else NEVER
            begin = expected_start(state, job, allowed, now, after, later, until, kind, low, line, usable, tasks, taken)
        elif free_to_go and after <= hopeless + 1:
            hopeless = refused[1][place] = later
        if begin == NO_TIME:
            if later == NO_TIME or only_now:
                if leapt and what == SKIPPED:  # whether it was tested is counted
                    hopeless, after, leapt, seen, short, turn[0] = now - 1, now, False, 0, now, 0
                    continue
                return what
            after = later
            continue
        begin = max(begin, after)
        clear_then = False  # whether the slot is known to overlap no plan
        if recent and begin > now:  # from 24.11 on that is looked at first
            if overlaps(own, table, begin, after, length, resolution, taken):
                after = again(own, begin, after, resolution)
                if after == NO_TIME:
                    return STUCK
                continue
            clear_then = True
        if limited and own.assoc_limit_stop <= 0.0:
            note(state, job, LIMITED)
            return TESTED
        if limited and (begin <= now or not recent):
            begin, clear_then = later if later != NO_TIME else now + 500 * SECOND, False
        elif begin <= now and is_closed(own, tasks):
            begin, later, clear_then = now + SECOND, NO_TIME, False
        elif begin <= now:
            if choose(state, job, allowed, state.free.nodes, usable, tasks, taken) and place_as_taken(
                state, job, tasks
            ):
                start(state, job, BACKFILL)
                hold_minutes(state, job, limit_seconds(state, job))
                hold(state, job, now + length, resolution, table, most, taken)
                if has_lists(state):
                    leave_through(state, job, part)
                return STARTED
            return TESTED
        if only_now:
            tell(state, told, job, begin)
            return TESTED
        if later != NO_TIME and begin > later:
            after = later
            continue
        if begin > horizon:
            tell(state, told, job, begin)
            note(state, job, BEYOND)
            return TESTED
        if count[0] + 2 > most:
            return FULL
        if not clear_then and overlaps(own, table, begin, after, length, resolution, taken):
            after = again(own, begin, after, resolution)
            if after == NO_TIME:
                return STUCK
            continue
        tell(state, told, job, begin)
        record(state, job, begin, tasks)
        first, last = slot(own, begin, length, resolution)
        occupy(table, first, last, taken, True)
        return PLANNED


@kernel(inline=True)
def is_closed(own, tasks):
    """Return whether any of the nodes with tasks is still completing a job, as only a log tells: `closed` (m,)."""
    for node in range(len(own.closed)):
        if own.closed[node] != 0 and tasks[node] > 0:
            return True
    return False


@kernel(inline=True)
def slot(own, begin, length, resolution):
    """Return begin and end of a plan in the table."""
    first, last = begin // resolution * resolution, begin + length
    last = -(-last // resolution) * resolution if own.version >= 24.11 else last // resolution * resolution
    return first, max(last, first + resolution)


@kernel(inline=True)
def overlaps(own, table, begin, after, length, resolution, taken):
    """Return whether any of these nodes, found free from `after` on, belongs to a plan within the slot of a start.

    Source: _test_resv_overlap.
    """
    first, last = slot(own, begin, length, resolution)
    return not is_clear(*table[:4], first, last, taken, after, after + length)


@kernel(inline=True)
def again(own, begin, after, resolution):
    """Return from when a job is tested again whose slot overlaps a plan; NO_TIME if Slurm tries the same instant again
    and again, until bf_max_time is over, as before 25.05.
    """
    if begin != after:
        return begin
    return begin + resolution if own.version >= 25.05 else NO_TIME


@kernel(inline=True)
def hold(state, job, end, resolution, table, most, taken):
    """Remove the nodes of a whole-node job that a cycle has started from the table. Source: _bf_reserve_running."""
    own = state.own
    if len(own.whole) == 0 or own.whole[job] == 0 or table[0][0] + 2 > most:
        return
    now = table[1][0, 0]
    first, last = slot(own, now, end - now, resolution)
    occupy(table, first, last, taken, False)


@kernel(inline=True)
def tell(state, told, job, begin):
    """Let it be known when a job is planned to start, if anybody asks. With lists of partitions, after the cycle."""
    if has_lists(state):
        if state.own.planned[job] != 0 and state.own.planned[job] <= begin:
            return
        state.own.planned[job] = begin
    elif told:
        reserve(state, job, begin)


@kernel()
def tell_earliest(state, jobs):
    """Let it be known when each of these jobs is planned to start, in whichever of its partitions."""
    own = state.own
    for job in jobs:
        if own.planned[job] != 0 and state.queue.waits[job] != 0:
            reserve(state, job, own.planned[job])
            own.planned[job] = 0


@kernel(inline=True)
def length_of(state, job, part):
    """Return the time for which a job is planned: its limit, at most that of its partition."""
    length = min(state.jobs.walltime[job], YEAR)
    if len(state.own.max_time) > 0 and state.own.max_time[part] > 0:
        length = min(length, state.own.max_time[part])
    return length
