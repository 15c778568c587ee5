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
from backfill.analysis.verify.rules import Membership
from backfill.model.errors import UsageError
from backfill.model.events import WINDOW, BoundEvents
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
    limit: int  # walltime: by then it is over, as windows know
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
    closed: tuple[
        tuple[int, int, int], ...
    ]  # windows (node, begin, end): a job that would still run then does not start
    pooled: bool  # whether several nodes are merged into one: a relaxation

    @property
    def horizon(self) -> int:
        """An instant by which a best schedule has ended: the jobs run one after another from the last release."""
        latest = max(
            [0, *(max(task.release, task.start or 0) for task in self.tasks), *(end for *_, end in self.closed)]
        )
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
        (bool(platform.limits), "limits on running or queued jobs"),
        (len(np.unique(platform.speed)) > 1, "nodes of different speeds"),
        (platform.coallocation_overhead > 0, "a coallocation_overhead"),
    ):
        if there:
            raise UsageError(f"the exact optimum does not model {what}; {platform.name} has them")


def check_windows(events: BoundEvents) -> None:
    """Raise UsageError unless all events are windows of whole nodes."""
    if len(events) and ((events.kind != WINDOW) | (events.resource >= 0)).any():
        raise UsageError("the exact optimum models no events but windows of whole nodes")


def instance(
    workload: Workload,
    platform: Platform,
    rows: Ints,
    *,
    overrun: str = "kill",
    running: Sequence[int] = (),
    alone: bool = False,
    events: BoundEvents | None = None,
) -> Instance:
    """Build the instance of these rows of a workload, all of which can run.

    running: the rows among them that hold the machine from their submit on. alone: ignore dependencies. events: windows
    of whole nodes; if nodes are pooled, they are ignored as well.
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
    closed = [] if pooled or events is None else _closed(events, begin)
    limit = jobs.walltime if closed else held
    unit = reduce(gcd, [TAU, workload.dead_time, *(jobs.submit - begin).tolist(), *held.tolist(), *jobs.think.tolist(),
                        *limit.tolist(), *(t for window in closed for t in window[1:])])  # fmt: skip
    members = Membership(workload, platform)
    whole = members.on_whole_nodes()
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
                limit=int(limit[j]) // unit,
                run=max(int(held[j]) - workload.dead_time, 0) // unit,
                count=int(jobs.tasks[j]),
                demand=tuple(demand[j].tolist()),
                licences=tuple(licences.items()),
                nodes=(0,) if pooled else _nodes(members, row, licences),
                spread="any" if pooled else SPREAD[jobs.spread[j]],
                exclusive=bool(whole[row]) and not pooled,
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
        closed=tuple((node, begins // unit, ends // unit) for node, begins, ends in closed),
        pooled=pooled,
    )


def _closed(events: BoundEvents, begin: int) -> list[tuple[int, int, int]]:
    """Return the windows of nodes (node, begin, end), by the time of the instance."""
    found = []
    for row, (t, value, until) in enumerate(zip(events.time, events.value, events.until, strict=True)):
        span = int(max(value, t)) - begin, int(until) - begin
        found += [(node, *span) for node in events.nodes[row].tolist() if max(span[0], 0) < span[1]]
    return found


def _nodes(members: Membership, row: int, licences: dict[int, int]) -> tuple[int, ...]:
    where = members.nodes_for_all(row)
    for licence in licences:
        where = where & members.platform.hosts[:, licence]
    return tuple(np.flatnonzero(where).tolist())


def _divided(demand: Ints, capacity: Ints) -> tuple[Ints, Ints]:
    """Divide demands and capacities by the largest units that leave every demand whole."""
    units = np.maximum(np.gcd.reduce(demand, axis=0), 1)
    return demand // units, capacity // units
