"""Time sharing: each thread runs for a quantum, and then gives way to the next one in line.

Source: the round robin of operating systems textbooks, here for jobs that may hold several processors.

Slow twin: tests/reference/roundrobin.py.
"""

import numpy as np

from backfill.compiler.kernel import kernel
from backfill.core.policy import Param, Policy, policy
from backfill.core.runs import CHECKPOINT, goes_on
from backfill.core.verbs import RESUMED, THREAD, held_back, place, preempt, start, wake, was_preempted
from backfill.policies.lists import append, unlink

SECOND = 1e6
IN_LINE, RUNS = np.int64(1), np.int64(2)  # the list that a job is in; 0 for none


@policy(
    "round-robin",
    reserve="no job",
    fill="jobs in line, for a quantum each; a job that has used its quantum makes way for the first in line",
    source="time sharing by round robin, as in textbooks",
    preempts=True,
    params={
        "quantum": Param(60, 1e-3, 1e9, "s", "how long a job runs before it makes way for those that wait"),
        "overhead": Param(0, 0, 1e9, "s", "time that each preemption adds to the remaining run time and walltime"),
    },
    memory={
        # lists of jobs, see lists.py: the waiting ones, and the running ones, the longest-running first
        "previous": "jobs",
        "next": "jobs",
        "where": "jobs",
        "line_first": 1,
        "line_last": 1,
        "run_first": 1,
        "run_last": 1,
    },
)
def round_robin(state):
    """Start the first job in line while it fits; a job that has run for a quantum leaves for it, and joins the end.

    Promise: no job waits while another one runs for longer than a quantum, unless it requests more than they hold.
    Cost: O(1) per start, end and preemption.
    """
    note_what_happened(state)
    quantum = np.int64(np.rint(state.own.quantum * SECOND))
    waits = start_first(state)
    while waits and preempt_oldest(state, quantum):
        waits = start_first(state)
    if state.own.line_first[0] > 0 and state.own.run_first[0] > 0:
        wake(state, next_quantum(state, quantum))


@kernel()
def note_what_happened(state):
    """Update the lists: remove jobs that ended or were cancelled, and append new ones to the line."""
    batch, own = state.batch, state.own
    for i in range(batch.leaves):
        take_out(own, np.int64(batch.left[i]))
    for i in range(batch.ends):
        take_out(own, np.int64(state.runs.job[batch.ended[i]]))
    for i in range(batch.arrivals):
        get_in_line(own, np.int64(batch.arrived[i]))


@kernel()
def get_in_line(own, job):
    """Append a job to the line."""
    own.where[job] = IN_LINE
    append(own.previous, own.next, own.line_first, own.line_last, 0, job)


@kernel()
def take_out(own, job):
    """Remove a job from its list."""
    where, own.where[job] = own.where[job], 0
    if where == IN_LINE:
        unlink(own.previous, own.next, own.line_first, own.line_last, 0, job)
    elif where == RUNS:
        unlink(own.previous, own.next, own.run_first, own.run_last, 0, job)


@kernel()
def start_first(state):
    """Start the first job in line while it fits, skipping those that a limit holds back.

    Return whether one has to wait. A job that was preempted in this pass does not count: it has had its turn.
    """
    own = state.own
    each = own.line_first[0]
    while each > 0:
        job = each - 1
        each = own.next[job]
        if was_preempted(state, job):
            return False
        if held_back(state, job):
            continue
        if not place(state, job):
            return True
        take_out(own, job)
        own.where[job] = RUNS
        append(own.previous, own.next, own.run_first, own.run_last, 0, job)
        start(state, job, RESUMED if state.runs.paused[job] else THREAD)
    return False


@kernel()
def preempt_oldest(state, quantum):
    """Move the job that has run longest to the line, if its quantum is over. Return whether one was moved."""
    own, runs = state.own, state.runs
    each = own.run_first[0]
    while each > 0:
        job = each - 1
        each = own.next[job]
        run = np.int64(runs.last[job])
        if runs.start[run] + quantum > state.now:
            return False
        if goes_on(state, run):
            take_out(own, job)
            get_in_line(own, job)
            preempt(state, job, CHECKPOINT, np.int64(np.rint(own.overhead * SECOND)))
            return True
    return False


@kernel()
def next_quantum(state, quantum):
    """Return when the next quantum of a run is over."""
    own = state.own
    each = own.run_first[0]
    while each > 0:
        over = state.runs.start[state.runs.last[each - 1]] + quantum
        if over > state.now:
            return over
        each = own.next[each - 1]
    return state.now + quantum


def family() -> dict[str, Policy]:
    """Return the only member."""
    return {round_robin.name: round_robin}
