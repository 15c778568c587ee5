"""Runs: each is one stay of a job on the machine. A job has none, one or several of them.

Written by `start` and by the transitions. In array shapes r is runs, n jobs.
"""

from typing import Any

import numpy as np
from numba import int8, int32, int64

from backfill.compiler.kernel import kernel
from backfill.compiler.loops import few_turns
from backfill.compiler.record import (
    SMALL,
    doubled,
    doubled_columns,
    doubled_rows,
    record,
    shift_back,
    shift_forward,
    shift_rows_back,
    shift_rows_forward,
    zeros,
)
from backfill.core.pace import slowest_pace, time_for
from backfill.core.place.shapes import note_node
from backfill.core.plan.later import give_later
from backfill.core.plan.profile import FUTURE
from backfill.core.plan.promises import NO_TIME

RUNNING = np.int8(-1)  # runs.how; else how it ended, an index into model.schedule.STATES

# Kinds of preemption: the job starts over, continues anywhere, or continues where it was.
REQUEUE, CHECKPOINT, SUSPEND = np.int64(0), np.int64(1), np.int64(2)

RUNS = [
    ("count", int64),  # number of runs so far
    ("job", int32[::1]),  # (r,)
    ("start", int64[::1]),  # (r,)
    ("limit", int64[::1]),  # (r,): the latest end that a policy may count on
    ("end", int64[::1]),  # (r,): NO_TIME while it continues
    ("reason", int8[::1]),  # (r,): why it started
    ("how", int8[::1]),  # (r,)
    ("last", int32[::1]),  # (n,): the last run of each job; -1 if there is none
    # placements: pairs (node, tasks), run r has `many[r]` of them from `first[r]`; unused on a pool
    ("first", int64[::1]),  # (r,)
    ("many", int32[::1]),  # (r,)
    ("held", int64[:, ::1]),
    ("held_used", int64),
    # the current runs, by limit, then start
    ("by_limit", int64[::1]),
    ("limits", int64[::1]),  # of each, in step with `by_limit`
    ("amounts", int64[:, ::1]),  # (k, current runs): amounts of each, in step with `by_limit`; unused among nodes
    ("active", int64),
    # of jobs that continue after a preemption; length 1 if the policy does not preempt
    ("preempts", int64),  # 1: the policy may preempt
    ("paused", int8[::1]),  # (n,): CHECKPOINT or SUSPEND of a job that waits to continue; else REQUEUE
    ("used", int64[::1]),  # (n,): used walltime of a job, less the overhead of continuing
    ("whole", int64[::1]),  # (n,): the original walltime; jobs.walltime is the rest
    # of jobs that may start before their dependencies are over; length 1 if the policy allows none
    ("dangles", int64),  # 1: the policy allows it
    ("ready", int8[::1]),  # (n,): 1: all dependencies of a job are over, so that it progresses while it runs
    ("since", int64[::1]),  # (r,): since when a run progresses; NO_TIME while it dangles, without a limit
    # of runs that share processors in turns (pace.py); length 1 if the policy allows none
    ("rows", int64),  # number of rows that may take turns; 1: each run has its processors to itself
    ("switching", int64),  # millionths of a turn that a switch between two rows takes
    ("turns", int64[::1]),  # (r,): rows in which a run has turns, as bits
    ("of", int64[::1]),  # (r,): number of rows
    ("paced", int64[::1]),  # (r,): since when it has had this pace
    ("done", int64[::1]),  # (r,): its progress before that, in whole microseconds
    ("part", int64[::1]),  # (r,): and in parts of a microsecond
]
Runs, RunsT = record("Runs", RUNS, globals(), fixed=("preempts", "dangles", "rows", "switching"))


