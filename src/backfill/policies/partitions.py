"""Space sharing: a job gets a partition of the processors, and its threads run only there.

What the literature calls a job is a project here, and each of its threads is a job. The size of a partition is fixed
beforehand, requested by the job (variable), or follows from the load when the job starts (adaptive) or at any time
(dynamic). With `partition-variable` whole jobs start at once, like gangs: these are FCFS, first fit and EASY as
compared with the thread matrix.
Source: Feitelson, Job scheduling in multiprogrammed parallel systems, IBM RC 19790, 1994 and 1997.
docs/decisions/0023-partitions.md records what it leaves open, and 0060-queues-partitions-and-shares.md the same for
dynamic ones.

Slow twin: tests/reference/partitions.py.
"""

import numpy as np

from backfill.compiler.kernel import apart, kernel
from backfill.core.errors import NONE
from backfill.core.plan.profile import FUTURE
from backfill.core.policy import Param, Policy, policy
from backfill.core.runs import RUNNING
from backfill.core.verbs import BACKFILL, THREAD, held_back, place, reserve, start
from backfill.policies.lists import append, unlink

SOURCE = "Feitelson, IBM RC 19790, 1997"
IN_ORDER, FIRST_FIT, EASY = (np.int64(i) for i in range(3))  # which jobs may overtake others that wait for a partition
FIXED, VARIABLE, ADAPTIVE = (np.int64(i) for i in range(3))

MEMORY = {
    "processors": 1,  # of the machine now
    "held": 1,  # by all partitions
    "partitioned": 1,  # jobs that have a partition
    "in_line": 1,  # jobs that wait for one
    # lists of jobs (projects), see lists.py: those that wait for a partition, and those that have one
    "line_previous": "jobs",
    "line_next": "jobs",
    "line_first": 1,
    "line_last": 1,
    "active_previous": "jobs",
    "active_next": "jobs",
    "active_first": 1,
    "active_last": 1,
    # by project
    "state": "jobs",
    "size": "jobs",  # processors of its partition
    "used": "jobs",  # those held by its threads
    "left": "jobs",  # processors requested by its threads that are not over, dependent threads included
    "widest": "jobs",  # the largest request of its waiting threads; 0: to be counted
    "running": "jobs",  # threads
    "overtook": "jobs",  # 1: it got its partition before an earlier job
    "counted": "jobs",  # the last of its threads that is in `left`, plus 1
    "thread_first": "jobs",
    "thread_last": "jobs",
    # by thread
    "previous": "jobs",
    "next": "jobs",
    "listed": "jobs",  # 1: it is in the list of its project
    "asks": "jobs",  # processors that it adds to `left`
    "over": "jobs",  # 1: it needs none any more
}
ANY = np.int64(2**62)  # any number of partitions
NOWHERE, IN_LINE, ACTIVE = (np.int64(i) for i in range(3))

FREE = Param.choice(
    "job", "thread", meaning="when a job gives its processors back: all at its end, or each with its thread"
)


