"""A State at the beginning of time, from a workload and a platform."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from backfill.core.counters import COUNTERS
from backfill.core.future import BUCKETS, FEW, FINEST, LEVELS
from backfill.core.order import ranks
from backfill.core.placement import BLOCK, NODE
from backfill.core.policy import Policy
from backfill.core.profile import FUTURE, new_profile
from backfill.core.queue import BUCKET, CLASSES, NOBODY
from backfill.core.shadow import UNBOUNDED
from backfill.core.state import NO_TIME, State
from backfill.model.platform import Platform
from backfill.model.workload import Floats, Ints, Jobs

DEEP = 512  # queue length, for each two resources, from which a static order is searched by its tree
SMALL = 8  # first size of arrays that grow


def new_state(
    jobs: Jobs, platform: Platform, policy: Policy, params: Floats, *, estimate: Ints, seed: int = 0, watched: int = -1
) -> Any:
    """A State in which nothing has happened yet.

    jobs: in queue order (submit, then file order), resources and licences those of the platform. estimate: what the
    policy may count on as walltime. watched: the job whose promises are written down.
    """
    orders = policy.orders
    n, (nodes, k) = len(jobs), platform.capacity.shape
    licences = len(platform.licences)
    need = np.ascontiguousarray(jobs.demand * jobs.tasks[:, None])
    simple = nodes == 1 and licences == 0
    index = policy.index and not policy.dynamic
    buckets = 1 << max((n - 1) // BUCKET, 1).bit_length() if index else 1
    slots = len(orders)
    rank = np.empty((slots, n), np.int32)
    ranked = np.empty((slots, n), np.int32)
    for slot, order in enumerate(orders):
        rank[slot], ranked[slot] = ranks(order, estimate, np.ascontiguousarray(need[:, 0]), jobs.submit, jobs.priority)
    first, items, counts = _licence_items(jobs, licences)
    bound, allowed = allowed_nodes(jobs, platform)

    def column(values: Any, dtype: Any = np.int64) -> Any:
        return np.require(values, dtype, ["C", "W", "A"])  # a copy only where it must be one

    def times(size: int = n) -> Ints:
        return np.full(size, NO_TIME, np.int64)

    def zeros(*shape: int) -> Any:
        return np.zeros(shape, np.int64)

    levels = _levels(need[:, 0]) if simple else zeros(1)

    return State(
        now=NO_TIME,
        jobs=n,
        submitted=0,
        submit=column(jobs.submit),
        walltime=column(estimate),
        tasks=column(jobs.tasks),
        demand=column(jobs.demand),
        need=need,
        spread=column(jobs.spread, np.int8),
        alone=((jobs.spread == NODE) | (jobs.tasks == 1)).astype(np.int8),
        bound=column(bound, np.int32),
        deadline=column(jobs.deadline),
        priority=column(jobs.priority, np.float64),
        admin_priority=column(jobs.admin_priority, np.float64),
        user=column(jobs.user.codes, np.int32),
        group=column(jobs.group.codes, np.int32),
        project=column(jobs.project.codes, np.int32),
        licence_first=first,
        licence=items,
        licence_count=counts,
        nodes=nodes,
        resources=k,
        pool=int(simple),
        capacity=column(platform.capacity),
        in_play=np.zeros(k, np.int8),
        site=column(platform.site),
        allowed=allowed.astype(np.int8),
        hosts=platform.hosts.astype(np.int8),
        copies=column(platform.copies),
        free=platform.capacity.copy(),
        total=column(platform.capacity.sum(axis=0)),
        most=zeros(k),
        peak=_peaks(platform.capacity),
        unknown_peak=np.full((-(-nodes // BLOCK), k), FUTURE),
        licence_free=platform.copies.copy(),
        waiting=0,
        slots=slots,
        order=np.array(orders, np.int64),
        queue=np.empty((slots, n + 1), np.int64),
        front=zeros(slots),
        back=zeros(slots),
        at=zeros(slots),
        rank=rank,
        ranked=ranked,
        deep=0,
        deep_at=DEEP * max(k // 2, 1) if index else FUTURE,
        waits=np.zeros(n, np.int8),
        length=np.zeros(n, np.int8),
        first=zeros(slots),
        buckets=buckets,
        tree=np.full((slots * 2 * buckets, CLASSES * k), NOBODY, np.int16),
        class_bound=_class_bounds(estimate),
        limits=zeros(2, k),
        short=np.zeros((2, k), np.int16),
        running=np.empty(n + 1, np.int64),
        limit=np.empty(n + 1, np.int64),
        active=0,
        start_time=times(),
        reason=np.full(n, -1, np.int8),
        reserved=times(),
        promise=times(),
        placed=zeros(nodes, 2),
        placements=0,
        placed_for=-1,
        held=zeros(SMALL if simple else n + SMALL, 2),
        held_used=0,
        held_first=zeros(n),
        held_count=zeros(n),
        extra=np.full((nodes, k), UNBOUNDED),
        licence_extra=np.full(licences, UNBOUNDED),
        shadow_job=-1,
        shadow_placed=zeros(nodes, 2),
        shadow_placements=0,
        room=zeros(nodes, k),
        licence_room=zeros(licences),
        licence_least=zeros(1, 1),
        plan=new_profile(column(platform.capacity)),
        licence_plan=new_profile(column(platform.copies.reshape(-1, 1))),
        licence_capacity=platform.copies.reshape(-1, 1).copy(),
        rooms_until=times(2),
        rooms_kept=1,
        rooms=zeros(2, len(levels), BUCKETS),
        rooms_need=levels,
        rooms_since=zeros(len(levels)),
        rooms_level=np.zeros(n, np.int8),
        rooms_low=0,
        rooms_high=len(levels) - 1,
        rooms_origin=int(jobs.submit.min(initial=FUTURE)),
        rooms_shift=FINEST,
        rooms_last=FEW - 1,
        arrived=np.empty(n + 1, np.int64),
        arrivals=0,
        ended_jobs=np.empty(n + 1, np.int64),
        ended=0,
        started=np.empty(n + 1, np.int64),
        decisions=0,
        overdue=0,
        timers=zeros(SMALL),
        timed=0,
        param=params,
        memory_i=zeros(policy.room_for(policy.memory_i, jobs=n, licences=licences)),
        memory_f=np.zeros(policy.room_for(policy.memory_f, jobs=n, licences=licences)),
        random=np.array([seed, 0], np.uint64),
        watched=watched,
        history=zeros(SMALL, 2),
        entries=0,
        counters=zeros(COUNTERS),
        error=zeros(6),
    )


def allowed_nodes(jobs: Jobs, platform: Platform) -> tuple[Ints, NDArray[np.bool_]]:
    """The set of nodes to which each job is bound by site and constraint, -1 = all; and the sets, shape (sets, m)."""
    if not (jobs.site.names or jobs.constraint.names):
        return np.full(len(jobs), -1), np.zeros((0, len(platform.nodes)), np.bool_)
    pairs, found = np.unique(np.stack([jobs.site.codes, jobs.constraint.codes]), axis=1, return_inverse=True)
    sets = np.ones((pairs.shape[1], len(platform.nodes)), np.bool_)
    for number, (site, constraint) in enumerate(pairs.T.tolist()):
        if site >= 0:
            sets[number] &= platform.site == site
        if constraint >= 0:
            sets[number] &= platform.allows(jobs.constraint.names[constraint])
    found = found.ravel()  # its shape is not the same in all versions of numpy
    return np.where(pairs.max(axis=0)[found] < 0, -1, found), sets


def _class_bounds(walltime: Ints) -> Ints:
    """Bounds that part the walltimes into CLASSES classes of about equal size."""
    if not len(walltime):
        return np.zeros(CLASSES - 1, np.int64)
    sample = np.sort(walltime[:: max(len(walltime) // 4096, 1)])
    return np.ascontiguousarray(sample[np.arange(1, CLASSES) ** 2 * len(sample) // CLASSES**2])


def _peaks(capacity: Ints) -> Ints:
    """The most that a node of each block holds."""
    return np.maximum.reduceat(capacity, np.arange(0, len(capacity), BLOCK), axis=0)


def _levels(need: Ints) -> Ints:
    """The needs of most jobs and the least of all, ascending, at most LEVELS."""
    if not len(need):
        return np.zeros(1, np.int64)
    values, counts = np.unique(need[:: max(len(need) // 4096, 1)], return_counts=True)
    often = values[np.argsort(-counts, kind="stable")[: LEVELS - 1]]
    return np.unique(np.append(often, need.min()))


def _licence_items(jobs: Jobs, licences: int) -> tuple[Ints, Ints, Any]:
    """The licences of each job as (first item per job, licence, copies), equal ones counted together."""
    if not len(jobs.licences.items):
        return np.zeros(len(jobs) + 1, np.int64), np.zeros(0, np.int64), np.zeros((0, 1), np.int64)
    job = np.repeat(np.arange(len(jobs)), np.diff(jobs.licences.first))
    pairs, counts = np.unique(job * licences + jobs.licences.items, return_counts=True)
    first = np.searchsorted(pairs, np.arange(len(jobs) + 1) * licences)
    return first.astype(np.int64), pairs % licences, counts.astype(np.int64).reshape(-1, 1)
