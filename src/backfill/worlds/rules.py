"""Partitions, qualities of service and limits in a run.

A partition is a set of nodes. A job that breaks a rule permanently is rejected. A limit on running jobs is counted like
a floating licence: each user, group or project that it applies to has an account with copies, and each of their jobs
holds some. So plans, reservations and shadow times respect it as they respect a licence.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backfill.model.errors import PlatformError, UsageError
from backfill.model.partitions import QUEUED_JOBS, RUNNING_JOBS, Limit, Rules, account
from backfill.model.platform import Platform
from backfill.model.units import counted
from backfill.model.workload import SPREAD, Counted, Ints, Jobs, Labels, Ragged, Workload

NONE, UNKNOWN = -1, -2
NO_ACCOUNTS: Mapping[str, int] = {}


@dataclass(frozen=True, eq=False)
class Quotas:
    """The limits on queued jobs, waiting or running, by account."""

    asked: Ragged  # per job, the accounts that count it
    most: Ints  # shape (accounts,)
    names: tuple[str, ...]

    def cause(self, refused_for: int) -> str:
        """Return the reason why a job was rejected at its submit; see World.refused_for."""
        return self.names[refused_for] if refused_for >= 0 else "after"


def apply_rules(jobs: Jobs, platform: Platform, causes: Any) -> Jobs:
    """Return the jobs with partitions as the platform numbers them, and the priority from partition and quality.

    A job that names no partition is in the one that its queue names, else in the default one. Permanent violations go
    to `causes`: `partition` or `qos` for an unknown name, else such as `max_walltime of short`.
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
    """Return the jobs; those without a walltime get the default of their partition, else of their quality of service.

    It is never less than their run time, which nothing cut short.
    """
    jobs = workload.jobs
    if not any(each.default_walltime for each in (*platform.partitions, *platform.qos)):
        return workload
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
    """Return the partition and quality of service of each job, as platform indices; NONE, or UNKNOWN for another."""
    names = tuple(each.name for each in platform.partitions)
    partition = _codes(jobs.partition, names)
    if names:
        partition = np.where(partition == NONE, np.maximum(_codes(jobs.queue, names), NONE), partition)
        default = [i for i, each in enumerate(platform.partitions) if each.default]
        partition[partition == NONE] = default[0] if default else NONE
    return partition, _codes(jobs.qos, tuple(each.name for each in platform.qos))


def _codes(labels: Labels, names: tuple[str, ...]) -> Ints:
    """Return the index of each job's label among the names; NONE for no label, UNKNOWN for another."""
    place = {name: i for i, name in enumerate(names)}
    return np.array([*(place.get(name, UNKNOWN) for name in labels.names), NONE], np.int64)[labels.codes]


@dataclass(frozen=True, eq=False)
class WholeNodes:
    """The jobs that run on whole nodes: in the core each of these is a gang of nodes."""

    tasks: Ints  # shape (jobs,): their own
    per_node: Ints  # shape (jobs,): number of tasks on one node; 0 for jobs that share nodes
    nodes: NDArray[np.bool_]  # shape (nodes,): nodes on which some of these jobs may run
    demand: Ints  # shape (jobs, resources): of each of these tasks

    @property
    def asked(self) -> Ints:
        """What each job requested, shape (jobs, resources)."""
        asked: Ints = self.tasks[:, None] * self.demand
        return asked

    def take(self, rows: Ints) -> "WholeNodes":
        """Return the rules of these rows, in this order."""
        return WholeNodes(self.tasks[rows], self.per_node[rows], self.nodes, self.demand[rows])

    def own_tasks(self, held: Ragged, job: Ints | slice) -> Ragged:
        """Return pairs (node, tasks) of runs of these jobs, with their own tasks instead of whole nodes."""
        if not self.per_node[job].any():
            return held
        count = np.diff(held.first) // 2
        each = np.repeat(self.per_node[job], count)
        items = held.items.reshape(-1, 2).copy()
        last = np.flatnonzero(count > 0)
        left = self.tasks[job] - self.per_node[job] * (count - 1)
        own = each.copy()
        own[np.cumsum(count)[last] - 1] = left[last]
        items[:, 1] = np.where(each > 0, own, items[:, 1])
        return Ragged(held.first, items.reshape(-1))


