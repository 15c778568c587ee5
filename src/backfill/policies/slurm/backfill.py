"""Slurm's backfill loop: conservative backfilling on a coarse table, planned anew in each cycle and then forgotten.

A cycle plans no further than a start depends on it: down to the last waiting job that could still start now. The rest
of its plan matters only to those who read it, see `plans_all`.

Source: _attempt_backfill in sched/backfill (backfill.c) of Slurm 22.05.8 and 24.11.5. Run against these and 26.05.5.
"""

import numpy as np
from numba import float64, int64, uint64

from backfill.compiler.kernel import apart, kernel
from backfill.compiler.pointer import borrow, held
from backfill.compiler.record import record as record_of
from backfill.compiler.word import lowest
from backfill.core.place.gangs import may_run_on
from backfill.core.place.outlook import may_fit
from backfill.core.plan.promises import NO_TIME
from backfill.core.plan.readers import are_promises_read
from backfill.core.queue.walk import following, rewind
from backfill.core.verbs import BACKFILL, held_back, reserve, start
from backfill.policies.slurm.arrays import is_passed_over, new_turn, note_task, running_tasks
from backfill.policies.slurm.bits import NOTHING, ONE, WORD, SetsT, add, has, having_any, look_up, new_sets, size, words
from backfill.policies.slurm.ends import (
    NEVER,
    SECOND,
    LineT,
    are_alike,
    expected_start,
    fewest_nodes,
    kind_of,
    lacks_until,
    least_ends,
    limit_of_run,
    line_up,
    no_line,
    nodes_held,
    open_by,
    whole_second,
)
from backfill.policies.slurm.minutes import has_spared, hold_minutes, lacks_minutes, limit_seconds, spare
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
from backfill.policies.slurm.reasons import LICENCES, drop_limit, say, say_limit
from backfill.policies.slurm.repeats import (
    FULL,
    MOST,
    PLANNED,
    SKIPPED,
    STARTED,
    STUCK,
    TESTED,
    UNKNOWN,
    entries,
    first_repeated,
    is_equal,
    is_next,
    is_repeated,
    keep,
    keeps,
    leaves_equal_tables,
    read,
    write,
)
from backfill.policies.slurm.seats import (
    SeatsT,
    choose,
    lacks_named,
    least_nodes,
    least_tasks,
    new_seats,
    place_as_taken,
    runs_anywhere,
    suffices,
    tasks_in,
)
from backfill.policies.slurm.space import (
    TableT,
    begin_windows,
    is_clear,
    last_lacking,
    narrow,
    new_table,
    next_chance,
    occupy,
    rewind_windows,
    slide,
    slot,
    tighten,
)
from backfill.policies.slurm.told import BEYOND, LIMITED, NO_ROOM, TOO_DEEP, UNLICENSED, is_told, note, record

YEAR = 365 * 86_400 * SECOND
REFUSED = 16  # jobs of which it is known until when they cannot start
FAILURES = 16  # jobs that could not start, which others are compared with

