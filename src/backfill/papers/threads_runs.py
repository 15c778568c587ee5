"""The runs of the thread-matrix reproduction: jobs of threads under several policies."""

import numpy as np
from numpy.typing import NDArray

from backfill.analysis.projects import turnarounds
from backfill.api import Result, run_spec
from backfill.model.workload import Floats, Ints, Workload
from backfill.papers.sweep import Cell, Numbers, kept
from backfill.workloads.threads import threads

FCFS = "partition-variable"  # whole jobs, first come first served
FIRST_FIT = "partition-variable:backfill=first-fit"  # the paper's backfilling: no reservation, no estimates
EASY = "partition-variable:backfill=easy"
MATRIX = "thread-matrix"
ONE_COLUMN, BY_THREADS = "thread-matrix:n_max=1", "fcfs"
OTHERS = {  # label -> policy
    "EASY": EASY,
    "FCFS, free=thread": f"{FCFS}:free=thread",
    "backfilling, free=thread": f"{FIRST_FIT},free=thread",
    "EASY, free=thread": f"{EASY},free=thread",
    "FCFS by threads": BY_THREADS,
    "fixed partitions": "partition-fixed",
    "adaptive partitions": "partition-adaptive",
    "dynamic partitions": "partition-dynamic",
    "round robin, 5 s": "round-robin:quantum=5",
}
MAKESPAN, RESPONSE, USED, RATE = "overall response", "mean response", "utilization", "jobs per hour"
IDLE = "processor hours idle while a thread waits"
HEAD, BEHIND = "mean response of the first 5% of the jobs", "mean response behind the largest 1% of the jobs"
SMALL = "mean response of small jobs behind the largest 1% of the jobs"
DIFFERENT = "threads that start at another time than first come first served"
PARTS = 20  # of the queue
KEPT = {
    MAKESPAN: "makespan_s",
    RESPONSE: "mean_project_turnaround_s",
    USED: "utilization",
    IDLE: "idle_while_waiting_cpu_hours",
}


def part(number: int) -> str:
    """Return the name of the mean response in one part of the queue, from 0."""
    return f"mean response, part {number + 1}"


def run(cell: Cell) -> dict[str, Numbers]:
    """Return the numbers of each policy."""
    log = threads(**cell.arguments)
    by_policy: dict[str, Numbers] = {}
    starts: dict[str, Ints] = {}
    for policy, spec in cell.specs.items():
        result = run_spec(log, None, spec)
        by_policy[policy], starts[policy] = _numbers(result), result.schedule.start
    if {ONE_COLUMN, BY_THREADS} <= starts.keys():
        by_policy[ONE_COLUMN][DIFFERENT] = float((starts[ONE_COLUMN] != starts[BY_THREADS]).sum())
    return by_policy


def _numbers(result: Result) -> Numbers:
    numbers = kept(result, KEPT)
    response = turnarounds(result.workload, result.schedule, np.arange(len(result.workload)))
    numbers[HEAD] = float(response[: -(-len(response) // 20)].mean())
    behind = behind_largest(result.workload)
    small = behind[is_small(result.workload)[behind]]
    numbers[BEHIND] = float(response[behind].mean())
    numbers[SMALL] = float(response[small].mean()) if len(small) else float("nan")
    numbers[RATE] = len(response) * 3600 / numbers[MAKESPAN]
    parts: list[Floats] = np.array_split(response, PARTS)
    return numbers | {part(i): float(each.mean()) for i, each in enumerate(parts)}


def behind_largest(log: Workload) -> Ints:
    """Return the jobs directly behind the largest 1%: those with the most threads, ties by most work."""
    job, runtime = log.jobs.project.codes, log.jobs.runtime.astype(np.float64)
    many, work = np.bincount(job), np.bincount(job, runtime)
    largest = np.lexsort((work, many))[-max(len(many) // 100, 1) :]
    behind = np.setdiff1d(largest + 1, largest)
    return behind[behind < len(many)]


def is_small(log: Workload) -> NDArray[np.bool_]:
    """Return whether each job has at most half of the average number of threads."""
    many = np.bincount(log.jobs.project.codes)
    small: NDArray[np.bool_] = 2 * many <= many.mean()
    return small
