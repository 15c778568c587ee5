"""The table of the backfill loop: records [begin, end) of future time with the nodes that no planned job has.

Source: _add_reservation and _test_resv_overlap in sched/backfill (backfill.c) of Slurm 22.05.8.
In array shapes s is records, w words of a set of nodes, l licences. Times are microseconds.
"""

import numpy as np
from numba import int64, uint64

from backfill.compiler.kernel import kernel
from backfill.compiler.record import record, shift_back, shift_forward
from backfill.compiler.word import ones
from backfill.core.plan.promises import NO_TIME
from backfill.policies.slurm.bits import NOTHING, size

LOSES, GAINS, EQUAL = np.int64(0), np.int64(1), np.int64(2)

TABLE = [
    ("count", int64),  # number of records
    ("made", int64),  # how many Slurm has made for them, which bf_node_space_size limits: also those joined since
    ("headed", int64),  # 1: one of these has no length, before the first plan that begins with the table
    ("times", int64[:, ::1]),  # (s, 2): begin and end of each
    ("line", int64[::1]),  # (s,): its row in `clear` and `many`, a permutation: records are inserted, sets stay
    ("clear", uint64[:, ::1]),  # (s, w): its nodes
    ("many", int64[::1]),  # (s,): their number
    ("open", int64[::1]),  # (s,): at most so many of them have anything free at some instant of the record
    ("step", int64[::1]),  # (s,): how the nodes of the next record differ
    ("copies", int64[:, ::1]),  # (s, l): of each licence, if bf_licenses; by `line`
    # a window that slides over the table for one job, see `slide`
    ("row", int64),  # the first record that it has not left behind
    ("within", uint64[::1]),  # (w,): the nodes of its partition
    ("whole", int64),  # 1: these are all nodes that are up
    ("common", uint64[:, ::1]),  # (s, w): the nodes that all records from each up to `turn` have
    ("turn", int64),
    ("front", uint64[::1]),  # (w,): the nodes that the records from there up to `last` have
    ("last", int64),
]
Table, TableT = record("Table", TABLE, globals())


@kernel()
def new_table(begin, end, up, copies, most):
    """Return a table with one record, which has the nodes that are up and these copies of licences, and room for `most`
    records.
    """
    table = Table(
        count=1,
        made=1,
        headed=0,
        times=np.empty((most, 2), np.int64),
        line=np.arange(most),
        clear=np.empty((most, len(up)), np.uint64),
        many=np.empty(most, np.int64),
        open=np.empty(most, np.int64),
        step=np.empty(most, np.int64),
        copies=np.empty((most, len(copies)), np.int64),
        row=0,
        within=np.empty(len(up), np.uint64),
        whole=0,
        common=np.empty((most, len(up)), np.uint64),
        turn=0,
        front=np.empty(len(up), np.uint64),
        last=0,
    )
    table.times[0, 0], table.times[0, 1] = begin, end
    for i in range(len(up)):
        table.clear[0, i] = up[i]
    table.many[0] = table.open[0] = size(up)
    for i in range(len(copies)):
        table.copies[0, i] = copies[i]
    table.step[0] = LOSES
    return table


@kernel()
def split(table, row, t):
    """Divide a record at t; both parts have its nodes."""
    times, line, clear, many, step, count = table.times, table.line, table.clear, table.many, table.step, table.count
    place = line[count]
    for i in range(count, row + 1, -1):
        times[i, 0], times[i, 1] = times[i - 1, 0], times[i - 1, 1]
    shift_back(line, row + 1, count)
    shift_back(step, row + 1, count)
    line[row + 1] = place
    for i in range(clear.shape[1]):
        clear[place, i] = clear[line[row], i]
    for i in range(table.copies.shape[1]):
        table.copies[place, i] = table.copies[line[row], i]
    many[place], table.open[place] = many[line[row]], table.open[line[row]]
    times[row + 1, 0], times[row + 1, 1] = t, times[row, 1]
    times[row, 1] = t
    step[row + 1], step[row] = step[row], EQUAL
    table.count += 1
    table.made += 1


