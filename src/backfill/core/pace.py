"""How fast runs make progress that share processors: rows of them take turns, and a run works in turns of its own.

A pace is a whole number of parts of WHOLE, so progress is exact: whole microseconds, and parts of one that are carried
on from pace to pace.
"""

import numpy as np

from backfill.compiler.kernel import kernel
from backfill.core.plan.profile import FUTURE

MILLION = np.int64(1_000_000)
MULTIPLE = np.int64(2520)  # of each number of rows
WHOLE = MULTIPLE * MILLION  # parts of a microsecond


@kernel(inline=True)
def pace_of(runs, rows, of):
    """The parts of each microsecond in which a run makes progress that has turns in so many rows of all `of`."""
    return rows * (MULTIPLE // of) * (MILLION if of == 1 else MILLION - runs.switching)


@kernel(inline=True)
def slowest_pace(runs):
    """The least pace of any run: a turn in one row, where there are as many rows as there may be."""
    return pace_of(runs, np.int64(1), runs.rows)


@kernel()
def rows_in(turns):
    """The number of rows in a set of them."""
    count = np.int64(0)
    while turns > 0:
        count += turns & 1
        turns >>= 1
    return count


@kernel()
def made(state, run):
    """The progress of a run up to now: whole microseconds, and parts of one."""
    runs = state.runs
    pace, time = pace_of(runs, rows_in(runs.turns[run]), runs.of[run]), state.now - runs.paced[run]
    parts = (time % WHOLE) * pace + runs.part[run]
    return runs.done[run] + (time // WHOLE) * pace + parts // WHOLE, parts % WHOLE


@kernel()
def keep_pace(state, run):
    """Count the progress of a run up to now, before its pace changes or it is over."""
    runs = state.runs
    runs.done[run], runs.part[run] = made(state, run)
    runs.paced[run] = state.now


@kernel()
def time_for(progress, part, pace):
    """How long so much progress takes at a pace where a part of it is made, rounded up; FUTURE where that is never."""
    if progress <= 0:
        return np.int64(0)
    if float(progress) * (float(WHOLE) / float(pace)) > float(FUTURE) / 4.0:
        return FUTURE
    parts = (progress % pace) * WHOLE - part
    return (progress // pace) * WHOLE - (-parts // pace)


@kernel()
def reaches(state, run, progress):
    """When a run will have made so much progress, if it goes on at its pace."""
    runs = state.runs
    pace = pace_of(runs, rows_in(runs.turns[run]), runs.of[run])
    time = time_for(progress - runs.done[run], runs.part[run], pace)
    return FUTURE if time == FUTURE else runs.paced[run] + time


@kernel()
def longest(state, walltime):
    """How long a job of this walltime stays at most: at the slowest pace, where processors are shared."""
    if state.runs.rows == 1:
        return walltime
    return time_for(walltime, np.int64(0), slowest_pace(state.runs))


@kernel()
def latest_end(state, run):
    """The latest end of a run that goes on, by its progress so far and the slowest pace; not before now."""
    progress, part = made(state, run)
    left = state.jobs.walltime[state.runs.job[run]] - progress
    return state.now + time_for(left, part, slowest_pace(state.runs))
