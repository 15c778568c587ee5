"""The balance of the resources of a platform, and the share of each that is free but unusable."""

from dataclasses import dataclass

import numpy as np

from backfill.analysis.series import Steps
from backfill.model.platform import Platform
from backfill.model.schedule import Schedule
from backfill.model.workload import Ints, Workload


def shared(workload: Workload, platform: Platform) -> tuple[str, ...]:
    """Return the resources that both the workload and the platform name, cpus first."""
    return tuple(name for name in platform.resources if name in workload.resources)


@dataclass(frozen=True, eq=False, slots=True)
class Held:
    """The amounts held on nodes over time: from times[i] to until[i], node[i] holds amount[i] of each resource. Sorted
    by node.
    """

    names: tuple[str, ...]  # the `shared` ones
    capacity: Ints  # shape (nodes, resources)
    node: Ints
    times: Ints
    until: Ints
    amount: Ints  # shape (spans, resources)

    @classmethod
    def of(cls, workload: Workload, platform: Platform, schedule: Schedule, rows: Ints) -> "Held":
        """Return the use of resources by the jobs `rows`, from their first submit to their last end."""
        names = shared(workload, platform)
        capacity = platform.capacity[:, [platform.resources.index(name) for name in names]]
        demand = workload.jobs.demand[:, [workload.resources.index(name) for name in names]]
        if not len(rows):
            none = np.zeros(0, np.int64)
            return cls(names, capacity, none, none, none, np.zeros((0, len(names)), np.int64))
        begin, end = int(schedule.submit[rows].min()), int(schedule.end[rows].max())
        runs = schedule.runs_of(rows)
        spans, held = runs.spans, runs.held
        if runs.turns is not None:
            held = held.take(spans.run)
        owner = np.repeat(np.arange(len(spans.run)), np.diff(held.first) // 2)
        place, tasks = held.items[::2], held.items[1::2]
        taken = tasks[:, None] * demand[rows[runs.job[spans.run[owner]]]]
        if runs.turns is not None:
            taken = taken * np.column_stack([spans.share[owner], *np.ones((len(names) - 1, len(owner)))])
        nodes = np.arange(len(platform.nodes))
        node = np.concatenate([nodes, place, place])
        times = np.concatenate([np.full(len(nodes), begin), spans.start[owner], spans.end[owner]])
        change = np.concatenate([np.zeros((len(nodes), len(names)), np.int64), taken, -taken])
        order = np.lexsort((times, node))
        node, times = node[order], times[order]
        until = np.append(times[1:], end)
        until[np.append(node[1:] != node[:-1], True)] = end
        lasting = until > times
        amount = change[order].cumsum(axis=0)[lasting]
        if runs.turns is not None:
            amount = amount.round(9)
        return cls(names, capacity, node[lasting], times[lasting], until[lasting], amount)


@dataclass(frozen=True, eq=False, slots=True)
class Use:
    """The use of resources over time, from the first submit of some jobs to their last end."""

    names: tuple[str, ...]  # the `shared` ones
    whole: Ints  # shape (resources,), total capacity of each
    length: int  # of that time, in microseconds
    held: list[Steps]  # of each resource
    unusable: list[Steps]  # of each: free on nodes with too little of another one, for any job that requests it
    imbalance: Steps  # max U / mean U, U the held share of each requested resource; 0 while nothing is held

    @classmethod
    def of(cls, workload: Workload, platform: Platform, schedule: Schedule, rows: Ints) -> "Use":
        """Return the use of resources by the jobs `rows`."""
        at = Held.of(workload, platform, schedule, rows)
        of = range(len(at.names))
        free = at.capacity[at.node] - at.amount
        least = _least(workload, at.names)
        unusable = [np.where(np.delete(free < least[k], k, axis=1).any(axis=1), free[:, k], 0) for k in of]
        steps = Steps.each(at.times, at.until, [*at.amount.T, *unusable])
        held, whole = steps[: len(of)], at.capacity.sum(axis=0)
        length = int(at.until.max() - at.times.min()) if len(at.times) else 0
        ran = workload.jobs.demand[schedule.ran]
        asked = [(ran[:, workload.resources.index(name)] > 0).any() for name in at.names]
        in_play = [k for k in of if whole[k] and asked[k] and at.names[k] not in platform.node_licences]
        return cls(at.names, whole, length, held, steps[len(of) :], _imbalance(held, whole, in_play))


def _least(workload: Workload, names: tuple[str, ...]) -> Ints:
    """Return [k, j]: the smallest request per task of resource j among jobs that request resource k; 0 if none does."""
    demand = workload.jobs.demand[:, [workload.resources.index(name) for name in names]]
    least = np.zeros((len(names), len(names)), np.int64)
    for k in range(len(names)):
        asking = demand[demand[:, k] > 0]
        if len(asking):
            least[k] = asking.min(axis=0)
    return least


def _imbalance(held: list[Steps], whole: Ints, in_play: list[int]) -> Steps:
    shares = np.array([held[k].values / whole[k] for k in in_play]).reshape(len(in_play), len(held[0].times))
    if not in_play:
        return Steps(held[0].times, np.zeros(len(held[0].times)))
    mean = shares.mean(axis=0)
    return Steps(held[0].times, np.divide(shares.max(axis=0), mean, out=np.zeros_like(mean), where=mean > 0))


def resource_metrics(workload: Workload, platform: Platform, schedule: Schedule, rows: Ints) -> dict[str, float | None]:
    """Return the resource metrics of the jobs `rows`; empty if workload and platform share only cpus.

    utilization_NAME: like `utilization`, for each further resource.
    imbalance: max U / mean U over the existing resources that some job which ran requests, excluding licences; U is
    the share of each that is held. Averaged over the time when any is held.
    fragmentation_NAME: the share of a resource that is free on nodes where it cannot be used, because less of another
    resource is free there than any job that requests the first needs per task; the mean over time.
    """
    if len(shared(workload, platform)) < 2:
        return {}
    use = Use.of(workload, platform, schedule, rows)
    whole = [there * use.length for there in use.whole.tolist()]
    used, unusable = (
        [_over(each.area, most) for each, most in zip(steps, whole, strict=True)] for steps in (use.held, use.unusable)
    )
    return {
        **{f"utilization_{name}": share for name, share in zip(use.names[1:], used[1:], strict=True)},
        "imbalance": _over(use.imbalance.area, use.imbalance.busy),
        **{f"fragmentation_{name}": share for name, share in zip(use.names, unusable, strict=True)},
    }


def _over(amount: float, whole: int) -> float | None:
    return amount / whole if whole else None
