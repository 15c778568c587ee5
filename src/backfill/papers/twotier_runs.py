"""The runs of the two-tier reproduction: projects under several policies, and the laws that each run must obey."""

from typing import Any

import numpy as np

from backfill.api import Result, run_spec
from backfill.model.promises import CAUSES
from backfill.model.schedule import NO_TIME
from backfill.model.units import SECOND
from backfill.model.workload import Ints
from backfill.papers.sweep import Cell, Numbers, kept
from backfill.workloads.twotier import two_tier

GIVEN = CAUSES.index("given")
JOB, PROJECT, WAIT, RUN = "job turn-around", "project turn-around", "project waiting", "project running"
HIGH, LOW = "turn-around of high-priority projects", "turn-around of low-priority projects"
USED = "utilization"
KEPT = {
    JOB: "mean_project_job_turnaround_s",
    PROJECT: "mean_project_turnaround_s",
    WAIT: "mean_project_wait_s",
    RUN: "mean_project_run_s",
}
PROMISED, MOVED, BROKEN = "promised projects", "moved promises", "broken laws"


def run(cell: Cell) -> dict[str, Numbers]:
    """Return the numbers of each policy."""
    log = two_tier(**cell.arguments)
    return {policy: _numbers(run_spec(log, None, spec)) for policy, spec in cell.specs.items()}


def _numbers(result: Result) -> Numbers:
    numbers = kept(result, KEPT)
    used = [float(value) for name, value in result.metrics.items() if name.startswith("utilization_r") and value]
    promised, moved, broken = laws(result)
    return (
        numbers
        | _by_priority(result)
        | {USED: sum(used) / len(used), PROMISED: float(promised), MOVED: float(moved), BROKEN: float(broken)}
    )


def _by_priority(result: Result) -> Numbers:
    """Return the mean turn-around time of projects of high priority, and of the others; NaN if there are none."""
    submit, end = _submits(result), _last(result, result.schedule.end, np.arange(len(result.workload)))
    high = _priority(result) > 0
    return {name: _mean((end - submit)[which]) for name, which in ((HIGH, high), (LOW, ~high))}


def _mean(times: Ints) -> float:
    return float(times.mean()) / SECOND if len(times) else float("nan")


def laws(result: Result) -> tuple[int, int, int]:
    """Return the number of projects with a promised departure, of moved promises of jobs, and of projects wronged.

    A project is wronged if it ends later than its first promised departure and its slack, or was ever promised such an
    end; under 2tsb also if any promise of one of its jobs changed.
    """
    log, promises = result.workload, result.simulation.promises
    given = promises.cause == GIVEN
    rows = promises.job
    first = _last(result, promises.end[given], rows[given])
    slack = np.rint((first - _submits(result)) * _factor(result)).astype(np.int64)
    latest = np.maximum(_last(result, promises.end, rows), _last(result, result.schedule.end, np.arange(len(log))))
    wrong = (first == NO_TIME) | (latest > first + slack)
    if result.policy.name == "2tsb":
        wrong[log.jobs.project.codes[rows[~given]]] = True
    return int((first != NO_TIME).sum()), int((~given).sum()), int(wrong.sum())


def _factor(result: Result) -> Any:
    """Return the tolerated move of each project's departure, in its turn-around times."""
    sf = float(result.params.get("sf", 0))
    return sf * (1 - _priority(result)) if result.policy.name == "2tpb" else sf


def _submits(result: Result) -> Ints:
    jobs = result.workload.jobs
    submits = np.zeros(len(jobs.project.names), np.int64)
    submits[jobs.project.codes] = jobs.submit  # all jobs of a project have the same submit
    return submits


def _priority(result: Result) -> Any:
    jobs = result.workload.jobs
    priorities = np.zeros(len(jobs.project.names))
    priorities[jobs.project.codes] = jobs.priority
    return priorities


def _last(result: Result, times: Ints, rows: Ints) -> Ints:
    """Return the last of the times of each project's jobs."""
    ends = np.full(len(result.workload.jobs.project.names), NO_TIME)
    np.maximum.at(ends, result.workload.jobs.project.codes[rows], times)
    return ends
