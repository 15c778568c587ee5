"""The jobs submitted so far, as a policy may know them. True run times are not included.

Jobs are numbered in queue order (submit, then file order). Only the transitions write here. In array shapes n is jobs,
k resources, items licences of jobs.
"""

from typing import Any

import numpy as np
from numba import float64, int8, int32, int64

from backfill.compiler.record import SMALL, record, zeros
from backfill.model.workload import Ints

JOBS = [
    ("rows", int64),  # capacity of the arrays
    ("count", int64),  # submitted so far; later rows are not known yet
    ("origin", int64),  # submit of the very first job
    ("submit", int64[::1]),
    ("walltime", int64[::1]),  # the walltime that the policy may count on; see --estimates
    ("tasks", int64[::1]),
    ("demand", int64[:, ::1]),  # (n, k) per task
    ("need", int64[:, ::1]),  # (n, k) of the whole job
    ("spread", int8[::1]),  # 0 one node, 1 one site, 2 anywhere, 3 each task on a node of its own
    ("most", int64[::1]),  # largest number of its tasks on one node
    ("alone", int8[::1]),  # 1: the whole job runs on one node
    ("bound", int32[::1]),  # row of machine.allowed with the nodes that it may run on; -1 all nodes
    ("sets", int64),  # number of rows of machine.allowed used by jobs submitted so far
    ("shape", int8[::1]),  # see shapes.py; unused on a pool
    ("place", int8[::1]),  # rule for its placement among nodes, see seating.py
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
    ("limit_first", int64[::1]),  # (n,): from here on the items of job j are accounts of limits, not licences
]
Jobs, JobsT = record("Jobs", JOBS, globals())
# first item of each job; licence of each item; copies of each item; first item of each job that is an account
LicenceItems = tuple[Ints, Ints, Any, Ints]


def new_jobs(rows: int, resources: int, pool: bool) -> Any:
    """Return an empty table with this many rows. Entry (entry.py) fills the rows."""
    return Jobs(
        rows=rows,
        count=0,
        origin=0,
        submit=zeros(rows),
        walltime=zeros(rows),
        tasks=zeros(rows),
        demand=zeros(rows, resources),
        need=zeros(rows, resources),
        spread=np.zeros(rows, np.int8),
        most=zeros(rows),
        alone=np.zeros(rows, np.int8),
        bound=np.zeros(rows, np.int32),
        sets=0,
        shape=np.zeros(0 if pool else rows, np.int8),
        place=np.zeros(rows, np.int8),
        deadline=zeros(rows),
        priority=np.zeros(rows),
        admin_priority=np.zeros(rows),
        user=np.zeros(rows, np.int32),
        group=np.zeros(rows, np.int32),
        project=np.zeros(rows, np.int32),
        licence_first=zeros(rows + 1),
        licence=zeros(SMALL),
        licence_count=zeros(SMALL, 1),
        after_first=zeros(rows + 1),
        after=zeros(SMALL),
        limit_first=zeros(rows),
    )
