"""The simulated world: it knows when each run will end and what the file of events says, and makes events of that.

What a policy must not see lies in World, which policies never get. It keeps a book of its own of what runs hold, and
each start is held against it.
"""

import numpy as np
from numba import float64, int8, int64

from backfill.compiler.far import call
from backfill.compiler.kernel import apart, kernel
from backfill.compiler.record import SMALL, doubled, doubled_rows, record
from backfill.core.errors import NONE, NOT_PLACED, OK, OVERBOOKED, OVERBOOKED_LICENCE, TOO_LATE, fail
from backfill.core.pace import reaches
from backfill.core.plan.profile import FUTURE
from backfill.core.plan.promises import NO_TIME
from backfill.core.predict.predictor import NEXT, PredictorT
from backfill.core.queue.heaps import pop_end, push_end
from backfill.core.runs import REQUEUE, RUNNING, limit_of, progress_since
from backfill.core.transitions import ask, ask_policy, drop, end, end_vacated, proceed, release, submit, tick, vacate
from backfill.model import schedule, units

COMPLETED, TIMEOUT, REJECTED = (np.int8(how) for how in (schedule.COMPLETED, schedule.TIMEOUT, schedule.REJECTED))
AFTER = np.int64(-2)
NOT_YET = RUNNING  # outcome of a job that is not over

LATEST = np.int64(units.LATEST)

WORLD = [
    ("stepping", int64),  # --ties step: one pass per event
    ("overrun", int64),  # --overrun extend: a job stays beyond its walltime, and its limit is an event
    ("requeue", int64),  # --lost requeue: a job whose node is lost waits again
    ("jobs", int64),
    ("row", int64[::1]),  # place of each job in the file
    ("submit", int64[::1]),
    ("runtime", int64[::1]),  # how long a job will hold its nodes at speed 1
    ("kill", int64[::1]),  # how long it may hold them
    # what it asks for, in arrays that are not the State's
    ("need", int64[:, ::1]),  # (jobs, k) of the whole job; no rows among nodes
    ("tasks", int64[::1]),
    ("demand", int64[:, ::1]),  # (jobs, k) per task
    ("licence_first", int64[::1]),  # (jobs + 1,): its licences and limits are items licence_first[j] to [j + 1]
    ("licence", int64[::1]),
    ("copies", int64[::1]),  # of each item
    ("speed", float64[::1]),  # of each node
    ("coallocation", float64[::1]),  # (1,): the pace of a run on several sites is divided by it
    ("outcome", int8[::1]),  # how each job ended, an index into model.schedule.STATES; NOT_YET
    ("linked", int64),  # 1: some jobs come after others
    ("before", int64[::1]),  # jobs that must end before this one may wait; a think time counts as one more
    ("think", int64[::1]),  # how long after the last of them it may
    # heap of think times: when each is over, job
    ("thought_time", int64[::1]),
    ("thought_job", int64[::1]),
    ("thoughts", int64),
    ("after_first", int64[::1]),  # the jobs that wait for job j are after_item[after_first[j]:after_first[j + 1]]
    ("after_item", int64[::1]),
    ("eligible", int64[::1]),
    # where runs may dangle; length 1 elsewhere
    ("unknown", int64[::1]),  # (jobs,): how many that it comes after have not joined the queue, and are not over
    ("known", int8[::1]),  # (jobs,): 1: it did, or is
    # limits on how many jobs are queued
    ("quota_first", int64[::1]),  # job j counts for the accounts quota_item[quota_first[j]:quota_first[j + 1]]
    ("quota_item", int64[::1]),
    ("quota_left", int64[::1]),  # (accounts,): how many more may be queued
    # length 1 without such limits
    ("refused_for", int64[::1]),  # (jobs,): the account that was full when a job was submitted; AFTER one of these
    ("queued", int8[::1]),  # (jobs,): 1: counted
    ("due", int64[::1]),  # (runs,): when each will end
    ("cut", int8[::1]),  # (runs,): 1: it will be killed at its walltime
    ("gone", int8[::1]),  # (runs,): it has given back what it held, its end is still to come (stepping)
    # of jobs that were preempted; length 1 where the policy does not preempt
    ("done", int64[::1]),  # (jobs,): how much of its run time at speed 1 a job need not do again
    ("owed", int64[::1]),  # (jobs,): what it costs to go on: time of its next run in which it makes no progress
    ("anew", int64[::1]),  # (jobs,): the last run before which all progress was lost; -1 none
    ("kept", int64[::1]),  # (runs,): how much of a run that is over was progress
    ("pace", int64[:, ::1]),  # (paces, 4): run, since when, in which rows, of how many, where runs share processors
    ("paces", int64),
    # heap of ends: time, run; an entry whose time is not that run's due is void
    ("end_time", int64[::1]),
    ("end_run", int64[::1]),
    ("ends", int64),
    # heap of limits of runs that will outlive them
    ("over_time", int64[::1]),
    ("over_run", int64[::1]),
    ("overs", int64),
    # the file of events, in order of time
    ("act", int64[:, ::1]),  # (acts, 8): time, what (acts.py), job, node, resource or licence, value, until, amount
    ("act_priority", float64[::1]),  # (acts,): that it gives
    ("do_act", int64),  # address of acts.do_act, which does the next one
    ("acts", int64),  # done so far
    ("acts_left", int64),
    ("base", int64[:, ::1]),  # (m, k): capacity of nodes that are up
    ("less", int64[:, ::1]),  # (m, k): what open windows take from it
    ("base_copies", int64[:, ::1]),  # (l, 1)
    ("less_copies", int64[::1]),  # (l,)
    ("shut", int64[::1]),  # (m,): how many open windows have all of a node
    ("down", int8[::1]),  # (m,)
    ("foresee", int64),  # address of what predicts run times (predict/); 0: policies plan by walltimes
    ("predictor", PredictorT),
    # the book
    ("book", int64[:, ::1]),  # (m, k): what nobody holds
    ("book_licences", int64[::1]),
]
World, WorldT = record("World", WORLD, globals())