COURSE = [
    ("jobs", int64[::1]),  # (n,): the queue of the cycle
    ("parts", int64[::1]),  # (n,): the partition in which each is tested
    ("at", int64),  # index of the next one
    ("everything", int64),  # 1: all jobs are planned; 0: those before one that could start
    ("hope", int64),  # all from `at` to before this one cannot start in this cycle
    ("sure", int64),  # 1: it could, by the table as it is
    ("what", int64),  # what became of the last job
    ("tested", int64),
    ("started", int64),
    ("work", float64[::1]),  # (1,): microseconds of tests
    ("of_user", int64[::1]),  # jobs looked at, by user
    ("of_part", int64[::1]),
    ("of_association", int64[::1]),
    ("of_both", int64[:, ::1]),  # by user and partition, if that is limited
    ("planned", int64[::1]),  # jobs with a plan, by partition
    ("copies", int64[::1]),  # (l,): licences that the job needs which is tested, where these are planned
    ("free", uint64[::1]),  # (w,): the nodes that had anything free when the cycle began
    ("failed", int64[:, ::1]),  # (FAILURES, 2): jobs that cannot start in this cycle, with their partitions
    ("failures", int64),
    ("refused", int64[:, ::1]),  # (REFUSED, 3): jobs with their partitions, and until when they cannot start
    ("place", int64),  # the last of these
    # plans of the cycle before, see repeats.py
    ("next", int64),  # index of the entry that may count next; -1: none does
    ("kept", int64),  # number of entries of this cycle
    ("keeps", int64),  # 1: what becomes of the jobs is kept
    ("length", int64),  # of the last job
    ("begin", int64),  # of its plan
    ("turn", int64[::1]),  # of arrays, see arrays.py
    ("running", int64[::1]),  # tasks of each array that run
]
Course, CourseT = record_of("Course", COURSE, globals())


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
    state.own.reached[0] = state.own.started[0] = 0
    jobs, parts = queue_of_pairs(state) if has_lists(state) else queue_of_jobs(state)
    hope, everything = np.int64(0), plans_all(state)
    while not everything and hope < len(jobs) and not may_start(state, jobs[hope]):
        hope += 1
    if hope == len(jobs):
        return np.int64(0)
    return cycle_on(state, new_course(state, jobs, parts, hope, everything), new_sets(state), new_seats(state))


@kernel()
def new_course(state, jobs, parts, hope, everything):
    """Return the begin of a cycle. hope: the first job that could start, by what is free."""
    users, count = np.int64(2), partition_count(state)
    for job in jobs:
        users = max(users, np.int64(state.jobs.user[job]) + 2)
    both = users if state.own.bf_max_job_user_part > 0.0 else np.int64(1)
    licences = state.machine.licences if state.own.bf_licenses > 0.0 else np.int64(0)
    return Course(
        jobs=jobs,
        parts=parts,
        at=0,
        everything=np.int64(everything),
        hope=hope,
        sure=0,
        what=SKIPPED,
        tested=0,
        started=0,
        work=np.zeros(1),
        of_user=np.zeros(users, np.int64),
        of_part=np.zeros(count, np.int64),
        of_association=np.zeros(max(users, np.int64(len(state.own.over)) + 1), np.int64),
        of_both=np.zeros((both, count), np.int64),
        planned=np.zeros(count, np.int64),
        copies=np.zeros(licences, np.int64),
        free=free_nodes(state),
        failed=np.full((FAILURES, 2), -1),
        failures=0,
        refused=np.full((REFUSED, 3), -1),
        place=0,
        next=-1,
        kept=0,
        keeps=np.int64(keeps(state)),
        length=0,
        begin=NO_TIME,
        turn=new_turn(),
        running=running_tasks(state),
    )


@kernel()
def free_nodes(state):
    """Return the nodes that have anything free."""
    nodes, found = state.machine.nodes, np.zeros(words(state.machine.nodes), np.uint64)
    for i in range(len(found)):
        found[i] = having_any(state.free.nodes, i * WORD, min((i + 1) * WORD, nodes))
    return found


@apart(of_policy=True, held_course=held(CourseT), held_sets=held(SetsT), held_seats=held(SeatsT))
def cycle_on(state, held_course, held_sets, held_seats):
    """Run a cycle from its begin on. Return the microseconds that it takes."""
    own, now, course, sets = state.own, whole_second(state.now), borrow(held_course), borrow(held_sets)
    resolution, window = np.int64(own.bf_resolution) * SECOND, np.int64(own.bf_window) * 60 * SECOND
    most = np.int64(own.bf_node_space_size)
    rows = min(most, 2 * np.int64(len(course.jobs) + state.runs.active) + 1) + 3
    begin, end = now // resolution * resolution, (now + window) // resolution * resolution
    held_table = new_table(begin, end, sets.up, state.machine.copies[: len(course.copies)], rows)
    if own.bf_running_job_reserve > 0.0 or own.bf_licenses > 0.0:
        hold_running(state, course, borrow(held_seats), borrow(held_table), resolution, most)
    course.next = first_repeated(state, now)
    plan_in_order(state, now, most, held_course, held_sets, held_seats, held_table)
    if has_lists(state) and reads_plans(state):
        tell_earliest(state, course.jobs)
    own.reached[0], own.started[0] = course.tested, course.started
    if course.next < 0:  # else all entries are as good as before
        keep(state, now, course.kept if course.started == 0 else np.int64(0))
    return np.int64(spent(state, course.work[0]))


