"""The thread matrix: threads of several jobs side by side, row by row; no processor is idle while a thread waits.

docs/decisions/0022-thread-matrix.md records what the paper leaves open.

Slow twin: tests/reference/threads.py.
"""

import math

import numpy as np

from backfill.compiler.kernel import kernel
from backfill.core.errors import NONE
from backfill.core.policy import Param, Policy, policy
from backfill.core.verbs import THREAD, held_back, is_ready, place, predecessor, start
from backfill.policies.chains import front_of, stand_behind, step_out, take_off
from backfill.policies.lists import append, unlink

# states of a waiting thread
NOWHERE, IN_COLUMN, IN_LINE, URGENT, FOLLOWS, AHEAD = (np.int64(i) for i in range(6))
STARTED, HELD_BACK, NO_ROOM = (np.int64(i) for i in range(3))

MEMORY = {
    "where": "jobs",
    # neighbours in a column, in the line, or among the urgent
    "previous": "jobs",
    "next": "jobs",
    "line_first": 1,
    "line_last": 1,
    "urgent_first": 1,  # threads whose preceding run is over: they come first
    "urgent_last": 1,
    # by project: its column, and the columns that wait to become a block
    "column_first": "jobs",
    "column_last": "jobs",
    "column_size": "jobs",
    "column_previous": "jobs",
    "column_next": "jobs",
    "columns_first": 1,
    "columns_last": 1,
    # the thread that follows another one on its processor, and the inverse
    "follower": "jobs",
    "follows": "jobs",
    # chains of threads, each of which depends on the one ahead of it, see chains.py
    "up": "jobs",
    "left": "jobs",
    "right": "jobs",
    # number of leading dependencies of a thread that do not wait, as checked since a run was last lost
    "asked": "jobs",
    "asked_since": "jobs",
    "lost": 1,
    "passed": 1,  # the last thread of the list that is skipped in this pass
}


@policy(
    "thread-matrix",
    fill="threads that others need, then those in the order of the matrix",
    source="the thread matrix with horizontal scanning; docs/decisions/0022-thread-matrix.md",
    dangles=True,
    params={
        "n_max": Param(math.inf, 1, math.inf, "columns", "most jobs of a block", whole=True),
        "eager": Param.choice(
            "false",
            "true",
            meaning="whether blocks are formed at each submit, else when all threads of the last one have started",
        ),
    },
    memory=MEMORY,
)
def thread_matrix(state):
    """Start the threads of several jobs (projects, one job of the log per thread) row by row, first come first served.

    A block is the first n jobs, none of which has more than n threads; first the first thread of each, then the second.
    Promise: no processor is idle while a thread waits that could run, if each requests one processor and neither limits
    nor announced windows hold it back. Without dependencies every waiting thread could run.
    Cost: O(log(waiting threads)), amortised, per thread and per dependency.
    """
    own = state.own
    note_what_happened(state)
    while own.eager != 0.0 and own.columns_first[0] > 0:
        append_block(state)
    if start_all(state, own.urgent_first):
        while start_all(state, own.line_first) and own.columns_first[0] > 0:
            append_block(state)


@kernel()
def append_urgent(state, job):
    """Append a thread to the urgent ones, which come first."""
    own = state.own
    own.where[job] = URGENT
    append(own.previous, own.next, own.urgent_first, own.urgent_last, 0, job)


@kernel()
def append_to_column(state, job):
    """Append a thread to the column of its project."""
    own, project = state.own, state.projects.of[job]
    if own.column_size[project] == 0:
        append(own.column_previous, own.column_next, own.columns_first, own.columns_last, 0, project)
    own.where[job] = IN_COLUMN
    own.column_size[project] += 1
    append(own.previous, own.next, own.column_first, own.column_last, project, job)


@kernel()
def take_out(state, job):
    """Remove a thread from the list in which it waits."""
    own, where = state.own, state.own.where[job]
    own.where[job] = NOWHERE
    if own.passed[0] == job + 1:
        own.passed[0] = own.previous[job]
    if where == IN_COLUMN:
        project = state.projects.of[job]
        unlink(own.previous, own.next, own.column_first, own.column_last, project, job)
        own.column_size[project] -= 1
        if own.column_size[project] == 0:
            unlink(own.column_previous, own.column_next, own.columns_first, own.columns_last, 0, project)
    elif where == IN_LINE:
        unlink(own.previous, own.next, own.line_first, own.line_last, 0, job)
    elif where == URGENT:
        unlink(own.previous, own.next, own.urgent_first, own.urgent_last, 0, job)
    elif where == FOLLOWS:
        own.follower[own.follows[job] - 1] = 0
        own.follows[job] = 0


@kernel()
def follow(state, job, run_of):
    """Let a thread wait until the run of another one is over, to come first then."""
    own = state.own
    own.where[job] = FOLLOWS
    own.follower[run_of], own.follows[job] = job + 1, run_of + 1


