"""Reject jobs that can never run on a platform, before the first instant. This needs no compiled code."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from backfill.model.errors import WorkloadError
from backfill.model.platform import Platform
from backfill.model.precedence import circle, circle_text, in_order
from backfill.model.units import NEVER
from backfill.model.workload import SPREAD, Ints, Jobs
from backfill.worlds.adapt import Causes

NODE, SITE, _, DISTINCT = range(len(SPREAD))


def reject_hopeless(
    jobs: Jobs, platform: Platform, causes: Causes, capacity: Ints, copies: Ints, cancelled: Ints | None = None
) -> None:
    """Add to `causes` the jobs that do not fit on the empty platform, and those that depend on a rejected one.

    jobs, platform: as returned by `as_run`. capacity, copies: the largest amounts that each node and each licence will
    ever have. cancelled: when each job is cancelled; a job cancelled before its rejection is not rejected.
    """

    def reject(those: NDArray[np.bool_], cause: str) -> None:
        rows = np.flatnonzero(those)  # few, as a rule
        causes[rows[causes[rows] == ""]] = cause

    empty, fits = _fitting(jobs, platform, capacity, copies)
    for mine, kind in ((jobs.constraint, "constraint"), (jobs.site, "site"), (None, "partition")):
        reject(empty if mine is None else empty & (mine.codes >= 0), kind)
    total = capacity.sum(axis=0)
    for k in reversed(range(len(platform.resources))):
        demand = jobs.demand[:, k]
        reject((jobs.tasks * demand > total[k]) | (demand > capacity[:, k].max()), platform.resources[k])
    reject((jobs.spread == DISTINCT) & (jobs.tasks > len(platform.nodes)), "nodes")
    rest = np.flatnonzero(~fits)
    for job in rest[causes[rest] == ""].tolist():
        needed, count = jobs.licences[job], jobs.licences.counts[slice(*jobs.licences.first[job : job + 2])]
        lacking = needed[(count > copies[needed]) | ~platform.hosts[:, needed].any(axis=0)]
        causes[job] = platform.licences[lacking[0]] if len(lacking) else "nodes"
    if cancelled is None:
        cancelled = np.broadcast_to(np.iinfo(np.int64).max, len(jobs))
    causes[cancelled <= jobs.submit] = ""
    if len(jobs.after.items):
        _reject_successors(jobs, causes, cancelled)


def _fitting(
    jobs: Jobs, platform: Platform, capacity: Ints, copies: Ints
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return the jobs that may use no node, and those that fit on the empty platform of this capacity; (jobs,) each.

    jobs, platform: as returned by `as_run`. capacity: shape (nodes, resources). copies: shape (licences,).
    """
    licences = jobs.licences
    fits = np.ones(len(jobs), np.bool_)
    fits[licences.jobs[licences.counts > copies[licences.items]]] = False
    picky = np.flatnonzero(~platform.hosts.all(axis=0))  # licences that some nodes may not use
    asks = np.zeros((len(jobs), len(picky)), np.int64)
    mine = np.isin(licences.items, picky)
    asks[licences.jobs[mine], np.searchsorted(picky, licences.items[mine])] = 1
    partition = jobs.partition.codes if platform.partitions else np.broadcast_to(-1, len(jobs))
    bound = np.zeros(len(jobs), np.int64)
    for shift, codes in ((40, jobs.constraint.codes), (20, partition), (0, jobs.site.codes)):
        if codes.max(initial=-1) >= 0:
            bound += (codes.astype(np.int64) + 1) << shift
    empty = np.zeros(len(jobs), np.bool_)
    for first, rows in _alike(np.column_stack([bound, asks]) if len(picky) else bound):
        name = jobs.partition[first] if partition[first] >= 0 else ""
        nodes = platform.within(name, jobs.site.codes[first], jobs.constraint[first])
        empty[rows] = not nodes.any()
        nodes &= platform.hosts[:, licences[first]].all(axis=1)
        fits[rows] &= _gangs_fit(jobs, rows, capacity[nodes], platform.site[nodes])
    return empty, fits


def _alike(keys: Ints) -> Iterator[tuple[int, Ints | slice]]:
    """Yield the first row with each of the keys, and all rows with it."""
    if len(keys) and (keys == keys[0]).all():  # the most common case, for which nothing need be sorted
        yield 0, slice(None)
        return
    kind = np.unique(keys, axis=0, return_inverse=True)[1].ravel()
    order = np.argsort(kind, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(kind[order])) + 1) if len(order) else ():
        yield rows[0], rows


def _gangs_fit(jobs: Jobs, rows: Ints | slice, capacity: Ints, site: Ints) -> NDArray[np.bool_]:
    """Return whether these jobs, which may run on the same nodes, fit on these nodes; shape (rows,)."""
    tasks, spread = jobs.tasks[rows], jobs.spread[rows]
    fits: NDArray[np.bool_] = (tasks == 1) | (spread != DISTINCT)
    for k, least in enumerate(capacity.min(axis=0, initial=NEVER).tolist()):
        fits &= tasks * jobs.demand[rows, k] <= least  # all of them on whichever node
    fits &= len(capacity) > 0
    left = np.flatnonzero(~fits)
    if not len(left):
        return fits
    every = np.arange(len(jobs))[rows]  # as numbers
    on_site = left[spread[left] == SITE]
    for each in np.unique(site).tolist() if len(on_site) else ():
        fits[on_site] |= _hold(jobs, every[on_site], capacity[site == each])
    others = left[spread[left] != SITE]
    fits[others] = _hold(jobs, every[others], capacity)
    return fits


def _hold(jobs: Jobs, rows: Ints, capacity: Ints) -> NDArray[np.bool_]:
    """Return whether nodes of this capacity hold all tasks of each job; shape (rows,).

    Equal nodes are counted together. A gang takes as many tasks of each node as fit, in any order: tasks are equal, so
    it has no use for the remainder.
    """
    tasks, spread, held = jobs.tasks[rows], jobs.spread[rows], np.zeros(len(rows), np.int64)
    kinds, count = np.unique(capacity, axis=0, return_counts=True)
    left = np.arange(len(rows))
    for node in np.argsort(-count).tolist():
        fit = np.where(spread[left] == DISTINCT, 1, tasks[left])
        for k, there in enumerate(kinds[node].tolist()):
            demand = jobs.demand[rows[left], k]
            fit = np.where(demand > 0, np.minimum(fit, there // np.maximum(demand, 1)), fit)
        together = (spread[left] == NODE) & (fit < tasks[left])
        held[left] += np.where(together, 0, np.maximum(fit, 0)) * count[node]
        left = left[held[left] < tasks[left]]
        if not len(left):
            break
    return held >= tasks


def _reject_successors(jobs: Jobs, causes: Causes, cancelled: Ints) -> None:
    if stuck := circle(jobs.after):
        raise WorkloadError(f"jobs depend on one another in a cycle: {circle_text(jobs.job.tolist(), stuck)}")
    if not (causes != "").any():
        return
    known = jobs.submit.copy()  # when it becomes known that a job is rejected
    for job in in_order(jobs.after):
        hopeless = jobs.after[job][causes[jobs.after[job]] != ""]
        if not causes[job] and len(hopeless):
            known[job] = max(known[job], known[hopeless].min())
            if known[job] < cancelled[job]:
                causes[job] = "after"
