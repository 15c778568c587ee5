"""Promised departures of projects: followed from pass to pass, with the cause of every change."""

from collections.abc import Iterable, Iterator, Mapping

from backfill.queue import events
from backfill.queue.book import Book
from backfill.queue.events import Departed, Departure, Event
from backfill.queue.job import FOREIGN, PREEMPT, Job
from backfill.queue.projects import GIVEN, MORE_JOBS, Project
from backfill.queue.shapes import Begun, Decisions
from backfill.queue.states import HOLDING, PENDING

TAKEN_BACK = "taken-back"  # the policy has withdrawn the start of the job
NOTED: dict[type[Event], str] = {  # events that delay the end of a job, with their names as causes
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
    """Return when each running or planned job ends if it uses all its walltime and grace, and the number of others."""
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
    """Changes of promised departures. promised: whether the policy promises departures; late: tolerated delay."""

    def __init__(self, late: int) -> None:
        self.promised, self.late = False, late
        self._stale: set[str] = set()  # projects to check
        self._noted: dict[int, str] = {}  # later events of jobs, as in NOTED

    def follow(self, event: Event, book: Book) -> Iterator[Departed]:
        """Yield the consequence of an event that the book has entered: a project departs with its last job."""
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
        elif isinstance(event, events.Start) and event.due is not None:  # it waited for a preempted job to end
            self._noted[job.id] = PREEMPT
        if isinstance(event, events.End) and not any(number in book.jobs for number in project.jobs):
            yield Departed(project.name, project.latest, self._slip(project, book))

    def changes(
        self, book: Book, plan: Mapping[int, int], answer: Begun | Decisions, disturbed: set[int]
    ) -> Iterator[Departure]:
        """Yield the promises changed by a planner's answer, given the new plan.

        disturbed: jobs with messages since the planner was asked.
        """
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
            jobs = [book.jobs[number] for number in project.jobs if number in book.jobs]
            if any(_comes(job, book, disturbed) for job in jobs):
                continue
            self._stale.discard(name)
            event = self._change(project, jobs, book, plan if self.promised else None, moved)
            for job in jobs:
                self._noted.pop(job.id, None)
            if event is not None:
                yield event
        self._stale &= book.projects.keys()

    def _change(
        self,
        project: Project,
        jobs: list[Job],
        book: Book,
        plan: Mapping[int, int] | None,
        moved: Mapping[int, tuple[str, int]],
    ) -> Departure | None:
        """Return the new promise, if it differs from the last one. plan: None if there is none."""
        ends, left = departure(jobs, plan) if plan is not None else ({}, len(jobs))
        last, until = project.last, max(ends.values(), default=None)
        more = ends.keys() - project.known
        if (until, left) == ((last.until, last.left) if last is not None else (None, left)) and not more:
            return None
        number = max((job for job, end in ends.items() if end == until), default=0)
        counts = sorted(more)
        promise = next((one for one in reversed(project.promises) if one.until is not None), None)
        if last is None or promise is None or promise.until is None:
            return Departure(project.name, until, left, number, counts, GIVEN)
        cause, by = "", 0
        if until is not None and until > promise.until:
            cause, by = self._why(book.jobs[number], project, promise.at, book, moved)
            if not cause and last is not promise:
                cause = last.cause  # the cause of the withdrawal
            cause = cause or "bug"
        elif left > last.left or until is None:
            cause = self._taken_back(jobs, ends) or book.trouble(promise.at, book.last_t) or TAKEN_BACK
        elif more:
            cause = MORE_JOBS
        return Departure(project.name, until, left, number, counts, cause, by)

    def _taken_back(self, jobs: list[Job], ends: Mapping[int, int]) -> str:
        """Return what happened to a job that has lost its promise; empty if nothing did."""
        others = [job for job in jobs if job.id not in ends]
        noted = (self._noted[job.id] for job in others if job.id in self._noted)
        return next(noted, "held" if any(job.held for job in others) else "")

    def _why(
        self, job: Job, project: Project, since: int, book: Book, moved: Mapping[int, tuple[str, int]]
    ) -> tuple[str, int]:
        """Return why a departure is later than promised, empty if unknown, and the job it made way for (0 for none).

        job: the last one to end.
        """
        cause, by = moved.get(job.id, ("", 0))
        if by:
            return "made-way", by
        if job.id not in project.known:
            return FOREIGN if job.why == FOREIGN else MORE_JOBS, 0
        known = self._noted.get(job.id) or book.trouble(since, book.last_t) or (cause if cause == "overrun" else "")
        return known or ("run-again" if job.attempts > 1 else ""), 0

    def _slip(self, project: Project, book: Book) -> str:
        """Return why a project departs later than promised; empty if it does not."""
        promise = project.promise
        if promise is None or promise.until is None or project.latest <= promise.until + self.late:
            return ""
        later = [one for one in project.promises if one.until is not None and one.until > promise.until]
        return later[-1].cause if later and later[-1].cause else book.trouble(promise.at, book.last_t) or "bug"


def _comes(job: Job, book: Book, disturbed: set[int]) -> bool:
    """Return whether the planner will soon decide about a job."""
    if job.id in disturbed:
        return True
    return job.state == PENDING and not job.waits and job.due is None and not book.blocked(job, book.last_t)
