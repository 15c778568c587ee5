"""The departures that a policy promises to projects: followed from pass to pass, and every change with its cause."""

from collections.abc import Iterable, Iterator, Mapping

from backfill.queue import events
from backfill.queue.book import Book
from backfill.queue.events import Departed, Departure, Event
from backfill.queue.job import FOREIGN, PREEMPT, Job
from backfill.queue.projects import GIVEN, MORE_JOBS, Project
from backfill.queue.shapes import Begun, Decisions
from backfill.queue.states import HOLDING, PENDING

TAKEN_BACK = "taken-back"  # the policy has no start in mind for the job any more
NOTED: dict[type[Event], str] = {  # what happened to a job and brings its end back, by the event
    events.Requeue: "run-again",
    events.Preempt: "run-again",
    events.Preempted: "run-again",
    events.Unstarted: "launch-failed",
    events.Edit: "job-edited",
    events.Hold: "held",
    events.Release: "released",
    events.Declined: "start-declined",
    events.Withdrawn: "start-declined",
}


def departure(jobs: Iterable[Job], plan: Mapping[int, int]) -> tuple[dict[int, int], int]:
    """When each job ends that runs, or whose start is in the plan, if it uses all of its walltime and its grace.

    And how many of the jobs are neither.
    """
    ends, left = dict[int, int](), 0
    for job in jobs:
        running = job.state in HOLDING and not job.yields
        start = job.start if running else job.due.start if job.due is not None else plan.get(job.id)
        if start is None:
            left += 1
        else:
            ends[job.id] = start + max(job.left, 1) + job.grace
    return ends, left


class Departures:
    """What has changed since the last look. promised: whether the policy promises departures; late: later by at most so
    much is not late."""

    def __init__(self, late: int) -> None:
        self.promised, self.late = False, late
        self._stale: set[str] = set()  # projects to look at
        self._noted: dict[int, str] = {}  # what happened to jobs since, as in NOTED

    def follow(self, event: Event, book: Book) -> Iterator[Departed]:
        """Yield what follows from an event that the book has entered: with its last job a project departs."""
        number = event.column
        if not book.projects or not number:
            return
        job = book.jobs.get(number) or book.over.get(number)
        project = book.projects.get(job.project) if job is not None else None
        if job is None or project is None:
            return
        self._stale.add(project.name)
        if type(event) in NOTED:
            self._noted[job.id] = NOTED[type(event)]
        elif isinstance(event, events.Start) and event.due is not None:  # it has waited for a preempted job to end
            self._noted[job.id] = PREEMPT
        if isinstance(event, events.End) and not any(number in book.jobs for number in project.jobs):
            yield Departed(project.name, project.latest, self._slip(project, book))

    def changes(
        self, book: Book, plan: Mapping[int, int], answer: Begun | Decisions, disturbed: set[int]
    ) -> Iterator[Departure]:
        """Yield the promises that a planner's answer has changed, once the plan follows it. disturbed: jobs of which
        something was said since the planner was asked."""
        if not book.projects:
            return
        moved = dict[int, tuple[str, int]]()
        if "passes" in answer:  # another planner
            self._stale.update(book.projects)
        else:
            moved = {job: (cause, by) for job, cause, by in answer.get("moved", [])}
        changed = (book.jobs.get(number) for number, *_ in answer["plan"])
        self._stale.update(job.project for job in changed if job is not None)
        for name in sorted(self._stale & book.projects.keys()):
            project = book.projects[name]
            some = [book.jobs[number] for number in project.jobs if number in book.jobs]
            if any(_comes(job, book, disturbed) for job in some):
                continue
            self._stale.discard(name)
            event = self._change(project, some, book, plan if self.promised else None, moved)
            for job in some:
                self._noted.pop(job.id, None)
            if event is not None:
                yield event
        self._stale &= book.projects.keys()

    def _change(
        self,
        project: Project,
        some: list[Job],
        book: Book,
        plan: Mapping[int, int] | None,
        moved: Mapping[int, tuple[str, int]],
    ) -> Departure | None:
        """The promise that holds from now on, if it is another one than before. plan: None if none is given."""
        ends, left = departure(some, plan) if plan is not None else ({}, len(some))
        last, until = project.last, max(ends.values(), default=None)
        more = ends.keys() - project.known
        if (until, left) == ((last.until, last.left) if last is not None else (None, left)) and not more:
            return None
        number = max((job for job, end in ends.items() if end == until), default=0)
        counts = sorted(more)
        given = next((one for one in reversed(project.promises) if one.until is not None), None)
        if last is None or given is None or given.until is None:
            return Departure(project.name, until, left, number, counts, GIVEN)
        cause, by = "", 0
        if until is not None and until > given.until:
            cause, by = self._why(book.jobs[number], project, given.at, book, moved)
            if not cause and last is not given:
                cause = last.cause  # that for which it was taken back
            cause = cause or "bug"
        elif left > last.left or until is None:
            cause = self._taken_back(some, ends) or book.trouble(given.at, book.last_t) or TAKEN_BACK
        elif more:
            cause = MORE_JOBS
        return Departure(project.name, until, left, number, counts, cause, by)

    def _taken_back(self, some: list[Job], ends: Mapping[int, int]) -> str:
        """What happened to a job that has no promise any more; empty for nothing."""
        others = [job for job in some if job.id not in ends]
        noted = (self._noted[job.id] for job in others if job.id in self._noted)
        return next(noted, "held" if any(job.held for job in others) else "")

    def _why(
        self, job: Job, project: Project, since: int, book: Book, moved: Mapping[int, tuple[str, int]]
    ) -> tuple[str, int]:
        """Why a departure comes later than it was promised then, empty for an unknown cause; and for which job it made
        way (0 none). job: the last to end."""
        cause, by = moved.get(job.id, ("", 0))
        if by:
            return "made-way", by
        if job.id not in project.known:
            return FOREIGN if job.why == FOREIGN else MORE_JOBS, 0
        known = self._noted.get(job.id) or book.trouble(since, book.last_t) or (cause if cause == "overrun" else "")
        return known or ("run-again" if job.attempts > 1 else ""), 0

    def _slip(self, project: Project, book: Book) -> str:
        """Why a project departs later than it was promised; empty if it does not."""
        promise = project.promise
        if promise is None or promise.until is None or project.latest <= promise.until + self.late:
            return ""
        later = [one for one in project.promises if one.until is not None and one.until > promise.until]
        return later[-1].cause if later and later[-1].cause else book.trouble(promise.at, book.last_t) or "bug"


def _comes(job: Job, book: Book, disturbed: set[int]) -> bool:
    """Whether a planner is about to say more of a job."""
    if job.id in disturbed:
        return True
    return job.state == PENDING and not job.waits and job.due is None and not book.blocked(job, book.last_t)