@kernel()
def plan_in_order(state, now, most, held_course, held_sets, held_seats, held_table):
    """Plan one job after the other. most: records that may be made for the table."""
    course, sets, seats, table = borrow(held_course), borrow(held_sets), borrow(held_seats), borrow(held_table)
    goes_on = True
    if course.next >= 0:  # nothing need be tested as long as plans repeat
        goes_on = plan_until_start(state, now, most, course, sets, seats, table, no_line(state))
    while goes_on and is_of_use(state, now, course, sets, seats, table):
        # what running jobs leave is another thing after a start
        goes_on = plan_until_start(state, now, most, course, sets, seats, table, line_up(state, now))


@apart(of_policy=True, course=CourseT, sets=SetsT, seats=SeatsT, table=TableT, held_line=held(LineT))
def plan_until_start(state, now, most, course, sets, seats, table, held_line):
    """Plan one job after the other until one starts, or needs a line that is not there. Return whether there are others
    behind it.
    """
    own, line, jobs = state.own, borrow(held_line), course.jobs
    tighten_all(table, line)
    most_work = own.bf_max_time * 1e6
    if own.bf_continue <= 0.0:  # a job or a node has changed by the time of its first sleep
        most_work = min(most_work, own.bf_yield_interval)
    while course.at < len(jobs):
        if not is_of_use(state, now, course, sets, seats, table):
            return False
        job, part = jobs[course.at], course.parts[course.at]
        repeats = may_repeat(state, job, part, now, table, course)
        if line.active < 0 and not repeats:
            return True
        user, course.what = np.int64(state.jobs.user[job]) + 1, SKIPPED
        course.at += 1
        own.tried[job] = part
        if state.queue.waits[job] == 0:  # it started in another partition
            continue
        who = association_of(state, job) + 1
        if own.bf_max_job_start > 0.0 and course.started >= own.bf_max_job_start:
            return False
        if own.assoc_limit_stop <= 0.0 and is_limited(state, job, False):
            note(state, job, LIMITED)
            say_limit(state, job)
            continue
        drop_limit(state, job)
        if is_passed_over(state, job, part, course.turn, course.running):
            continue
        if is_too_deep(own, course, user, who, part):
            note(state, job, TOO_DEEP)
            continue
        course.of_part[part] += 1
        course.of_user[user] += 1
        course.of_association[who] += 1
        if own.bf_max_job_user_part > 0.0:
            course.of_both[user, part] += 1
        if own.bf_licenses <= 0.0 and lacks_licences(state, job):
            note(state, job, UNLICENSED)
            continue
        if repeats:
            what = repeat(state, job, part, table, most, line, seats, course)
        else:
            look_up(state, sets, part)
            only_now = is_only_for_now(state, job, part, course)
            what = plan_one(state, job, part, now, only_now, table, most, line, seats, sets, course)
            remember(state, job, part, now, what, only_now, seats, course)
        if what >= FULL:
            course.tested += what == FULL
            course.work[0] = most_work if what == STUCK else course.work[0]
            return False
        if what < PLANNED:
            note(state, job, NO_ROOM)
        else:
            note_task(state, job, course.turn, course.running, what == STARTED)
            course.sure = 0
        course.what = what
        course.tested += what >= TESTED
        course.started += what == STARTED
        course.planned[part] += what == PLANNED
        course.work[0] += own.bf_test_cost * 1000.0 * (what >= TESTED)
        if course.tested >= own.bf_max_job_test or spent(state, course.work[0]) >= most_work:
            return False
        if what == STARTED:
            return True
    return False


