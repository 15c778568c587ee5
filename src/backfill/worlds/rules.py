"""Partitions, qualities of service and limits as a run applies them.

A partition is a set of nodes. What a job breaks for ever rejects it. A limit on what runs is counted like a floating
licence: each user, group or project that it counts has an account with so many copies, and each of their jobs holds
some. So plans, reservations and shadow times heed it as they heed a licence.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from backfill.model.errors import PlatformError, UsageError
from backfill.model.partitions import QUEUED_JOBS, RUNNING_JOBS, Limit, Rules, account
from backfill.model.platform import Platform
from backfill.model.units import counted
from backfill.model.workload import SPREAD, Counted, Ints, Jobs, Labels, Ragged, Workload

NONE, UNKNOWN = -1, -2


@dataclass(frozen=True, eq=False)
class Quotas:
    """The limits on queued jobs, waiting or running, by account."""

    asked: Ragged  # per job, the accounts that count it
    most: Ints  # shape (accounts,)
    names: tuple[str, ...]

    def cause(self, refused_for: int) -> str:
        """The reason why a job was rejected at its submit; see World.refused_for."""
        return self.names[refused_for] if refused_for >= 0 else "after"


def apply_rules(jobs: Jobs, platform: Platform, causes: Any) -> Jobs:
    """The jobs with partitions as the platform numbers them, and the priority that partition and quality give.

    A job that names no partition is in the one that its queue names, else in the default one. To `causes` goes what a
    job breaks for ever: `partition` or `qos` where it names one that there is not, else as `max_walltime of short`.
    """
    if not (jobs.partition.names or platform.partitions or platform.qos):
        return jobs
    partition, qos = memberships(jobs, platform)
    tables: list[tuple[str, Ints, Sequence[Rules]]]
    tables = [("partition", partition, platform.partitions), ("qos", qos, platform.qos)]
    for name_of_rule, codes, several in tables:
        if several:
            causes[(codes == UNKNOWN) & (causes == "")] = name_of_rule
        for i, rules in enumerate(several):
            for rule, broken in rules.broken(jobs, platform.resources):
                causes[(codes == i) & broken & (causes == "")] = f"{rule} of {rules.name}"
            if rules.priority:
                jobs = jobs.replace(priority=jobs.priority + np.where(codes == i, rules.priority, 0.0))
    names = tuple(each.name for each in platform.partitions)
    return jobs.replace(partition=Labels(np.maximum(partition, NONE).astype(np.int32), names))


def with_default_walltimes(workload: Workload, platform: Platform) -> Workload:
    """Jobs that asked for no walltime have that of their partition, else of their quality of service, if there is one.

    Never less than their run time, which nobody cut.
    """
    jobs = workload.jobs
    default = np.zeros(len(jobs), np.int64)
    for codes, several in zip(memberships(jobs, platform), (platform.partitions, platform.qos), strict=True):
        walltimes = np.array([*(each.default_walltime for each in several), 0], np.int64)
        default = np.where(default == 0, walltimes[np.maximum(codes, NONE)], default)
    given = ~jobs.requested & (default > 0)
    if not given.any():
        return workload
    walltime = np.where(given, np.maximum(default, jobs.runtime), jobs.walltime)
    note = f"walltime missing: the default of the partition or QOS is used: {counted(int(given.sum()), 'job')}"
    return workload.with_jobs(jobs.replace(walltime=walltime), note)


def memberships(jobs: Jobs, platform: Platform) -> tuple[Ints, Ints]:
    """The partition and the quality of service of each job, by place on the platform; NONE, or UNKNOWN for another."""
    names = tuple(each.name for each in platform.partitions)
    partition = _codes(jobs.partition, names)
    if names:
        partition = np.where(partition == NONE, np.maximum(_codes(jobs.queue, names), NONE), partition)
        default = [i for i, each in enumerate(platform.partitions) if each.default]
        partition[partition == NONE] = default[0] if default else NONE
    return partition, _codes(jobs.qos, tuple(each.name for each in platform.qos))


def _codes(labels: Labels, names: tuple[str, ...]) -> Ints:
    """The place of each job's label among the names; NONE for no label, UNKNOWN for another."""
    place = {name: i for i, name in enumerate(names)}
    return np.array([*(place.get(name, UNKNOWN) for name in labels.names), NONE], np.int64)[labels.codes]


