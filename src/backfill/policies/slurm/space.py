"""The table of the backfill loop: records [begin, end) of future time with the nodes that no planned job has.

Source: _add_reservation and _test_resv_overlap in sched/backfill (backfill.c) of Slurm 22.05.8.
In array shapes s is records, w words of a set of nodes. Times are microseconds.
A table is a tuple (count, times, line, clear): record i of count[0] has the time times[i] (s, 2) and the nodes
clear[line[i]] (s, w); `line` (s,) is a permutation, so that a record is inserted without moving sets.
"""

import numpy as np

from backfill.compiler.kernel import kernel
from backfill.core.plan.promises import NO_TIME
from backfill.policies.slurm.bits import NOTHING


@kernel()
def new_table(begin, end, up, most):
    """Return a table with one record, which has the nodes that are up, and room for `most` records and a few."""
    count, times, line = np.ones(1, np.int64), np.empty((most, 2), np.int64), np.arange(most)
    clear = np.empty((most, len(up)), np.uint64)
    times[0, 0], times[0, 1] = begin, end
    clear[0] = up
    return count, times, line, clear


@kernel()
def enlarged(table):
    """Return a table with twice the room."""
    count, times, line, clear = table
    room = len(line)
    more = new_table(times[0, 0], times[0, 1], clear[0], 2 * room)
    more[0][0] = count[0]
    more[1][:room], more[2][:room], more[3][:room] = times, line, clear
    return more


@kernel()
def split(table, row, t):
    """Divide a record at t; both parts have its nodes."""
    count, times, line, clear = table
    place = line[count[0]]
    for i in range(count[0], row + 1, -1):
        times[i, 0], times[i, 1], line[i] = times[i - 1, 0], times[i - 1, 1], line[i - 1]
    line[row + 1] = place
    clear[place] = clear[line[row]]
    times[row + 1, 0], times[row + 1, 1] = t, times[row, 1]
    times[row, 1] = t
    count[0] += 1


@kernel()
def join(table, row):
    """Make one record of a record and the next, whose nodes are equal."""
    count, times, line, _ = table
    place = line[row + 1]
    times[row, 1] = times[row + 1, 1]
    for i in range(row + 1, count[0] - 1):
        times[i, 0], times[i, 1], line[i] = times[i + 1, 0], times[i + 1, 1], line[i + 1]
    count[0] -= 1
    line[count[0]] = place


@kernel()
def are_equal(table, row):
    """Return whether a record and the next one have the same nodes."""
    _, _, line, clear = table
    for i in range(clear.shape[1]):
        if clear[line[row], i] != clear[line[row + 1], i]:
            return False
    return True


@kernel()
def occupy(table, begin, end, taken):
    """Remove a set of nodes on [begin, end) from a table. One pair of equal neighbours becomes one record."""
    count, times, line, clear = table
    begin = max(begin, times[0, 0])
    for bound in (begin, end):
        for row in range(count[0]):
            if times[row, 0] < bound < times[row, 1]:
                split(table, row, bound)
                break
    for row in range(count[0]):
        if times[row, 0] >= begin and times[row, 1] <= end:
            for i in range(len(taken)):
                clear[line[row], i] &= ~taken[i]
    for row in range(count[0] - 1):
        if are_equal(table, row):
            join(table, row)
            return


@kernel()
def is_clear(table, begin, end, taken):
    """Return whether a set of nodes is free in every record that overlaps [begin, end)."""
    count, times, line, clear = table
    for row in range(count[0]):
        if times[row, 1] > begin and times[row, 0] < end:
            for i in range(len(taken)):
                if taken[i] & ~clear[line[row], i] != NOTHING:
                    return False
    return True


@kernel()
def narrow(table, after, end, bits):
    """Remove the nodes from a set that are not free in every record from `after` on that begins by `end`."""
    count, times, line, clear = table
    for row in range(count[0]):
        if times[row, 0] > end:
            return
        if times[row, 1] > after:
            for i in range(len(bits)):
                bits[i] &= clear[line[row], i]


@kernel()
def next_chance(table, after, end, within, recent, so_far):
    """Return the end of the first record behind which nodes of a set (`within`) become free; NO_TIME if there is none.

    They must not be free in all records so far. recent: whether the end of the first record that begins behind `end`,
    the job's, serves otherwise, as from 24.11 on. so_far: (w,), overwritten.
    """
    count, times, line, clear = table
    so_far[:] = ~NOTHING
    for row in range(count[0]):
        if times[row, 1] <= after:
            continue
        if row + 1 < count[0]:
            gained = NOTHING
            for i in range(len(so_far)):
                so_far[i] &= clear[line[row], i]
                gained |= clear[line[row + 1], i] & ~so_far[i] & within[i]
            if gained != NOTHING:
                return times[row, 1]
        if times[row, 0] > end:
            if recent and row + 1 < count[0]:
                return times[row, 1]
            break
    return NO_TIME
