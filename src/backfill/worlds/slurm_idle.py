"""Why nodes are idle under the policy `slurm`, and how usage follows the shares, from watching a run.

After each watched pass every idle part of a node has one cause until the next pass. A node that the last backfill cycle
planned for a job belongs to that plan, whole, as in Slurm. Otherwise the first job of the queue that would fit on what
is free (by the sum of its tasks, an approximation of Slurm's choice of nodes) tells the cause.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from backfill.core.place.placement import DISTINCT, NODE
from backfill.model.platform import Platform
from backfill.model.units import SECOND
from backfill.model.workload import Floats, Ints, Workload
from backfill.policies.slurm.minutes import limit_on_minutes
from backfill.policies.slurm.told import BEYOND, LIMITED, TOO_DEEP, UNLICENSED
from backfill.worlds.options import Options
from backfill.worlds.slurm_reasons import name_of_limit, name_of_minutes
from backfill.worlds.slurm_watch import Decisions, Seen, Windows, watch

CAUSES = {
    "planned": "planned for a job that cannot start yet",
    "limit": "a limit stops the jobs that would fit",
    "licence": "licences are missing for the jobs that would fit",
    "depth": "the backfill loop did not reach the jobs that would fit",
    "block": "behind the first job that does not fit; there is no backfill loop",
    "soon": "a job that fits starts at the next pass or cycle",
    "window": "the jobs that wait would start beyond bf_window",
    "small": "too little is free for any job that waits",
    "nobody": "no job waits that may run there",
}
PLANNED, LIMIT, LICENCE, DEPTH, BLOCK, SOON, WINDOW, SMALL, NOBODY = CAUSES
NAMES = tuple(CAUSES)
FOR_MOST = 5  # jobs, limits and partitions that are named
Amounts = dict[str, float]


@dataclass(frozen=True, slots=True)
class Idle:
    """Idle node-hours by cause; a node of which a quarter is free counts as a quarter."""

    node_hours: Mapping[str, float]  # by cause
    planned_for: tuple[tuple[str, float], ...]  # the jobs for which most was planned, with node-hours
    limits: tuple[tuple[str, float], ...]  # the limits that kept most idle
    partitions: Mapping[str, Mapping[str, float]]  # of the first partition of the node: by cause
    watched: float  # share of the time with waiting jobs; below 1 the causes are extrapolated

    @property
    def total(self) -> float:
        """All idle node-hours."""
        return sum(self.node_hours.values())

    def to_dict(self) -> dict[str, Any]:
        """Return the fields for JSON."""
        return {
            "node_hours": dict(self.node_hours),
            "planned_for": [{"job": job, "node_hours": hours} for job, hours in self.planned_for],
            "limits": [{"limit": name, "node_hours": hours} for name, hours in self.limits],
            "by_partition": [
                {"partition": name, "node_hours": dict(causes)} for name, causes in self.partitions.items()
            ],
            "watched_share": self.watched,
        }


@dataclass(frozen=True, slots=True)
class Shares:
    """The shares of the accounts below root, and their part of the decayed usage over time."""

    accounts: tuple[str, ...]
    owned: tuple[float, ...]  # shares / shares of all siblings
    at_s: tuple[float, ...]  # instants
    used: tuple[tuple[float, ...], ...]  # [instant][account], usage / usage of root

    def to_dict(self) -> dict[str, Any]:
        """Return the fields for JSON."""
        return {"accounts": list(self.accounts), "owned": list(self.owned), "at_s": list(self.at_s),
                "used": [list(each) for each in self.used]}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Watched:
    """What watching a run found."""

    idle: Idle
    shares: Shares | None  # None if no usage is kept
    cycles: int  # that were watched
    reached: float | None  # mean number of jobs that a watched cycle tested


@dataclass
class _Sums:
    whole: float = 0.0  # idle node-microseconds of the whole run while jobs waited
    alone: Floats = field(default_factory=lambda: np.zeros(0))  # of each node, while no job waited
    span: float = 0.0  # microseconds while jobs waited
    watched: float = 0.0  # of these, in windows
    of: Amounts = field(default_factory=dict)  # idle node-microseconds in windows, by cause
    jobs: dict[int, float] = field(default_factory=dict)
    limits: Amounts = field(default_factory=dict)
    partitions: dict[str, Amounts] = field(default_factory=dict)

    def add(self, idle: "_Instant", span: int) -> None:
        """Add what was idle for so long in a window."""
        self.watched += span
        for job, amount in idle.jobs.items():
            self.jobs[job] = self.jobs.get(job, 0.0) + amount * span
        _add(self.of, idle.of, span)
        _add(self.limits, idle.limits, span)
        for where, causes in idle.partitions.items():
            _add(self.partitions.setdefault(where, {}), causes, span)


@dataclass
class _Instant:
    """Idle nodes at one instant."""

    of: Amounts = field(default_factory=dict)
    jobs: dict[int, float] = field(default_factory=dict)
    limits: Amounts = field(default_factory=dict)
    partitions: dict[str, Amounts] = field(default_factory=dict)


def _add(sums: Amounts, amounts: Mapping[str, float], times: float) -> None:
    for name, amount in amounts.items():
        sums[name] = sums.get(name, 0.0) + amount * times


def watched(
    workload: Workload, platform: Platform, params: Mapping[str, float | str], options: Options, windows: Windows
) -> Watched:
    """Run the policy once more, and return why nodes were idle and how usage followed the shares.

    What is idle while no job waits is summed over the whole run, and so is all that is idle; the causes are those in
    the windows.
    """
    sums, last, since, names = _Sums(alone=np.zeros(len(platform.nodes))), None, 0, list[str]()
    cycles, reached, usage = 0, 0, list[tuple[float, list[float]]]()
    accounts, first_of, idle, waits = _accounts(platform), _first_partition(platform), None, False
    for seen in watch(workload, platform, params, options, windows):
        names = names or [str(name) for name in seen.begun.jobs.job.tolist()]
        if idle is not None:
            _add_until(sums, seen.now, since, idle, waits, last, windows)
        waits, idle, since = int(seen.view.queue.waiting) > 0, _idle_parts(seen), seen.now
        last = None
        if waits and seen.watched and seen.decisions is not None:
            last = _instant(seen, first_of, idle)
        if seen.cycle and seen.watched:
            cycles, reached = cycles + 1, reached + int(seen.view.own.reached[0])
        if accounts and _keeps_usage(seen) and seen.now >= windows.begin + len(usage) * windows.period:
            of_all = float(seen.view.own.usage[0])
            used = [float(seen.view.own.usage[who]) / of_all if of_all else 0.0 for who in accounts]
            usage.append((seen.now / SECOND, used))
    shares = _shares(platform, accounts, usage) if usage else None
    return Watched(_idle(sums, names, first_of), shares, cycles, reached / cycles if cycles else None)


def _add_until(
    sums: _Sums, now: int, since: int, idle: Floats, waits: bool, last: "_Instant | None", windows: Windows
) -> None:
    """Add what was idle between two passes."""
    if not waits:
        sums.alone += idle * (now - since)
        return
    sums.whole += float(idle.sum()) * (now - since)
    sums.span += now - since
    if last is not None and (inside := windows.before(now) - windows.before(since)):
        sums.add(last, inside)


def _idle(sums: _Sums, names: list[str], first_of: list[str]) -> Idle:
    hour = 3600 * SECOND
    found = sum(sums.of.values())
    scale = sums.whole / found / hour if found else 0.0
    causes, partitions = dict(sums.of), {where: dict(each) for where, each in sums.partitions.items()}
    for node in np.flatnonzero(sums.alone).tolist():
        amount = float(sums.alone[node]) / (scale * hour) if scale else float(sums.alone[node])
        _add(causes, {NOBODY: amount}, 1.0)
        _add(partitions.setdefault(first_of[node], {}), {NOBODY: amount}, 1.0)
    scale = scale or 1 / hour
    return Idle(
        _scaled(causes, scale),
        tuple((names[job], hours * scale) for job, hours in _most(sums.jobs)),
        tuple((name, hours * scale) for name, hours in _most(sums.limits)),
        {where: _scaled(each, scale) for where, each in sorted(partitions.items())},
        sums.watched / sums.span if sums.span else 1.0,
    )


def _most(amounts: Mapping[Any, float]) -> list[tuple[Any, float]]:
    return sorted(amounts.items(), key=lambda each: -each[1])[:FOR_MOST]


def _scaled(amounts: Mapping[str, float], scale: float) -> Amounts:
    """Return the amounts of each cause, in the order of CAUSES."""
    return {cause: amounts[cause] * scale for cause in CAUSES if amounts.get(cause, 0.0) > 0}


def _idle_parts(seen: Seen) -> Floats:
    """Return which part of each node is idle, by its cpus."""
    capacity, free = np.asarray(seen.view.machine.capacity)[:, 0], np.asarray(seen.view.free.nodes)[:, 0]
    idle: Floats = np.where(capacity > 0, np.clip(free, 0, None) / np.maximum(capacity, 1), 0.0)
    return idle


def _instant(seen: Seen, first_of: list[str], idle: Floats) -> _Instant:
    """Return the cause of each idle part of a node after a pass."""
    view, found, free = seen.view, _Instant(), np.asarray(seen.view.free.nodes)
    cause = np.full(len(idle), NAMES.index(NOBODY))
    holder = np.full(len(idle), -1)
    decisions = seen.decisions or Decisions(seen.now)
    for job, plan in sorted(decisions.plans.items(), key=lambda each: each[1].begin, reverse=True):
        if view.queue.waits[job]:
            nodes = np.array(plan.nodes)
            cause[nodes], holder[nodes] = NAMES.index(PLANNED), job
    open_nodes = (holder < 0) & (idle > 0)
    _judge_open(seen, decisions, open_nodes, free, cause, found, idle)
    for node in np.flatnonzero(idle > 0).tolist():
        name, amount = NAMES[cause[node]], float(idle[node])
        _add(found.of, {name: amount}, 1.0)
        _add(found.partitions.setdefault(first_of[node], {}), {name: amount}, 1.0)
        if name == PLANNED:
            job = int(holder[node])
            found.jobs[job] = found.jobs.get(job, 0.0) + amount
    return found


def _judge_open(
    seen: Seen, decisions: Decisions, open_nodes: Any, free: Ints, cause: Ints, found: _Instant, idle: Floats
) -> None:
    """Write the causes of idle nodes that are planned for nobody, by the jobs in the order of the queue."""
    view, known = seen.view, set[tuple[Any, ...]]()
    undecided = open_nodes.copy()  # no job that fits there was met
    for job in seen.waiting:
        if not undecided.any():
            return
        what = _cause_of(seen, decisions, job)
        demand, tasks = view.jobs.demand[job], int(view.jobs.tasks[job])
        part, bound, spread = int(view.own.partition[job]), int(view.jobs.bound[job]), int(view.jobs.spread[job])
        least = int(view.own.min_nodes[job]) if len(view.own.min_nodes) else 0
        shape = (what, part, bound, spread, tasks, least, *demand.tolist())
        if shape in known:
            continue
        known.add(shape)
        may = open_nodes & (view.own.partition_nodes.reshape(-1, len(idle))[part] != 0)
        if bound >= 0:
            may &= np.asarray(view.machine.allowed[bound]) != 0
        fit = np.zeros(len(idle), np.int64)
        asked = np.flatnonzero(demand)
        fit[may] = (free[may][:, asked] // demand[asked]).min(axis=1).clip(0, tasks) if len(asked) else tasks
        if tasks == 1 or spread == NODE:
            fits = bool((fit >= tasks).any())
        elif spread == DISTINCT:
            fits = int(np.count_nonzero(fit)) >= tasks
        else:
            fits = int(fit.sum()) >= tasks and int(np.count_nonzero(fit)) >= max(least, 1)
        if fits and what is not None:
            mine = undecided & (fit > 0)
            cause[mine] = NAMES.index(what)
            undecided &= ~mine
            if what == LIMIT and (name := limit_of(seen, job) or limit_met(seen, job)):
                _add(found.limits, {name: float(idle[mine].sum())}, 1.0)
        else:
            waits_for = may & (cause == NAMES.index(NOBODY))
            cause[waits_for] = NAMES.index(WINDOW if decisions.verdicts.get(job) == BEYOND else SMALL)


def _cause_of(seen: Seen, decisions: Decisions, job: int) -> str | None:
    """Return why a job that fits has not started; None if the last cycle tested it and found no place for it."""
    verdict = decisions.verdicts.get(job)
    if verdict is not None:
        return {LIMITED: LIMIT, TOO_DEEP: DEPTH, UNLICENSED: LICENCE}.get(verdict)
    if job in decisions.plans:
        return None
    if seen.view.own.bf_interval < 0:
        return BLOCK
    return SOON if seen.view.own.since[job] >= decisions.at else DEPTH


def limit_of(seen: Seen, job: int, amounts: bool | None = None) -> str:
    """Return the name of the first limit that stops a job; empty if none does now.

    amounts: only limits on amounts of resources, or only those on numbers of jobs.
    """
    state, names = seen.begun.state, tuple(seen.begun.platform.licences)  # a view hides the accounts of limits
    jobs, own = state.jobs, seen.view.own
    for item in range(int(jobs.limit_first[job]), int(jobs.licence_first[job + 1])):
        account = int(jobs.licence[item])
        mine = amounts is None or bool(own.on_amounts[account]) == amounts
        more = own.spared_use[account] if len(own.spared_use) else 0
        if mine and state.free.licences[account] - more < jobs.licence_count[item, 0]:
            return names[account]
    return "" if amounts is False else minutes_of(seen, job)


def limit_met(seen: Seen, job: int) -> str:
    """Return the name of the limit that stopped a job when a loop last looked at it; empty if none did."""
    return name_of_limit(int(seen.view.own.reason[job]), seen.view.own, seen.begun.platform)


def minutes_of(seen: Seen, job: int) -> str:
    """Return the name of the first limit on minutes that stops a job, `QOS low: GrpTRESMins of cpu`; empty if none."""
    found = int(limit_on_minutes(seen.view, job, True))
    return "" if found < 0 else name_of_minutes(found, seen.view.own, seen.begun.platform)


def _first_partition(platform: Platform) -> list[str]:
    """Return the first partition of each node."""
    found = ["" for _ in platform.nodes]
    for partition in reversed(platform.partitions):
        for node in partition.nodes:
            found[node] = partition.name
    return found


def _accounts(platform: Platform) -> list[int]:
    """Return the accounts directly below root that have shares."""
    people = () if platform.slurm is None else platform.slurm.associations
    return [i for i, each in enumerate(people) if each.parent == 0 and not each.user and each.shares > 0]


def _keeps_usage(seen: Seen) -> bool:
    return bool(seen.view.own.stored[0]) and seen.view.own.PriorityWeightFairshare > 0


def _shares(platform: Platform, accounts: list[int], usage: list[tuple[float, list[float]]]) -> Shares:
    assert platform.slurm is not None
    people = platform.slurm.associations
    every = sum(each.shares for each in people if each.parent == 0 and each.shares > 0)
    return Shares(
        tuple(people[who].account for who in accounts),
        tuple(people[who].shares / every for who in accounts),
        tuple(at for at, _ in usage),
        tuple(tuple(used) for _, used in usage),
    )
