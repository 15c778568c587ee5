"""The pace of runs that share processors: rows of runs take turns, and a run progresses only in its own turns.

A pace is a whole number of parts of WHOLE, so progress is exact: whole microseconds plus parts of one, which are
carried over when the pace changes.
"""

import numpy as np

from backfill.compiler.kernel import kernel
from backfill.core.plan.profile import FUTURE

MILLION = np.int64(1_000_000)
MULTIPLE = np.int64(2520)  # a multiple of every number of rows
WHOLE = MULTIPLE * MILLION  # parts in a microsecond


@kernel(inline=True)
def pace_of(runs, rows, of):
    """Return the progress per microsecond, in parts, of a run with turns in this many of `of` rows."""
    return rows * (MULTIPLE // of) * (MILLION if of == 1 else MILLION - runs.switching)


@kernel(inline=True)
def slowest_pace(runs):
    """Return the slowest pace of any run: turns in one row out of the largest number of rows."""
    return pace_of(runs, np.int64(1), runs.rows)


@kernel()
def rows_in(turns):
    """Return the number of rows in a set of rows."""
    count = np.int64(0)
    while turns > 0:
        count += turns & 1
        turns >>= 1
    return count


@kernel()
def made(state, run):
    """Return the progress of a run up to now: whole microseconds, and parts of one."""
    runs = state.runs
    pace, time = pace_of(runs, rows_in(runs.turns[run]), runs.of[run]), state.now - runs.paced[run]
    parts = (time % WHOLE) * pace + runs.part[run]
    return runs.done[run] + (time // WHOLE) * pace + parts // WHOLE, parts % WHOLE


@kernel()
def keep_pace(state, run):
    """Add up the progress of a run up to now, before its pace changes or it ends."""
    runs = state.runs
    runs.done[run], runs.part[run] = made(state, run)
    runs.paced[run] = state.now


@kernel()
def time_for(progress, part, pace):
    """Return the time needed for this progress at a pace with parts already made, rounded up; FUTURE if never."""
    if progress <= 0:
        return np.int64(0)
    if float(progress) * (float(WHOLE) / float(pace)) > float(FUTURE) / 4.0:
        return FUTURE
    parts = (progress % pace) * WHOLE - part
    return (progress // pace) * WHOLE - (-parts // pace)


@kernel()
def reaches(state, run, progress):
    """Return when a run will have made this progress, if it keeps its pace."""
    runs = state.runs
    pace = pace_of(runs, rows_in(runs.turns[run]), runs.of[run])
    time = time_for(progress - runs.done[run], runs.part[run], pace)
    return FUTURE if time == FUTURE else runs.paced[run] + time


@kernel()
def longest(state, walltime):
    """Return the longest stay of a job of this walltime: at the slowest pace, if processors are shared."""
    if state.runs.rows == 1:
        return walltime
    return time_for(walltime, np.int64(0), slowest_pace(state.runs))


@kernel()
def latest_end(state, run):
    """Return the latest end of a current run, by its progress so far and the slowest pace; not before now."""
    progress, part = made(state, run)
    left = state.jobs.walltime[state.runs.job[run]] - progress
    return state.now + time_for(left, part, slowest_pace(state.runs))
