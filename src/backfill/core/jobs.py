"""The jobs that were submitted so far: what a policy may know of each. The true run time is not in it.

Jobs are numbered in queue order (submit, then file order). Written by the transitions alone. In array shapes n is jobs,
k resources, items licences of jobs.
"""

from typing import Any

import numpy as np
from numba import float64, int8, int32, int64
from numpy.typing import NDArray

from backfill.core.placement import NODE
from backfill.core.record import column, own_column, record
from backfill.model.platform import Platform
from backfill.model.workload import Ints
from backfill.model.workload import Jobs as Table

JOBS = [
    ("rows", int64),  # that the arrays have room for
    ("count", int64),  # submitted so far; rows from here on are not known
    ("submit", int64[::1]),
    ("walltime", int64[::1]),  # what the policy may count on; see --estimates
    ("tasks", int64[::1]),
    ("demand", int64[:, ::1]),  # (n, k) per task
    ("need", int64[:, ::1]),  # (n, k) of the whole job
    ("spread", int8[::1]),  # 0 one node, 1 one site, 2 anywhere
    ("alone", int8[::1]),  # 1: all of it sits on one node
    ("bound", int32[::1]),  # which row of machine.allowed has the nodes that it may run on; -1 all of them
    ("sets", int64),  # rows of machine.allowed that jobs submitted so far are bound to
    ("shape", int8[::1]),  # see shapes.py; unused on a pool
    ("place", int8[::1]),  # by which rule it is placed among nodes, see seating.py
    ("deadline", int64[::1]),
    ("priority", float64[::1]),
    ("admin_priority", float64[::1]),
    ("user", int32[::1]),
    ("group", int32[::1]),
    ("project", int32[::1]),
    ("licence_first", int64[::1]),  # (n + 1,): the licences of job j are items licence_first[j] to licence_first[j + 1]
    ("licence", int64[::1]),  # licence of an item
    ("licence_count", int64[:, ::1]),  # (items, 1) copies
    ("after_first", int64[::1]),  # (n + 1,): job j comes after the jobs after[after_first[j]:after_first[j + 1]]
    ("after", int64[::1]),
    ("limit_first", int64[::1]),  # (n,): from here on the items of job j are no licences but accounts of limits
]
Jobs, JobsT = record("Jobs", JOBS, globals())
# the first item of each job, of each item the licence and the copies, and the first item of each job that is a limit
LicenceItems = tuple[Ints, Ints, Any, Ints]


def new_jobs(
    jobs: Table, need: Ints, bound: Ints, estimate: Ints, licences: LicenceItems, shape: Ints, place: NDArray[np.int8]
) -> Any:
    """The table of a log, of which nothing is submitted yet. estimate: what policies see as the walltime.

    What the book of the world, the checker and the metrics read is copied, so that no policy can write to theirs.
    """
    first, items, counts, limits = licences
    return Jobs(
        rows=len(jobs),
        count=0,
        submit=own_column(jobs.submit),
        walltime=own_column(estimate),
        tasks=own_column(jobs.tasks),
        demand=own_column(jobs.demand),
        need=need,
        spread=own_column(jobs.spread, np.int8),
        alone=((jobs.spread == NODE) | (jobs.tasks == 1)).astype(np.int8),
        bound=column(bound, np.int32),
        sets=0,
        shape=column(shape, np.int8),
        place=place,
        deadline=own_column(jobs.deadline),
        priority=column(jobs.priority, np.float64),
        admin_priority=column(jobs.admin_priority, np.float64),
        user=own_column(by_appearance(jobs.user.codes), np.int32),
        group=own_column(by_appearance(jobs.group.codes), np.int32),
        project=own_column(by_appearance(jobs.project.codes), np.int32),
        licence_first=first,
        licence=items,
        licence_count=counts,
        after_first=column(jobs.after.first),
        after=column(jobs.after.items),
        limit_first=limits,
    )


def allowed_nodes(jobs: Table, platform: Platform) -> tuple[Ints, NDArray[np.bool_]]:
    """The set of nodes to which each job is bound by site, constraint and partition, -1 = all; and these, shape
    (sets, m)."""
    if not (jobs.site.names or jobs.constraint.names or platform.partitions):
        return np.full(len(jobs), -1), np.zeros((0, len(platform.nodes)), np.bool_)
    partition = jobs.partition.codes if platform.partitions else np.full(len(jobs), -1, np.int32)
    keys = np.stack([jobs.site.codes, jobs.constraint.codes, partition])
    pairs, found = np.unique(keys, axis=1, return_inverse=True)
    sets = np.ones((pairs.shape[1], len(platform.nodes)), np.bool_)
    for number, (site, constraint, named) in enumerate(pairs.T.tolist()):
        if named >= 0:
            sets[number] &= platform.nodes_of(jobs.partition.names[named])
        if site >= 0:
            sets[number] &= platform.site == site
        if constraint >= 0:
            sets[number] &= platform.allows(jobs.constraint.names[constraint])
    found = found.ravel()  # its shape is not the same in all versions of numpy
    given = np.where(pairs.max(axis=0)[found] < 0, -1, found)
    bound, some = by_appearance(given), given >= 0
    first = np.unique(bound[some], return_index=True)[1]
    return bound, sets[given[some][first]]


def by_appearance(codes: Any) -> Any:
    """Codes numbered as they first come up, so that none tells of a job that is still to come; -1 stays."""
    before = np.maximum.accumulate(np.append(-1, codes))[:-1]
    if (codes <= before + 1).all():
        return codes
    known, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
    number = np.full(len(known), -1)
    some = known >= 0
    number[some] = np.argsort(np.argsort(first[some]))
    return number[inverse]


def licence_items(jobs: Table, licences: int) -> LicenceItems:
    """The licences of each job and their copies. licences: how many are such; those behind them are limits."""
    asked = jobs.licences
    real = np.bincount(asked.jobs[asked.items < licences], minlength=len(jobs))
    counts = own_column(asked.counts.reshape(-1, 1))
    return own_column(asked.first), own_column(asked.items), counts, column(asked.first[:-1] + real)