@kernel()
def join(table, row):
    """Make one record of a record and the next, whose nodes are equal."""
    times, line, step, count = table.times, table.line, table.step, table.count
    place = line[row + 1]
    table.open[line[row]] = table.open[place]
    times[row, 1], step[row] = times[row + 1, 1], step[row + 1]
    for i in range(row + 1, count - 1):
        times[i, 0], times[i, 1] = times[i + 1, 0], times[i + 1, 1]
    shift_forward(line, row + 1, count)
    shift_forward(step, row + 1, count)
    table.count -= 1
    line[count - 1] = place


@kernel()
def compare(table, row):
    """Write to `step` how the nodes of the next record differ from those of a record."""
    gained, lost, clear = NOTHING, NOTHING, table.clear
    one, other = table.line[row], table.line[row + 1]
    for i in range(clear.shape[1]):
        gained |= clear[other, i] & ~clear[one, i]
        lost |= clear[one, i] & ~clear[other, i]
    for i in range(table.copies.shape[1]):
        lost |= np.uint64(table.copies[one, i] != table.copies[other, i])
    table.step[row] = GAINS if gained != NOTHING else EQUAL if lost == NOTHING else LOSES


@kernel()
def occupy(table, begin, end, taken, copies, free):
    """Remove a set of nodes, and copies (l,) of licences, on [begin, end) from a table. Of the records from the second
    one before these to the one behind them, the first pair of equal neighbours becomes one record.

    free: whether these nodes are known to be free in all of these records, and to have something free from `begin` on;
    then only the first and the last of them differ otherwise from their neighbours than before.
    """
    times, clear, many, open_nodes, step = table.times, table.clear, table.many, table.open, table.step
    begin = max(begin, times[0, 0])
    if begin == times[0, 0] and table.headed == 0:
        table.made, table.headed = table.made + 1, 1
    for bound in (begin, end):
        row = first_ending_after(table, bound)
        if row < table.count and times[row, 0] < bound:
            split(table, row, bound)
    first = first_ending_after(table, begin)
    row, fewer = first, size(taken)
    while row < table.count and times[row, 1] <= end:
        place, left = table.line[row], np.int64(0)
        for i in range(len(taken)):
            clear[place, i] &= ~taken[i]
            left += ones(clear[place, i])
        many[place] = many[place] - fewer if free else left
        open_nodes[place] = open_nodes[place] - fewer if free else min(open_nodes[place], left)
        for i in range(len(copies)):
            table.copies[place, i] -= copies[i]
        row += 1
    for i in range(max(first - 1, 0), min(row, table.count - 1)):
        if not free or i < first or i == row - 1:
            compare(table, i)
    for i in range(max(first - 2, 0), min(row, table.count - 1)):
        if step[i] == EQUAL:
            join(table, i)
            return


@kernel()
def tighten(table, t, having):
    """Lower `open` of the record that ends at t to its nodes in `having`, those with anything free by then."""
    row, many = first_ending_after(table, t) - 1, np.int64(0)
    if row >= 0:
        place = table.line[row]
        for i in range(len(having)):
            many += ones(table.clear[place, i] & having[i])
        table.open[place] = min(table.open[place], many)


@kernel(inline=True)
def first_ending_after(table, t):
    """Return the index of the first record that ends after t."""
    low, high, times = 0, table.count, table.times
    while low < high:
        middle = (low + high) >> 1
        if times[middle, 1] > t:
            high = middle
        else:
            low = middle + 1
    return low


@kernel()
def is_clear(table, begin, end, taken, after, until):
    """Return whether a set of nodes is free in every record that overlaps [begin, end). That is known of those behind
    `after` that begin by `until`.
    """
    times, clear = table.times, table.clear
    for row in range(first_ending_after(table, begin), table.count):
        if times[row, 0] >= end:
            break
        if times[row, 1] > after and times[row, 0] <= until:
            continue
        place = table.line[row]
        for i in range(len(taken)):
            if taken[i] & ~clear[place, i] != NOTHING:
                return False
    return True


@kernel()
def last_lacking(table, begin, end, copies):
    """Return the end of the last record that ends after `begin`, begins by `end`, and has fewer copies of a licence
    than these (l,); NO_TIME if none has.
    """
    found, times = NO_TIME, table.times
    for row in range(first_ending_after(table, begin), table.count):
        if times[row, 0] > end:
            break
        for i in range(len(copies)):
            if table.copies[table.line[row], i] < copies[i]:
                found = times[row, 1]
    return found


