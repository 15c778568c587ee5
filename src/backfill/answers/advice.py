"""Starts that the policy of a queue that only watches would have made before its batch system did."""

from collections.abc import Iterable, Iterator
from statistics import median

from backfill.model.units import time_text
from backfill.queue.job import Job


def advice_text(jobs: Iterable[Job]) -> Iterator[str]:
    """Yield one line about the jobs that the policy would have started earlier; nothing if there are none.

    The times are never summed: each is that of one job alone, as if no other job had started earlier.
    """
    starts = [(job.start, job.advised) for job in jobs if job.native and job.start is not None]
    ahead = sorted(start - advised for start, advised in starts if advised is not None and start > advised)
    if ahead:
        yield (
            f"of {len(starts):,} jobs that were seen to start, the policy of the queue would have started "
            f"{len(ahead):,} earlier, by {time_text(round(median(ahead)))} in the median and {time_text(ahead[-1])} "
            "at most; each for itself, as if no other had started earlier"
        )
