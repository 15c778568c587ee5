"""Gang scheduling by an Ousterhout matrix: rows of jobs take turns on all processors; a row is as wide as the machine.

The policy decides in which rows a job is; core/pace.py computes how fast it runs there.
docs/decisions/0059-gang-matrix-readings.md records what the paper leaves open.

Slow twin: tests/reference/gangmatrix.py.
"""

import numpy as np

from backfill.compiler.kernel import kernel
from backfill.core.errors import NONE
from backfill.core.plan.profile import FUTURE
from backfill.core.plan.rows import free_in_rows, leaves_room, longest_stay, place_in_row, shadow_in_rows
from backfill.core.policy import Param, Policy, policy
from backfill.core.queue.walk import following, head, keep_turn, rewind
from backfill.core.verbs import BACKFILL, HEAD, held_back, reserve, run_in, start, start_heads
from backfill.model.units import ROWS_MOST
from backfill.policies.easy import backfill_behind_head

SOURCE = "Zhang, Franke, Moreira and Sivasubramaniam, IPDPS 2000"
TRUE = 0  # value of repack and alternative

PARAMS = {
    "mpl": Param(5, 1, ROWS_MOST, "rows", "rows that may take turns on the processors; 1: no time slices", whole=True),
    "quantum": Param(200, 1e-3, 1e9, "s", "length of a turn"),
    "switch": Param(10, 0, 1e9, "s", "time that the switch to the next row takes from each turn"),
    "repack": Param.choice("true", "false", meaning="whether jobs move to other rows if that empties a row"),
    "alternative": Param.choice(
        "true", "false", meaning="whether a job runs in the turns of other rows too while its processors are idle there"
    ),
}


@policy(
    "gang-matrix",
    fill="no job; a job that finds no row with enough idle processors, and no new row, blocks those behind it",
    source=f"{SOURCE} (GS); Ousterhout, ICDCS 1982",
    shares=True,
    params=PARAMS,
    memory={"row": "jobs"},
)
def gang_matrix(state):
    """Start jobs in submit order, in the first row with enough idle cpus or in a new one; rows take turns.

    Promise: jobs start in submit order.
    With mpl = 1 every start is that of fcfs.
    Cost: O(mpl x r) per pass, for r running jobs.
    """
    if state.runs.rows == 1:
        start_heads(state)
        return
    room = tidy(state)
    start_heads_in_rows(state, room)
    take_turns(state, room)


@policy(
    "gang-matrix-backfill",
    reserve="the head, in the row in which it may start first; recomputed at each pass",
    fill="jobs that cannot delay the head, first fit, each in the first row with room",
    source=f"{SOURCE} (BGS); Ousterhout, ICDCS 1982",
    shares=True,
    binds=True,
    params=PARAMS,
    memory={"row": "jobs"},
)
def gang_matrix_backfill(state):
    """Like gang-matrix, with EASY among the rows: run times are stretched by mpl and by the time for switches.

    Promise: the head starts no later than its first shadow time, if walltimes hold.
    Cost: O(mpl x r x (r + q)) per pass, for r running and q waiting jobs.
    With mpl = 1 every start is that of easy.
    """
    if state.runs.rows == 1:
        backfill_behind_head(state)
        return
    room = tidy(state)
    job = start_heads_in_rows(state, room)
    if job >= 0:
        backfill_in_rows(state, room, job)
    take_turns(state, room)


# The matrix: room[row, node] is the number of idle cpus of a node in a row


@kernel()
def tidy(state):
    """Close up the rows, and repack them if that empties one. Return the idle cpus of all possible rows."""
    own, runs, going = state.own, state.runs, in_order_of_start(state)
    place_of, used = np.full(runs.rows, NONE), 0
    for run in going:
        place_of[own.row[runs.job[run]]] = 0
    for row in range(runs.rows):
        if place_of[row] == 0:
            place_of[row] = used
            used += 1
    room = empty_rows(state)
    for run in going:
        own.row[runs.job[run]] = place_of[own.row[runs.job[run]]]
        take_room(state, room, own.row[runs.job[run]], run)
    if own.repack != TRUE or used < 2:
        return room
    return repacked(state, going, used, room)


@kernel()
def in_order_of_start(state):
    """Return the current runs, first started first."""
    return np.sort(state.runs.by_limit[: state.runs.active])


@kernel()
def empty_rows(state):
    """Return the cpus of each node in each empty row, (rows, nodes)."""
    machine, rows = state.machine, state.runs.rows
    room = np.empty((rows, machine.nodes), np.int64)
    for row in range(rows):
        for node in range(machine.nodes):
            room[row, node] = machine.capacity[node, 0] // rows
    return room


