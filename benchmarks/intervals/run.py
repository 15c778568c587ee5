"""How often the 95 % intervals of `compare` hold the true difference, on random workloads of many kinds.

    python benchmarks/intervals/run.py [--logs 300] [--only NAME ...] [--load L ...] [--jobs N ...]
                                       [--held-out] [--save]

Each cell has that many logs of one kind, load and length. The truth is the mean over long runs, without their first
tenth; it is kept in truth.json, and `--truth` measures it again. Where a policy has no such mean, since its queue never
becomes empty, or none that these runs can measure, the truth is the mean over the logs of the cell (marked with *).
`--save` writes results.json beside this file.
"""

import argparse
import json
import math
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from generators import FAMILY, HELD_OUT, LUBLIN, workload

from backfill import policies
from backfill.analysis.metrics import Counted
from backfill.analysis.paired import Pair, pairs_of_log
from backfill.model.platform import Platform
from backfill.model.units import SECOND
from backfill.model.workload import Workload
from backfill.worlds.simulated import simulate

HERE = Path(__file__).parent
TRUTH, RESULTS = HERE / "truth.json", HERE / "results.json"
POLICIES = ("fcfs", "easy", "easy-sjbf", "conservative")
PAIRS = (("easy", "fcfs"), ("easy-sjbf", "easy"), ("conservative", "easy"))
METRICS = ("mean_wait_s", "mean_bounded_slowdown")
LOADS, JOBS = (0.6, 0.8, 0.95), (500, 1000, 3000, 10_000, 20_000)
LONG_RUNS, LONG_JOBS = 8, 200_000
NOISE = 1 / 8  # of the mean wait, the standard error of the long runs with which it counts as not measured
Truth = dict[str, dict[str, float] | None]  # by policy, then metric; None: no long-run mean


def schedules(log: Workload) -> dict[str, Counted]:
    platform = Platform.of(log)
    return {name: Counted.of(log, simulate(log, platform, policies.get(name)).schedule) for name in POLICIES}


def means(counted: Counted) -> dict[str, float]:
    return {METRICS[0]: float(counted.wait.mean()) / SECOND, METRICS[1]: float(counted.bounded_slowdown.mean())}


