"""Projects as clients see them, as plain data. Instants are those of the calendar as it is set now."""

from collections import Counter
from functools import partial
from typing import TypedDict

from backfill.daemon.shown import dependency_text, row
from backfill.model.units import seconds
from backfill.queue.engine import Engine
from backfill.queue.job import Facts, Job
from backfill.queue.projects import Project
from backfill.queue.schema import Refused
from backfill.queue.states import PENDING
from backfill.queue.store import Store

JOBS = 1000  # largest number of jobs in an answer, the last ones


class PromiseRow(TypedDict):
    """A promise to a project, see queue.projects.Promise; by_project: the project of the job `by`."""

    at_s: float | None
    departure_s: float | None
    left: int
    cause: str
    job: int
    by: int
    by_project: str


class ProjectRow(TypedDict):
    """A project as clients see it.

    departs: whether the policy promises departures; settled: whether the policy has decided since the project was
    submitted; promised_s: the present promise, which leaves `left` jobs out; first_promised_s: the first promise that
    counts all jobs; slip_s, slip: how much later it departs, and why.
    """

    schema: int
    now_s: float | None
    policy: str
    departs: bool
    settled: bool
    paused: bool
    project: str
    user: str
    submit_s: float | None
    start_s: float | None
    end_s: float | None
    states: dict[str, int]
    promised_s: float | None
    left: int
    first_promised_s: float | None
    slip_s: float | None
    slip: str
    promises: list[PromiseRow]
    jobs: list[Facts]  # see shown.row


def project_row(engine: Engine, store: Store, name: str, now: int) -> ProjectRow:
    """Return all about a project: its jobs, the departures that it was promised, and how these were kept.

    Raises Refused if no job has this project.
    """
    jobs, at = store.jobs_of(name, JOBS), partial(seconds, skew=engine.book.skew)
    if not jobs:
        raise Refused(f"there is no project {name}", "unknown", "project")
    project = store.project(name) or Project(name, jobs[0].user)
    last, promise = project.last, project.promise
    open_ = [job for job in jobs if job.end is None]
    late = promise.until if promise is not None else None
    end = project.end if project.end is not None else last.until if last is not None else None
    slip = max(end - late, 0) if end is not None and late is not None else None
    cause = project.slip
    if project.end is None and slip:
        cause = next((one.cause for one in reversed(project.promises) if one.until == end), "")
    elif slip and not cause:  # a small delay is tolerated
        slip = 0
    return {
        "schema": 1,
        "now_s": at(now),
        "policy": engine.book.epoch.get("policy", ""),
        "departs": engine.departures.promised,
        "settled": _is_settled(engine, project, open_),
        "paused": engine.book.paused,
        "project": name,
        "user": project.user,
        "submit_s": at(min(job.submit for job in jobs)),
        "start_s": at(min((job.start for job in jobs if job.start is not None), default=None)),
        "end_s": None if open_ else at(max(job.end or 0 for job in jobs)),
        "states": Counter(job.state for job in jobs),
        "promised_s": at(last.until) if open_ and last is not None else None,
        "left": last.left if open_ and last is not None else 0,
        "first_promised_s": at(late),
        "slip_s": seconds(slip),
        "slip": cause if slip else "",
        "promises": [
            {"at_s": at(one.at), "departure_s": at(one.until), "left": one.left, "cause": one.cause, "job": one.last,
             "by": one.ahead, "by_project": _project_of(engine, one.ahead)}
            for one in project.promises
        ],
        "jobs": [{**row(engine, job, now), "dependency": dependency_text(engine, job)} for job in jobs],
    }  # fmt: skip


def _is_settled(engine: Engine, project: Project, jobs: list[Job]) -> bool:
    """Return whether the policy has decided since the project was submitted."""
    book = engine.book
    if project.last is not None or not jobs:
        return True
    if not engine.ready or book.paused:
        return engine.ready
    coming = (job.state == PENDING and not book.blocked(job, book.last_t) for job in jobs)
    return not (engine.departures.promised and any(coming))


def _project_of(engine: Engine, number: int) -> str:
    job = engine.job(number) if number else None
    return job.project if job is not None else ""
