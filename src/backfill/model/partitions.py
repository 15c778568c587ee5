"""Partitions, qualities of service and limits: which jobs may run where, for how long, and how many at once.

The terms are Slurm's (slurm.conf, "Partition configuration"; sacctmgr, "Specifications for QOS"); a partition is what
other systems call a queue.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from backfill.model.workload import Ints, Jobs, Labels

PER = ("user", "group", "project", "all")  # what a limit counts separately; all: one count for all jobs
SHARED = ("user", "group", "project")  # whose usage may have a target
PLACES = {  # how a job's nodes are chosen among the possible ones
    "power": "most powerful node first",
    "pack": "node with the least free first",
    "spread": "node with the most free first, one task to each before any gets a second",
    "contiguous": "fewest neighbouring nodes",
    "exclusive": "whole nodes, most powerful first",
}
RUNNING_JOBS, QUEUED_JOBS = "running_jobs", "queued_jobs"


@dataclass(frozen=True, eq=False, kw_only=True)
class Rules:
    """The rules for jobs of a partition or of a quality of service. Times in microseconds, 0 = no rule."""

    name: str
    default_walltime: int = 0  # for jobs that request none
    max_walltime: int = 0
    max_size: dict[str, int] = field(default_factory=dict)  # per resource, for a whole job
    priority: float = 0.0  # added to the job's own
    users: tuple[str, ...] = ()  # allowed users; empty = all
    groups: tuple[str, ...] = ()

    def broken(self, jobs: Jobs, resources: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
        """Yield each rule's name and the mask of jobs that break it. One of users or groups must match."""
        if self.users or self.groups:
            may = named(jobs.user, self.users) | named(jobs.group, self.groups)
            yield "users" if self.users else "groups", ~may
        if self.max_walltime:
            yield "max_walltime", jobs.walltime > self.max_walltime
        for resource, most in self.max_size.items():
            if resource in resources:
                yield f"max_size.{resource}", jobs.tasks * jobs.demand[:, resources.index(resource)] > most


@dataclass(frozen=True, eq=False, kw_only=True)
class Partition(Rules):
    """A named set of nodes, and the users who may use them. Partitions may share nodes."""

    nodes: Ints  # ascending indexes into the platform's
    default: bool = False  # used by jobs that name no partition
    place: str = ""  # how its jobs' nodes are chosen; "" = as for the platform


def joined(parts: Sequence[Partition]) -> Partition:
    """Return several partitions as one: a job that asks for all of them may run in any. They place jobs alike.

    >>> import numpy as np
    >>> one, two = (Partition(name=name, nodes=np.array([n]), max_walltime=n) for name, n in (("a", 1), ("b", 2)))
    >>> both = joined([one, two])
    >>> both.name, both.nodes.tolist(), both.max_walltime
    ('a,b', [1, 2], 2)
    """
    open_to_all = any(not (each.users or each.groups) for each in parts)
    resources = dict.fromkeys(resource for each in parts for resource in each.max_size)
    return Partition(
        name=",".join(each.name for each in parts),
        nodes=np.unique(np.concatenate([each.nodes for each in parts])),
        place=parts[0].place,
        priority=max(each.priority for each in parts),
        max_walltime=0 if any(not each.max_walltime for each in parts) else max(each.max_walltime for each in parts),
        default_walltime=parts[0].default_walltime,
        max_size={
            resource: max(each.max_size[resource] for each in parts)
            for resource in resources
            if all(resource in each.max_size for each in parts)
        },
        users=() if open_to_all else tuple(dict.fromkeys(user for each in parts for user in each.users)),
        groups=() if open_to_all else tuple(dict.fromkeys(group for each in parts for group in each.groups)),
    )


@dataclass(frozen=True, kw_only=True)
class Limit:
    """A limit on the number of running or queued jobs, and on the resources in use, per user, group or project.

    It counts the jobs that match all of its lists; an empty list matches all. A job without a user is not counted per
    user, and likewise for groups and projects.
    """

    name: str
    per: str = "all"  # one of PER
    partitions: tuple[str, ...] = ()
    qos: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    projects: tuple[str, ...] = ()
    running_jobs: int | None = None
    queued_jobs: int | None = None  # waiting or running; any further job is rejected at its submit
    running: dict[str, int] = field(default_factory=dict)  # per resource, for all its running jobs

    @property
    def amounts(self) -> dict[str, int]:
        """The amounts that its running jobs may hold together: resources, and one `running_jobs` for each job."""
        return ({} if self.running_jobs is None else {RUNNING_JOBS: self.running_jobs}) | self.running

    def counts(self, jobs: Jobs) -> tuple[Ints, tuple[str, ...]]:
        """Return the index of each job's count, -1 for none, shape (jobs,); and the names of the counts."""
        mine = np.ones(len(jobs), np.bool_)
        for labels, names in (
            (jobs.partition, self.partitions),
            (jobs.qos, self.qos),
            (jobs.user, self.users),
            (jobs.group, self.groups),
            (jobs.project, self.projects),
        ):
            if names:
                mine &= named(labels, names)
        if self.per == "all":
            return np.where(mine, 0, -1), ("",)
        labels = getattr(jobs, self.per)
        return np.where(mine, labels.codes, -1).astype(np.int64), labels.names


@dataclass(frozen=True, slots=True)
class Target:
    """The share of all usage, in percent, that one user, group or project should have; see `flexible-fairshare`."""

    per: str  # one of SHARED
    name: str
    target: float  # 0: it has none, whatever the others have


def stated(rules: Rules | Limit) -> list[Any]:
    """Return the content of a partition, quality of service or limit, for hashing."""
    return [value.tolist() if isinstance(value, np.ndarray) else value for value in vars(rules).values()]


def named(labels: Labels, names: tuple[str, ...]) -> Any:
    """Return the mask of jobs that have one of these labels, shape (jobs,)."""
    return np.array([*(name in names for name in labels.names), False])[labels.codes]


def account(limit: Limit, what: str, whose: str) -> str:
    """Return the name of one count of a limit in messages: `students: running_jobs of ann`, `long: running cpus`."""
    counted = what if what in (RUNNING_JOBS, QUEUED_JOBS) else f"running {what}"
    return f"{limit.name}: {counted}" + (f" of {whose}" if whose else "")