def truth(name: str, load: float, long_runs: int = LONG_RUNS) -> Truth:
    """The means of each policy in the long run, of those that have one."""
    runs: dict[str, list[dict[str, float]]] = {policy: [] for policy in POLICIES}
    endless = set()
    for run in range(long_runs):
        log = workload(name, load, LONG_JOBS, 10**6 + run)
        platform = Platform.of(log)
        for policy in (each for each in POLICIES if each not in endless):
            counted = Counted.of(log, simulate(log, platform, policies.get(policy)).schedule)
            if counted.wait[-LONG_JOBS // 5 :].min() > 0:
                endless.add(policy)
            runs[policy].append(means(counted.take(np.arange(LONG_JOBS // 10, LONG_JOBS))))
    for policy, of in runs.items():
        waits = np.array([each[METRICS[0]] for each in of])
        if policy not in endless and waits.std(ddof=1) / math.sqrt(len(waits)) > NOISE * waits.mean():
            endless.add(policy)
    return {
        policy: None if policy in endless else {m: float(np.mean([each[m] for each in of])) for m in METRICS}
        for policy, of in runs.items()
    }


@dataclass
class Cell:
    """The results of the logs of one kind, for one pair of policies and one metric."""

    name: str
    load: float
    jobs: int
    pair: tuple[str, str]
    metric: str
    true: tuple[float, float]  # difference and relative difference
    long_run: bool  # true there; otherwise over the logs
    logs: int = 0
    given: int = 0
    held: int = 0  # both
    held_difference: int = 0
    held_relative: int = 0
    width: float = math.nan  # median, of the relative difference
    said: int = 0  # without an interval: which policy is always higher
    said_wrongly: int = 0

    @classmethod
    def of(
        cls, key: tuple[str, float, int], pair: tuple[str, str], metric: str, true: Truth,
        found: Sequence[Pair], means_of_logs: Sequence[tuple[dict[str, float], dict[str, float]]],
    ) -> "Cell":  # fmt: skip
        """found, means_of_logs: of each log, the pair and the means of both policies."""
        a, b = ([each[i][metric] for each in means_of_logs] for i in (0, 1))
        of_a, of_b = (true[policy] for policy in pair)
        long_run = of_a is not None and of_b is not None
        x, y = (of_a[metric], of_b[metric]) if of_a and of_b else (float(np.mean(a)), float(np.mean(b)))
        both = (x - y, x / y - 1)
        cell = cls(*key, pair, metric, both, long_run, len(found))
        widths = []
        for each in found:
            if each.low is not None and each.relative_low is not None:
                cell.given += 1
                holds = [each.low <= both[0] <= each.high, each.relative_low <= both[1] <= each.relative_high]
                cell.held_difference += holds[0]
                cell.held_relative += holds[1]
                cell.held += all(holds)
                widths.append(each.relative_high - each.relative_low)
            elif each.always_higher is not None:
                cell.said += 1
                cell.said_wrongly += each.always_higher != (pair[0] if both[0] > 0 else pair[1])
        cell.width = float(np.median(widths)) if widths else math.nan
        return cell

    @property
    def coverage(self) -> tuple[float, float]:
        """Of the difference and of the relative difference, among the logs that have an interval."""
        return self.held_difference / max(1, self.given), self.held_relative / max(1, self.given)


def cells(name: str, load: float, jobs: int, logs: int, true: Truth, seed: int) -> list[Cell]:
    found: dict[tuple[tuple[str, str], str], list[Pair]] = {(pair, metric): [] for pair in PAIRS for metric in METRICS}
    measured = []
    for i in range(logs):
        log = workload(name, load, jobs, seed + i)
        counted = schedules(log)
        measured.append({policy: means(each) for policy, each in counted.items()})
        for pair in PAIRS:
            two = [counted[pair[1]], counted[pair[0]]]
            made = pairs_of_log(
                (pair[1], pair[0]), [measured[-1][p] for p in reversed(pair)], two, log.jobs.procs, log.cpus, i
            )
            for each in made:
                if each.metric in METRICS:
                    found[pair, each.metric].append(each)
    return [
        Cell.of((name, load, jobs), pair, metric, true, of, [(each[pair[0]], each[pair[1]]) for each in measured])
        for (pair, metric), of in found.items()
    ]


def table(rows: Sequence[Cell]) -> str:
    lines = ["| workload | load | jobs | pair | given | wait | slowdown | width |", "| --- " * 8 + "|"]
    by_key: dict[tuple[Any, ...], dict[str, Cell]] = {}
    for cell in rows:
        by_key.setdefault((cell.name, cell.load, cell.jobs, cell.pair), {})[cell.metric] = cell
    for (name, load, jobs, pair), of in by_key.items():
        wait, slowdown = (of[metric] for metric in METRICS)
        shown = [" / ".join(f"{100 * x:.0f}" for x in each.coverage) if each.given else "" for each in (wait, slowdown)]
        both = ", ".join(pair) + ("" if wait.long_run else " *")
        given = f"{100 * wait.given / wait.logs:.0f}"
        lines.append(
            f"| {name} | {load:.2f} | {jobs:,} | {both} | {given} | {shown[0]} | {shown[1]} |"
            f" {'' if math.isnan(wait.width) else f'{wait.width:.2f}'} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--logs", type=int, default=300)
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--load", type=float, nargs="*", default=LOADS)
    parser.add_argument("--jobs", type=int, nargs="*", default=JOBS)
    parser.add_argument("--seed", type=int, default=50_000)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--held-out", action="store_true")
    parser.add_argument("--truth", action="store_true")
    parser.add_argument("--long-runs", type=int, default=LONG_RUNS)
    parser.add_argument("--save", action="store_true")
    given = parser.parse_args()
    names = given.only or ([*HELD_OUT] if given.held_out else [*FAMILY, LUBLIN])
    known = json.loads(TRUTH.read_text()) if TRUTH.exists() else {}
    rows = []
    with ProcessPoolExecutor(given.workers) as pool:
        todo = {(name, load): pool.submit(truth, name, load, given.long_runs) for load in given.load for name in names
                if given.truth or f"{name} {load}" not in known}  # fmt: skip
        for (name, load), future in todo.items():
            known[f"{name} {load}"] = future.result()
            TRUTH.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")
        runs = [
            pool.submit(cells, name, load, jobs, given.logs, known[f"{name} {load}"], given.seed)
            for load in given.load for name in names for jobs in given.jobs
        ]  # fmt: skip
        for run in runs:
            rows += run.result()
            print("\n".join(table(run.result()).splitlines()[2 if len(rows) > len(run.result()) else 0 :]), flush=True)
    if given.save:
        kept = json.loads(RESULTS.read_text()) if RESULTS.exists() else []
        fresh = {(cell.name, cell.load, cell.jobs) for cell in rows}
        kept = [each for each in kept if (each["name"], each["load"], each["jobs"]) not in fresh]
        RESULTS.write_text(
            json.dumps(kept + [asdict(cell) for cell in rows], indent=None).replace("}, ", "},\n") + "\n"
        )


if __name__ == "__main__":
    main()
