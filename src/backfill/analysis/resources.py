"""How evenly the resources of a platform are used, and how much of each lies idle where nobody can use it."""

from dataclasses import dataclass

import numpy as np

from backfill.analysis.series import Steps
from backfill.model.platform import Platform
from backfill.model.schedule import Schedule
from backfill.model.workload import Floats, Ints, Workload


def shared(workload: Workload, platform: Platform) -> tuple[str, ...]:
    """The resources that both the workload and the platform name, cpus first."""
    return tuple(name for name in platform.resources if name in workload.resources)


@dataclass(frozen=True, eq=False, slots=True)
class Held:
    """What nodes hold over time: from times[i] to until[i] node[i] holds amount[i] of each resource. Sorted by node."""

    names: tuple[str, ...]  # those that are `shared`
    capacity: Ints  # shape (nodes, resources)
    node: Ints
    times: Ints
    until: Ints
    amount: Ints  # shape (spans, resources)

    @classmethod
    def of(cls, workload: Workload, platform: Platform, schedule: Schedule, rows: Ints) -> "Held":
        """By the jobs `rows`, from their first submit to their last end."""
        names = shared(workload, platform)
        capacity = platform.capacity[:, [platform.resources.index(name) for name in names]]
        demand = workload.jobs.demand[:, [workload.resources.index(name) for name in names]]
        if not len(rows):
            none = np.zeros(0, np.int64)
            return cls(names, capacity, none, none, none, np.zeros((0, len(names)), np.int64))
        begin, end = int(schedule.submit[rows].min()), int(schedule.end[rows].max())
        first = schedule.held.first
        count = (first[rows + 1] - first[rows]) // 2
        owner = np.repeat(rows, count)
        at = first[rows].repeat(count) + 2 * (np.arange(len(owner)) - np.repeat(np.cumsum(count) - count, count))
        place, tasks = schedule.held.items[at], schedule.held.items[at + 1]
        taken = tasks[:, None] * demand[owner]
        nodes = np.arange(len(platform.nodes))
        node = np.concatenate([nodes, place, place])
        times = np.concatenate([np.full(len(nodes), begin), schedule.start[owner], schedule.end[owner]])
        change = np.concatenate([np.zeros((len(nodes), len(names)), np.int64), taken, -taken])
        order = np.lexsort((times, node))
        node, times = node[order], times[order]
        until = np.append(times[1:], end)
        until[np.append(node[1:] != node[:-1], True)] = end
        spans = until > times
        return cls(names, capacity, node[spans], times[spans], until[spans], change[order].cumsum(axis=0)[spans])

    @property
    def length(self) -> int:
        """Of the whole time, in microseconds."""
        return int(self.until.max() - self.times.min()) if len(self.times) else 0

    def total(self, resource: int) -> Steps:
        """What all nodes together hold of a resource over time."""
        amount = self.amount[:, resource]
        return Steps.of(self.times, self.until, amount)


def resource_metrics(workload: Workload, platform: Platform, schedule: Schedule, rows: Ints) -> dict[str, float | None]:
    """Of the jobs `rows`; empty where cpus are the only resource that workload and platform both name.

    utilization_NAME: as `utilization`, of each further resource.
    imbalance: max U / mean U over the resources, U the share of each that is held, its mean over the time when any is.
    fragmentation_NAME: the share of a resource that is free on nodes where it cannot be used, since less of another
    resource is free there than any job of the workload asks for per task; the mean over time.
    """
    if len(shared(workload, platform)) < 2:
        return {}
    held = Held.of(workload, platform, schedule, rows)
    whole = held.capacity.sum(axis=0).astype(np.float64)
    names = (*(f"utilization_{name}" for name in held.names[1:]), "imbalance",
             *(f"fragmentation_{name}" for name in held.names))  # fmt: skip
    if not held.length:
        return dict.fromkeys(names)
    span = (held.until - held.times).astype(np.float64)
    used = (held.amount * span[:, None]).sum(axis=0)
    least = np.array([workload.jobs.demand[:, workload.resources.index(name)].min() for name in held.names])
    free = held.capacity[held.node] - held.amount
    short = free < least
    values: list[float | None] = [_over(used[k], whole[k] * held.length) for k in range(1, len(held.names))]
    values.append(_imbalance(held, whole))
    for k in range(len(held.names)):
        others = np.delete(short, k, axis=1).any(axis=1)
        values.append(_over(float((free[:, k] * span)[others].sum()), whole[k] * held.length))
    return dict(zip(names, values, strict=True))


def _imbalance(held: Held, whole: Floats) -> float | None:
    """The mean over time of max U / mean U."""
    series = [held.total(k) for k in range(len(held.names))]
    times = np.unique(np.concatenate([each.times for each in series]))
    shares = np.zeros((len(series), len(times)))
    for k, each in enumerate(series):
        at = np.searchsorted(each.times, times, side="right") - 1
        shares[k] = np.where(at >= 0, each.values[np.maximum(at, 0)], 0) / max(whole[k], 1.0)
    span = np.diff(times, append=times[-1]).astype(np.float64)
    mean = shares.mean(axis=0)
    some = (mean > 0) & (span > 0)
    return float(np.average(shares.max(axis=0)[some] / mean[some], weights=span[some])) if some.any() else None


def _over(amount: float, whole: float) -> float | None:
    return float(amount / whole) if whole else None
