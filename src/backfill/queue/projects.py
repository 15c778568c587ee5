"""Projects that were submitted as a whole, with their promised departures, as recorded in the log.

Times are microseconds of the queue clock.
"""

from dataclasses import dataclass, field

from backfill.queue.events import Departed, Departure, ProjectQueued

GIVEN, MORE_JOBS = "given", "more-jobs"  # causes of a promise: the first one; jobs that had no start before


@dataclass(slots=True)
class Promise:
    """A promised departure: the last end of the project's jobs that run or have a reserved start."""

    at: int
    until: int | None  # None: withdrawn
    left: int  # open jobs that do not count, as they are not in the policy's queue yet
    cause: str
    last: int  # the job that ends last; 0 for none
    ahead: int = 0  # the job for which that one made way; 0 for none


@dataclass(slots=True)
class Project:
    """A project, from its submit to the end of its last job."""

    name: str
    user: str = ""
    first: int = 0  # the number of its first job; those submitted with it have the next numbers
    count: int = 0  # number of jobs submitted with it
    submit: int = 0
    jobs: set[int] = field(default_factory=set)  # jobs that were open when this became known, or later
    known: set[int] = field(default_factory=set)  # jobs that counted in a promise
    promises: list[Promise] = field(default_factory=list)
    latest: int = 0  # the latest end of its jobs so far
    end: int | None = None
    slip: str = ""  # why it departed later than promised

    @property
    def promise(self) -> Promise | None:
        """The first promise that counts all jobs; this is the one that is kept or broken."""
        return next((one for one in self.promises if one.until is not None and not one.left), None)

    def ended(self, end: int) -> None:
        """Record the end of one of its jobs; ends may be reported out of order."""
        self.latest = max(self.latest, end)

    @property
    def last(self) -> Promise | None:
        """The promise that holds now."""
        return self.promises[-1] if self.promises else None


ProjectEvent = ProjectQueued | Departure | Departed


def learn(projects: dict[str, Project], event: ProjectEvent, t: int) -> Project:
    """Apply an event of a project that happened at t. Return the project."""
    name = event.project
    if isinstance(event, ProjectQueued):
        projects[name] = Project(name, event.user, event.first, event.count, t)
        return projects[name]
    project = projects.setdefault(name, Project(name))  # its submit may be lost with the end of the log
    if isinstance(event, Departure):
        project.promises.append(Promise(t, event.until, event.left, event.cause, event.last, event.ahead))
        project.known.update(event.counts)
    else:
        project.end, project.slip = event.ended, event.slip
        del projects[name]
    return project
