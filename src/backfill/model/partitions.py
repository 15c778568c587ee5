"""Partitions, qualities of service and limits: which jobs may run where, for how long, and how many at once.

The words are Slurm's (slurm.conf, "Partition configuration"; sacctmgr, "Specifications for QOS"); a partition is what
other systems call a queue.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from backfill.model.workload import Ints, Jobs, Labels

PER = ("user", "group", "project", "all")  # what a limit counts apart; all: one count for all jobs
PLACES = {  # where a job sits among the nodes where it could
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
    default_walltime: int = 0  # of jobs that ask for none
    max_walltime: int = 0
    max_size: dict[str, int] = field(default_factory=dict)  # of a resource, for a whole job
    priority: float = 0.0  # added to that of the job
    users: tuple[str, ...] = ()  # who may use it; empty = all
    groups: tuple[str, ...] = ()

    def broken(self, jobs: Jobs, resources: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
        """Each rule by name and which jobs break it, shape (jobs,). A job may run that is of one of users or groups."""
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
    """Some nodes under a name, and who may use them. Partitions may share nodes."""

    nodes: Ints  # ascending indexes into the platform's
    default: bool = False  # jobs that name no partition are its jobs
    place: str = ""  # where its jobs sit among these nodes; "" = as for the platform


@dataclass(frozen=True, kw_only=True)
class Limit:
    """A limit on the number of jobs that run or are queued, and on what they hold at once, per user, group or project.

    It counts the jobs that all of its lists name; an empty list names all. A job without a user is not counted per
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
    queued_jobs: int | None = None  # that wait or run; one more is rejected when it is submitted
    running: dict[str, int] = field(default_factory=dict)  # of a resource, for all its jobs that run

    @property
    def amounts(self) -> dict[str, int]:
        """The amounts that its running jobs may hold together: one of `running_jobs` each, and of resources."""
        return ({} if self.running_jobs is None else {RUNNING_JOBS: self.running_jobs}) | self.running

    def counts(self, jobs: Jobs) -> tuple[Ints, tuple[str, ...]]:
        """The account in which each job is counted, -1 for none, shape (jobs,); and the names of the accounts."""
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


def stated(rules: Rules | Limit) -> list[Any]:
    """The content of a partition, a quality of service or a limit, for a hash."""
    return [value.tolist() if isinstance(value, np.ndarray) else value for value in vars(rules).values()]


def named(labels: Labels, names: tuple[str, ...]) -> Any:
    """The jobs that have one of these labels, shape (jobs,)."""
    return np.array([*(name in names for name in labels.names), False])[labels.codes]


def account(limit: Limit, what: str, whose: str) -> str:
    """The name of one count of a limit in messages: `students: running_jobs of ann`, `long: running cpus`."""
    counted = what if what in (RUNNING_JOBS, QUEUED_JOBS) else f"running {what}"
    return f"{limit.name}: {counted}" + (f" of {whose}" if whose else "")
