"""A State at the beginning of time, from a workload and a platform."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from backfill.core.batch import new_batch
from backfill.core.bookings import new_bookings
from backfill.core.future import new_plan
from backfill.core.jobs import allowed_nodes, licence_items, new_jobs
from backfill.core.journal import new_journal
from backfill.core.later import new_later
from backfill.core.machine import new_free, new_machine, new_placed
from backfill.core.own import new_own
from backfill.core.places import new_queue
from backfill.core.policy import Policy
from backfill.core.projects import new_projects
from backfill.core.promises import NO_TIME, new_promises
from backfill.core.runs import new_runs
from backfill.core.scratch import new_scratch
from backfill.core.search import new_search
from backfill.core.seating import CONTIGUOUS, PACK, POWER, SPREAD
from backfill.core.shadow import new_shadow
from backfill.core.shapes import new_shapes
from backfill.core.state import State
from backfill.core.trace import new_trace
from backfill.model.platform import Platform
from backfill.model.workload import Floats, Ints, Jobs


def new_state(
    jobs: Jobs,
    platform: Platform,
    policy: Policy,
    params: Floats,
    *,
    estimate: Ints,
    seed: int = 0,
    watched: int = -1,
    recorded: bool = False,
    journal: bool = False,
    licences: int | None = None,
) -> Any:
    """A State in which nothing has happened yet.

    jobs: in queue order (submit, then file order), resources and licences those of the platform. estimate: what the
    policy may count on as walltime. watched: the job whose promises are recorded; recorded: those of all are.
    journal: whether one is kept. licences: how many of the platform's licences are such, and not accounts of limits;
    None all.
    """
    n, (nodes, k), counted = len(jobs), platform.capacity.shape, len(platform.licences)
    licences = counted if licences is None else licences
    need = np.ascontiguousarray(jobs.demand * jobs.tasks[:, None])
    bound, allowed = allowed_nodes(jobs, platform)
    items = licence_items(jobs, licences)
    shape, shapes = new_shapes(jobs, platform, bound, need, items)
    machine = new_machine(platform, allowed, licences)
    lengths = policy.lengths(jobs=n, licences=licences, nodes=nodes, sites=len(platform.sites))
    ready = (np.diff(jobs.after.first) == 0).astype(np.int8) if policy.dangles else None
    plan = new_plan(platform, jobs, np.ascontiguousarray(need[:, 0]), shapes.count)
    return State(
        now=NO_TIME,
        jobs=new_jobs(jobs, need, bound, estimate, items, shape, _rules(jobs, platform, policy)),
        machine=machine,
        free=new_free(platform, shapes),
        runs=new_runs(n, k, platform.is_pool, policy.preempts, estimate, ready),
        queue=new_queue(n, k, shapes.count, policy.orders, policy.index and not policy.dynamic, counted > licences),
        placed=new_placed(nodes),
        shadow=new_shadow(nodes, k, counted),
        later=new_later(nodes, k, counted, len(platform.sites)),
        plan=plan,
        other=new_plan(platform, jobs, np.ascontiguousarray(need[:, 0]), shapes.count) if policy.preempts else plan,
        projects=new_projects(jobs.project.codes),
        promises=new_promises(n, watched, recorded),
        bookings=new_bookings(n, k, policy.booked),
        batch=new_batch(),
        own=new_own(params, *lengths, seed),
        search=new_search(nodes, len(platform.sites)),
        scratch=new_scratch(nodes, k, counted),
        journal=new_journal(journal),
        trace=new_trace(),
    )


def _rules(jobs: Jobs, platform: Platform, policy: Policy) -> NDArray[np.int8]:
    """The rule by which each job is placed: that of its partition, else that of the policy."""
    code = {"power": POWER, "pack": PACK, "spread": SPREAD, "contiguous": CONTIGUOUS, "exclusive": POWER}
    rules = [code[each.place or policy.place] for each in platform.partitions]
    some = jobs.partition.codes if rules else np.full(len(jobs), -1)
    return np.array([*rules, code[policy.place]], np.int8)[some]
