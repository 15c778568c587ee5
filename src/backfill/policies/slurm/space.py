"""The table of the backfill loop: records [begin, end) of future time with the nodes that no planned job has.

Source: _add_reservation and _test_resv_overlap in sched/backfill (backfill.c) of Slurm 22.05.8.
In array shapes s is records, w words of a set of nodes. Times are microseconds.
A table is a tuple (count, times, line, clear, step, many, common): record i of count[0] has the time times[i] (s, 2)
and the nodes clear[line[i]] (s, w), many[line[i]] (s,); `line` (s,) is a permutation, so that a record is inserted
without moving sets. step (s,) says how the nodes of the next record differ. common (s, w) is what `slide` works on.
"""

import numpy as np

from backfill.compiler.kernel import kernel
from backfill.core.plan.promises import NO_TIME
from backfill.policies.slurm.bits import NOTHING, size

LOSES, GAINS, EQUAL = np.int8(0), np.int8(1), np.int8(2)


@kernel()
def new_table(begin, end, up, most):
    """Return a table with one record, which has the nodes that are up, and room for `most` records."""
    count, times, line = np.ones(1, np.int64), np.empty((most, 2), np.int64), np.arange(most)
    clear, step, many = np.empty((most, len(up)), np.uint64), np.zeros(most, np.int8), np.empty(most, np.int64)
    times[0, 0], times[0, 1] = begin, end
    clear[0], many[0] = up, size(up)
    return count, times, line, clear, step, many, np.empty_like(clear)


@kernel()
def enlarged(table):
    """Return a table with twice the room."""
    count, times, line, clear, step, many, _ = table
    room = len(line)
    more = new_table(times[0, 0], times[0, 1], clear[0], 2 * room)
    more[0][0] = count[0]
    more[1][:room], more[2][:room], more[3][:room], more[4][:room], more[5][:room] = times, line, clear, step, many
    return more


@kernel()
def split(table, row, t):
    """Divide a record at t; both parts have its nodes."""
    count, times, line, clear, step, many, _ = table
    place = line[count[0]]
    for i in range(count[0], row + 1, -1):
        times[i, 0], times[i, 1] = times[i - 1, 0], times[i - 1, 1]
    for i in range(count[0], row + 1, -1):
        line[i] = line[i - 1]
    for i in range(count[0], row + 1, -1):
        step[i] = step[i - 1]
    line[row + 1] = place
    clear[place], many[place] = clear[line[row]], many[line[row]]
    times[row + 1, 0], times[row + 1, 1] = t, times[row, 1]
    times[row, 1] = t
    step[row + 1], step[row] = step[row], EQUAL
    count[0] += 1


@kernel()
def join(table, row):
    """Make one record of a record and the next, whose nodes are equal."""
    count, times, line, _, step, _, _ = table
    place = line[row + 1]
    times[row, 1], step[row] = times[row + 1, 1], step[row + 1]
    for i in range(row + 1, count[0] - 1):
        times[i, 0], times[i, 1] = times[i + 1, 0], times[i + 1, 1]
    for i in range(row + 1, count[0] - 1):
        line[i] = line[i + 1]
    for i in range(row + 1, count[0] - 1):
        step[i] = step[i + 1]
    count[0] -= 1
    line[count[0]] = place


@kernel()
def compare(table, row):
    """Write to `step` how the nodes of the next record differ from those of a record."""
    _, _, line, clear, step, _, _ = table
    gained = lost = NOTHING
    one, other = line[row], line[row + 1]
    for i in range(clear.shape[1]):
        gained |= clear[other, i] & ~clear[one, i]
        lost |= clear[one, i] & ~clear[other, i]
    step[row] = GAINS if gained != NOTHING else EQUAL if lost == NOTHING else LOSES


