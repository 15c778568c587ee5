"""What a backfill cycle need not plan again: the first plans of the cycle before, as long as they would be the same.

A plan depends on the running jobs, on the plans before it and, a little, on the time. So while no run begins or ends,
the first jobs of the queue get the plans that they had. docs/decisions/0090 says why that is exact.

The memory `kept` holds, behind what all plans rest on, an entry for each job that was tested: HEAD numbers and the
nodes of its plan as a set.
"""

import numpy as np

from backfill.compiler.kernel import kernel
from backfill.core.plan.promises import NO_TIME
from backfill.model.workload import Ints
from backfill.policies.slurm.bits import words
from backfill.policies.slurm.ends import SECOND, whole_second
from backfill.policies.slurm.queue import has_lists
from backfill.policies.slurm.space import has_begin_within, slot
from backfill.policies.slurm.told import is_told

SKIPPED, TESTED, PLANNED, STARTED, FULL, STUCK = range(6)  # what became of a job in a cycle
MOST = 512  # jobs of a cycle that are kept
# What all entries rest on: their number, the second of the cycle, runs so far, how many continue, a number for their
# limits, the changes of capacity so far
COUNT, NOW, RUNS, ACTIVE, LIMITS, CHANGES, FIRST = range(7)
# Of each job: what became of it, and the begin that was found for it; NO_TIME for none
JOB, PART, LENGTH, WHAT, BEGIN, HEAD = range(6)
PRIME = np.int64(1_099_511_627_689)  # so that numbers of limits stay small
UNKNOWN = np.int64(-1)  # begin of a job whose test may end otherwise at another time


def room_for_plans(nodes: int) -> Ints:
    """Return the memory `kept` for a machine of so many nodes, with nothing in it."""
    return np.zeros(FIRST + MOST * (HEAD + words(nodes)), np.int64)


@kernel(inline=True)
def keeps(state):
    """Return whether plans are kept: not while tests are recorded, not with lists of partitions or a log that says
    which nodes are completing, and not if plans also depend on licences, least limits or nodes held by runs.
    """
    own = state.own
    if len(own.least_limit) > 0 or own.bf_licenses > 0.0 or own.bf_running_job_reserve > 0.0:
        return False
    return len(own.kept) > 0 and not is_told(state) and len(own.closed) == 0 and not has_lists(state)


@kernel(inline=True)
def entry(state, i):
    """Return where the entry of the i-th job begins."""
    return FIRST + i * (HEAD + words(state.machine.nodes))


@kernel()
def number_for_limits(state):
    """Return a number that stands for the limits of all running jobs."""
    found = np.int64(0)
    for i in range(state.runs.active):
        found = (found * np.int64(1_000_003) + state.runs.limits[i]) % PRIME
    return found


@kernel()
def first_repeated(state, now):
    """Return the index of the first entry that may count in this cycle: 0, or -1 for none."""
    own, runs, kept = state.own, state.runs, state.own.kept
    if not keeps(state) or kept[COUNT] == 0 or kept[RUNS] != runs.count or kept[ACTIVE] != runs.active:
        return np.int64(-1)
    if kept[CHANGES] != own.capacities[0] or kept[LIMITS] != number_for_limits(state):
        return np.int64(-1)
    if runs.active > 0 and whole_second(runs.limits[0]) <= now:  # the end that is expected of it moves
        return np.int64(-1)
    return np.int64(0)


@kernel()
def keep(state, now, count):
    """Declare the first `count` entries to be those of this cycle."""
    kept = state.own.kept
    if len(kept) > 0:
        kept[COUNT] = count
    if count > 0:
        kept[NOW], kept[RUNS], kept[ACTIVE] = now, state.runs.count, state.runs.active
        kept[LIMITS], kept[CHANGES] = number_for_limits(state), state.own.capacities[0]


@kernel(inline=True)
def entries(state):
    """Return the number of entries."""
    return state.own.kept[COUNT]


@kernel(inline=True)
def is_next(state, i, job, part):
    """Return whether the i-th entry is that of a job in a partition."""
    kept = state.own.kept
    if not 0 <= i < kept[COUNT]:
        return False
    at = entry(state, i)
    return kept[at + JOB] == job and kept[at + PART] == part


@kernel()
def is_repeated(state, i, now, length, table):
    """Return whether what became of a job, of which the i-th entry tells, would be the same now.

    length: for which it is planned now. The table is as it was then, but for its first begin and its last end.
    """
    kept, at = state.own.kept, entry(state, i)
    before = kept[NOW]
    if kept[at + LENGTH] != length or has_begin_within(table, before + length, now + length):
        return False
    begin, what = kept[at + BEGIN], kept[at + WHAT]
    if begin == NO_TIME:
        return True
    horizon = now + np.int64(state.own.bf_window) * 60 * SECOND
    if what != PLANNED:
        return begin > horizon
    return begin > now


@kernel()
def leaves_equal_tables(state, i, now):
    """Return whether the plan of the i-th entry, made now, changes the table as it did then: it begins behind the begin
    of both tables, and neither bound lies between their ends.
    """
    own, kept, at = state.own, state.own.kept, entry(state, i)
    if kept[at + WHAT] != PLANNED:
        return True
    resolution, window = np.int64(own.bf_resolution) * SECOND, np.int64(own.bf_window) * 60 * SECOND
    first, last = slot(own, kept[at + BEGIN], kept[at + LENGTH], resolution)
    old, new = kept[NOW] // resolution * resolution, now // resolution * resolution
    if old != new and first <= new:
        return False
    old, new = (kept[NOW] + window) // resolution * resolution, (now + window) // resolution * resolution
    return not old <= first < new and not old <= last < new


@kernel()
def is_equal(state, i, length, what, begin, chosen):
    """Return whether the i-th entry tells the same of a job as was found now. chosen: the nodes of a plan, a set."""
    kept, at = state.own.kept, entry(state, i)
    if kept[at + LENGTH] != length or kept[at + WHAT] != what or kept[at + BEGIN] != begin:
        return False
    for x in range(len(chosen) if what == PLANNED else 0):
        if np.uint64(kept[at + HEAD + x]) != chosen[x]:
            return False
    return True


@kernel()
def write(state, i, job, part, length, what, begin, chosen):
    """Let the i-th entry tell what became of a job. chosen: the nodes of a plan, a set."""
    kept, at = state.own.kept, entry(state, i)
    kept[at + JOB], kept[at + PART], kept[at + LENGTH] = job, part, length
    kept[at + WHAT], kept[at + BEGIN] = what, begin
    for x in range(len(chosen) if what == PLANNED else 0):
        kept[at + HEAD + x] = np.int64(chosen[x])


@kernel()
def read(state, i, chosen):
    """Write the nodes of the plan of the i-th entry to a set. Return what became of the job, and the begin."""
    kept, at = state.own.kept, entry(state, i)
    for x in range(len(chosen) if kept[at + WHAT] == PLANNED else 0):
        chosen[x] = np.uint64(kept[at + HEAD + x])
    return kept[at + WHAT], kept[at + BEGIN]
