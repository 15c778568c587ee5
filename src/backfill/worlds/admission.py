"""What happens to jobs before the first instant: they take the platform's names, and the hopeless are rejected."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from backfill.core.record import column
from backfill.core.verbs import fit_empty
from backfill.model.errors import WorkloadError
from backfill.model.platform import Platform
from backfill.model.precedence import circle, in_order
from backfill.model.workload import Counted, Ints, Jobs, Labels, Workload
from backfill.worlds.rules import apply_rules

# Per job, why it can never run: a resource, a licence, a limit, a rule of its partition or quality of service, "site",
# "constraint", "partition", "qos", "nodes" or "after"; "" if it can.
Causes = NDArray[Any]


def adapt(workload: Workload, platform: Platform) -> tuple[Jobs, Causes]:
    """The jobs with resources, licences and sites as the platform numbers them, and who asks for unknown ones.

    One that the platform limits without having any stands against a job; one that the workload does not name is not
    asked for.
    """
    jobs = workload.jobs
    causes: Causes = np.full(len(jobs), "", dtype=object)
    if workload.resources != platform.resources:
        demand = np.zeros((len(jobs), len(platform.resources)), np.int64)
        for k, resource in enumerate(platform.resources):
            if resource in workload.resources:
                demand[:, k] = jobs.demand[:, workload.resources.index(resource)]
        for k, resource in enumerate(workload.resources):
            if resource not in platform.resources and platform.bounds(resource):
                causes[(jobs.demand[:, k] > 0) & (causes == "")] = resource
        jobs = jobs.replace(demand=demand)
    if len(jobs.licences.items):
        jobs = _licensed(workload, jobs, platform, causes)
    if jobs.site.names:
        code = [platform.sites.index(name) if name in platform.sites else -1 for name in jobs.site.names]
        causes[(np.array([*code, 0])[jobs.site.codes] < 0) & (jobs.site.codes >= 0)] = "site"
        jobs = jobs.replace(site=Labels(np.array([*code, -1], np.int32)[jobs.site.codes], platform.sites))
    return apply_rules(jobs, platform, causes), causes


def _licensed(workload: Workload, jobs: Jobs, platform: Platform, causes: Causes) -> Jobs:
    """The jobs with the platform's floating licences. One that stays on a node is a resource of the node.

    A gang of several tasks asks for the latter by a column, per task: what it needs as a whole has no place there.
    """
    asked, demand = jobs.licences, jobs.demand.copy()
    job, item, copies = asked.jobs, asked.items, asked.counts
    place = {name: i for i, name in enumerate(platform.licences)}
    number = np.array([place.get(name, -1) for name in workload.licences])
    for licence in np.flatnonzero(number < 0).tolist():
        name, mine = workload.licences[licence], item == licence
        if name in platform.resources[1:]:
            alone = mine & (jobs.tasks[job] == 1)
            demand[job[alone], platform.resources.index(name)] += copies[alone]
            mine &= ~alone
        causes[job[mine & (causes[job] == "")]] = name
    some = number[item] >= 0
    licences = Counted.of_items(len(jobs), job[some], number[item[some]], copies[some])
    return jobs.replace(licences=licences, demand=demand)


def reject_hopeless(
    state: Any, jobs: Jobs, platform: Platform, causes: Causes, capacity: Ints, copies: Ints, cancelled: Ints
) -> None:
    """Add to `causes` the jobs that do not fit on the empty platform, and those that come after a rejected one.

    capacity, copies: the most that there ever will be of each resource of each node, and of each licence. cancelled:
    when each job is cancelled; one that is gone by the time at which it would be rejected is not.
    """
    if len(state.machine.allowed):
        nowhere = np.append(~state.machine.allowed.any(axis=1), False)[state.jobs.bound] & (causes == "")
        pinned = np.where(jobs.site.codes[nowhere] >= 0, "site", "partition")
        causes[nowhere] = np.where(jobs.constraint.codes[nowhere] >= 0, "constraint", pinned)
    total = capacity.sum(axis=0)
    need = jobs.tasks[:, None] * jobs.demand
    for k in reversed(range(len(platform.resources))):
        too_large = (need[:, k] > total[k]) | (jobs.demand[:, k] > capacity[:, k].max())
        causes[too_large & (causes == "")] = platform.resources[k]
    if len(platform.nodes) > 1 or platform.licences:
        fits = np.empty(len(jobs), np.int8)
        fit_empty(state, column(capacity), column(copies), fits)
        for job in np.flatnonzero((fits == 0) & (causes == "")).tolist():
            asked, count = jobs.licences[job], jobs.licences.counts[slice(*jobs.licences.first[job : job + 2])]
            lacking = asked[(count > copies[asked]) | ~platform.hosts[:, asked].any(axis=0)]
            causes[job] = platform.licences[lacking[0]] if len(lacking) else "nodes"
    causes[cancelled <= jobs.submit] = ""
    if len(jobs.after.items):
        _reject_successors(jobs, causes, cancelled)


def _reject_successors(jobs: Jobs, causes: Causes, cancelled: Ints) -> None:
    if stuck := circle(jobs.after):
        raise WorkloadError(f"job {jobs.job[stuck[0]]} comes after itself, by way of other jobs")
    known = jobs.submit.copy()  # when it is known that a job is rejected
    for job in in_order(jobs.after):
        hopeless = jobs.after[job][causes[jobs.after[job]] != ""]
        if not causes[job] and len(hopeless):
            known[job] = max(known[job], known[hopeless].min())
            if known[job] < cancelled[job]:
                causes[job] = "after"