@kernel(inline=True)
def next_instant(state, world):
    """When something happens next; FUTURE when nothing will."""
    _drop_void(state, world)
    t = FUTURE
    if state.jobs.count < world.jobs:
        t = world.submit[state.jobs.count]
    if world.ends > 0:
        t = min(t, world.end_time[0])
    if world.overs > 0:
        t = min(t, world.over_time[0])
    if world.thoughts > 0:
        t = min(t, world.thought_time[0])
    if t < FUTURE or state.queue.waiting > 0:
        if state.batch.timed > 0:
            t = min(t, state.batch.timers[0])
        if world.acts_left > 0:
            t = min(t, world.act[world.acts, 0])
    return max(t, state.now)


@kernel(inline=True)
def _drop_void(state, world):
    """Nothing happens at the end or the limit of a run that is over, or whose end has moved."""
    runs, due = state.runs, world.due
    while world.ends > 0 and (runs.how[world.end_run[0]] != RUNNING or due[world.end_run[0]] != world.end_time[0]):
        world.ends = pop_end(world.end_time, world.end_run, world.ends)
    while world.overs > 0 and (
        runs.how[world.over_run[0]] != RUNNING or runs.limit[world.over_run[0]] != world.over_time[0]
    ):
        world.overs = pop_end(world.over_time, world.over_run, world.overs)


@kernel(inline=True)
def open_instant(state, world):
    """Make the next batch of events happen (stepping: the next event). False when nothing will happen any more."""
    t = next_instant(state, world)
    if t == FUTURE or state.trace.error[0] != OK:
        return False
    tick(state, t)
    if world.stepping:
        _correct(state, world, t)  # before a run that ends at its limit is counted out
        _step(state, world)
        _correct(state, world, t + 1)
    else:
        while world.ends > 0 and world.end_time[0] <= t:
            _end_first(state, world)
        while world.overs > 0 and world.over_time[0] <= t:
            world.overs = pop_end(world.over_time, world.over_run, world.overs)
        while world.acts_left > 0 and world.act[world.acts, 0] <= t:
            call(world.do_act, state, world)
        _correct(state, world, t + 1)
        while world.thoughts > 0 and world.thought_time[0] <= t:
            _end_thought(state, world)
        while state.jobs.count < world.jobs and world.submit[state.jobs.count] <= t:
            _come(state, world)
    ask_policy(state)
    return True


@kernel(inline=True)
def _correct(state, world, until):
    """Let the predictor learn the ends of this instant, and correct the runs whose limits before `until` passed."""
    if world.foresee != 0:
        world.predictor.until, world.predictor.learned = until, 0
        call(world.foresee, state, world.predictor)
        world.predictor.until = NEXT


