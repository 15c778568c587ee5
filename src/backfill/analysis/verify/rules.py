"""Rules `partition`, `whole`, `limit` and `queued`, about partitions, qualities of service and limits."""

from dataclasses import replace

import numpy as np

from backfill.analysis.verify.capacity import Blocked, Sweep
from backfill.analysis.verify.case import Case, Mask, demand_of, meets
from backfill.model.partitions import Limit, Partition, Rules
from backfill.model.platform import Platform
from backfill.model.workload import SPREAD, Ints, Workload

UNKNOWN = "?"


class Membership:
    """The partition and quality of service of each job, and their rules that it breaks.

    place: how jobs are placed if their partition does not state it.
    """

    def __init__(self, workload: Workload, platform: Platform, place: str = "power") -> None:
        self.workload, self.platform, self.place = workload, platform, place
        self.partitions = {each.name: each for each in platform.partitions}
        self.qos = {each.name: each for each in platform.qos}
        self.masks: dict[str | None, Mask] = {}
        self.default = next((each for each in platform.partitions if each.default), None)

    def partition(self, row: int) -> Partition | str | None:
        """Return the partition of a job: None if every node is allowed, UNKNOWN if it names a missing partition."""
        jobs = self.workload.jobs
        if not self.partitions:
            return None
        if jobs.partition[row]:
            return self.partitions.get(jobs.partition[row], UNKNOWN)
        return self.partitions.get(jobs.queue[row], self.default)

    def breaks(self, row: int) -> str:
        """Return the first rule that a job breaks permanently, as named in messages; empty if it breaks none."""
        partition = self.partition(row)
        qos: Rules | str | None = None
        if self.qos and self.workload.jobs.qos[row]:
            qos = self.qos.get(self.workload.jobs.qos[row], UNKNOWN)
        for kind, rules in (("partition", partition), ("qos", qos)):
            if isinstance(rules, str):
                return kind
            if rules is not None and (broken := self._broken(rules, row)):
                return f"{broken} of {rules.name}"
        for limit in self.platform.limits:
            for resource, most in limit.amounts.items():
                if self.account(limit, row) is not None and self.amount(resource, row) > most:
                    return f"{resource} of {limit.name}"
        return ""

    def name(self, row: int) -> str | None:
        """Return the name of the partition of a job."""
        partition = self.partition(row)
        return partition.name if isinstance(partition, Partition) else partition

    def nodes(self, row: int) -> Mask:
        """Return the nodes of a job's partition, shape (nodes,); none if there is no such partition."""
        partition, name = self.partition(row), self.name(row)
        if name not in self.masks:
            self.masks[name] = np.full(len(self.platform.nodes), partition is None)
            if isinstance(partition, Partition):
                self.masks[name][partition.nodes] = True
        return self.masks[name]

    def on_whole_nodes(self) -> Mask:
        """Return the jobs on whole nodes, shape (jobs,), by their own request or their partition's rule."""
        alone: Mask = self.workload.jobs.exclusive.copy()
        if "exclusive" in (self.place, *(each.place for each in self.platform.partitions)):
            places = {None: self.place} | {name: each.place or self.place for name, each in self.partitions.items()}
            alone |= [places.get(self.name(row)) == "exclusive" for row in range(len(self.workload))]
        return alone

    def nodes_for_all(self, row: int) -> Mask:
        """Return the nodes that the partition, the site and the constraint of a job allow, shape (nodes,)."""
        jobs, platform = self.workload.jobs, self.platform
        nodes = self.nodes(row)
        if jobs.site[row]:
            nodes = nodes & [platform.sites[site] == jobs.site[row] for site in platform.site.tolist()]
        return nodes & meets(platform, jobs.constraint[row]) if jobs.constraint[row] else nodes

    def _broken(self, rules: Rules, row: int) -> str:
        jobs = self.workload.jobs
        welcome = jobs.user[row] in rules.users or jobs.group[row] in rules.groups
        if (rules.users or rules.groups) and not welcome:
            return "users"
        if 0 < rules.max_walltime < jobs.walltime[row]:
            return "max_walltime"
        large = [name for name, most in rules.max_size.items() if self.amount(name, row) > most]
        return f"max_size.{large[0]}" if large else ""

    def walltimes(self) -> Ints:
        """Return the longest run times that jobs may have, shape (jobs,): jobs without a request get the default."""
        jobs = self.workload.jobs
        longest = jobs.walltime.copy()
        for row in np.flatnonzero(~jobs.requested).tolist():
            rules = (self.partition(row), self.qos.get(jobs.qos[row]))
            defaults = [each.default_walltime for each in rules if isinstance(each, Rules) and each.default_walltime]
            if defaults:
                longest[row] = max(defaults[0], int(jobs.runtime[row]))
        return longest

    def amount(self, resource: str, row: int) -> int:
        """Return the amount of a limit that a job uses."""
        if resource == "running_jobs":
            return 1
        names, jobs = self.workload.resources, self.workload.jobs
        return int(jobs.tasks[row]) * int(jobs.demand[row, names.index(resource)]) if resource in names else 0

    def account(self, limit: Limit, row: int) -> str | None:
        """Return the account in which a limit counts a job; None if it does not count the job."""
        jobs = self.workload.jobs
        named = {
            "partitions": self.name(row),
            "qos": jobs.qos[row],
            "users": jobs.user[row],
            "groups": jobs.group[row],
            "projects": jobs.project[row],
        }
        if any(getattr(limit, column) and name not in getattr(limit, column) for column, name in named.items()):
            return None
        if limit.per == "all":
            return ""
        whose: str = getattr(jobs, limit.per)[row]
        return whose or None