@policy(
    "partition-fixed",
    reserve="no job",
    fill="jobs in order of submit, each in one of several equal partitions",
    source=SOURCE,
    index=False,
    params={"partitions": Param(8, 1, 1e6, "partitions", "number of equal partitions of the machine", whole=True)},
    memory=MEMORY,
)
def partition_fixed(state):
    """Give each job one of several equal partitions, first come first served.

    Promise: none.
    Cost: O(jobs that have a partition) per pass and O(1) per thread.
    """
    take_stock(state, False)
    most = np.int64(state.own.partitions)
    give_partitions(state, FIXED, IN_ORDER, most, max(state.own.processors[0] // most, 1))


@policy(
    "partition-variable",
    reserve="no job; with `backfill=easy` the first job that waits for a partition, recomputed at each pass",
    fill="whole jobs, each with a processor for every thread; in order of submit, or any that fits",
    source=SOURCE,
    index=False,
    params={
        "backfill": Param.choice(
            "none",
            "first-fit",
            "easy",
            meaning="which jobs may overtake the first that waits: none, any that fits, or any that cannot delay it",
        ),
        "free": FREE,
    },
    memory=MEMORY,
)
def partition_variable(state):
    """Give each job a processor for every thread, all at once.

    Promise: none; with `backfill=easy` the first job in line gets its partition no later than its first shadow time, if
    walltimes hold, none of its threads depends on others, and running jobs get no more threads.
    Cost: O(jobs that wait or have a partition) per pass; with EASY also O(threads of those that have one).
    """
    take_stock(state, state.own.free != 0.0)
    give_partitions(state, VARIABLE, np.int64(state.own.backfill), ANY, np.int64(0))


@policy(
    "partition-adaptive",
    reserve="no job",
    fill="jobs in order of submit, which share the idle processors equally",
    source=SOURCE,
    index=False,
    params={"free": FREE},
    memory=MEMORY,
)
def partition_adaptive(state):
    """Share the processors outside partitions equally among the jobs in line; a partition keeps its size.

    Promise: none.
    Cost: O(jobs that have a partition) per pass and O(1) per thread.
    """
    take_stock(state, state.own.free != 0.0)
    give_partitions(state, ADAPTIVE, IN_ORDER, ANY, np.int64(0))


@policy(
    "partition-dynamic",
    reserve="no job",
    fill="threads of jobs that have fewer processors than their equal share of the machine",
    source="McCann, Vaswani and Zahorjan, ACM TOCS 11(2), 1993 (equipartition); " + SOURCE,
    index=False,
    memory=MEMORY,
)
def partition_dynamic(state):
    """Divide the machine equally among all jobs, again whenever a job or thread arrives or ends.

    A job gets no more than its threads can use, and no less than its widest thread needs; jobs for which that leaves
    too few processors wait in order of submit. No thread is stopped: a partition that shrinks gives its processors back
    as its threads end.
    Promise: none.
    Cost: O(j log P + t) per pass, for j jobs that have a partition of P processors, and their t threads.
    """
    count_processors(state)
    note_what_happened(state, False)
    leave_partitions(state)
    admit(state)
    divide_equally(state)
    active = state.own.active_first[0]
    while active > 0:
        run_threads(state, active - 1)
        active = state.own.active_next[active - 1]


@kernel()
def count_processors(state):
    """Return how many processors the machine has now."""
    own = state.own
    if own.processors[0] == 0 or state.batch.changes > 0:
        own.processors[0] = 0
        for node in range(state.machine.nodes):
            own.processors[0] += state.machine.capacity[node, 0]


@apart(of_policy=True)
def take_stock(state, shrinks):
    """Record the events of this instant, and start threads in the partitions of their jobs.

    shrinks: a partition loses the processors that no thread of its job needs any more.
    """
    own = state.own
    count_processors(state)
    note_what_happened(state, shrinks)
    active = own.active_first[0]
    while active > 0:
        project = active - 1
        active = own.active_next[project]
        run_threads(state, project)
        if own.running[project] == 0:
            give_up(state, project)


@kernel()
def note_what_happened(state, shrinks):
    """Update the threads: ended and cancelled ones need no processor; new ones wait, and their jobs get in line."""
    batch, own = state.batch, state.own
    for i in range(batch.begins):
        note_begun(state, np.int64(state.runs.job[batch.begun[i]]))
    for i in range(batch.leaves):
        job = np.int64(batch.left[i])
        project = np.int64(state.projects.of[job])
        note_over(state, job)
        if own.listed[job]:
            take_out(state, job)
        if own.state[project] == IN_LINE and own.thread_first[project] == 0:
            leave_line(state, project)
    for i in range(batch.ends):
        job = np.int64(state.runs.job[batch.ended[i]])
        project = np.int64(state.projects.of[job])
        own.running[project] -= 1
        own.used[project] -= state.jobs.need[job, 0]
        note_over(state, job)
    for i in range(batch.drops):
        note_over(state, np.int64(batch.dropped[i]))
    for i in range(batch.arrivals):
        note_arrived(state, np.int64(batch.arrived[i]))
    if shrinks:
        for i in range(batch.leaves):
            shrink(state, np.int64(batch.left[i]))
        for i in range(batch.ends):
            shrink(state, np.int64(state.runs.job[batch.ended[i]]))
        for i in range(batch.drops):
            shrink(state, np.int64(batch.dropped[i]))


@kernel()
def shrink(state, job):
    """Remove from the partition of a thread's job the processors that none of its threads needs any more."""
    own, project = state.own, state.projects.of[job]
    spare = own.size[project] - own.left[project]
    if own.state[project] == ACTIVE and spare > 0:
        own.size[project] -= spare
        own.held[0] -= spare


@kernel()
def note_over(state, job):
    """Record that a thread needs no processor any more."""
    own = state.own
    own.left[state.projects.of[job]] -= own.asks[job]
    own.over[job], own.asks[job] = 1, 0


@kernel()
def take_out(state, job):
    """Remove a thread from the list of its job."""
    own, project = state.own, np.int64(state.projects.of[job])
    own.listed[job] = own.widest[project] = 0
    unlink(own.previous, own.next, own.thread_first, own.thread_last, project, job)


@kernel()
def count_in(state, job):
    """Count the processors of a submitted thread, unless it was cancelled."""
    own = state.own
    if own.asks[job] == 0 and not own.over[job]:
        own.asks[job] = state.jobs.need[job, 0]
        own.left[state.projects.of[job]] += own.asks[job]


@kernel()
def note_begun(state, job):
    """Account for a thread that this policy did not start: its job has a partition of at least what it holds."""
    own, project = state.own, np.int64(state.projects.of[job])
    if own.listed[job]:
        take_out(state, job)
    count_threads(state, job)
    own.running[project] += 1
    own.used[project] += state.jobs.need[job, 0]
    if own.state[project] == IN_LINE:
        leave_line(state, project)
    if own.state[project] == NOWHERE:
        own.size[project] = 0
        take_up(state, project)
    more = own.used[project] - own.size[project]
    if more > 0:
        own.size[project] += more
        own.held[0] += more


@kernel()
def count_threads(state, job):
    """Count the processors of a thread, and of the threads of its job that were submitted since the last count."""
    own, project = state.own, np.int64(state.projects.of[job])
    own.over[job] = 0
    count_in(state, job)
    thread = np.int64(state.projects.first[project])
    if own.counted[project] > 0:
        thread = np.int64(state.projects.next[own.counted[project] - 1])
    while thread != NONE:
        count_in(state, thread)
        own.counted[project] = thread + 1
        thread = np.int64(state.projects.next[thread])


@kernel()
def note_arrived(state, job):
    """Let a thread wait, perhaps again."""
    own, project = state.own, np.int64(state.projects.of[job])
    count_threads(state, job)
    own.listed[job], own.widest[project] = 1, 0
    append(own.previous, own.next, own.thread_first, own.thread_last, project, job)
    if own.state[project] == NOWHERE:
        join_line(state, project)


@kernel()
def join_line(state, project):
    """Let a job wait for a partition, behind all others."""
    own = state.own
    own.state[project] = IN_LINE
    own.in_line[0] += 1
    append(own.line_previous, own.line_next, own.line_first, own.line_last, 0, project)


@kernel()
def leave_line(state, project):
    """Remove a job from the line for partitions."""
    own = state.own
    own.state[project] = NOWHERE
    own.in_line[0] -= 1
    unlink(own.line_previous, own.line_next, own.line_first, own.line_last, 0, project)


@kernel()
def give_up(state, project):
    """Release the partition of a job of which nothing runs; the job gets in line if a thread is still waiting."""
    own = state.own
    own.state[project] = NOWHERE
    own.held[0] -= own.size[project]
    own.partitioned[0] -= 1
    unlink(own.active_previous, own.active_next, own.active_first, own.active_last, 0, project)
    if own.thread_first[project] > 0:
        join_line(state, project)


@apart(of_policy=True)
def give_partitions(state, rule, backfill, most, equal):
    """Give partitions to the jobs in line while they fit, and to jobs that may overtake them.

    most: largest number of partitions. equal: their size under the rule FIXED.
    """
    own = state.own
    waits = own.line_first[0]
    blocked, shadow, beside = False, FUTURE, np.int64(0)
    while waits > 0:
        project = waits - 1
        waits = own.line_next[project]
        idle = own.processors[0] - own.held[0]
        if own.partitioned[0] >= most or (blocked and idle <= 0):
            return
        if not may_start(state, project):
            continue
        size = size_for(state, project, rule, equal)
        if size > idle:
            if backfill == IN_ORDER:
                return
            if not blocked and backfill == EASY:
                shadow, beside = find_shadow(state, size)
                promise(state, project, shadow)
            blocked = True
            continue
        delays = blocked and backfill == EASY and shadow < FUTURE
        delays = delays and time_of(state, project, size) > shadow - state.now
        if delays and size > beside:
            continue
        if give(state, project, size, blocked) and delays:
            beside -= size


@kernel()
def leave_partitions(state):
    """Release the partitions of jobs of which no thread runs or waits."""
    own = state.own
    active = own.active_first[0]
    while active > 0:
        project = active - 1
        active = own.active_next[project]
        if own.running[project] == 0 and own.thread_first[project] == 0:
            give_up(state, project)


@kernel()
def admit(state):
    """Give jobs in line a partition, in order, while every job can have as much as its widest thread needs."""
    own, least = state.own, np.int64(0)
    active = own.active_first[0]
    while active > 0:
        least += least_size(state, active - 1)
        active = own.active_next[active - 1]
    waits = own.line_first[0]
    while waits > 0:
        project = waits - 1
        waits = own.line_next[project]
        if may_start(state, project):
            least += least_size(state, project)
            if least > own.processors[0]:
                return
            own.size[project] = own.overtook[project] = 0
            leave_line(state, project)
            take_up(state, project)


@kernel()
def least_size(state, project):
    """Return what a job needs for its widest waiting thread, at most the whole machine."""
    widest = widest_thread(state, project)
    return widest if 1 <= widest <= state.own.processors[0] else np.int64(1)


@kernel()
def usable(state, project):
    """Return how many processors the threads of a job hold or wait for, at most the whole machine."""
    own = state.own
    asked, each = own.used[project], own.thread_first[project]
    while each > 0 and asked < own.processors[0]:
        asked += state.jobs.need[each - 1, 0]
        each = own.next[each - 1]
    return min(asked, own.processors[0])


@kernel()
def divide_equally(state):
    """Resize all partitions: the smallest one that can use another processor gets it, the earliest of equals."""
    own, count = state.own, state.own.partitioned[0]
    projects, least, most = np.empty(count, np.int64), np.empty(count, np.int64), np.empty(count, np.int64)
    active = own.active_first[0]
    for i in range(count):
        projects[i] = active - 1
        least[i], most[i] = least_size(state, projects[i]), usable(state, projects[i])
        active = own.active_next[active - 1]
    level, above = np.int64(0), own.processors[0] + 1
    while above - level > 1:
        middle = (level + above) // 2
        if np.maximum(least, np.minimum(most, middle)).sum() <= own.processors[0]:
            level = middle
        else:
            above = middle
    size = np.maximum(least, np.minimum(most, level))
    rest = own.processors[0] - size.sum()
    for i in range(count):
        if rest > 0 and size[i] == level < most[i]:
            size[i] += 1
            rest -= 1
        own.held[0] += size[i] - own.size[projects[i]]
        own.size[projects[i]] = size[i]


@kernel()
def may_start(state, project):
    """Return whether a job has a waiting thread that no limit holds back."""
    own = state.own
    each = own.thread_first[project]
    while each > 0 and held_back(state, each - 1):
        each = own.next[each - 1]
    return each > 0


@kernel()
def size_for(state, project, rule, equal):
    """Return the size of the partition that a job would get now."""
    own, least = state.own, widest_thread(state, project)
    if rule == FIXED:
        return max(equal, least)
    if rule == VARIABLE:
        return max(min(own.left[project], own.processors[0]), least)
    each = (own.processors[0] - own.held[0]) // own.in_line[0]
    return max(min(own.left[project], each), least, 1)


@kernel()
def widest_thread(state, project):
    """Return the largest request of a waiting thread of a job, in processors."""
    own = state.own
    each = own.thread_first[project] if own.widest[project] == 0 else np.int64(0)
    while each > 0:
        own.widest[project] = max(own.widest[project], state.jobs.need[each - 1, 0])
        each = own.next[each - 1]
    return own.widest[project]


@kernel()
def give(state, project, size, overtook):
    """Give a job a partition, and start its threads. If none fits, leave the job in line and return False."""
    own = state.own
    own.size[project], own.overtook[project] = size, overtook
    run_threads(state, project)
    if own.running[project] == 0:
        return False
    leave_line(state, project)
    take_up(state, project)
    return True


@kernel()
def take_up(state, project):
    """Record that a job has a partition from now on."""
    own = state.own
    append(own.active_previous, own.active_next, own.active_first, own.active_last, 0, project)
    own.state[project] = ACTIVE
    own.held[0] += own.size[project]
    own.partitioned[0] += 1


@kernel()
def run_threads(state, project):
    """Start the threads of a job, first come first served, while they fit into its partition."""
    own = state.own
    each = own.thread_first[project]
    while each > 0:
        job = each - 1
        each = own.next[job]
        if held_back(state, job):
            continue
        if own.used[project] + state.jobs.need[job, 0] > own.size[project] or not place(state, job):
            return
        take_out(state, job)
        own.used[project] += state.jobs.need[job, 0]
        own.running[project] += 1
        start(state, job, BACKFILL if own.overtook[project] else THREAD)


@kernel()
def time_of(state, project, size):
    """Return how long a job will hold a partition of this size at most, by walltimes.

    A dependent thread, or one for which the partition has no processor, counts as if it ran by itself.
    """
    runs, walltime = state.runs, state.jobs.walltime
    beside, behind = np.int64(0), np.int64(0)
    job = np.int64(state.projects.first[project])
    while job != NONE:
        run = np.int64(runs.last[job])
        if run != NONE and runs.how[run] == RUNNING:
            beside = max(beside, runs.limit[run] - state.now)
        elif state.queue.waits[job] and state.own.left[project] <= size:
            beside = max(beside, walltime[job])
        elif not state.own.over[job]:
            behind += walltime[job]
        job = np.int64(state.projects.next[job])
    return beside + behind


@kernel()
def find_shadow(state, size):
    """Return when a partition will fit, by walltimes, and how many processors will then be idle beside it."""
    own, n = state.own, 0
    active = own.active_first[0]
    while active > 0:
        n += 1
        active = own.active_next[active - 1]
    projects, lengths = np.empty(n, np.int64), np.empty(n, np.int64)
    active = own.active_first[0]
    for i in range(n):
        projects[i] = active - 1
        lengths[i] = time_of(state, projects[i], own.size[projects[i]])
        active = own.active_next[active - 1]
    idle, order = own.processors[0] - own.held[0], np.argsort(lengths, kind="mergesort")
    for i in range(n):
        idle += own.size[projects[order[i]]]
        if idle >= size and (i + 1 == n or lengths[order[i + 1]] > lengths[order[i]]):
            return state.now + lengths[order[i]], idle - size
    return FUTURE, np.int64(0)


@kernel()
def promise(state, project, t):
    """Promise the waiting threads of a job the start t, if there is one."""
    own = state.own
    each = own.thread_first[project] if t < FUTURE else np.int64(0)
    while each > 0:
        reserve(state, each - 1, t)
        each = own.next[each - 1]


def family() -> dict[str, Policy]:
    """Return fixed, variable, adaptive and dynamic partitions."""
    members = (partition_fixed, partition_variable, partition_adaptive, partition_dynamic)
    return {each.name: each for each in members}