@dataclass(frozen=True, eq=False)
class WholeNodes:
    """The jobs that run on whole nodes: to the core each of these is a gang of nodes."""

    tasks: Ints  # shape (jobs,): their own
    per_node: Ints  # shape (jobs,): how many of them a node holds; 0 of jobs that share nodes

    def take(self, rows: Ints) -> "WholeNodes":
        """The rules of these rows, in this order."""
        return WholeNodes(self.tasks[rows], self.per_node[rows])

    def own_tasks(self, held: Ragged, job: Ints) -> Ragged:
        """Pairs (node, tasks) of runs of these jobs, with the tasks that a job asked for in place of whole nodes."""
        count = np.diff(held.first) // 2
        each = np.repeat(self.per_node[job], count)
        if not each.any():
            return held
        items = held.items.reshape(-1, 2).copy()
        last = np.flatnonzero(count > 0)
        left = self.tasks[job] - self.per_node[job] * (count - 1)
        own = each.copy()
        own[np.cumsum(count)[last] - 1] = left[last]
        items[:, 1] = np.where(each > 0, own, items[:, 1])
        return Ragged(held.first, items.reshape(-1))


def on_whole_nodes(jobs: Jobs, platform: Platform, place: str) -> tuple[Jobs, WholeNodes]:
    """Jobs that are placed on whole nodes as gangs of nodes. place: of jobs whose partition says nothing.

    Raises PlatformError where nodes of their partition, or of a platform without partitions, are not alike.
    """
    per_node, tasks, demand = np.zeros(len(jobs), np.int64), jobs.tasks.copy(), jobs.demand.copy()
    several = [(each.place or place, each.nodes, f"partition {each.name}") for each in platform.partitions]
    several.append((place, np.arange(len(platform.nodes)), platform.name))
    codes = np.full(len(jobs), NONE) if len(several) == 1 else jobs.partition.codes
    for code, (rule, nodes, name) in enumerate(several):
        mine = codes == (NONE if code == len(several) - 1 else code)
        if rule != "exclusive" or not mine.any():
            continue
        capacity = platform.capacity[nodes]
        if (capacity != capacity[0]).any():
            message = (
                "nodes are not alike; expected equal nodes to place jobs on whole nodes, a partition for each kind"
            )
            raise PlatformError(f"{name}: {message}")
        fit = np.where(jobs.demand > 0, capacity[0] // np.maximum(jobs.demand, 1), jobs.tasks[:, None]).min(axis=1)
        fit = np.where(jobs.spread == SPREAD.index("distinct"), np.minimum(fit, 1), fit)
        fitting = mine & (fit > 0) & ((fit >= jobs.tasks) | (jobs.spread != SPREAD.index("node")))
        per_node[fitting] = np.minimum(fit, jobs.tasks)[fitting]
        tasks[fitting] = -(-jobs.tasks[fitting] // per_node[fitting])
        demand[fitting] = capacity[0]
    whole = WholeNodes(jobs.tasks, per_node)
    return jobs.replace(tasks=tasks, demand=demand) if per_node.any() else jobs, whole


def check_whole(platform: Platform, place: str, most: Ints) -> None:
    """Complain where events give a node on whose kind jobs are placed whole more than the platform states of it.

    place: of jobs whose partition says nothing. most: the greatest capacity, shape (nodes, resources).
    """
    mine = np.full(len(platform.nodes), place == "exclusive" and not any(each.default for each in platform.partitions))
    for each in platform.partitions:
        mine[each.nodes] |= (each.place or place) == "exclusive"
    for node, k in np.argwhere(mine[:, None] & (most > platform.capacity)).tolist()[:1]:
        name, resource = platform.nodes[node], platform.resources[k]
        raise UsageError(
            f"events raise {resource} of node {name} from {platform.capacity[node, k]} to {most[node, k]}, and jobs "
            "are placed on it whole; state the most that it ever has in the platform, and lower it by an event"
        )


def with_accounts(jobs: Jobs, platform: Platform) -> tuple[Jobs, Platform]:
    """The limits on what runs as licences behind those that float: of the jobs and of the platform."""
    items = [(jobs.licences.jobs, jobs.licences.items, jobs.licences.counts)]
    names, copies = [*platform.licences], [*platform.copies.tolist()]
    for limit in platform.limits:
        for resource, most in limit.amounts.items():
            amount = _amount(jobs, platform, resource)
            rows, accounts, whose = _accounts(limit, jobs, amount > 0)
            items.append((rows, accounts + len(names), amount[rows]))
            names += [account(limit, resource, each) for each in whose]
            copies += [most] * len(whose)
    job, item, count = (np.concatenate(column) for column in zip(*items, strict=True))
    number = np.concatenate([np.arange(len(platform.licences)), _come_up(jobs, job, item, len(platform.licences))])
    hosts = np.ones((len(platform.nodes), len(names)), np.bool_)
    hosts[:, : len(platform.licences)] = platform.hosts
    order = np.argsort(number)
    licences = Counted.of_items(len(jobs), job, number[item], count)
    return jobs.replace(licences=licences), replace(
        platform,
        licences=tuple(names[i] for i in order.tolist()),
        copies=np.array(copies, np.int64)[order],
        hosts=hosts,
    )


def _amount(jobs: Jobs, platform: Platform, resource: str) -> Ints:
    """The amount of a limit that each job uses, shape (jobs,)."""
    if resource == RUNNING_JOBS:
        return np.ones(len(jobs), np.int64)
    return jobs.tasks * jobs.demand[:, platform.resources.index(resource)]


def _accounts(limit: Limit, jobs: Jobs, counted_jobs: Any) -> tuple[Ints, Ints, list[str]]:
    """The rows of jobs that a limit counts, the account of each, and whose these are."""
    codes, names = limit.counts(jobs)
    rows = np.flatnonzero((codes >= 0) & counted_jobs)
    used, accounts = np.unique(codes[rows], return_inverse=True)
    return rows, accounts, [names[code] for code in used.tolist()]


def quotas(jobs: Jobs, platform: Platform) -> Quotas:
    """The limits on how many jobs are queued."""
    lists = [(np.zeros(0, np.int64), np.zeros(0, np.int64))]
    names: list[str] = []
    most: list[int] = []
    for limit in (each for each in platform.limits if each.queued_jobs is not None):
        rows, accounts, whose = _accounts(limit, jobs, np.ones(len(jobs), np.bool_))
        lists.append((rows, accounts + len(names)))
        names += [account(limit, QUEUED_JOBS, each) for each in whose]
        most += [limit.queued_jobs or 0] * len(whose)
    job, item = (np.concatenate(column) for column in zip(*lists, strict=True))
    counted = Counted.of_items(len(jobs), job, item, np.ones(len(job), np.int64))
    return Quotas(Ragged(counted.first, counted.items), np.array(most, np.int64), tuple(names))


def _come_up(jobs: Jobs, job: Ints, item: Ints, licences: int) -> Ints:
    """A number for each account, so that they are numbered as the jobs that they count come up."""
    mine = item >= licences
    first = np.full(int(item.max(initial=licences - 1)) + 1 - licences, len(jobs))
    np.minimum.at(first, item[mine] - licences, np.argsort(np.argsort(jobs.submit, kind="stable"))[job[mine]])
    number = np.empty(len(first), np.int64)
    number[np.argsort(first, kind="stable")] = np.arange(len(first))
    return licences + number
