"""Job arrays, each of which is one entry of the queue: behind a task that does not start no other one is tried.

Source: reject_array_job of _schedule in job_scheduler.c and of _attempt_backfill in backfill.c, job_array_start_test in
job_mgr.c of Slurm 22.05.8.
A loop remembers `turn`: the last array of which it tried a task, the partition, and the task; how many tasks of an
array have got a place in the plan, and that array.
"""

import numpy as np

from backfill.compiler.kernel import kernel
from backfill.policies.slurm.reasons import THROTTLED, copy_reason, say


@kernel(inline=True)
def array_of(state, job):
    """Return the array of a job; -1 for none."""
    return state.own.array[job] if len(state.own.array) > 0 else np.int64(-1)


@kernel()
def new_turn():
    """Return what a loop remembers of arrays at its begin."""
    return np.full(5, -1)


@kernel()
def running_tasks(state):
    """Return how many tasks of each array run; nothing if all may run at once."""
    own, runs = state.own, state.runs
    found = np.zeros(len(own.array_most), np.int64)
    for i in range(runs.active if len(found) > 0 else 0):
        array = own.array[runs.job[runs.by_limit[i]]]
        if array >= 0:
            found[array] += 1
    return found


@kernel()
def is_passed_over(state, job, part, turn, running):
    """Return whether a loop passes over a job: a task of an array of which it has rejected another one in this
    partition, or of which as many run as may. Else it is taken as rejected until `note_task` says otherwise.

    running: of `running_tasks`.
    """
    array = array_of(state, job)
    if array < 0:
        return False
    if turn[0] == array and turn[1] == part:
        copy_reason(state, job, turn[2])
        return True
    turn[0], turn[1], turn[2] = array, part, job
    if len(running) > 0 and 0 < state.own.array_most[array] <= running[array]:
        say(state, job, THROTTLED)
        return True
    return False


@kernel()
def note_task(state, job, turn, running, started):
    """Note that a task of an array has started, or else has a place in the plan, so that the next one is tried."""
    array = array_of(state, job)
    if array < 0:
        return
    if started and len(running) > 0:
        running[array] += 1
    if not started:
        turn[3], turn[4] = turn[3] + 1 if turn[4] == array else 1, array
    if started or turn[3] < state.own.bf_max_job_array_resv:
        turn[1] = -1
