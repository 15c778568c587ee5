"""A witness for the score formulas: the simulator behind a published table, followed to the letter.

RLS20 (D. Zhang, D. Dai, Y. He, F. S. Bao, B. Xie, RLScheduler: an automated HPC batch job scheduler using reinforcement
learning, SC 2020) prints mean bounded slowdowns of heuristics on fixed windows of public workloads. Its simulator is
not one of ours: it commits to a job before it knows when the job can start, and backfills by a rule without extra
processors. So it stands here alone, as plain as possible; that it yields the printed digits shows that the formulas
it is given are the published ones.
"""

import heapq
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

# First jobs of the ten windows, counted from 0 after filtering (seed 1, range [1024, 8975) in the published code).
WINDOWS = (1981, 2756, 4299, 8850, 3316, 2714, 5228, 7762, 4022, 7085)
WINDOW = 1024
TAU = 10  # s, of the bounded slowdown

# (heuristic, wait in s, requested time r in s, processors n, submit s in s) -> score; the lowest goes first
Score = Callable[[str, float, float, int, float], float]


def published_score(name: str, wait_s: float, r_s: float, n: int, s_s: float) -> float:
    """The scores of the table's heuristics: FCFS, SJF, WFP3, UNI and F1. Raises KeyError for another name."""
    match name:
        case "FCFS":
            return s_s
        case "SJF":
            return r_s
        case "WFP3":
            return -((wait_s / r_s) ** 3) * n
        case "UNI":  # the published code guards the logarithm by 1e-15 only, so the wait of a serial job weighs most
            return -wait_s / (math.log2(n + 1e-15) * r_s)
        case "F1":
            return math.log10(r_s) * n + 870 * math.log10(s_s)
    raise KeyError(name)


@dataclass(frozen=True, slots=True)
class Job:
    """A job of the log; times in whole seconds."""

    row: int  # in the log, after filtering
    submit: int
    runtime: int
    walltime: int
    procs: int


def read_log(path: str | Path) -> list[Job]:
    """The jobs of an SWF file (`.gz` or plain) as the published loader reads it.

    An unknown run time is 10 s, a run time of 0 is left out; processors = max(allocated, requested); an unknown
    requested time is the run time.
    """
    table = np.loadtxt(path, comments=";", usecols=(1, 3, 4, 7, 8), ndmin=2).astype(np.int64)
    jobs: list[Job] = []
    for submit, runtime, allocated, requested, walltime in table.tolist():
        runtime = 10 if runtime < 0 else runtime
        if runtime > 0:
            walltime = runtime if walltime == -1 else walltime
            jobs.append(Job(len(jobs), submit, runtime, walltime, max(allocated, requested)))
    return jobs


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """What a cell of the table stands for."""

    heuristic: str
    backfill: bool  # while the job in turn waits for its nodes, others may go ahead: see _Run.backfill
    nodes: int
    procs_per_node: int = 1  # nodes are given whole
    # The wait in a score is taken from the start -1 of a job that has not started, as in the published code. The
    # printed WFP3 and UNI rows need this slip.
    wait_bug: bool = False
    score: Score = published_score


def table_value(log: Sequence[Job], setup: Setup) -> float:
    """One cell of the table: the mean over the ten windows of the mean bounded slowdown."""
    values = [mean_bounded_slowdown(log[first : first + WINDOW], setup) for first in WINDOWS]
    return math.fsum(values) / len(values)


def mean_bounded_slowdown(jobs: Sequence[Job], setup: Setup) -> float:
    """Mean over `jobs`, which are in order of submit and meet an empty machine."""
    start = _Run(jobs, setup).starts()
    slowdowns = [max(1.0, (start[j.row] - j.submit + j.runtime) / max(j.runtime, TAU)) for j in jobs]
    return math.fsum(slowdowns) / len(slowdowns)


class _Run:
    """One window: the clock, the queue in order of submit, and what runs."""

    def __init__(self, jobs: Sequence[Job], setup: Setup) -> None:
        self.setup = setup
        self.free = setup.nodes
        self.now = jobs[0].submit
        self.queue: list[Job] = []
        self.coming = list(reversed(jobs))
        self.running: list[tuple[int, int, Job]] = []  # heap of (end, row, job)
        self.start: dict[int, int] = {}  # row -> start

    def starts(self) -> dict[int, int]:
        """Start of every job by its row."""
        while self.queue or self.coming:
            while not self.queue:
                self.advance()
            # The choice binds: later arrivals cannot displace this job, however long it waits.
            job = min(self.queue, key=self.rank)
            if self.setup.backfill and self.nodes(job) > self.free:
                shadow_time = self.shadow_time(job)
                while self.nodes(job) > self.free:
                    self.backfill(shadow_time)
                    self.advance()
            while self.nodes(job) > self.free:
                self.advance()
            self.place(job)
        return self.start

    def rank(self, job: Job) -> tuple[float, int, int]:
        wait = -1 - job.submit if self.setup.wait_bug else self.now - job.submit
        score = self.setup.score(self.setup.heuristic, wait, job.walltime or 0.1, job.procs, max(1, job.submit))
        return score, job.submit, job.row

    def nodes(self, job: Job) -> int:
        return -(-job.procs // self.setup.procs_per_node)

    def place(self, job: Job) -> None:
        self.start[job.row] = self.now
        self.free -= self.nodes(job)
        self.queue.remove(job)
        heapq.heappush(self.running, (self.now + job.runtime, job.row, job))

    def advance(self) -> None:
        """The next event: an arrival, or an end; the arrival first where both are at one instant."""
        if self.coming and (not self.running or self.coming[-1].submit <= self.running[0][0]):
            job = self.coming.pop()
            self.now = max(self.now, job.submit)
            self.queue.append(job)
        else:
            end, _, job = heapq.heappop(self.running)
            self.now = max(self.now, end)
            self.free += self.nodes(job)

    def shadow_time(self, head: Job) -> int:
        """Return when enough for `head` is free if running jobs use their requested times; computed once."""
        free = self.free
        for limit, nodes in sorted((self.start[j.row] + j.walltime, self.nodes(j)) for _, _, j in self.running):
            free += nodes
            if free >= self.nodes(head):
                return limit
        raise ValueError(f"job {head.row} asks for {head.procs} processors, more than the machine has")

    def backfill(self, shadow_time: int) -> None:
        """Start in order of submit what fits and is requested to end before the shadow time, not at it."""
        for job in list(self.queue):
            if self.nodes(job) <= self.free and self.now + job.walltime < shadow_time:
                self.place(job)
