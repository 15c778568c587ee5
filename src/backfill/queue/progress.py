"""The progress that preempted jobs keep, by suspension or by checkpoints."""

from collections.abc import Iterator

from backfill.pools.base import Verdict
from backfill.queue import commands
from backfill.queue.book import Book
from backfill.queue.events import End, Kept
from backfill.queue.job import REQUEUE, SUSPEND, Job
from backfill.queue.nodes import Placement
from backfill.queue.states import NODE_FAIL, PENDING


def kept(job: Job, verdict: Verdict, found: bool, ended: int) -> Kept | None:
    """Return the progress of a job whose preempted attempt is over; None for one that starts over in any case.

    found: the time of the preemption is unknown. ended: when its attempt ended.
    """
    if not job.keeps:
        return None
    if found or verdict.kind == "unknown" or verdict.record.get("cause") == REQUEUE:
        return Kept(job.id)
    ran = 0 if verdict.kind == "unstarted" else max(ended - job.current.start, 0)
    return Kept(job.id, job.done + ran, job.keeps)


def lost(book: Book) -> Iterator[Kept | End]:
    """Yield the fate of jobs that were suspended on a node which is gone, or no longer has what they held there."""
    nodes = book.nodes
    for job in [one for one in book.jobs.values() if one.keeps == SUSPEND and one.state == PENDING]:
        licences = () if book.platform else job.need.keys() - {*commands.PER_PART}  # a suspended job holds no licences
        held = [one for one in nodes.parts(job.need, job.stood) if one[0] and one[1] not in licences]
        if all(amount <= nodes.there.get(place, {}).get(name, 0) for place, name, amount in held):
            continue
        yield Kept(job.id) if job.requeue else End(job.id, NODE_FAIL, "NodeFail")


def same_places(placement: Placement, others: Placement) -> bool:
    """Return whether two placements have equally many tasks on the same nodes."""
    return sorted([*one[:2]] for one in placement) == sorted([*one[:2]] for one in others)
