"""The metrics of the computational farm: missed deadlines, and the use of cpus and licences.

Source: Baraglia et al., CoreGRID 2007, section 7. Its Slow Down is `mean_slowdown`.
"""

from typing import Any

import numpy as np

from backfill.analysis.series import Numbers, Steps
from backfill.model.platform import Platform
from backfill.model.schedule import Runs, Schedule
from backfill.model.units import NEVER
from backfill.model.workload import Counted, Floats, Ints, Workload


def farm_metrics(
    workload: Workload, platform: Platform, schedule: Schedule, rows: Ints
) -> dict[str, float | int | None]:
    """Return the farm metrics of the jobs `rows`, all of which ran; empty without deadlines and licences.

    out_deadline: the share of jobs with a deadline that end after it, if the workload has deadlines; among those
    that were neither cancelled nor lost with a node.
    system_usage: cpus held / min(all cpus, cpus requested by the jobs in the system), its mean over time from the first
    submit to the last; system_usage_to_end to the last end; system_usage_printed divides by min(all cpus, jobs in the
    system), as the paper prints it. Time without a job in the system does not count. They are defined if a job of the
    workload has a deadline or requests a licence, or the platform has licences.
    licence_usage: copies held / copies, mean over the licences and over time from the first submit to the last, if
    the platform has licences, floating or bound to nodes.
    """
    numbers: dict[str, float | int | None] = {}
    jobs, submit, end = workload.jobs, workload.jobs.submit[rows], schedule.end[rows]
    due = bool((jobs.deadline < NEVER).any())
    if due:
        mine = (jobs.deadline[rows] < NEVER) & schedule.finished[rows]
        late = int((end > jobs.deadline[rows])[mine].sum())
        numbers["out_deadline"] = late / int(mine.sum()) if mine.any() else None
    if due or len(jobs.licences.items) or platform.all_licences:
        runs = schedule.runs_of(rows)
        numbers |= _usages(platform, jobs.procs[rows], submit, end, runs)
    if platform.all_licences:
        numbers["licence_usage"] = _licence_usage(workload, platform, rows, submit, runs)
    return numbers


def _usages(platform: Platform, procs: Ints, submit: Ints, end: Ints, runs: Runs) -> dict[str, float | None]:
    spans = runs.spans
    times = np.unique(np.concatenate([submit, spans.start, spans.end]))
    cpus = procs[runs.job[spans.run]] if runs.turns is None else procs[runs.job[spans.run]] * spans.share
    held = _on(times, spans.start, spans.end, cpus)
    wanted = _on(times, submit, end, procs)
    inside = _on(times, submit, end, np.ones_like(procs))
    if not len(times):
        return dict.fromkeys(("system_usage", "system_usage_to_end", "system_usage_printed"))
    last = int(np.searchsorted(times, submit.max()))
    return {
        "system_usage": _mean_share(times[: last + 1], held, np.minimum(wanted, platform.cpus)),
        "system_usage_to_end": _mean_share(times, held, np.minimum(wanted, platform.cpus)),
        "system_usage_printed": _mean_share(times[: last + 1], held, np.minimum(inside, platform.cpus)),
    }


def _mean_share(times: Ints, part: Numbers, whole: Ints) -> float | None:
    """Return the mean over time of part / whole, over times with whole > 0. The arrays may be longer than `times`."""
    spans = np.diff(times).astype(np.float64)
    part, whole = part[: len(spans)], whole[: len(spans)]
    positive = whole > 0
    return (
        float(np.average(part[positive] / whole[positive], weights=spans[positive])) if spans[positive].sum() else None
    )


def _on(times: Ints, begin: Ints, end: Ints, weight: Numbers) -> Numbers:
    """Return the sum of `weight` over [begin, end), from each of the times on."""
    change: Any = np.zeros(len(times), weight.dtype)
    np.add.at(change, np.searchsorted(times, begin), weight)
    np.subtract.at(change, np.searchsorted(times, end), weight)
    held: Numbers = np.cumsum(change)
    return held


def _licence_usage(workload: Workload, platform: Platform, rows: Ints, submit: Ints, runs: Runs) -> float | None:
    copies = np.array([*platform.all_licences.values()], np.int64)
    usable = copies > 0
    first, last = (int(submit.min()), int(submit.max())) if len(rows) else (0, 0)
    if first == last or not usable.any():
        return None
    shares: Floats = licence_time(workload, platform, rows[runs.job], runs.start, runs.end, first, last)[usable]
    return float((shares / copies[usable]).mean() / (last - first))


def licence_time(
    workload: Workload, platform: Platform, rows: Ints, start: Ints, end: Ints, begin: int, until: int
) -> Floats:
    """Return the microseconds x copies of each licence of the platform held within [begin, until), in the order of
    `all_licences`.
    """
    inside = np.maximum(np.minimum(end, until) - np.maximum(start, begin), 0).astype(np.float64)
    job, licence, copies = licence_items(workload, platform, rows)
    return np.bincount(licence, inside[job] * copies, len(platform.all_licences)).astype(np.float64)


def held_licences(workload: Workload, platform: Platform, rows: Ints, start: Ints, end: Ints) -> list[Steps]:
    """Return the held copies of each of `all_licences` over time."""
    job, licence_of, copies = licence_items(workload, platform, rows)
    steps = []
    for licence in range(len(platform.all_licences)):
        mine = licence_of == licence
        steps.append(Steps.of(start[job[mine]], end[job[mine]], copies[mine]))
    return steps


def licence_items(workload: Workload, platform: Platform, rows: Ints) -> tuple[Ints, Ints, Ints]:
    """Return the licence requests of the jobs `rows`, in order: index in rows, index in `all_licences`, copies.

    A licence bound to nodes can be requested as a licence, or as a resource per task.
    """
    place = {name: i for i, name in enumerate(platform.all_licences)}
    known = np.array([place.get(name, -1) for name in workload.licences], np.int64)
    counted = workload.jobs.licences.take(rows)
    licence = known[counted.items] if len(counted.items) else counted.items
    known_ones = licence >= 0
    items = [(counted.jobs[known_ones], licence[known_ones], counted.counts[known_ones])]
    for name in platform.node_licences:
        if name in workload.resources:
            copies = (workload.jobs.tasks * workload.jobs.demand[:, workload.resources.index(name)])[rows]
            job = np.flatnonzero(copies)
            items.append((job, np.full(len(job), place[name], np.int64), copies[job]))
    job, licence, copies = (np.concatenate(column) for column in zip(*items, strict=True))
    items_of_jobs = Counted.of_items(len(rows), job, licence, copies)
    return items_of_jobs.jobs, items_of_jobs.items, items_of_jobs.counts
