"""Notes of readers and writers on a table of jobs: values that were assumed, jobs that look odd, columns in use."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backfill.model.errors import BadArgument, UsageError
from backfill.model.units import NEVER
from backfill.model.workload import ANY, Jobs, Labels, Ragged

ZERO_RUN = ("keep", "drop-cancelled", "drop")  # what becomes of jobs with run time 0
CANCELLED = ("run", "leave")  # what becomes of cancelled jobs with run time 0
REPEATS = ("refuse", "drop")  # what becomes of a file with an id that stands twice, or of the later jobs
REPEATED = "duplicate job id"  # why a job is dropped


def counted(masks: Mapping[str, NDArray[np.bool_]]) -> dict[str, int]:
    """The number of jobs for which each holds, without those that hold for none."""
    counts = {note: int(np.count_nonzero(which)) for note, which in masks.items()}
    return {note: count for note, count in counts.items() if count}


def told(counts: Mapping[str, int], jobs: int) -> list[str]:
    """`what: 3 of 100 jobs` for each."""
    return [f"{note}: {count:,} of {jobs:,} jobs" for note, count in counts.items()]


def oddities(jobs: Jobs) -> list[str]:
    """The jobs that are legal in any log but look odd, in the words of `analysis.quality`."""
    odd = {
        "submitted before the previous job": np.diff(jobs.submit, prepend=jobs.submit[:1]) < 0,
        "run time longer than the walltime": jobs.runtime > jobs.walltime,
    }
    return told(counted(odd), len(jobs))


def check_zero_run(rule: str) -> None:
    """Raise UsageError unless it is a rule about jobs with run time 0."""
    if rule not in ZERO_RUN:
        raise BadArgument("zero_run", rule, ", ".join(ZERO_RUN))


def check_cancelled(rule: str, zero_run: str = "keep") -> None:
    """Raise UsageError unless it is a rule about cancelled jobs that goes with the one about jobs with run time 0."""
    if rule not in CANCELLED:
        raise BadArgument("cancelled", rule, " or ".join(CANCELLED))
    if rule == "leave" and zero_run != "keep":
        raise UsageError(f"cancelled leave is about jobs that zero_run {zero_run} drops; give one of them")


def check_repeats(rule: str) -> None:
    """Raise UsageError unless it is a rule about ids that stand twice."""
    if rule not in REPEATS:
        raise BadArgument("repeats", rule, ", ".join(REPEATS))


def repeated(ids: Sequence[Any]) -> NDArray[np.bool_]:
    """The rows whose id occurs in an earlier row."""
    again = np.ones(len(ids), np.bool_)
    seen: dict[Any, int] = {}
    for row, job in enumerate(ids):
        seen.setdefault(job, row)
    again[list(seen.values())] = False
    return again


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
    defaults = {"spread": ANY, "exclusive": False, "deadline": NEVER, "think": 0, "waited": -1}
    return bool((values != defaults.get(column, 0)).any())
