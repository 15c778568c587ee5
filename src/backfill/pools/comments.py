"""The queue's part of the comment of a job in Slurm, for its user to read: `squeue -o "%i %k"`.

It stands behind the user's own comment: `mine[backfill:start=2026-11-25T16:30]`. It has no space, because scontrol
would keep the quotes that a space needs.
"""

import re
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress

from backfill.pools.base import Identity
from backfill.pools.seen import WAITING, JobNow
from backfill.queue.job import Job
from backfill.queue.states import PENDING

PART = re.compile(r"\[backfill:([^\]]*)\]")
KEPT = "held"  # the part of a job held by its user while an operator's hold is on it as well; see setup.FILTER
START, STAMP = "start=", "%Y-%m-%dT%H:%M"
MOVED = 60  # seconds by which a start must have changed to be written again


def part_of(comment: str) -> str:
    """Return the queue's part of a comment; empty if there is none."""
    found = PART.search(comment)
    return found[1] if found else ""


def with_part(comment: str, part: str) -> str:
    """Return a comment with its queue's part replaced; an empty part is left out."""
    own = PART.sub("", comment)
    return f"{own}[backfill:{part}]" if part else own


def published(
    jobs: Iterable[JobNow], known: Mapping[Identity, Job], promises: Mapping[int, int], skew: int
) -> list[tuple[str, str]]:
    """Return the jobs whose comments do not show the start that is promised now, each with its new comment.

    promises: starts by job number of the queue, on the queue clock. skew: calendar time minus queue clock.
    """
    found = []
    for now in jobs:
        part = part_of(now.comment)
        if not now.managed or part == KEPT:
            continue
        job = known.get(now.identity)
        waits = job is not None and now.state == WAITING and job.state == PENDING and not job.held
        promise = promises.get(job.id) if job is not None and waits else None
        if promise is None:
            if part:
                found.append((now.native, with_part(now.comment, "")))
            continue
        start = -(-(promise + skew) // 60_000_000) * 60  # rounded up to a minute
        if abs(start - _start_in(part)) > MOVED:
            stamp = time.strftime(STAMP, time.localtime(start))
            found.append((now.native, with_part(now.comment, START + stamp)))
    return found


def _start_in(part: str) -> float:
    """Return the start in a queue's part, in seconds since 1970; 0 if there is none."""
    with suppress(ValueError, OverflowError):
        return time.mktime(time.strptime(part.removeprefix(START), STAMP))
    return 0.0