@kernel()
def occupy(table, begin, end, taken, free):
    """Remove a set of nodes on [begin, end) from a table. One pair of equal neighbours becomes one record.

    free: whether these nodes are known to be free in all of these records; then only the first and the last of them
    differ otherwise from their neighbours than before.
    """
    count, times, line, clear, step, many, _ = table
    begin = max(begin, times[0, 0])
    for bound in (begin, end):
        row = first_ending_after(times, count[0], bound)
        if row < count[0] and times[row, 0] < bound:
            split(table, row, bound)
    first = first_ending_after(times, count[0], begin)
    row, fewer = first, size(taken) if free else np.int64(0)
    while row < count[0] and times[row, 1] <= end:
        place = line[row]
        for i in range(len(taken)):
            clear[place, i] &= ~taken[i]
        many[place] = many[place] - fewer if free else size(clear[place])
        row += 1
    for i in range(max(first - 1, 0), min(row, count[0] - 1)):
        if not free or i < first or i == row - 1:
            compare(table, i)
    for i in range(count[0] - 1):
        if step[i] == EQUAL:
            join(table, i)
            return


@kernel(inline=True)
def first_ending_after(times, count, t):
    """Return the index of the first of so many records that ends after t."""
    low, high = 0, count
    while low < high:
        middle = (low + high) >> 1
        if times[middle, 1] > t:
            high = middle
        else:
            low = middle + 1
    return low


@kernel(inline=True)
def is_clear(count, times, line, clear, begin, end, taken, after, until):
    """Return whether a set of nodes is free in every record that overlaps [begin, end). That is known of those behind
    `after` that begin by `until`.
    """
    for row in range(first_ending_after(times, count[0], begin), count[0]):
        if times[row, 0] >= end:
            break
        if times[row, 1] > after and times[row, 0] <= until:
            continue
        place = line[row]
        for i in range(len(taken)):
            if taken[i] & ~clear[place, i] != NOTHING:
                return False
    return True


@kernel(inline=True)
def narrow(count, times, line, clear, after, end, bits):
    """Remove the nodes from a set that are not free in every record from `after` on that begins by `end`."""
    for row in range(first_ending_after(times, count[0], after), count[0]):
        if times[row, 0] > end:
            return
        place = line[row]
        for i in range(len(bits)):
            bits[i] &= clear[place, i]


@kernel(inline=True)
def slide(count, times, line, clear, common, after, end, within, front, turn, bits):
    """Write to a set those nodes of another one (`within`) that are free in every record from `after` on that begins by
    `end`, as `narrow` does. Both instants only grow from call to call while the table stays, or turn[0] is set to 0.

    The records before turn[0] are joined from it backwards, in `common`, those from there to turn[1] in `front` (w,).
    """
    first = first_ending_after(times, count[0], after)
    if first >= turn[0]:
        last = first
        while last < count[0] and times[last, 0] <= end:
            last += 1
        turn[0] = turn[1] = last
        for i in range(len(within)):
            front[i] = within[i]
        for row in range(last - 1, first - 1, -1):
            place = line[row]
            for i in range(len(within)):
                front[i] &= clear[place, i]
                common[row, i] = front[i]
        for i in range(len(within)):
            front[i] = within[i]
    while turn[1] < count[0] and times[turn[1], 0] <= end:
        place = line[turn[1]]
        for i in range(len(within)):
            front[i] &= clear[place, i]
        turn[1] += 1
    if first < turn[0]:
        for i in range(len(within)):
            bits[i] = common[first, i] & front[i]
    else:
        for i in range(len(within)):
            bits[i] = front[i]


@kernel(inline=True)
def next_chance(count, times, line, clear, step, after, end, within, recent):
    """Return the end of the first record behind which nodes of a set (`within`) become free; NO_TIME if there is none.

    So these are not free in all records so far. recent: whether the end of the record after the first one that begins
    behind `end`, the job's, serves otherwise, unless it is the last, as from 24.11 on.
    """
    for row in range(first_ending_after(times, count[0], after), count[0]):
        if row + 1 < count[0] and step[row] == GAINS:
            one, other = line[row], line[row + 1]
            for i in range(len(within)):
                if clear[other, i] & ~clear[one, i] & within[i] != NOTHING:
                    return times[row, 1]
        if times[row, 0] > end:
            if recent and row + 2 < count[0]:
                return times[row + 1, 1]
            break
    return NO_TIME