@kernel()
def _end_first(state, world):
    run, t = world.end_run[0], world.end_time[0]
    world.ends = pop_end(world.end_time, world.end_run, world.ends)
    if state.runs.how[run] == RUNNING and world.due[run] == t:
        finish(state, world, run, TIMEOUT if world.cut[run] else COMPLETED)


@kernel()
def finish(state, world, run, how):
    """A run ends now, and its job with it."""
    if world.stepping and world.gone[run]:
        end_vacated(state, run, how)
    else:
        write_off(state, world, run)
        end(state, run, how)
    if state.runs.preempts:
        _count_progress(state, world, run)
    close_job(state, world, np.int64(state.runs.job[run]), how)


@kernel()
def _count_progress(state, world, run):
    """A run is over: all of it was progress but for what it cost to go on. Returns how much that was."""
    length, job = state.runs.end[run] - state.runs.start[run], state.runs.job[run]
    world.kept[run] = max(length - world.owed[job], 0)
    return world.kept[run]


@kernel()
def forget(state, world, job):
    """The progress of a job is lost."""
    world.done[job] = world.owed[job] = 0
    world.anew[job] = state.runs.last[job]


@kernel(inline=True)
def close_job(state, world, job, how):
    """A job has ended, or will never run."""
    world.outcome[job] = how
    if state.runs.dangles and world.linked:
        _make_known(state, world, job)
    if len(world.quota_left) > 0 and world.queued[job]:
        _count_queued(world, job, np.int64(1))
    if world.linked:
        _let_follow(state, world, job)


@apart()
def _let_follow(state, world, job):
    """Jobs that had to wait for this one are a step nearer to the queue."""
    for i in range(world.after_first[job], world.after_first[job + 1]):
        later = world.after_item[i]
        world.before[later] -= 1
        if world.before[later] == 1 and world.think[later] > 0:
            if world.thoughts == len(world.thought_time):
                world.thought_time, world.thought_job = doubled(world.thought_time), doubled(world.thought_job)
            over = state.now + world.think[later]
            world.thoughts = push_end(world.thought_time, world.thought_job, world.thoughts, over, later)
        elif world.before[later] == 0:
            _let_go(state, world, later)


@kernel()
def _let_go(state, world, job):
    """Nothing that it comes after holds a job back any more."""
    if state.runs.dangles:
        if world.outcome[job] == NOT_YET:
            proceed(state, job)
            run = np.int64(state.runs.last[job])
            if run != NONE and state.runs.how[run] == RUNNING:
                set_end(state, world, run)
    elif job < state.jobs.count:
        _admit(state, world, job)


@apart()
def _make_known(state, world, job):
    """A job joins the queue, or is over; jobs that know now all that they come after join the queue in turn."""
    if world.known[job]:
        return
    world.known[job] = 1
    joined, high = np.empty(0, np.int64), 0
    each = job
    while each >= 0:
        for i in range(world.after_first[each], world.after_first[each + 1]):
            later = world.after_item[i]
            world.unknown[later] -= 1
            if world.unknown[later] == 0 and later < state.jobs.count and world.outcome[later] == NOT_YET:
                if high == len(joined):
                    joined = doubled(joined) if high > 0 else np.empty(SMALL, np.int64)
                joined[high] = later
                high += 1
        each = NONE
        if high > 0:
            high -= 1
            each = joined[high]
            world.known[each] = 1
            world.eligible[each] = state.now
            release(state, each)


@apart()
def _end_thought(state, world):
    """The first think time is over."""
    later = world.thought_job[0]
    world.thoughts = pop_end(world.thought_time, world.thought_job, world.thoughts)
    world.before[later] -= 1
    _let_go(state, world, later)


@kernel()
def _come(state, world):
    """The next job is submitted, unless it was cancelled before."""
    job = submit(state)
    if world.foresee != 0:
        call(world.foresee, state, world.predictor)
    if len(world.quota_left) > 0 and world.outcome[job] == NOT_YET:
        _admit_to_quotas(state, world, job)
    if world.outcome[job] == NOT_YET:
        ask(state, job)
        _admit(state, world, job)
    else:
        drop(state, job)


@kernel()
def _count_queued(world, job, sign):
    """A job is one of those that are queued (sign -1), or is so no more (1)."""
    world.queued[job] = sign < 0
    for i in range(world.quota_first[job], world.quota_first[job + 1]):
        world.quota_left[world.quota_item[i]] += sign