@kernel()
def repacked(state, going, used, room):
    """Return the idle cpus after first fit decreasing if that needs fewer rows, else unchanged ones.

    No job moves to other nodes.
    """
    own, jobs, runs = state.own, state.jobs, state.runs
    size = np.empty(len(going), np.int64)
    for i in range(len(going)):
        size[i] = -jobs.need[runs.job[going[i]], 0]
    found, rows = empty_rows(state), np.empty(len(going), np.int64)
    for i in np.argsort(size, kind="mergesort"):
        row = 0
        while row < used and not fits_in(state, found, row, going[i]):
            row += 1
        if row >= used - 1:
            return room
        take_room(state, found, row, going[i])
        rows[i] = row
    for i in range(len(going)):
        own.row[runs.job[going[i]]] = rows[i]
    return found


@kernel()
def fits_in(state, room, row, run):
    """Return whether the processors of a run are idle in a row."""
    runs, job = state.runs, state.runs.job[run]
    if state.machine.pool:
        return state.jobs.need[job, 0] <= room[row, 0]
    for pair in range(runs.first[run], runs.first[run] + runs.many[run]):
        if runs.held[pair, 1] * state.jobs.demand[job, 0] > room[row, runs.held[pair, 0]]:
            return False
    return True


@kernel()
def take_room(state, room, row, run):
    """Give a run turns in a row."""
    runs, job = state.runs, state.runs.job[run]
    if state.machine.pool:
        room[row, 0] -= state.jobs.need[job, 0]
        return
    for pair in range(runs.first[run], runs.first[run] + runs.many[run]):
        room[row, runs.held[pair, 0]] -= runs.held[pair, 1] * state.jobs.demand[job, 0]


@kernel()
def rows_used(state):
    """Return how many rows have a job. They are the first ones."""
    used = 0
    for i in range(state.runs.active):
        used = max(used, state.own.row[state.runs.job[state.runs.by_limit[i]]] + 1)
    return used


@kernel()
def take_turns(state, room):
    """Let each job run in the turns of its row and, if allowed, of each other row in which its processors are idle."""
    used, alternative = rows_used(state), state.own.alternative == TRUE
    for run in in_order_of_start(state):
        job = np.int64(state.runs.job[run])
        turns = np.int64(1) << state.own.row[job]
        for row in range(used if alternative else 0):
            if row != state.own.row[job] and fits_in(state, room, row, run):
                take_room(state, room, row, run)
                turns |= np.int64(1) << row
        run_in(state, job, turns, used)


# Starts


@kernel()
def start_heads_in_rows(state, room):
    """Start the first job in order while it fits in a row. Return the first that does not; -1 if none waits."""
    job = head(state)
    while job >= 0 and start_in_rows(state, job, room, HEAD):
        job = head(state)
    return job


@kernel()
def start_in_rows(state, job, room, reason):
    """Start a job in the first row in which it fits, at most in one new row. Return whether it started."""
    for row in range(min(rows_used(state) + 1, state.runs.rows)):
        if place_in_row(state, job, room, row):
            start_in(state, job, room, row, reason)
            return True
    return False


@kernel()
def start_in(state, job, room, row, reason):
    """Start a job in the row in which it was placed."""
    start(state, job, reason)
    state.own.row[job] = row
    take_room(state, room, row, np.int64(state.runs.last[job]))


# Backfilling


@kernel()
def backfill_in_rows(state, room, head):
    """Reserve for the head, or the first job behind it that will ever fit; start all jobs that do not delay it."""
    free = free_in_rows(state, room)
    row, shadow = shadow_in_rows(state, head, state.own.row, free)
    first = head
    if shadow == FUTURE:
        first, row, shadow, free = pass_over(state, room)
    if first >= 0:
        reserve(state, first, shadow)
        keep_turn(state, first)
        rewind(state, 0)
        job = following(state, 0)
        while job >= 0:
            if job != first and not held_back(state, job):
                start_beside(state, job, room, first, row, shadow, free)
            job = following(state, 0)


@kernel()
def pass_over(state, room):
    """Skip a head that would not fit if everything ended.

    Return the next job that will fit, its row and its shadow time. The last value is what is free at the shadow time.
    """
    rewind(state, 0)
    job, row, shadow, free = following(state, 0), 0, FUTURE, free_in_rows(state, room)
    while job >= 0:
        if not start_in_rows(state, job, room, BACKFILL) and not held_back(state, job):
            free = free_in_rows(state, room)
            row, shadow = shadow_in_rows(state, job, state.own.row, free)
            if shadow < FUTURE:
                break
        job = following(state, 0)
    return job, row, shadow, free


@kernel()
def start_beside(state, job, room, first, its_row, shadow, free):
    """Start a job in the first row in which it does not delay the job with the reservation at its shadow time.

    free: what is left at the shadow time for the job with the reservation and those that start beside it.
    """
    ends_before = state.now + longest_stay(state, job) <= shadow
    for row in range(min(rows_used(state) + 1, state.runs.rows)):
        if not place_in_row(state, job, room, row):
            continue
        if not ends_before:
            if not leaves_room(state, job, row, first, its_row, shadow, free):
                continue
            place_in_row(state, job, room, row)  # the other job has been placed since
        start_in(state, job, room, row, BACKFILL)
        return


def family() -> dict[str, Policy]:
    """Return every named member."""
    return {each.name: each for each in (gang_matrix, gang_matrix_backfill)}