@kernel()
def note_what_happened(state):
    """Update the lists: drop cancelled threads, make followers of ended runs urgent, append new threads to columns."""
    batch, own = state.batch, state.own
    over = np.empty(batch.ends, np.int64)
    for i in range(batch.ends):
        over[i] = state.runs.job[batch.ended[i]]
    for i in range(batch.begins):
        job = np.int64(state.runs.job[batch.begun[i]])
        if own.where[job] != NOWHERE:  # it was started by something else
            give_up(state, job)
    for job in np.sort(batch.left[: batch.leaves]):
        give_up(state, job)
    over.sort()
    for job in over:
        if own.follower[job] > 0:
            follower = own.follower[job] - 1
            take_out(state, follower)
            append_urgent(state, follower)
    for i in range(batch.arrivals):
        job = batch.arrived[i]
        if own.where[job] == NOWHERE:
            append_to_column(state, job)
        if state.runs.last[job] != NONE:
            own.lost[0] += 1


@kernel()
def give_up(state, job):
    """Remove a cancelled thread. The thread that waited for it takes its place at a processor, or becomes urgent."""
    own, run_of = state.own, state.own.follows[job] - 1
    take_out(state, job)
    before = step_out(own.up, own.left, own.right, job)
    if before == NONE or own.where[before] != AHEAD:
        return
    if run_of >= 0:
        follow(state, before, run_of)
    else:
        append_urgent(state, before)


@kernel()
def append_block(state):
    """Move the threads of the next block to the end of the line, row by row."""
    own = state.own
    n, most, column = 0, own.column_size[own.columns_first[0] - 1], own.columns_first[0]
    while column > 0 and n < most and n < own.n_max:
        most = max(most, own.column_size[column - 1])
        column = own.column_next[column - 1]
        n += 1
    columns = np.empty(n, np.int64)
    for i in range(n):
        columns[i] = own.columns_first[0] - 1
        unlink(own.column_previous, own.column_next, own.columns_first, own.columns_last, 0, columns[i])
    while n > 0:
        left = 0
        for i in range(n):
            project = columns[i]
            job = own.column_first[project] - 1
            unlink(own.previous, own.next, own.column_first, own.column_last, project, job)
            own.where[job] = IN_LINE
            append(own.previous, own.next, own.line_first, own.line_last, 0, job)
            own.column_size[project] -= 1
            if own.column_size[project] > 0:
                columns[left] = project
                left += 1
        n = left


@kernel()
def start_all(state, first):
    """Start the threads of a list until one does not fit, skipping those that must not start.

    Return whether all fitted.
    """
    own = state.own
    own.passed[0] = 0
    job = first[0]
    while job > 0:
        found = dispatch(state, job - 1)
        if found == NO_ROOM:
            return False
        if found == HELD_BACK:
            own.passed[0] = job
        job = first[0] if own.passed[0] == 0 else own.next[own.passed[0] - 1]
    return True


@kernel()
def dispatch(state, job):
    """Give a thread a processor: a dependency that still waits goes ahead, and the thread follows it there."""
    first = go_ahead(state, job)
    if held_back(state, first):
        return HELD_BACK
    if not place(state, first):
        return HELD_BACK if is_kept_by_a_window(state, first) else NO_ROOM
    take_out(state, job)
    if first != job:
        take_out(state, first)
        follow(state, job, first)
    start(state, first, THREAD)
    return STARTED


@kernel()
def go_ahead(state, job):
    """Return the thread to start for this one: its first waiting dependency, followed recursively; else itself.

    All threads in between go ahead of it: they wait in no other list any more.
    """
    own = state.own
    while True:
        first = front_of(own.up, own.left, own.right, job)
        if not state.queue.waits[first]:
            take_off(own.up, own.right, first)
            continue
        before = first_waiting(state, first)
        if before == NONE:
            return first
        take_out(state, before)
        own.where[before] = AHEAD
        stand_behind(own.up, first, before)


@kernel()
def first_waiting(state, job):
    """Return the first waiting dependency of a thread; -1 if there is none."""
    own = state.own
    if own.asked_since[job] != own.lost[0]:
        own.asked[job], own.asked_since[job] = 0, own.lost[0]
    before = predecessor(state, job, own.asked[job])
    while before != NONE and not state.queue.waits[before]:
        own.asked[job] += 1
        before = predecessor(state, job, own.asked[job])
    return before


@kernel()
def is_kept_by_a_window(state, job):
    """Return whether a thread cannot start only because it would dangle into a window.

    Threads that progress at once may still fit.
    """
    idle = state.free.nodes[0, 0] if state.machine.pool else state.free.total[0]
    return state.machine.windows > 0 and not is_ready(state, job) and idle > 0


def family() -> dict[str, Policy]:
    """Return the only member."""
    return {thread_matrix.name: thread_matrix}
