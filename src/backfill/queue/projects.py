"""Projects that were submitted as a whole: what the log says of them, and of the departures that they were promised.

Times are microseconds of the queue clock.
"""

from dataclasses import dataclass, field

from backfill.queue.events import Departed, Departure, ProjectQueued

GIVEN, MORE_JOBS = "given", "more-jobs"  # why a promise is made: the first one; jobs came that had none before


@dataclass(slots=True)
class Promise:
    """A departure that the policy promised: the last end of the jobs whose starts it has reserved, or that run."""

    at: int
    until: int | None  # None: none any more
    left: int  # open jobs that do not count, as the policy does not have them in its queue yet
    cause: str
    last: int  # the job that ends last; 0 none
    ahead: int = 0  # the job for which that one made way; 0 none


@dataclass(slots=True)
class Project:
    """A project, from its submit to the end of its last job."""

    name: str
    user: str = ""
    first: int = 0  # the number of its first job; those submitted with it have the numbers that follow
    count: int = 0  # the jobs submitted with it
    submit: int = 0
    jobs: set[int] = field(default_factory=set)  # those of its jobs that were open when this became known, or later
    known: set[int] = field(default_factory=set)  # jobs that counted in a promise
    promises: list[Promise] = field(default_factory=list)
    latest: int = 0  # the last end of its jobs so far
    end: int | None = None
    slip: str = ""  # why it departed later than promised

    @property
    def promise(self) -> Promise | None:
        """The first promise that counts all jobs; it is this one that is kept, or not."""
        return next((one for one in self.promises if one.until is not None and not one.left), None)

    def ended(self, end: int) -> None:
        """One of its jobs has ended then, which may be known later than that of another one."""
        self.latest = max(self.latest, end)

    @property
    def last(self) -> Promise | None:
        """The promise that holds now."""
        return self.promises[-1] if self.promises else None


ProjectEvent = ProjectQueued | Departure | Departed


def learn(projects: dict[str, Project], event: ProjectEvent, t: int) -> Project:
    """Enter an event of a project that happened at t. Returns the project."""
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
