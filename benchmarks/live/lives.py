"""A planner through which a million jobs pass: how long passes take at the beginning and at the end, and its memory.

    python benchmarks/live/lives.py [--jobs 1000000] [--open 1000] [--policy easy ...]

Jobs of 1 to 16 of 64 cpus come one by one, so that about --open of them wait or run at any time; each has its walltime
and ends after a part of it. Each pass is told what ended and what came, as a daemon tells it. Printed for the first
and the last tenth of the passes: median, 99 %, the longest; resident memory; and how long it takes to put the planner
on the disk and to read it back.
"""

import argparse
import heapq
import random
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from backfill.worlds.aside import load, save
from backfill.worlds.live import Planner

SECOND = 1_000_000
CPUS = 64


def messages(chance: random.Random, jobs: int, most: int) -> Iterator[tuple[int, list[Any]]]:
    """Yield instants and what the planner is told then; send it what was started."""
    now, number, open_, ends = 1_000 * SECOND, 0, 0, list[tuple[int, int]]()
    while number < jobs:
        now += SECOND
        told: list[Any] = []
        while ends and ends[0][0] <= now:
            _, job = heapq.heappop(ends)
            told += [["gone", job, "COMPLETED"], ["over", job]]
            open_ -= 1
        for _ in range(min(most - open_, 4)):
            number, open_ = number + 1, open_ + 1
            facts = {
                "need": {"cpus": chance.choice([1, 1, 2, 4, 8, 16])},
                "walltime": 600 * SECOND,
                "user": chance.choice("abcdefgh"),
            }
            told += [["submit", number, facts], ["wait", number]]
        if not told:
            continue
        for job, *_ in (yield now, told):
            heapq.heappush(ends, (now + chance.randint(1, 60) * SECOND, job))
        yield 0, []


def spans(name: str, values: list[float]) -> None:
    """Print what passes took, in milliseconds."""
    values = sorted(values)
    middle, high = values[len(values) // 2] * 1e3, values[len(values) * 99 // 100] * 1e3
    print(f"    {name}: median {middle:.3f} ms, 99 % {high:.3f}, longest {values[-1] * 1e3:.2f}")


def resident() -> float:
    """Resident memory of this process, in MB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 1e6


def run(policy: str, jobs: int, most: int) -> None:
    """One policy."""
    epoch = {"resources": {"cpus": CPUS}, "base": [], "now": 0, "policy": policy}
    planner, taken, memory = Planner(policy, epoch), list[float](), 0.0
    told = messages(random.Random(1), jobs, most)
    begin, step = time.perf_counter(), next(told)
    while True:
        before = time.perf_counter()
        done = planner.decide(*step)
        taken.append(time.perf_counter() - before)
        if len(taken) == 5_000:
            memory = resident()
        told.send(done["starts"])
        try:
            step = next(told)
        except StopIteration:
            break
    tenth = len(taken) // 10
    print(f"{policy}, {most} open: {jobs:,} jobs, {len(taken):,} passes in {time.perf_counter() - begin:.0f} s")
    spans("first tenth", taken[tenth // 10 : tenth])
    spans("last tenth", taken[-tenth:])
    spans("all but the first hundredth", taken[tenth // 10 :])
    early, late = f"memory {memory:.0f} MB after 5,000 passes", f"{resident():.0f} MB at the end"
    print(f"    rows {planner.state.jobs.rows:,}; {early}, {late}")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "kept"
        begin = time.perf_counter()
        save(planner, file, {})
        middle = time.perf_counter()
        load(file, epoch)
        print(
            f"    on the disk {file.stat().st_size / 1e6:.1f} MB: written in {(middle - begin) * 1e3:.0f} ms, "
            f"read in {(time.perf_counter() - middle) * 1e3:.0f} ms"
        )


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=1_000_000)
    parser.add_argument("--open", type=int, default=1_000)
    parser.add_argument("--policy", nargs="+", default=["easy", "conservative", "easy-sjf", "2tsb"])
    asked = parser.parse_args()
    for policy in asked.policy:
        run(policy, asked.jobs, asked.open)


if __name__ == "__main__":
    main()
