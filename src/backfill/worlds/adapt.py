"""Translate jobs into the terms of a platform. This needs no compiled code, so that a web page can use it as well."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backfill.model.platform import Platform
from backfill.model.workload import Counted, Ints, Jobs, Labels, Workload
from backfill.worlds.rules import NO_ACCOUNTS, WholeNodes, apply_rules, on_whole_nodes, with_accounts

# Per job, why it can never run: a resource, a licence, a limit, a rule of its partition or quality of service, "site",
# "constraint", "partition", "qos", "nodes" or "after"; "" if it can.
Causes = NDArray[Any]

PRESENCE = "node that is up"  # a resource that each open node has in plenty
PLENTY = 2**40


def adapt(workload: Workload, platform: Platform) -> tuple[Jobs, Causes]:
    """Return the jobs with the platform's numbering of resources, licences and sites, and the causes of rejections.

    A resource that the platform limits to zero rejects the jobs that request it; one that the workload does not name is
    not requested.
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
    """Return the jobs with the platform's floating licences. A node-locked licence is a resource of the node.

    A gang of several tasks requests the latter by a column, per task; a request of the gang as a whole cannot be
    expressed.
    """
    licences_asked, demand = jobs.licences, jobs.demand.copy()
    job, item, copies = licences_asked.jobs, licences_asked.items, licences_asked.counts
    place = {name: i for i, name in enumerate(platform.licences)}
    number = np.array([place.get(name, -1) for name in workload.licences])
    for licence in np.flatnonzero(number < 0).tolist():
        name, mine = workload.licences[licence], item == licence
        if name in platform.resources[1:]:
            alone = mine & (jobs.tasks[job] == 1)
            demand[job[alone], platform.resources.index(name)] += copies[alone]
            mine &= ~alone
        causes[job[mine & (causes[job] == "")]] = name
    floating = number[item] >= 0
    licences = Counted.of_items(len(jobs), job[floating], number[item[floating]], copies[floating])
    return jobs.replace(licences=licences, demand=demand)


def as_run(
    workload: Workload, platform: Platform, place: str = "power", known: Mapping[str, int] = NO_ACCOUNTS
) -> tuple[Jobs, Platform, WholeNodes, Causes]:
    """Return jobs in file order and platform as a run counts them, the whole-node jobs, and causes of rejections.

    Limits become licences behind the floating ones, and jobs on whole nodes become gangs of these. place: the placement
    rule of jobs whose partition sets none. known: the numbers of accounts of limits that count earlier jobs.
    """
    jobs, causes = adapt(workload, platform)
    if platform.slurm is not None:  # the limits of Slurm count whole nodes
        jobs, whole = on_whole_nodes(jobs, platform, place)
        jobs, platform = with_accounts(jobs, platform, known) if platform.limits else (jobs, platform)
        return jobs, platform, whole, causes
    if platform.limits:
        jobs, platform = with_accounts(jobs, platform, known)
    jobs, whole = on_whole_nodes(jobs, platform, place)
    return jobs, platform, whole, causes


def with_presence(jobs: Jobs, platform: Platform, most: Ints) -> tuple[Jobs, Platform, Ints]:
    """Add a resource of nodes that is requested only by jobs that request nothing else.

    So a job without cpus starts on no node that an event has closed, and is lost with its node like any other. If every
    job requests something, nothing is added. most: the greatest capacity that each node ever has.
    """
    nothing = ~jobs.demand.any(axis=1)
    if not nothing.any():
        return jobs, platform, most
    more = np.full((len(platform.nodes), 1), PLENTY)
    platform = replace(
        platform,
        resources=(*platform.resources, PRESENCE),
        capacity=np.hstack([platform.capacity, more]),
        node_licences=(*platform.node_licences, PRESENCE),  # it counts in no balance
    )
    return jobs.replace(demand=np.column_stack([jobs.demand, nothing])), platform, np.hstack([most, more])
