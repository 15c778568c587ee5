"""The yardsticks: dedicated C++ loops of EASY, compiled when needed and run on arrays.

cpp/easy.cpp walks its queue, cpp/deep.cpp searches it by a tree; both give the same schedule.

    python benchmarks/baseline.py [REPEATS]

prints its speed on the synthetic workload, and how long the queues are, at each load.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from backfill.model.errors import BackfillError

Ints = NDArray[np.int64]

HERE = Path(__file__).parent
SOURCES = HERE / "cpp"
BUILT = HERE / ".build"
FLAGS = ("-std=c++17", "-O3", "-march=native")


def build(name: str) -> Path:
    """The compiled program, made anew when it is missing or older than a source. `CXX` names the compiler."""
    program, source = BUILT / name, SOURCES / f"{name}.cpp"
    changed = max(path.stat().st_mtime for path in SOURCES.iterdir())
    if not program.exists() or program.stat().st_mtime < changed:
        BUILT.mkdir(exist_ok=True)
        fresh = program.with_suffix(f".{os.getpid()}")
        command = [os.environ.get("CXX", "c++"), *FLAGS, "-o", str(fresh), str(source)]
        try:
            subprocess.run(command, check=True, capture_output=True, text=True)
        except OSError as error:
            raise BackfillError(f"{command[0]} cannot be run ({error.strerror}); CXX names another compiler") from error
        except subprocess.CalledProcessError as error:
            raise BackfillError(f"{' '.join(command)} failed:\n{error.stderr}") from error
        fresh.replace(program)  # whole or not at all, also when two processes build at once
    return program


def run(
    submit: Ints, runtime: Ints, walltime: Ints, procs: Ints, cpus: int, *, repeats: int = 1, name: str = "easy"
) -> tuple[Ints, list[float]]:
    """Start of every job under EASY, and the seconds that each repeat of the loop took.

    The arrays have one row per job in file order, times in any one unit. The queue is in order of submit, then file
    order. A job larger than `cpus` gets the start -2^62 (`backfill.model.schedule.NO_TIME`).
    """
    order = np.argsort(submit, kind="stable")
    with tempfile.TemporaryDirectory() as folder:
        jobs, result = Path(folder, "jobs"), Path(folder, "starts")
        np.stack([column[order] for column in (submit, runtime, walltime, procs)]).astype(np.int64).tofile(jobs)
        command = [str(build(name)), str(jobs), str(result), str(cpus), str(repeats)]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        starts = np.empty(len(order), np.int64)
        starts[order] = np.fromfile(result, np.int64)
    return starts, [float(line) for line in done.stdout.split()]


def population(begin: Ints, end: Ints) -> tuple[float, int]:
    """Mean over time and peak of the number of jobs between `begin` and `end`; of two at one instant, ends go first."""
    instants = np.concatenate([end, begin])
    order = np.argsort(instants, kind="stable")
    step = np.concatenate([np.full(len(end), -1), np.full(len(begin), 1)])[order]
    span = int(instants.max() - instants.min())
    return float((end - begin).sum()) / max(span, 1), max(0, int(np.cumsum(step).max()))


def main(repeats: int) -> None:
    from workloads import LOADS, synthetic

    print("load   jobs/s (best)   mean queue  max queue   mean running  max running")
    for load in LOADS[:3]:
        workload = synthetic(load)
        jobs, cpus = workload.jobs, workload.cpus
        assert cpus is not None
        starts, seconds = run(jobs.submit, jobs.runtime, jobs.walltime, jobs.procs, cpus, repeats=repeats)
        ends = starts + np.minimum(jobs.runtime, jobs.walltime)
        queue, running = population(jobs.submit, starts), population(starts, ends)
        print(
            f"{load:<6} {len(jobs) / min(seconds):>13,.0f} {queue[0]:>12,.1f} {queue[1]:>10,}"
            f" {running[0]:>14,.1f} {running[1]:>12,}",
            flush=True,
        )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
