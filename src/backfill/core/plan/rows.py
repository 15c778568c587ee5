"""Placement and planning in rows that take turns on the processors: each row has its own idle cpus, all else is shared.

`idle[row, node]` is the number of idle cpus of a node in a row. Memory, licences and other resources are held by the
jobs of all rows at once.
"""

import numpy as np

from backfill.compiler.kernel import kernel
from backfill.compiler.loops import few_turns
from backfill.compiler.wall import verb
from backfill.core.machine import least_there
from backfill.core.pace import latest_end, longest
from backfill.core.plan.profile import FUTURE
from backfill.core.plan.search import span
from backfill.core.verbs import place, place_in, place_on


@verb(within=True)
def place_in_row(state, job, idle, row):
    """Return whether a waiting job may start now in a row; the placement is left for `start`."""
    amounts = _amounts_from(state, job, state.now, state.free.nodes, idle, row)
    if state.machine.pool:
        return _pool_has(state, job, amounts) and place(state, job)
    return place_in(state, job, amounts, state.free.licences) and place_on(state, job, _nodes_placed(state, job))


@verb(within=True)
def longest_stay(state, job):
    """Return the longest stay of a job if its walltime holds: at the slowest pace."""
    return longest(state, state.jobs.walltime[job])


@verb(within=True)
def free_in_rows(state, idle):
    """Return copies of the free resources now: amounts of nodes, copies of licences, idle cpus of rows."""
    return state.free.nodes.copy(), state.free.licences.copy(), idle.copy()


@verb(within=True)
def shadow_in_rows(state, job, row_of, free):
    """Return the row in which a job can start first if walltimes hold, and when; FUTURE if it never can.

    Ties go to the first row. row_of: the row of each running job. free: from `free_in_rows`; updated to the free
    resources at that instant.
    """
    runs = state.runs
    going = np.sort(runs.by_limit[: runs.active])
    ends = np.empty(len(going), np.int64)
    for i in range(len(going)):
        ends[i] = latest_end(state, going[i])
    order, gone, t = np.argsort(ends, kind="mergesort"), 0, state.now
    while t < FUTURE:
        while gone < len(order) and ends[order[gone]] <= t:
            run = going[order[gone]]
            other = np.int64(runs.job[run])
            _use(state, other, row_of[other], _pairs_of(state, run), free, np.int64(-1))
            gone += 1
        for row in range(runs.rows):
            if _has_room(state, job, t, free, row):
                return row, t
        t = min(_next_window(state, t), ends[order[gone]] if gone < len(order) else FUTURE)
    return 0, FUTURE


@verb(within=True)
def leaves_room(state, job, row, first, its_row, t, free):
    """Return whether job `first` can still start at t in its row if a job starts now in a row and stays until then.

    The job is where it was placed last. free: the free resources at t; if the answer is yes, the job's share is taken
    out.
    """
    count = state.placed.count
    pairs = state.placed.pairs[:count].copy()
    _use(state, job, row, pairs, free, np.int64(1))
    if _has_room(state, first, t, free, its_row):
        return True
    _use(state, job, row, pairs, free, np.int64(-1))
    return False


@kernel()
def _amounts_from(state, job, t, free, idle, row):
    """Return the free amounts of nodes, with the cpus of a row, that announced windows leave to a job from t on."""
    machine, amounts = state.machine, free.copy()
    for node in range(machine.nodes):
        amounts[node, 0] = idle[row, node]
    if machine.windows > 0:
        until = t + span(state, job)
        for node in range(machine.nodes):
            for k in range(machine.resources):
                few_turns()
                away = machine.capacity[node, k] - least_there(state, node, k, t, until)
                amounts[node, k] -= away // state.runs.rows if k == 0 else away
    return amounts


@kernel()
def _has_room(state, job, t, free, row):
    """Return whether a job fits from t on in a row, given the free resources then."""
    amounts = _amounts_from(state, job, t, free[0], free[2], row)
    if not state.machine.pool:
        return place_in(state, job, amounts, free[1])
    return _pool_has(state, job, amounts)


@kernel()
def _pool_has(state, job, amounts):
    for k in range(state.machine.resources):
        few_turns()
        if state.jobs.need[job, k] > max(amounts[0, k], 0):
            return False
    return True


@kernel()
def _nodes_placed(state, job):
    """Return the node of each task of the present placement of a job."""
    placed, nodes, count = state.placed, np.empty(state.jobs.tasks[job], np.int64), 0
    for pair in range(placed.count):
        for _ in range(placed.pairs[pair, 1]):
            nodes[count] = placed.pairs[pair, 0]
            count += 1
    return nodes


@kernel()
def _pairs_of(state, run):
    """Return the nodes of a run with its tasks there; empty on a pool."""
    runs = state.runs
    first = np.int64(0) if state.machine.pool else runs.first[run]
    many = np.int64(0) if state.machine.pool else np.int64(runs.many[run])
    return runs.held[first : first + many]


@kernel()
def _use(state, job, row, pairs, free, sign):
    """Take (sign 1) or release (-1) the request of a job in a row at its placement."""
    jobs, (amounts, licences, idle) = state.jobs, free
    if state.machine.pool:
        for k in range(state.machine.resources):
            few_turns()
            amounts[0, k] -= sign * jobs.need[job, k]
        idle[row, 0] -= sign * jobs.need[job, 0]
        return
    for pair in range(len(pairs)):
        node, tasks = pairs[pair, 0], pairs[pair, 1]
        for k in range(state.machine.resources):
            few_turns()
            amounts[node, k] -= sign * tasks * jobs.demand[job, k]
        idle[row, node] -= sign * tasks * jobs.demand[job, 0]
    for item in range(jobs.licence_first[job], jobs.licence_first[job + 1]):
        licences[jobs.licence[item]] -= sign * jobs.licence_count[item, 0]


@kernel()
def _next_window(state, t):
    """Return when the next announced window is over; FUTURE if there is none."""
    machine, first = state.machine, FUTURE
    for i in range(machine.windows):
        if machine.window[i, 4] > t:
            first = min(first, machine.window[i, 4])
    return first