@kernel()
def is_only_for_now(state, job, part, course):
    """Return whether a job may start in this cycle, but gets no place in the plan."""
    own = state.own
    return (
        reserves_nothing(state, job, part)
        or (own.bf_job_part_count_reserve > 0.0 and course.planned[part] >= own.bf_job_part_count_reserve)
        or (own.bf_one_resv_per_job > 0.0 and own.planned[job] != 0)
    )


@kernel()
def tighten_all(table, line):
    """Count the nodes of all records that have anything free by their ends, if the line is there."""
    for row in range(table.count if line.active >= 0 else 0):
        end = table.times[row, 1]
        tighten(table, end, line.open[open_by(line, end)])


@apart(of_policy=True, table=TableT, course=CourseT)
def may_repeat(state, job, part, now, table, course):
    """Return whether the next entry tells what becomes of a job, without a test."""
    if not is_next(state, course.next, job, part) or is_only_for_now(state, job, part, course) or is_kept(state, job):
        return False
    length = length_of(state, job, part)
    return is_repeated(state, course.next, now, length, table) and leaves_equal_tables(state, course.next, now)


@apart(of_policy=True, table=TableT, line=LineT, seats=SeatsT, course=CourseT)
def repeat(state, job, part, table, most, line, seats, course):
    """Apply the next entry to a job without a test: tell its start and enter its plan."""
    what, begin = read(state, course.next, seats.on)
    if begin != NO_TIME:
        tell(state, reads_plans(state), job, begin)
    if what == PLANNED and table.made >= most:
        return np.int64(FULL)
    if what == PLANNED:
        enter(state.own, begin, length_of(state, job, part), table, seats.on, course.copies, True, line)
    go_on(state, course)
    return what


@kernel(inline=True)
def go_on(state, course):
    """Confirm the current entry and go on to the next."""
    course.kept = course.next = course.next + 1
    if course.next == entries(state):
        course.next = -1


@kernel()
def remember(state, job, part, now, what, only_now, seats, course):
    """Keep what became of a job that was tested, for the next cycle."""
    planned = what >= PLANNED
    if course.keeps == 0 or what >= FULL:
        return
    tells = what <= PLANNED and not only_now and course.begin != UNKNOWN
    if is_next(state, course.next, job, part):
        equal = tells and is_equal(state, course.next, course.length, what, course.begin, seats.on)
        if equal and leaves_equal_tables(state, course.next, now):
            go_on(state, course)
            return
    elif course.next >= 0 and not planned:  # a new job without a plan changes nothing for those behind it
        return
    course.next = -1
    if tells and course.kept < MOST:
        write(state, course.kept, job, part, course.length, what, course.begin, seats.on)
        course.kept += 1
    elif planned:  # those behind it rest on more than the entries
        course.keeps = 0


@kernel(inline=True)
def is_too_deep(own, course, user, who, part):
    """Return whether as many jobs of this user, association or partition have been looked at as a cycle may."""
    return (
        (own.bf_max_job_part > 0.0 and course.of_part[part] >= own.bf_max_job_part)
        or (own.bf_max_job_assoc > 0.0 and course.of_association[who] >= own.bf_max_job_assoc)
        or (own.bf_max_job_assoc <= 0.0 and own.bf_max_job_user > 0.0 and course.of_user[user] >= own.bf_max_job_user)
        or (own.bf_max_job_user_part > 0.0 and course.of_both[user, part] >= own.bf_max_job_user_part)
    )


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
def least_hope(state, job, part, course):
    """Return until when a job cannot start since one that asks for no more could not, earlier in this cycle.

    Plans only take nodes away.
    """
    refused, found = course.refused, np.int64(0)
    for i in range(REFUSED):
        if refused[i, 2] > found and asks_no_less(state, job, part, refused[i, 0], refused[i, 1]):
            found = refused[i, 2]
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
    if held_back(state, job) or lacks_minutes(state, job, True):
        return True
    return has_spared(state) and (is_limited(state, job, False) or is_limited(state, job, True))


