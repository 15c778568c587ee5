"""What readers and writers say about a table of jobs: what was assumed, looks odd, or is in use at all."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backfill.model.units import NEVER
from backfill.model.workload import ANY, Jobs, Labels, Ragged


def noted(what: str, which: NDArray[np.bool_]) -> list[str]:
    """`what: 3 of 100 jobs`, or nothing where it holds for none."""
    count = int(np.count_nonzero(which))
    return [f"{what}: {count} of {len(which)} jobs"] if count else []


def oddities(jobs: Jobs) -> list[str]:
    """What is legal in any log but worth a look."""
    return [
        *noted("submitted before the job above", np.diff(jobs.submit, prepend=jobs.submit[:1]) < 0),
        *noted("ran longer than the walltime", jobs.runtime > jobs.walltime),
    ]


def first_repeat(ids: Sequence[Any]) -> tuple[int, int] | None:
    """The first row whose id stands in an earlier row as well, and that row; None where all differ."""
    if len(set(ids)) == len(ids):
        return None
    seen: dict[Any, int] = {}
    return next((row, earlier) for row, job in enumerate(ids) if (earlier := seen.setdefault(job, row)) != row)


def in_use(jobs: Jobs, column: str) -> bool:
    """Whether any job has something other than the default in an optional column."""
    values = jobs[column]
    if isinstance(values, Ragged):
        return len(values.items) > 0
    if isinstance(values, Labels):
        return bool((values.codes >= 0).any())
    default = {"spread": ANY, "deadline": NEVER, "priority": 0, "waited": -1}[column]
    return bool((values != default).any())
