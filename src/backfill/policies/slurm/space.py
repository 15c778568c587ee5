"""The table of the backfill loop: records [begin, end) of future time with the nodes that no planned job has.

Source: _add_reservation and _test_resv_overlap in sched/backfill (backfill.c) of Slurm 22.05.8.
In array shapes s is records, m nodes. Times are microseconds.
"""

from backfill.compiler.kernel import kernel


@kernel()
def split(times, clear, count, row, t):
    """Divide a record at t; both parts have its nodes. Return the number of records."""
    for i in range(count, row + 1, -1):
        times[i, 0], times[i, 1] = times[i - 1, 0], times[i - 1, 1]
        clear[i, :] = clear[i - 1, :]
    times[row + 1, 0], times[row + 1, 1] = t, times[row, 1]
    clear[row + 1, :] = clear[row, :]
    times[row, 1] = t
    return count + 1


@kernel()
def occupy(times, clear, count, begin, end, taken):
    """Remove the nodes with taken > 0 on [begin, end) from a table. Return the number of records.

    times: (s, 2), ascending. clear: int8 (s, m). One pair of equal neighbours becomes one record.
    """
    begin = max(begin, times[0, 0])
    for bound in (begin, end):
        for row in range(count):
            if times[row, 0] < bound < times[row, 1]:
                count = split(times, clear, count, row, bound)
                break
    for row in range(count):
        if times[row, 0] >= begin and times[row, 1] <= end:
            for node in range(len(taken)):
                if taken[node] > 0:
                    clear[row, node] = 0
    for row in range(count - 1):
        if (clear[row] == clear[row + 1]).all():
            times[row, 1] = times[row + 1, 1]
            for i in range(row + 1, count - 1):
                times[i, 0], times[i, 1] = times[i + 1, 0], times[i + 1, 1]
                clear[i, :] = clear[i + 1, :]
            return count - 1
    return count


@kernel()
def is_clear(times, clear, count, begin, end, taken):
    """Return whether all nodes with taken > 0 are free in every record that overlaps [begin, end)."""
    for row in range(count):
        if times[row, 1] > begin and times[row, 0] < end:
            for node in range(len(taken)):
                if taken[node] > 0 and clear[row, node] == 0:
                    return False
    return True
