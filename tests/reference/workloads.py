"""Random workloads and platforms with many ties, and the way between the twins' words and the model's.

Times are whole seconds, in microseconds, so that a time unit of the twins is one of the real thing.
"""

from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import Any

import numpy as np
from hypothesis import strategies as st

from backfill.model import partitions
from backfill.model import platform as model_platform
from backfill.model.events import EVENTS, BoundEvents
from backfill.model.units import NEVER, SECOND, TIME_MAX, seconds_text
from backfill.model.workload import SPREAD, Ints, Jobs, Labels, Ragged, Workload
from backfill.workloads.twotier import two_tier

from .dice import DICE, Dice, drawn
from .limits import Limit
from .words import Event, Job, Node, Platform

RESOURCES = ("cpus", "memory", "gpus", *(f"r{k}" for k in range(3, 9)))


@dataclass(frozen=True, eq=False)
class Case:
    jobs: list[Job]
    platform: Platform

    def __repr__(self):
        """As few words as possible: defaults are left out."""
        nodes = [f"    {node}," for node in self.platform.nodes]
        jobs = [f"    {brief(job)}," for job in self.jobs]
        rules = f", {self.platform.partitions}, {self.platform.limits}" if self.platform.limits else ""
        return "\n".join(["Case([", *jobs, "], Platform((", *nodes, f"), {self.platform.copies}{rules}))"])


def brief(job: Job) -> str:
    plain = Job(row=job.row, submit=job.submit, runtime=job.runtime, walltime=job.walltime, name=job.name)
    words = [f"{name}={getattr(job, name)}" for name in ("submit", "runtime", "walltime")]
    others = (
        "estimate",
        "tasks",
        "demand",
        "licences",
        "spread",
        "exclusive",
        "site",
        "constraint",
        "partition",
        "user",
        "after",
        "project",
        "priority",
        "admin_priority",
        "deadline",
    )
    words += [f"{name}={getattr(job, name)!r}" for name in others if getattr(job, name) != getattr(plain, name)]
    return f"Job(row={job.row}, {', '.join(words)})"


SMALL = range(13)
ESTIMATES = ("walltime", "walltime", "any")  # per case: do policies see the walltime?
SELDOM = (0, 0, 0, 0, 0, 1)
FEW = (0, 0, 0, 1, 2)
CONSTRAINTS = ("", "", "", "", "", "a", "!a", "a&b", "a|!b", "!a&b|c", "n0|n2", "!n1", "n1&a|b")
HORIZONS = (3, 10, 25)  # per case: the last submit


def pool_case(dice: Dice, jobs_max: int = 25, honest: bool = False) -> Case:
    """A pool of a few processors: whole-machine jobs and larger, zero run times, walltimes of all kinds.

    honest: policies see the walltimes, and jobs are killed at them.
    """
    cpus = dice.between(1, 8)
    seen, horizon = "walltime" if honest else dice.of(ESTIMATES), dice.of(HORIZONS)
    jobs = [
        Job(
            row=row,
            name=f"j{row}",
            tasks=cpus + 1 if dice.of(SELDOM) else dice.between(1, cpus),
            **times(dice, seen, horizon),
        )
        for row in range(dice.between(1, jobs_max))
    ]
    return Case(jobs, Platform.pool(cpus))


def general_case(dice: Dice, jobs_max: int = 20, honest: bool = False, chains: bool = True) -> Case:
    """Up to 4 nodes on 2 sites, 3 resources and 3 licences; gangs that spread, pins, chains of jobs."""
    platform = some_nodes(dice)
    seen, horizon = "walltime" if honest else dice.of(ESTIMATES), dice.of(HORIZONS)
    jobs = [
        Job(
            row=row,
            name=f"j{row}",
            after=predecessors(dice, row) if chains else (),
            **demands(dice, platform),
            **times(dice, seen, horizon),
        )
        for row in range(min(dice.between(1, 2 * jobs_max), jobs_max))  # few wait in short queues
    ]
    return Case(jobs, platform)


