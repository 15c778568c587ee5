"""The simulated world: it knows when each run will end and what the event file contains, and generates the events.

Everything that a policy must not see is in World, which policies never get. It keeps its own account of what runs hold,
and checks each start against it.
"""

import numpy as np
from numba import float64, int8, int64

from backfill.compiler.far import call
from backfill.compiler.kernel import apart, kernel
from backfill.compiler.loops import few_turns
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
    ("overrun", int64),  # --overrun extend: a job continues beyond its walltime, and its limit is an event
    ("requeue", int64),  # --lost requeue: a job whose node is lost waits again
    ("jobs", int64),
    ("until", int64),  # submit of the first job that this World does not have yet; FUTURE if it has all of them
    ("row", int64[::1]),  # row of each job in the file
    ("submit", int64[::1]),
    ("runtime", int64[::1]),  # run time of a job at speed 1
    ("kill", int64[::1]),  # longest run time that a job is allowed
    # requests, in arrays separate from the State
    ("tasks", int64[::1]),
    ("demand", int64[:, ::1]),  # (jobs, k) per task
    ("licence_first", int64[::1]),  # (jobs + 1,): its licences and limits are items licence_first[j] to [j + 1]
    ("licence", int64[::1]),
    ("copies", int64[::1]),  # of each item
    ("speed", float64[::1]),  # of each node
    ("coallocation", float64[::1]),  # (1,): the pace of a run on several sites is divided by it
    ("outcome", int8[::1]),  # how each job ended, an index into model.schedule.STATES; NOT_YET if it is not over
    ("linked", int64),  # 1: some jobs depend on others
    ("before", int64[::1]),  # jobs that must end before this one may wait; a think time counts as one more
    ("think", int64[::1]),  # time between the last of these ends and the job
    # heap of think times: when each is over, job
    ("thought_time", int64[::1]),
    ("thought_job", int64[::1]),
    ("thoughts", int64),
    ("after_first", int64[::1]),  # the jobs that wait for job j are after_item[after_first[j]:after_first[j + 1]]
    ("after_item", int64[::1]),
    ("eligible", int64[::1]),
    # if runs may dangle; length 1 otherwise
    ("unknown", int64[::1]),  # (jobs,): number of its dependencies that have not joined the queue, and are not over
    ("known", int8[::1]),  # (jobs,): 1: it has joined the queue, or is over
    # limits on the number of queued jobs
    ("quota_first", int64[::1]),  # job j counts for the accounts quota_item[quota_first[j]:quota_first[j + 1]]
    ("quota_item", int64[::1]),
    ("quota_left", int64[::1]),  # (accounts,): how many more may be queued
    # length 1 without such limits
    ("refused_for", int64[::1]),  # (jobs,): the account that was full at its submit; AFTER if it depends on such a job
    ("queued", int8[::1]),  # (jobs,): 1: the job is counted
    ("due", int64[::1]),  # (runs,): when each will end
    ("cut", int8[::1]),  # (runs,): 1: it will be killed at its walltime
    ("gone", int8[::1]),  # (runs,): 1: it has released its resources, its end is still to come (stepping)
    # of preempted jobs; length 1 if the policy does not preempt
    ("done", int64[::1]),  # (jobs,): run time at speed 1 that a job need not repeat
    ("owed", int64[::1]),  # (jobs,): overhead of continuing: time of its next run without progress
    ("anew", int64[::1]),  # (jobs,): the last run before which all progress was lost; -1 none
    ("kept", int64[::1]),  # (runs,): the progress of a run that is over
    ("pace", int64[:, ::1]),  # (paces, 4): run, since when, rows (bits), number of rows, if runs share processors
    ("paces", int64),
    # heap of ends: time, run; an entry whose time is not that run's due time is void
    ("end_time", int64[::1]),
    ("end_run", int64[::1]),
    ("ends", int64),
    # heap of limits of runs that will outlive them
    ("over_time", int64[::1]),
    ("over_run", int64[::1]),
    ("overs", int64),
    # the event file, in order of time
    ("act", int64[:, ::1]),  # (acts, 8): time, what (acts.py), job, node, resource or licence, value, until, amount
    ("act_priority", float64[::1]),  # (acts,): new priority
    ("do_act", int64),  # address of acts.do_act, which applies the next step
    ("acts", int64),  # done so far
    ("acts_left", int64),
    ("base", int64[:, ::1]),  # (m, k): capacity of nodes that are up
    ("less", int64[:, ::1]),  # (m, k): amounts taken by open windows
    ("base_copies", int64[:, ::1]),  # (l, 1)
    ("less_copies", int64[::1]),  # (l,)
    ("shut", int64[::1]),  # (m,): number of open windows that close the whole node
    ("down", int8[::1]),  # (m,)
    ("foresee", int64),  # address of the predictor of run times (predict/); 0: policies plan by walltimes
    ("predictor", PredictorT),
    # the world's own account
    ("book", int64[:, ::1]),  # (m, k): amounts that no run holds
    ("book_licences", int64[::1]),
]
FIXED = ("stepping", "overrun", "requeue", "jobs", "until", "linked", "do_act", "foresee", "predictor")
World, WorldT = record("World", WORLD, globals(), fixed=FIXED)


@kernel(inline=True)
def next_instant(state, world):
    """Return the next instant at which something happens; FUTURE if there is none, or more jobs must come first."""
    _drop_void(state, world)
    t = world.until
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
    return max(t, state.now) if t < world.until else FUTURE


