"""The squashed machine works on one job at a time and may interrupt it at any moment: docs/reference/bounds.md."""

from heapq import heappop, heappush

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


@kernel(float64, int64[:, ::1], boolean)
def least_wait(jobs: Ints, by_rest: bool) -> float:
    """Return a lower bound of the summed wait of jobs: the sum over the busy periods, each at least 0.

    jobs: released AT, from then on ascending; the AREA of work; SINCE when they wait; the longest time HELD.
    by_rest: the job with the least work left goes first, and ends count; else that of the smallest area, and mean
    instants of work, which are half of HELD before the end in every schedule.
    """
    count, now, rest = len(jobs), int64(0), jobs[:, AREA].copy()
    left = [(int64(0), int64(0)) for _ in range(0)]  # a heap: what decides who goes first, and the number of the job
    total, high, low, wait = 0.0, int64(0), int64(0), 0.0
    for number in range(count + 1):
        at = jobs[number, AT] if number < count else int64(1) << 62
        while left and now + rest[left[0][1]] <= at:
            job = heappop(left)[1]
            if by_rest:
                late = now + rest[job] - jobs[job, SINCE] - jobs[job, HELD]
                high, low = high + (late >> 32), low + (late & LOW)
            else:
                wait += _mean_instant(jobs, job, rest[job], now)
            now += rest[job]
        if left:
            done, (area, job) = at - now, left[0]
            if by_rest:
                left[0] = (area - done, job)
            else:
                wait += _mean_instant(jobs, job, done, now)
            rest[job] -= done
        else:
            total += max(0.0, float64(high + (low >> 32)) * (LOW + 1) + float64(low & LOW) + wait)
            high, low, wait = int64(0), int64(0), 0.0
        now = at
        if number < count:
            heappush(left, (jobs[number, AREA], number))
            if not by_rest:
                wait -= jobs[number, HELD] / 2
    return total