def on_whole_nodes(case: Case, members: Membership) -> Case:
    """Return the case in which each job on whole nodes requests nodes, and holds the entire capacity of each.

    If nodes that could hold a task of a job differ, it is left unchanged; that it is alone there is checked.
    """
    workload, platform, jobs = case.workload, case.platform, case.workload.jobs
    asked, tasks = demand_of(workload, platform), jobs.tasks.copy()
    rows, there = list[int](), list[Ints]()
    for row in np.flatnonzero(members.on_whole_nodes()).tolist():
        capacity, needed = platform.capacity[members.nodes_for_all(row)], asked[row] > 0
        fit = (capacity[:, needed] // asked[row, needed]).min(axis=1, initial=jobs.tasks[row])
        fit = np.minimum(fit, 1) if SPREAD[jobs.spread[row]] == "distinct" else fit
        able = (fit >= jobs.tasks[row]) if SPREAD[jobs.spread[row]] == "node" else fit > 0
        if able.any() and (capacity[able] == capacity[able][0]).all():
            rows.append(row)
            there.append(capacity[able][0])
            tasks[row] = -(-jobs.tasks[row] // fit[able][0])
    if not rows:
        return case
    names = (*workload.resources, *(name for name in platform.resources if name not in workload.resources))
    demand = np.pad(jobs.demand, ((0, 0), (0, len(names) - len(workload.resources))))
    demand[np.array(rows)[:, None], [names.index(name) for name in platform.resources]] = there
    workload = replace(workload, jobs=jobs.replace(demand=demand, tasks=tasks), resources=names)
    mine = np.isin(case.seat_job, rows)
    held = 1 if case.placed else tasks[case.seat_job]
    return replace(case, workload=workload, seat_tasks=np.where(mine, held, case.seat_tasks))


def check_rules(case: Case, until: Ints, members: Membership, full: Mask) -> None:
    """Check that each job ran on nodes of its partition and broke no rule, and that no limit was ever exceeded."""
    _check_whole_nodes(case, until, members.on_whole_nodes())
    if not case.platform.has_rules:
        return
    jobs, report = case.workload.jobs, case.report
    broken = {row: members.breaks(row) for row in np.flatnonzero(case.ran).tolist()}
    for row in report.each("partition", np.array([bool(broken.get(row)) for row in range(len(jobs))], np.bool_)):
        report.add("partition", jobs.job[row], case.start[row], f"ran, although it breaks {broken[row]}")
    real = np.flatnonzero((case.seat_node >= 0) & case.placed)
    job, node = case.seat_job[real], case.seat_node[real]
    outside = [not members.nodes(row)[at] for row, at in zip(job.tolist(), node.tolist(), strict=True)]
    for i in report.each("partition", np.array(outside, np.bool_)):
        text = f"sits on node {case.platform.nodes[node[i]]}, which is not in its partition"
        report.add("partition", jobs.job[job[i]], case.start[job[i]], text)
    for limit in case.platform.limits:
        _check_running(case, until, members, limit)
    for row in report.each("queued", full & case.ran):
        report.add(
            "queued", jobs.job[row], case.start[row], "ran, although at its submit a limit on queued jobs was reached"
        )


def _check_whole_nodes(case: Case, until: Ints, alone: Mask) -> None:
    """Check that a job on whole nodes shares none of them; a job that holds nothing anywhere is ignored."""
    if not alone.any():
        return
    holds = demand_of(case.workload, case.platform).any(axis=1) | alone
    real = (case.seat_node >= 0) & case.placed & holds[case.seat_job]
    run, node = case.seat_run[real], case.seat_node[real]
    share = np.where(alone[case.runs.job[run]], len(run) + 1, 1)  # as much as all that share it
    most = np.full(len(case.platform.nodes), len(run) + 1)
    sweep = Sweep(node, case.runs.start[run], until[run], Blocked.none())
    for seat, time, where, _, _ in sweep.above(0, share, most, case.report, "whole"):
        text = f"shares node {case.platform.nodes[where]}, on which a job must be alone"
        case.report.add("whole", case.workload.jobs.job[case.runs.job[run[seat]]], time, text)


def _check_running(case: Case, until: Ints, members: Membership, limit: Limit) -> None:
    """Check that no limit is exceeded, for each user, group or project separately."""
    runs, ids = case.runs, case.workload.jobs.job
    accounts = [members.account(limit, row) for row in range(len(case.workload))]
    names = sorted({each for each in accounts if each is not None})
    place = {name: i for i, name in enumerate(names)}
    lane = np.array([-1 if each is None else place[each] for each in accounts], np.int64)[runs.job]
    mine = lane >= 0
    sweep = Sweep(lane[mine], runs.start[mine], until[mine], Blocked.none())
    for resource, most in limit.amounts.items():
        amount = np.array([members.amount(resource, row) for row in runs.job[mine].tolist()], np.int64)
        allowed = np.full(len(names), most)
        for i, time, whose, held, there in sweep.above(0, amount, allowed, case.report, "limit"):
            text = f"{limit.name}: {resource}" + (f" of {names[whose]}" if names[whose] else "") + f" {held} of {there}"
            case.report.add("limit", ids[runs.job[mine][i]], time, text)