@kernel(inline=True)
def _drop_void(state, world):
    """Remove ends and limits from the heaps whose run is over, or whose end has moved."""
    runs, due = state.runs, world.due
    while world.ends > 0 and (runs.how[world.end_run[0]] != RUNNING or due[world.end_run[0]] != world.end_time[0]):
        world.ends = pop_end(world.end_time, world.end_run, world.ends)
    while world.overs > 0 and (
        runs.how[world.over_run[0]] != RUNNING or runs.limit[world.over_run[0]] != world.over_time[0]
    ):
        world.overs = pop_end(world.over_time, world.over_run, world.overs)


@kernel(inline=True, from_python=True)
def open_instant(state, world):
    """Apply the next batch of events (stepping: the next event). Return False if nothing will happen any more."""
    t = next_instant(state, world)
    if t == FUTURE or state.trace.error[0] != OK:
        return False
    tick(state, t)
    if world.stepping:
        _correct(state, world, t)  # before a run that ends at its limit is vacated
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
    """End a run now, and its job with it."""
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
    """Add up the progress of a run that is over: its time less the overhead of continuing. Return it."""
    length, job = state.runs.end[run] - state.runs.start[run], state.runs.job[run]
    world.kept[run] = max(length - world.owed[job], 0)
    return world.kept[run]


@kernel()
def forget(state, world, job):
    """Reset the progress of a job."""
    world.done[job] = world.owed[job] = 0
    world.anew[job] = state.runs.last[job]


@kernel(inline=True)
def close_job(state, world, job, how):
    """Record that a job has ended, or will never run."""
    world.outcome[job] = how
    if state.runs.dangles and world.linked:
        _make_known(state, world, job)
    if len(world.quota_left) > 0 and world.queued[job]:
        _count_queued(world, job, np.int64(1))
    if world.linked:
        _let_follow(state, world, job)


@apart()
def _let_follow(state, world, job):
    """Bring the jobs that depend on this one a step closer to the queue."""
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
    """Release a job whose dependencies are all over."""
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
    """Record that a job joined the queue, or is over; jobs whose dependencies are now all known join in turn."""
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
    """End the first think time."""
    later = world.thought_job[0]
    world.thoughts = pop_end(world.thought_time, world.thought_job, world.thoughts)
    world.before[later] -= 1
    _let_go(state, world, later)


@kernel()
def _come(state, world):
    """Submit the next job, unless it was cancelled before."""
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
    """Charge (sign -1) or refund (1) a job's limits on queued jobs."""
    world.queued[job] = sign < 0
    for i in range(world.quota_first[job], world.quota_first[job + 1]):
        world.quota_left[world.quota_item[i]] += sign


@apart()
def _admit_to_quotas(state, world, job):
    """Count a job that is submitted; if a limit on queued jobs is reached, reject it with all that depend on it."""
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
    """Reject all jobs that depend on a job that was rejected at submit, directly or indirectly."""
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
    """Let a job join the queue, unless it is rejected or cancelled, or others must end first."""
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
    """Apply one event: submits of an instant come before its ends; runs that end at their limit are vacated before."""
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
    """Return the run time on a node of this speed, in whole microseconds, rounded up."""
    return np.int64(min(np.ceil(runtime / speed), float(LATEST)))


@kernel(inline=True)
def _length(state, world, run, job):
    """Return how long a run would continue where it is, if nothing ended it."""
    hold, owed = world.runtime[job], np.int64(0)
    if state.runs.preempts:
        hold, owed = max(hold - world.done[job], 0), world.owed[job]
    speed = _speed(state, world, run)
    return owed + (hold if speed == 1.0 else at_speed(hold, speed))


@kernel(inline=True)
def _speed(state, world, run):
    """Return the speed of the slowest node of a run; less if it runs on several sites, and that costs time."""
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
    """Determine when a run will end, and whether it will be killed."""
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


@kernel(inline=True, from_python=True)
def close_instant(state, world):
    """Apply the decisions of the policy: each start is entered in the account, and gets its end."""
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
    """Record the rows in which a run has turns from now on, and determine when it will end."""
    if world.paces == len(world.pace):
        world.pace = doubled_rows(world.pace)
    row = world.pace[world.paces]
    row[0], row[1], row[2], row[3] = run, state.now, state.runs.turns[run], state.runs.of[run]
    world.paces += 1
    set_end(state, world, run)


@apart()
def _pause(state, world, run, how, overhead):
    """Record what a preempted run releases, and the progress of its job."""
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
    """Enter a run in the account; a negative amount is a mistake of the policy or of the core."""
    if state.machine.pool:
        job = np.int64(state.runs.job[run])
        for k in range(state.machine.resources):
            few_turns()
            need = world.tasks[job] * world.demand[job, k]
            world.book[0, k] -= need
            if need > 0 and world.book[0, k] < 0:
                fail(state, OVERBOOKED, job, k, need, world.book[0, k] + need)
        return
    _turn_page(state, world, run, np.int64(-1))


@kernel(inline=True)
def write_off(state, world, run):
    """Remove a run from the account."""
    if state.machine.pool:
        job = state.runs.job[run]
        for k in range(state.machine.resources):
            few_turns()
            world.book[0, k] += world.tasks[job] * world.demand[job, k]
        return
    _turn_page(state, world, run, np.int64(1))


@apart()
def _turn_page(state, world, run, sign):
    job, runs, tasks_there = np.int64(state.runs.job[run]), state.runs, np.int64(0)
    for pair in range(runs.first[run], runs.first[run] + runs.many[run]):
        node, tasks = runs.held[pair, 0], runs.held[pair, 1]
        tasks_there += tasks
        for k in range(state.machine.resources):
            few_turns()
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