@apart(of_policy=True, course=CourseT, sets=SetsT, seats=SeatsT, table=TableT)
def is_of_use(state, now, course, sets, seats, table):
    """Return whether any job from the next one on could still start now, so that it matters what is planned before it,
    or all are planned.

    What could not start earlier in a cycle cannot start later: starts and plans only take nodes.
    """
    if course.everything != 0:
        return True
    if course.hope < course.at:
        course.hope, course.sure = course.at, 0
    while course.sure == 0 and course.hope < len(course.jobs):
        job, part = course.jobs[course.hope], course.parts[course.hope]
        if state.queue.waits[job] != 0 and may_start(state, job) and not is_hopeless(state, job, part, course):
            look_up(state, sets, part)
            if could_start(state, job, part, now, course, sets, seats, table):
                course.sure = 1
                break
            place = course.failures % FAILURES
            course.failed[place, 0], course.failed[place, 1] = job, part
            course.failures += 1
        course.hope += 1
    return course.sure != 0


@kernel()
def is_hopeless(state, job, part, course):
    """Return whether a job that could not start, and asks for no more, tells that this one cannot start either."""
    failed = course.failed
    for i in range(min(course.failures, FAILURES)):
        if asks_no_less(state, job, part, failed[i, 0], failed[i, 1]):
            return True
    return False


@kernel()
def could_start(state, job, part, now, course, sets, seats, table):
    """Return whether the nodes that all plans leave a job are enough for it now."""
    allowed, count, total, most = seats.allowed, np.int64(0), np.int64(0), state.jobs.tasks[job]
    demand, least, room, anywhere = (
        state.jobs.demand,
        least_tasks(state, job),
        state.free.nodes,
        runs_anywhere(state, job),
    )
    for i in range(len(allowed)):
        allowed[i] = sets.of[part, i] & course.free[i]
    narrow(table, now, now + length_of(state, job, part), allowed)
    if not suffices(state, job, size(allowed), most):
        return False
    for i in range(len(allowed)):
        if allowed[i] != NOTHING:
            bits = allowed[i]
            while bits != NOTHING:
                node = i * WORD + lowest(bits)
                bits &= bits - ONE
                usable = tasks_in(demand, job, least, most, room, node)
                if usable > 0 and (anywhere or may_run_on(state, job, node)):
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


