"""Multiple-queue backfilling: a queue for each class of walltimes, each with its own partition and reservation.

Source: Lawson and Smirni, JSSPP 2002. docs/decisions/0060-queues-partitions-and-shares.md records what it leaves open.

Slow twin: tests/reference/multiqueue.py.
"""

import math

import numpy as np

from backfill.compiler.kernel import kernel
from backfill.core.errors import NONE
from backfill.core.plan.plan import fits_now, rebuild, settle, unsettle
from backfill.core.plan.profile import FUTURE
from backfill.core.policy import Param, Policy, policy
from backfill.core.queue.walk import arrange_by, candidate, following, head, is_first, keep_turn, rewind, waiting_jobs
from backfill.core.verbs import BACKFILL, HEAD, held_back, reserve, start

SECOND = 1e6  # in microseconds
HIGHEST = 1e9  # bound of a priority


def _bound(default: float) -> Param:
    return Param(default, 0.001, math.inf, "s", "longest walltime of a queue; inf for the last queue")


@policy(
    "multi-queue",
    order="jobs of high priority before the others, each in order of submit",
    reserve="the head of each queue: in its own partition or, if it starts sooner, with what others lend it",
    fill="jobs that delay no queue's head, in order",
    source="Lawson and Smirni, JSSPP 2002",
    sorts=True,
    params={
        "bound1": _bound(100),
        "bound2": _bound(1000),
        "bound3": _bound(10_000),
        "bound4": _bound(math.inf),
        "bound5": _bound(math.inf),
        "bound6": _bound(math.inf),
        "bound7": _bound(math.inf),
        "high": Param(
            1, -HIGHEST, HIGHEST, "points", "priority from which a job goes ahead of the others of its queue"
        ),
    },
    memory={"own": "jobs"},  # processors of its own queue's partition that a run holds; the others are lent to it
    memory_f={"score": "jobs"},
    forgets="all",
)
def multi_queue(state):
    """Put each job in the queue of its walltime, and reserve for the head of every queue.

    The machine is divided into equal partitions, one for each queue; a job may use idle processors of other partitions
    as well if that delays the head of no other queue, and gives them back at its end.
    Promise: no job starves where all priorities are equal, or that has a high one. A reservation that moved up into
    processors of another partition may move back.
    Cost: O(q + r log r) per pass and per start of a head, for q waiting and r running jobs.
    With a single queue (all bounds inf) every start is that of easy.
    """
    bounds = bounds_of_queues(state)
    note_begun(state, bounds)
    rank(state)
    heads = np.full(len(bounds) + 1, NONE)
    while start_a_head(state, bounds, heads):
        pass
    start_beside_heads(state, bounds, heads)


@kernel()
def bounds_of_queues(state):
    """Return the longest walltimes of all queues but the last, ascending, in microseconds."""
    own = state.own
    bounds = np.array([own.bound1, own.bound2, own.bound3, own.bound4, own.bound5, own.bound6, own.bound7])
    bounds.sort()
    count = 0
    for bound in bounds:
        if bound < np.inf and (count == 0 or bound * SECOND > bounds[count - 1]):
            bounds[count] = bound * SECOND
            count += 1
    return bounds[:count]


@kernel()
def queue_of(state, job, bounds):
    """Return the queue in which a job waits: the first whose walltime limit is at least its walltime."""
    return np.int64(np.searchsorted(bounds, float(state.jobs.walltime[job])))


@kernel()
def rank(state):
    """Sort jobs of high priority before the others; each queue then has the jobs of its walltimes, in this order."""
    score = state.own.score
    for job in waiting_jobs(state, 0):
        score[job] = 0.0 if state.jobs.priority[job] >= state.own.high else 1.0
    arrange_by(state, 0, score)


@kernel()
def sizes(state, queues):
    """Return the number of processors of each partition; the first ones have one more if they cannot be equal."""
    cpus = np.int64(0)
    for node in range(state.machine.nodes):
        cpus += state.machine.capacity[node, 0]
    size = np.empty(queues, np.int64)
    for partition in range(queues):
        size[partition] = cpus // queues + (partition < cpus % queues)
    return size


