"""Throughput on a real Slurm: 200 jobs of 10 s on 4 nodes of 4 cpus, by Slurm's own scheduler and by a queue.

Jobs of one cpu, all submitted at once; what is told is the time from the first submit to the last end, as the jobs
themselves have written it down. Needs root and Slurm's packages; takes six minutes.

    python benchmarks/slurm_throughput.py [--jobs N] [--seconds S] [--policy NAME]
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.real import slurm

CPUS = 4


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=200)
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--policy", default="easy")
    given = parser.parse_args()
    if slurm.missing(accounting=False):
        sys.exit(f"a real Slurm {slurm.missing(accounting=False)}")
    slurm.CPUS = CPUS
    ideal = -(-given.jobs // (slurm.NODES * CPUS)) * given.seconds
    print(f"{given.jobs} jobs of {given.seconds} s on {slurm.NODES * CPUS} cpus: at least {ideal} s; load {load()}")
    native = measured(given.jobs, given.seconds, "")
    print(f"sched/backfill alone: {native:.1f} s; load {load()}", flush=True)
    ours = measured(given.jobs, given.seconds, given.policy)
    print(f"queue with {given.policy}: {ours:.1f} s, {100 * (ours / native - 1):+.1f}%; load {load()}")


def measured(jobs: int, seconds: int, policy: str) -> float:
    """Seconds from the first submit to the last end; policy: of a queue that starts the jobs, if there is one."""
    with tempfile.TemporaryDirectory(prefix="slurm-") as folder, slurm.running(Path(folder), accounting=False) as there:
        ends = Path(folder) / "ends"
        script = f"sleep {seconds}; date +%s.%N >> {ends}"
        with queue(there, policy) if policy else nobody():
            begun = time.time()
            for _ in range(jobs):
                there.submit("-n1", "-t", "1", "--wrap", script)
            while not ends.exists() or ends.read_text().count("\n") < jobs:
                time.sleep(0.5)
        return max(map(float, ends.read_text().split())) - begun


@contextmanager
def nobody() -> Iterator[None]:
    yield


@contextmanager
def queue(there: slurm.Slurm, policy: str) -> Iterator[None]:
    """A queue that starts the jobs of this Slurm, which the submit filter hands to it."""
    home = there.folder / "queue"
    env = os.environ | {"SLURM_CONF": str(there.folder / "slurm.conf"), "BACKFILL_HOME": str(home)}

    def backfill(*words: str) -> str:
        done = subprocess.run([sys.executable, "-m", "backfill", *words], env=env, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"backfill {' '.join(words)}: {done.stderr}")
        return done.stdout

    def found() -> list[dict[str, str]]:
        done = subprocess.run([sys.executable, "-m", "backfill", "doctor", "--json"], env=env, capture_output=True)
        return list(json.loads(done.stdout)["findings"])

    (there.folder / "job_submit.lua").write_text(backfill("pool", "setup", "--print", "--part", "filter"))
    with (there.folder / "slurm.conf").open("a") as conf:
        conf.write("JobSubmitPlugins=lua\n")
    there.run("scontrol", "reconfigure")
    backfill("serve", "--pool", "slurm", "--policy", policy, "--detach")
    try:
        while not any(one["check"] == "planner" and one["verdict"] == "ok" for one in found()):
            time.sleep(1)
        yield
    finally:
        backfill("serve", "--stop")


def load() -> str:
    return f"{os.getloadavg()[0]:.1f}"


if __name__ == "__main__":
    main()
