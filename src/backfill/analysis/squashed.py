"""The squashed machine works on one job at a time and may interrupt it at any moment: docs/reference/bounds.md."""

import numpy as np
from numba import boolean, float64, int64

from backfill.compiler.kernel import kernel
from backfill.model.workload import Ints

AT, AREA, SINCE, HELD = range(4)  # columns of the jobs, in units of processor-time
LOW = (1 << 32) - 1  # sums are kept in two parts: no rounding may hide in the differences of large numbers


@kernel()
def _mean_instant(jobs: Ints, job: int, done: int, now: int) -> float:
    """Return what work that is done from now on adds to the mean instant of work on a job, counted from SINCE."""
    instant: float = done / max(jobs[job, AREA], 1) * (now - jobs[job, SINCE] + done / 2)
    return instant


@kernel()
def _sift_up(heap: Ints, key: Ints, job: int, size: int) -> None:
    """Add a job to a heap, ordered by key, then number."""
    i = size
    while i > 0:
        up = heap[(i - 1) >> 1]
        if key[up] < key[job] or (key[up] == key[job] and up < job):
            break
        heap[i] = up
        i = (i - 1) >> 1
    heap[i] = job


@kernel()
def _sift_down(heap: Ints, key: Ints, job: int, size: int) -> None:
    """Replace the first job of a heap, of `size` without it, by its last one."""
    i = 0
    while 2 * i + 1 < size:
        down = 2 * i + 1
        if down + 1 < size:
            a, b = heap[down], heap[down + 1]
            if key[b] < key[a] or (key[b] == key[a] and b < a):
                down += 1
        below = heap[down]
        if key[job] < key[below] or (key[job] == key[below] and job < below):
            break
        heap[i] = below
        i = down
    heap[i] = job


@kernel(float64, int64[:, ::1], boolean)
def least_wait(jobs: Ints, by_rest: bool) -> float:
    """Return a lower bound of the summed wait of jobs: the sum over the busy periods, each at least 0.

    jobs: released AT, from then on ascending; the AREA of work; SINCE when they wait; the longest time HELD.
    by_rest: the job with the least work left goes first, and ends count; else that of the smallest area, and mean
    instants of work, which are half of HELD before the end in every schedule.
    """
    count, size, now = len(jobs), 0, int64(0)
    key, rest, left = jobs[:, AREA].copy(), jobs[:, AREA].copy(), np.empty(len(jobs), np.int64)
    total, high, low, wait = 0.0, int64(0), int64(0), 0.0
    for number in range(count + 1):
        at = jobs[number, AT] if number < count else int64(1) << 62
        while size > 0 and now + rest[left[0]] <= at:
            job = left[0]
            size -= 1
            _sift_down(left, key, left[size], size)
            if by_rest:
                late = now + rest[job] - jobs[job, SINCE] - jobs[job, HELD]
                high, low = high + (late >> 32), low + (late & LOW)
            else:
                wait += _mean_instant(jobs, job, rest[job], now)
            now += rest[job]
        if size > 0:
            done = at - now
            if by_rest:
                key[left[0]] -= done
            else:
                wait += _mean_instant(jobs, left[0], done, now)
            rest[left[0]] -= done
        else:
            total += max(0.0, float64(high + (low >> 32)) * (LOW + 1) + float64(low & LOW) + wait)
            high, low, wait = int64(0), int64(0), 0.0
        now = at
        if number < count:
            _sift_up(left, key, number, size)
            size += 1
            if not by_rest:
                wait -= jobs[number, HELD] / 2
    return total