@kernel()
def idle_of_partitions(state, bounds):
    """Return how many processors of each partition its own queue does not use; negative if capacity is lost."""
    idle, runs = sizes(state, len(bounds) + 1), state.runs
    for i in range(runs.active):
        job = np.int64(runs.job[runs.by_limit[i]])
        idle[queue_of(state, job, bounds)] -= state.own.own[job]
    return idle


@kernel()
def note_begun(state, bounds):
    """Account for runs that this policy did not start: they hold processors of partitions, too."""
    for i in range(state.batch.begins):
        state.own.own[state.runs.job[state.batch.begun[i]]] = 0
    for i in range(state.batch.begins):
        hold(state, np.int64(state.runs.job[state.batch.begun[i]]), bounds)


@kernel()
def hold(state, job, bounds):
    """Record how many processors a started job holds of its own partition, as many as the partition has left."""
    state.own.own[job] = 0
    idle = idle_of_partitions(state, bounds)[queue_of(state, job, bounds)]
    state.own.own[job] = max(min(state.jobs.need[job, 0], idle), 0)


@kernel()
def own_time(state, job, bounds, idle):
    """Return when a job no larger than its partition fits there, by the limits of the runs of its queue."""
    need, runs, queue = state.jobs.need[job, 0], state.runs, queue_of(state, job, bounds)
    if idle >= need:
        return state.now
    for i in range(runs.active):
        other = np.int64(runs.job[runs.by_limit[i]])
        if queue_of(state, other, bounds) == queue:
            idle += state.own.own[other]
        if idle >= need:
            return max(runs.limits[i], state.now)
    return FUTURE


@kernel()
def start_a_head(state, bounds, heads):
    """Reserve for the head of every queue and start the first head that may start now. Return False if there is none.

    heads: receives the head of each queue, -1 for an empty queue.
    """
    heads[:] = NONE
    if head(state) < 0:
        return False
    rebuild(state)
    in_order, begins = reserve_within(state, bounds, heads)
    for i in range(len(in_order)):
        job = in_order[i]
        unsettle(state, job, begins[i])
        begins[i] = settle(state, job, state.now)
        if begins[i] == state.now:
            start(state, job, HEAD if is_first(state, job) else BACKFILL)
            hold(state, job, bounds)
            return True
    for i in range(len(in_order)):
        reserve(state, in_order[i], begins[i])
    if len(in_order) > 0:
        keep_turn(state, in_order[0])
    return False


@kernel()
def reserve_within(state, bounds, heads):
    """Book each head, in order, when its own partition has enough idle processors. Return the heads and their starts.

    A head that is larger than its partition is booked against the whole machine.
    """
    size, idle = sizes(state, len(heads)), idle_of_partitions(state, bounds)
    in_order, begins, count = np.empty_like(heads), np.empty_like(heads), 0
    first = job = head(state)  # with limits it may differ from the first job of the walk
    rewind(state, 0)
    while job >= 0 and count < len(heads):
        queue = queue_of(state, job, bounds)
        if heads[queue] == NONE and (job == first or not held_back(state, job)):
            within = state.jobs.need[job, 0] <= size[queue]
            begin = settle(state, job, own_time(state, job, bounds, idle[queue]) if within else state.now)
            if begin < FUTURE:
                heads[queue] = in_order[count] = job
                begins[count] = begin
                count += 1
        job = following(state, 0)
        if job == first:
            job = following(state, 0)
    return in_order[:count], begins[:count]


@kernel()
def start_beside_heads(state, bounds, heads):
    """Start the jobs that delay no head.

    All their processors count as lent, so that their own head does not wait longer.
    """
    rewind(state, 0)
    job = candidate(state, 0, FUTURE)
    while job >= 0:
        if job != heads[queue_of(state, job, bounds)] and fits_now(state, job):
            settle(state, job, state.now)
            start(state, job, BACKFILL)
            state.own.own[job] = 0
        job = candidate(state, 0, FUTURE)


def family() -> dict[str, Policy]:
    """Return the only member."""
    return {multi_queue.name: multi_queue}