@kernel(inline=True)
def slot(own, begin, length, resolution):
    """Return begin and end of a plan in the table."""
    first, last = begin // resolution * resolution, begin + length
    last = -(-last // resolution) * resolution if own.version >= 24.11 else last // resolution * resolution
    return first, max(last, first + resolution)


@kernel()
def has_begin_within(table, after, until):
    """Return whether a record begins later than one instant and not later than another."""
    row = first_ending_after(table, after)
    if row < table.count and table.times[row, 0] <= after:
        row += 1
    return row < table.count and table.times[row, 0] <= until


@kernel(inline=True)
def narrow(table, after, end, bits):
    """Remove the nodes from a set that are not free in every record from `after` on that begins by `end`."""
    times, clear = table.times, table.clear
    for row in range(first_ending_after(table, after), table.count):
        if times[row, 0] > end:
            return
        place = table.line[row]
        for i in range(len(bits)):
            bits[i] &= clear[place, i]


@kernel()
def begin_windows(table, sets, part):
    """Begin anew with windows over the table, for a job in a partition."""
    within, others = table.within, NOTHING
    for i in range(len(within)):
        within[i] = sets.of[part, i]
        others |= sets.up[i] & ~within[i]
    table.whole = np.int64(others == NOTHING)
    rewind_windows(table)


@kernel(inline=True)
def rewind_windows(table):
    """Begin again with the first window of the same job."""
    table.row = table.turn = table.last = 0


@kernel(inline=True)
def go_to(table, t):
    """Return the index of the first record that ends after t, which only grows from call to call for one job."""
    row, times, count = table.row, table.times, table.count
    while row < count and times[row, 1] <= t:
        row += 1
    table.row = row
    return row


@kernel()
def slide(table, after, end, bits):
    """Write to a set those nodes of the partition that are free in every record from `after` on that begins by `end`,
    as `narrow` does, and return their number. Both instants only grow from call to call while the table stays.

    The records before `turn` are joined from it backwards, in `common`, those from there to `last` in `front`.
    """
    times, line, clear, within = table.times, table.line, table.clear, table.within
    common, front, many = table.common, table.front, np.int64(0)
    first = go_to(table, after)
    if first >= table.turn:
        last = first
        while last < table.count and times[last, 0] <= end:
            last += 1
        table.turn = table.last = last
        for row in range(last - 1, first - 1, -1):
            place = line[row]
            if row == last - 1:
                for i in range(len(within)):
                    common[row, i] = within[i] & clear[place, i]
            else:
                for i in range(len(within)):
                    common[row, i] = common[row + 1, i] & clear[place, i]
        for i in range(len(within)):
            front[i] = within[i]
    while table.last < table.count and times[table.last, 0] <= end:
        place = line[table.last]
        for i in range(len(within)):
            front[i] &= clear[place, i]
        table.last += 1
    if first < table.turn:
        for i in range(len(within)):
            both = common[first, i] & front[i]
            bits[i] = both
            many += ones(both)
    else:
        for i in range(len(within)):
            bits[i] = front[i]
            many += ones(front[i])
    return many


@kernel()
def next_chance(table, after, end, recent):
    """Return the end of the first record behind which nodes of the partition become free; NO_TIME if there is none.

    So these are not free in all records so far. recent: whether the end of the record after the first one that begins
    behind `end`, the job's, serves otherwise, unless it is the last, as from 24.11 on.
    """
    times, step, whole = table.times, table.step, table.whole != 0
    for row in range(go_to(table, after), table.count):
        if step[row] == GAINS and row + 1 < table.count and (whole or gains(table, row)):
            return times[row, 1]
        if times[row, 0] > end:
            if recent and row + 2 < table.count:
                return times[row + 1, 1]
            break
    return NO_TIME


@kernel(inline=True)
def gains(table, row):
    """Return whether the next record has nodes of the partition that this one has not."""
    one, other, clear, within, gained = table.line[row], table.line[row + 1], table.clear, table.within, NOTHING
    for i in range(len(within)):
        gained |= clear[other, i] & ~clear[one, i] & within[i]
    return gained != NOTHING
