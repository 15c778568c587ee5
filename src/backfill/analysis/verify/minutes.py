"""Jobs that may wait for ever because a limit on minutes of an association or a QOS is used up."""

from typing import Any

import numpy as np

from backfill.analysis.verify.case import Case, Mask, demand_of, said_pending
from backfill.model.slurm_site import RESOURCES, SlurmSite
from backfill.model.units import MIB, SECOND
from backfill.model.workload import Floats, Ints, Jobs


def held_by_minutes(case: Case, states: Any) -> Mask:
    """Return the mask of jobs whose state is PENDING and that such a limit may keep from starting.

    By what the schedule uses in all: a job starts at the latest when that is less than the limit, as use only decays.
    """
    site, jobs, names = case.platform.slurm, case.workload.jobs, case.platform.resources
    held = np.zeros(len(jobs), np.bool_)
    if site is None or not site.limits_minutes or not (pending := said_pending(case, states)).any():
        return held
    kind, owners, factor = _kinds(site, jobs)
    amounts, limits = demand_of(case.workload, case.platform) * jobs.tasks[:, None], site.minutes
    used = _used(case, site, amounts, kind, owners, factor)
    for row in np.flatnonzero(pending).tolist():
        minutes = -(-int(jobs.walltime[row]) // (60 * SECOND))
        for owner in owners[kind[row]]:
            limit = limits[owner]
            for name in {*limit.group, *limit.running, *limit.job}:
                if RESOURCES.get(name) not in names:  # the amounts of others depend on nodes or on weights
                    held[row] = True
                    continue
                k, unit = names.index(RESOURCES[name]), MIB if name == "mem" else 1
                asked = minutes * (int(amounts[row, k]) // unit) * max(float(factor[kind[row]]), 1.0)
                spent = used[owner, k] / unit / 60 + (asked if site.enforces_safely else 1.0)
                held[row] |= spent >= limit.group.get(name, np.inf)
                held[row] |= asked > min(limit.running.get(name, np.inf), limit.job.get(name, np.inf))
    return held


def _kinds(site: SlurmSite, jobs: Jobs) -> tuple[Ints, list[list[int]], Floats]:
    """Return the kind of each job, and of each kind who counts its minutes and the usage factor of its QOS."""
    key = np.zeros(len(jobs), np.int64)
    for labels in (jobs.group, jobs.user, jobs.partition, jobs.qos):
        key = key * (len(labels.names) + 1) + labels.codes + 1
    _, first, kind = np.unique(key, return_index=True, return_inverse=True)
    known = {each.name: each.usage_factor for each in site.qos}
    rows = first.tolist()
    owners = [site.owners(jobs.group[row], jobs.user[row], jobs.partition[row], jobs.qos[row]) for row in rows]
    return kind, owners, np.array([known.get(jobs.qos[row], 1.0) for row in rows])


def _used(case: Case, site: SlurmSite, amounts: Ints, kind: Ints, owners: list[list[int]], factor: Floats) -> Floats:
    """Return the seconds times amounts (owners, resources) that each owner uses; usage before the log too.

    amounts: (jobs, resources), of whole jobs. kind, owners, factor: of `_kinds`.
    """
    runs, of_kinds = case.runs, np.zeros((len(owners), amounts.shape[1]))
    length = np.where(runs.end > runs.start, runs.end - runs.start, case.workload.jobs.walltime[runs.job])
    np.add.at(of_kinds, kind[runs.job], (length / SECOND)[:, None] * amounts[runs.job])
    found = np.zeros((len(site.minutes), amounts.shape[1]))
    found[: len(site.associations), 0] = [each.usage for each in site.associations]
    for mine, used in zip(owners, of_kinds * factor[:, None], strict=True):
        found[mine] += used
    return found
