"""Where a job fits among rows that share processors in turns, and when: cpus are idle row by row, all else is shared.

`idle[row, node]` is how many cpus of a node no job has in a row. Memory, licences and other resources are held by the
jobs of all rows at once.
"""

import numpy as np

from backfill.compiler.kernel import kernel
from backfill.compiler.wall import verb
from backfill.core.machine import least_there
from backfill.core.pace import latest_end, longest
from backfill.core.plan.profile import FUTURE
from backfill.core.plan.search import span
from backfill.core.verbs import place, place_in, place_on


@verb(within=True)
def place_in_row(state, job, idle, row):
    """Whether a waiting job may start now in a row; where, is left for `start`."""
    amounts = _amounts_from(state, job, state.now, state.free.nodes, idle, row)
    if state.machine.pool:
        return _pool_has(state, job, amounts) and place(state, job)
    return place_in(state, job, amounts, state.free.licences) and place_on(state, job, _nodes_placed(state, job))


@verb(within=True)
def longest_stay(state, job):
    """How long a job stays at most if its walltime holds: at the slowest pace."""
    return longest(state, state.jobs.walltime[job])


@verb(within=True)
def free_in_rows(state, idle):
    """What is free now, to be changed: amounts of nodes, copies of licences, idle cpus of rows."""
    return state.free.nodes.copy(), state.free.licences.copy(), idle.copy()


@verb(within=True)
def shadow_in_rows(state, job, row_of, free):
    """The row in which a job may start first if walltimes hold, and when; FUTURE where it never may.

    Of equal rows the first. row_of: the row of each job that runs. free: as `free_in_rows` gives it; afterwards what is
    free at that instant.
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
    """Whether another job may still start at t in its row if a job starts now in a row, and stays until then.

    The job is where it was placed last. free: what is free at t; without what the job holds, if so.
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
    """Of what is free on nodes, with the cpus of a row, those that announced windows leave to a job from t on."""
    machine, amounts = state.machine, free.copy()
    for node in range(machine.nodes):
        amounts[node, 0] = idle[row, node]
    if machine.windows > 0:
        until = t + span(state, job)
        for node in range(machine.nodes):
            for k in range(machine.resources):
                away = machine.capacity[node, k] - least_there(state, node, k, t, until)
                amounts[node, k] -= away // state.runs.rows if k == 0 else away
    return amounts


@kernel()
def _has_room(state, job, t, free, row):
    """Whether a job fits from t on in a row, in what is free then."""
    amounts = _amounts_from(state, job, t, free[0], free[2], row)
    if not state.machine.pool:
        return place_in(state, job, amounts, free[1])
    return _pool_has(state, job, amounts)


@kernel()
def _pool_has(state, job, amounts):
    for k in range(state.machine.resources):
        if state.jobs.need[job, k] > max(amounts[0, k], 0):
            return False
    return True


@kernel()
def _nodes_placed(state, job):
    """The node of each task where a job was placed."""
    placed, nodes, count = state.placed, np.empty(state.jobs.tasks[job], np.int64), 0
    for pair in range(placed.count):
        for _ in range(placed.pairs[pair, 1]):
            nodes[count] = placed.pairs[pair, 0]
            count += 1
    return nodes


@kernel()
def _pairs_of(state, run):
    """The nodes of a run, and its tasks there; nothing on a pool."""
    runs = state.runs
    first = np.int64(0) if state.machine.pool else runs.first[run]
    many = np.int64(0) if state.machine.pool else np.int64(runs.many[run])
    return runs.held[first : first + many]


@kernel()
def _use(state, job, row, pairs, free, sign):
    """A job in a row takes (sign 1) what it asks for where it is, or gives it back (-1)."""
    jobs, (amounts, licences, idle) = state.jobs, free
    if state.machine.pool:
        for k in range(state.machine.resources):
            amounts[0, k] -= sign * jobs.need[job, k]
        idle[row, 0] -= sign * jobs.need[job, 0]
        return
    for pair in range(len(pairs)):
        node, tasks = pairs[pair, 0], pairs[pair, 1]
        for k in range(state.machine.resources):
            amounts[node, k] -= sign * tasks * jobs.demand[job, k]
        idle[row, node] -= sign * tasks * jobs.demand[job, 0]
    for item in range(jobs.licence_first[job], jobs.licence_first[job + 1]):
        licences[jobs.licence[item]] -= sign * jobs.licence_count[item, 0]


@kernel()
def _next_window(state, t):
    """When the next announced window is over; FUTURE without one."""
    machine, first = state.machine, FUTURE
    for i in range(machine.windows):
        if machine.window[i, 4] > t:
            first = min(first, machine.window[i, 4])
    return first
