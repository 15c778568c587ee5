"""Notes of readers and writers on a table of jobs: values that were assumed, jobs that look odd, columns in use."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backfill.model.errors import BadArgument, UsageError
from backfill.model.units import NEVER
from backfill.model.workload import ANY, Jobs, Labels, Ragged

ZERO_RUN = ("keep", "drop-cancelled", "drop")  # treatment of jobs with run time 0
CANCELLED = ("run", "leave")  # treatment of cancelled jobs with run time 0
REPEATS = ("refuse", "drop")  # refuse a file with a duplicate id, or drop the later jobs
REPEATED = "duplicate job id"  # reason why a job is dropped


def counted(masks: Mapping[str, NDArray[np.bool_]]) -> dict[str, int]:
    """Return the number of jobs in each mask, without empty masks."""
    counts = {note: int(np.count_nonzero(which)) for note, which in masks.items()}
    return {note: count for note, count in counts.items() if count}


def count_notes(counts: Mapping[str, int], jobs: int) -> list[str]:
    """Format each count as `what: 3 of 100 jobs`."""
    return [f"{note}: {count:,} of {jobs:,} jobs" for note, count in counts.items()]


def oddities(jobs: Jobs) -> list[str]:
    """Return notes on jobs that are legal in any log but look odd, worded as in `analysis.quality`."""
    odd = {
        "submitted before the previous job": np.diff(jobs.submit, prepend=jobs.submit[:1]) < 0,
        "run time longer than the walltime": jobs.runtime > jobs.walltime,
    }
    return count_notes(counted(odd), len(jobs))


def check_zero_run(rule: str) -> None:
    """Raise UsageError unless it is a known rule for jobs with run time 0."""
    if rule not in ZERO_RUN:
        raise BadArgument("zero_run", rule, ", ".join(ZERO_RUN))


def check_cancelled(rule: str, zero_run: str = "keep") -> None:
    """Raise UsageError unless it is a known rule for cancelled jobs that is compatible with `zero_run`."""
    if rule not in CANCELLED:
        raise BadArgument("cancelled", rule, " or ".join(CANCELLED))
    if rule == "leave" and zero_run != "keep":
        raise UsageError(f"cancelled leave is about jobs that zero_run {zero_run} drops; give one of them")


def check_repeats(rule: str) -> None:
    """Raise UsageError unless it is a known rule for duplicate ids."""
    if rule not in REPEATS:
        raise BadArgument("repeats", rule, ", ".join(REPEATS))


def repeated(ids: Sequence[Any]) -> NDArray[np.bool_]:
    """Return the mask of rows whose id occurs in an earlier row."""
    again = np.ones(len(ids), np.bool_)
    seen: dict[Any, int] = {}
    for row, job in enumerate(ids):
        seen.setdefault(job, row)
    again[list(seen.values())] = False
    return again


def first_repeat(ids: Sequence[Any]) -> tuple[int, int] | None:
    """Return the first row with a duplicate id, and the earlier row with it; None if all differ."""
    if len(set(ids)) == len(ids):
        return None
    seen: dict[Any, int] = {}
    return next((row, earlier) for row, job in enumerate(ids) if (earlier := seen.setdefault(job, row)) != row)


def in_use(jobs: Jobs, column: str) -> bool:
    """Return whether any job has a non-default value in an optional column."""
    values = jobs[column]
    if isinstance(values, Ragged):
        return len(values.items) > 0
    if isinstance(values, Labels):
        return bool((values.codes >= 0).any())
    defaults = {"spread": ANY, "exclusive": False, "deadline": NEVER, "think": 0, "waited": -1}
    return bool((values != defaults.get(column, 0)).any())
