"""Measure this version beside another one: the same work, in turns, in processes of their own.

    python benchmarks/paired.py PYTHON [--only NAME ...] [--turns 7] [--quick]

PYTHON is the interpreter of an environment in which the other version is installed. Times are processor time of a
process from the workload to its metrics, as other work on the machine must not count; of each version the shortest turn
counts, since what other work adds to it is never negative. Both must give the same schedule, else the row says so.
"""

import argparse
import hashlib
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

import backfill as bf
from backfill.model.platform import Platform
from backfill.model.workload import Workload
from backfill.workloads import generate
from workloads import (
    CPUS,
    deep,
    four_kinds,
    of_many_resources,
    of_resources,
    on_sites,
    ricc,
    ricc_nodes,
    roomy_pool,
    single_nodes,
    synthetic,
    waiting,
    with_licences,
)

Work = tuple[Workload, Platform]


def pool(workload: Workload, cpus: int = CPUS) -> Work:
    return workload, roomy_pool(workload, cpus)


def model(text: str) -> Work:
    workload = generate(text)
    return workload, Platform.of(workload)


def on_nodes(jobs: int) -> Work:
    return single_nodes(jobs), Platform.pool(CPUS, nodes=64)


def first(work: Work, jobs: int) -> Work:
    return work[0].head(jobs), work[1]


# name: policy, and the work of a given number of jobs; the number takes about a second
CASES: dict[str, tuple[str, Callable[[int], Work], int]] = {
    "easy, load 0.7": ("easy", lambda n: pool(synthetic(0.7, n)), 1_000_000),
    "easy, load 0.9": ("easy", lambda n: pool(synthetic(0.9, n)), 1_000_000),
    "easy, load 0.95": ("easy", lambda n: pool(synthetic(0.95, n)), 1_000_000),
    "easy, small jobs": ("easy", lambda n: pool(synthetic(0.9, n, largest=8)), 1_000_000),
    "easy, a deep queue": ("easy", lambda n: pool(deep("steps of 300 s", n)), 300_000),
    "easy-sjbf, a deep queue": ("easy-sjbf", lambda n: pool(deep("powers of two", n)), 300_000),
    "first-fit, a deep queue": ("first-fit", lambda n: pool(deep("ten walltimes", n)), 300_000),
    "easy-wfp3, load 1.5": ("easy-wfp3", lambda n: pool(synthetic(1.5, n)), 5_000),
    "conservative, RICC": ("conservative", lambda n: pool(ricc(n), 8192), 20_000),
    "conservative, load 0.9": ("conservative", lambda n: pool(synthetic(0.9, n)), 100_000),
    "conservative, waiting": ("conservative", lambda n: pool(waiting(n)), 3_000),
    "easy, 64 nodes": ("easy", on_nodes, 500_000),
    "easy, RICC's nodes": ("easy", lambda n: first(ricc_nodes(), n), 20_000),
    "conservative, RICC's nodes": ("conservative", lambda n: first(ricc_nodes(), n), 2_000),
    "easy, four kinds of nodes": ("easy", four_kinds, 10_000),
    "easy, 8 sites": ("easy", lambda n: on_sites(n, 800, 8), 5_000),
    "easy, 64 resources": ("easy", lambda n: of_many_resources(n, 64), 3_000),
    "conservative, 1,000 licences": ("conservative", lambda n: with_licences(n, 1_000), 1_000),
    "ibb, 4 resources": ("ibb", lambda n: pool(of_resources(synthetic(0.8, n), 4)), 300_000),
    "bf-mod, the farm": ("bf-mod", lambda n: model(f"farm?jobs={n}&interarrival=4"), 20_000),
    "gang-span, the grid": ("gang-span", lambda n: model(f"grid?jobs={n}&local=13"), 200_000),
    "thread-matrix": ("thread-matrix", lambda n: model(f"threads?jobs={n}&cpus=64"), 2_000),
    "2tsb, projects": ("2tsb", lambda n: model(f"two-tier?projects={n}"), 1_000),
    "2tfb-sf, projects": ("2tfb-sf", lambda n: model(f"two-tier?projects={n}"), 500),
    "flexible, waiting": ("flexible", lambda n: pool(waiting(n)), 10_000),
    "preemptive, load 0.9": ("preemptive", lambda n: pool(synthetic(0.9, n)), 100_000),
    "slack, load 0.9": ("slack", lambda n: pool(synthetic(0.9, n)), 20_000),
}


def work(name: str, quick: bool) -> Callable[[], tuple[float, str]]:
    """Return a function that simulates a case and tells its seconds and its schedule, once it has run it."""
    policy, make, jobs = CASES[name]
    workload, platform = make(jobs // 10 if quick else jobs)

    def turn() -> tuple[float, str]:
        begun = time.process_time()
        start = bf.simulate(workload, platform, policy=policy).schedule.start
        took = time.process_time() - begun
        return took, hashlib.sha256(start.tobytes()).hexdigest()[:12]

    turn()
    return turn


def serve(quick: bool) -> None:
    """Answer names of cases on standard input with seconds and schedules."""
    known: tuple[str, Callable[[], tuple[float, str]]] | None = None
    for line in sys.stdin:
        name = line.rstrip("\n")
        if known is None or known[0] != name:
            known = name, work(name, quick)
        print(*known[1](), flush=True)


class Version:
    """A process of one version."""

    def __init__(self, python: str, quick: bool) -> None:
        words = [python, __file__, "--serve", *(["--quick"] if quick else [])]
        self._process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run(self, name: str) -> tuple[float, str]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(name, file=self._process.stdin, flush=True)
        line = self._process.stdout.readline().split()
        if not line:
            raise SystemExit(f"{name}: the process of {self._process.args} ended")  # its error is on the terminal
        return float(line[0]), line[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("python", metavar="PYTHON", nargs="?", default=sys.executable)
    parser.add_argument("--only", nargs="+", choices=CASES, metavar="NAME", default=[*CASES])
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--quick", action="store_true", help="a tenth of the jobs")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        serve(given.quick)
        return
    versions = [Version(python, given.quick) for python in (sys.executable, given.python)]
    print(f"{'':32} {'seconds':>9} {'other':>9} {'ratio':>7} {'median':>7}")
    for name in given.only:
        took: tuple[list[float], list[float]] = ([], [])
        schedules = set()
        for turn in range(given.turns):
            for which in (0, 1) if turn % 2 else (1, 0):
                seconds, schedule = versions[which].run(name)
                took[which].append(seconds)
                schedules.add(schedule)
        best, middle = (tuple(map(how, took)) for how in (min, statistics.median))
        note = "" if len(schedules) == 1 else "  other schedule"
        print(
            f"{name:32} {best[0]:9.3f} {best[1]:9.3f} {best[0] / best[1]:7.3f} {middle[0] / middle[1]:7.3f}{note}",
            flush=True,
        )


if __name__ == "__main__":
    main()