def new_runs(
    jobs: int, resources: int, pool: bool, preempts: bool, dangles: bool, sharing: tuple[int, int] = (1, 0)
) -> Any:
    """Return an empty record with capacity for one run of each of this many jobs.

    preempts: whether the policy may preempt. dangles: whether its runs may dangle. sharing: how many rows may share the
    processors in turns, and the millionths of a turn that a switch takes.
    """
    runs = max(jobs, 1)
    many = runs if preempts else 1
    rows, switching = sharing
    turning = runs if rows > 1 else 1
    return Runs(
        count=0,
        job=np.empty(runs, np.int32),
        start=np.empty(runs, np.int64),
        limit=np.empty(runs, np.int64),
        end=np.empty(runs, np.int64),
        reason=np.empty(runs, np.int8),
        how=np.empty(runs, np.int8),
        last=np.full(jobs, -1, np.int32),
        first=zeros(1 if pool else runs),
        many=np.zeros(1 if pool else runs, np.int32),
        held=zeros(SMALL if pool else runs + SMALL, 2),
        held_used=0,
        by_limit=zeros(SMALL),
        limits=zeros(SMALL),
        amounts=zeros(resources if pool else 0, SMALL),
        active=0,
        preempts=int(preempts),
        paused=np.zeros(many, np.int8),
        used=zeros(many),
        whole=zeros(many),
        dangles=int(dangles),
        ready=np.zeros(runs if dangles else 1, np.int8),
        since=zeros(runs if dangles else 1),
        rows=rows,
        switching=switching,
        turns=zeros(turning),
        of=zeros(turning),
        paced=zeros(turning),
        done=zeros(turning),
        part=zeros(turning),
    )


@kernel()
def _grow(state):
    runs = state.runs
    runs.job, runs.start, runs.limit, runs.end = (
        doubled(runs.job),
        doubled(runs.start),
        doubled(runs.limit),
        doubled(runs.end),
    )
    runs.reason, runs.how = doubled(runs.reason), doubled(runs.how)
    if not state.machine.pool:
        runs.first, runs.many = doubled(runs.first), doubled(runs.many)
    if runs.dangles:
        runs.since = doubled(runs.since)
    if runs.rows > 1:
        runs.turns, runs.of, runs.paced = doubled(runs.turns), doubled(runs.of), doubled(runs.paced)
        runs.done, runs.part = doubled(runs.done), doubled(runs.part)


@kernel()
def open_run(state, job, since, reason):
    """Open the run of a job at its present placement, since an instant not after now, and take its resources.

    Return the run.
    """
    runs = state.runs
    run = runs.count
    if run == len(runs.job):
        _grow(state)
    runs.count += 1
    runs.job[run] = job
    runs.start[run] = since
    runs.end[run] = NO_TIME
    runs.reason[run] = reason
    runs.how[run] = RUNNING
    runs.last[job] = run
    if runs.preempts:
        runs.paused[job] = REQUEUE
    if not state.machine.pool:
        _hold_placed(state, run)
    take(state, run, np.int64(1))
    if runs.dangles:
        runs.since[run] = since if runs.ready[job] else NO_TIME
    if runs.rows > 1:
        runs.turns[run] = runs.of[run] = 1
        runs.paced[run], runs.done[run], runs.part[run] = since, 0, 0
    add_by_limit(state, run, limit_of(state, run))
    return run


@kernel(inline=True)
def progress_since(state, run):
    """Return since when a run progresses; NO_TIME while it dangles."""
    return state.runs.since[run] if state.runs.dangles else state.runs.start[run]


@kernel(inline=True)
def limit_of(state, run):
    """Return the latest end that a policy may count on; FUTURE for a run that dangles."""
    runs = state.runs
    if runs.rows > 1:
        left = state.jobs.walltime[runs.job[run]] - runs.done[run]
        return min(runs.paced[run] + time_for(left, runs.part[run], slowest_pace(runs)), FUTURE)
    since = progress_since(state, run)
    return FUTURE if since == NO_TIME else since + state.jobs.walltime[state.runs.job[run]]


@kernel()
def _hold_placed(state, run):
    runs, placed = state.runs, state.placed
    while runs.held_used + placed.count > len(runs.held):
        runs.held = doubled_rows(runs.held)
    runs.first[run], runs.many[run] = runs.held_used, placed.count
    for pair in range(placed.count):
        runs.held[runs.held_used, 0], runs.held[runs.held_used, 1] = placed.pairs[pair, 0], placed.pairs[pair, 1]
        runs.held_used += 1