@apart()
def _admit_to_quotas(state, world, job):
    """Count a job that is submitted; where as many are queued as may be, it is rejected with all that come after it."""
    full = NONE
    for i in range(world.quota_first[job + 1] - 1, world.quota_first[job] - 1, -1):
        if world.quota_left[world.quota_item[i]] <= 0:
            full = world.quota_item[i]
    if full == NONE:
        _count_queued(world, job, np.int64(-1))
        return
    world.outcome[job], world.refused_for[job] = REJECTED, full
    if world.linked:
        _refuse_followers(state, world, job)


@kernel()
def _refuse_followers(state, world, job):
    """Reject all that come after a job that was rejected when it was submitted, and after these."""
    stack, high = np.empty(world.jobs, np.int64), 1
    stack[0] = job
    while high > 0:
        high -= 1
        before = stack[high]
        for i in range(world.after_first[before], world.after_first[before + 1]):
            later = world.after_item[i]
            if world.outcome[later] == NOT_YET:
                world.outcome[later], world.refused_for[later] = REJECTED, AFTER
                if later < state.jobs.count:
                    drop(state, later)
                if world.queued[later]:
                    _count_queued(world, later, np.int64(1))
                stack[high] = later
                high += 1


@kernel()
def _admit(state, world, job):
    """A job joins the queue, unless it is rejected, cancelled, or others must end first."""
    if world.outcome[job] != NOT_YET:
        return
    if world.linked:
        if (world.unknown[job] if state.runs.dangles else world.before[job]) > 0:
            return
        if state.runs.dangles:
            _make_known(state, world, job)
    world.eligible[job] = state.now
    release(state, job)


@apart()
def _step(state, world):
    """One event: submits of an instant come before its ends; runs that end at their limit are gone from the books."""
    _leave_books(state, world)
    if world.thoughts > 0 and world.thought_time[0] <= state.now:
        _end_thought(state, world)
    elif state.jobs.count < world.jobs and world.submit[state.jobs.count] <= state.now:
        _come(state, world)
    elif world.ends > 0 and world.end_time[0] <= state.now:
        _end_first(state, world)


@kernel()
def _leave_books(state, world):
    i = 0
    while i < state.runs.active and state.runs.limits[i] <= state.now:
        run = state.runs.by_limit[i]
        if world.due[run] <= state.now:
            world.gone[run] = 1
            write_off(state, world, run)
            vacate(state, run)
        else:
            i += 1


@kernel(inline=True)
def at_speed(runtime, speed):
    """How long a job of this run time takes on a node of this speed, in whole microseconds, rounded up."""
    return np.int64(min(np.ceil(runtime / speed), float(LATEST)))


@kernel(inline=True)
def _length(state, world, run, job):
    """How long a run would go on where it is, if nobody ended it."""
    hold, owed = world.runtime[job], np.int64(0)
    if state.runs.preempts:
        hold, owed = max(hold - world.done[job], 0), world.owed[job]
    speed = _speed(state, world, run)
    return owed + (hold if speed == 1.0 else at_speed(hold, speed))


@kernel(inline=True)
def _speed(state, world, run):
    """The speed of the slowest node of a run; less where it is on several sites, if that costs time."""
    if state.machine.pool:
        return world.speed[0]
    runs = state.runs
    slowest = world.speed[runs.held[runs.first[run], 0]]
    for pair in range(runs.first[run], runs.first[run] + runs.many[run]):
        slowest = min(slowest, world.speed[runs.held[pair, 0]])
    if world.coallocation[0] > 1.0:
        site = state.machine.site
        for pair in range(runs.first[run], runs.first[run] + runs.many[run]):
            if site[runs.held[pair, 0]] != site[runs.held[runs.first[run], 0]]:
                return slowest / world.coallocation[0]
    return slowest


