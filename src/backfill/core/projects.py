"""Projects: groups of submitted jobs that belong together. A job without a project is a project of its own."""

from typing import Any

import numpy as np
from numba import int32, int64

from backfill.compiler.kernel import kernel
from backfill.compiler.record import record, zeros

PROJECTS = [
    ("count", int64),  # number of projects with a submitted job
    ("of", int32[::1]),  # (n,): the project of a job; numbered by first appearance
    ("submit", int64[::1]),  # (n,): submit of the first job of a project
    ("first", int32[::1]),  # (n,): first job of a project
    ("last", int32[::1]),  # (n,): last job submitted so far
    ("next", int32[::1]),  # (n,): the next job of the same project, in queue order; -1 none so far
]
Projects, ProjectsT = record("Projects", PROJECTS, globals())


def new_projects(n: int) -> Any:
    """Return an empty record with capacity for n jobs."""
    return Projects(
        count=0,
        of=np.zeros(n, np.int32),
        submit=zeros(n),
        first=np.zeros(n, np.int32),
        last=np.zeros(n, np.int32),
        next=np.full(n, -1, np.int32),
    )


@kernel(inline=True)
def join_project(state, job):
    """Append a job that is submitted now to its project."""
    projects = state.projects
    project = projects.of[job]
    if project == projects.count:
        projects.count += 1
        projects.submit[project], projects.first[project] = state.jobs.submit[job], job
    elif projects.last[project] >= 0:  # otherwise the earlier jobs are no longer needed
        projects.next[projects.last[project]] = job
    projects.last[project] = job