def on_whole_nodes(jobs: Jobs, platform: Platform, place: str) -> tuple[Jobs, WholeNodes]:
    """Turn jobs on whole nodes into gangs of nodes: those that request it, and those whose partition requires it.

    place: rule for jobs whose partition sets none. Raises PlatformError if the nodes that could hold a task of such a
    job are not equal.
    """
    n, several = len(jobs), [(each.place or place) == "exclusive" for each in platform.partitions]
    partition = jobs.partition.codes if several else np.full(n, NONE)
    whole = WholeNodes(jobs.tasks, np.zeros(n, np.int64), np.zeros(len(platform.nodes), np.bool_), jobs.demand)
    rows = np.flatnonzero(jobs.exclusive | np.array([*several, place == "exclusive"])[partition])
    if not len(rows):
        return jobs, whole
    tasks, demand = jobs.tasks.copy(), jobs.demand.copy()
    keys = np.column_stack([partition, jobs.site.codes, jobs.constraint.codes])[rows]
    sets, of = np.unique(keys, axis=0, return_inverse=True)
    for number in range(len(sets)):
        mine = rows[of.ravel() == number]
        nodes = platform.within(jobs.partition[mine[0]] if several else "", sets[number, 1], jobs.constraint[mine[0]])
        kinds, first = np.unique(platform.capacity[nodes], axis=0, return_index=True)
        fit = np.array([_fit(jobs, mine, kind) for kind in kinds], np.int64).reshape(len(kinds), len(mine))
        for job in np.flatnonzero((fit > 0).sum(axis=0) > 1).tolist():
            one, other = (platform.nodes[np.flatnonzero(nodes)[first[k]]] for k in np.flatnonzero(fit[:, job])[:2])
            raise PlatformError(
                f"{platform.name}: nodes {one} and {other}, on which job {jobs.job[mine[job]]} may run, are not alike; "
                "expected equal nodes to place a job on whole nodes, by a partition or a constraint for each kind"
            )
        whole.nodes[nodes] = True
        for k, kind in enumerate(kinds):
            fitting = mine[fit[k] > 0]
            whole.per_node[fitting] = np.minimum(fit[k][fit[k] > 0], jobs.tasks[fitting])
            tasks[fitting] = -(-jobs.tasks[fitting] // whole.per_node[fitting])
            demand[fitting] = kind
    return jobs.replace(tasks=tasks, demand=demand), whole


def _fit(jobs: Jobs, rows: Ints, capacity: Ints) -> Ints:
    """Return how many tasks of each of these jobs a whole node holds; 0 if it can hold none."""
    demand, tasks, spread = jobs.demand[rows], jobs.tasks[rows], jobs.spread[rows]
    fit = np.where(demand > 0, capacity // np.maximum(demand, 1), tasks[:, None]).min(axis=1)
    fit = np.where(spread == SPREAD.index("distinct"), np.minimum(fit, 1), fit)
    return np.where((fit < tasks) & (spread == SPREAD.index("node")), 0, fit)


def check_whole(platform: Platform, whole: WholeNodes, most: Ints) -> None:
    """Raise PlatformError if events give a whole-node node more than the platform states.

    most: the greatest capacity, shape (nodes, resources).
    """
    for node, k in np.argwhere(whole.nodes[:, None] & (most > platform.capacity)).tolist()[:1]:
        name, resource = platform.nodes[node], platform.resources[k]
        raise UsageError(
            f"events raise {resource} of node {name} from {platform.capacity[node, k]} to {most[node, k]}, and jobs "
            "are placed on it whole; state the most that it ever has in the platform, and lower it by an event"
        )


def with_accounts(jobs: Jobs, platform: Platform, known: Mapping[str, int] = NO_ACCOUNTS) -> tuple[Jobs, Platform]:
    """Return jobs and platform with the limits on running jobs as licences behind the floating ones.

    known: the numbers of accounts that count earlier jobs; new ones come behind them.
    """
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
    several = len(platform.licences)
    number = np.concatenate([np.arange(several), _come_up(jobs, job, item, names[several:], several, known)])
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
    """Return the amount of a limit that each job uses, shape (jobs,)."""
    if resource == RUNNING_JOBS:
        return np.ones(len(jobs), np.int64)
    return jobs.tasks * jobs.demand[:, platform.resources.index(resource)]


def _accounts(limit: Limit, jobs: Jobs, counted_jobs: Any) -> tuple[Ints, Ints, list[str]]:
    """Return the rows of jobs that a limit counts, the account of each, and the owners of the accounts."""
    codes, names = limit.counts(jobs)
    rows = np.flatnonzero((codes >= 0) & counted_jobs)
    used, accounts = np.unique(codes[rows], return_inverse=True)
    return rows, accounts, [names[code] for code in used.tolist()]


def quotas(jobs: Jobs, platform: Platform) -> Quotas:
    """Return the limits on the number of queued jobs."""
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


def _come_up(jobs: Jobs, job: Ints, item: Ints, names: Sequence[str], licences: int, known: Mapping[str, int]) -> Ints:
    """Return a number for each account: known ones in their order, then in that in which the counted jobs appear."""
    mine = item >= licences
    first = np.full(len(names), len(jobs))
    np.minimum.at(first, item[mine] - licences, np.argsort(np.argsort(jobs.submit, kind="stable"))[job[mine]])
    first = np.array([known.get(name, len(known) + place) for name, place in zip(names, first.tolist(), strict=True)])
    number = np.empty(len(first), np.int64)
    number[np.argsort(first, kind="stable")] = np.arange(len(first))
    return licences + number