@kernel()
def set_end(state, world, run):
    """Find out when a run will end, and whether it will be killed."""
    job = np.int64(state.runs.job[run])
    hold, begin = _length(state, world, run, job), progress_since(state, run)
    if begin == NO_TIME:
        world.due[run], world.cut[run] = FUTURE, 0
        return
    kill = world.kill[job]
    if state.runs.preempts:
        kill = max(kill - state.runs.used[job], 0)
    world.cut[run] = 0
    if not world.overrun:
        if hold > kill:
            hold = kill
            world.cut[run] = 1
    elif hold > state.jobs.walltime[job] and limit_of(state, run) >= state.now + (state.runs.rows > 1):
        if world.overs == len(world.over_time):
            world.over_time, world.over_run = doubled(world.over_time), doubled(world.over_run)
        limit = limit_of(state, run)
        world.overs = push_end(world.over_time, world.over_run, world.overs, limit, run)
    over = begin + hold if state.runs.rows == 1 else max(reaches(state, run, hold), state.now)
    if over >= LATEST:
        fail(state, TOO_LATE, job, NONE, NONE, NONE)
    world.due[run] = over
    if world.ends == len(world.end_time):
        world.end_time, world.end_run = doubled(world.end_time), doubled(world.end_run)
    world.ends = push_end(world.end_time, world.end_run, world.ends, over, run)


@kernel(inline=True)
def close_instant(state, world):
    """Take in what the policy decided: each start goes into the book, and gets its end."""
    for i in range(state.batch.preemptions):
        _pause(state, world, state.batch.preempted[i, 0], state.batch.preempted[i, 1], state.batch.preempted[i, 2])
    for i in range(state.batch.starts):
        run = state.batch.started[i]
        while run >= len(world.due):
            world.due, world.cut = doubled(world.due), doubled(world.cut)
            if world.stepping:
                world.gone = doubled(world.gone)
            if state.runs.preempts:
                world.kept = doubled(world.kept)
        if world.stepping:
            world.gone[run] = 0
        write_down(state, world, run)
        set_end(state, world, run)
    for i in range(state.batch.paces):
        _note_pace(state, world, state.batch.paced[i])


@apart()
def _note_pace(state, world, run):
    """Note the rows in which a run has turns from now on, and find out when it will end."""
    if world.paces == len(world.pace):
        world.pace = doubled_rows(world.pace)
    row = world.pace[world.paces]
    row[0], row[1], row[2], row[3] = run, state.now, state.runs.turns[run], state.runs.of[run]
    world.paces += 1
    set_end(state, world, run)


@apart()
def _pause(state, world, run, how, overhead):
    """Note what a run that was preempted gives back, and how far its job has come."""
    job, length = state.runs.job[run], state.runs.end[run] - state.runs.start[run]
    write_off(state, world, run)
    kept = _count_progress(state, world, run)
    if how == REQUEUE:
        forget(state, world, job)
        return
    speed = _speed(state, world, run)
    world.done[job] += kept if speed == 1.0 else np.int64(np.floor(kept * speed))
    world.owed[job] = max(world.owed[job] - length, 0) + overhead


@kernel(inline=True)
def write_down(state, world, run):
    """Note in the book what a run takes; an amount below 0 is the policy's, or the core's, mistake."""
    if state.machine.pool:
        job = np.int64(state.runs.job[run])
        for k in range(state.machine.resources):
            world.book[0, k] -= world.need[job, k]
            if world.need[job, k] > 0 and world.book[0, k] < 0:
                fail(state, OVERBOOKED, job, k, world.need[job, k], world.book[0, k] + world.need[job, k])
        return
    _turn_page(state, world, run, np.int64(-1))


@kernel(inline=True)
def write_off(state, world, run):
    """Note in the book what a run gives back."""
    if state.machine.pool:
        job = state.runs.job[run]
        for k in range(state.machine.resources):
            world.book[0, k] += world.need[job, k]
        return
    _turn_page(state, world, run, np.int64(1))


@apart()
def _turn_page(state, world, run, sign):
    job, runs, tasks_there = np.int64(state.runs.job[run]), state.runs, np.int64(0)
    for pair in range(runs.first[run], runs.first[run] + runs.many[run]):
        node, tasks = runs.held[pair, 0], runs.held[pair, 1]
        tasks_there += tasks
        for k in range(state.machine.resources):
            amount = tasks * world.demand[job, k]
            world.book[node, k] += sign * amount
            if amount > 0 and world.book[node, k] < 0:
                fail(state, OVERBOOKED, job, k, amount, world.book[node, k] + amount)
    if tasks_there != world.tasks[job]:
        fail(state, NOT_PLACED, job, NONE, world.tasks[job], tasks_there)
    for item in range(world.licence_first[job], world.licence_first[job + 1]):
        licence, copies = world.licence[item], world.copies[item]
        world.book_licences[licence] += sign * copies
        if world.book_licences[licence] < 0:
            fail(state, OVERBOOKED_LICENCE, job, licence, copies, world.book_licences[licence] + copies)
