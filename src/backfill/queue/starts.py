"""Check by the book, independently of the policy, whether a job that the policy starts can start."""

from collections.abc import Iterator

from backfill.queue import progress
from backfill.queue.book import Book
from backfill.queue.events import Kept, Start, Withdrawn
from backfill.queue.job import PREEMPT, SUSPEND, Job
from backfill.queue.nodes import Placement
from backfill.queue.states import PENDING


def events_of(
    job: Job, start: int, why: str, nodes: Placement | None, book: Book, late: int, instance: str
) -> list[Kept | Start]:
    """Return the events of a start, which is the last of them; none if the job's resources are not free there.

    nodes: if the queue has a platform. late: see Engine. instance: see pools.base.BatchSystem.
    """
    if job.state != PENDING or not book.fits(job, book.placed(job, nodes)):
        return []
    cpus, gpus = book.placement(job) if book.cpu_ids else ([], [])
    needed = [job.tasks * job.need.get(name, 0) for name in ("cpus", "gpus")]
    if book.cpu_ids and [len(cpus), len(gpus)] != needed:
        return []
    found: list[Kept | Start] = []
    if job.keeps == SUSPEND and not progress.same_places(book.placed(job, nodes), job.stood):
        found.append(Kept(job.id))  # by a policy that does not know where it was
    due = None if job.due is None else job.due.start
    slip = slip_of(job, start, book, late)
    return [*found, Start(job.id, job.attempts + 1, start, why, cpus, gpus, nodes, due, slip, instance)]


def slip_of(job: Job, start: int, book: Book, late: int) -> str:
    """Return why a job starts later than promised, `bug` if nothing that happened explains it; empty if it does not."""
    if job.promise is None or start <= job.promise + late:
        return ""
    if job.due is not None and job.due.start <= job.promise + late:
        return PREEMPT
    return book.trouble(job.promised, start) or "bug"


def behind(job: Job, nodes: Placement, book: Book) -> list[int]:
    """Return the jobs whose preempted attempts still hold something that a job needs on these nodes."""
    wanted = {(place, name) for place, name, _ in book.nodes.parts(job.need, nodes)}
    some = (book.jobs[number] for number in sorted(book.yielding))
    return [one.id for one in some if any((place, name) in wanted for place, name, _ in book.parts(one))]


def unmet(book: Book) -> Iterator[Withdrawn]:
    """Yield the due jobs that no longer fit, even after all preempted attempts end; the last decision first.

    Withdraw each before requesting the next one.
    """
    for job, due in sorted(book.due_starts(), key=lambda each: (-each[1].start, -each[0].id)):
        free = book.free_for_policy()
        if any(free.of(place, name) < 0 for place, name, _ in book.nodes.parts(job.need, due.nodes)):
            yield Withdrawn(job.id)
