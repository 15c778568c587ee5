"""Binary heaps over plain arrays: the ends of running jobs, and the timers of a policy."""

from backfill.core.record import kernel


@kernel(inline=True)
def push_end(time, serial, job, count, t, s, j):
    """Add (t, s, j) to the heap of ends, ordered by time, then start. Returns the new count."""
    i = count
    while i > 0:
        up = (i - 1) >> 1
        if time[up] < t or (time[up] == t and serial[up] < s):
            break
        time[i], serial[i], job[i] = time[up], serial[up], job[up]
        i = up
    time[i], serial[i], job[i] = t, s, j
    return count + 1


@kernel(inline=True)
def pop_end(time, serial, job, count):
    """Remove the first end; the caller has read it at [0]. Returns the new count."""
    count -= 1
    t, s, j = time[count], serial[count], job[count]
    i = 0
    while True:
        down = 2 * i + 1
        if down >= count:
            break
        right = down + 1
        if right < count and (time[right] < time[down] or (time[right] == time[down] and serial[right] < serial[down])):
            down = right
        if t < time[down] or (t == time[down] and s < serial[down]):
            break
        time[i], serial[i], job[i] = time[down], serial[down], job[down]
        i = down
    time[i], serial[i], job[i] = t, s, j
    return count


@kernel()
def push_timer(timers, count, t):
    """Add an instant to a heap of instants. Returns the new count."""
    i = count
    while i > 0 and timers[(i - 1) >> 1] > t:
        timers[i] = timers[(i - 1) >> 1]
        i = (i - 1) >> 1
    timers[i] = t
    return count + 1


@kernel()
def pop_timer(timers, count):
    """Remove the earliest instant. Returns the new count."""
    count -= 1
    t = timers[count]
    i = 0
    while 2 * i + 1 < count:
        down = 2 * i + 1
        if down + 1 < count and timers[down + 1] < timers[down]:
            down += 1
        if timers[down] >= t:
            break
        timers[i] = timers[down]
        i = down
    timers[i] = t
    return count