@kernel(inline=True)
def _first_from(runs, limit):
    """Return the index of the first current run whose limit is not before this one."""
    low, high = 0, runs.active
    while low < high:
        middle = (low + high) >> 1
        if runs.limits[middle] < limit:
            low = middle + 1
        else:
            high = middle
    return low


@kernel(inline=True)
def add_by_limit(state, run, limit):
    """Insert a run into the current runs, behind those with the same limit."""
    runs = state.runs
    if runs.active == len(runs.limits):
        runs.by_limit, runs.limits = doubled(runs.by_limit), doubled(runs.limits)
        runs.amounts = doubled_columns(runs.amounts)
    runs.limit[run] = limit
    if state.later.live:
        give_later(state, run, np.int64(-1))
    i = _first_from(runs, limit + 1)
    shift_back(runs.limits, i, runs.active)
    shift_back(runs.by_limit, i, runs.active)
    shift_rows_back(runs.amounts, i, runs.active)
    runs.limits[i], runs.by_limit[i] = limit, run
    for k in range(len(runs.amounts)):
        few_turns()
        runs.amounts[k, i] = state.jobs.need[runs.job[run], k]
    runs.active += 1


@kernel()
def drop_by_limit(state, run):
    """Remove a run from the current runs."""
    runs = state.runs
    if state.later.live:
        give_later(state, run, np.int64(1))
    i = _first_from(runs, runs.limit[run])
    while runs.by_limit[i] != run:
        i += 1
    shift_forward(runs.limits, i, runs.active)
    shift_forward(runs.by_limit, i, runs.active)
    shift_rows_forward(runs.amounts, i, runs.active)
    runs.active -= 1


@kernel()
def take(state, run, sign):
    """Take (sign 1) or release (-1) what a run holds, from nodes and licences."""
    machine, free, jobs = state.machine, state.free, state.jobs
    job = state.runs.job[run]
    if machine.pool:
        for k in range(machine.resources):
            few_turns()
            free.nodes[0, k] -= sign * jobs.need[job, k]
        return
    first = state.runs.first[run]
    for pair in range(first, first + state.runs.many[run]):
        node, tasks = state.runs.held[pair, 0], sign * state.runs.held[pair, 1]
        for k in range(machine.resources):
            few_turns()
            free.nodes[node, k] -= tasks * jobs.demand[job, k]
            free.total[k] -= tasks * jobs.demand[job, k]
        note_node(state, node, sign < 0)
    for item in range(jobs.licence_first[job], jobs.licence_first[job + 1]):
        free.licences[jobs.licence[item]] -= sign * jobs.licence_count[item, 0]


@kernel()
def goes_on(state, run):
    """Return whether a run still holds its resources; one whose resources were vacated early (--ties step) does not."""
    runs = state.runs
    i = _first_from(runs, runs.limit[run])
    while i < runs.active and runs.limits[i] == runs.limit[run]:
        if runs.by_limit[i] == run:
            return True
        i += 1
    return False


@kernel(inline=True)
def is_suspended(state, job):
    """Return whether a waiting job can continue only where its last run was."""
    return state.runs.preempts and state.runs.paused[job] == SUSPEND


@kernel()
def place_as_before(state, job):
    """Place a job where its last run was."""
    runs, placed = state.runs, state.placed
    run = runs.last[job]
    placed.count, placed.job = runs.many[run], job
    for pair in range(placed.count):
        placed.pairs[pair, 0] = runs.held[runs.first[run] + pair, 0]
        placed.pairs[pair, 1] = runs.held[runs.first[run] + pair, 1]


@kernel()
def keep_progress(state, job, how, used):
    """Record the used walltime of a job; from now on policies see only the rest."""
    runs = state.runs
    runs.paused[job], runs.used[job] = how, used
    state.jobs.walltime[job] = max(runs.whole[job] - used, 0)
