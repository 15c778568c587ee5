"""The thread matrix: threads of several jobs side by side, row by row, and no processor idle while one waits.

docs/decisions/0022-thread-matrix.md has what the paper leaves open.

Slow twin: tests/reference/threads.py.
"""

import math

import numpy as np

from backfill.core.errors import NONE
from backfill.core.kernel import kernel
from backfill.core.policy import Param, Policy, policy
from backfill.core.verbs import THREAD, held_back, place, predecessor, start
from backfill.policies.lists import append, unlink

NOWHERE, IN_COLUMN, IN_LINE, URGENT, BEHIND = (np.int64(i) for i in range(5))  # where a thread waits
STARTED, HELD_BACK, NO_ROOM = (np.int64(i) for i in range(3))

MEMORY = {
    "where": "jobs",
    # neighbours in a column, in the line, or among the urgent
    "previous": "jobs",
    "next": "jobs",
    "line_first": 1,
    "line_last": 1,
    "urgent_first": 1,  # those whose run before is over: they are first
    "urgent_last": 1,
    # by project: its column, and the columns that wait to become a block
    "column_first": "jobs",
    "column_last": "jobs",
    "column_size": "jobs",
    "column_previous": "jobs",
    "column_next": "jobs",
    "columns_first": 1,
    "columns_last": 1,
    # who follows on the same processor, and whom
    "behind": "jobs",
    "ahead": "jobs",
    # the search for what a thread comes after
    "chain": "jobs",
    "stack": "jobs",
    "asked": "jobs",
    "seen": "jobs",
    "searches": 1,
}


@policy(
    "thread-matrix",
    fill="threads, in the order of the matrix; those that others need, first",
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

    A block is the first n jobs, of which none has more than n threads; first the first thread of each, then the second.
    Promise: no processor is idle while a thread waits, if each asks for one processor and none comes after others.
    Cost: O(log(waiting threads)) per thread, and the waiting threads that it comes after.
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
    """Let a thread be among the first from now on."""
    own = state.own
    own.where[job] = URGENT
    append(own.previous, own.next, own.urgent_first, own.urgent_last, 0, job)


@kernel()
def append_to_column(state, job):
    """Let a thread wait in the column of its project, behind all others."""
    own, project = state.own, state.projects.of[job]
    if own.column_size[project] == 0:
        append(own.column_previous, own.column_next, own.columns_first, own.columns_last, 0, project)
    own.where[job] = IN_COLUMN
    own.column_size[project] += 1
    append(own.previous, own.next, own.column_first, own.column_last, project, job)


@kernel()
def take_out(state, job):
    """Take a thread out from where it waits. Behind another one, the next on that processor moves up."""
    own, where = state.own, state.own.where[job]
    own.where[job] = NOWHERE
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
    elif where == BEHIND:
        own.behind[own.ahead[job] - 1] = own.behind[job]
        if own.behind[job] > 0:
            own.ahead[own.behind[job] - 1] = own.ahead[job]
        own.behind[job] = own.ahead[job] = 0


@kernel()
def note_what_happened(state):
    """Threads that were cancelled wait no more, those behind a run that is over are urgent, new ones form columns."""
    batch, own = state.batch, state.own
    over = np.empty(batch.leaves + batch.ends, np.int64)
    for i in range(batch.leaves):
        take_out(state, batch.left[i])
        over[i] = batch.left[i]
    for i in range(batch.ends):
        over[batch.leaves + i] = state.runs.job[batch.ended[i]]
    over.sort()
    for job in over:
        call_next(state, job)
    for i in range(batch.arrivals):
        if own.where[batch.arrived[i]] == NOWHERE:
            append_to_column(state, batch.arrived[i])


@kernel()
def call_next(state, job):
    """The thread behind this one, if there is one, is urgent from now on."""
    own, follower = state.own, state.own.behind[job]
    if follower > 0:
        own.behind[job] = own.ahead[follower - 1] = 0
        append_urgent(state, follower - 1)


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
    """Start the threads of a list until one has no room, past those that a limit holds back. Whether all had room."""
    own, passed = state.own, np.int64(0)
    job = first[0]
    while job > 0:
        found = dispatch(state, job - 1)
        if found == NO_ROOM:
            return False
        if found == HELD_BACK:
            passed = job
        job = first[0] if passed == 0 else own.next[passed - 1]
    return True


@kernel()
def dispatch(state, job):
    """Give a thread a processor: the first that it comes after and that does not run starts there, else itself."""
    own, n = state.own, find_not_running(state, job)
    for i in range(n):
        if held_back(state, own.chain[i]):
            return HELD_BACK
    first = own.chain[0]
    if not place(state, first):
        return NO_ROOM
    for i in range(n - 1):
        take_out(state, own.chain[i])
        call_next(state, own.chain[i])
    take_out(state, job)
    for i in range(n - 1):
        own.behind[own.chain[i]], own.ahead[own.chain[i + 1]] = own.chain[i + 1] + 1, own.chain[i] + 1
        own.where[own.chain[i + 1]] = BEHIND
    start(state, first, THREAD)
    return STARTED


@kernel()
def find_not_running(state, job):
    """Write to `chain` all that a thread comes after and that wait, each behind its own, then the thread: how many."""
    own, n, high = state.own, 0, 1
    own.searches[0] += 1
    own.stack[0], own.asked[job], own.seen[job] = job, 0, own.searches[0]
    while high > 0:
        each = own.stack[high - 1]
        before = predecessor(state, each, own.asked[each])
        own.asked[each] += 1
        if before == NONE:
            own.chain[n] = each
            n += 1
            high -= 1
        elif state.queue.waits[before] == 1 and own.seen[before] != own.searches[0]:
            own.stack[high], own.asked[before], own.seen[before] = before, 0, own.searches[0]
            high += 1
    return n


def family() -> dict[str, Policy]:
    """The only member."""
    return {thread_matrix.name: thread_matrix}