@apart(of_policy=True, table=TableT, line=LineT, seats=SeatsT, sets=SetsT, course=CourseT)
def plan_one(state, job, part, now, only_now, table, most, line, seats, sets, course):
    """Start a job, or plan it and remove its nodes from the table. Return what became of it.

    only_now: it gets no place in the plan. most: records that may be made for the table.
    """
    own, told, limited, recent = state.own, reads_plans(state), is_kept(state, job), state.own.version >= 24.11
    resolution, length = np.int64(own.bf_resolution) * SECOND, length_of(state, job, part)
    after, what, horizon = now, SKIPPED, now + np.int64(own.bf_window) * 60 * SECOND
    allowed, refused, times = seats.allowed, course.refused, table.times
    licensed = ask_licences(state, job, course.copies)
    course.length, course.begin = length, UNKNOWN
    kind = kind_of(state, job, part, sets, line, seats)
    begin_windows(table, sets, part)
    # until when it certainly cannot start: by the ends of runs, and since a job that asks for no more could not
    low, hopeless = least_ends(state, job, kind, line), max(now - 1, least_hope(state, job, part, course))
    if low > 0:
        hopeless = max(hopeless, line.soonest[low - 1] - 1 if low <= line.active else NEVER - 1)
    # the ends of the last record with too few nodes, and with too few that have anything free
    least, seen, short, crowded = least_nodes(state, job), 0, now, now
    fewest = max(least, fewest_nodes(state, job, kind, line))
    place, leapt, leaps = course.place, False, True
    if refused[place, 2] > now:  # else it tells nothing
        place = course.place = (place + 1) % REFUSED
    refused[place, 0], refused[place, 1], refused[place, 2] = job, part, hopeless
    while True:
        later, lacks = next_chance(table, after, after + length, recent), NO_TIME
        if licensed:  # it waits for licences as well, so nothing is known from nodes alone, here and of other jobs
            lacks, hopeless = last_lacking(table, after, after + length, course.copies), after - 2
            if lacks != NO_TIME:
                later = lacks
                if recent:
                    say(state, job, LICENCES)
        free_to_go = later != NO_TIME and not only_now and not limited  # on to `later`, if it is not planned until then
        if free_to_go and later <= hopeless:
            after, leapt = later, True
            continue
        while seen < table.count and times[seen, 0] <= after + length:
            if table.many[table.line[seen]] < least:
                short = times[seen, 1]
            if table.open[table.line[seen]] < fewest:
                crowded = times[seen, 1]
            seen += 1
        if leaps and not licensed and free_to_go and later <= crowded:
            if after <= hopeless + 1:
                hopeless = refused[place, 2] = later
            after, leapt = later, True
            continue
        begin, holds = NO_TIME, after >= short and lacks == NO_TIME
        if holds:
            holds = slide(table, after, after + length, allowed) >= least
            holds = holds and not lacks_named(state, job, table.within, allowed)
        if holds:
            what = TESTED
            if limited and own.assoc_limit_stop <= 0.0 and not recent and not is_told(state):
                return TESTED  # whatever is found, it has no start and no plan
            if free_to_go and after <= hopeless + 1 and lacks_until(state, job, allowed, later, kind, line):
                hopeless = after = refused[place, 2] = later
                continue
            until = later if free_to_go else NEVER
            begin = expected_start(state, job, now, after, later, until, kind, low, line, seats)
        elif free_to_go and after <= hopeless + 1:
            hopeless = refused[place, 2] = later
        if begin == NO_TIME:
            if later == NO_TIME or only_now:
                if leapt and what == SKIPPED:  # whether it was tested is counted
                    hopeless, after, leapt, seen, short, leaps = now - 1, now, False, 0, now, False
                    rewind_windows(table)
                    continue
                course.begin = UNKNOWN if limited else NO_TIME
                return what
            after = later
            continue
        begin = max(begin, after)
        clear_then = False  # whether the slot is known to overlap no plan
        if recent and begin > now:  # from 24.11 on that is looked at first
            if overlaps(own, table, begin, after, length, resolution, seats.on, course.copies):
                after = again(own, begin, after, resolution)
                if after == NO_TIME:
                    return STUCK
                continue
            clear_then = True
        if limited and own.assoc_limit_stop <= 0.0:
            note(state, job, LIMITED)
            say_limit(state, job)
            return TESTED
        if limited and (begin <= now or not recent):
            begin, clear_then = later if later != NO_TIME else now + 500 * SECOND, False
        elif begin <= now and is_closed(own, seats.on):
            begin, later, clear_then = now + SECOND, NO_TIME, False
        elif begin <= now and licensed and lacks_licences(state, job):  # the table was full before it had all that run
            later, clear_then = NO_TIME, False
        elif begin <= now:
            # before 24.11 the nodes are those that have just been chosen among the free ones
            if (not recent or choose(state, job, seats, state.free.nodes)) and place_as_taken(state, job, seats):
                start(state, job, BACKFILL)
                if len(own.least_limit) > 0:
                    own.lowered[job] = length if own.least_limit[job] > 0 else 0
                hold_minutes(state, job, limit_seconds(state, job))
                spare(state, job)
                hold(state, job, now + length, resolution, table, most, seats.on, course.copies)
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
            course.begin = UNKNOWN if limited else begin
            return TESTED
        if not clear_then and overlaps(own, table, begin, after, length, resolution, seats.on, course.copies):
            after = again(own, begin, after, resolution)
            if after == NO_TIME:
                return STUCK
            continue
        tell(state, told, job, begin)
        record(state, job, begin, seats.on)
        if table.made >= most:
            return FULL
        enter(own, begin, length, table, seats.on, course.copies, not limited, line)
        course.begin = UNKNOWN if limited else begin
        return PLANNED


