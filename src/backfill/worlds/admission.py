"""Rejects platforms that a policy does not know, and jobs that can never run, before the first instant."""

from typing import Any

import numpy as np

from backfill.compiler.record import column
from backfill.core.place.placement import DISTINCT
from backfill.core.policy import Policy
from backfill.core.verbs import fit_empty
from backfill.model.errors import UsageError, WorkloadError
from backfill.model.platform import Platform
from backfill.model.precedence import circle, circle_text, in_order
from backfill.model.units import counted
from backfill.model.workload import Ints, Jobs
from backfill.worlds.adapt import Causes


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
    apart = (jobs.spread == DISTINCT) & (jobs.tasks > len(platform.nodes))
    causes[apart & (causes == "")] = "nodes"
    if len(platform.nodes) > 1 or platform.licences:
        fits = np.empty(len(jobs), np.int8)
        fit_empty(state, column(capacity), column(copies), fits)
        for job in np.flatnonzero((fits == 0) & (causes == "")).tolist():
            needed, count = jobs.licences[job], jobs.licences.counts[slice(*jobs.licences.first[job : job + 2])]
            lacking = needed[(count > copies[needed]) | ~platform.hosts[:, needed].any(axis=0)]
            causes[job] = platform.licences[lacking[0]] if len(lacking) else "nodes"
    causes[cancelled <= jobs.submit] = ""
    if len(jobs.after.items):
        _reject_successors(jobs, causes, cancelled)


def _reject_successors(jobs: Jobs, causes: Causes, cancelled: Ints) -> None:
    if stuck := circle(jobs.after):
        raise WorkloadError(f"jobs depend on one another in a cycle: {circle_text(jobs.job.tolist(), stuck)}")
    if not (causes != "").any():
        return
    known = jobs.submit.copy()  # when it is known that a job is rejected
    for job in in_order(jobs.after):
        hopeless = jobs.after[job][causes[jobs.after[job]] != ""]
        if not causes[job] and len(hopeless):
            known[job] = max(known[job], known[hopeless].min())
            if known[job] < cancelled[job]:
                causes[job] = "after"


def check_kind(policy: Policy, platform: Platform, pool: bool, hint: str = "") -> None:
    """Complain about a platform of several nodes, if the policy schedules one alone.

    pool: whether no licence floats, and no limit counts what runs.
    """
    if policy.one_node and not pool:
        there = {name: len(getattr(platform, f"{name}s")) for name in ("node", "licence", "limit")}
        much = " and ".join(counted(many, name) for name, many in there.items() if many > (name == "node"))
        raise UsageError(
            f"policy {policy.name} schedules a single node without floating licences and running limits; "
            f"{platform.name} has {much}{hint}"
        )


def check_processors(policy: Policy, platform: Platform, most: Ints, hint: str = "") -> None:
    """Complain about nodes of more than one cpu, if the policy schedules processors. most: see `reject_hopeless`."""
    if policy.processors and ((most[:, 0] != 1).any() or platform.licences or platform.limits):
        raise UsageError(
            f"policy {policy.name} schedules nodes of one cpu each, without floating licences and running limits; "
            f"{platform.name} is different{hint}"
        )
