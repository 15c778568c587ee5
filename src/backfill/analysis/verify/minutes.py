"""Jobs that may wait for ever because a limit on minutes of an association or a QOS is used up."""

from typing import Any

import numpy as np

from backfill.analysis.verify.case import Case, Mask, codes_of, demand_of
from backfill.model.schedule import PENDING, STATES
from backfill.model.slurm_site import Minutes, SlurmSite
from backfill.model.units import MIB, SECOND

_COUNTED = {"cpu": "cpus", "mem": "memory", "gres/gpu": "gpus"}  # of the others, amounts depend on nodes or on weights


def held_by_minutes(case: Case, states: Any) -> Mask:
    """Return the mask of jobs whose state is PENDING and that such a limit may keep from starting.

    By what the schedule uses in all: a job starts at the latest when that is less than the limit, as use only decays.
    """
    site, jobs = case.platform.slurm, case.workload.jobs
    held = np.zeros(len(jobs), np.bool_)
    if site is None or not site.limits_minutes or states is None:
        return held
    pending = np.append(codes_of(states, STATES) == PENDING, False)[case.line]
    used = _used(case, site)
    demand = demand_of(case.workload, case.platform) * jobs.tasks[:, None]
    for row in np.flatnonzero(pending).tolist():
        minutes = -(-int(jobs.walltime[row]) // (60 * SECOND))
        for owner, limits in _owners(site, *_who(case, row)):
            for kind in {*limits.group, *limits.running, *limits.job}:
                if kind not in _COUNTED or _COUNTED[kind] not in case.platform.resources:
                    held[row] = True
                    continue
                k = case.platform.resources.index(_COUNTED[kind])
                amount = int(demand[row, k]) // (MIB if kind == "mem" else 1)
                asked = minutes * amount * max(_factor(site, jobs.qos[row]), 1.0)
                spent = used.get((owner, k), 0.0) / (MIB if kind == "mem" else 1) / 60
                spent += asked if site.enforces_safely else 1.0
                held[row] |= spent >= limits.group.get(kind, np.inf)
                held[row] |= asked > min(limits.running.get(kind, np.inf), limits.job.get(kind, np.inf))
    return held


def _who(case: Case, row: int) -> tuple[str, str, str]:
    jobs = case.workload.jobs
    return jobs.group[row], jobs.user[row], jobs.qos[row]


def _owners(site: SlurmSite, account: str, user: str, qos: str) -> list[tuple[str, Minutes]]:
    """Return the associations and the QOS that count a job, with their limits."""
    found = [(f"qos {each.name}", each.minutes) for each in site.qos if each.name == qos]
    mine = [i for i, each in enumerate(site.associations) if each.user and (each.account, each.user) == (account, user)]
    who = mine[0] if mine else -1
    while who >= 0:
        found.append((f"association {who}", site.associations[who].minutes))
        who = site.associations[who].parent
    return found


def _factor(site: SlurmSite, qos: str) -> float:
    return next((each.usage_factor for each in site.qos if each.name == qos), 1.0)


def _used(case: Case, site: SlurmSite) -> dict[tuple[str, int], float]:
    """Return the seconds times amounts that each owner uses, by the index of the resource; usage before the log too."""
    found: dict[tuple[str, int], float] = {}
    for i, each in enumerate(site.associations):
        found[f"association {i}", 0] = each.usage
    jobs, demand = case.workload.jobs, demand_of(case.workload, case.platform)
    for run, job in enumerate(case.runs.job.tolist()):
        start, end = int(case.runs.start[run]), int(case.runs.end[run])
        length = max(end - start, 0) if end > start else int(jobs.walltime[job])
        seconds = length / SECOND * _factor(site, jobs.qos[job])
        for owner, _ in _owners(site, *_who(case, job)):
            for k, amount in enumerate((demand[job] * jobs.tasks[job]).tolist()):
                found[owner, k] = found.get((owner, k), 0.0) + seconds * amount
    return found
