"""Binary heaps over plain arrays: the ends of runs, and the timers of a policy."""

from backfill.compiler.kernel import kernel


@kernel(inline=True)
def push_end(time, run, count, t, r):
    """Add (t, r) to the heap of ends, ordered by time, then run (the order of starts). Return the new count."""
    i = count
    while i > 0:
        up = (i - 1) >> 1
        if time[up] < t or (time[up] == t and run[up] < r):
            break
        time[i], run[i] = time[up], run[up]
        i = up
    time[i], run[i] = t, r
    return count + 1


@kernel(inline=True)
def pop_end(time, run, count):
    """Remove the first end; the caller has read it at [0]. Return the new count."""
    count -= 1
    t, r = time[count], run[count]
    i = 0
    while True:
        down = 2 * i + 1
        if down >= count:
            break
        right = down + 1
        if right < count and (time[right] < time[down] or (time[right] == time[down] and run[right] < run[down])):
            down = right
        if t < time[down] or (t == time[down] and r < run[down]):
            break
        time[i], run[i] = time[down], run[down]
        i = down
    time[i], run[i] = t, r
    return count


@kernel()
def push_timer(timers, count, t):
    """Add an instant to a heap of instants. Return the new count."""
    i = count
    while i > 0 and timers[(i - 1) >> 1] > t:
        timers[i] = timers[(i - 1) >> 1]
        i = (i - 1) >> 1
    timers[i] = t
    return count + 1


@kernel()
def pop_timer(timers, count):
    """Remove the earliest instant. Return the new count."""
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