@kernel(inline=True)
def is_closed(own, chosen):
    """Return whether any node of a set is still completing a job, as only a log tells: `closed` (m,)."""
    for node in range(len(own.closed)):
        if own.closed[node] != 0 and has(chosen, node):
            return True
    return False


@kernel()
def enter(own, begin, length, table, taken, copies, free, line):
    """Enter a plan in the table, with its licences. free: whether its nodes have anything free at its begin."""
    first, last = slot(own, begin, length, np.int64(own.bf_resolution) * SECOND)
    occupy(table, first, last, taken, copies, free)
    if line.active >= 0:
        tighten(table, first, line.open[open_by(line, first)])
        tighten(table, last, line.open[open_by(line, last)])


@kernel(inline=True)
def overlaps(own, table, begin, after, length, resolution, taken, copies):
    """Return whether any of these nodes, found free from `after` on, or of these licences, belongs to a plan within the
    slot of a start.

    Source: _test_resv_overlap.
    """
    first, last = slot(own, begin, length, resolution)
    if len(copies) > 0 and last_lacking(table, first, last - 1, copies) != NO_TIME:
        return True
    return not is_clear(table, first, last, taken, after, after + length)


@kernel(inline=True)
def again(own, begin, after, resolution):
    """Return from when a job is tested again whose slot overlaps a plan; NO_TIME if Slurm tries the same instant again
    and again, until bf_max_time is over, as before 25.05.
    """
    if begin != after:
        return begin
    return begin + resolution if own.version >= 25.05 else NO_TIME


@kernel(inline=True)
def hold(state, job, end, resolution, table, most, taken, copies):
    """Remove from the table what a job that runs holds until its limit: its nodes if they are whole, and its licences
    where these are planned. Source: _bf_reserve_running.
    """
    own, jobs = state.own, state.jobs
    whole, licensed = len(own.whole) > 0 and own.whole[job] != 0, jobs.limit_first[job] > jobs.licence_first[job]
    if not (whole or licensed) or table.made >= most:  # licences make records even where they are not planned
        return
    if not whole:
        taken = np.zeros_like(taken)
    now = table.times[0, 0]
    first, last = slot(own, now, end - now, resolution)
    occupy(table, first, last, taken, copies, False)


@apart(of_policy=True, course=CourseT, seats=SeatsT, table=TableT)
def hold_running(state, course, seats, table, resolution, most):
    """Remove from the table what running jobs hold, in the order in which they were submitted."""
    runs = state.runs
    jobs = np.empty(runs.active, np.int64)
    for i in range(runs.active):
        jobs[i] = runs.job[runs.by_limit[i]]
    for i in np.argsort(jobs):
        run = runs.by_limit[i]
        for x in range(len(seats.on)):
            seats.on[x] = NOTHING
        for pair in range(nodes_held(state, run)):
            add(seats.on, np.int64(0) if state.machine.pool else runs.held[runs.first[run] + pair, 0])
        ask_licences(state, jobs[i], course.copies)
        hold(state, jobs[i], limit_of_run(state, run), resolution, table, most, seats.on, course.copies)


@kernel()
def ask_licences(state, job, copies):
    """Write how many copies of each licence a job needs to (l,). Return whether it needs any."""
    jobs, found = state.jobs, False
    for i in range(len(copies)):
        copies[i] = 0
    for item in range(jobs.licence_first[job], jobs.limit_first[job] if len(copies) > 0 else jobs.licence_first[job]):
        copies[jobs.licence[item]] += jobs.licence_count[item, 0]
        found = True
    return found


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
    """Return the time for which a job is planned: its limit, at most that of its partition, or its least limit."""
    length = min(state.jobs.walltime[job], YEAR)
    if len(state.own.max_time) > 0 and state.own.max_time[part] > 0:
        length = min(length, state.own.max_time[part])
    if len(state.own.least_limit) > 0 and state.own.least_limit[job] > 0:
        length = min(length, state.own.least_limit[job])
    return length
