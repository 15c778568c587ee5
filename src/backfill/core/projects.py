"""Projects: which of the jobs submitted so far belong together. A job without a project is a project of its own."""

from typing import Any

import numpy as np
from numba import int64

from backfill.compiler.kernel import kernel
from backfill.compiler.record import record, zeros

PROJECTS = [
    ("count", int64),  # those of which a job was submitted
    ("of", int64[::1]),  # (n,): the project of a job; numbered as they first come up
    ("submit", int64[::1]),  # (n,): submit of the first job of a project
    ("first", int64[::1]),  # (n,): that job
    ("last", int64[::1]),  # (n,): the last job submitted so far
    ("next", int64[::1]),  # (n,): the next job of the same project, in the order of the queue; -1 none so far
]
Projects, ProjectsT = record("Projects", PROJECTS, globals())


def new_projects(n: int) -> Any:
    """Nothing is submitted yet. n: for how many jobs there is room."""
    return Projects(
        count=0,
        of=zeros(n),
        submit=zeros(n),
        first=zeros(n),
        last=zeros(n),
        next=np.full(n, -1),
    )


@kernel(inline=True)
def join_project(state, job):
    """A job that is submitted now is the last of its project."""
    projects = state.projects
    project = projects.of[job]
    if project == projects.count:
        projects.count += 1
        projects.submit[project], projects.first[project] = state.jobs.submit[job], job
    elif projects.last[project] >= 0:  # else nobody asks for those before it
        projects.next[projects.last[project]] = job
    projects.last[project] = job