def rich_pool_case(dice: Dice, jobs_max: int = 20) -> Case:
    """One node of two or three resources and of any speed, no licences; jobs that hold all of one resource."""
    node = Node((dice.between(1, 6), *(dice.between(0, 6) for _ in range(dice.between(1, 2)))))
    node = replace(node, speed=dice.of([0.5, 1.0, 1.5]))
    seen, horizon = dice.of(ESTIMATES), dice.of(HORIZONS)
    jobs = []
    for row in range(dice.between(1, jobs_max)):
        tasks = dice.of([1, 1, 2, 3])
        demand = tuple(dice.between(0, most // tasks) for most in node.capacity)
        jobs.append(Job(row=row, name=f"j{row}", tasks=tasks, demand=demand, **times(dice, seen, horizon)))
    return Case(jobs, Platform((node,)))


def wide_case(dice: Dice, jobs_max: int = 16) -> Case:
    """Up to 8 resources on a pool or on a few nodes, so that now one and now another is short; jobs of one task.

    Of some resources there is nothing, and some are not asked for.
    """
    resources = dice.between(4, 8)
    there = [dice.of(SELDOM) == 0 for _ in range(resources)]
    nodes = [
        Node(tuple(dice.between(2, 6) if some or not k else 0 for k, some in enumerate(there)))
        for _ in range(dice.of([1, 1, 3]))
    ]
    seen, horizon = dice.of(ESTIMATES), dice.of(HORIZONS)
    asked = [dice.of(SELDOM) == 0 for _ in range(resources)]
    amounts = (0, 0, 1, 1, 2, 3)
    jobs = [
        Job(
            row=row,
            name=f"j{row}",
            demand=tuple(dice.of(amounts) if some and there[k] else 0 for k, some in enumerate(asked)),
            **times(dice, seen, horizon),
        )
        for row in range(dice.between(1, jobs_max))
    ]
    return Case(jobs, Platform(tuple(nodes)))


def project_case(dice: Dice, projects_max: int = 10, exact: bool = False) -> Case:
    """Projects of several jobs that are submitted together, on one node with few of each of 1 to 3 resources.

    exact: every job runs as long as it was expected to.
    """
    capacity = [dice.between(1, 4) for _ in range(dice.between(1, 3))]
    seen, horizon, jobs = "walltime" if exact else dice.of(ESTIMATES), dice.of(HORIZONS), []
    again = not exact and dice.of(SELDOM)  # more jobs of a project come later
    for number in range(dice.between(1, projects_max)):
        submit, priority = dice.between(0, horizon) * SECOND, dice.of([0.0, 0.0, 0.25, 0.5, 1.0])
        project = "" if not exact and dice.of(SELDOM) else f"p{number // 2 if again else number}"
        for _ in range(dice.of([1, 1, 2, 3, 4])):
            told = times(dice, seen, horizon) | {"submit": submit, "priority": priority, "deadline": NEVER}
            if exact:
                told["runtime"] = told["walltime"]
            demand = tuple(dice.between(0, amount) for amount in capacity)
            jobs.append(Job(row=len(jobs), name=f"j{len(jobs)}", project=project, demand=demand, **told))
    if dice.of(SELDOM):  # in the order of the file the jobs of a project need not follow each other
        jobs = [replace(job, row=row, name=f"j{row}") for row, job in enumerate(jobs[::2] + jobs[1::2])]
    return Case(jobs, Platform.pool(*capacity))


def cluster_case(dice: Dice, exact: bool = False) -> Case:
    """Projects of gangs and of jobs of one task on several nodes, with licences, constraints, partitions and limits."""
    case = limited_case(dice, chains=False) if dice.below(2) else general_case(dice, honest=exact, chains=False)
    jobs: list[Job] = []
    for job in case.jobs:
        told = {"project": f"p{job.row}", "priority": dice.of([0.0, 0.0, 0.25, 0.5, 1.0])}
        if jobs and dice.below(2):
            told = {name: getattr(jobs[-1], name) for name in ("project", "priority", "submit")}
        known = {"runtime": job.walltime, "estimate": job.walltime} if exact else {}
        jobs.append(replace(job, deadline=NEVER, **told, **known))
    return Case(jobs, case.platform)


def grid_case(dice: Dice, jobs_max: int = 24, honest: bool = False, chains: bool = True) -> Case:
    """Up to 9 processors on up to 3 sites; local jobs, gangs, and gangs that are projects of single tasks."""
    sites, memory = dice.between(1, 3), dice.of([0, 0, 1])
    nodes = [
        Node((1, dice.between(2, 4)) if memory else (1,), speed=dice.of([1.0, 1.0, 1.0, 0.5]), site=site)
        for site in range(sites)
        for _ in range(dice.between(1, 6 - sites))
    ]
    if dice.of(SELDOM):  # sites need not be one after the other
        nodes = nodes[::2] + nodes[1::2]
    nodes.sort(key=lambda node: -node.speed)
    seen, horizon, jobs = "walltime" if honest else dice.of(ESTIMATES), dice.of(HORIZONS), []
    number = dice.between(1, jobs_max)
    while len(jobs) < number:
        common: dict[str, Any] = {"demand": (1, dice.between(0, 2)) if memory else (1,)}
        common |= {"constraint": dice.of(["n0|n1|n2", "!n0"])} if dice.of(SELDOM) else {}
        told = times(dice, seen, horizon)
        kind = dice.of(["local", "local", "local", "gang", "gang", "tasks"])
        if kind == "local":
            common["site"] = dice.below(sites) if dice.of([1, 1, 1, 1, 0]) else None
        elif kind == "gang":
            common |= {"tasks": dice.between(2, 6), "spread": dice.of(["any", "any", "site"])}
        project = f"p{len(jobs)}" if kind == "tasks" else ""
        for _ in range(dice.between(2, 4) if kind == "tasks" else 1):
            row = len(jobs)
            after = predecessors(dice, row) if chains and dice.of(SELDOM) else ()
            mine = times(dice, seen, horizon) | {"submit": told["submit"], "deadline": NEVER}
            jobs.append(Job(row=row, name=f"j{row}", project=project, after=after, **common, **mine))
    return Case(jobs, Platform(tuple(nodes)))


def plain_grid_case(dice: Dice, jobs_max: int = 24) -> Case:
    """Local jobs and gangs as the papers have them: processors that are alike, nothing but sizes and times."""
    sites = dice.between(1, 3)
    nodes = [Node((1,), site=site) for site in range(sites) for _ in range(dice.between(1, 6 - sites))]
    seen, horizon, jobs = dice.of(ESTIMATES), dice.of(HORIZONS), []
    for number in range(dice.between(1, jobs_max)):
        if len(jobs) >= jobs_max:
            break
        told = times(dice, seen, horizon)
        kinds = ["local", "local", "local", "gang", "tasks" if sites > 1 else "gang"]  # on one site tasks are local
        kind, size = dice.of(kinds), dice.between(1, len(nodes))
        common: dict[str, Any] = {"site": dice.below(sites)} if kind == "local" else {}
        common |= {"tasks": max(size, 2)} if kind == "gang" and len(nodes) > 1 else {}
        common |= {"project": f"p{number}"} if kind == "tasks" and size > 1 else {}
        if not common:  # a job of one task that may run anywhere: a gang of one, or on one site a local job
            common["site"] = 0 if sites == 1 else None
        for _ in range(size if "project" in common else 1):
            mine = times(dice, seen, horizon) | {"submit": told["submit"], "deadline": NEVER}
            jobs.append(Job(row=len(jobs), name=f"j{len(jobs)}", **common, **mine))
    return Case(jobs, Platform(tuple(nodes)))


def limited_case(dice: Dice, chains: bool = True) -> Case:
    """A case of several nodes with partitions, which may share nodes, users, and limits on what runs or is queued."""
    case = general_case(dice, chains=chains)
    nodes = len(case.platform.nodes)
    parts = tuple(frozenset(nodes_of(dice.between(1, 2**nodes - 1))) for _ in range(dice.between(1, 3)))
    names = [None, *range(len(parts))]
    limits = tuple(
        Limit(
            per_user=dice.of([False, True]),
            partition=dice.of(names),
            running_jobs=dice.of([None, 1, 1, 2, 3]),
            queued_jobs=dice.of([None, None, 1, 2, 4]),
            cpus=dice.of([None, 1, 3, 6]),
        )
        for _ in range(dice.between(1, 3))
    )
    jobs = [replace(job, partition=dice.of(names), user=dice.of([None, 0, 0, 1])) for job in case.jobs]
    return Case(jobs, replace(case.platform, partitions=parts, limits=limits))


def whole_case(dice: Dice) -> Case:
    """A case with partitions and limits in which some jobs have their nodes for themselves.

    Nodes are alike, or there is a kind with the feature a and a kind without; such jobs then ask for one of the two.
    """
    case, alike = limited_case(dice), dice.below(2)
    nodes, kinds = case.platform.nodes, dict[bool, tuple[int, ...]]()
    for node in nodes:
        kinds.setdefault(not alike and "a" in node.features, node.capacity)
    nodes = tuple(replace(node, capacity=kinds[not alike and "a" in node.features]) for node in nodes)
    known = any(node.features for node in nodes)
    jobs = []
    for job in case.jobs:
        exclusive = dice.of([True, False]) and (alike or not known or job.constraint in ("a", "!a", "a&b", "!n1&a"))
        jobs.append(replace(job, exclusive=exclusive))
    return Case(jobs, replace(case.platform, nodes=nodes))


def contended(seed: int) -> Case:
    """Users with limits on what runs, who come fast to few nodes, so that jobs overtake those that a limit holds back.

    Run times are within the walltimes, and nobody waits for others.
    """
    r = Random(seed)
    limits = tuple(
        Limit(
            per_user=r.choice([True, True, False]),
            running_jobs=r.choice([None, 1, 1, 2, 3]),
            cpus=r.choice([None, None, 2, 3, 4]),
        )
        for _ in range(r.randint(1, 2))
    )
    nodes = tuple(Node((r.randint(2, 6),)) for _ in range(r.choice([1, 1, 2, 3])))
    platform = Platform(nodes, (2,) * r.choice([0, 0, 1]), limits=limits)

    def job(row: int) -> Job:
        walltime = r.randint(1, 20) * SECOND
        return Job(
            row=row,
            name=f"j{row}",
            submit=r.randint(0, 12) * SECOND,
            walltime=walltime,
            runtime=r.choice([walltime, walltime, r.randint(0, walltime)]),
            tasks=r.randint(1, 4),
            spread=r.choice(SPREAD),
            licences=(0,) * (r.random() < 0.4 and len(platform.copies)),
            user=r.randint(0, 2),
            priority=float(r.randint(0, 3)),
        )

    return Case([job(row) for row in range(r.randint(3, 14))], platform)


def chained_case(dice: Dice) -> Case:
    """A case of any other kind in which many jobs come after others, some of them submitted later."""
    case = dice.of([pool_case, general_case])(dice)
    jobs = [replace(job, after=tuple(x for x in [dice.between(-8, 24)] if 0 <= x < job.row)) for job in case.jobs]
    return Case(jobs, case.platform)


def thread_case(dice: Dice, linked: bool = True, jobs_max: int = 6) -> Case:
    """Threads of one processor each, of jobs that come together or not; some come after others, also of other jobs."""
    jobs: list[Job] = []
    horizon, likely = dice.of([0, 0, 3, 10]), dice.of([0, 0, 1, 2, 3])
    for number in range(dice.between(1, jobs_max)):
        submit = dice.between(0, horizon) * SECOND
        for _ in range(dice.between(1, 6)):
            told = times(dice, "walltime", 0) | {"submit": submit, "deadline": NEVER}
            jobs.append(Job(row=len(jobs), name=f"j{len(jobs)}", project=f"p{number}", **told))
    if linked:
        order = [job.row for job in jobs]
        if dice.below(2):  # any DAG, not only one along the file
            order.sort(key=lambda row: dice.below(256))
        for place, row in enumerate(order):
            picked = {order[dice.below(place)] for _ in range(dice.between(0, likely)) if place}
            jobs[row] = replace(jobs[row], after=tuple(sorted(picked)))
    return Case(jobs, Platform.pool(dice.between(1, 5)))


thread_cases = partial(drawn, thread_case)
pool_cases = partial(drawn, pool_case)
project_cases = partial(drawn, project_case)
cluster_cases = partial(drawn, cluster_case)
grid_cases = partial(drawn, grid_case)
plain_grid_cases = partial(drawn, plain_grid_case)
general_cases = partial(drawn, general_case)
rich_pool_cases = partial(drawn, rich_pool_case)
wide_cases = partial(drawn, wide_case)
limited_cases = partial(drawn, limited_case)
whole_cases = partial(drawn, whole_case)
chained_cases = partial(drawn, chained_case)


def crowd(seed: int, jobs: int = 120) -> Case:
    """More jobs than wait in the other cases, with walltimes from microseconds to hours, on one to three nodes."""
    r = Random(seed)
    resources, nodes = r.randint(1, 2), r.choice([1, 1, 3])
    platform = Platform(tuple(Node((r.randint(4, 12),) * resources) for _ in range(nodes)), (2,) * (nodes - 1))
    instants = [0, *(round(10 ** r.uniform(0, 10)) for _ in range(8))]  # submits come in bursts
    lengths = [round(10 ** r.uniform(0, 10)) for _ in range(12)] + [0]

    def job(row: int) -> Job:
        walltime = r.choice(lengths) + r.choice([0, 0, 1])
        return Job(
            row=row,
            name=f"j{row}",
            submit=r.choice(instants),
            walltime=walltime,
            runtime=r.choice([walltime, walltime, r.randint(0, walltime), 2 * walltime]),
            tasks=r.randint(1, 4),
            demand=tuple(r.randint(0, 2) for _ in range(resources)),
            licences=tuple(range(r.randint(0, len(platform.copies)))),
            spread=r.choice(SPREAD),
        )

    return Case([job(row) for row in range(jobs)], platform)


def cloud(seed: int, projects: int = 16) -> Case:
    """Projects that come faster than the node can serve them, so that many reservations stand in each other's way."""
    drawn = two_tier(projects, types=2, seed=seed, interarrival=60, least=4, largest=6, high=0.3)
    return Case(*from_model(drawn, drawn.platform))


def cluster(seed: int, projects: int = 20, honest: bool = False) -> Case:
    """Projects that come faster than a few unequal nodes can serve them: gangs, two racks, a licence, a limit.

    honest: every job runs as long as it was expected to.
    """
    r = Random(seed)
    features = [frozenset(r.sample(["a", "b"], r.randint(0, 2))) for _ in range(r.randint(2, 5))]
    nodes = tuple(
        Node((r.randint(2, 6), r.randint(2, 6)), features=some, site=number // 2)
        for number, some in enumerate(features)
    )
    limits = (Limit(per_user=True, cpus=r.randint(6, 12)),) * r.randint(0, 1)
    platform = Platform(nodes, (2,) * r.randint(0, 1), partitions=(frozenset({0, 1}),), limits=limits)
    jobs: list[Job] = []
    for number in range(projects):
        submit, priority = r.randint(0, 30) * SECOND, r.choice([0.0, 0.0, 0.25, 0.5, 1.0])
        for _ in range(r.choice([1, 2, 3, 4])):
            walltime = r.choice([1, 2, 5, 12, 30]) * SECOND
            jobs.append(
                Job(
                    row=len(jobs),
                    name=f"j{len(jobs)}",
                    project=f"p{number}",
                    submit=submit,
                    priority=priority,
                    walltime=walltime,
                    runtime=walltime if honest or r.random() < 0.6 else r.randint(0, walltime),
                    tasks=r.choice([1, 1, 2, 3]),
                    demand=(r.randint(1, 2), r.randint(0, 2)),
                    spread=r.choice(["any", "any", "site", "node"]),
                    constraint=r.choice(["", "", "", "a", "!b"]),
                    partition=r.choice([None, None, None, 0]),
                    user=r.randint(0, 1),
                    licences=(0,) * (r.random() < 0.3 and len(platform.copies)),
                )
            )
    return Case(jobs, platform)


def unlimited(nodes: int, jobs: int = 110) -> Case:
    """Short jobs of which most ask for the longest walltime there is, as users do who do not know better."""
    r = Random(nodes)
    platform = Platform((Node((4,)),) * nodes, (1,) * (nodes - 1))

    def job(row: int) -> Job:
        walltime = r.choice([TIME_MAX, TIME_MAX, TIME_MAX, TIME_MAX // 3, r.randint(1, 9) * SECOND])
        return Job(
            row=row,
            name=f"j{row}",
            submit=r.choice([0, 0, r.randint(0, 60)]) * SECOND,
            walltime=walltime,
            runtime=r.choice([0, 1, 2, 3, 12]) * SECOND,
            tasks=r.choice([1, 3, 4, 4]),
            licences=(0,) * r.randint(0, nodes - 1),
            spread=r.choice(SPREAD),
        )

    return Case([job(row) for row in range(jobs)], platform)


def farm(seed: int, jobs: int = 60, nodes: int = 40) -> Case:
    """Many unequal nodes, most powerful first, licences that not every node can host, and jobs that sit on one node."""
    r = Random(seed)
    licences, sizes = r.randint(0, 5), sorted((r.randint(1, 4) for _ in range(nodes)), reverse=True)
    hosts = [frozenset(x for x in range(licences) if r.random() < 0.9) for _ in sizes]
    platform = Platform(
        tuple(Node((size,), hosts=each) for size, each in zip(sizes, hosts, strict=True)),
        tuple(r.randint(1, nodes // 4) for _ in range(licences)),
    )

    def job(row: int) -> Job:
        walltime = r.randint(5, 30) * SECOND
        return Job(
            row=row,
            name=f"j{row}",
            submit=r.randint(0, 15) * SECOND,
            walltime=walltime,
            runtime=r.choice([walltime, walltime, r.randint(0, walltime)]),
            demand=(r.randint(1, 4),),
            deadline=r.choice([NEVER, (15 + 2 * row + r.randint(0, 30)) * SECOND]),
            licences=tuple(x for x in range(licences) if r.random() < 0.3),
            spread="node",
        )

    return Case([job(row) for row in range(jobs)], platform)


def throng(
    seed: int, jobs: int = 70, nodes: int = 12, events: int = 12, memory: int = 0, bound: bool = False
) -> tuple[Case, list[Event]]:
    """Gangs and jobs of one node that crowd some unequal nodes, many ends before the walltime, and what happens.

    memory: of which each node has eight times as much, and a task takes one to four times as much; 0: nothing has any.
    bound: two in three nodes have a feature, and every second job asks for it or for nodes without it; one in three
    jobs asks for one of five copies of a licence.
    """
    r = Random(seed)
    more = (8 * memory,) if memory else ()
    sizes = sorted((r.randint(2, 6) for _ in range(nodes)), reverse=True)
    features = [("a",) * (bound and i % 3 > 0) for i in range(nodes)]
    kinds = (Node((size, *more), features=of) for size, of in zip(sizes, features, strict=True))
    platform = Platform(tuple(kinds), (5,) if bound else ())

    def job(row: int) -> Job:
        walltime = r.choice([2, 5, 9, 20, 40])
        return Job(
            row=row,
            name=f"j{row}",
            submit=r.choice([0, r.randint(0, 30)]) * SECOND,
            walltime=walltime * SECOND,
            runtime=r.choice([walltime, r.randint(0, walltime), 1]) * SECOND,
            demand=(r.randint(1, 3), *(r.randint(memory, 4 * memory) for _ in more)),
            tasks=r.choice([1, 1, 2, 3, 5, 8]),
            spread=r.choice(["any", "any", "node"]) if row % 2 else "any",
            constraint=r.choice(["", "", "a", "!a"]) if bound else "",
            licences=r.choice([(), (), (0,)]) if bound else (),
        )

    case = Case([job(row) for row in range(jobs)], platform)
    times_ = sorted(r.randint(1, 90) * SECOND // 2 for _ in range(events))
    return case, [_event_among(r, t, jobs, nodes) for t in times_]


def _event_among(r: Random, t: int, jobs: int, nodes: int) -> Event:
    kind, some = r.choice(["down", "up", "capacity", "cancel", "walltime", "window"]), (r.randrange(nodes),)
    if kind in ("cancel", "walltime"):
        return Event(time=t, kind=kind, job=r.randrange(jobs), value=r.randint(1, 30) * SECOND)
    if kind == "capacity":
        return Event(time=t, kind=kind, nodes=some, resource=0, value=r.randint(0, 8))
    if kind == "window":
        begin = t + r.randint(0, 20) * SECOND
        return Event(time=t, kind=kind, nodes=some, value=begin, until=begin + r.randint(1, 20) * SECOND)
    return Event(time=t, kind=kind, nodes=some)


def times(dice: Dice, seen: str, horizon: int) -> dict[str, Any]:
    """Often run time = walltime, sometimes more, less or nothing at all."""
    walltime = dice.of(SMALL)
    estimate = dice.of(SMALL) if seen == "any" else walltime
    submit = dice.between(0, horizon) * SECOND
    return {
        "submit": submit,
        "walltime": walltime * SECOND,
        "runtime": (walltime, 0, dice.of(SMALL))[dice.below(3)] * SECOND,
        "estimate": estimate * SECOND,
        "priority": float(dice.below(4)),
        "admin_priority": float(dice.of(FEW)),
        "deadline": dice.of([NEVER, submit + dice.of(SMALL) * SECOND]),
    }


KINDS = tuple(kind for kind in EVENTS if "reserve" not in kind)  # of events that need no reservation


def events_for(dice: Dice, case: Case, kinds: tuple[str, ...] = KINDS, most: int = 6) -> list[Event]:
    """Few events of these kinds, in file order, at instants at which the case's jobs come and may end, or between."""
    moments = {job.submit + span for job in case.jobs for span in (0, job.walltime)}
    instants = sorted({t + off for t in moments for off in (0, SECOND // 2, SECOND)})
    return [event_of(dice, case, dice.of(kinds), dice.of(instants)) for _ in range(dice.between(1, most))]


def event_of(dice: Dice, case: Case, kind: str, time: int) -> Event:
    """An event of this kind at this time."""
    if kind in ("cancel", "walltime", "priority"):
        value = dice.of(SMALL) * SECOND if kind == "walltime" else float(dice.of(SMALL)) if kind == "priority" else 0
        return Event(time=time, kind=kind, job=dice.below(len(case.jobs)), value=value)
    nodes, copies = case.platform.nodes, case.platform.copies
    where = nodes_of(dice.of([1 << node for node in range(len(nodes))]))
    if dice.of([0, 0, 1]):
        where = nodes_of(dice.between(1, 2 ** len(nodes) - 1))
    if kind in ("down", "up"):
        return Event(time=time, kind=kind, nodes=where)
    thing: dict[str, Any] = {"nodes": where, "resource": dice.below(len(nodes[0].capacity))}
    if copies and dice.below(2):
        thing = {"licence": dice.below(len(copies))}
    if kind == "capacity":
        return Event(time=time, kind=kind, value=dice.between(0, 8), **thing)
    begin = time + dice.between(-2, 10) * SECOND
    until = begin + dice.between(1, 8) * SECOND
    if dice.below(2):
        return Event(time=time, kind=kind, nodes=where, value=begin, until=until)
    return Event(time=time, kind=kind, value=begin, until=until, amount=dice.between(0, 4), **thing)


def nodes_of(bits: int) -> tuple[int, ...]:
    """The nodes whose bits are set."""
    return tuple(node for node in range(bits.bit_length()) if bits >> node & 1)


@st.composite
def cases_with_events(draw, cases: st.SearchStrategy[Case], **options: Any) -> tuple[Case, list[Event]]:
    """A case and what happens during it."""
    case = draw(cases)
    return case, events_for(draw(DICE), case, **options)


@st.composite
def grids_with_events(draw) -> tuple[Case, list[Event]]:
    """A grid and what happens on it; its nodes never have more than one cpu."""
    case, events = draw(cases_with_events(grid_cases()))
    return case, [replace(e, value=min(e.value, 1)) if e.kind == "capacity" and e.resource == 0 else e for e in events]


def some_nodes(dice: Dice) -> Platform:
    """Up to 4 nodes, most powerful first."""
    resources = dice.between(1, 3)
    licences = dice.between(0, 3)
    plain = dice.of(SELDOM)  # no node states a feature
    speeds = sorted((dice.of([0.5, 1.0, 1.0, 2.0]) for _ in range(dice.between(1, 4))), reverse=True)
    nodes = [
        Node(
            capacity=(dice.between(2, 6), *(dice.of([0, 4, 5, 6, 6]) for _ in range(resources - 1))),
            speed=speed,
            site=dice.below(2),
            hosts=frozenset(x for x in range(licences) if dice.of(SELDOM) == 0),
            features=() if plain else dice.of([(), ("a",), ("b",), ("a", "b")]),
        )
        for speed in speeds
    ]
    return Platform(tuple(nodes), tuple(dice.of([0, 1, 2, 2, 3, 3]) for _ in range(licences)))


def demands(dice: Dice, platform: Platform) -> dict[str, Any]:
    """Most fit somewhere, alone; a few fit nowhere."""
    resources = len(platform.nodes[0].capacity)
    licences = len(platform.copies)
    return {
        "tasks": dice.of([1, 1, 2, 2, 3, 4, 5]),
        "demand": (dice.of([1, 1, 1, 2, 3, 0]), *(dice.of([0, 0, 1, 2]) for _ in range(resources - 1))),
        "licences": tuple(dice.below(licences) for _ in range(dice.of(FEW) if licences else 0)),
        "spread": dice.of(SPREAD),
        "site": dice.below(2) if dice.of(SELDOM) else None,
        "constraint": dice.of(CONSTRAINTS),
    }


def predecessors(dice: Dice, row: int) -> tuple[int, ...]:
    """Mostly none, else one or two earlier jobs of the file."""
    return tuple(sorted({dice.below(row) for _ in range(dice.of(FEW) if row and dice.of(SELDOM) else 0)}))


def as_model(jobs: list[Job], platform: Platform) -> tuple[Workload, model_platform.Platform, Ints]:
    """The same workload and platform in the model's words, and the estimates, for which the model has no column."""
    licences = tuple(f"licence{x}" for x in range(len(platform.copies)))
    resources = RESOURCES[: len(platform.nodes[0].capacity)]
    columns = Jobs(
        job=np.array([job.name for job in jobs]),
        submit=np.array([job.submit for job in jobs], np.int64),
        runtime=np.array([job.runtime for job in jobs], np.int64),
        walltime=np.array([job.walltime for job in jobs], np.int64),
        tasks=np.array([job.tasks for job in jobs], np.int64),
        demand=np.array([job.demand for job in jobs], np.int64).reshape(len(jobs), len(resources)),
        spread=np.array([SPREAD.index(job.spread) for job in jobs], np.int8),
        exclusive=np.array([job.exclusive for job in jobs], np.bool_),
        licences=Ragged.of([job.licences for job in jobs]),
        priority=np.array([job.priority for job in jobs]),
        admin_priority=np.array([job.admin_priority for job in jobs]),
        deadline=np.array([job.deadline for job in jobs], np.int64),
        site=Labels.of(["" if job.site is None else site_name(job.site) for job in jobs]),
        constraint=Labels.of([job.constraint for job in jobs]),
        partition=Labels.of(["" if job.partition is None else f"p{job.partition}" for job in jobs]),
        user=Labels.of(["" if job.user is None else f"u{job.user}" for job in jobs]),
        project=Labels.of([job.project for job in jobs]),
        after=Ragged.of([job.after for job in jobs]),
    )
    workload = Workload(columns, name="random", resources=resources, licences=licences)
    return workload, as_model_platform(platform), np.array([job.estimate for job in jobs], np.int64)


def as_model_platform(platform: Platform) -> model_platform.Platform:
    sites = list(dict.fromkeys(node.site for node in platform.nodes))
    licences = range(len(platform.copies))
    hosts = [[node.hosts is None or x in node.hosts for x in licences] for node in platform.nodes]
    return model_platform.Platform(
        nodes=tuple(f"n{n}" for n in range(len(platform.nodes))),
        resources=RESOURCES[: len(platform.nodes[0].capacity)],
        capacity=np.array([node.capacity for node in platform.nodes], np.int64),
        speed=np.array([node.speed for node in platform.nodes]),
        site=np.array([sites.index(node.site) for node in platform.nodes], np.int64),
        sites=tuple(site_name(site) for site in sites),
        licences=tuple(f"licence{x}" for x in licences),
        copies=np.array(platform.copies, np.int64),
        hosts=np.array(hosts, np.bool_).reshape(len(platform.nodes), len(platform.copies)),
        features=tuple(node.features for node in platform.nodes),
        partitions=tuple(
            partitions.Partition(name=f"p{p}", nodes=np.array(sorted(nodes), np.int64))
            for p, nodes in enumerate(platform.partitions)
        ),
        limits=tuple(
            partitions.Limit(
                name=f"limit{number}",
                per="user" if limit.per_user else "all",
                partitions=() if limit.partition is None else (f"p{limit.partition}",),
                running_jobs=limit.running_jobs,
                queued_jobs=limit.queued_jobs,
                running={} if limit.cpus is None else {"cpus": limit.cpus},
            )
            for number, limit in enumerate(platform.limits)
        ),
    )


def site_name(site: int) -> str:
    return f"site{site}"


def from_model(
    workload: Workload, platform: model_platform.Platform, estimates: Ints | None = None
) -> tuple[list[Job], Platform]:
    """A workload and a platform of the model in the twins' words. Their resources must be the same, in one order."""
    assert workload.resources == platform.resources
    jobs, licences = workload.jobs, [platform.licences.index(name) for name in workload.licences]
    sites = {name: index for index, name in enumerate(platform.sites)}
    return [
        Job(
            row=row,
            name=str(jobs.job[row]),
            submit=int(jobs.submit[row]),
            runtime=int(jobs.runtime[row]),
            walltime=int(jobs.walltime[row]),
            estimate=int((jobs.walltime if estimates is None else estimates)[row]),
            tasks=int(jobs.tasks[row]),
            demand=tuple(jobs.demand[row].tolist()),
            licences=tuple(licences[x] for x, n in jobs.licences.counts_of(row).items() for _ in range(n)),
            spread=SPREAD[jobs.spread[row]],
            site=sites.get(jobs.site[row], -1) if jobs.site[row] else None,
            constraint=jobs.constraint[row],
            project=jobs.project[row],
            after=tuple(jobs.after[row].tolist()),
            priority=float(jobs.priority[row]),
            admin_priority=float(jobs.admin_priority[row]),
            deadline=int(jobs.deadline[row]),
        )
        for row in range(len(jobs))
    ], from_model_platform(platform)


def from_model_platform(platform: model_platform.Platform) -> Platform:
    nodes = [
        Node(
            capacity=tuple(platform.capacity[n].tolist()),
            speed=float(platform.speed[n]),
            site=int(platform.site[n]),
            hosts=frozenset(np.flatnonzero(platform.hosts[n]).tolist()),
            features=platform.features[n] if platform.features else (),
        )
        for n in range(len(platform.nodes))
    ]
    return Platform(tuple(nodes), tuple(platform.copies.tolist()))


def as_table(events: list[Event], jobs: list[Job]) -> list[dict[str, str]]:
    """The events in the words of a file."""
    return [{name: text for name, text in fields(event, jobs).items() if text} for event in events]


def fields(event: Event, jobs: list[Job]) -> dict[str, str]:
    names = [f"n{node}" for node in event.nodes]
    resource = "" if event.resource is None else RESOURCES[event.resource]
    timed = event.kind in ("walltime", "window")
    windowed = event.kind == "window"
    return {
        "time": seconds_text(event.time),
        "event": event.kind,
        "job": jobs[event.job].name if event.job >= 0 else "",
        "node": names[0] if len(names) == 1 else f"n[{''.join(map(str, event.nodes))}]" if names else "",
        "resource": resource if event.licence is None else f"licence{event.licence}",
        "value": seconds_text(int(event.value)) if timed
        else str(event.value) if event.kind in ("priority", "capacity")
        else "",
        "until": seconds_text(event.until) if windowed else "",
        "amount": str(event.amount) if windowed and not event.whole_nodes else "",
    }  # fmt: skip


def from_events(bound: BoundEvents, platform: Platform) -> list[Event]:
    """Events of the model in the twins' words, in order of time."""
    resources, found = len(platform.nodes[0].capacity), []
    for row in range(len(bound)):
        kind, resource = EVENTS[bound.kind[row]], int(bound.resource[row])
        found.append(
            Event(
                time=int(bound.time[row]),
                kind=kind,
                job=int(bound.job[row]),
                nodes=tuple(bound.nodes[row].tolist()),
                resource=resource if 0 <= resource < resources else None,
                licence=resource - resources if resource >= resources else None,
                value=float(bound.priority[row]) if kind == "priority" else int(bound.value[row]),
                until=int(bound.until[row]) if kind == "window" else 0,
                amount=int(bound.amount[row]),
            )
        )
    return found
