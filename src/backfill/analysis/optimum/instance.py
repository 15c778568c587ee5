"""An instance of the scheduling problem in whole numbers: jobs, nodes and licences, without a policy.

Times are divided by their greatest common divisor and so is each resource, which changes no schedule and keeps the
solver's sums small. docs/reference/optimum.md lists what is modelled.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from math import gcd

import numpy as np

from backfill.analysis.metrics import TAU
from backfill.analysis.verify.case import limited
from backfill.analysis.verify.reading import with_node_licences
from backfill.model.errors import UsageError
from backfill.model.platform import Platform
from backfill.model.schedule import at_speed
from backfill.model.units import NEVER
from backfill.model.workload import SPREAD, Ints, Workload

OBJECTIVES = {  # name -> description
    "mean-wait": "mean wait",
    "makespan": "makespan",
    "weighted-bounded-slowdown": "mean bounded slowdown, weighted by processors",
}
PLACES_MOST = 2_000  # jobs x nodes; above it nodes are pooled, which gives a bound and no schedule


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A job as seen by the solver; times in units of the instance."""

    release: int
    held: int
    run: int  # held time without the dead time
    count: int  # number of its equal tasks
    demand: tuple[int, ...]  # per task and resource
    licences: tuple[tuple[int, int], ...]  # (licence, copies)
    nodes: tuple[int, ...]  # possible nodes of a task
    spread: str  # of SPREAD
    exclusive: bool
    after: tuple[int, ...]  # indices in the instance
    think: int
    weight: int  # in a mean weighted by processors
    start: int | None = None  # if the job already runs; it is not counted then


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """A set of jobs to be scheduled on a machine."""

    rows: Ints  # of the workload, in the order of `tasks`
    tasks: tuple[Task, ...]
    capacity: tuple[tuple[int, ...], ...]  # per node and resource
    site: tuple[int, ...]  # of each node
    copies: tuple[int, ...]  # of each licence
    begin: int  # microseconds; time 0 of the instance
    unit: int  # microseconds
    pooled: bool  # whether several nodes are merged into one: a relaxation

    @property
    def horizon(self) -> int:
        """An instant by which a best schedule has ended: the jobs run one after another from the last release."""
        latest = max((max(task.release, task.start or 0) for task in self.tasks), default=0)
        return latest + sum(task.held + task.think for task in self.tasks)

    @property
    def tau(self) -> int:
        """The minimum run time in slowdowns."""
        return TAU // self.unit

    @property
    def counted(self) -> list[int]:
        """The indices of the jobs whose waits count: all that are not already running."""
        return [place for place, task in enumerate(self.tasks) if task.start is None]


def check_modelled(workload: Workload, platform: Platform) -> None:
    """Raise UsageError if the platform has a feature that the model does not."""
    for there, what in (
        (platform.has_rules, "partitions, qualities of service and limits"),
        (len(np.unique(platform.speed)) > 1, "nodes of different speeds"),
        (platform.coallocation_overhead > 0, "a coallocation_overhead"),
    ):
        if there:
            raise UsageError(f"the exact optimum does not model {what}; {platform.name} has them")


def instance(
    workload: Workload,
    platform: Platform,
    rows: Ints,
    *,
    overrun: str = "kill",
    running: Sequence[int] = (),
    alone: bool = False,
) -> Instance:
    """Build the instance of these rows of a workload, all of which can run.

    running: the rows among them that hold the machine from their submit on. alone: ignore dependencies.
    """
    workload = with_node_licences(workload, platform)
    jobs, there = workload.jobs.take(rows), set(running)
    _, demand, capacity = limited(workload, platform)
    pooled = len(platform.nodes) > 1 and len(rows) * len(platform.nodes) > PLACES_MOST
    capacity = capacity.sum(axis=0, keepdims=True) if pooled else capacity
    demand, capacity = _divided(demand[rows], capacity)
    run = jobs.runtime if platform.speed[0] == 1 else at_speed(jobs.runtime, float(platform.speed[0]))
    held = np.minimum(run, NEVER if overrun == "extend" else jobs.walltime)
    begin = int(jobs.submit.min())
    unit = reduce(gcd, [TAU, workload.dead_time, *(jobs.submit - begin).tolist(), *held.tolist(), *jobs.think.tolist()])
    place = {name: k for k, name in enumerate(platform.licences)}
    tasks = []
    for j, row in enumerate(rows.tolist()):
        licences = {place[workload.licences[x]]: n for x, n in jobs.licences.counts_of(j).items()
                    if workload.licences[x] in place}  # fmt: skip
        release = (int(jobs.submit[j]) - begin) // unit
        tasks.append(
            Task(
                release=release,
                held=int(held[j]) // unit,
                run=max(int(held[j]) - workload.dead_time, 0) // unit,
                count=int(jobs.tasks[j]),
                demand=tuple(demand[j].tolist()),
                licences=tuple(licences.items()),
                nodes=(0,) if pooled else _nodes(platform, jobs.site[j], jobs.constraint[j], licences),
                spread="any" if pooled else SPREAD[jobs.spread[j]],
                exclusive=bool(jobs.exclusive[j]) and not pooled,
                after=() if alone else tuple(jobs.after[j].tolist()),
                think=0 if alone else int(jobs.think[j]) // unit,
                weight=int(jobs.procs[j]),
                start=release if row in there else None,
            )
        )
    return Instance(
        rows=rows,
        tasks=tuple(tasks),
        capacity=tuple(map(tuple, capacity.tolist())),
        site=tuple(platform.site.tolist()),
        copies=tuple(platform.copies.tolist()),
        begin=begin,
        unit=unit,
        pooled=pooled,
    )


def _nodes(platform: Platform, site: str, constraint: str, licences: dict[int, int]) -> tuple[int, ...]:
    where = platform.within(site=platform.sites.index(site) if site else -1, constraint=constraint)
    for licence in licences:
        where &= platform.hosts[:, licence]
    return tuple(np.flatnonzero(where).tolist())


def _divided(demand: Ints, capacity: Ints) -> tuple[Ints, Ints]:
    """Divide demands and capacities by the largest units that leave every demand whole."""
    units = np.maximum(np.gcd.reduce(demand, axis=0), 1)
    return demand // units, capacity // units
